//! `[policy]` and `[generator]`: the two models that are trained.

use std::path::PathBuf;

use rl::reward::AnchorLoss;
use serde::{Deserialize, Serialize};

/// `[policy]`: the model that answers prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Folder of the starting weights (config.json, safetensors, tokenizer.json). Required.
    pub model: PathBuf,
    /// Training prompts, JSONL of `{"id", "prompt"}`. Required.
    pub prompts: PathBuf,
    /// Prompts drawn for one optimiser step.
    pub groups_per_step: u32,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Weight of the KL divergence from the starting weights, in nats a token; 0 is none.
    pub kl_coef: f64,
    /// Sampling temperature, above 0.
    pub temperature: f64,
    /// Smallest probability mass to sample from; 1 (all) is the only value so far, see `top_k`.
    pub top_p: f64,
    /// Number of likeliest tokens to sample from; 0 (all) is the only value so far. The learner
    /// takes log-probabilities over all tokens: samples of fewer would bias its gradient.
    pub top_k: u32,
    /// Longest completion, tokens.
    pub max_tokens: u32,
}

/// `[generator]`: the model that writes rubrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Folder of the starting weights. Required where the evaluator is `dynamic`.
    pub model: PathBuf,
    /// Ranked answers to train on, JSONL of `{"id", "prompt", "responses", "tiers"}`. Required
    /// where the evaluator is `dynamic`.
    pub anchors: PathBuf,
    /// Anchors with fewer ranked answers are left out; at least 2.
    pub anchor_min_answers: u32,
    /// Anchors whose prompt or best answer is shorter are left out, characters.
    pub anchor_min_chars: u32,
    /// Anchors drawn for one optimiser step.
    pub groups_per_step: u32,
    /// Rubrics sampled for one group of completions in an evaluator phase, at least 2.
    pub rubrics_per_group: u32,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Weight of the KL divergence from the starting weights, in nats a token; 0 is none.
    pub kl_coef: f64,
    /// Sampling temperature, above 0.
    pub temperature: f64,
    /// Longest rubric, tokens.
    pub max_tokens: u32,
    /// What it reads of a group.
    pub input: GeneratorInput,
    /// How it writes.
    pub decoding: Decoding,
    /// Fewest items of a rubric.
    pub min_items: u32,
    /// Most items of a rubric.
    pub max_items: u32,
    /// How scores of anchors are compared with their ranking.
    pub anchor_loss: AnchorLoss,
    /// Weight of the anchor advantage against that of discriminability (lambda).
    pub anchor_weight: f64,
    /// Guard: an item that parts the completions as an earlier one does adds nothing to R_disc.
    pub duplicate_penalty: bool,
    /// Guard: discount items by how often two verdicts on the same completion agree.
    pub noise_discount: bool,
    /// Guard: the generator reads one half of the group and R_disc counts the other.
    pub holdout_half: bool,
    /// Guard: items that prefer worse anchors add nothing to R_disc. It takes four ranked answers or
    /// more for an item to contradict them by more than one flipped verdict could.
    pub anchor_sign_veto: bool,
    /// A rubric as JSON that serves a policy group where what the generator wrote twice cannot be
    /// read; without one such a group is left out.
    pub fallback_rubric: PathBuf,
}

/// What the generator reads of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorInput {
    /// Counts of a bank of checks over the group: short, but it names the candidates for items.
    Digest,
    /// The completions themselves.
    Raw,
}

/// How the generator writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decoding {
    /// Only tokens that continue a valid rubric; the loss applies the same mask.
    Constrained,
    /// Any token; what does not parse is counted and gets the lowest reward.
    Free,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            model: PathBuf::new(),
            prompts: PathBuf::new(),
            groups_per_step: 12,
            learning_rate: 3e-4,
            kl_coef: 0.01,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: 256,
        }
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            model: PathBuf::new(),
            anchors: PathBuf::new(),
            anchor_min_answers: 2,
            anchor_min_chars: 1,
            groups_per_step: 8,
            rubrics_per_group: 8,
            learning_rate: 3e-4,
            kl_coef: 0.01,
            temperature: 1.0,
            max_tokens: 256,
            input: GeneratorInput::Digest,
            decoding: Decoding::Constrained,
            min_items: 4,
            max_items: 6,
            anchor_loss: AnchorLoss::PairRbp,
            anchor_weight: 2.0,
            duplicate_penalty: false,
            noise_discount: false,
            holdout_half: false,
            anchor_sign_veto: false,
            fallback_rubric: PathBuf::new(),
        }
    }
}
