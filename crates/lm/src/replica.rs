//! A model as a learner sees it: a list of named parameters, and gradients in the same order.
//!
//! Autodiff graphs that share a leaf are one graph behind one lock, so each piece of parallel
//! work differentiates a [`replica`] of its own: fresh leaves over the same numbers, which are
//! not copied.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients as Tape, IndexingUpdateOp, Tensor, TensorData, activation};

use crate::compute::Compute;
use crate::logprobs::{self, Scoring, floats};
use crate::model::{Decoder, indices};
use crate::packed::{Packed, Targets};
use crate::tensors::NamedTensor;

/// A row of tokens and which of them a loss looks at.
#[derive(Debug)]
pub struct Example<'a> {
    /// The row.
    pub row: &'a Packed,
    /// The tokens that count.
    pub targets: &'a Targets,
    /// How they were drawn.
    pub scoring: Scoring<'a>,
}

/// What a model says of the targets of a row.
#[derive(Debug)]
pub struct Readout {
    /// The log-probability of each.
    pub logprobs: Vec<f32>,
    /// The entropy of the distribution each was drawn from, in nats.
    pub entropies: Vec<f32>,
}

/// The gradients of a loss that depends on the model through the log-probabilities of targets:
/// `slopes` gives its derivative in each of them.
///
/// # Errors
/// Those of `slopes`.
pub fn differentiate<E>(
    model: &Decoder,
    example: &Example<'_>,
    slopes: impl FnOnce(Readout) -> Result<Vec<f32>, E>,
) -> Result<Gradients, E> {
    let replica = replica(model);
    let scores = logprobs::scores(&replica, example.row, example.targets, &example.scoring);
    let chosen = indices(&example.targets.tokens, &model.device()).unsqueeze_dim(1);
    let log_p = activation::log_softmax(scores.clone().inner(), 1);
    let p = log_p.clone().exp();
    // A forbidden token adds 0 times a large number to the entropy, not 0 times infinity.
    let entropies = -(p.clone() * log_p.clone().clamp_min(f32::MIN)).sum_dim(1);
    let readout =
        Readout { logprobs: floats(log_p.gather(1, chosen.clone())), entropies: floats(entropies) };
    let slopes = slopes(readout)?;
    // d logprob / d scores = (1 at the target) - p, so the graph starts below the softmax.
    let slopes = TensorData::new(slopes, [example.targets.tokens.len(), 1]);
    let slopes = Tensor::<2>::from_data(slopes, &model.device());
    let pull = (p * -slopes.clone()).scatter(1, chosen, slopes, IndexingUpdateOp::Add);
    Ok(Gradients::of(&(scores * pull.autodiff()).sum(), &replica))
}

/// The sum of the gradients of parts `0..n` of a loss, computed in parallel and added in order,
/// and what each part has to say besides. There is at least one part.
///
/// # Errors
/// That of the first part that has one.
pub fn sum<T: Send, E: Send>(
    compute: &Compute,
    n: usize,
    part: impl Fn(usize) -> Result<(T, Gradients), E> + Sync,
) -> Result<(Vec<T>, Gradients), E> {
    let sum = Mutex::new(InOrder::default());
    let said = compute.map((0..n).collect(), |i| {
        let (said, gradients) = part(i)?;
        sum.lock().unwrap_or_else(PoisonError::into_inner).add(i, gradients);
        Ok(said)
    });
    let said = said.into_iter().collect::<Result<_, E>>()?;
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner).sum;
    Ok((said, sum.expect("there is at least one part, and none failed")))
}

/// A sum whose terms may come in any order and are added in theirs.
#[derive(Default)]
struct InOrder {
    sum: Option<Gradients>,
    added: usize,
    early: BTreeMap<usize, Gradients>,
}

impl InOrder {
    fn add(&mut self, i: usize, gradients: Gradients) {
        self.early.insert(i, gradients);
        while let Some(next) = self.early.remove(&self.added) {
            self.sum = Some(match self.sum.take() {
                Some(sum) => sum.plus(next),
                None => next,
            });
            self.added += 1;
        }
    }
}

/// The model with leaves of its own, on the autodiff side of its device.
fn replica(model: &Decoder) -> Decoder {
    model.clone().train()
}

/// One gradient per parameter, in the order of [`names`], each flat.
#[derive(Debug, Clone)]
pub struct Gradients(pub(crate) Vec<Tensor<1>>);

impl Gradients {
    /// The gradients under the names and in the layout of the weights of `model`.
    #[must_use]
    pub fn export(&self, model: &Decoder) -> Vec<NamedTensor> {
        with_parameters(model.clone(), self.0.clone()).export()
    }

    /// The gradients of `loss` in the parameters of the replica it was computed with.
    fn of(loss: &Tensor<1>, replica: &Decoder) -> Self {
        let mut take = Take { tape: loss.backward(), taken: Vec::new() };
        replica.visit(&mut take);
        Self(take.taken)
    }

    /// Adds the gradients of another part of the same loss.
    fn plus(self, other: Self) -> Self {
        Self(self.0.into_iter().zip(other.0).map(|(a, b)| a + b).collect())
    }

    /// Shortens gradients whose length all together is `norm` to `most`, as PyTorch's
    /// `clip_grad_norm_` does: no single parameter is treated apart.
    #[must_use]
    pub fn cut(self, norm: f64, most: f64) -> Self {
        let by = most / (norm + 1e-6);
        if by >= 1.0 {
            return self;
        }
        Self(self.0.into_iter().map(|gradient| gradient * by).collect())
    }

    /// The Euclidean length of all gradients together.
    #[must_use]
    pub fn norm(&self) -> f64 {
        let square = |gradient: &Tensor<1>| {
            let sum: f32 = gradient.clone().square().sum().into_scalar();
            f64::from(sum)
        };
        self.0.iter().map(square).sum::<f64>().sqrt()
    }
}

/// Names of the parameters, as in Hugging Face's files.
#[must_use]
pub fn names(model: &Decoder) -> Vec<String> {
    let mut names = Names::default();
    model.visit(&mut names);
    names.names
}

/// The parameters, each flat, in the order of [`names`].
#[must_use]
pub fn parameters(model: &Decoder) -> Vec<Tensor<1>> {
    let mut parameters = Parameters(Vec::new());
    model.visit(&mut parameters);
    parameters.0
}

/// The model with other values in its parameters, given flat in the order of [`names`].
#[must_use]
pub fn with_parameters(model: Decoder, values: Vec<Tensor<1>>) -> Decoder {
    model.map(&mut Replace(values.into_iter()))
}

struct Take {
    tape: Tape,
    taken: Vec<Tensor<1>>,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let leaf = param.val();
        // A parameter the loss does not reach has no entry.
        let gradient =
            leaf.grad_remove(&mut self.tape).unwrap_or_else(|| leaf.inner().zeros_like());
        self.taken.push(gradient.flatten(0, D - 1));
    }
}

#[derive(Default)]
struct Names {
    path: Vec<String>,
    names: Vec<String>,
}

impl ModuleVisitor for Names {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, _param: &Param<Tensor<D>>) {
        self.names.push(self.path.join("."));
    }
}

struct Parameters(Vec<Tensor<1>>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().flatten(0, D - 1));
    }
}

struct Replace(std::vec::IntoIter<Tensor<1>>);

impl ModuleMapper for Replace {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = self.0.next().expect("as many values as the model has parameters");
        param.map(|old| value.reshape(old.dims()))
    }
}
