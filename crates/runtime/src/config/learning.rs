//! `[objective]` and `[optimizer]`: how both actors are updated.

use rl::{Aggregation, RateShape};
use serde::{Deserialize, Serialize};

/// `[objective]`: the clipped policy-gradient objective (GRPO, 2402.03300).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The probability ratio is clipped below at `1 - clip_low`, in (0, 1).
    pub clip_low: f64,
    /// The probability ratio is clipped above at `1 + clip_high` (clip-higher: 2503.14476).
    pub clip_high: f64,
    /// Divide advantages by the group's standard deviation; off is Dr.GRPO (2503.20783).
    pub std_normalization: bool,
    /// Added to that standard deviation.
    pub advantage_eps: f64,
    /// What the loss is a mean over.
    pub aggregation: Aggregation,
}

/// `[optimizer]`: AdamW.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
    /// Decay of the mean of gradients, in [0, 1).
    pub beta1: f64,
    /// Decay of the mean of squared gradients, in [0, 1).
    pub beta2: f64,
    /// Added to the root of the latter.
    pub epsilon: f64,
    /// Decoupled weight decay; 0 is none.
    pub weight_decay: f64,
    /// Steps of linear warm-up from 0, counted for each actor.
    pub warmup_steps: u32,
    /// What the learning rate does after the warm-up; its end is 0, at the last step of the run if
    /// none was skipped: a skipped step does not count.
    pub schedule: RateShape,
    /// Gradients are scaled down to this norm over all parameters.
    pub max_grad_norm: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            clip_low: 0.2,
            clip_high: 0.2,
            std_normalization: true,
            advantage_eps: 1e-4,
            aggregation: Aggregation::Token,
        }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-8,
            weight_decay: 0.0,
            warmup_steps: 0,
            schedule: RateShape::Constant,
            max_grad_norm: 1.0,
        }
    }
}
