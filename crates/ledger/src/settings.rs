//! What a run is asked to do.

use rl::advantage::Normalization;
use rl::{Phase, Round, Schedule, Seed, Stream};

use crate::schedule::{conditioning, samples_from};
use crate::{Call, Millis, PerActor, PhasePlan};

/// Everything the ledger decides by, frozen for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The seed of the run; orders the prompts.
    pub seed: u64,
    /// How phases alternate.
    pub schedule: Schedule,
    /// How often.
    pub rounds: u32,
    /// Optimiser steps of each phase, by the actor it trains; a phase of 0 steps is left out.
    pub steps: PerActor<u64>,
    /// Groups per optimiser step, by the actor trained.
    pub groups_per_step: PerActor<usize>,
    /// How many versions older than the weights trained a group's samples may be. 0 is the
    /// synchronous schedule: a step's groups are drawn after the step before.
    pub max_staleness: usize,
    /// How many groups may be drawn to fill one step, as a multiple of `groups_per_step`; more than
    /// 1 refills groups that are dropped.
    pub max_draws_per_step: usize,
    /// How often a call is handed out before its group is given up (or its step, and the run with
    /// it).
    pub max_attempts: u32,
    /// How long a worker may take for a call.
    pub lease: LeaseTimes,
    /// How rewards become advantages, by the actor trained.
    pub normalization: PerActor<Normalization>,
    /// Lambda: how much the anchor reward counts beside discriminability.
    pub anchor_weight: f64,
    /// The number of policy prompts.
    pub prompts: usize,
    /// The number of anchor prompts.
    pub anchors: usize,
    /// Audit after so many policy steps, beside the audits at the start and at each phase's end.
    pub audit_every: Option<u64>,
}

/// How long a lease lasts, by the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Sampling a group.
    pub rollout: Millis,
    /// Judging a group.
    pub evaluate: Millis,
    /// One optimiser step.
    pub train: Millis,
}

impl LeaseTimes {
    /// How long a lease for the call lasts.
    #[must_use]
    pub fn of(&self, call: Call) -> Millis {
        match call {
            Call::Rollout => self.rollout,
            Call::Evaluate => self.evaluate,
            Call::Train => self.train,
        }
    }
}

/// A setting that cannot be run with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {found} (expected {expected})")]
pub struct Problem {
    /// The field of [`Settings`].
    pub key: &'static str,
    /// What it is.
    pub found: String,
    /// What it may be.
    pub expected: &'static str,
}

impl Settings {
    /// The phases in order.
    #[must_use]
    pub fn plan(&self) -> Vec<PhasePlan> {
        let mut plan = Vec::new();
        for round in (1..=self.rounds).map(Round) {
            for phase in [Phase::Evaluator, Phase::Policy] {
                let actor = phase.kind().actor();
                let steps = *self.steps.of(actor);
                let left_out = phase == Phase::Evaluator && !self.schedule.trains_generator(round);
                if steps == 0 || left_out {
                    continue;
                }
                plan.push(PhasePlan {
                    ordinal: plan.len(),
                    round,
                    phase,
                    steps,
                    groups_per_step: *self.groups_per_step.of(actor),
                    samples_from: samples_from(self.schedule, phase),
                    conditioning: conditioning(self.schedule),
                });
            }
        }
        plan
    }

    /// Everything that is wrong with the settings; nothing if they can be run with.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let plan = self.plan();
        let trains = |phase| plan.iter().any(|p| p.phase == phase);
        let (generator, policy) = (trains(Phase::Evaluator), trains(Phase::Policy));
        let counts = [
            ("groups_per_step.policy", self.groups_per_step.policy as u64, policy),
            ("groups_per_step.generator", self.groups_per_step.generator as u64, generator),
            ("prompts", self.prompts as u64, policy),
            ("anchors", self.anchors as u64, generator),
            ("max_draws_per_step", self.max_draws_per_step as u64, true),
            ("max_attempts", self.max_attempts.into(), true),
            ("lease.rollout", self.lease.rollout.0, true),
            ("lease.evaluate", self.lease.evaluate.0, true),
            ("lease.train", self.lease.train.0, true),
            ("audit_every", self.audit_every.unwrap_or(1), true),
        ];
        let reals = [
            ("anchor_weight", self.anchor_weight),
            ("normalization.policy.epsilon", self.normalization.policy.epsilon),
            ("normalization.generator.epsilon", self.normalization.generator.epsilon),
        ];
        let zero = counts.into_iter().filter(|&(_, value, used)| used && value == 0);
        let unreal = reals.into_iter().filter(|(_, value)| !(value.is_finite() && *value >= 0.0));
        let zero = zero.map(|(key, ..)| Problem { key, found: "0".into(), expected: "1 or more" });
        let unreal = unreal.map(|(key, value)| Problem {
            key,
            found: value.to_string(),
            expected: "a finite number, 0 or more",
        });
        zero.chain(unreal).collect()
    }

    /// A number that stands for the settings which decide the course of a run; a record made under
    /// others cannot be gone on with. Leases, attempts and audits may change.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let course = [
            self.schedule as u64,
            self.rounds.into(),
            self.steps.policy,
            self.steps.generator,
            self.groups_per_step.policy as u64,
            self.groups_per_step.generator as u64,
            self.max_staleness as u64,
            self.max_draws_per_step as u64,
            self.normalization.policy.std.into(),
            self.normalization.policy.epsilon.to_bits(),
            self.normalization.generator.std.into(),
            self.normalization.generator.epsilon.to_bits(),
            self.anchor_weight.to_bits(),
            self.prompts as u64,
            self.anchors as u64,
        ];
        let root = Seed::new(self.seed, Stream::PromptOrder);
        course.into_iter().fold(root, Seed::child).to_u64()
    }
}

#[cfg(test)]
mod tests {
    use rl::advantage::Normalization;

    use super::*;
    use crate::Conditioning::{Group, PromptOnly};
    use crate::PolicySource::{Current, Initial};

    fn settings(schedule: Schedule, generator_steps: u64) -> Settings {
        let normalization = Normalization { std: true, epsilon: 0.0 };
        let lease = Millis(1);
        Settings {
            seed: 0,
            schedule,
            rounds: 2,
            steps: PerActor { policy: 5, generator: generator_steps },
            groups_per_step: PerActor { policy: 8, generator: 4 },
            max_staleness: 0,
            max_draws_per_step: 1,
            max_attempts: 1,
            lease: LeaseTimes { rollout: lease, evaluate: lease, train: lease },
            normalization: PerActor { policy: normalization, generator: normalization },
            anchor_weight: 1.0,
            prompts: 1,
            anchors: 1,
            audit_every: None,
        }
    }

    #[test]
    fn each_schedule_lays_out_its_phases() {
        let e = |round, source, conditioning| (round, 3, 4, source, conditioning);
        let p = |round, conditioning| (round, 5, 8, Current, conditioning);
        let table = [
            (
                Schedule::Fresh,
                vec![e(1, Current, Group), p(1, Group), e(2, Current, Group), p(2, Group)],
            ),
            (Schedule::Stale, vec![e(1, Current, Group), p(1, Group), p(2, Group)]),
            (
                Schedule::StaleBudget,
                vec![e(1, Initial, Group), p(1, Group), e(2, Initial, Group), p(2, Group)],
            ),
            (Schedule::Static, vec![e(1, Current, PromptOnly), p(1, PromptOnly), p(2, PromptOnly)]),
        ];
        for (schedule, expected) in table {
            let plan = settings(schedule, 3).plan();
            let found: Vec<_> = plan
                .iter()
                .map(|p| {
                    let (round, source) = (p.round.0, p.samples_from);
                    (round, p.steps, p.groups_per_step, source, p.conditioning)
                })
                .collect();
            assert_eq!(found, expected, "{schedule:?}");
            assert!(plan.iter().enumerate().all(|(i, p)| p.ordinal == i));
        }
        let plan = settings(Schedule::Fresh, 0).plan();
        assert!(plan.iter().all(|p| p.phase == Phase::Policy) && plan.len() == 2);
    }

    #[test]
    fn only_settings_that_decide_the_course_are_in_the_fingerprint() {
        let base = settings(Schedule::Fresh, 3);
        let same = Settings { max_attempts: 9, audit_every: Some(1), ..base.clone() };
        let other = Settings { anchors: 2, ..base.clone() };
        assert_eq!(same.fingerprint(), base.fingerprint());
        assert_ne!(other.fingerprint(), base.fingerprint());
    }
}
