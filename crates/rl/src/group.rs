//! The nouns of a group's life; how it goes is decided in the crate `ledger`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Actor;

/// A group's number: the how-many-th draw of the run, from 0. Never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u64);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// What a group trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// K completions and one rubric; rewards are scores; trains the policy.
    Policy,
    /// K completions, G rubrics over them and ranked anchors; rewards are `R_disc` and
    /// `R_anchor`; trains the rubric generator.
    Rubric,
}

impl GroupKind {
    /// The actor that groups of this kind train.
    #[must_use]
    pub fn actor(self) -> Actor {
        match self {
            Self::Policy => Actor::Policy,
            Self::Rubric => Actor::Generator,
        }
    }
}

/// One half of a round: one actor is trained, the other fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The rubric generator is trained on samples of the policy.
    Evaluator,
    /// The policy is trained under the fixed generator.
    Policy,
}

impl Phase {
    /// The kind of group the phase draws.
    #[must_use]
    pub fn kind(self) -> GroupKind {
        match self {
            Self::Evaluator => GroupKind::Rubric,
            Self::Policy => GroupKind::Policy,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Evaluator => "evaluator",
            Self::Policy => "policy",
        })
    }
}

/// A round of the alternation, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Round(pub u32);

/// One optimiser step of a run, over all its phases, from 0.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StepId(pub u64);

/// How often a group's work was handed out, from 1.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Attempt(pub u32);

/// Why a group ended without being trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Its samples are older than `max_staleness` allows.
    Stale,
    /// All rewards are equal: no gradient.
    NoSignal,
    /// Too many verdicts are missing, or there is no rubric.
    Unscorable,
    /// Every attempt failed.
    Exhausted,
    /// The run was cancelled, or its phase ended.
    Cancelled,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "stale",
            Self::NoSignal => "without signal",
            Self::Unscorable => "unscorable",
            Self::Exhausted => "out of attempts",
            Self::Cancelled => "cancelled",
        })
    }
}
