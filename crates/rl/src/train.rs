//! What a learner is handed: groups with advantages. It does not know where they came from. And two
//! choices of how it learns from them.

use serde::{Deserialize, Serialize};

use crate::{GroupId, Rollout};

/// A group's share of one optimiser step.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainGroup {
    /// The group.
    pub id: GroupId,
    /// The tokens all rollouts continue.
    pub prompt: Vec<u32>,
    /// The rollouts, at least two.
    pub rollouts: Vec<Rollout>,
    /// One advantage per rollout, dimensionless.
    pub advantages: Vec<f32>,
    /// The sampling temperature; log-probabilities are taken at it.
    pub temperature: f32,
}

impl TrainGroup {
    /// The number of sampled tokens.
    #[must_use]
    pub fn completion_tokens(&self) -> usize {
        self.rollouts.iter().map(|rollout| rollout.tokens.len()).sum()
    }
}

/// What the loss of a step is a mean over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// All tokens of the step: each weighs the same (DAPO, 2503.14476).
    Token,
    /// The rollouts of the step, each the mean of its tokens (GRPO, 2402.03300).
    Sequence,
}

/// What a learning rate does after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateShape {
    /// It stays.
    Constant,
    /// It falls to its end in a straight line.
    Linear,
    /// It falls to its end along half a wave of the cosine (Loshchilov and Hutter 2017).
    Cosine,
}
