//! The order of phases: which actor is trained when, on whose samples.

use rl::{Phase, Round, Schedule};

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

/// Whose completions a phase draws.
pub(crate) fn samples_from(schedule: Schedule, phase: Phase) -> PolicySource {
    match (schedule, phase) {
        (Schedule::StaleBudget, Phase::Evaluator) => PolicySource::Initial,
        _ => PolicySource::Current,
    }
}

/// What the generator is shown, in both phases.
pub(crate) fn conditioning(schedule: Schedule) -> Conditioning {
    match schedule {
        Schedule::Static => Conditioning::PromptOnly,
        Schedule::Fresh | Schedule::Stale | Schedule::StaleBudget => Conditioning::Group,
    }
}
