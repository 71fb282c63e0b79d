//! One actor in training: its weights, its optimiser, and what it has published.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lm::compute::Compute;
use lm::folder::{FolderError, Lm};
use lm::objective::Objective;
use lm::optimizer::{AdamWConfig, AdamWState, Schedule};
use lm::tensors::{NamedTensor, TensorError};
use lm::trainer::{StepMetrics, TrainError, Trainer, TrainerConfig};
use proto::status::Code;
use rl::{Actor, Digest, GroupId, StepId, TrainGroup, WeightRef, WeightVersion};
use runtime::config;
use runtime::weight_service;
use serde::{Deserialize, Serialize};
use weights::{Dtype, Kind, Publication, Tensor, WeightManifest, WeightStore, WeightsError};

/// Versions that stay available besides those a step asks to keep.
const KEEP_LAST: usize = 3;

/// Versions between two removals of old ones.
const PRUNE_EVERY: u64 = 16;

/// The key of a manifest's extra under which a step describes itself.
const STEP: &str = "step";

/// The key of a manifest's extra that holds names and shapes of the optimiser's tensors, which are
/// kept in one: a hundred small files a step would cost more than the step's arithmetic.
const LAYOUT: &str = "layout";

/// An actor in training.
#[derive(Debug)]
pub struct Student {
    actor: Actor,
    trainer: Trainer,
    /// What the trainer's weights are; nothing where they are not published.
    current: Option<WeightRef>,
    initial: WeightRef,
    model: Digest,
    objective: Objective,
    learning_rate: Schedule,
    store: WeightStore,
}

/// A step to make.
#[derive(Debug)]
pub struct Step {
    /// Its number in the run.
    pub step: StepId,
    /// The weights it starts from.
    pub base: WeightRef,
    /// In the order in which their gradients are summed.
    pub groups: Vec<TrainGroup>,
    /// Versions that must stay available.
    pub keep: Vec<WeightRef>,
}

/// A step that was made and published.
#[derive(Debug)]
pub struct Done {
    /// The new weights.
    pub weights: WeightRef,
    /// By name.
    pub metrics: BTreeMap<String, f64>,
    /// Time spent computing; zero where the step had been made before.
    pub model: Duration,
}

/// What a step writes into its manifest, to know itself again.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StepStamp {
    step: StepId,
    base: WeightRef,
    groups: Vec<GroupId>,
    metrics: BTreeMap<String, f64>,
}

/// A step that cannot be made. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StudentError {
    /// The starting weights are broken.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The weights to start from are not here, or the new ones cannot be written.
    #[error("step {step:?} from {base}")]
    Weights {
        /// The step.
        step: StepId,
        /// The weights it starts from.
        base: WeightRef,
        /// Why.
        source: WeightsError,
    },
    /// The starting weights cannot be published.
    #[error("publish the starting weights of the {actor}")]
    Initial {
        /// Whose.
        actor: Actor,
        /// Why.
        source: WeightsError,
    },
    /// The weights published are of another model.
    #[error("{base} does not fit the model")]
    Misfit {
        /// The weights.
        base: WeightRef,
        /// Why.
        source: TensorError,
    },
    /// The optimiser's state of a version is missing.
    #[error("{base} has no optimiser state beside it: a step cannot go on from it")]
    NoOptimizer {
        /// The weights.
        base: WeightRef,
    },
    /// The step itself failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// This learner does not train the actor.
    #[error("this run does not train the {0}")]
    NotTrained(Actor),
    /// The thread died.
    #[error("the training thread died")]
    Died,
}

impl StudentError {
    /// The kind of failure.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Train(_) => Code::InvalidArgument,
            Self::Weights { source, .. } => match weight_service::code(source) {
                // Not here now; a repaired folder or another learner may have it.
                Code::NotFound => Code::Unavailable,
                code => code,
            },
            Self::Died => Code::Internal,
            _ => Code::FailedPrecondition,
        }
    }
}

impl Student {
    /// Loads the starting weights and publishes them as v0; a repeat changes nothing.
    ///
    /// # Errors
    /// If the model folder is broken or the weights cannot be written.
    pub fn open(
        actor: Actor,
        run: &config::Config,
        store: WeightStore,
        compute: Arc<Compute>,
    ) -> Result<Self, StudentError> {
        let settings = Settings::of(actor, run);
        let lm = Lm::load(settings.model)?;
        let model = weights::digest(lm.decoder.config().to_json().as_bytes());
        let trainer = Trainer::new(lm.decoder, settings.trainer, compute);
        let publication = Publication {
            actor,
            version: WeightVersion(0),
            kind: Kind::Weights,
            model,
            step: None,
            extra: BTreeMap::new(),
            tensors: trainer.model().export().into_iter().map(tensor).collect(),
        };
        let initial =
            store.publish(publication).map_err(|source| StudentError::Initial { actor, source })?;
        let (objective, learning_rate) = (settings.objective, settings.learning_rate);
        let current = Some(initial);
        Ok(Self { actor, trainer, current, initial, model, objective, learning_rate, store })
    }

    /// Which actor.
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// The starting weights.
    pub fn initial(&self) -> WeightRef {
        self.initial
    }

    /// Makes a step and publishes what it made, or finds that it has.
    ///
    /// # Errors
    /// See [`StudentError`]; nothing is published then.
    pub fn step(&mut self, step: &Step) -> Result<Done, StudentError> {
        if let Some(done) = self.made_before(step)? {
            return Ok(done);
        }
        if self.current != Some(step.base) {
            self.go_back_to(step)?;
        }
        let begin = Instant::now();
        let rate = self.learning_rate.at(step.base.version.0);
        // Until what it made is published the trainer is ahead of what others can see, and after a
        // panic it may be anywhere.
        self.current = None;
        let made = self.trainer.step(&step.groups, &self.objective, rate);
        if made.is_err() {
            // A step that is refused changes nothing.
            self.current = Some(step.base);
        }
        let made = made?;
        let model = begin.elapsed();
        let metrics = named(self.actor, &made, rate);
        let stamp = StepStamp {
            step: step.step,
            base: step.base,
            groups: step.groups.iter().map(|group| group.id).collect(),
            metrics: metrics.clone(),
        };
        let weights = self.publish(step, &stamp).map_err(|source| StudentError::Weights {
            step: step.step,
            base: step.base,
            source,
        })?;
        self.current = Some(weights);
        Ok(Done { weights, metrics, model })
    }

    /// Removes old versions, except `keep`, when there are many; to be called after a step that
    /// was made. Removing files is slow on some disks, so nobody should wait for it.
    pub fn prune(&self, keep: &[WeightRef]) {
        let is_time = |weights: WeightRef| weights.version.0.is_multiple_of(PRUNE_EVERY);
        if self.current.is_some_and(is_time)
            && let Err(error) = self.store.prune(KEEP_LAST, keep)
        {
            tracing::warn!(%error, "old weights could not be removed");
        }
    }

    /// What the step made, if it was published already. Another step's weights under its version
    /// number were never recorded by the coordinator: they are withdrawn.
    fn made_before(&self, step: &Step) -> Result<Option<Done>, StudentError> {
        let failed = |source| StudentError::Weights { step: step.step, base: step.base, source };
        let version = step.base.version.next();
        let found = self.store.find(self.actor, version, Kind::Weights).map_err(failed)?;
        let Some(manifest) = found else {
            return Ok(None);
        };
        let stamp = manifest.extra.get(STEP).cloned();
        let stamp = stamp.and_then(|value| serde_json::from_value::<StepStamp>(value).ok());
        let groups = step.groups.iter().map(|group| group.id);
        match stamp {
            Some(stamp)
                if (stamp.step, stamp.base) == (step.step, step.base)
                    && stamp.groups.iter().copied().eq(groups)
                    && self.is_whole(&manifest).map_err(failed)? =>
            {
                tracing::info!(step = step.step.0, "step was made before, answering it again");
                let weights = manifest.reference();
                Ok(Some(Done { weights, metrics: stamp.metrics, model: Duration::ZERO }))
            }
            _ => {
                tracing::warn!(step = step.step.0, %version, "withdrawing an unrecorded version");
                self.store.withdraw(self.actor, version).map_err(failed)?;
                Ok(None)
            }
        }
    }

    /// Whether all of a version is there: its weights, and the optimiser's state beside them.
    fn is_whole(&self, weights: &WeightManifest) -> Result<bool, WeightsError> {
        let Ok(Some(state)) = self.store.find(self.actor, weights.version, Kind::Optimizer) else {
            return Ok(false);
        };
        Ok(self.store.missing(weights)?.is_empty() && self.store.missing(&state)?.is_empty())
    }

    /// Takes up the weights and the optimiser's state that were published as the step's base.
    fn go_back_to(&mut self, step: &Step) -> Result<(), StudentError> {
        let base = step.base;
        let failed = |source| StudentError::Weights { step: step.step, base, source };
        let misfit = |source| StudentError::Misfit { base, source };
        tracing::info!(weight_version = base.version.0, "taking up published weights");
        let manifest = self.store.resolve(base).map_err(failed)?;
        let decoder = self.trainer.model().import(self.read(&manifest).map_err(failed)?);
        let decoder = decoder.map_err(misfit)?;
        let state = match self.store.find(self.actor, base.version, Kind::Optimizer) {
            Ok(Some(manifest)) => Some(AdamWState {
                steps: base.version.0,
                tensors: unpack(&manifest, &self.read(&manifest).map_err(failed)?)
                    .ok_or(StudentError::NoOptimizer { base })?,
            }),
            Ok(None) if base.version == WeightVersion(0) => None,
            Ok(None) => return Err(StudentError::NoOptimizer { base }),
            Err(source) => return Err(failed(source)),
        };
        self.current = None;
        self.trainer.restore(decoder, state).map_err(misfit)?;
        self.current = Some(base);
        Ok(())
    }

    fn read(&self, manifest: &WeightManifest) -> Result<Vec<NamedTensor>, WeightsError> {
        let read = |entry: &weights::TensorEntry| {
            let bytes = self.store.tensor(entry)?;
            Ok(NamedTensor { name: entry.name.clone(), shape: entry.shape.clone(), bytes })
        };
        manifest.tensors.iter().map(read).collect()
    }

    fn publish(&self, step: &Step, stamp: &StepStamp) -> Result<WeightRef, WeightsError> {
        let publication = |kind, tensors: Vec<NamedTensor>, extra| Publication {
            actor: self.actor,
            version: step.base.version.next(),
            kind,
            model: self.model,
            step: Some(step.step.0),
            extra,
            tensors: tensors.into_iter().map(tensor).collect(),
        };
        let state = || {
            let (state, layout) = pack(&self.trainer.export_state().tensors);
            let layout = BTreeMap::from([(LAYOUT.to_owned(), layout)]);
            self.store.stage(publication(Kind::Optimizer, vec![state], layout))
        };
        let weights = || {
            let stamp = serde_json::to_value(stamp).expect("a stamp is made of numbers and names");
            let extra = BTreeMap::from([(STEP.to_owned(), stamp)]);
            self.store.stage(publication(Kind::Weights, self.trainer.model().export(), extra))
        };
        // All workers wait for this: the tensors are written side by side.
        let (state, weights) = thread::scope(|scope| {
            let state = scope.spawn(state);
            let weights = weights();
            (state.join().unwrap_or_else(|panic| resume_unwind(panic)), weights)
        });
        let (state, weights) = (state?, weights?);
        state.publish()?;
        weights.publish()
    }
}

/// What the configuration says of an actor.
struct Settings<'a> {
    model: &'a std::path::Path,
    trainer: TrainerConfig,
    objective: Objective,
    learning_rate: Schedule,
}

impl<'a> Settings<'a> {
    fn of(actor: Actor, run: &'a config::Config) -> Self {
        let (derived, optimizer) = (run.derived(), &run.optimizer);
        let (model, peak, kl_beta, total) = match actor {
            Actor::Policy => {
                let policy = &run.policy;
                (&policy.model, policy.learning_rate, policy.kl_coef, derived.policy.steps)
            }
            Actor::Generator => {
                let generator = &run.generator;
                let total = derived.generator.steps;
                (&generator.model, generator.learning_rate, generator.kl_coef, total)
            }
        };
        Self {
            model,
            trainer: TrainerConfig {
                adamw: AdamWConfig {
                    beta1: optimizer.beta1,
                    beta2: optimizer.beta2,
                    epsilon: optimizer.epsilon,
                    weight_decay: optimizer.weight_decay,
                },
                max_grad_norm: optimizer.max_grad_norm,
            },
            objective: Objective {
                clip_low: run.objective.clip_low,
                clip_high: run.objective.clip_high,
                kl_beta,
                aggregation: run.objective.aggregation,
            },
            learning_rate: Schedule {
                peak,
                warmup: optimizer.warmup_steps.into(),
                total,
                shape: optimizer.schedule,
                floor: 0.0,
            },
        }
    }
}

/// All tensors one after the other, and their names and shapes.
fn pack(tensors: &[NamedTensor]) -> (NamedTensor, serde_json::Value) {
    let layout: Vec<(&str, &[usize])> =
        tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
    let bytes = tensors.iter().map(|tensor| &tensor.bytes[..]).collect::<Vec<_>>().concat();
    let layout = serde_json::to_value(layout).expect("names and numbers have a form");
    (
        NamedTensor { name: "adamw".to_owned(), shape: vec![bytes.len() / 4], bytes: bytes.into() },
        layout,
    )
}

/// The inverse of [`pack`]; nothing where bytes and layout do not fit together.
fn unpack(manifest: &WeightManifest, packed: &[NamedTensor]) -> Option<Vec<NamedTensor>> {
    let layout = manifest.extra.get(LAYOUT)?.clone();
    let layout: Vec<(String, Vec<usize>)> = serde_json::from_value(layout).ok()?;
    let mut bytes = packed.first()?.bytes.clone();
    let mut tensors = Vec::new();
    for (name, shape) in layout {
        let length = 4 * shape.iter().product::<usize>();
        if length > bytes.len() {
            return None;
        }
        tensors.push(NamedTensor { name, shape, bytes: bytes.split_to(length) });
    }
    bytes.is_empty().then_some(tensors)
}

fn tensor(named: NamedTensor) -> Tensor {
    Tensor { name: named.name, shape: named.shape, dtype: Dtype::F32, data: named.bytes }
}

/// The metrics of a step by the names of docs/metrics.md; what was not measured is left out.
fn named(actor: Actor, made: &StepMetrics, rate: f64) -> BTreeMap<String, f64> {
    [
        ("loss", Some(made.loss)),
        ("kl", made.kl),
        ("entropy", Some(made.entropy)),
        ("clip_fraction", Some(made.clip_fraction)),
        ("mismatch_kl", Some(made.mismatch_kl)),
        ("ratio_mean", Some(made.ratio_mean)),
        ("ratio_deviation", Some(made.ratio_deviation)),
        ("grad_norm", Some(made.grad_norm)),
        ("tokens", Some(made.tokens as f64)),
        ("learning_rate", Some(rate)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((format!("{actor}/{name}"), value?)))
    .collect()
}
