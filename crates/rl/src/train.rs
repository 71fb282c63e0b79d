//! What a learner is handed: groups with advantages. It does not know where they came from.

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
