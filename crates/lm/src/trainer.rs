//! One optimiser step of an actor, from groups of rollouts with advantages.
//!
//! Each group is a row and a graph of its own. Groups are computed in parallel and their
//! gradients added in their order, so a step gives the same weights, bit for bit, on any number
//! of threads. A step either happens or, with an error, leaves everything as it was.

use std::sync::Arc;

use rl::{GroupId, Rollout, TokenSet, TrainGroup};
use serde::{Deserialize, Serialize};

use crate::compute::Compute;
use crate::logprobs::{self, Scoring, floats};
use crate::model::Decoder;
use crate::objective::{Objective, Sampled, Scale};
use crate::optimizer::{AdamW, AdamWConfig, AdamWState};
use crate::packed::Packed;
use crate::replica::{self, Example, Gradients, Readout};
use crate::tensors::TensorError;

/// A model in training.
#[derive(Debug)]
pub struct Trainer {
    model: Decoder,
    /// The frozen model the penalty of the objective is measured from.
    reference: Decoder,
    optimizer: AdamW,
    max_grad_norm: f64,
    compute: Arc<Compute>,
}

/// Constants of a [`Trainer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainerConfig {
    /// Those of the optimiser.
    pub adamw: AdamWConfig,
    /// The length of all gradients together is cut to this; above 0.
    pub max_grad_norm: f64,
}

impl Default for TrainerConfig {
    fn default() -> Self {
        Self { adamw: AdamWConfig::default(), max_grad_norm: 1.0 }
    }
}

/// What a step did. Means are over all sampled tokens of the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepMetrics {
    /// The loss, as the objective aggregates it.
    pub loss: f64,
    /// Mean of learner over rollout probability.
    pub ratio_mean: f64,
    /// The largest distance of that ratio from 1.
    pub ratio_deviation: f64,
    /// Share of tokens whose gradient the clip stopped.
    pub clip_fraction: f64,
    /// Mean estimate (`k3`) of KL(learner, reference), in nats; nothing where its weight is 0, since
    /// the reference is left out then.
    pub kl: Option<f64>,
    /// Mean entropy of the allowed distribution, in nats.
    pub entropy: f64,
    /// Mean estimate (`k3`) of KL(rollout, learner), in nats: how far sampler and learner
    /// disagree.
    pub mismatch_kl: f64,
    /// Euclidean length of the gradient before it was cut.
    pub grad_norm: f64,
    /// Sampled tokens.
    pub tokens: usize,
}

/// A step that cannot be taken. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// There is nothing to learn from.
    #[error("cannot train: expected at least one sampled token in {0} groups")]
    Empty(usize),
    /// A group that no sampler makes.
    #[error("cannot train on group {group}: {problem}")]
    Group {
        /// Which.
        group: GroupId,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The loss of a group left the numbers.
    #[error("cannot train on group {group}: its loss is {loss}, expected a finite number")]
    Loss {
        /// Which.
        group: GroupId,
        /// Its loss.
        loss: f64,
    },
    /// The gradient left the numbers.
    #[error("cannot train: the gradient has length {0}, expected a finite number")]
    Gradient(f64),
}

impl Trainer {
    /// Training that starts at `model`, which is the reference too.
    #[must_use]
    pub fn new(model: Decoder, config: TrainerConfig, compute: Arc<Compute>) -> Self {
        let optimizer = AdamW::new(config.adamw, &replica::parameters(&model));
        let max_grad_norm = config.max_grad_norm;
        Self { reference: model.clone(), model, optimizer, max_grad_norm, compute }
    }

    /// The same with another reference.
    #[must_use]
    pub fn with_reference(self, reference: Decoder) -> Self {
        Self { reference, ..self }
    }

    /// The weights as they are now.
    #[must_use]
    pub fn model(&self) -> &Decoder {
        &self.model
    }

    /// Moves the weights one step at rate `lr`.
    ///
    /// # Errors
    /// Groups that do not fit the model or themselves, a loss or gradient that is not finite.
    pub fn step(
        &mut self,
        groups: &[TrainGroup],
        objective: &Objective,
        lr: f64,
    ) -> Result<StepMetrics, TrainError> {
        let (metrics, gradients) = self.gradients(groups, objective)?;
        let gradients = gradients.cut(metrics.grad_norm, self.max_grad_norm);
        let parameters = replica::parameters(&self.model);
        let parameters = self.optimizer.step(parameters, gradients, lr);
        self.model = replica::with_parameters(self.model.clone(), parameters);
        Ok(metrics)
    }

    /// The gradient of the objective over all groups, at full length.
    ///
    /// # Errors
    /// As for [`Trainer::step`].
    pub fn gradients(
        &self,
        groups: &[TrainGroup],
        objective: &Objective,
    ) -> Result<(StepMetrics, Gradients), TrainError> {
        for group in groups {
            check(group, &self.model)
                .map_err(|problem| TrainError::Group { group: group.id, problem })?;
        }
        let scale = Scale {
            tokens: groups.iter().map(TrainGroup::completion_tokens).sum(),
            sequences: groups.iter().map(|group| group.rollouts.len()).sum(),
        };
        if scale.tokens == 0 {
            return Err(TrainError::Empty(groups.len()));
        }
        let (tallies, gradients) = replica::sum(&self.compute, groups.len(), |i| {
            self.group_gradients(&groups[i], objective, scale)
        })?;
        let grad_norm = gradients.norm();
        if !grad_norm.is_finite() {
            return Err(TrainError::Gradient(grad_norm));
        }
        let tally = tallies.into_iter().fold(Tally::default(), Tally::plus);
        Ok((tally.metrics(grad_norm, objective), gradients))
    }

    /// What the optimiser remembers: with it and the weights, training goes on bit for bit.
    #[must_use]
    pub fn export_state(&self) -> AdamWState {
        self.optimizer.export(&replica::names(&self.model))
    }

    /// Goes back to other weights and the optimiser's memory beside them; none is a new optimiser.
    /// The reference stays.
    ///
    /// # Errors
    /// A memory of other parameters; nothing was changed.
    pub fn restore(
        &mut self,
        model: Decoder,
        state: Option<AdamWState>,
    ) -> Result<(), TensorError> {
        let fresh = AdamW::new(self.optimizer.config, &replica::parameters(&model));
        self.optimizer = match state {
            Some(state) => fresh.import(&replica::names(&model), state)?,
            None => fresh,
        };
        self.model = model;
        Ok(())
    }

    /// Takes up an optimiser's memory.
    ///
    /// # Errors
    /// A memory of other parameters.
    pub fn import_state(&mut self, state: AdamWState) -> Result<(), TensorError> {
        self.optimizer = self.optimizer.import(&replica::names(&self.model), state)?;
        Ok(())
    }

    fn group_gradients(
        &self,
        group: &TrainGroup,
        objective: &Objective,
        scale: Scale,
    ) -> Result<(Tally, Gradients), TrainError> {
        let completions: Vec<&[u32]> =
            group.rollouts.iter().map(|rollout| rollout.tokens.as_slice()).collect();
        let row = Packed::group(&group.prompt, &completions)
            .map_err(|e| TrainError::Group { group: group.id, problem: e.to_string() })?;
        let targets = row.targets();
        let allowed = allowed(&group.rollouts, self.model.config().vocab_size);
        let scoring = Scoring { temperature: f64::from(group.temperature), allowed: &allowed };
        let reference = objective
            .has_reference()
            .then(|| floats(logprobs::token_logprobs(&self.reference, &row, &targets, &scoring)));
        let example = Example { row: &row, targets: &targets, scoring };
        let mut tally = Tally::default();
        let gradients = replica::differentiate(&self.model, &example, |readout| {
            let (sums, slopes) = terms(group, &readout, reference.as_deref(), (objective, scale));
            if !sums.loss.is_finite() {
                return Err(TrainError::Loss { group: group.id, loss: sums.loss });
            }
            tally = sums;
            Ok(slopes)
        })?;
        Ok((tally, gradients))
    }
}

/// Sums over tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    loss: f64,
    ratio: f64,
    deviation: f64,
    clipped: usize,
    kl: f64,
    entropy: f64,
    mismatch_kl: f64,
    tokens: usize,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            loss: self.loss + other.loss,
            ratio: self.ratio + other.ratio,
            deviation: self.deviation.max(other.deviation),
            clipped: self.clipped + other.clipped,
            kl: self.kl + other.kl,
            entropy: self.entropy + other.entropy,
            mismatch_kl: self.mismatch_kl + other.mismatch_kl,
            tokens: self.tokens + other.tokens,
        }
    }

    fn metrics(self, grad_norm: f64, objective: &Objective) -> StepMetrics {
        let mean = |sum: f64| sum / self.tokens as f64;
        StepMetrics {
            loss: self.loss,
            ratio_mean: mean(self.ratio),
            ratio_deviation: self.deviation,
            clip_fraction: mean(self.clipped as f64),
            kl: objective.has_reference().then(|| mean(self.kl)),
            entropy: mean(self.entropy),
            mismatch_kl: mean(self.mismatch_kl),
            grad_norm,
            tokens: self.tokens,
        }
    }
}

/// The sums of a group and the slope of the step's loss in each of its tokens.
fn terms(
    group: &TrainGroup,
    readout: &Readout,
    reference: Option<&[f32]>,
    (objective, scale): (&Objective, Scale),
) -> (Tally, Vec<f32>) {
    let mut tally = Tally::default();
    let mut slopes = Vec::with_capacity(readout.logprobs.len());
    for (rollout, &advantage) in group.rollouts.iter().zip(&group.advantages) {
        let weight = objective.weight(rollout.tokens.len(), scale);
        for &drawn in &rollout.logprobs {
            let i = slopes.len();
            let term = objective.term(Sampled {
                learner: f64::from(readout.logprobs[i]),
                rollout: f64::from(drawn),
                reference: reference.map(|reference| f64::from(reference[i])),
                advantage: f64::from(advantage),
            });
            tally = tally.plus(Tally {
                loss: weight * term.loss,
                ratio: term.ratio,
                deviation: (term.ratio - 1.0).abs(),
                clipped: usize::from(term.clipped),
                kl: term.kl,
                entropy: f64::from(readout.entropies[i]),
                mismatch_kl: term.mismatch_kl,
                tokens: 1,
            });
            slopes.push((weight * term.slope) as f32);
        }
    }
    (tally, slopes)
}

/// The allowed tokens of every sampled token, empty where none was forbidden.
fn allowed(rollouts: &[Rollout], vocab: usize) -> Vec<TokenSet> {
    if rollouts.iter().all(|rollout| rollout.allowed.is_empty()) {
        return Vec::new();
    }
    let all = TokenSet::of(vocab, 0..vocab as u32);
    let sets = |rollout: &Rollout| -> Vec<TokenSet> {
        if rollout.allowed.is_empty() {
            return vec![all.clone(); rollout.tokens.len()];
        }
        rollout.allowed.clone()
    };
    rollouts.iter().flat_map(sets).collect()
}

/// What is wrong with a group, for a model.
fn check(group: &TrainGroup, model: &Decoder) -> Result<(), String> {
    let config = model.config();
    let (rollouts, advantages) = (group.rollouts.len(), group.advantages.len());
    if rollouts != advantages {
        return Err(format!(
            "{advantages} advantages, expected one for each of {rollouts} rollouts"
        ));
    }
    if !(group.temperature > 0.0 && group.temperature.is_finite()) {
        return Err(format!("temperature is {}, expected a positive number", group.temperature));
    }
    if let Some(advantage) = group.advantages.iter().find(|advantage| !advantage.is_finite()) {
        return Err(format!("an advantage is {advantage}, expected a finite number"));
    }
    let texts = || std::iter::once(&group.prompt).chain(group.rollouts.iter().map(|r| &r.tokens));
    if let Some(id) = texts().flatten().find(|&&id| id as usize >= config.vocab_size) {
        return Err(format!("token {id}, expected ids below vocab_size {}", config.vocab_size));
    }
    for (i, rollout) in group.rollouts.iter().enumerate() {
        let (n, logprobs, sets) =
            (rollout.tokens.len(), rollout.logprobs.len(), rollout.allowed.len());
        if logprobs != n || ![0, n].contains(&sets) {
            return Err(format!(
                "rollout {i} has {n} tokens, {logprobs} log-probabilities and {sets} allowed sets, \
                 expected as many (or no sets)"
            ));
        }
        if let Some(logprob) = rollout.logprobs.iter().find(|logprob| !logprob.is_finite()) {
            return Err(format!(
                "rollout {i} has a log-probability of {logprob}, expected a finite number"
            ));
        }
        let forbidden =
            rollout.tokens.iter().zip(&rollout.allowed).position(|(&id, set)| !set.contains(id));
        if let Some(at) = forbidden {
            return Err(format!("token {at} of rollout {i} is not in its own allowed set"));
        }
        let (length, most) = (group.prompt.len() + n, config.max_position_embeddings);
        if length > most {
            return Err(format!("rollout {i} ends at {length} tokens, expected at most {most}"));
        }
    }
    Ok(())
}
