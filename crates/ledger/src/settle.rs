//! What follows from an event: phases end, steps begin, groups are drawn, work is handed out.

use rl::{Attempt, DropReason, GroupId, Phase, WeightRef, WeightVersion};

use crate::group::{Group, Retry, Stage};
use crate::ledger::{Dropped, Ledger, Training};
use crate::pool::Grant;
use crate::{
    Action, AuditMoment, AuditPoint, Call, End, OpenGroup, PhasePlan, PolicySource, Role, Work,
    WorkerId,
};

impl Ledger {
    /// Does everything that can be done without a further event.
    pub(crate) fn settle(&mut self) {
        while self.advance() {}
        if let Some(end) = self.record.end.clone() {
            if !self.finish_said {
                self.finish_said = true;
                self.changes.actions.push(Action::Finish { end });
            }
            return;
        }
        if let (Some(point), None) = (self.record.audit, self.audit_since) {
            self.audit_since = Some(self.now);
            self.changes.actions.push(Action::Audit {
                point,
                policy: self.record.current.policy,
                generators: self.record.history.generator.clone(),
            });
        }
        self.dispatch();
    }

    /// The phase in progress; nothing once all are done.
    pub(crate) fn phase(&self) -> Option<PhasePlan> {
        self.plan.get(self.record.phase).copied()
    }

    /// One thing that follows by itself; false if nothing does. The run rests while it is audited:
    /// work in flight is finished, but nothing is drawn and no step begins.
    fn advance(&mut self) -> bool {
        if self.record.end.is_some() || self.record.audit.is_some() {
            return false;
        }
        let Some(phase) = self.phase() else {
            self.end(End::Completed);
            return true;
        };
        if self.record.step_in_phase == phase.steps {
            self.end_phase(phase);
            return true;
        }
        self.sweep(phase);
        while self.may_draw(phase) {
            self.draw(phase);
        }
        if self.step.is_some() {
            return false;
        }
        let queued = self.groups.values().filter(|g| g.queued().is_some()).count();
        let coming = self.groups.values().any(Group::in_flight);
        if queued >= phase.groups_per_step || (queued > 0 && !coming) {
            self.begin_step(phase);
        } else if !coming {
            self.skip_step(phase);
            return true;
        }
        false
    }

    /// No group is left to train on: the step is skipped, or the run fails where none was of use.
    fn skip_step(&mut self, phase: PhasePlan) {
        if self.dropped.failed > 0 && self.dropped.sound == 0 {
            let Dropped { failed, why, .. } = std::mem::take(&mut self.dropped);
            let (step, phase) = (self.record.step.0, phase.phase);
            // Whoever mends it and starts again shall have the draws of the step.
            self.record.drawn_for_step = 0;
            self.end(End::Failed {
                why: format!(
                    "none of the {failed} groups drawn for step {step} ({phase} training) could be used; \
                     the last: {why}"
                ),
            });
            return;
        }
        self.record.skipped_steps += 1;
        self.staleness.clear();
        self.step_over();
    }

    fn end_phase(&mut self, phase: PhasePlan) {
        self.cancel_groups("the phase ended");
        let actor = phase.phase.kind().actor();
        let weights = *self.record.current.of(actor);
        self.record.history.of_mut(actor).push(weights);
        self.record.phase += 1;
        self.record.step_in_phase = 0;
        self.demand_audit(AuditMoment::PhaseEnd { trained: actor }, phase);
    }

    fn demand_audit(&mut self, moment: AuditMoment, phase: PhasePlan) {
        self.record.audit = Some(AuditPoint { moment, round: phase.round, step: self.record.step });
        self.changes.record = true;
    }

    /// The one place where queued groups are found too old for the weights they would train.
    fn sweep(&mut self, phase: PhasePlan) {
        let queued = self.groups.iter().filter_map(|(id, g)| Some((*id, g.queued()?)));
        let ages = queued.map(|(id, sample)| (id, self.staleness_of(phase, sample.sampled_by)));
        let bound = self.settings.max_staleness as u64;
        let stale: Vec<(GroupId, u64)> = ages.filter(|&(_, age)| age > bound).collect();
        for (id, age) in stale {
            let why = format!("sampled {age} versions ago, at most {bound} are allowed");
            self.drop_group(id, DropReason::Stale, &why);
        }
    }

    fn staleness_of(&self, phase: PhasePlan, sampled_by: WeightVersion) -> u64 {
        let trained_on = self.record.current.of(phase.phase.kind().actor()).version;
        trained_on.0.saturating_sub(sampled_by.0)
    }

    /// Admission. Open groups are those in flight and those accepted but not trained on yet, so
    /// this is `in flight <= (max_staleness + version + 1) x groups_per_step - accepted`, and no
    /// more than the phase's remaining steps can use.
    ///
    /// A group that is dropped is replaced at once. What is drawn for a step still does not depend
    /// on the order of answers: the last draw is the one whose group fills the step.
    fn may_draw(&self, phase: PhasePlan) -> bool {
        let ahead = self.settings.max_staleness;
        let remaining = phase.steps - self.record.step_in_phase;
        let steps = (ahead as u64 + 1).min(remaining) as usize;
        // The first step of a phase draws for those after it, too; later ones are that far ahead.
        let head_start = if self.record.step_in_phase == 0 { ahead } else { 0 };
        let draws = (self.settings.max_draws_per_step + head_start) * phase.groups_per_step;
        self.groups.len() < steps * phase.groups_per_step && self.record.drawn_for_step < draws
    }

    fn draw(&mut self, phase: PhasePlan) {
        let kind = phase.phase.kind();
        let cursor = self.record.cursors.of_mut(kind.actor());
        let open = OpenGroup {
            id: self.record.next_group,
            kind,
            prompt: self.prompts.of_mut(kind.actor()).index(*cursor),
            step: self.record.step,
            attempt: Attempt(1),
        };
        *cursor += 1;
        self.record.next_group.0 += 1;
        self.record.drawn_for_step += 1;
        self.record.tally.of_mut(kind.actor()).drawn += 1;
        self.changes.opened.push(open.clone());
        self.changes.record = true;
        self.groups.insert(open.id, Group::pending(open, self.now));
    }

    /// Takes the oldest queued groups for a step: by the version that sampled them, then by id.
    fn begin_step(&mut self, phase: PhasePlan) {
        let queued = self.groups.iter().filter_map(|(id, g)| Some((g.queued()?.sampled_by, *id)));
        let mut oldest: Vec<_> = queued.collect();
        oldest.sort_unstable();
        oldest.truncate(phase.groups_per_step);
        for (_, id) in &oldest {
            if let Some(group) = self.groups.get_mut(id)
                && let Some(sample) = group.queued().cloned()
            {
                group.enter(Stage::Training(sample), self.now);
            }
        }
        self.step = Some(Training {
            groups: oldest.into_iter().map(|(_, id)| id).collect(),
            leased: false,
            since: self.now,
            retry: Retry::from(Attempt(1)),
        });
    }

    /// The step is trained, or skipped.
    pub(crate) fn step_over(&mut self) {
        self.step = None;
        self.dropped = Dropped::default();
        self.record.step.0 += 1;
        self.record.step_in_phase += 1;
        self.record.drawn_for_step = 0;
        self.changes.record = true;
        if let Some(phase) = self.phase()
            && let Some(every) = self.settings.audit_every
            && phase.phase == Phase::Policy
            && self.record.step_in_phase < phase.steps
            && self.policy_steps().is_multiple_of(every)
        {
            self.demand_audit(AuditMoment::Within, phase);
        }
    }

    /// Policy steps done, in this policy phase and those before.
    fn policy_steps(&self) -> u64 {
        let before = self.plan.iter().take(self.record.phase);
        let policy = before.filter(|p| p.phase == Phase::Policy);
        policy.map(|p| p.steps).sum::<u64>() + self.record.step_in_phase
    }

    fn dispatch(&mut self) {
        let Some(phase) = self.phase() else {
            return;
        };
        self.dispatch_step(phase);
        let due = |g: &Group| g.retry.not_before <= self.now;
        let waiting = self.groups.iter().filter(|(_, g)| due(g));
        let waiting = waiting.filter_map(|(id, g)| Some((*id, g.wants()?)));
        for (id, call) in waiting.collect::<Vec<_>>() {
            let avoid = self.groups.get(&id).and_then(|g| g.retry.avoid.as_ref());
            if let Some(worker) = self.pool.pick(call.role(), avoid) {
                self.dispatch_group(phase, (id, call), worker);
            }
        }
    }

    fn dispatch_step(&mut self, phase: PhasePlan) {
        let now = self.now;
        let Some(step) = &mut self.step else {
            return;
        };
        if step.leased || step.retry.not_before > now {
            return;
        }
        let Some(worker) = self.pool.pick(Role::Learner, step.retry.avoid.as_ref()) else {
            return;
        };
        (step.leased, step.since) = (true, now);
        let grant = Grant {
            work: Work::Train(self.record.step),
            attempt: step.retry.attempt,
            weights: *self.record.current.of(phase.phase.kind().actor()),
            now,
            lasts: self.settings.lease.train,
        };
        let lease = self.pool.grant(worker, grant);
        let advantages = |id: &GroupId| match self.groups.get(id).map(|g| &g.stage) {
            Some(Stage::Training(sample)) => Some((*id, sample.advantages.clone())),
            _ => None,
        };
        let groups = step.groups.iter().filter_map(advantages).collect();
        self.changes.actions.push(Action::Train { lease, groups });
    }

    fn dispatch_group(&mut self, phase: PhasePlan, (id, call): (GroupId, Call), worker: WorkerId) {
        let weights = match call {
            Call::Rollout => self.sampled_policy(phase),
            _ => self.record.current.generator,
        };
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let (kind, prompt) = (group.open.kind, group.open.prompt);
        let work = match group.stage {
            Stage::Rolled(sampled_by) => {
                group.enter(Stage::Evaluating(sampled_by), self.now);
                Work::Evaluate(id)
            }
            _ => {
                group.enter(Stage::Rolling, self.now);
                Work::Rollout(id)
            }
        };
        let grant = Grant {
            work,
            attempt: group.retry.attempt,
            weights,
            now: self.now,
            lasts: self.settings.lease.of(call),
        };
        let lease = self.pool.grant(worker, grant);
        self.changes.actions.push(match work {
            Work::Evaluate(group) => {
                Action::Evaluate { lease, group, kind, prompt, conditioning: phase.conditioning }
            }
            _ => Action::Rollout { lease, group: id, kind, prompt },
        });
    }

    fn sampled_policy(&self, phase: PhasePlan) -> WeightRef {
        match phase.samples_from {
            PolicySource::Initial => self.record.history.policy[0],
            PolicySource::Current => self.record.current.policy,
        }
    }
}
