//! The function that decides: [`Ledger::apply`] takes an event in, `settle` does what follows.

use std::collections::{BTreeMap, BTreeSet};

use rl::advantage::{advantages, rubric_advantages};
use rl::{Actor, Attempt, DropReason, GroupId, GroupKind, StepId, WeightRef, WeightVersion};

use crate::group::{Group, Retry, Sample, Stage};
use crate::pool::{Lapse, Pool};
use crate::prompts::PromptOrder;
use crate::{
    Action, Call, Decision, End, Event, Failure, Lease, LeaseId, Millis, OpenGroup, Outcome,
    PerActor, PhasePlan, Record, RecoverError, Refusal, Rewards, Settings, StepDone, Transaction,
};

/// The state of a run.
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(crate) settings: Settings,
    pub(crate) plan: Vec<PhasePlan>,
    pub(crate) record: Record,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// The step that is trained, once its groups are queued.
    pub(crate) step: Option<Training>,
    pub(crate) pool: Pool,
    pub(crate) prompts: PerActor<PromptOrder>,
    /// The time of the latest event; it never goes back.
    pub(crate) now: Millis,
    /// Since when the driver knows of the audit in the record.
    pub(crate) audit_since: Option<Millis>,
    pub(crate) finish_said: bool,
    /// Of each group trained on in the step last done; empty where that was skipped, and where a
    /// crash forgot it.
    pub(crate) staleness: Vec<u64>,
    /// Groups dropped for the step in progress.
    pub(crate) dropped: Dropped,
    /// The step in progress when the run was recovered.
    resumed_at: Option<StepId>,
    pub(crate) changes: Changes,
}

/// A step on its way.
#[derive(Debug, Clone)]
pub(crate) struct Training {
    pub groups: Vec<GroupId>,
    pub leased: bool,
    pub since: Millis,
    pub retry: Retry,
}

/// Groups that a step lost. One that nothing else came of is no bad luck but a fault: of prompts,
/// of weights, of a setting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dropped {
    /// Those out of attempts.
    pub failed: u64,
    /// Why the last of these was.
    pub why: String,
    /// Those that workers could work on, and that gave no signal, no scores, or became too old.
    pub sound: u64,
}

impl Dropped {
    fn count(&mut self, reason: DropReason, why: &str) {
        match reason {
            DropReason::Exhausted => {
                self.failed += 1;
                why.clone_into(&mut self.why);
            }
            DropReason::NoSignal | DropReason::Stale | DropReason::Unscorable => self.sound += 1,
            DropReason::Cancelled => {}
        }
    }
}

/// What the event in hand has changed so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    pub record: bool,
    pub opened: Vec<OpenGroup>,
    pub closed: Vec<(GroupId, Outcome)>,
    pub actions: Vec<Action>,
}

impl Ledger {
    /// Takes an event in and decides what follows from it.
    ///
    /// The transaction is to be persisted before the actions are carried out; if it cannot be, the
    /// ledger is to be thrown away and recovered from what was persisted.
    pub fn apply(&mut self, event: Event, now: Millis) -> Decision {
        self.now = self.now.max(now);
        let refused = self.take_in(event).err();
        self.settle();
        let mut changes = std::mem::take(&mut self.changes);
        if !changes.closed.is_empty() {
            let groups = changes.closed.iter().map(|(id, _)| *id).collect();
            changes.actions.insert(0, Action::Forget { groups });
        }
        let transaction = changes.record.then(|| Transaction {
            record: self.record.clone(),
            opened: changes.opened,
            closed: changes.closed,
        });
        Decision { transaction, actions: changes.actions, refused }
    }

    /// A run that begins with these weights.
    ///
    /// # Errors
    /// [`RecoverError::Settings`] with every problem of the settings.
    pub fn new(settings: Settings, initial: PerActor<WeightRef>) -> Result<Self, RecoverError> {
        let record = Record::new(settings.fingerprint(), initial);
        let mut ledger = Self::recover(settings, record, Vec::new())?;
        ledger.resumed_at = None;
        ledger.changes.record = true;
        Ok(ledger)
    }

    /// Goes on from what was persisted. Each open group starts again, one attempt further; a run
    /// that failed is tried again.
    ///
    /// # Errors
    /// If the settings are not those of the record, or record and groups do not fit together.
    pub fn recover(
        settings: Settings,
        mut record: Record,
        open: Vec<OpenGroup>,
    ) -> Result<Self, RecoverError> {
        let problems = settings.problems();
        if !problems.is_empty() {
            return Err(RecoverError::Settings(problems));
        }
        check(&settings, &record, &open)?;
        let failed = matches!(record.end, Some(End::Failed { .. }));
        if failed {
            record.end = None;
        }
        let restarted = open.into_iter().map(|mut group| {
            group.attempt = Attempt(group.attempt.0 + 1);
            (group.id, Group::pending(group, Millis::default()))
        });
        let order = |actor, len| PromptOrder::new(settings.seed, actor, len);
        Ok(Self {
            plan: settings.plan(),
            groups: restarted.collect(),
            step: None,
            pool: Pool::default(),
            prompts: PerActor {
                policy: order(Actor::Policy, settings.prompts),
                generator: order(Actor::Generator, settings.anchors),
            },
            now: Millis::default(),
            audit_since: None,
            finish_said: false,
            staleness: Vec::new(),
            dropped: Dropped::default(),
            resumed_at: Some(record.step),
            changes: Changes { record: failed, ..Changes::default() },
            settings,
            record,
        })
    }

    /// What is persisted.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The phases of the run in order.
    #[must_use]
    pub fn plan(&self) -> &[PhasePlan] {
        &self.plan
    }

    /// The groups that have not ended, by id.
    pub fn open_groups(&self) -> impl Iterator<Item = &OpenGroup> {
        self.groups.values().map(|group| &group.open)
    }

    /// The calls that are out, oldest lease first.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.pool.leases()
    }

    fn take_in(&mut self, event: Event) -> Result<(), Refusal> {
        match event {
            Event::WorkerJoined { worker, role, slots } => {
                let lost = self.pool.leave(&worker);
                self.lapse_all(lost, Lapse::WorkerLost);
                self.pool.join(worker, role, slots);
            }
            Event::WorkerLeft { worker } => {
                let lost = self.pool.leave(&worker);
                self.lapse_all(lost, Lapse::WorkerLost);
            }
            Event::RolloutFinished { lease, outcome } => {
                self.answered(lease, Call::Rollout, outcome, Self::rolled)?;
            }
            Event::EvaluationFinished { lease, outcome } => {
                self.answered(lease, Call::Evaluate, outcome, Self::evaluated)?;
            }
            Event::StepFinished { lease, outcome } => {
                self.answered(lease, Call::Train, outcome, Self::trained)?;
            }
            Event::AuditFinished { point } => {
                if self.record.audit != Some(point) {
                    return Err(Refusal::NoSuchAudit { point });
                }
                self.record.audit = None;
                self.audit_since = None;
                self.changes.record = true;
            }
            Event::Ticked => {
                let expired = self.pool.expired(self.now);
                self.lapse_all(expired, Lapse::Expired);
            }
            Event::CancelRequested if self.record.end.is_none() => self.end(End::Cancelled),
            Event::CancelRequested => {}
        }
        Ok(())
    }

    /// Takes the answer to a call in. One that cannot be true counts as a failure.
    fn answered<T>(
        &mut self,
        id: LeaseId,
        call: Call,
        outcome: Result<T, Failure>,
        take: impl FnOnce(&mut Self, &Lease, T) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let lease = self.pool.answered(id, call)?;
        let (failure, refusal) = match outcome.map(|answer| take(self, &lease, answer)) {
            Ok(Ok(())) => return Ok(()),
            Err(failure) => (failure, Ok(())),
            Ok(Err(refusal)) => {
                let (retryable, reason) = (true, refusal.to_string());
                (Failure { retryable, reason }, Err(refusal))
            }
        };
        self.lapse(&lease, &Lapse::Failed(failure));
        refusal
    }

    fn rolled(&mut self, lease: &Lease, oldest: WeightVersion) -> Result<(), Refusal> {
        let now = self.now;
        let group = self.leased(lease);
        if oldest > lease.weights.version {
            return Err(Refusal::TooNew {
                group: group.open.id,
                found: oldest,
                asked: lease.weights.version,
            });
        }
        group.retry.succeeded();
        group.enter(Stage::Rolled(oldest), now);
        Ok(())
    }

    fn evaluated(&mut self, lease: &Lease, rewards: Rewards) -> Result<(), Refusal> {
        let (now, lambda) = (self.now, self.settings.anchor_weight);
        let normalization = self.settings.normalization;
        let group = self.leased(lease);
        let id = group.open.id;
        let malformed = |expected| Refusal::MalformedRewards { group: id, expected };
        let finite = |rewards: &[f64]| rewards.iter().all(|r| r.is_finite());
        // The trained actor wrote the completions of a policy group, the rubrics of a rubric group.
        let (worth, sampled_by) = match (group.open.kind, rewards, &group.stage) {
            (_, Rewards::Unscorable(why), _) => {
                self.drop_group(id, DropReason::Unscorable, &why);
                return Ok(());
            }
            (GroupKind::Policy, Rewards::Scores(scores), Stage::Evaluating(sampled_by)) => {
                if !finite(&scores) {
                    return Err(malformed("finite scores"));
                }
                (advantages(&scores, normalization.policy), *sampled_by)
            }
            (GroupKind::Rubric, Rewards::Rubric { r_disc, r_anchor }, _) => {
                if r_disc.len() != r_anchor.len() || !finite(&r_disc) || !finite(&r_anchor) {
                    return Err(malformed("as many finite anchor rewards as discriminabilities"));
                }
                let worth = rubric_advantages(&r_disc, &r_anchor, lambda, normalization.generator);
                (worth, lease.weights.version)
            }
            (GroupKind::Policy, ..) => return Err(malformed("scores for a policy group")),
            (GroupKind::Rubric, ..) => return Err(malformed("rubric rewards for a rubric group")),
        };
        match worth {
            Some(worth) => {
                group.retry.succeeded();
                let advantages = worth.into_iter().map(|a| a as f32).collect();
                group.enter(Stage::Queued(Sample { sampled_by, advantages }), now);
            }
            None => self.drop_group(id, DropReason::NoSignal, "all rewards are equal"),
        }
        Ok(())
    }

    fn trained(&mut self, lease: &Lease, done: StepDone) -> Result<(), Refusal> {
        let (base, weights) = (lease.weights, done.weights);
        if weights.actor != base.actor || weights.version != base.version.next() {
            return Err(Refusal::WrongVersion { found: weights, base });
        }
        let asked = self.step.as_ref().map(|step| step.groups.clone()).unwrap_or_default();
        let found: BTreeSet<GroupId> = done.groups.iter().copied().collect();
        // The first step after a recovery may have been published before the crash, when (with
        // staleness allowed) other groups were queued; the learner tells which.
        let resumed = self.resumed_at == Some(self.record.step);
        let drawn = found.iter().all(|id| *id < self.record.next_group);
        let before_crash = resumed && drawn && !found.is_empty();
        if !before_crash && !found.iter().eq(asked.iter().collect::<BTreeSet<_>>()) {
            let found = done.groups;
            return Err(Refusal::WrongGroups { base, asked, found });
        }
        let age = |id: &GroupId| match self.groups.get(id).map(|group| &group.stage) {
            Some(Stage::Training(by)) => Some(base.version.0.saturating_sub(by.sampled_by.0)),
            // Trained on before a crash, when it had other samples.
            _ => None,
        };
        self.staleness = found.iter().map(age).collect::<Option<_>>().unwrap_or_default();
        let step = self.record.step;
        for id in found {
            self.close(id, Outcome::Trained { step });
        }
        let now = self.now;
        for group in self.groups.values_mut() {
            if let Stage::Training(sample) = &group.stage {
                let sample = sample.clone();
                group.enter(Stage::Queued(sample), now);
            }
        }
        *self.record.current.of_mut(weights.actor) = weights;
        self.step_over();
        Ok(())
    }

    fn lapse_all(&mut self, leases: Vec<Lease>, lapse: Lapse) {
        for lease in leases {
            self.lapse(&lease, &lapse);
        }
    }

    /// The lease is over without a good answer: its work is to be handed out again, or given up.
    fn lapse(&mut self, lease: &Lease, lapse: &Lapse) {
        let (now, max_attempts) = (self.now, self.settings.max_attempts);
        if lease.work.group().is_none() {
            let step = self.step.as_mut().expect("a step is leased only while it is trained");
            step.retry.lapsed(lease, lapse, now);
            (step.leased, step.since) = (false, now);
            if step.retry.exhausted(max_attempts, lapse) {
                let why = step.retry.why.clone();
                self.end(End::Failed { why });
            }
            return;
        }
        let group = self.leased(lease);
        group.retry.lapsed(lease, lapse, now);
        group.enter(group.stage.before_call(), now);
        if group.retry.exhausted(max_attempts, lapse) {
            let (id, why) = (group.open.id, group.retry.why.clone());
            self.drop_group(id, DropReason::Exhausted, &why);
        }
    }

    fn leased(&mut self, lease: &Lease) -> &mut Group {
        let id = lease.work.group();
        id.and_then(|id| self.groups.get_mut(&id)).expect("a group is leased only while it is open")
    }

    pub(crate) fn drop_group(&mut self, id: GroupId, reason: DropReason, why: &str) {
        self.dropped.count(reason, why);
        let why = why.to_owned();
        self.close(id, Outcome::Dropped { reason, why });
    }

    /// Ends a group; nothing if it has ended.
    fn close(&mut self, id: GroupId, outcome: Outcome) {
        let Some(group) = self.groups.remove(&id) else {
            return;
        };
        self.pool.release(|lease| lease.work.group() == Some(id));
        let tally = self.record.tally.of_mut(group.open.kind.actor());
        match &outcome {
            Outcome::Trained { .. } => tally.trained += 1,
            Outcome::Dropped { reason, .. } => *tally.dropped.entry(*reason).or_default() += 1,
        }
        self.changes.closed.push((id, outcome));
        self.changes.record = true;
    }

    pub(crate) fn cancel_groups(&mut self, why: &str) {
        let open: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in open {
            self.drop_group(id, DropReason::Cancelled, why);
        }
    }

    /// Ends the run. The groups of one that failed stay open, so that it can be recovered.
    pub(crate) fn end(&mut self, end: End) {
        if !matches!(end, End::Failed { .. }) {
            self.cancel_groups("the run ended");
        }
        self.pool.release(|_| true);
        self.step = None;
        self.record.end = Some(end);
        self.changes.record = true;
    }
}

/// Whether record and open groups belong together and to the settings.
fn check(settings: &Settings, record: &Record, open: &[OpenGroup]) -> Result<(), RecoverError> {
    let (recorded, found) = (record.fingerprint, settings.fingerprint());
    if recorded != found {
        return Err(RecoverError::OtherSettings { recorded, found });
    }
    let mut ids = BTreeSet::new();
    for group in open {
        if group.id >= record.next_group || !ids.insert(group.id) {
            return Err(RecoverError::UnknownGroup(group.id));
        }
    }
    for actor in [Actor::Policy, Actor::Generator] {
        let recorded = record.tally.of(actor).open();
        let found = open.iter().filter(|g| g.kind.actor() == actor).count() as u64;
        if recorded != found {
            return Err(RecoverError::Accounting { actor, recorded, found });
        }
    }
    Ok(())
}
