//! `[run]`, `[schedule]` and `[batch]`: what is run, in which order, in which portions.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[run]`: the run itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Run {
    /// Its name; by default the name of the config file without its ending.
    pub name: String,
    /// The folder it writes to; `runs/<name>` by default.
    pub dir: PathBuf,
    /// The seed of every random draw, up to 2^63 - 1.
    pub seed: u64,
}

/// `[schedule]`: how evaluator phases and policy phases alternate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Which generator judges which policy.
    pub kind: rl::Schedule,
    /// How often the two phases alternate.
    pub rounds: u32,
    /// Optimiser steps of the generator in an evaluator phase.
    pub generator_steps: u32,
    /// Optimiser steps of the policy in a policy phase.
    pub policy_steps: u32,
}

/// `[batch]`: groups. Together with `groups_per_step` of an actor this says all; the rest follows
/// (see [`crate::config::Derived`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Completions of one prompt (K), at least 2.
    pub group_size: u32,
    /// How many weight versions a group may lag behind the step that trains on it; 0 is
    /// synchronous.
    pub max_staleness: u32,
    /// How many groups a step may draw to replace groups without signal, as a multiple of
    /// `groups_per_step`.
    pub max_draws: u32,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { kind: rl::Schedule::Fresh, rounds: 3, generator_steps: 40, policy_steps: 50 }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self { group_size: 8, max_staleness: 0, max_draws: 4 }
    }
}
