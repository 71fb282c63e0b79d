//! Between decisions and calls: an action of the ledger becomes a call of a worker, and the
//! worker's answer becomes an event.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ledger::{Conditioning, Event, Failure, Lease, Rewards, StepDone};
use proto::convert::{self, Malformed};
use proto::pb;
use proto::pb::evaluate_group_response::Outcome;
use proto::pb::evaluator_service_client::EvaluatorServiceClient;
use proto::pb::learner_service_client::LearnerServiceClient;
use proto::pb::rollout_service_client::RolloutServiceClient;
use proto::pb::train_step_request::Part;
use proto::status::Code;
use rl::{Actor, Anchor, GroupId, Prompt, Rollout, Seed, Stream, TrainGroup, WeightRef};
use runtime::config::Config;
use runtime::grpc::{CallError, call};
use tonic::transport::Channel;

use crate::sound::sound;

/// What is held of a group while it is open: nothing of it is persisted.
#[derive(Debug, Default)]
pub struct Payload {
    /// The group's prompt.
    pub prompt: Option<Prompt>,
    /// Completions of the policy, with the tokens they continue.
    pub completions: Option<Sampled>,
    /// Rubrics of the generator, with the tokens they continue; for rubric groups.
    pub rubrics: Option<Sampled>,
}

/// Rollouts of one prompt.
#[derive(Debug, Clone)]
pub struct Sampled {
    /// The tokens that all rollouts continue.
    pub prompt: Vec<u32>,
    /// The rollouts.
    pub rollouts: Vec<Rollout>,
}

impl Payload {
    /// The completions' texts.
    pub fn texts(&self) -> Vec<String> {
        let sampled = self.completions.iter().flat_map(|sampled| &sampled.rollouts);
        sampled.map(|rollout| rollout.text.clone()).collect()
    }
}

/// The payloads of all open groups.
pub type Payloads = HashMap<GroupId, Payload>;

/// What came back of a call.
#[derive(Debug)]
pub struct Answer {
    /// The call's lease.
    pub lease: Lease,
    /// When it was made.
    pub begun: Instant,
    /// When it was answered.
    pub ended: Instant,
    /// The answer itself.
    pub reply: Result<Reply, CallError>,
}

/// A worker's answer.
#[derive(Debug)]
pub enum Reply {
    /// Completions.
    Rolled(pb::GenerateGroupResponse),
    /// Scores.
    Evaluated(pb::EvaluateGroupResponse),
    /// Rubrics with rewards.
    Proposed(pb::ProposeRubricsResponse),
    /// New weights.
    Trained(pb::TrainStepResponse),
}

impl Reply {
    /// Where the worker's time went.
    pub fn timing(&self) -> pb::Timing {
        let timing = match self {
            Self::Rolled(reply) => reply.timing,
            Self::Evaluated(reply) => reply.timing,
            Self::Proposed(reply) => reply.timing,
            Self::Trained(reply) => reply.timing,
        };
        timing.unwrap_or_default()
    }
}

/// A call on its way.
pub type Call = BoxFuture<'static, Answer>;

/// A call to a worker, to be polled by the driver. An answer that does not hold what was asked for
/// is a failed call, which another worker may do better.
pub fn place(lease: Lease, channel: Channel, deadline: Duration, request: Request) -> Call {
    let what = format!("{} on {}", lease.work, lease.worker);
    Box::pin(async move {
        let begun = Instant::now();
        let asked = request.count();
        let reply = send(&what, channel, deadline, request).await;
        let reply = reply.and_then(|reply| match sound(&reply, asked) {
            Ok(()) => Ok(reply),
            Err(malformed) => {
                Err(CallError { what, code: Code::DataLoss, message: malformed.to_string() })
            }
        });
        Answer { lease, begun, ended: Instant::now(), reply }
    })
}

/// What is asked of a worker.
#[derive(Debug)]
pub enum Request {
    /// Sample completions.
    Rollout(pb::GenerateGroupRequest),
    /// Score them.
    Evaluate(pb::EvaluateGroupRequest),
    /// Write rubrics for them.
    Propose(pb::ProposeRubricsRequest),
    /// Make a step: its header, then its groups.
    Train(pb::TrainStepHeader, Vec<TrainGroup>),
}

impl Request {
    /// How many completions, scores, rubrics or groups the answer is about.
    fn count(&self) -> usize {
        match self {
            Self::Rollout(request) => request.group_size as usize,
            Self::Evaluate(request) => request.group.iter().map(|g| g.completions.len()).sum(),
            Self::Propose(request) => request.rubrics as usize,
            Self::Train(_, groups) => groups.len(),
        }
    }
}

async fn send(
    what: &str,
    channel: Channel,
    deadline: Duration,
    request: Request,
) -> Result<Reply, CallError> {
    match request {
        Request::Rollout(request) => {
            let mut client = RolloutServiceClient::new(channel)
                .max_decoding_message_size(proto::MAX_MESSAGE_BYTES);
            call(what, deadline, client.generate_group(request)).await.map(Reply::Rolled)
        }
        Request::Evaluate(request) => {
            let mut client = EvaluatorServiceClient::new(channel)
                .max_decoding_message_size(proto::MAX_MESSAGE_BYTES);
            call(what, deadline, client.evaluate_group(request)).await.map(Reply::Evaluated)
        }
        Request::Propose(request) => {
            let mut client = EvaluatorServiceClient::new(channel)
                .max_decoding_message_size(proto::MAX_MESSAGE_BYTES);
            call(what, deadline, client.propose_rubrics(request)).await.map(Reply::Proposed)
        }
        Request::Train(header, groups) => {
            let mut client = LearnerServiceClient::new(channel);
            let header = std::iter::once(Part::Header(header));
            let groups = groups.into_iter().map(|group| Part::Group(group.into()));
            let parts = header.chain(groups).map(|part| pb::TrainStepRequest { part: Some(part) });
            let stream = tokio_stream::iter(parts.collect::<Vec<_>>());
            call(what, deadline, client.train_step(stream)).await.map(Reply::Trained)
        }
    }
}

/// The lease as it travels.
pub fn lease(lease: &Lease) -> pb::Lease {
    pb::Lease { id: lease.id.0, attempt: lease.attempt.0 }
}

/// What the generator is shown, as it travels.
pub fn conditioning(conditioning: Conditioning) -> i32 {
    match conditioning {
        Conditioning::Group => pb::Conditioning::Group,
        Conditioning::PromptOnly => pb::Conditioning::PromptOnly,
    }
    .into()
}

/// What an answer is worth to the ledger, and what it leaves to be held or measured.
pub struct Reading {
    /// The event.
    pub event: Event,
    /// What a group's payload gains.
    pub gain: Option<Gain>,
}

/// What a group's payload gains by an answer.
pub enum Gain {
    /// Completions.
    Completions(Sampled),
    /// Rubrics.
    Rubrics(Sampled),
}

/// Reads an answer; what is malformed counts as a failed call.
pub fn read(answer: &Answer) -> Reading {
    let id = answer.lease.id;
    let (event, gain) = match &answer.reply {
        Err(error) => {
            let failure = Failure { retryable: error.is_retryable(), reason: error.to_string() };
            (failed(&answer.lease, failure), None)
        }
        Ok(Reply::Rolled(reply)) => match sampled(&reply.prompt_tokens, &reply.rollouts) {
            Ok(sampled) => {
                let oldest = sampled.rollouts.iter().map(|rollout| rollout.version).min();
                let outcome = oldest.ok_or_else(|| failure("no completions"));
                let event = Event::RolloutFinished { lease: id, outcome };
                (event, Some(Gain::Completions(sampled)))
            }
            Err(error) => (failed(&answer.lease, failure(error)), None),
        },
        Ok(Reply::Evaluated(reply)) => (
            Event::EvaluationFinished {
                lease: id,
                outcome: match &reply.outcome {
                    Some(Outcome::Scored(scored)) => Ok(Rewards::Scores(scored.scores.clone())),
                    Some(Outcome::Unscorable(why)) => Ok(Rewards::Unscorable(why.clone())),
                    None => Err(failure("no outcome")),
                },
            },
            None,
        ),
        Ok(Reply::Proposed(reply)) if reply.rollouts.len() < 2 => {
            let why = "fewer than two rubrics could be scored".to_owned();
            (Event::EvaluationFinished { lease: id, outcome: Ok(Rewards::Unscorable(why)) }, None)
        }
        Ok(Reply::Proposed(reply)) => match sampled(&reply.prompt_tokens, &reply.rollouts) {
            Ok(rubrics) => {
                let (r_disc, r_anchor) = (reply.r_disc.clone(), reply.r_anchor.clone());
                let outcome = Ok(Rewards::Rubric { r_disc, r_anchor });
                let event = Event::EvaluationFinished { lease: id, outcome };
                (event, Some(Gain::Rubrics(rubrics)))
            }
            Err(error) => (failed(&answer.lease, failure(error)), None),
        },
        Ok(Reply::Trained(reply)) => {
            let weights = reply.weights.clone().ok_or_else(|| Malformed::absent("weights"));
            let weights = weights.and_then(WeightRef::try_from);
            let groups = reply.group_ids.iter().copied().map(GroupId).collect();
            let outcome = weights.map(|weights| StepDone { weights, groups }).map_err(failure);
            (Event::StepFinished { lease: id, outcome }, None)
        }
    };
    Reading { event, gain }
}

/// The event that a call failed.
pub fn failed(lease: &Lease, failure: Failure) -> Event {
    let id = lease.id;
    match lease.work.call() {
        ledger::Call::Rollout => Event::RolloutFinished { lease: id, outcome: Err(failure) },
        ledger::Call::Evaluate => Event::EvaluationFinished { lease: id, outcome: Err(failure) },
        ledger::Call::Train => Event::StepFinished { lease: id, outcome: Err(failure) },
    }
}

/// A failure that may pass with another worker.
pub fn failure(reason: impl ToString) -> Failure {
    Failure { retryable: true, reason: reason.to_string() }
}

fn sampled(prompt: &[u32], rollouts: &[pb::Rollout]) -> Result<Sampled, Malformed> {
    Ok(Sampled { prompt: prompt.to_vec(), rollouts: convert::rollouts(rollouts.to_vec())? })
}

/// A call that reaches nobody.
pub fn nobody(lease: Lease) -> Call {
    Box::pin(async move {
        let (now, what) = (Instant::now(), format!("{} on {}", lease.work, lease.worker));
        let (code, message) = (Code::Unavailable, "the worker has left".to_owned());
        Answer { lease, begun: now, ended: now, reply: Err(CallError { what, code, message }) }
    })
}

/// How the policy is sampled.
pub fn sampling(policy: &runtime::config::Policy) -> pb::SamplingParams {
    pb::SamplingParams {
        temperature: policy.temperature as f32,
        top_p: policy.top_p as f32,
        top_k: policy.top_k,
        max_tokens: policy.max_tokens,
    }
}

/// Weights and who has them.
pub fn wanted(weights: WeightRef, sources: Vec<String>) -> pb::WeightsWanted {
    pb::WeightsWanted { weights: Some(weights.into()), sources }
}

/// The request for a group's completions.
pub fn rollout_request(
    run: &Config,
    lease: &Lease,
    (group, prompt): (GroupId, &Prompt),
    sources: Vec<String>,
) -> Request {
    let group = group.0;
    Request::Rollout(pb::GenerateGroupRequest {
        lease: Some(self::lease(lease)),
        group_id: group,
        prompt: prompt.text.clone(),
        group_size: run.batch.group_size,
        sampling: Some(sampling(&run.policy)),
        seed: Seed::new(run.run.seed, Stream::PolicyTokens).child(group).to_u64(),
        weights: Some(wanted(lease.weights, sources)),
    })
}

/// What an evaluator is asked about.
pub struct Asked<'a> {
    /// The group's id: what is drawn for it depends on it.
    pub id: GroupId,
    /// The prompt and its completions.
    pub group: pb::GroupText,
    /// The prompt's ranked answers; asks for rubrics instead of scores.
    pub anchor: Option<&'a Anchor>,
    /// What the generator is shown.
    pub conditioning: Conditioning,
}

/// The request for a group's scores, or for rubrics with rewards.
pub fn evaluate_request(
    run: &Config,
    lease: &Lease,
    asked: Asked<'_>,
    sources: Vec<String>,
) -> Request {
    let group_id = asked.id.0;
    let seed = Seed::new(run.run.seed, Stream::GeneratorTokens).child(group_id).to_u64();
    let generator = Some(wanted(lease.weights, sources));
    let conditioning = self::conditioning(asked.conditioning);
    let (lease, group) = (Some(self::lease(lease)), Some(asked.group));
    match asked.anchor {
        None => Request::Evaluate(pb::EvaluateGroupRequest {
            lease,
            group_id,
            group,
            conditioning,
            generator,
            seed,
            clean: false,
        }),
        Some(anchor) => Request::Propose(pb::ProposeRubricsRequest {
            lease,
            group_id,
            group,
            conditioning,
            generator,
            seed,
            rubrics: run.generator.rubrics_per_group,
            anchor_answers: anchor.answers.clone(),
            anchor_ranks: anchor.ranks.clone(),
        }),
    }
}

/// What a step needs besides its groups.
pub struct StepNeeds {
    /// The temperature its rollouts were sampled at.
    pub temperature: f32,
    /// Versions that must stay available.
    pub keep: Vec<WeightRef>,
}

/// The request for a step on groups with their advantages.
///
/// # Panics
/// If a group's rollouts are not held: the ledger trains on evaluated groups only.
pub fn train_request(
    lease: &Lease,
    groups: Vec<(GroupId, Vec<f32>)>,
    payloads: &Payloads,
    needs: StepNeeds,
) -> Request {
    let ledger::Work::Train(step) = lease.work else {
        unreachable!("a learner is given steps only");
    };
    let header = pb::TrainStepHeader {
        lease: Some(self::lease(lease)),
        step: step.0,
        base: Some(lease.weights.into()),
        group_ids: groups.iter().map(|(group, _)| group.0).collect(),
        keep: needs.keep.into_iter().map(Into::into).collect(),
    };
    let group = |(id, advantages): (GroupId, Vec<f32>)| {
        let payload = payloads.get(&id).expect("a group in training is open");
        let sampled = match lease.weights.actor {
            Actor::Policy => &payload.completions,
            Actor::Generator => &payload.rubrics,
        };
        let sampled = sampled.clone().expect("a group in training was sampled");
        TrainGroup {
            id,
            prompt: sampled.prompt,
            rollouts: sampled.rollouts,
            advantages,
            temperature: needs.temperature,
        }
    };
    Request::Train(header, groups.into_iter().map(group).collect())
}
