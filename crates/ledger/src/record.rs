//! What is persisted of a run: decisions, never tokens or tensors.

use std::collections::BTreeMap;
use std::fmt;

use rl::{Actor, Attempt, DropReason, GroupId, GroupKind, Round, StepId, WeightRef};
use serde::{Deserialize, Serialize};

use crate::{PerActor, Problem};

/// What one event changed, persisted as one fenced write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Replaces the record.
    pub record: Record,
    /// Groups to add to the open ones.
    pub opened: Vec<OpenGroup>,
    /// Groups to take from the open ones, and how they ended.
    pub closed: Vec<(GroupId, Outcome)>,
}

/// Together with the open groups, everything needed to go on with a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Of the settings the run was started with.
    pub fingerprint: u64,
    /// The ordinal of the phase in progress; the number of phases once all are done.
    pub phase: usize,
    /// Steps done in the phase, skipped ones included.
    pub step_in_phase: u64,
    /// The step in progress, over all phases.
    pub step: StepId,
    /// Groups drawn since the last step was done.
    pub drawn_for_step: usize,
    /// How many prompts (for the policy) and anchors (for the generator) were drawn.
    pub cursors: PerActor<u64>,
    /// The next draw's number.
    pub next_group: GroupId,
    /// The weights each actor has come to.
    pub current: PerActor<WeightRef>,
    /// The weights at the start, then at the end of each phase that trained the actor: P_0 .. P_t
    /// and G_0 .. G_t.
    pub history: PerActor<Vec<WeightRef>>,
    /// What became of all draws, by the actor they were to train.
    pub tally: PerActor<Tally>,
    /// Steps for which no draw had a signal: weights unchanged.
    pub skipped_steps: u64,
    /// The audit that the run waits for.
    pub audit: Option<AuditPoint>,
    /// How the run ended, once it has.
    pub end: Option<End>,
}

impl Record {
    /// The record of a run that has not begun.
    pub(crate) fn new(fingerprint: u64, initial: PerActor<WeightRef>) -> Self {
        Self {
            fingerprint,
            phase: 0,
            step_in_phase: 0,
            step: StepId(0),
            drawn_for_step: 0,
            cursors: PerActor::default(),
            next_group: GroupId(0),
            current: initial,
            history: PerActor { policy: vec![initial.policy], generator: vec![initial.generator] },
            tally: PerActor::default(),
            skipped_steps: 0,
            audit: Some(AuditPoint {
                moment: AuditMoment::Start,
                round: Round(0),
                step: StepId(0),
            }),
            end: None,
        }
    }
}

/// What became of the groups drawn of one kind: `drawn = trained + dropped + open`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// All of them.
    pub drawn: u64,
    /// Those trained on.
    pub trained: u64,
    /// Those that ended otherwise, by the reason.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl Tally {
    /// Those that have not ended.
    #[must_use]
    pub fn open(&self) -> u64 {
        let closed = self.trained + self.dropped.values().sum::<u64>();
        self.drawn.saturating_sub(closed)
    }
}

/// A group that was drawn and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenGroup {
    /// Its number.
    pub id: GroupId,
    /// What it will train.
    pub kind: GroupKind,
    /// The index of its prompt, in the anchors for a rubric group, else in the prompts.
    pub prompt: usize,
    /// The step in progress when it was drawn.
    pub step: StepId,
    /// How often its work was handed out when it was persisted, counting the one to come.
    pub attempt: Attempt,
}

/// How a group ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was trained on.
    Trained {
        /// In which step.
        step: StepId,
    },
    /// It was not.
    Dropped {
        /// The counted reason.
        reason: DropReason,
        /// In words, for the operator.
        why: String,
    },
}

/// A place in a run at which it is audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditPoint {
    /// Before, in or after what.
    pub moment: AuditMoment,
    /// The round in progress or just over; 0 before the first.
    pub round: Round,
    /// The number of steps done.
    pub step: StepId,
}

/// When in a run an audit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMoment {
    /// Before the first step.
    Start,
    /// In a policy phase, by `audit_every`.
    Within,
    /// At the end of a phase.
    PhaseEnd {
        /// The actor trained in it.
        trained: Actor,
    },
}

impl fmt::Display for AuditPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, round) = (self.step.0, self.round.0);
        match self.moment {
            AuditMoment::Start => f.write_str("the start"),
            AuditMoment::Within => write!(f, "step {step} of round {round}"),
            AuditMoment::PhaseEnd { trained } => {
                write!(f, "step {step}, the end of round {round}'s {trained} training")
            }
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All phases are done.
    Completed,
    /// Somebody cancelled it.
    Cancelled,
    /// A step failed for good. [`Ledger::recover`](crate::Ledger::recover) tries it again.
    Failed {
        /// In words, for the operator.
        why: String,
    },
}

/// Why a run cannot be started, or gone on with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The settings themselves are wrong.
    #[error("settings cannot be run with: {}", list(.0))]
    Settings(Vec<Problem>),
    /// The run was started with others.
    #[error(
        "record was made under settings {recorded:016x}, not {found:016x} (expected the same seed, schedule, sizes and rewards)"
    )]
    OtherSettings {
        /// The record's fingerprint.
        recorded: u64,
        /// That of the settings given.
        found: u64,
    },
    /// The counters do not add up with the open groups.
    #[error("record counts {recorded} open groups that train the {actor}, the store holds {found}")]
    Accounting {
        /// Of which kind.
        actor: Actor,
        /// `drawn - trained - dropped`.
        recorded: u64,
        /// The number of open groups.
        found: u64,
    },
    /// An open group is twice there, or was never drawn.
    #[error("open group {0} is held twice or was never drawn")]
    UnknownGroup(GroupId),
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("; ")
}
