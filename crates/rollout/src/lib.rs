//! The rollout worker: samples groups of completions from the policy.
//!
//! One thing per call, and nothing remembered that cannot be lost: `Config -> bind -> run`. A
//! request names its weights and its seed, so any worker gives the same answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use engine::{Engine, EngineError};
use lm::draw::SamplingParams;
use lm::template;
use proto::convert::Malformed;
use proto::pb;
use proto::pb::rollout_service_server::{RolloutService, RolloutServiceServer};
use rl::Seed;
use runtime::worker::{Bound, Worker, WorkerError};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use weights::WeightStore;

/// What a rollout worker is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Unique among workers.
    pub worker_id: String,
    /// The run's configuration.
    pub run: Arc<runtime::config::Config>,
    /// Where the worker keeps fetched weights.
    pub cache: PathBuf,
}

/// A rollout worker that has its model and its port.
#[derive(Debug)]
pub struct RolloutWorker {
    bound: Bound,
    service: Service,
    store: WeightStore,
}

/// Loads the model and takes the port.
///
/// # Errors
/// If the model folder is broken or the port is taken.
pub async fn bind(config: Config) -> Result<RolloutWorker, WorkerError> {
    let services = &config.run.services;
    let store = WeightStore::open(&config.cache)?;
    let threads = services.compute_threads();
    let engine = Engine::open(engine::Config {
        model: &config.run.policy.model,
        cache: store.clone(),
        threads,
        deadline: services.deadline(),
    })
    .map_err(WorkerError::other)?;
    let worker = Worker {
        id: config.worker_id,
        role: pb::Role::Rollout,
        // One group more for each thread than it computes, so none waits for the wire.
        slots: 2 * threads as u32,
        initial_weights: Vec::new(),
    };
    let bound = Bound::new(worker, services.rollout, &config.run).await?;
    Ok(RolloutWorker { bound, service: Service { engine: Arc::new(engine) }, store })
}

impl RolloutWorker {
    /// Serves until `shutdown`.
    ///
    /// # Errors
    /// If the coordinator refuses the worker, or the server fails.
    pub async fn run(self, shutdown: runtime::shutdown::Shutdown) -> Result<(), WorkerError> {
        let service = RolloutServiceServer::new(self.service)
            .max_decoding_message_size(proto::MAX_MESSAGE_BYTES)
            .max_encoding_message_size(proto::MAX_MESSAGE_BYTES);
        let weights = runtime::weight_service::weight_service(self.store);
        self.bound.run(shutdown, Routes::new(service).add_service(weights)).await
    }
}

#[derive(Debug)]
struct Service {
    engine: Arc<Engine>,
}

#[tonic::async_trait]
impl RolloutService for Service {
    async fn generate_group(
        &self,
        request: Request<pb::GenerateGroupRequest>,
    ) -> Result<Response<pb::GenerateGroupResponse>, Status> {
        Ok(Response::new(self.generate(request.into_inner()).await?))
    }
}

impl Service {
    async fn generate(
        &self,
        request: pb::GenerateGroupRequest,
    ) -> Result<pb::GenerateGroupResponse, EngineError> {
        let start = Instant::now();
        let tokenizer = self.engine.tokenizer();
        let prompt = template::policy_prompt(tokenizer, &request.prompt)?;
        let sampling = request.sampling.ok_or_else(|| Malformed::absent("sampling"))?;
        let params = SamplingParams {
            temperature: sampling.temperature.into(),
            top_p: sampling.top_p.into(),
            top_k: sampling.top_k as usize,
            max_tokens: sampling.max_tokens as usize,
            stop: vec![self.engine.eos()],
        };
        let wanted = request.weights.ok_or_else(|| Malformed::absent("weights"))?;
        let (weights, sampler, fetch) = self.engine.sampler(wanted).await?;
        let (seed, size) = (Seed::from_u64(request.seed), request.group_size as usize);
        let tokens = prompt.clone();
        let (sampled, model) =
            self.engine.compute(move || sampler.sample(&tokens, size, &params, seed)).await?;
        let rollouts = sampled?
            .into_iter()
            .map(|sampled| self.engine.rollout(sampled, weights.version).into())
            .collect();
        Ok(pb::GenerateGroupResponse {
            lease: request.lease,
            prompt_tokens: prompt,
            rollouts,
            timing: Some(pb::Timing {
                fetch: fetch.as_secs_f64(),
                model: model.as_secs_f64(),
                judge: 0.0,
                total: start.elapsed().as_secs_f64(),
            }),
        })
    }
}
