//! A model kept at the weights that each request wants, and threads to sample it on.
//!
//! Rollout workers sample the policy and evaluators the generator with the same [`Engine`]: it
//! fetches the wanted version by digest if it does not have it, and runs one group on one thread
//! at a time, away from the async runtime.
//!
//! Invariant: what an engine samples depends on the request alone, never on what else it runs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lm::compute::Compute;
use lm::folder::{FolderError, Lm};
use lm::sampler::{SampleError, Sampled, Sampler};
use lm::template::TemplateError;
use lm::tensors::{NamedTensor, TensorError};
use lm::tokenizer::Tokenizer;
use proto::convert::Malformed;
use proto::pb;
use proto::status::{Code, to_status};
use rl::{Rollout, WeightRef, WeightVersion};
use tokio::sync::Semaphore;
use weights::{WeightStore, WeightsError, fetch};

/// Versions kept in memory: the one in use and those an audit compares it with.
const RESIDENT: usize = 6;

/// Versions kept on disk.
const CACHED: usize = 2;

/// One actor's model in a worker.
#[derive(Debug)]
pub struct Engine {
    base: Lm,
    store: WeightStore,
    deadline: Duration,
    /// Newest use last.
    resident: tokio::sync::Mutex<VecDeque<(WeightRef, Arc<Sampler>)>>,
    permits: Semaphore,
    idle: Mutex<Vec<Compute>>,
}

/// Where an engine finds its model and how much it may use.
#[derive(Debug)]
pub struct Config<'a> {
    /// The folder of the starting weights: gives the architecture and the tokenizer.
    pub model: &'a Path,
    /// Where fetched weights are kept; they are served from here, too.
    pub cache: WeightStore,
    /// Groups computed at once, a thread each.
    pub threads: usize,
    /// How long one call for weights may take.
    pub deadline: Duration,
}

/// A request that an engine cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request is not one.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The weights are not to be had.
    #[error("cannot get the weights {weights}")]
    Fetch {
        /// Which.
        weights: WeightRef,
        /// Why.
        source: WeightsError,
    },
    /// The weights are of another model.
    #[error("the weights {weights} do not fit the model")]
    Misfit {
        /// Which.
        weights: WeightRef,
        /// Why.
        source: TensorError,
    },
    /// The prompt cannot be written for the model.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The group cannot be sampled.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The process has no more threads to give.
    #[error("cannot compute: a thread could not be had or died")]
    Thread,
}

impl EngineError {
    /// The kind of failure.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Malformed(_) | Self::Template(_) | Self::Sample(_) => Code::InvalidArgument,
            Self::Fetch { source, .. } if source.is_retryable() => Code::Unavailable,
            Self::Fetch { .. } | Self::Misfit { .. } => Code::FailedPrecondition,
            Self::Thread => Code::ResourceExhausted,
        }
    }
}

impl From<EngineError> for tonic::Status {
    fn from(error: EngineError) -> Self {
        to_status(error.code(), &error)
    }
}

impl Engine {
    /// Loads the architecture and the tokenizer and starts the threads.
    ///
    /// # Errors
    /// If the model folder is missing or broken.
    pub fn open(config: Config<'_>) -> Result<Self, FolderError> {
        let base = Lm::load(config.model)?;
        let idle = (0..config.threads.max(1))
            .filter_map(|_| Compute::new(1).ok())
            .collect();
        let engine = Self {
            base,
            store: config.cache,
            deadline: config.deadline,
            resident: tokio::sync::Mutex::default(),
            permits: Semaphore::new(config.threads.max(1)),
            idle: Mutex::new(idle),
        };
        Ok(engine)
    }

    /// The model's tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.base.tokenizer
    }

    /// The number of token ids the model knows.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.base.decoder.config().vocab_size
    }

    /// The wanted weights, ready to sample from, and the time it took to get them.
    ///
    /// # Errors
    /// If no source has them, or they are of another model.
    pub async fn sampler(
        &self,
        wanted: pb::WeightsWanted,
    ) -> Result<(WeightRef, Arc<Sampler>, Duration), EngineError> {
        let start = Instant::now();
        let (weights, sources) = runtime::weight_service::sources(wanted, self.deadline)?;
        // Held while fetching: whoever wants the same version waits for it instead of fetching too.
        let mut resident = self.resident.lock().await;
        if let Some(at) = resident.iter().position(|(held, _)| *held == weights) {
            let found = resident.remove(at).map(|(_, sampler)| sampler);
            if let Some(sampler) = found {
                resident.push_back((weights, Arc::clone(&sampler)));
                return Ok((weights, sampler, start.elapsed()));
            }
        }
        let manifest = fetch(&self.store, &sources, weights)
            .await
            .map_err(|source| EngineError::Fetch { weights, source })?;
        let tensors = manifest.tensors.iter().map(|entry| {
            let bytes = self.store.tensor(entry)?;
            Ok(NamedTensor {
                name: entry.name.clone(),
                shape: entry.shape.clone(),
                bytes,
            })
        });
        let tensors = tensors
            .collect::<Result<Vec<_>, WeightsError>>()
            .map_err(|source| EngineError::Fetch { weights, source })?;
        let decoder = self
            .base
            .decoder
            .import(tensors)
            .map_err(|source| EngineError::Misfit { weights, source })?;
        let sampler = Arc::new(Sampler::new(&decoder));
        resident.push_back((weights, Arc::clone(&sampler)));
        if resident.len() > RESIDENT {
            resident.pop_front();
        }
        let kept: Vec<WeightRef> = resident.iter().map(|(held, _)| *held).collect();
        if let Err(error) = self.store.prune(CACHED, &kept) {
            tracing::warn!(%error, "old weights could not be removed");
        }
        tracing::debug!(weight_version = weights.version.0, "weights loaded");
        Ok((weights, sampler, start.elapsed()))
    }

    /// Runs a job on a compute thread once one is free, and answers what it made and how long the
    /// job itself took.
    ///
    /// # Errors
    /// If the thread died.
    pub async fn compute<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<(R, Duration), EngineError> {
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| EngineError::Thread)?;
        let thread = self.lock_idle().pop().ok_or(EngineError::Thread)?;
        let done = tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            let result = thread.map(vec![job], |job| job()).pop();
            (thread, result, start.elapsed())
        });
        let (thread, result, took) = done.await.map_err(|_| EngineError::Thread)?;
        self.lock_idle().push(thread);
        Ok((result.ok_or(EngineError::Thread)?, took))
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Compute>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sampled completion as a rollout.
    #[must_use]
    pub fn rollout(&self, sampled: Sampled, version: WeightVersion, eos: u32) -> Rollout {
        let text: Vec<u32> = sampled
            .tokens
            .iter()
            .copied()
            .filter(|&t| t != eos)
            .collect();
        Rollout {
            text: self.tokenizer().decode(&text),
            tokens: sampled.tokens,
            logprobs: sampled.logprobs,
            allowed: sampled.allowed,
            finish: sampled.finish,
            version,
        }
    }
}
