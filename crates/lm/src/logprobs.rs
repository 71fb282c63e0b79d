//! Log-probabilities of given tokens, as the learner and the evaluator need them.
//!
//! Logits are made only where a target is predicted. Masks and temperature are those the sampler
//! used, so these numbers are the sampler's numbers when the weights are the same.

use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use crate::model::{Decoder, indices};
use crate::packed::{PackError, Packed, Targets};
use rl::TokenSet;

/// Log-probabilities `[n]` of `targets` in `row`; differentiable in the weights.
///
/// The distribution is `softmax(logits / temperature)` over the allowed tokens; see [`scores`].
#[must_use]
pub fn token_logprobs(
    decoder: &Decoder,
    row: &Packed,
    targets: &Targets,
    scoring: &Scoring<'_>,
) -> Tensor<1> {
    let chosen = chosen(&targets.tokens, &decoder.device());
    let log_p = activation::log_softmax(scores(decoder, row, targets, scoring), 1);
    log_p.gather(1, chosen).squeeze_dim(1)
}

/// How a draw was made, as far as its probability depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// What logits are divided by; above 0.
    pub temperature: f64,
    /// For each target the tokens that were allowed; empty where none was forbidden.
    pub allowed: &'a [TokenSet],
}

impl Default for Scoring<'_> {
    fn default() -> Self {
        Self { temperature: 1.0, allowed: &[] }
    }
}

/// Logits `[n, vocab]` at the predictors of `targets`, divided by the temperature, with `-inf` at
/// forbidden tokens: the input of a log-softmax.
#[must_use]
pub fn scores(
    decoder: &Decoder,
    row: &Packed,
    targets: &Targets,
    scoring: &Scoring<'_>,
) -> Tensor<2> {
    let device = decoder.device();
    let hidden = decoder.forward(row).select(0, indices(&targets.predictors, &device));
    let mut logits = decoder.logits(hidden);
    if scoring.temperature != 1.0 {
        logits = logits / scoring.temperature;
    }
    if scoring.allowed.is_empty() {
        return logits;
    }
    logits + forbidding(scoring.allowed, decoder.config().vocab_size, &device)
}

/// Log-probabilities of a text's own tokens: entry `i` is `log p(ids[i + 1] | ids[..=i])`.
///
/// # Errors
/// An empty text.
pub fn logprobs(decoder: &Decoder, ids: &[u32]) -> Result<Vec<f32>, PackError> {
    let row = Packed::documents(&[ids])?;
    let targets = row.targets();
    if targets.tokens.is_empty() {
        return Ok(Vec::new());
    }
    let logprobs = token_logprobs(decoder, &row, &targets, &Scoring::default());
    Ok(floats(logprobs))
}

/// The ids `[n, 1]` to gather from the columns of `[n, vocab]`.
fn chosen(tokens: &[u32], device: &Device) -> Tensor<2, Int> {
    indices(tokens, device).unsqueeze_dim(1)
}

fn forbidding(allowed: &[TokenSet], vocab: usize, device: &Device) -> Tensor<2> {
    let bias = |set: &TokenSet, id| {
        if set.contains(id) { 0.0 } else { f32::NEG_INFINITY }
    };
    let rows = allowed.iter().flat_map(|set| (0..vocab as u32).map(move |id| bias(set, id)));
    let data = TensorData::new(rows.collect::<Vec<f32>>(), [allowed.len(), vocab]);
    Tensor::from_data(data, device)
}

/// The values of a tensor, row by row.
pub(crate) fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as::<f32>().expect("the models of this crate are f32")
}
