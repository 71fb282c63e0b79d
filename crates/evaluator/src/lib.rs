//! The evaluator: has the generator write rubrics for groups of completions, and judges by them.
//!
//! One thing per call, and nothing remembered that cannot be lost: `Config -> bind -> run`. A
//! request names the generator's weights and its seed, so any evaluator gives the same answer.
//!
//! Reading order: this file (the service), [`scorer`] (who scores in the generator's stead in a
//! baseline), `writer` (from a group to a rubric), `judge` (from rubrics to scores and rewards).
//!
//! Invariant: the evaluator cannot reach the hidden gold score. Only a [`Scorer`] that the process
//! was given from outside may, and only where the configuration asks for such an oracle.

mod judge;
pub mod scorer;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Engine, EngineError};
use proto::convert::Malformed;
use proto::pb;
use proto::pb::evaluator_service_server::{EvaluatorService, EvaluatorServiceServer};
use proto::status::{Code, to_status};
use rl::Seed;
use runtime::config::EvaluatorKind;
use runtime::shutdown::Shutdown;
use runtime::worker::{Bound, Worker, WorkerError};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use weights::WeightStore;

use judge::Judge;
pub use scorer::Scorer;
use writer::Writer;

/// What an evaluator is told.
#[derive(Clone)]
pub struct Config {
    /// Unique among workers.
    pub worker_id: String,
    /// The run's configuration.
    pub run: Arc<runtime::config::Config>,
    /// Where the evaluator keeps fetched weights.
    pub cache: PathBuf,
    /// Scores instead of the generator's rubrics, where `evaluator.kind` is not `dynamic`.
    pub scorer: Option<Arc<dyn Scorer>>,
}

/// An evaluator that has its model and its port.
pub struct Evaluator {
    bound: Bound,
    service: Service,
    store: WeightStore,
}

/// Loads the generator and takes the port.
///
/// # Errors
/// If the model folder is broken, its tokenizer is another world's, or the port is taken.
pub async fn bind(config: Config) -> Result<Evaluator, WorkerError> {
    let run = &config.run;
    let threads = run.services.compute_threads();
    let store = WeightStore::open(&config.cache)?;
    let scores = match (run.evaluator.kind, config.scorer) {
        (EvaluatorKind::Dynamic, _) => {
            let engine = Engine::open(engine::Config {
                model: &run.generator.model,
                cache: store.clone(),
                threads,
                deadline: run.services.deadline(),
            })
            .map_err(WorkerError::other)?;
            let writer = Writer::new(&engine, run).map_err(WorkerError::other)?;
            let judge = Judge::new(run).map_err(WorkerError::other)?;
            Scores::Rubrics { engine, writer: Arc::new(writer), judge: Arc::new(judge) }
        }
        (_, Some(scorer)) => Scores::Scorer(scorer),
        (kind, None) => return Err(WorkerError::other(NoScorer(kind))),
    };
    let worker = Worker {
        id: config.worker_id,
        role: pb::Role::Evaluator,
        // One group more for each thread than it computes, so none waits for the wire.
        slots: 2 * threads as u32,
        initial_weights: Vec::new(),
    };
    let bound = Bound::new(worker, run.services.evaluator, run).await?;
    Ok(Evaluator { bound, service: Service { scores }, store })
}

impl Evaluator {
    /// Serves until `shutdown`.
    ///
    /// # Errors
    /// If the coordinator refuses the worker, or the server fails.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), WorkerError> {
        let service = EvaluatorServiceServer::new(self.service)
            .max_decoding_message_size(proto::MAX_MESSAGE_BYTES)
            .max_encoding_message_size(proto::MAX_MESSAGE_BYTES);
        let weights = runtime::weight_service::weight_service(self.store);
        self.bound.run(shutdown, Routes::new(service).add_service(weights)).await
    }
}

#[derive(Debug, thiserror::Error)]
#[error("evaluator.kind = {0:?}: this process was given no scorer of that kind")]
struct NoScorer(EvaluatorKind);

struct Service {
    scores: Scores,
}

/// Where scores come from.
enum Scores {
    Rubrics { engine: Engine, writer: Arc<Writer>, judge: Arc<Judge> },
    Scorer(Arc<dyn Scorer>),
}

/// A group that the evaluator cannot work on.
#[derive(Debug, thiserror::Error)]
enum EvaluateError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Prompt(#[from] writer::PromptError),
    #[error("no rubrics are written where evaluator.kind is not dynamic")]
    NoGenerator,
}

impl From<EvaluateError> for Status {
    fn from(error: EvaluateError) -> Self {
        let code = match &error {
            EvaluateError::Engine(engine) => engine.code(),
            EvaluateError::NoGenerator => Code::FailedPrecondition,
            EvaluateError::Malformed(_) | EvaluateError::Prompt(_) => Code::InvalidArgument,
        };
        to_status(code, &error)
    }
}

#[tonic::async_trait]
impl EvaluatorService for Service {
    async fn evaluate_group(
        &self,
        request: Request<pb::EvaluateGroupRequest>,
    ) -> Result<Response<pb::EvaluateGroupResponse>, Status> {
        Ok(Response::new(self.evaluate(request.into_inner()).await?))
    }

    async fn propose_rubrics(
        &self,
        request: Request<pb::ProposeRubricsRequest>,
    ) -> Result<Response<pb::ProposeRubricsResponse>, Status> {
        Ok(Response::new(self.propose(request.into_inner()).await?))
    }
}

impl Service {
    async fn evaluate(
        &self,
        request: pb::EvaluateGroupRequest,
    ) -> Result<pb::EvaluateGroupResponse, EvaluateError> {
        let start = Instant::now();
        let (conditioning, clean) = (request.conditioning(), request.clean);
        let group = request.group.ok_or_else(|| Malformed::absent("group"))?;
        let seed = Seed::from_u64(request.seed);
        let (engine, writer, judge) = match &self.scores {
            Scores::Rubrics { engine, writer, judge } => (engine, writer, judge),
            Scores::Scorer(scorer) => {
                let outcome = scorer::outcome(&**scorer, &group, seed);
                let timing = timing(start, Duration::ZERO, Duration::ZERO, start.elapsed());
                return Ok(pb::EvaluateGroupResponse {
                    lease: request.lease,
                    outcome: Some(outcome),
                    parse_failures: 0,
                    rubrics_written: 0,
                    timing,
                });
            }
        };
        let asked = writer.ask((&group.prompt, &group.completions), conditioning)?;
        let wanted = request.generator.ok_or_else(|| Malformed::absent("generator"))?;
        let (_, sampler, fetch) = engine.sampler(wanted).await?;
        let (writer, judge) = (Arc::clone(writer), Arc::clone(judge));
        let job = move || {
            let begin = Instant::now();
            let written = writer.write_one(&sampler, &asked, seed)?;
            let model = begin.elapsed();
            let outcome = judge.score(&written, &group, seed, clean);
            Ok::<_, EngineError>((outcome, written.attempts, written.parse_failures, model))
        };
        let (result, took) = engine.compute(job).await?;
        let (outcome, rubrics_written, parse_failures, model) = result?;
        Ok(pb::EvaluateGroupResponse {
            lease: request.lease,
            outcome: Some(outcome),
            parse_failures,
            rubrics_written,
            timing: timing(start, fetch, model, took - model),
        })
    }

    async fn propose(
        &self,
        request: pb::ProposeRubricsRequest,
    ) -> Result<pb::ProposeRubricsResponse, EvaluateError> {
        let start = Instant::now();
        let Scores::Rubrics { engine, writer, judge } = &self.scores else {
            return Err(EvaluateError::NoGenerator);
        };
        let conditioning = request.conditioning();
        let group = request.group.ok_or_else(|| Malformed::absent("group"))?;
        if request.anchor_answers.len() != request.anchor_ranks.len() {
            let found = request.anchor_ranks.len();
            return Err(Malformed::new("anchor_ranks", "one for each answer", found).into());
        }
        let anchor = rl::Anchor {
            prompt: rl::Prompt { id: String::new(), text: group.prompt.clone() },
            answers: request.anchor_answers,
            ranks: request.anchor_ranks,
        };
        let seen = writer.seen(&group.completions);
        let asked = writer.ask((&group.prompt, seen), conditioning)?;
        let prompt_tokens = asked.prompt.clone();
        let wanted = request.generator.ok_or_else(|| Malformed::absent("generator"))?;
        let (weights, sampler, fetch) = engine.sampler(wanted).await?;
        let (writer, judge) = (Arc::clone(writer), Arc::clone(judge));
        let (seed, count) = (Seed::from_u64(request.seed), request.rubrics as usize);
        let job = move || {
            let begin = Instant::now();
            let sampled = writer.sample(&sampler, &asked, seed, count)?;
            let model = begin.elapsed();
            let rewards = judge.reward(&writer, &sampled, (&anchor, &group.completions), seed);
            Ok::<_, EngineError>((sampled, rewards, model))
        };
        let (result, took) = engine.compute(job).await?;
        let (sampled, rewards, model) = result?;
        let rollout = |sampled| engine.rollout(sampled, weights.version).into();
        let kept = sampled.into_iter().zip(&rewards.rewards).filter(|(_, r)| r.is_some());
        Ok(pb::ProposeRubricsResponse {
            lease: request.lease,
            prompt_tokens,
            rollouts: kept.map(|(sampled, _)| rollout(sampled)).collect(),
            r_disc: rewards.rewards.iter().flatten().map(|r| r.0).collect(),
            r_anchor: rewards.rewards.iter().flatten().map(|r| r.1).collect(),
            parse_failures: rewards.parse_failures,
            abstained_fraction: rewards.abstained_fraction,
            items: rewards.items,
            timing: timing(start, fetch, model, took - model),
        })
    }
}

fn timing(start: Instant, fetch: Duration, model: Duration, judge: Duration) -> Option<pb::Timing> {
    Some(pb::Timing {
        fetch: fetch.as_secs_f64(),
        model: model.as_secs_f64(),
        judge: judge.as_secs_f64(),
        total: start.elapsed().as_secs_f64(),
    })
}
