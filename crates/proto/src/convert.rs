//! Between wire types and `rl`. What comes from the wire is checked here, once.

use rl::{
    Abstention, Actor, Digest, Finish, GroupId, Rollout, Rubric, TokenSet, TrainGroup, Verdict,
    WeightRef, WeightVersion,
};

use crate::pb;

/// A message that does not have the form its service documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed message: {field}: expected {expected}, found {found}")]
pub struct Malformed {
    field: &'static str,
    expected: &'static str,
    found: String,
}

impl Malformed {
    /// `field` does not hold what was `expected`.
    pub fn new(field: &'static str, expected: &'static str, found: impl ToString) -> Self {
        Self { field, expected, found: found.to_string() }
    }

    /// `field` is absent.
    #[must_use]
    pub fn absent(field: &'static str) -> Self {
        Self::new(field, "a value", "nothing")
    }
}

impl From<Actor> for pb::Actor {
    fn from(actor: Actor) -> Self {
        match actor {
            Actor::Policy => Self::Policy,
            Actor::Generator => Self::Generator,
        }
    }
}

impl From<WeightRef> for pb::WeightRef {
    fn from(weights: WeightRef) -> Self {
        Self {
            actor: pb::Actor::from(weights.actor).into(),
            version: weights.version.0,
            digest: weights.digest.0.to_vec(),
        }
    }
}

impl TryFrom<pb::WeightRef> for WeightRef {
    type Error = Malformed;
    fn try_from(weights: pb::WeightRef) -> Result<Self, Malformed> {
        let actor = match weights.actor() {
            pb::Actor::Policy => Actor::Policy,
            pb::Actor::Generator => Actor::Generator,
            pb::Actor::Unspecified => {
                return Err(Malformed::new("weights.actor", "an actor", weights.actor));
            }
        };
        let version = WeightVersion(weights.version);
        Ok(Self { actor, version, digest: digest(&weights.digest)? })
    }
}

/// A digest from the wire.
///
/// # Errors
/// If it is not 32 bytes long.
pub fn digest(bytes: &[u8]) -> Result<Digest, Malformed> {
    let bytes = bytes
        .try_into()
        .map_err(|_| Malformed::new("digest", "32 bytes", format!("{} bytes", bytes.len())))?;
    Ok(Digest(bytes))
}

impl From<Rollout> for pb::Rollout {
    fn from(rollout: Rollout) -> Self {
        Self {
            tokens: rollout.tokens,
            logprobs: rollout.logprobs,
            allowed: rollout.allowed.iter().map(|set| set.as_bytes().to_vec()).collect(),
            text: rollout.text,
            finish: match rollout.finish {
                Finish::Stop => pb::Finish::Stop,
                Finish::Length => pb::Finish::Length,
            }
            .into(),
            version: rollout.version.0,
        }
    }
}

impl TryFrom<pb::Rollout> for Rollout {
    type Error = Malformed;
    fn try_from(rollout: pb::Rollout) -> Result<Self, Malformed> {
        let finish = match rollout.finish() {
            pb::Finish::Stop => Finish::Stop,
            pb::Finish::Length => Finish::Length,
            pb::Finish::Unspecified => {
                return Err(Malformed::new("rollout.finish", "a reason", rollout.finish));
            }
        };
        let n = rollout.tokens.len();
        if rollout.logprobs.len() != n {
            let found = rollout.logprobs.len();
            return Err(Malformed::new("rollout.logprobs", "one for each token", found));
        }
        if !(rollout.allowed.is_empty() || rollout.allowed.len() == n) {
            let found = rollout.allowed.len();
            return Err(Malformed::new("rollout.allowed", "none or one for each token", found));
        }
        Ok(Self {
            tokens: rollout.tokens,
            logprobs: rollout.logprobs,
            allowed: rollout.allowed.into_iter().map(TokenSet::from_bytes).collect(),
            text: rollout.text,
            finish,
            version: WeightVersion(rollout.version),
        })
    }
}

/// Rollouts from the wire.
///
/// # Errors
/// If one of them is malformed.
pub fn rollouts(rollouts: Vec<pb::Rollout>) -> Result<Vec<Rollout>, Malformed> {
    rollouts.into_iter().map(Rollout::try_from).collect()
}

impl From<TrainGroup> for pb::TrainGroup {
    fn from(group: TrainGroup) -> Self {
        Self {
            group_id: group.id.0,
            prompt_tokens: group.prompt,
            rollouts: group.rollouts.into_iter().map(Into::into).collect(),
            advantages: group.advantages,
            temperature: group.temperature,
        }
    }
}

impl TryFrom<pb::TrainGroup> for TrainGroup {
    type Error = Malformed;
    fn try_from(group: pb::TrainGroup) -> Result<Self, Malformed> {
        if group.advantages.len() != group.rollouts.len() {
            let found = group.advantages.len();
            return Err(Malformed::new("group.advantages", "one for each rollout", found));
        }
        if let Some(bad) = group.advantages.iter().find(|a| !a.is_finite()) {
            return Err(Malformed::new("group.advantages", "finite numbers", bad));
        }
        Ok(Self {
            id: GroupId(group.group_id),
            prompt: group.prompt_tokens,
            rollouts: rollouts(group.rollouts)?,
            advantages: group.advantages,
            temperature: group.temperature,
        })
    }
}

impl From<Verdict> for pb::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Met => Self::Met,
            Verdict::Unmet => Self::Unmet,
            Verdict::Abstained(Abstention::NotJudgeable) => Self::NotJudgeable,
            Verdict::Abstained(Abstention::Failed) => Self::Failed,
            Verdict::Abstained(Abstention::Unreadable) => Self::Unreadable,
        }
    }
}

impl TryFrom<pb::Verdict> for Verdict {
    type Error = Malformed;
    fn try_from(verdict: pb::Verdict) -> Result<Self, Malformed> {
        Ok(match verdict {
            pb::Verdict::Met => Self::Met,
            pb::Verdict::Unmet => Self::Unmet,
            pb::Verdict::NotJudgeable => Self::Abstained(Abstention::NotJudgeable),
            pb::Verdict::Failed => Self::Abstained(Abstention::Failed),
            pb::Verdict::Unreadable => Self::Abstained(Abstention::Unreadable),
            pb::Verdict::Unspecified => {
                return Err(Malformed::new("verdict", "a verdict", "unspecified"));
            }
        })
    }
}

/// A rubric and its verdicts (items x completions) for the wire.
#[must_use]
pub fn judged_rubric(rubric_json: String, verdicts: &[Vec<Verdict>]) -> pb::JudgedRubric {
    let row = |row: &Vec<Verdict>| pb::VerdictRow {
        verdicts: row.iter().map(|&v| pb::Verdict::from(v).into()).collect(),
    };
    pb::JudgedRubric { rubric: rubric_json, rows: verdicts.iter().map(row).collect() }
}

/// The verdicts (items x completions) of a judged rubric from the wire.
///
/// # Errors
/// If there is not one row for each item of `rubric`, or a verdict is none.
pub fn verdicts(
    judged: &pb::JudgedRubric,
    rubric: &Rubric,
) -> Result<Vec<Vec<Verdict>>, Malformed> {
    if judged.rows.len() != rubric.items.len() {
        return Err(Malformed::new("judged.rows", "one for each item", judged.rows.len()));
    }
    judged.rows.iter().map(|row| row.verdicts().map(Verdict::try_from).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout() -> Rollout {
        let mut set = TokenSet::empty(10);
        set.insert(4);
        Rollout {
            tokens: vec![4, 5],
            logprobs: vec![-0.5, -1.0],
            allowed: vec![set.clone(), set],
            text: "hi".into(),
            finish: Finish::Stop,
            version: WeightVersion(3),
        }
    }

    #[test]
    fn groups_survive_the_wire() {
        let group = TrainGroup {
            id: GroupId(7),
            prompt: vec![1, 2],
            rollouts: vec![rollout(), rollout()],
            advantages: vec![1.0, -1.0],
            temperature: 0.9,
        };
        assert_eq!(TrainGroup::try_from(pb::TrainGroup::from(group.clone())), Ok(group));
    }

    #[test]
    fn weight_refs_survive_the_wire() {
        for actor in [Actor::Policy, Actor::Generator] {
            let weights = WeightRef { actor, version: WeightVersion(9), digest: Digest([7; 32]) };
            assert_eq!(WeightRef::try_from(pb::WeightRef::from(weights)), Ok(weights));
        }
    }

    #[test]
    fn malformed_messages_say_what_was_expected() {
        let mut short = pb::Rollout::from(rollout());
        short.logprobs.pop();
        let error = Rollout::try_from(short).expect_err("short").to_string();
        assert_eq!(
            error,
            "malformed message: rollout.logprobs: expected one for each token, found 1"
        );
        let mut mask = pb::Rollout::from(rollout());
        mask.allowed.pop();
        assert!(Rollout::try_from(mask).is_err());
        assert!(WeightRef::try_from(pb::WeightRef::default()).is_err());
        let mut group = pb::TrainGroup { advantages: vec![f32::NAN], ..Default::default() };
        assert!(TrainGroup::try_from(group.clone()).is_err());
        group.rollouts.push(rollout().into());
        assert!(TrainGroup::try_from(group).is_err());
        assert!(Verdict::try_from(pb::Verdict::Unspecified).is_err());
    }
}
