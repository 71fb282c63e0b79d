//! Workers and the leases they hold. An answer counts only if its lease is found here, once: late
//! and double answers fall away in [`Pool::answered`] and nowhere else.

use std::collections::BTreeMap;
use std::fmt;

use rl::{Attempt, GroupId, StepId, WeightRef};
use serde::{Deserialize, Serialize};

use crate::{Failure, Refusal};

/// Who can work, and who holds what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    workers: BTreeMap<WorkerId, Worker>,
    leases: BTreeMap<LeaseId, Lease>,
    next: u64,
}

#[derive(Debug, Clone)]
struct Worker {
    role: Role,
    slots: usize,
    held: usize,
}

impl Pool {
    /// Adds a worker that holds nothing.
    pub fn join(&mut self, worker: WorkerId, role: Role, slots: usize) {
        let held = 0;
        self.workers.insert(worker, Worker { role, slots, held });
    }

    /// Takes a worker away, and its leases with it.
    pub fn leave(&mut self, worker: &WorkerId) -> Vec<Lease> {
        self.workers.remove(worker);
        self.release(|lease| lease.worker == *worker)
    }

    /// The lease that an answer to such a call names; it is over now.
    pub fn answered(&mut self, id: LeaseId, call: Call) -> Result<Lease, Refusal> {
        let known = self.leases.get(&id).is_some_and(|lease| lease.work.call() == call);
        let released = self.release(|lease| known && lease.id == id).pop();
        released.ok_or(Refusal::Late { lease: id, call })
    }

    /// The leases that have run out; they are over now.
    pub fn expired(&mut self, now: Millis) -> Vec<Lease> {
        self.release(|lease| lease.deadline <= now)
    }

    /// Ends the leases that meet the condition.
    pub fn release(&mut self, over: impl Fn(&Lease) -> bool) -> Vec<Lease> {
        let ids: Vec<LeaseId> = self.leases.values().filter(|l| over(l)).map(|l| l.id).collect();
        let released: Vec<Lease> = ids.iter().filter_map(|id| self.leases.remove(id)).collect();
        for lease in &released {
            if let Some(worker) = self.workers.get_mut(&lease.worker) {
                worker.held -= 1;
            }
        }
        released
    }

    /// The least loaded worker with a free slot. One to avoid is taken only if there is no other of
    /// the role, busy or not.
    pub fn pick(&self, role: Role, avoid: Option<&WorkerId>) -> Option<WorkerId> {
        let mut fit: Vec<_> =
            self.workers.iter().filter(|(_, w)| w.role == role && w.slots > 0).collect();
        if fit.len() > 1 {
            fit.retain(|(id, _)| Some(*id) != avoid);
        }
        let free = fit.into_iter().filter(|(_, w)| w.held < w.slots);
        free.min_by_key(|(_, w)| w.held).map(|(id, _)| id.clone())
    }

    /// Gives the work to the worker.
    pub fn grant(&mut self, worker: WorkerId, grant: Grant) -> Lease {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.held += 1;
        }
        let lease = Lease {
            id: LeaseId(self.next),
            work: grant.work,
            worker,
            attempt: grant.attempt,
            weights: grant.weights,
            since: grant.now,
            deadline: grant.now.after(grant.lasts),
        };
        self.next += 1;
        self.leases.insert(lease.id, lease.clone());
        lease
    }

    /// All leases, oldest first.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// How many workers of the role there are.
    pub fn count(&self, role: Role) -> usize {
        self.workers.values().filter(|w| w.role == role).count()
    }
}

/// What a lease is for.
pub(crate) struct Grant {
    pub work: Work,
    pub attempt: Attempt,
    pub weights: WeightRef,
    pub now: Millis,
    pub lasts: Millis,
}

/// One call that one worker was given, until a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// What the call is for.
    pub work: Work,
    /// Who was given it.
    pub worker: WorkerId,
    /// How often the work was handed out, this time included.
    pub attempt: Attempt,
    /// The weights the call is made with: of the policy to sample, of the generator to judge, the
    /// base to train from.
    pub weights: WeightRef,
    /// When it was given.
    pub since: Millis,
    /// When it is taken back.
    pub deadline: Millis,
}

/// A lease's number, unique in one life of the coordinator; calls do not outlive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease {}", self.0)
    }
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Sampling this group.
    Rollout(GroupId),
    /// Judging this group.
    Evaluate(GroupId),
    /// Taking this step.
    Train(StepId),
}

impl Work {
    /// Which call it is.
    #[must_use]
    pub fn call(self) -> Call {
        match self {
            Self::Rollout(_) => Call::Rollout,
            Self::Evaluate(_) => Call::Evaluate,
            Self::Train(_) => Call::Train,
        }
    }

    /// The group it is for.
    #[must_use]
    pub fn group(self) -> Option<GroupId> {
        match self {
            Self::Rollout(group) | Self::Evaluate(group) => Some(group),
            Self::Train(_) => None,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rollout(group) => write!(f, "rollout of {group}"),
            Self::Evaluate(group) => write!(f, "evaluation of {group}"),
            Self::Train(step) => write!(f, "training of step {}", step.0),
        }
    }
}

/// The kinds of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Sampling a group.
    Rollout,
    /// Judging a group.
    Evaluate,
    /// One optimiser step.
    Train,
}

impl Call {
    /// Who answers it.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Rollout => Role::Rollout,
            Self::Evaluate => Role::Evaluator,
            Self::Train => Role::Learner,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rollout => "rollout",
            Self::Evaluate => "evaluate",
            Self::Train => "train",
        })
    }
}

/// Which calls a worker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Samples groups.
    Rollout,
    /// Writes rubrics and judges groups.
    Evaluator,
    /// Trains either actor.
    Learner,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rollout => "rollout worker",
            Self::Evaluator => "evaluator",
            Self::Learner => "learner",
        })
    }
}

/// A worker's name, unique over all roles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub String);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A time since the driver's start, or a span of time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// The time a while later.
    #[must_use]
    pub fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// How a lease ended without a good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lapse {
    Failed(Failure),
    Expired,
    WorkerLost,
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => f.write_str(&failure.reason),
            Self::Expired => f.write_str("no answer before the deadline"),
            Self::WorkerLost => f.write_str("worker left"),
        }
    }
}
