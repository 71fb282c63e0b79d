//! How the two actors take turns.

use serde::{Deserialize, Serialize};

use crate::Round;

/// How evaluator and policy phases alternate; all but `Fresh` are controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// In each round G_t is trained on samples of P_(t-1), then P_t under G_t (2607.20083).
    #[default]
    Fresh,
    /// The generator is trained in round 1 only.
    Stale,
    /// The generator is trained in each round, but on samples of P_0: the budget of `Fresh`
    /// without its freshness.
    StaleBudget,
    /// As `Stale`, and the generator sees the prompt alone (Rubrics as Rewards, 2507.17746).
    Static,
}

impl Schedule {
    /// Whether the generator is trained in the round.
    #[must_use]
    pub fn trains_generator(self, round: Round) -> bool {
        match self {
            Self::Fresh | Self::StaleBudget => true,
            Self::Stale | Self::Static => round == Round(1),
        }
    }

    /// Evaluator phases in a run of `rounds` rounds.
    #[must_use]
    pub fn evaluator_phases(self, rounds: u32) -> u32 {
        (1..=rounds).map(|round| u32::from(self.trains_generator(Round(round)))).sum()
    }
}
