//! What happened, in past participles.

use rl::{GroupId, WeightRef, WeightVersion};

use crate::{AuditPoint, LeaseId, Role, WorkerId};

/// Something that happened to the run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker can be given work. A worker that is known already lost what it held.
    WorkerJoined {
        /// Its name, unique over all roles.
        worker: WorkerId,
        /// Which calls it answers.
        role: Role,
        /// How many calls it takes at a time.
        slots: usize,
    },
    /// A worker is gone; its leases are released at once.
    WorkerLeft {
        /// Its name.
        worker: WorkerId,
    },
    /// A call of [`Action::Rollout`](crate::Action::Rollout) was answered.
    RolloutFinished {
        /// The call's lease.
        lease: LeaseId,
        /// The oldest version of the weights that sampled a token of the group.
        outcome: Result<WeightVersion, Failure>,
    },
    /// A call of [`Action::Evaluate`](crate::Action::Evaluate) was answered.
    EvaluationFinished {
        /// The call's lease.
        lease: LeaseId,
        /// The rewards.
        outcome: Result<Rewards, Failure>,
    },
    /// A call of [`Action::Train`](crate::Action::Train) was answered.
    StepFinished {
        /// The call's lease.
        lease: LeaseId,
        /// The weights published. A learner that had published this step before (and died before
        /// it answered) names what it published then.
        outcome: Result<StepDone, Failure>,
    },
    /// An [`Action::Audit`](crate::Action::Audit) is over, well or badly: an audit never stops a
    /// run.
    AuditFinished {
        /// The audit.
        point: AuditPoint,
    },
    /// Time went by: leases may have run out.
    Ticked,
    /// Somebody wants the run to stop for good.
    CancelRequested,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether the same call may succeed another time.
    pub retryable: bool,
    /// In words, for the operator.
    pub reason: String,
}

/// What a group's samples are worth.
#[derive(Debug, Clone, PartialEq)]
pub enum Rewards {
    /// Of a policy group: one score per completion, in [0, 1].
    Scores(Vec<f64>),
    /// Of a rubric group: two rewards per rubric.
    Rubric {
        /// Discriminability, in [0, 0.25].
        r_disc: Vec<f64>,
        /// Agreement with the ranked anchors, 0 at best.
        r_anchor: Vec<f64>,
    },
    /// It cannot be scored, and why; the evaluator has tried what it could.
    Unscorable(String),
}

/// A step that was trained and published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDone {
    /// The new weights: one version after the base.
    pub weights: WeightRef,
    /// The groups trained on.
    pub groups: Vec<GroupId>,
}
