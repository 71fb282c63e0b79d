//! Why the run waits, by ids; and how much of what there is, for metrics.

use std::fmt;

use rl::{Attempt, StepId};

use crate::group::{Retry, Stage};
use crate::ledger::Ledger;
use crate::{AuditPoint, Call, Millis, PhasePlan, Role, Work, WorkerId};

impl Ledger {
    /// Everything the run waits for, oldest lease first, then what waits to be handed out.
    #[must_use]
    pub fn explain(&self, now: Millis) -> Vec<Waiting> {
        let audit = self.record.audit.map(|point| Waiting {
            what: Awaited::Audit(point),
            on: Obstacle::Driver,
            since: self.audit_since.unwrap_or(now),
            why: String::new(),
        });
        let held = self.pool.leases().map(|lease| Waiting {
            what: Awaited::Work(lease.work, lease.attempt),
            on: Obstacle::Worker(lease.worker.clone()),
            since: lease.since,
            why: self.last_failure(lease.work),
        });
        let groups = self.groups.iter().filter_map(|(id, group)| {
            let work = match group.wants()? {
                Call::Rollout => Work::Rollout(*id),
                _ => Work::Evaluate(*id),
            };
            Some(self.unleased(work, &group.retry, group.since, now))
        });
        let step = self.step.iter().filter(|step| !step.leased);
        let step = step
            .map(|step| self.unleased(Work::Train(self.record.step), &step.retry, step.since, now));
        audit.into_iter().chain(held).chain(step).chain(groups).collect()
    }

    fn unleased(&self, work: Work, retry: &Retry, since: Millis, now: Millis) -> Waiting {
        let role = work.call().role();
        Waiting {
            what: Awaited::Work(work, retry.attempt),
            on: if retry.not_before > now {
                Obstacle::Delay(retry.not_before)
            } else if self.pool.count(role) == 0 {
                Obstacle::NoWorker(role)
            } else {
                Obstacle::FreeSlot(role)
            },
            since,
            why: retry.why.clone(),
        }
    }

    fn last_failure(&self, work: Work) -> String {
        let retry = match work.group() {
            Some(id) => self.groups.get(&id).map(|group| &group.retry),
            None => self.step.as_ref().map(|step| &step.retry),
        };
        retry.map(|retry| retry.why.clone()).unwrap_or_default()
    }

    /// Counts for metrics; the tallies are in the [`record`](Ledger::record).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            phase: self.phase(),
            step_in_phase: self.record.step_in_phase,
            step: self.record.step,
            ..Snapshot::default()
        };
        for group in self.groups.values() {
            *match group.stage {
                Stage::Pending => &mut snapshot.pending,
                Stage::Rolling => &mut snapshot.rolling,
                Stage::Rolled(_) => &mut snapshot.rolled,
                Stage::Evaluating(_) => &mut snapshot.evaluating,
                Stage::Queued(_) => &mut snapshot.queued,
                Stage::Training(_) => &mut snapshot.training,
            } += 1;
        }
        let (total, count) = (self.staleness.iter().sum::<u64>(), self.staleness.len());
        snapshot.staleness_mean = (count > 0).then(|| total as f64 / count as f64);
        snapshot.staleness_max = self.staleness.iter().copied().max();
        snapshot
    }
}

/// One thing the run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// What is missing.
    pub what: Awaited,
    /// Whose turn it is.
    pub on: Obstacle,
    /// Since when.
    pub since: Millis,
    /// The failure before, in words; empty if there was none.
    pub why: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Awaited::Audit(point) => write!(f, "audit at {point}")?,
            Awaited::Work(work, attempt) => write!(f, "{work}, attempt {}", attempt.0)?,
        }
        match &self.on {
            Obstacle::Driver => Ok(()),
            Obstacle::Worker(worker) => write!(f, ": with {worker}"),
            Obstacle::NoWorker(role) => write!(f, ": there is no {role}"),
            Obstacle::FreeSlot(role) => write!(f, ": no other {role} is free"),
            Obstacle::Delay(_) => f.write_str(": about to be tried again"),
        }?;
        if self.why.is_empty() { Ok(()) } else { write!(f, " (last: {})", self.why) }
    }
}

/// What a run can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// An audit.
    Audit(AuditPoint),
    /// The answer to a call, of which this is (or will be) the so-many-th attempt.
    Work(Work, Attempt),
}

/// What a run can wait on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The ledger's driver.
    Driver,
    /// A worker that was given a call.
    Worker(WorkerId),
    /// Any worker of this role to join.
    NoWorker(Role),
    /// A worker of this role to have a free slot.
    FreeSlot(Role),
    /// The time of the next attempt.
    Delay(Millis),
}

/// How many groups are where.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The phase in progress; nothing once all are done.
    pub phase: Option<PhasePlan>,
    /// Steps done in it.
    pub step_in_phase: u64,
    /// The step in progress, over all phases.
    pub step: StepId,
    /// Groups that wait for a rollout worker.
    pub pending: usize,
    /// Groups that are sampled.
    pub rolling: usize,
    /// Groups that wait for an evaluator.
    pub rolled: usize,
    /// Groups that are judged.
    pub evaluating: usize,
    /// Groups that wait for their step.
    pub queued: usize,
    /// Groups in the step that is trained.
    pub training: usize,
    /// Mean staleness of the groups trained on in the step last done, in versions; nothing where
    /// that was skipped.
    pub staleness_mean: Option<f64>,
    /// The staleness of its oldest group.
    pub staleness_max: Option<u64>,
}
