//! A model kept at the weights that each request wants, and threads to sample it on.
//!
//! Rollout workers sample the policy and evaluators the generator with the same [`Engine`]: it
//! fetches the wanted version by digest if it does not have it, and runs one group on one thread
//! at a time, away from the async runtime.
//!
//! Invariant: what an engine samples depends on the request alone, never on what else it runs.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lm::compute::Compute;
use lm::folder::{FolderError, Lm};
use lm::sampler::{SampleError, Sampled, Sampler};
use lm::template::{self, TemplateError};
use lm::tensors::{NamedTensor, TensorError};
use lm::tokenizer::Tokenizer;
use proto::convert::Malformed;
use proto::pb;
use proto::status::{Code, to_status};
use rl::{Rollout, WeightRef, WeightVersion};
use runtime::weight_service;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use weights::{Fetched, WeightStore, WeightsError, fetch};

/// Versions kept in memory: the one in use and those an audit compares it with.
const RESIDENT: usize = 6;

/// Versions kept on disk.
const CACHED: usize = 2;

/// Versions loaded between two removals of old ones: removing files is slow on some disks.
const PRUNE_EVERY: usize = 16;

/// One actor's model in a worker.
#[derive(Debug)]
pub struct Engine {
    base: Arc<Lm>,
    eos: u32,
    store: WeightStore,
    deadline: Duration,
    resident: tokio::sync::Mutex<Resident>,
    /// As many as there are threads: whoever holds one finds a thread idle.
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Compute>>>,
}

/// What is in memory.
#[derive(Debug, Default)]
struct Resident {
    /// Newest use last.
    samplers: VecDeque<(WeightRef, Arc<Sampler>)>,
    /// Versions loaded since the start.
    loaded: usize,
    /// The last of them on its way to the disk: nobody waits for that but the next one.
    writing: Option<JoinHandle<()>>,
}

impl Resident {
    fn find(&mut self, weights: WeightRef) -> Option<Arc<Sampler>> {
        let at = self.samplers.iter().position(|(held, _)| *held == weights)?;
        let found = self.samplers.remove(at)?;
        let sampler = Arc::clone(&found.1);
        self.samplers.push_back(found);
        Some(sampler)
    }

    fn insert(&mut self, weights: WeightRef, sampler: Arc<Sampler>) {
        self.samplers.push_back((weights, sampler));
        if self.samplers.len() > RESIDENT {
            self.samplers.pop_front();
        }
        self.loaded += 1;
    }

    /// Begins to write a version that was loaded. A worker goes on without: a version that is not
    /// on its disk is fetched again after a restart, and no peer can have it from here.
    async fn write(&mut self, fetched: Fetched, store: WeightStore) {
        // Never more than one, so that a slow disk cannot fill the memory.
        if let Some(before) = self.writing.take()
            && let Err(error) = before.await
        {
            tracing::error!(%error, "writing weights died");
        }
        let kept = self.samplers.iter().map(|(held, _)| *held).collect::<Vec<WeightRef>>();
        let is_time_to_prune = self.loaded.is_multiple_of(PRUNE_EVERY);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            if let Err(error) = fetched.keep() {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "weights could not be kept on the disk");
            }
            if is_time_to_prune && let Err(error) = store.prune(CACHED, &kept) {
                tracing::warn!(%error, "old weights could not be removed");
            }
        }));
    }
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

/// A thread on loan: back among the idle ones when dropped, however the job on it ended and whether
/// or not anybody still waits for it.
struct Loan {
    thread: Option<Compute>,
    idle: Arc<Mutex<Vec<Compute>>>,
    /// Given back after the thread: fields go after `drop` has run.
    _permit: OwnedSemaphorePermit,
}

impl Drop for Loan {
    fn drop(&mut self) {
        lock(&self.idle).extend(self.thread.take());
    }
}

/// An engine that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The model folder is missing or broken.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The tokenizer is not one of this program's templates.
    #[error("{}: the tokenizer has no special token {name}", .model.display())]
    NoSpecial {
        /// The model's folder.
        model: PathBuf,
        /// The token.
        name: &'static str,
    },
    /// The system refuses a thread.
    #[error("start compute thread {number} of {threads}: {reason}")]
    Thread {
        /// Which, from 1.
        number: usize,
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
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
    /// The job panicked.
    #[error("cannot compute: the job died")]
    Died,
}

impl EngineError {
    /// The kind of failure.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Malformed(_) | Self::Template(_) | Self::Sample(_) => Code::InvalidArgument,
            Self::Fetch { source, .. } => match weight_service::code(source) {
                // Gone from the cache: the next request fetches it again.
                Code::NotFound => Code::Unavailable,
                code => code,
            },
            Self::Misfit { .. } => Code::FailedPrecondition,
            Self::Died => Code::Internal,
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
    /// If the model folder is missing or broken, or there are not as many threads.
    pub fn open(config: Config<'_>) -> Result<Self, OpenError> {
        let base = Lm::load(config.model)?;
        let no_eos = || OpenError::NoSpecial { model: config.model.into(), name: template::EOS };
        let eos = base.tokenizer.id(template::EOS).ok_or_else(no_eos)?;
        let threads = config.threads.max(1);
        let start = |number| {
            Compute::new(1).map_err(|error| OpenError::Thread {
                number,
                threads,
                reason: error.to_string(),
            })
        };
        let idle = (1..=threads).map(start).collect::<Result<_, _>>()?;
        let engine = Self {
            base: Arc::new(base),
            eos,
            store: config.cache,
            deadline: config.deadline,
            resident: tokio::sync::Mutex::default(),
            permits: Arc::new(Semaphore::new(threads)),
            idle: Arc::new(Mutex::new(idle)),
        };
        Ok(engine)
    }

    /// The model's tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.base.tokenizer
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos(&self) -> u32 {
        self.eos
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
        let (weights, sources) = weight_service::sources(wanted, self.deadline)?;
        // Held while fetching: whoever wants the same version waits for it instead of fetching too.
        let mut resident = self.resident.lock().await;
        if let Some(sampler) = resident.find(weights) {
            return Ok((weights, sampler, start.elapsed()));
        }
        let fetched = fetch(&self.store, &sources, weights)
            .await
            .map_err(|source| EngineError::Fetch { weights, source })?;
        let base = Arc::clone(&self.base);
        let load =
            blocking(move || load(&base, &fetched).map(|sampler| (Arc::new(sampler), fetched)));
        let (sampler, fetched) = load.await??;
        resident.insert(weights, Arc::clone(&sampler));
        resident.write(fetched, self.store.clone()).await;
        tracing::debug!(weight_version = weights.version.0, "weights loaded");
        Ok((weights, sampler, start.elapsed()))
    }

    /// Runs a job on a compute thread once one is free, and answers what it made and how long the
    /// job itself took. A job that began runs to its end even if nobody waits for it any more.
    ///
    /// # Errors
    /// If the job panicked.
    pub async fn compute<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<(R, Duration), EngineError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| EngineError::Died)?;
        let thread = lock(&self.idle).pop();
        let loan = Loan { thread, idle: Arc::clone(&self.idle), _permit: permit };
        let made = blocking(move || {
            let start = Instant::now();
            let thread = loan.thread.as_ref()?;
            let result = thread.map(vec![job], |job| job()).pop()?;
            Some((result, start.elapsed()))
        });
        made.await?.ok_or(EngineError::Died)
    }

    /// A sampled completion as a rollout.
    #[must_use]
    pub fn rollout(&self, sampled: Sampled, version: WeightVersion) -> Rollout {
        let text: Vec<u32> = sampled.tokens.iter().copied().filter(|&t| t != self.eos).collect();
        Rollout {
            text: self.tokenizer().decode_with_specials(&text),
            tokens: sampled.tokens,
            logprobs: sampled.logprobs,
            allowed: sampled.allowed,
            finish: sampled.finish,
            version,
        }
    }
}

/// Fetched weights, ready to sample from.
fn load(base: &Lm, fetched: &Fetched) -> Result<Sampler, EngineError> {
    let weights = fetched.manifest().reference();
    let tensors = fetched.tensors().map(|(entry, bytes)| NamedTensor {
        name: entry.name.clone(),
        shape: entry.shape.clone(),
        bytes,
    });
    let decoder = base.decoder.import(tensors.collect());
    let decoder = decoder.map_err(|source| EngineError::Misfit { weights, source })?;
    Ok(Sampler::new(&decoder))
}

/// Runs a body where it may take its time.
async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EngineError> {
    let joined = tokio::task::spawn_blocking(body).await;
    joined.map_err(|_| EngineError::Died)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
