//! The look from outside: the policy sampled on held-out prompts, and what each generator makes of
//! the samples. Texts and scores go to `audit.jsonl`; gold is added by whoever may see it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::{self, StreamExt};
use ledger::{AuditMoment, AuditPoint, Conditioning, Role};
use proto::convert;
use proto::pb;
use proto::pb::evaluate_group_response::Outcome;
use proto::pb::evaluator_service_client::EvaluatorServiceClient;
use proto::pb::rollout_service_client::RolloutServiceClient;
use rl::{Actor, Prompt, Seed, Stream, WeightRef};
use runtime::config::Config;
use runtime::grpc::{CallError, Retry, call};
use tokio::sync::watch;

use crate::crew::Session;
use crate::journal::{AuditEvaluation, AuditGroup, AuditLine};
use crate::work;

/// How often a call of an audit is made before its group is left out.
const RETRY: Retry = Retry { attempts: 8, first_wait: Duration::from_millis(100) };

/// An audit to make: everything it needs, so that it can run beside the driver.
pub struct Audit {
    /// The run's configuration.
    pub run: Arc<Config>,
    /// The held-out prompts.
    pub heldout: Arc<Vec<Prompt>>,
    /// Who is there, kept up to date by the driver.
    pub crew: watch::Receiver<Roster>,
    /// When in the run.
    pub point: AuditPoint,
    /// The policy to sample.
    pub policy: WeightRef,
    /// G_0 .. G_t; empty where no generator is at work.
    pub generators: Vec<WeightRef>,
    /// What the generator is shown.
    pub conditioning: Conditioning,
    /// Earlier audits.
    pub earlier: Vec<AuditLine>,
}

/// The workers an audit may call.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    /// Rollout workers and evaluators.
    pub sessions: Vec<Session>,
    /// Where weights are to be had.
    pub sources: Vec<String>,
}

impl Audit {
    /// Makes the audit. It never fails: what could not be had is said in the line.
    pub async fn make(self) -> Vec<AuditLine> {
        match self.point.moment {
            AuditMoment::PhaseEnd { trained: Actor::Generator } => self.by_new_generator().await,
            AuditMoment::Start | AuditMoment::PhaseEnd { .. } => {
                vec![self.of_policy(&self.generators).await]
            }
            AuditMoment::Within => {
                let newest = self.generators.last().copied();
                vec![self.of_policy(newest.as_slice()).await]
            }
        }
    }

    /// Samples the policy, and has some of the groups judged by each of `generators`.
    async fn of_policy(&self, generators: &[WeightRef]) -> AuditLine {
        let calls: Vec<_> = self
            .heldout
            .iter()
            .enumerate()
            .map(|(index, prompt)| self.sample(index, prompt).boxed())
            .collect();
        let sampled: Vec<Result<AuditGroup, CallError>> =
            stream::iter(calls).buffered(self.at_once(Role::Rollout)).collect().await;
        let mut line = self.line();
        for group in sampled {
            match group {
                Ok(group) => line.groups.push(group),
                Err(error) => line.failure = Some(error.to_string()),
            }
        }
        self.judge(&mut line, generators).await;
        line
    }

    /// Has the samples of every earlier policy judged by the newest generator: a column of the
    /// staleness matrix.
    async fn by_new_generator(&self) -> Vec<AuditLine> {
        let Some(newest) = self.generators.last() else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        let whole = |line: &&AuditLine| matches!(line.moment.as_str(), "start" | "policy");
        for earlier in self.earlier.iter().filter(whole) {
            let groups = earlier.groups.iter().filter(|group| self.judged_as(group).is_some());
            let mut line = AuditLine {
                policy_version: earlier.policy_version,
                groups: groups
                    .map(|group| AuditGroup { evaluations: Vec::new(), ..group.clone() })
                    .collect(),
                ..self.line()
            };
            self.judge(&mut line, &[*newest]).await;
            lines.push(line);
        }
        lines
    }

    async fn judge(&self, line: &mut AuditLine, generators: &[WeightRef]) {
        for &generator in generators {
            let calls: Vec<_> = line
                .groups
                .iter()
                .filter_map(|group| Some((self.judged_as(group)?, group)))
                .map(|(index, group)| self.evaluate(index, group, generator).boxed())
                .collect();
            let judged: Vec<Result<AuditEvaluation, CallError>> =
                stream::iter(calls).buffered(self.at_once(Role::Evaluator)).collect().await;
            let asked = line.groups.iter_mut().filter(|group| self.judged_as(group).is_some());
            for (group, evaluation) in asked.zip(judged) {
                match evaluation {
                    Ok(evaluation) => group.evaluations.push(evaluation),
                    Err(error) => line.failure = Some(error.to_string()),
                }
            }
        }
    }

    async fn sample(&self, index: usize, prompt: &Prompt) -> Result<AuditGroup, CallError> {
        let request = pb::GenerateGroupRequest {
            lease: None,
            group_id: index as u64,
            prompt: prompt.text.clone(),
            group_size: self.run.audit.samples_per_prompt,
            sampling: Some(work::sampling(&self.run.policy)),
            seed: self.seed(self.policy, index),
            weights: None,
        };
        let reply = RETRY
            .run(async || {
                let (session, what, sources) = self.pick(Role::Rollout, index)?;
                let request = pb::GenerateGroupRequest {
                    weights: Some(work::wanted(self.policy, sources)),
                    ..request.clone()
                };
                let mut client = RolloutServiceClient::new(session.channel)
                    .max_decoding_message_size(proto::MAX_MESSAGE_BYTES);
                call(&what, self.run.services.deadline(), client.generate_group(request)).await
            })
            .await?;
        Ok(AuditGroup {
            prompt_id: prompt.id.clone(),
            prompt: prompt.text.clone(),
            tokens: reply.rollouts.iter().map(|r| r.tokens.len() as u32).collect(),
            completions: reply.rollouts.into_iter().map(|rollout| rollout.text).collect(),
            evaluations: Vec::new(),
        })
    }

    async fn evaluate(
        &self,
        index: usize,
        group: &AuditGroup,
        generator: WeightRef,
    ) -> Result<AuditEvaluation, CallError> {
        let request = pb::EvaluateGroupRequest {
            lease: None,
            group_id: index as u64,
            group: Some(pb::GroupText {
                prompt: group.prompt.clone(),
                completions: group.completions.clone(),
            }),
            conditioning: work::conditioning(self.conditioning),
            generator: None,
            seed: self.seed(generator, index),
            // It is the generator that is looked at, not the noise of the judge.
            clean: true,
        };
        let reply = RETRY
            .run(async || {
                let (session, what, sources) = self.pick(Role::Evaluator, index)?;
                let request = pb::EvaluateGroupRequest {
                    generator: Some(work::wanted(generator, sources)),
                    ..request.clone()
                };
                let mut client = EvaluatorServiceClient::new(session.channel);
                call(&what, self.run.services.deadline(), client.evaluate_group(request)).await
            })
            .await?;
        let mut evaluation = AuditEvaluation {
            generator_version: generator.version.0,
            rubric: None,
            verdicts: Vec::new(),
            scores: Vec::new(),
        };
        if let Some(Outcome::Scored(scored)) = reply.outcome {
            evaluation.scores = scored.scores;
            let judged = scored.judged.unwrap_or_default();
            evaluation.rubric = serde_json::from_str(&judged.rubric).ok();
            if let Some(rubric) = &evaluation.rubric {
                evaluation.verdicts = convert::verdicts(&judged, rubric).unwrap_or_default();
            }
        }
        Ok(evaluation)
    }

    /// The same weights get the same draws on the same prompt, wherever in the run they are audited.
    fn seed(&self, weights: WeightRef, index: usize) -> u64 {
        let stream = Seed::new(self.run.run.seed, Stream::AuditTokens);
        let actor = stream.child(weights.actor as u64).child(weights.version.0);
        actor.child(index as u64).to_u64()
    }

    /// The `index`-th worker of a role, around and around.
    fn pick(&self, role: Role, index: usize) -> Result<(Session, String, Vec<String>), CallError> {
        let roster = self.crew.borrow().clone();
        let of_role: Vec<Session> =
            roster.sessions.into_iter().filter(|session| session.role == role).collect();
        let what = format!("audit at {}: prompt {index}", self.point);
        let Some(session) = of_role.get(index % of_role.len().max(1)).cloned() else {
            return Err(CallError {
                what,
                code: proto::status::Code::Unavailable,
                message: format!("there is no {role}"),
            });
        };
        let what = format!("{what} on {}", session.worker);
        Ok((session, what, roster.sources))
    }

    fn at_once(&self, role: Role) -> usize {
        let roster = self.crew.borrow();
        let slots = roster.sessions.iter().filter(|s| s.role == role).map(|s| s.slots);
        slots.sum::<usize>().max(1)
    }

    /// The index under which a group is judged, if it is.
    fn judged_as(&self, group: &AuditGroup) -> Option<usize> {
        let matrix = self.run.audit.matrix_prompts as usize;
        place(&self.heldout[..matrix.min(self.heldout.len())], group)
    }

    fn line(&self) -> AuditLine {
        AuditLine {
            step: self.point.step.0,
            round: self.point.round.0,
            moment: match self.point.moment {
                AuditMoment::Start => "start",
                AuditMoment::Within => "within",
                AuditMoment::PhaseEnd { trained: Actor::Policy } => "policy",
                AuditMoment::PhaseEnd { trained: Actor::Generator } => "generator",
            }
            .to_owned(),
            policy_version: self.policy.version.0,
            generator_versions: self.generators.iter().map(|g| g.version.0).collect(),
            groups: Vec::new(),
            failure: None,
        }
    }
}

/// Where the prompt of a group is among `prompts`. It is known by its id: where the samples of an
/// earlier prompt failed, the groups of a line are fewer than the prompts, and the draws for a
/// prompt must not depend on that.
fn place(prompts: &[Prompt], group: &AuditGroup) -> Option<usize> {
    prompts.iter().position(|prompt| prompt.id == group.prompt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_keeps_its_place_when_one_before_it_failed() {
        let prompt = |id: &str| Prompt { id: id.into(), text: format!("Write {id}.") };
        let prompts = ["a", "b", "c", "d"].map(prompt);
        let group = |id: &str| AuditGroup {
            prompt_id: id.into(),
            prompt: format!("Write {id}."),
            completions: Vec::new(),
            tokens: Vec::new(),
            evaluations: Vec::new(),
        };
        // The samples of "a" failed; the first three prompts are judged.
        let groups = ["b", "c", "d"].map(group);
        let places: Vec<_> = groups.iter().map(|group| place(&prompts[..3], group)).collect();
        assert_eq!(places, [Some(1), Some(2), None]);
    }
}
