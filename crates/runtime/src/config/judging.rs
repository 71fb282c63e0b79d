//! `[verifier]`, `[evaluator]` and `[audit]`: who judges, and who looks on from outside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[verifier]`: the program that decides whether a completion meets an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verifier {
    /// Share of verdicts turned round at random in training, in [0, 0.5): the noise of a judge.
    pub flip_rate: f64,
}

/// `[evaluator]`: where rewards come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluator {
    /// Which evaluator.
    pub kind: EvaluatorKind,
}

/// Where rewards come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluatorKind {
    /// Rubrics by the generator, judged by the verifier.
    Dynamic,
    /// The hidden gold score: a ceiling, and a check of the objective.
    Gold,
    /// A random number: a floor.
    Random,
}

/// `[audit]`: held-out prompts, sampled and scored outside of the training loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The world whose hidden gold score the audit knows.
    pub world: World,
    /// Held-out prompts, JSONL of `{"id", "prompt"}`. Required where there is a world.
    pub prompts: PathBuf,
    /// Completions sampled for each prompt.
    pub samples_per_prompt: u32,
    /// Policy steps between two audits; the start and the end of a phase are always audited.
    pub every_steps: u32,
    /// Prompts of the staleness matrix (samples of each policy scored by each generator).
    pub matrix_prompts: u32,
}

/// Where a gold score is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// The controlled world of small writing tasks.
    Micro,
    /// Nowhere: no audit.
    None,
}

impl Default for Verifier {
    fn default() -> Self {
        Self { flip_rate: 0.04 }
    }
}

impl Default for Evaluator {
    fn default() -> Self {
        Self { kind: EvaluatorKind::Dynamic }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            world: World::Micro,
            prompts: PathBuf::new(),
            samples_per_prompt: 4,
            every_steps: 25,
            matrix_prompts: 24,
        }
    }
}
