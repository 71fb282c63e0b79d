//! Baselines that score without a rubric: drop-ins for the generator.

use proto::pb;
use proto::pb::evaluate_group_response::Outcome;
use rl::{Seed, Stream};

/// Scores a group of completions by some other means than rubrics.
pub trait Scorer: Send + Sync {
    /// One score in [0, 1] for each completion, or why there is none.
    ///
    /// # Errors
    /// In words, for the operator: the group is unscorable.
    fn scores(&self, prompt: &str, completions: &[String], seed: Seed) -> Result<Vec<f64>, String>;
}

/// A uniform random score: the floor that every evaluator must beat.
#[derive(Debug, Clone, Copy)]
pub struct Random;

impl Scorer for Random {
    fn scores(
        &self,
        _prompt: &str,
        completions: &[String],
        seed: Seed,
    ) -> Result<Vec<f64>, String> {
        let seed = seed.child(Stream::VerdictFlips as u64);
        Ok((0..).zip(completions).map(|(k, _)| seed.uniform(k)).collect())
    }
}

pub(crate) fn outcome(scorer: &dyn Scorer, group: &pb::GroupText, seed: Seed) -> Outcome {
    match scorer.scores(&group.prompt, &group.completions, seed) {
        Ok(scores) => Outcome::Scored(pb::Scored { judged: None, scores, origin: "none".into() }),
        Err(reason) => Outcome::Unscorable(reason),
    }
}
