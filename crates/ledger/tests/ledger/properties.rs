//! The invariants under random faults. The simulated driver checks most of them at each decision.

use std::collections::HashSet;

use crate::sim::{Op, Sim};
use crate::table::settings;
use ledger::{End, Event, Outcome, PerActor, Settings};
use proptest::prelude::*;
use rl::Schedule;
use rl::{GroupId, GroupKind};

/// Mostly answers, so that runs get somewhere between faults.
fn op() -> impl Strategy<Value = Op> {
    let pick = || 0..64usize;
    prop_oneof![
        20 => pick().prop_map(Op::Answer),
        2 => pick().prop_map(Op::Lose),
        2 => pick().prop_map(Op::Fail),
        2 => pick().prop_map(Op::Lie),
        2 => pick().prop_map(Op::Double),
        1 => pick().prop_map(Op::Leave),
        1 => pick().prop_map(Op::Join),
        3 => (1..2_000u64).prop_map(Op::Tick),
        1 => Just(Op::Crash),
        1 => pick().prop_map(Op::CrashBeforePersist),
        1 => pick().prop_map(Op::CrashAfterPersist),
    ]
}

fn any_settings(max_staleness: impl Strategy<Value = usize>) -> impl Strategy<Value = Settings> {
    let schedule = prop_oneof![
        Just(Schedule::Fresh),
        Just(Schedule::Stale),
        Just(Schedule::StaleBudget),
        Just(Schedule::Static),
    ];
    let sizes = (1..3u32, 0..3u64, 1..5u64, 1..4usize, 1..4usize);
    (schedule, sizes, max_staleness, 1..4usize, prop::option::of(1..3u64)).prop_map(
        |(schedule, sizes, max_staleness, max_draws_per_step, audit_every)| {
            let (rounds, generator_steps, policy_steps, generator_groups, policy_groups) = sizes;
            Settings {
                schedule,
                rounds,
                steps: PerActor { policy: policy_steps, generator: generator_steps },
                groups_per_step: PerActor { policy: policy_groups, generator: generator_groups },
                max_staleness,
                max_draws_per_step,
                audit_every,
                ..settings()
            }
        },
    )
}

/// Everything that a run which ended must have done.
fn check_whole(sim: &Sim) {
    let record = sim.record();
    assert_eq!(sim.end, Some(End::Completed));
    let steps: u64 = sim.ledger.plan().iter().map(|phase| phase.steps).sum();
    let versions = record.current.policy.version.0 + record.current.generator.version.0;
    assert_eq!(record.step.0, steps);
    assert_eq!(versions + record.skipped_steps, steps);
    for (kind, len) in
        [(GroupKind::Policy, sim.settings.prompts), (GroupKind::Rubric, sim.settings.anchors)]
    {
        let drawn = sim.drawn.iter().filter(|group| group.kind == kind);
        let prompts: Vec<usize> = drawn.map(|group| group.prompt).collect();
        let plan = sim.ledger.plan().iter().filter(|plan| plan.phase.kind() == kind);
        let most = plan.map(|plan| {
            let tries = plan.steps as usize + sim.tried_again;
            let draws = tries * sim.settings.max_draws_per_step;
            (draws + sim.settings.max_staleness) * plan.groups_per_step
        });
        assert!(prompts.len() <= most.sum(), "{kind:?}: {} draws", prompts.len());
        for epoch in prompts.chunks(len) {
            let distinct: HashSet<_> = epoch.iter().collect();
            assert_eq!(distinct.len(), epoch.len(), "{kind:?} {prompts:?}");
        }
    }
    // Each draw ended once.
    let ids: Vec<GroupId> = sim.ended.keys().copied().collect();
    assert_eq!(ids, (0..record.next_group.0).map(GroupId).collect::<Vec<_>>());
    assert_eq!(sim.audits.iter().collect::<HashSet<_>>().len() as u64, audits(sim));
}

/// One at the start, one per phase, and those within policy phases.
fn audits(sim: &Sim) -> u64 {
    let plan = sim.ledger.plan();
    let mut audits = 1 + plan.len() as u64;
    let mut policy_steps = 0;
    for phase in plan.iter().filter(|p| p.phase == rl::Phase::Policy) {
        for step in 1..=phase.steps {
            policy_steps += 1;
            let due = sim.settings.audit_every.is_some_and(|every| policy_steps % every == 0);
            audits += u64::from(due && step < phase.steps);
        }
    }
    audits
}

proptest! {
    #[test]
    fn a_run_ends_whole_whatever_happens(
        settings in any_settings(0..4usize),
        workers in 1..4usize,
        slots in 1..3usize,
        ops in prop::collection::vec(op(), 0..150),
    ) {
        let mut sim = Sim::new(settings, workers, slots);
        for op in &ops {
            sim.op(op);
        }
        sim.finish();
        check_whole(&sim);
    }

    #[test]
    fn without_staleness_faults_and_workers_change_nothing(
        settings in any_settings(Just(0)),
        workers in 1..4usize,
        slots in 1..3usize,
        ops in prop::collection::vec(op(), 0..150),
    ) {
        // No group may be given up for its workers' faults.
        let settings = Settings { max_attempts: 1_000, ..settings };
        let mut calm = Sim::new(settings.clone(), 1, 1);
        calm.finish();
        let mut wild = Sim::new(settings, workers, slots);
        for op in &ops {
            wild.op(op);
        }
        wild.finish();
        prop_assert_eq!(&wild.published, &calm.published);
        prop_assert_eq!(wild.record(), calm.record());
        prop_assert_eq!(outcomes(&wild), outcomes(&calm));
        for (step, published) in &calm.published {
            prop_assert!(published.groups.is_sorted_by_key(|(id, ..)| *id), "{step:?}");
        }
    }

    #[test]
    fn a_run_can_be_cancelled_at_any_time(
        settings in any_settings(0..4usize),
        ops in prop::collection::vec(op(), 0..60),
    ) {
        let mut sim = Sim::new(settings, 2, 2);
        for op in &ops {
            sim.op(op);
        }
        prop_assume!(sim.end.is_none());
        sim.apply(Event::CancelRequested);
        prop_assert_eq!(&sim.end, &Some(End::Cancelled));
        prop_assert_eq!(sim.ledger.open_groups().count(), 0);
        // It stays cancelled over a crash.
        sim.op(&Op::Crash);
        prop_assert_eq!(&sim.end, &Some(End::Cancelled));
    }
}

/// Which groups were trained on in which step, and which were dropped for what.
fn outcomes(sim: &Sim) -> Vec<(GroupId, &Outcome)> {
    sim.ended.iter().map(|(id, outcome)| (*id, outcome)).collect()
}
