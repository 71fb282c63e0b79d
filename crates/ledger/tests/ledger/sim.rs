//! A driver with a store, workers that compute by hashing, and every kind of fault. It checks the
//! invariants of each decision as it carries it out.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    Action, AuditPoint, Decision, End, Event, Ledger, Millis, OpenGroup, Outcome, Record, Refusal,
    Role, Settings, WorkerId,
};
use rl::{Actor, GroupId, GroupKind, Seed, StepId, WeightRef};

use crate::table::initial;
use crate::workers::Manner;

/// Completions (or rubrics) per group.
pub const GROUP_SIZE: usize = 3;

/// Something that goes right or wrong; numbers choose among what there is.
#[derive(Debug, Clone)]
pub enum Op {
    /// A worker answers.
    Answer(usize),
    /// A worker does its work, and the answer is lost.
    Lose(usize),
    /// A worker says that it failed.
    Fail(usize),
    /// A worker answers what cannot be.
    Lie(usize),
    /// An old answer arrives again.
    Double(usize),
    /// A worker leaves; its answer may still arrive.
    Leave(usize),
    /// A worker joins, perhaps one that never left.
    Join(usize),
    /// Time goes by.
    Tick(u64),
    /// The coordinator dies between events.
    Crash,
    /// It dies with an answer taken in but not persisted.
    CrashBeforePersist(usize),
    /// It dies with an answer persisted but not acted upon.
    CrashAfterPersist(usize),
}

/// A step as the learner published it: its groups with prompt and advantages.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    pub weights: WeightRef,
    pub groups: Vec<(GroupId, usize, Vec<f32>)>,
}

pub struct Sim {
    pub settings: Settings,
    pub ledger: Ledger,
    pub end: Option<End>,
    /// How often a run that failed was tried again.
    pub tried_again: usize,
    /// What learners published; survives them and the coordinator.
    pub published: BTreeMap<StepId, Published>,
    pub audits: Vec<AuditPoint>,
    record: Option<Record>,
    pub open: BTreeMap<GroupId, OpenGroup>,
    /// All groups in the order they were drawn.
    pub drawn: Vec<OpenGroup>,
    pub ended: BTreeMap<GroupId, Outcome>,
    now: Millis,
    pub calls: Vec<Action>,
    answered: Vec<Event>,
    workers: Vec<(WorkerId, Role)>,
    slots: usize,
    /// What each group's completions hash to.
    pub samples: BTreeMap<GroupId, Seed>,
}

impl Sim {
    /// A run that has begun, with so many workers of each role.
    pub fn new(settings: Settings, workers: usize, slots: usize) -> Self {
        let roles = [Role::Rollout, Role::Evaluator, Role::Learner];
        let named = |i| roles.map(|role| (WorkerId(format!("{role} {i}")), role));
        let mut sim = Self {
            ledger: Ledger::new(settings.clone(), initial()).expect("good settings"),
            settings,
            end: None,
            tried_again: 0,
            published: BTreeMap::new(),
            audits: Vec::new(),
            record: None,
            open: BTreeMap::new(),
            drawn: Vec::new(),
            ended: BTreeMap::new(),
            now: Millis(0),
            calls: Vec::new(),
            answered: Vec::new(),
            workers: (0..workers).flat_map(named).collect(),
            slots,
            samples: BTreeMap::new(),
        };
        sim.apply(Event::Ticked);
        (0..sim.workers.len()).for_each(|i| sim.join(i));
        sim
    }

    pub fn op(&mut self, op: &Op) {
        match *op {
            Op::Answer(i) => self.answer(i, Manner::Right),
            Op::Fail(i) => self.answer(i, Manner::Failing),
            Op::Lie(i) => self.answer(i, Manner::Lying),
            // The driver itself answers for audits: it does not lose them.
            Op::Lose(i) => {
                if let Some(event @ Event::AuditFinished { .. }) = self.work(i, Manner::Right) {
                    self.apply(event);
                }
            }
            Op::Double(i) => self.double(i),
            Op::Leave(i) => {
                let (worker, _) = self.workers[i % self.workers.len()].clone();
                self.apply(Event::WorkerLeft { worker });
            }
            Op::Join(i) => self.join(i % self.workers.len()),
            Op::Tick(ms) => {
                self.now = self.now.after(Millis(ms));
                self.apply(Event::Ticked);
            }
            Op::Crash => self.crash(),
            Op::CrashBeforePersist(i) => {
                if let Some(event) = self.work(i, Manner::Right) {
                    self.ledger.apply(event, self.now);
                }
                self.crash();
            }
            Op::CrashAfterPersist(i) => {
                if let Some(event) = self.work(i, Manner::Right) {
                    let decision = self.ledger.apply(event, self.now);
                    self.persist(&decision);
                }
                self.crash();
            }
        }
        self.try_again();
    }

    /// Starts a run that failed again.
    fn try_again(&mut self) {
        if matches!(self.end, Some(End::Failed { .. })) {
            self.tried_again += 1;
            self.crash();
        }
    }

    /// Lets the run go on without faults until it ends.
    pub fn finish(&mut self) {
        (0..self.workers.len()).for_each(|i| self.join(i));
        for _ in 0..20_000 {
            self.try_again();
            if self.end.is_some() {
                return;
            }
            if self.calls.is_empty() {
                self.op(&Op::Tick(1_000));
            } else {
                self.op(&Op::Answer(0));
            }
        }
        panic!("the run does not end; it waits for {:#?}", self.ledger.explain(self.now));
    }

    pub fn record(&self) -> &Record {
        self.record.as_ref().expect("the first event persists")
    }

    pub fn apply(&mut self, event: Event) -> Decision {
        let decision = self.ledger.apply(event, self.now);
        self.persist(&decision);
        self.check(&decision);
        for action in decision.actions.clone() {
            match action {
                Action::Forget { groups } => {
                    for group in groups {
                        assert!(self.ended.contains_key(&group), "{group} forgotten while open");
                        self.samples.remove(&group);
                    }
                }
                Action::Finish { end } => {
                    assert_eq!(self.end.replace(end), None, "finished twice");
                }
                call => self.calls.push(call),
            }
        }
        decision
    }

    fn join(&mut self, i: usize) {
        let (worker, role) = self.workers[i].clone();
        let slots = self.slots;
        self.apply(Event::WorkerJoined { worker, role, slots });
    }

    fn answer(&mut self, i: usize, manner: Manner) {
        if let Some(event) = self.work(i, manner) {
            self.answered.push(event.clone());
            self.apply(event);
        }
    }

    /// An answer that came before comes again: nothing happens.
    fn double(&mut self, i: usize) {
        if self.answered.is_empty() {
            return;
        }
        let event = self.answered[i % self.answered.len()].clone();
        let decision = self.apply(event);
        assert_eq!((decision.transaction, decision.actions), (None, vec![]));
        assert!(matches!(
            decision.refused,
            Some(Refusal::Late { .. } | Refusal::NoSuchAudit { .. })
        ));
    }

    /// The coordinator starts again from its store. Calls die with it.
    fn crash(&mut self) {
        self.calls.clear();
        self.answered.clear();
        self.samples.clear();
        self.end = None;
        let open = self.open.values().cloned().collect();
        let record = self.record().clone();
        let recovered = Ledger::recover(self.settings.clone(), record, open);
        self.ledger = recovered.expect("what was persisted fits together");
        self.apply(Event::Ticked);
        (0..self.workers.len()).for_each(|i| self.join(i));
    }

    fn persist(&mut self, decision: &Decision) {
        let Some(transaction) = decision.transaction.clone() else {
            return;
        };
        for group in transaction.opened {
            self.drawn.push(group.clone());
            assert!(!self.ended.contains_key(&group.id), "{} drawn again", group.id);
            assert_eq!(self.open.insert(group.id, group), None, "drawn twice");
        }
        for (id, outcome) in transaction.closed {
            assert!(self.open.remove(&id).is_some(), "{id} closed but not open");
            assert_eq!(self.ended.insert(id, outcome), None, "{id} ended twice");
        }
        if let Some(before) = self.record.replace(transaction.record) {
            let after = self.record().current;
            for actor in [Actor::Policy, Actor::Generator] {
                let (before, after) = (before.current.of(actor), after.of(actor));
                let next = before.version.next() == after.version;
                assert!(before == after || next, "{actor} went from {before} to {after}");
            }
        }
    }

    /// The invariants that hold after every decision.
    fn check(&self, decision: &Decision) {
        for (actor, kind) in
            [(Actor::Policy, GroupKind::Policy), (Actor::Generator, GroupKind::Rubric)]
        {
            let open = self.open.values().filter(|group| group.kind == kind).count();
            let tally = self.record().tally.of(actor);
            let dropped: u64 = tally.dropped.values().sum();
            assert_eq!(tally.drawn, tally.trained + dropped + open as u64, "{kind:?} groups");
        }
        assert!(self.ledger.open_groups().map(|g| g.id).eq(self.open.keys().copied()));
        assert_eq!(self.ledger.record(), self.record());

        let mut holders = BTreeMap::new();
        let mut loads = BTreeMap::<&WorkerId, usize>::new();
        for lease in self.ledger.leases() {
            let twice = holders.insert(lease.work.group(), &lease.worker);
            assert_eq!(twice, None, "{} held twice", lease.work);
            *loads.entry(&lease.worker).or_default() += 1;
        }
        assert!(loads.values().all(|&load| load <= self.slots), "{loads:?}");

        let snapshot = self.ledger.snapshot();
        if let Some(phase) = snapshot.phase {
            let bound = (self.settings.max_staleness + 1) * phase.groups_per_step;
            assert!(self.open.len() <= bound, "{} open, at most {bound}", self.open.len());
        }
        let bound = self.settings.max_staleness as u64;
        assert!(snapshot.staleness_max.is_none_or(|oldest| oldest <= bound));
        for action in &decision.actions {
            match action {
                Action::Rollout { group, .. } | Action::Evaluate { group, .. } => {
                    assert!(self.open.contains_key(group), "{group} handed out unpersisted");
                }
                Action::Train { lease, groups } => {
                    assert_eq!(self.record().current.of(lease.weights.actor), &lease.weights);
                    let whole = groups.iter().all(|(_, a)| a.len() == GROUP_SIZE);
                    let ids: BTreeSet<_> = groups.iter().map(|(id, _)| id).collect();
                    assert!(whole && ids.len() == groups.len(), "{groups:?}");
                    assert!(ids.iter().all(|id| self.open.contains_key(id)));
                    let size = snapshot.phase.expect("a phase").groups_per_step;
                    assert!((1..=size).contains(&groups.len()));
                }
                _ => {}
            }
        }
    }
}
