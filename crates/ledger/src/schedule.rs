//! The order of phases: which actor is trained when, on whose samples (method section 4).

use rl::{Phase, Round};
use serde::{Deserialize, Serialize};

/// How evaluator and policy phases alternate; all but `Fresh` are controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// In each round G_t is trained on samples of P_(t-1), then P_t under G_t.
    #[default]
    Fresh,
    /// The generator is trained in round 1 only.
    Stale,
    /// The generator is trained in each round, but on samples of P_0: the budget of `Fresh`.
    StaleBudget,
    /// As `Stale`, and the generator sees the prompt alone (Rubrics as Rewards, 2507.17746).
    Static,
}

/// One phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhasePlan {
    /// Its number over all rounds, from 0.
    pub ordinal: usize,
    /// The round it belongs to, from 1.
    pub round: Round,
    /// Which actor is trained.
    pub phase: Phase,
    /// How many optimiser steps.
    pub steps: u64,
    /// How many groups each step trains on.
    pub groups_per_step: usize,
    /// Which policy the completions are sampled from.
    pub samples_from: PolicySource,
    /// What the generator is shown.
    pub conditioning: Conditioning,
}

/// Whose completions a phase draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicySource {
    /// The latest policy's.
    Current,
    /// P_0's.
    Initial,
}

/// What the rubric generator is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Conditioning {
    /// The prompt and the whole group of completions.
    Group,
    /// The prompt alone.
    PromptOnly,
}

impl Schedule {
    /// Whether the generator is trained in the round.
    pub(crate) fn trains_generator(self, round: Round) -> bool {
        match self {
            Self::Fresh | Self::StaleBudget => true,
            Self::Stale | Self::Static => round == Round(1),
        }
    }

    /// Whose completions the phase draws.
    pub(crate) fn samples_from(self, phase: Phase) -> PolicySource {
        match (self, phase) {
            (Self::StaleBudget, Phase::Evaluator) => PolicySource::Initial,
            _ => PolicySource::Current,
        }
    }

    /// What the generator is shown, in both phases.
    pub(crate) fn conditioning(self) -> Conditioning {
        match self {
            Self::Static => Conditioning::PromptOnly,
            Self::Fresh | Self::Stale | Self::StaleBudget => Conditioning::Group,
        }
    }
}
