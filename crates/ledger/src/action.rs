//! What is to be done, in imperatives.

use rl::{GroupId, GroupKind, WeightRef, WeightVersion};

use crate::{AuditPoint, Call, Conditioning, End, Lease, LeaseId, Transaction};

/// What follows from an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// To be persisted, fenced, before any of the actions.
    pub transaction: Option<Transaction>,
    /// To be carried out, in this order.
    pub actions: Vec<Action>,
    /// Why the event was not taken as it was said. Its payload, if any, is to be thrown away; what
    /// follows from the refusal (a retry) is already decided.
    pub refused: Option<Refusal>,
}

/// Something for the driver to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Have a worker sample a group; answered by `RolloutFinished`.
    Rollout {
        /// Whom, under which lease, with which weights of the policy.
        lease: Lease,
        /// The group.
        group: GroupId,
        /// What it will train.
        kind: GroupKind,
        /// The index of its prompt, in the anchors for a rubric group, else in the prompts.
        prompt: usize,
    },
    /// Have a worker judge a group that was sampled; answered by `EvaluationFinished`.
    Evaluate {
        /// Whom, under which lease, with which weights of the generator.
        lease: Lease,
        /// The group.
        group: GroupId,
        /// Whether to score it (`EvaluateGroup`) or to sample rubrics for it (`ProposeRubrics`).
        kind: GroupKind,
        /// The index of its prompt, as in `Rollout`.
        prompt: usize,
        /// What the generator is shown.
        conditioning: Conditioning,
    },
    /// Have a learner take one optimiser step; answered by `StepFinished`.
    Train {
        /// Whom, under which lease, from which weights. The lease's work names the step.
        lease: Lease,
        /// The groups in the order they are trained on, each with one advantage per sample.
        groups: Vec<(GroupId, Vec<f32>)>,
    },
    /// Measure the policy against what it is not trained on; answered by `AuditFinished`.
    Audit {
        /// When in the run.
        point: AuditPoint,
        /// The policy to sample.
        policy: WeightRef,
        /// G_0 .. G_t, each of which scores the samples (the staleness matrix).
        generators: Vec<WeightRef>,
    },
    /// Throw away what is held of these groups; answers still to come are late.
    Forget {
        /// The groups, all closed.
        groups: Vec<GroupId>,
    },
    /// The run is over.
    Finish {
        /// How it ended.
        end: End,
    },
}

/// Why an event changed nothing, or was taken for a failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The answer came late, twice, or to a call never made. Nothing changed.
    #[error("{call} answer without a lease: {lease} is over or was never given")]
    Late {
        /// The lease named.
        lease: LeaseId,
        /// The kind of call answered.
        call: Call,
    },
    /// No such audit is open. Nothing changed.
    #[error("no audit is open at {point}")]
    NoSuchAudit {
        /// The audit named.
        point: AuditPoint,
    },
    /// The samples say they are newer than the weights they were asked from. Tried again.
    #[error("{group} was sampled by {found}, newer than the {asked} asked for")]
    TooNew {
        /// The group.
        group: GroupId,
        /// The oldest version said to have sampled it.
        found: WeightVersion,
        /// The version asked for.
        asked: WeightVersion,
    },
    /// Rewards of the wrong kind, of different lengths, or not finite. Tried again.
    #[error("rewards of {group} are malformed: {expected}")]
    MalformedRewards {
        /// The group.
        group: GroupId,
        /// What was expected.
        expected: &'static str,
    },
    /// The learner published something else than the step asked for. Tried again.
    #[error("learner answered {found} to a step from {base} (expected the next version)")]
    WrongVersion {
        /// The weights it named.
        found: WeightRef,
        /// The weights the step starts from.
        base: WeightRef,
    },
    /// The learner trained on other groups than the step's. Tried again.
    #[error("learner answered a step of {asked:?} from {base} with {found:?}")]
    WrongGroups {
        /// The weights the step starts from.
        base: WeightRef,
        /// The groups of the step.
        asked: Vec<GroupId>,
        /// The groups it named.
        found: Vec<GroupId>,
    },
}
