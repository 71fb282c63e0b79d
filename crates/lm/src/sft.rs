//! Supervised fine-tuning: a model learns to write given completions to given prompts.
//!
//! Documents are laid end to end in rows of limited length, where they do not see each other. One
//! with several completions has a row of its own, in which they share its prompt.
//! Rows are computed in parallel and their gradients added in order, so the result is the same,
//! bit for bit, on any number of threads.

use rl::{RateShape, Seed};
use serde::{Deserialize, Serialize};

use crate::compute::Compute;
use crate::logprobs::Scoring;
use crate::model::Decoder;
use crate::optimizer::{AdamW, AdamWConfig, Schedule};
use crate::packed::{Packed, Targets};
use crate::replica::{self, Example, Gradients};

/// A prompt and what shall be written after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The given tokens, at least one.
    pub prompt: Vec<u32>,
    /// The tokens to learn, stop token included: each a possible end of the document.
    pub completions: Vec<Vec<u32>>,
}

impl Document {
    fn len(&self) -> usize {
        self.prompt.len() + self.completions.iter().map(Vec::len).sum::<usize>()
    }
}

/// How a model is fine-tuned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SftConfig {
    /// Optimiser steps.
    pub steps: u64,
    /// Most tokens of a row; a longer document has a row of its own.
    pub row_tokens: usize,
    /// Rows of a step.
    pub rows_per_step: usize,
    /// The rate at the end of the warm-up; it falls to [`SftConfig::FLOOR`] of it at the end.
    pub lr: f64,
    /// Steps of the warm-up.
    pub warmup: u64,
    /// The length of all gradients together is cut to this.
    pub max_grad_norm: f64,
    /// Constants of the optimiser.
    pub adamw: AdamWConfig,
}

impl SftConfig {
    /// The share of the learning rate that is left at the last step.
    pub const FLOOR: f64 = 0.05;
}

impl Default for SftConfig {
    fn default() -> Self {
        Self {
            steps: 500,
            row_tokens: 512,
            rows_per_step: 8,
            lr: 2e-3,
            warmup: 40,
            max_grad_norm: 1.0,
            adamw: AdamWConfig::default(),
        }
    }
}

/// Where fine-tuning is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SftProgress {
    /// Steps taken.
    pub step: u64,
    /// Mean loss over the learnt tokens of the last step, in nats.
    pub loss: f64,
    /// Length of its gradient before it was cut.
    pub grad_norm: f64,
    /// Tokens read in it.
    pub tokens: usize,
}

/// Documents that cannot be learnt.
#[derive(Debug, thiserror::Error)]
pub enum SftError {
    /// There is nothing to learn from.
    #[error("cannot fine-tune: there are no documents, expected at least one")]
    Empty,
    /// A document the model cannot read.
    #[error("cannot fine-tune on document {index}: {problem}")]
    Document {
        /// Which, from 0.
        index: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The weights left the numbers.
    #[error(
        "cannot fine-tune: step {step} has loss {loss} and a gradient of length {grad_norm}, expected finite numbers"
    )]
    NotFinite {
        /// Which step, from 1.
        step: u64,
        /// Its loss.
        loss: f64,
        /// The length of its gradient.
        grad_norm: f64,
    },
}

/// The model after fine-tuning on `documents`, drawn without repetition until all were seen, in
/// an order given by `seed`, and so on again.
///
/// # Errors
/// Documents the model cannot read, or numbers that are no longer finite.
pub fn fine_tune(
    model: Decoder,
    documents: &[Document],
    (config, seed): (&SftConfig, Seed),
    compute: &Compute,
    mut progress: impl FnMut(SftProgress),
) -> Result<Decoder, SftError> {
    check(documents, &model)?;
    let schedule = Schedule {
        peak: config.lr,
        warmup: config.warmup,
        total: config.steps,
        shape: RateShape::Linear,
        floor: SftConfig::FLOOR,
    };
    let mut model = model;
    let mut optimizer = AdamW::new(config.adamw, &replica::parameters(&model));
    let mut order = Order { documents, seed, epoch: 0, left: Vec::new() };
    for step in 0..config.steps {
        let rows: Vec<Row> =
            (0..config.rows_per_step).map(|_| order.row(config.row_tokens)).collect();
        let rows: Vec<LearntRow> = rows.iter().map(|row| LearntRow::new(row)).collect();
        let (loss, gradients) = gradients(&model, &rows, compute);
        let grad_norm = gradients.norm();
        if !(loss.is_finite() && grad_norm.is_finite()) {
            return Err(SftError::NotFinite { step: step + 1, loss, grad_norm });
        }
        let gradients = gradients.cut(grad_norm, config.max_grad_norm);
        let parameters = optimizer.step(replica::parameters(&model), gradients, schedule.at(step));
        model = replica::with_parameters(model, parameters);
        let tokens = rows.iter().map(|row| row.row.len()).sum();
        progress(SftProgress { step: step + 1, loss, grad_norm, tokens });
    }
    Ok(model)
}

/// Documents of one row.
type Row<'a> = Vec<&'a Document>;

/// Draws documents.
struct Order<'a> {
    documents: &'a [Document],
    seed: Seed,
    epoch: u64,
    /// Those left of this epoch, the next one last.
    left: Vec<usize>,
}

impl<'a> Order<'a> {
    /// As many documents as fit, at least one.
    fn row(&mut self, tokens: usize) -> Row<'a> {
        let mut row: Row<'a> = Vec::new();
        let mut length = 0;
        loop {
            if self.left.is_empty() {
                self.left = self.seed.child(self.epoch).permutation(self.documents.len());
                self.epoch += 1;
            }
            let Some(&next) = self.left.last() else {
                return row;
            };
            let document = &self.documents[next];
            let is_alone = document.completions.len() > 1;
            length += document.len();
            if !row.is_empty() && (length > tokens || is_alone) {
                return row;
            }
            self.left.pop();
            row.push(document);
            if is_alone {
                return row;
            }
        }
    }
}

/// A row and the tokens of it that are learnt.
struct LearntRow {
    row: Packed,
    targets: Targets,
}

impl LearntRow {
    fn new(documents: &[&Document]) -> Self {
        if let [document] = documents {
            let row = Packed::group(&document.prompt, &document.completions);
            let row = row.expect("prompts are not empty");
            return Self { targets: row.targets(), row };
        }
        let texts: Vec<Vec<u32>> = documents
            .iter()
            .map(|d| [&d.prompt, &d.completions[0]].map(Vec::as_slice).concat())
            .collect();
        let row = Packed::documents(&texts).expect("documents are not empty");
        let mut targets = Targets::default();
        let mut start = 0;
        for (document, text) in documents.iter().zip(&texts) {
            let first = document.prompt.len();
            let predictors = start + first - 1..start + text.len() - 1;
            targets.predictors.extend(predictors.map(|i| i as u32));
            targets.tokens.extend(&text[first..]);
            start += text.len();
        }
        Self { row, targets }
    }
}

/// The mean loss over all learnt tokens of the rows, and its gradient.
fn gradients(model: &Decoder, rows: &[LearntRow], compute: &Compute) -> (f64, Gradients) {
    let learnt: usize = rows.iter().map(|row| row.targets.tokens.len()).sum();
    let slope = -1.0 / learnt as f64;
    let part = |i: usize| {
        let LearntRow { row, targets } = &rows[i];
        let mut loss = 0.0;
        let example = Example { row, targets, scoring: Scoring::default() };
        let gradients = replica::differentiate(model, &example, |readout| {
            loss = readout.logprobs.iter().map(|&logprob| slope * f64::from(logprob)).sum();
            Ok::<_, std::convert::Infallible>(vec![slope as f32; readout.logprobs.len()])
        })?;
        Ok((loss, gradients))
    };
    let Ok::<_, std::convert::Infallible>((losses, gradients)) =
        replica::sum(compute, rows.len(), part);
    (losses.iter().sum(), gradients)
}

fn check(documents: &[Document], model: &Decoder) -> Result<(), SftError> {
    let config = model.config();
    for (index, document) in documents.iter().enumerate() {
        let Document { prompt, completions } = document;
        let problem = |problem| Err(SftError::Document { index, problem });
        let shortest = completions.iter().map(Vec::len).min().unwrap_or(0);
        if prompt.is_empty() || shortest == 0 {
            return problem(format!(
                "a prompt of {} tokens and a completion of {shortest}, expected something to learn",
                prompt.len()
            ));
        }
        let longest = prompt.len() + completions.iter().map(Vec::len).max().unwrap_or(0);
        if longest > config.max_position_embeddings {
            let most = config.max_position_embeddings;
            return problem(format!("{longest} tokens, expected at most {most}"));
        }
        let mut tokens = prompt.iter().chain(completions.iter().flatten());
        if let Some(id) = tokens.find(|&&id| id as usize >= config.vocab_size) {
            return problem(format!("token {id}, expected ids below {}", config.vocab_size));
        }
    }
    if documents.is_empty() { Err(SftError::Empty) } else { Ok(()) }
}
