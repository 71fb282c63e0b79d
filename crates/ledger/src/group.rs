//! An open group: where in its life it is, and what went wrong so far.

use rl::{Attempt, WeightVersion};

use crate::pool::Lapse;
use crate::{Call, Lease, Millis, OpenGroup, WorkerId};

/// A group that was drawn and has not ended.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub open: OpenGroup,
    pub stage: Stage,
    /// Since when it is in this stage.
    pub since: Millis,
    pub retry: Retry,
}

/// `Pending -> Rolling -> Rolled -> Evaluating -> Queued -> Training`.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Pending,
    Rolling,
    /// With the version of the policy that sampled the completions.
    Rolled(WeightVersion),
    Evaluating(WeightVersion),
    Queued(Sample),
    Training(Sample),
}

/// What a group brings to a step.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The oldest version of the trained actor that sampled what is trained on.
    pub sampled_by: WeightVersion,
    /// One per completion or rubric.
    pub advantages: Vec<f32>,
}

impl Stage {
    /// The stage to go back to when a call is over without a good answer.
    pub fn before_call(&self) -> Self {
        match self {
            Self::Rolling => Self::Pending,
            Self::Evaluating(sampled_by) => Self::Rolled(*sampled_by),
            other => other.clone(),
        }
    }
}

impl Group {
    /// A group that starts (again) from nothing.
    pub fn pending(open: OpenGroup, now: Millis) -> Self {
        Self { retry: Retry::from(open.attempt), open, stage: Stage::Pending, since: now }
    }

    pub fn enter(&mut self, stage: Stage, now: Millis) {
        self.stage = stage;
        self.since = now;
    }

    /// The call the group waits for a worker to take.
    pub fn wants(&self) -> Option<Call> {
        match self.stage {
            Stage::Pending => Some(Call::Rollout),
            Stage::Rolled(_) => Some(Call::Evaluate),
            _ => None,
        }
    }

    /// What it brings to a step, once it is queued.
    pub fn queued(&self) -> Option<&Sample> {
        match &self.stage {
            Stage::Queued(sample) => Some(sample),
            _ => None,
        }
    }

    /// Whether it is on its way to the queue.
    pub fn in_flight(&self) -> bool {
        !matches!(self.stage, Stage::Queued(_) | Stage::Training(_))
    }
}

/// How often some work was handed out, and what is known about its failures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Retry {
    /// The number of the next (or current) handing out.
    pub attempt: Attempt,
    /// How many of them failed since the last that succeeded.
    pub failures: u32,
    /// Not to be handed out earlier.
    pub not_before: Millis,
    /// The worker that failed last: another one is better.
    pub avoid: Option<WorkerId>,
    /// The last failure in words.
    pub why: String,
}

/// The wait after the first failed answer; doubled for each further one. A worker that is gone or
/// late has taken its time already.
const RETRY_DELAY: Millis = Millis(100);
const MAX_RETRY_DELAY: Millis = Millis(10_000);

impl Retry {
    pub fn from(attempt: Attempt) -> Self {
        Self { attempt, ..Self::default() }
    }

    /// Notes that the lease ended without a good answer.
    pub fn lapsed(&mut self, lease: &Lease, lapse: &Lapse, now: Millis) {
        self.attempt = Attempt(self.attempt.0 + 1);
        self.avoid = Some(lease.worker.clone());
        self.why = format!("{} by {}: {lapse}", lease.work, lease.worker);
        let answered = matches!(lapse, Lapse::Failed(_));
        // A step is not to blame for the loss of its learner: the run waits for the next one.
        if answered || lease.work.call() != Call::Train {
            self.failures += 1;
        }
        if answered {
            let doubled = RETRY_DELAY.0 << (self.failures - 1).min(20);
            self.not_before = now.after(Millis(doubled.min(MAX_RETRY_DELAY.0)));
        }
    }

    /// Whether no further attempt is due.
    pub fn exhausted(&self, max_attempts: u32, lapse: &Lapse) -> bool {
        let final_answer = matches!(lapse, Lapse::Failed(failure) if !failure.retryable);
        final_answer || self.failures >= max_attempts
    }

    /// Notes a good answer: the next call starts with a clean slate.
    pub fn succeeded(&mut self) {
        *self = Self::from(self.attempt);
    }
}
