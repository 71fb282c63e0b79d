//! Tables on the course of a run: phases, draws, steps and audits.

use ledger::{
    Action, AuditMoment, Conditioning, End, Event, Ledger, Millis, Outcome, PerActor, Refusal,
    Rewards, Role, Settings, Work,
};
use rl::{Actor, Attempt, DropReason, GroupId, GroupKind, Schedule, StepId};

use crate::table::{Table, closed, failure, initial, policy_only, settings, short, weights};

#[test]
fn a_run_begins_with_an_audit_and_draws_after_it() {
    let mut ledger = Ledger::new(settings(), initial()).expect("good settings");
    let first = ledger.apply(Event::Ticked, Millis(0));
    assert_eq!(short(&first), ["audit at the start"]);
    let record = first.transaction.expect("the first record").record;
    let point = record.audit.expect("an audit");
    assert_eq!(ledger.apply(Event::Ticked, Millis(1)).actions, []);

    let audited = ledger.apply(Event::AuditFinished { point }, Millis(2));
    let opened = audited.transaction.expect("two draws").opened;
    let drawn: Vec<_> = opened.iter().map(|g| (g.id.0, g.kind, g.attempt)).collect();
    let expected = [0, 1].map(|id| (id, GroupKind::Rubric, Attempt(1)));
    assert_eq!((drawn, audited.actions), (expected.to_vec(), vec![]));
    let waits: Vec<String> = ledger.explain(Millis(9)).iter().map(ToString::to_string).collect();
    assert_eq!(
        waits,
        [
            "rollout of g0, attempt 1: there is no rollout worker",
            "rollout of g1, attempt 1: there is no rollout worker",
        ]
    );
    let again = ledger.apply(Event::AuditFinished { point }, Millis(3));
    assert_eq!(again.refused, Some(Refusal::NoSuchAudit { point }));
}

#[test]
fn rubric_groups_train_the_generator_and_policy_groups_the_policy() {
    let mut t = Table::new(Settings { rounds: 1, ..settings() });
    // The evaluator phase: rewards (.1, .2, .3) and (-2, -4, -3) give (-1, 0, 1) + (1, -1, 0).
    for group in [1, 0] {
        let rolled = t.rolled(group, 0);
        assert_eq!(short(&rolled), [format!("evaluation of g{group} by e, 1")]);
        assert!(rolled.transaction.is_none());
    }
    let rewards =
        || Rewards::Rubric { r_disc: vec![0.1, 0.2, 0.3], r_anchor: vec![-2.0, -4.0, -3.0] };
    t.evaluated(1, rewards());
    let ready = t.evaluated(0, rewards());
    let [Action::Train { lease, groups }] = &ready.actions[..] else {
        panic!("{ready:?}");
    };
    assert_eq!(lease.weights, initial().generator);
    let close = |a: &[f32]| a.iter().zip([0.0, -1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-6);
    assert_eq!(groups.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [0, 1]);
    assert!(groups.iter().all(|(_, advantages)| close(advantages)), "{groups:?}");

    let generator = weights(Actor::Generator, 1, 9);
    let done = t.trained(0, generator, &[0, 1]);
    let step = StepId(0);
    assert_eq!(closed(&done), [0, 1].map(|id| (id, Outcome::Trained { step })));
    assert_eq!(
        short(&done),
        ["forget g0 g1", "audit at step 1, the end of round 1's generator training",]
    );
    let Action::Audit { generators, .. } = &done.actions[1] else {
        panic!("{done:?}");
    };
    assert_eq!(generators, &[initial().generator, generator]);

    // The policy phase, under the new generator.
    assert_eq!(short(&t.audited()), ["rollout of g2 by r, 1", "rollout of g3 by r, 1"]);
    let [Action::Evaluate { lease, conditioning, .. }] = &t.rolled(2, 0).actions[..] else {
        panic!("no evaluation");
    };
    assert_eq!((lease.weights, *conditioning), (generator, Conditioning::Group));
    t.scored(2, &[1.0, 2.0, 3.0]);
    t.queue(3, 0);
    t.trained(1, weights(Actor::Policy, 1, 9), &[2, 3]);
    t.queue(4, 1);
    t.queue(5, 1);
    let last = t.trained(2, weights(Actor::Policy, 2, 9), &[4, 5]);
    assert_eq!(short(&last)[1], "audit at step 3, the end of round 1's policy training");
    assert_eq!(short(&t.audited()), ["finish Completed"]);
    assert_eq!(t.tick(1).actions, []);
}

#[test]
fn a_dropped_group_is_replaced_until_the_draws_are_used_up() {
    let mut t = Table::new(Settings { max_draws_per_step: 2, ..policy_only() });
    for (group, replaced) in [(0, true), (1, true), (2, false)] {
        t.rolled(group, 0);
        let flat = t.scored(group, &[0.5, 0.5]);
        let (reason, why) = (DropReason::NoSignal, "all rewards are equal".to_owned());
        assert_eq!(closed(&flat), [(group, Outcome::Dropped { reason, why })]);
        let opened = flat.transaction.expect("a transaction").opened;
        let expected: &[u64] = if replaced { &[group + 2] } else { &[] };
        assert_eq!(opened.iter().map(|g| g.id.0).collect::<Vec<_>>(), expected);
    }
    // The fourth and last draw is left: the step trains on it alone.
    assert_eq!(short(&t.queue(3, 0)), ["training of step 0 by l, 1"]);
    t.trained(0, weights(Actor::Policy, 1, 9), &[3]);
    assert_eq!(t.ledger.snapshot().staleness_max, Some(0));
    // Where nothing is left the step is skipped, and the phase ends with the weights it had.
    let last = (4..8).map(|group| {
        t.rolled(group, 1);
        t.scored(group, &[0.5, 0.5])
    });
    let last = last.last().expect("four draws");
    assert!(short(&last)[1].starts_with("audit at step 2, the end"), "{last:?}");
    let record = t.ledger.record();
    assert_eq!((record.skipped_steps, record.current.policy.version.0), (1, 1));
    // Nothing was trained on that could be stale.
    let snapshot = t.ledger.snapshot();
    assert_eq!((snapshot.staleness_max, snapshot.staleness_mean), (None, None));
}

#[test]
fn a_step_of_which_no_group_could_be_worked_on_fails_the_run_which_may_be_tried_again() {
    let settings = Settings { max_draws_per_step: 2, ..policy_only() };
    let mut t = Table::new(settings.clone());
    for group in 0..4 {
        let lease = t.lease(Work::Rollout(GroupId(group)));
        t.apply(Event::RolloutFinished { lease, outcome: Err(failure(false)) });
    }
    let why = "none of the 4 groups drawn for step 0 (policy training) could be used; the last: \
               rollout of g3 by r: out of luck";
    let record = t.ledger.record().clone();
    assert_eq!(record.end, Some(End::Failed { why: why.into() }));
    assert_eq!((record.step.0, record.skipped_steps), (0, 0));
    let mut again = Ledger::recover(settings, record, Vec::new()).expect("fits");
    let opened = again.apply(Event::Ticked, Millis(1)).transaction.expect("draws").opened;
    assert_eq!(opened.iter().map(|group| group.id.0).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn one_group_that_was_worked_on_shows_that_others_had_bad_luck() {
    let mut t = Table::new(Settings { max_draws_per_step: 1, ..policy_only() });
    let lease = t.lease(Work::Rollout(GroupId(0)));
    t.apply(Event::RolloutFinished { lease, outcome: Err(failure(false)) });
    t.rolled(1, 0);
    t.evaluated(1, Rewards::Unscorable("no rubric".into()));
    let record = t.ledger.record();
    assert_eq!((record.skipped_steps, record.end.clone()), (1, None));
}

#[test]
fn a_cancelled_run_drops_its_groups() {
    let mut t = Table::new(policy_only());
    let cancelled = t.apply(Event::CancelRequested);
    assert_eq!(short(&cancelled), ["forget g0 g1", "finish Cancelled"]);
    let dropped = &t.ledger.record().tally.policy.dropped;
    assert_eq!(dropped.get(&DropReason::Cancelled), Some(&2));
    assert_eq!(t.apply(Event::CancelRequested).actions, []);
}

#[test]
fn staleness_is_bounded_by_drawing_less_and_swept_in_the_queue() {
    let steps = PerActor { policy: 5, generator: 0 };
    let mut t = Table::new(Settings { max_staleness: 1, steps, ..policy_only() });
    t.join("r2", Role::Rollout);
    // (1 + 1) x 2 open groups.
    assert_eq!(t.ledger.open_groups().count(), 4);
    t.queue(0, 0);
    assert_eq!(short(&t.queue(1, 0)), ["training of step 0 by l, 1"]);
    assert_eq!(t.ledger.open_groups().count(), 4);
    // g2 is sampled by v0, and is one version old in step 1: allowed.
    t.queue(2, 0);
    t.trained(0, weights(Actor::Policy, 1, 9), &[0, 1]);
    // Step 1 begins with it, which is no measure of step 0 yet.
    t.queue(4, 1);
    assert_eq!(t.ledger.snapshot().staleness_max, Some(0));
    // g3 is sampled by v0 too, and arrives after step 1: two versions old.
    t.trained(1, weights(Actor::Policy, 2, 9), &[2, 4]);
    let snapshot = t.ledger.snapshot();
    assert_eq!((snapshot.staleness_max, snapshot.staleness_mean), (Some(1), Some(0.5)));
    let stale = t.queue(3, 0);
    let why = "sampled 2 versions ago, at most 1 are allowed".to_owned();
    let reason = DropReason::Stale;
    assert_eq!(closed(&stale), [(3, Outcome::Dropped { reason, why })]);
}

#[test]
fn audits_within_a_policy_phase_pause_it() {
    let mut t = Table::new(Settings { audit_every: Some(1), ..policy_only() });
    t.queue(0, 0);
    t.queue(1, 0);
    let done = t.trained(0, weights(Actor::Policy, 1, 9), &[0, 1]);
    assert_eq!(short(&done), ["forget g0 g1", "audit at step 1 of round 1"]);
    assert_eq!(done.transaction.expect("a step").opened, []);
    assert_eq!(t.ledger.record().audit.map(|a| a.moment), Some(AuditMoment::Within));
    assert_eq!(short(&t.audited()), ["rollout of g2 by r, 1", "rollout of g3 by r, 1"]);
}

#[test]
fn stale_budget_samples_the_first_policy_in_every_round() {
    let schedule = Schedule::StaleBudget;
    let one = PerActor { policy: 1, generator: 1 };
    let groups_per_step = PerActor { policy: 1, generator: 1 };
    let mut t = Table::new(Settings { schedule, steps: one, groups_per_step, ..settings() });
    let rewards = || Rewards::Rubric { r_disc: vec![0.1, 0.2], r_anchor: vec![-1.0, -1.0] };
    t.rolled(0, 0);
    t.evaluated(0, rewards());
    t.trained(0, weights(Actor::Generator, 1, 8), &[0]);
    t.audited();
    t.queue(1, 0);
    t.trained(1, weights(Actor::Policy, 1, 9), &[1]);
    let [Action::Rollout { lease, kind, .. }] = &t.audited().actions[..] else {
        panic!("no rollout");
    };
    assert_eq!((lease.weights, *kind), (initial().policy, GroupKind::Rubric));
}

#[test]
fn a_rubric_group_is_as_old_as_the_generator_that_wrote_its_rubrics() {
    let steps = PerActor { policy: 0, generator: 3 };
    let groups_per_step = PerActor { policy: 1, generator: 1 };
    let mut t = Table::new(Settings { steps, groups_per_step, max_staleness: 1, ..settings() });
    let rewards = || Rewards::Rubric { r_disc: vec![0.1, 0.2], r_anchor: vec![-1.0, -1.0] };
    for group in 0..3 {
        t.rolled(group, 0);
        t.evaluated(group, rewards());
        t.trained(group, weights(Actor::Generator, group + 1, 8), &[group]);
        // Evaluated after the step before, though drawn and perhaps sampled ahead of it.
        assert_eq!(t.ledger.snapshot().staleness_max, Some(0), "g{group}");
    }
    assert_eq!(t.ledger.record().tally.generator.trained, 3);
}

#[test]
fn each_actor_has_its_own_normalization() {
    let mut settings = policy_only();
    settings.normalization.policy.std = false;
    let mut t = Table::new(settings);
    t.rolled(0, 0);
    t.rolled(1, 0);
    t.scored(1, &[0.5, 0.0]);
    // Scores (0, .5) without the division by their std give (-.25, .25).
    let [Action::Train { groups, .. }] = &t.scored(0, &[0.0, 0.5]).actions[..] else {
        panic!("no step");
    };
    let expected = [vec![-0.25, 0.25], vec![0.25, -0.25]];
    assert!(groups.iter().map(|(_, a)| a).eq(&expected), "{groups:?}");
}
