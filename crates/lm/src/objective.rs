//! The clipped policy-gradient objective, token by token, in plain arithmetic.
//!
//! A loss touches the model only through the log-probability of each sampled token, so its value
//! and its slope in that number are all the learner needs: see [`Objective::term`]. Nothing here
//! names a tensor, and finite differences check the slopes.
//!
//! The loss of a step is a sum over all of its tokens with weights that are global to the step
//! ([`Scale`]). So the gradient of a step is the plain sum of the gradients of its groups, in
//! whatever portions they are computed, and nothing is divided anywhere else.

use rl::Aggregation;
use serde::{Deserialize, Serialize};

/// A clipped surrogate with a penalty for leaving the reference.
///
/// For a token with learner, rollout and reference log-probability `l`, `o`, `r` and advantage `A`:
///
/// ```text
/// ratio = exp(l - o)
/// loss  = -min(ratio A, clamp(ratio, 1 - clip_low, 1 + clip_high) A)
///         + kl_beta (exp(r - l) - (r - l) - 1)
/// ```
///
/// The surrogate is PPO's (Schulman et al. 2017) with an upper bound of its own (DAPO, Yu et al.
/// 2025); the penalty is the estimator `k3` of KL(learner, reference) as in GRPO (Shao et al.
/// 2024). Advantages come normalised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// How far below 1 a ratio counts, in [0, 1].
    pub clip_low: f64,
    /// How far above 1 a ratio counts, at least 0.
    pub clip_high: f64,
    /// Weight of the penalty; 0 leaves the reference out.
    pub kl_beta: f64,
    /// How tokens are averaged.
    pub aggregation: Aggregation,
}

/// The sizes of a whole step, which every loss in it is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Sampled tokens of all groups.
    pub tokens: usize,
    /// Rollouts of all groups.
    pub sequences: usize,
}

/// What is known of one sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// Its log-probability under the weights being trained.
    pub learner: f64,
    /// Its log-probability when it was drawn.
    pub rollout: f64,
    /// Its log-probability under the reference; `None` where nobody asks.
    pub reference: Option<f64>,
    /// The advantage of its rollout.
    pub advantage: f64,
}

/// A token's share of a loss, before its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The loss.
    pub loss: f64,
    /// Its derivative in the learner's log-probability.
    pub slope: f64,
    /// Learner over rollout probability.
    pub ratio: f64,
    /// Whether the clip has stopped the gradient of the surrogate.
    pub clipped: bool,
    /// The estimate of KL(learner, reference); 0 without a reference.
    pub kl: f64,
    /// The estimate `k3` of KL(rollout, learner): how far sampler and learner disagree.
    pub mismatch_kl: f64,
}

impl Objective {
    /// The loss of one token and its slope.
    #[must_use]
    pub fn term(&self, token: Sampled) -> Term {
        let Sampled { learner, rollout, reference, advantage } = token;
        let ratio = (learner - rollout).exp();
        let free = ratio * advantage;
        let held = ratio.clamp(1.0 - self.clip_low, 1.0 + self.clip_high) * advantage;
        let clipped = held < free;
        let away = reference.map_or(0.0, |reference| reference - learner);
        let kl = k3(away);
        Term {
            loss: self.kl_beta * kl - free.min(held),
            slope: self.kl_beta * (1.0 - away.exp()) - if clipped { 0.0 } else { free },
            ratio,
            clipped,
            kl,
            mismatch_kl: k3(learner - rollout),
        }
    }

    /// Whether the penalty counts, so that somebody has to ask the reference.
    #[must_use]
    pub fn has_reference(&self) -> bool {
        self.kl_beta != 0.0
    }

    /// The weight in the step's loss of every token of a rollout with `length` of them.
    #[must_use]
    pub fn weight(&self, length: usize, scale: Scale) -> f64 {
        match self.aggregation {
            Aggregation::Token => 1.0 / scale.tokens as f64,
            Aggregation::Sequence => 1.0 / (length as f64 * scale.sequences as f64),
        }
    }
}

/// An unbiased, never negative estimate of KL(p, q) from a draw of p, given `ln q - ln p`
/// (Schulman 2020, "Approximating KL divergence").
fn k3(log_ratio: f64) -> f64 {
    log_ratio.exp_m1() - log_ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTIVE: Objective =
        Objective { clip_low: 0.2, clip_high: 0.3, kl_beta: 0.0, aggregation: Aggregation::Token };

    fn term(objective: Objective, ratio: f64, advantage: f64) -> Term {
        let rollout = -1.5;
        let learner = rollout + ratio.ln();
        objective.term(Sampled { learner, rollout, reference: None, advantage })
    }

    #[test]
    fn the_clip_holds_what_has_gone_far_enough_and_never_what_must_come_back() {
        // (ratio, advantage) gives -(min of the two products), slope -(ratio A) unless clipped.
        for (ratio, advantage, loss, slope, clipped) in [
            (1.0, 2.0, -2.0, -2.0, false),
            (1.2, 2.0, -2.4, -2.4, false),
            (1.5, 2.0, -2.6, 0.0, true),   // min(3.0, 1.3 * 2)
            (0.5, 2.0, -1.0, -1.0, false), // min(1.0, 0.8 * 2)
            (0.5, -1.0, 0.8, 0.0, true),   // min(-0.5, -0.8)
            (1.5, -1.0, 1.5, 1.5, false),  // min(-1.5, -1.3)
            (1.5, 0.0, 0.0, 0.0, false),
        ] {
            let term = term(OBJECTIVE, ratio, advantage);
            assert!((term.loss - loss).abs() < 1e-12, "{ratio} {advantage}: {term:?}");
            assert!((term.slope - slope).abs() < 1e-12, "{ratio} {advantage}: {term:?}");
            assert_eq!(term.clipped, clipped, "{ratio} {advantage}");
        }
    }

    #[test]
    fn the_slope_is_the_derivative_of_the_loss() {
        let objective = Objective { kl_beta: 0.3, ..OBJECTIVE };
        for learner in [-3.0, -1.9, -1.5, -1.4, -0.9] {
            for advantage in [-1.3, 0.0, 0.7] {
                let at = |learner| {
                    let reference = Some(-1.2);
                    objective.term(Sampled { learner, rollout: -1.5, reference, advantage })
                };
                let h = 1e-6;
                let difference = (at(learner + h).loss - at(learner - h).loss) / (2.0 * h);
                let slope = at(learner).slope;
                assert!((difference - slope).abs() < 1e-8, "{learner} {advantage}: {slope}");
            }
        }
    }

    #[test]
    fn penalties_are_zero_at_home_and_positive_elsewhere() {
        let objective = Objective { kl_beta: 0.5, ..OBJECTIVE };
        let at = |learner: f64| {
            let reference = Some(-1.0);
            objective.term(Sampled { learner, rollout: -1.0, reference, advantage: 0.0 })
        };
        assert_eq!((at(-1.0).kl, at(-1.0).mismatch_kl, at(-1.0).loss), (0.0, 0.0, 0.0));
        let lower = at(-2.0);
        // ln q - ln p is 1 for the reference, -1 for the sampler.
        assert!((lower.kl - (1f64.exp() - 2.0)).abs() < 1e-12);
        assert!((lower.mismatch_kl - (-1f64).exp()).abs() < 1e-12);
        assert!((lower.loss - 0.5 * lower.kl).abs() < 1e-12);
    }

    #[test]
    fn weights_add_up_to_one_over_a_step() {
        let scale = Scale { tokens: 10, sequences: 3 };
        for aggregation in [Aggregation::Token, Aggregation::Sequence] {
            let objective = Objective { aggregation, ..OBJECTIVE };
            let total: f64 = [2, 3, 5].iter().map(|&n| n as f64 * objective.weight(n, scale)).sum();
            assert!((total - 1.0).abs() < 1e-12, "{aggregation:?}");
        }
    }
}
