//! A ledger by itself, its settings, and its decisions in short.

use ledger::{
    Action, Decision, Event, Failure, LeaseId, LeaseTimes, Ledger, Millis, Outcome, PerActor,
    Rewards, Role, Settings, StepDone, Work, WorkerId,
};
use rl::advantage::Normalization;
use rl::{Actor, Digest, GroupId, Schedule, StepId, WeightRef, WeightVersion};

/// A ledger at a time that a test sets.
pub struct Table {
    pub ledger: Ledger,
    pub now: u64,
}

impl Table {
    /// A run past its first audit, with one worker of each role and two slots.
    pub fn new(settings: Settings) -> Self {
        let ledger = Ledger::new(settings, initial()).expect("good settings");
        let mut table = Self { ledger, now: 0 };
        table.apply(Event::Ticked);
        table.audited();
        table.join("r", Role::Rollout);
        table.join("e", Role::Evaluator);
        table.join("l", Role::Learner);
        table
    }

    pub fn apply(&mut self, event: Event) -> Decision {
        self.ledger.apply(event, Millis(self.now))
    }

    pub fn tick(&mut self, ms: u64) -> Decision {
        self.now += ms;
        self.apply(Event::Ticked)
    }

    pub fn join(&mut self, worker: &str, role: Role) -> Decision {
        let worker = WorkerId(worker.into());
        self.apply(Event::WorkerJoined { worker, role, slots: 2 })
    }

    pub fn leave(&mut self, worker: &str) -> Decision {
        let worker = WorkerId(worker.into());
        self.apply(Event::WorkerLeft { worker })
    }

    pub fn audited(&mut self) -> Decision {
        let point = self.ledger.record().audit.expect("an open audit");
        self.apply(Event::AuditFinished { point })
    }

    /// The lease for the work.
    pub fn lease(&self, work: Work) -> LeaseId {
        let mut leases = self.ledger.leases();
        let lease = leases.find(|lease| lease.work == work);
        lease.unwrap_or_else(|| panic!("nobody does {work}")).id
    }

    pub fn rolled(&mut self, group: u64, version: u64) -> Decision {
        let lease = self.lease(Work::Rollout(GroupId(group)));
        let outcome = Ok(WeightVersion(version));
        self.apply(Event::RolloutFinished { lease, outcome })
    }

    pub fn scored(&mut self, group: u64, scores: &[f64]) -> Decision {
        self.evaluated(group, Rewards::Scores(scores.to_vec()))
    }

    pub fn evaluated(&mut self, group: u64, rewards: Rewards) -> Decision {
        let lease = self.lease(Work::Evaluate(GroupId(group)));
        let outcome = Ok(rewards);
        self.apply(Event::EvaluationFinished { lease, outcome })
    }

    pub fn trained(&mut self, step: u64, weights: WeightRef, groups: &[u64]) -> Decision {
        let lease = self.lease(Work::Train(StepId(step)));
        let groups = groups.iter().copied().map(GroupId).collect();
        let outcome = Ok(StepDone { weights, groups });
        self.apply(Event::StepFinished { lease, outcome })
    }

    /// Takes a policy group to the queue.
    pub fn queue(&mut self, group: u64, version: u64) -> Decision {
        self.rolled(group, version);
        self.scored(group, &[1.0, 2.0, 3.0])
    }
}

/// A call that failed.
pub fn failure(retryable: bool) -> Failure {
    Failure { retryable, reason: "out of luck".into() }
}

/// Policy steps only, one round.
pub fn policy_only() -> Settings {
    Settings { rounds: 1, steps: PerActor { policy: 2, generator: 0 }, ..settings() }
}

/// The actions in short: what, for which group or step, by whom, which attempt.
pub fn short(decision: &Decision) -> Vec<String> {
    let line = |action: &Action| match action {
        Action::Rollout { lease, .. }
        | Action::Evaluate { lease, .. }
        | Action::Train { lease, .. } => {
            format!("{} by {}, {}", lease.work, lease.worker, lease.attempt.0)
        }
        Action::Audit { point, .. } => format!("audit at {point}"),
        Action::Forget { groups } => {
            let ids: Vec<String> = groups.iter().map(GroupId::to_string).collect();
            format!("forget {}", ids.join(" "))
        }
        Action::Finish { end } => format!("finish {end:?}"),
    };
    decision.actions.iter().map(line).collect()
}

/// The groups a decision closes.
pub fn closed(decision: &Decision) -> Vec<(u64, Outcome)> {
    let transaction = decision.transaction.as_ref().expect("a transaction");
    transaction.closed.iter().map(|(id, outcome)| (id.0, outcome.clone())).collect()
}

pub fn weights(actor: Actor, version: u64, digest: u8) -> WeightRef {
    WeightRef { actor, version: WeightVersion(version), digest: Digest([digest; 32]) }
}

pub fn initial() -> PerActor<WeightRef> {
    PerActor { policy: weights(Actor::Policy, 0, 1), generator: weights(Actor::Generator, 0, 2) }
}

/// Synchronous settings: two rounds of one evaluator step and two policy steps of two groups.
pub fn settings() -> Settings {
    let normalization = Normalization { std: true, epsilon: 0.0 };
    Settings {
        seed: 7,
        schedule: Schedule::Fresh,
        rounds: 2,
        steps: PerActor { policy: 2, generator: 1 },
        groups_per_step: PerActor { policy: 2, generator: 2 },
        max_staleness: 0,
        max_draws_per_step: 3,
        max_attempts: 3,
        lease: LeaseTimes { rollout: Millis(1_000), evaluate: Millis(500), train: Millis(5_000) },
        normalization: PerActor { policy: normalization, generator: normalization },
        anchor_weight: 1.0,
        prompts: 5,
        anchors: 4,
        audit_every: None,
    }
}
