//! From rubrics to scores of completions, and to rewards of the rubrics themselves.

use lm::sampler::Sampled;
use proto::convert::judged_rubric;
use proto::pb;
use proto::pb::evaluate_group_response::Outcome;
use rl::reward::AnchorLoss;
use rl::score::{abstained_fraction, scores};
use rl::{Anchor, Seed, Stream};
use rubric::reward::{self, Guards, group_rewards, judge_rubric, rubric_reward};
use rubric::verifier::BadFlipRate;
use rubric::{ProgramVerifier, judge_matrix};
use runtime::config;

use crate::writer::{Writer, Written, guards};

/// Judges by the program verifier.
#[derive(Debug)]
pub struct Judge {
    verifier: ProgramVerifier,
    guards: Guards,
    loss: AnchorLoss,
}

/// The rewards of a group's rubrics.
#[derive(Debug, Default)]
pub struct Rewards {
    /// `(R_disc, R_anchor)` of each rubric; nothing for one that could not be scored.
    pub rewards: Vec<Option<(f64, f64)>>,
    /// Rubrics that could not be read.
    pub parse_failures: u32,
    /// The share of verdicts that are missing.
    pub abstained_fraction: f64,
    /// The number of items of each readable rubric.
    pub items: Vec<u32>,
}

impl Judge {
    /// Reads the settings.
    ///
    /// # Errors
    /// If the flip rate is no rate.
    pub fn new(run: &config::Config) -> Result<Self, BadFlipRate> {
        Ok(Self {
            verifier: ProgramVerifier::new(run.verifier.flip_rate)?,
            guards: guards(&run.generator),
            loss: run.generator.anchor_loss,
        })
    }

    /// Scores a policy group by the rubric written for it; `clean` is without random flips.
    pub fn score(
        &self,
        written: &Written,
        group: &pb::GroupText,
        seed: Seed,
        clean: bool,
    ) -> Outcome {
        let Some((rubric, source)) = &written.rubric else {
            return Outcome::Unscorable(format!(
                "none of {} rubrics could be read and there is no other for this prompt",
                written.attempts
            ));
        };
        let seed = seed.child(Stream::VerdictFlips as u64);
        let verifier = if clean { ProgramVerifier::default() } else { self.verifier };
        let verdicts = judge_matrix(&verifier, rubric, &group.prompt, &group.completions, seed);
        let scores = match scores(rubric, &verdicts) {
            Ok(scores) => scores,
            Err(error) => return Outcome::Unscorable(error.to_string()),
        };
        let json = serde_json::to_string(rubric).expect("a rubric is made of text and numbers");
        let origin = serde_json::to_value(source).expect("a source has a name");
        Outcome::Scored(pb::Scored {
            judged: Some(judged_rubric(json, &verdicts)),
            scores,
            origin: origin.as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Rewards each sampled rubric of a rubric group.
    pub fn reward(
        &self,
        writer: &Writer,
        sampled: &[Sampled],
        group: (&Anchor, &[String]),
        seed: Seed,
    ) -> Rewards {
        let mut found = Rewards::default();
        let mut abstained = Vec::new();
        let seed = seed.child(Stream::VerdictFlips as u64);
        let mut outcomes = Vec::new();
        for (sampled, g) in sampled.iter().zip(0..) {
            let Ok(rubric) = writer.parse(sampled) else {
                outcomes.push(reward::Outcome::Invalid);
                continue;
            };
            let judged = judge_rubric(&self.verifier, &rubric, group, self.guards, seed.child(g));
            abstained.push(abstained_fraction(&judged.completions));
            found.items.push(rubric.items.len() as u32);
            let reward = rubric_reward(&rubric, &judged, &group.0.ranks, self.loss, self.guards);
            outcomes
                .push(reward.map_or_else(reward::Outcome::Unscorable, reward::Outcome::Rewarded));
        }
        let rewards = group_rewards(&outcomes, &group.0.ranks, self.loss);
        found.parse_failures = rewards.invalid;
        found.rewards = rewards.rewards;
        found.abstained_fraction = abstained.iter().sum::<f64>() / abstained.len().max(1) as f64;
        found
    }
}

#[cfg(test)]
mod tests {
    use rl::{Check, Polarity, Rubric, RubricItem};
    use rubric::fallback::Source;

    use super::*;

    #[test]
    fn clean_scores_are_without_flips() {
        let mut run = config::Config::default();
        run.verifier.flip_rate = 0.4;
        let judge = Judge::new(&run).unwrap();
        let item = RubricItem {
            criterion: "red".into(),
            weight: 1,
            polarity: Polarity::Positive,
            check: Some(Check::Contains { text: "red".into() }),
        };
        let rubric = Some((Rubric { items: vec![item] }, Source::Written));
        let written = Written { rubric, attempts: 1, parse_failures: 0 };
        let completions = vec!["The red kite is over there.".to_owned(); 32];
        let group = pb::GroupText { prompt: "Write.".into(), completions };
        let scores = |clean| {
            let seed = Seed::new(1, Stream::AuditTokens);
            match judge.score(&written, &group, seed, clean) {
                Outcome::Scored(scored) => scored.scores,
                Outcome::Unscorable(why) => panic!("{why}"),
            }
        };
        assert_eq!(scores(true), [1.0; 32]);
        let flipped = scores(false).iter().filter(|&&score| score == 0.0).count();
        assert!((4..24).contains(&flipped), "{flipped} of 32 flipped");
    }
}
