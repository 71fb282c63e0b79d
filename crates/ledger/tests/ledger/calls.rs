//! Tables on calls: answers, leases, retries and refusals.

use ledger::{Action, Call, End, Event, Millis, Outcome, Refusal, Rewards, Role, Settings, Work};
use rl::{Actor, DropReason, GroupId, StepId, WeightVersion};

use crate::table::{Table, closed, failure, policy_only, settings, short, weights};

#[test]
fn an_expired_lease_goes_to_another_worker_and_its_answer_is_late() {
    let mut t = Table::new(policy_only());
    let late = t.lease(Work::Rollout(GroupId(0)));
    assert_eq!(t.tick(999).actions, []);
    t.join("r2", Role::Rollout);
    let expired = t.tick(1);
    assert_eq!(short(&expired), ["rollout of g0 by r2, 2", "rollout of g1 by r2, 2"]);
    assert_eq!(expired.transaction, None);
    let answer = t.apply(Event::RolloutFinished { lease: late, outcome: Ok(WeightVersion(0)) });
    let call = Call::Rollout;
    let refused = Some(Refusal::Late { lease: late, call });
    assert_eq!((answer.refused, answer.actions, answer.transaction), (refused, vec![], None));
    let why = t.ledger.explain(Millis(t.now))[0].to_string();
    let last = "rollout of g0 by r: no answer before the deadline";
    assert_eq!(why, format!("rollout of g0, attempt 2: with r2 (last: {last})"));
}

#[test]
fn a_worker_that_leaves_or_joins_anew_gives_back_its_leases_at_once() {
    let mut t = Table::new(policy_only());
    let expected = ["rollout of g0 by r, 2", "rollout of g1 by r, 2"];
    assert_eq!(short(&t.join("r", Role::Rollout)), expected);
    assert_eq!(t.leave("r").actions, []);
    assert_eq!(
        short(&t.join("x", Role::Rollout)),
        ["rollout of g0 by x, 3", "rollout of g1 by x, 3"]
    );
}

#[test]
fn a_group_whose_attempts_are_used_up_is_dropped_with_the_reason() {
    let mut t = Table::new(policy_only());
    for (attempt, delay) in [(1, 100), (2, 200)] {
        let lease = t.lease(Work::Rollout(GroupId(0)));
        let failed = t.apply(Event::RolloutFinished { lease, outcome: Err(failure(true)) });
        assert_eq!((failed.transaction, failed.actions), (None, vec![]), "attempt {attempt}");
        let last = t.ledger.explain(Millis(t.now)).pop().expect("g0 waits").to_string();
        assert!(last.contains("about to be tried again (last: "), "{last}");
        assert_eq!(t.tick(delay - 1).actions, []);
        assert_eq!(short(&t.tick(1)), [format!("rollout of g0 by r, {}", attempt + 1)]);
    }
    let lease = t.lease(Work::Rollout(GroupId(0)));
    let failed = t.apply(Event::RolloutFinished { lease, outcome: Err(failure(true)) });
    let reason = DropReason::Exhausted;
    let why = "rollout of g0 by r: out of luck".to_owned();
    assert_eq!(closed(&failed), [(0, Outcome::Dropped { reason, why })]);
    assert_eq!(short(&failed), ["forget g0", "rollout of g2 by r, 1"]);
    // What cannot succeed is not tried again.
    let lease = t.lease(Work::Rollout(GroupId(1)));
    let failed = t.apply(Event::RolloutFinished { lease, outcome: Err(failure(false)) });
    assert_eq!(short(&failed), ["forget g1", "rollout of g3 by r, 1"]);
}

#[test]
fn answers_that_cannot_be_true_are_refused_and_asked_again() {
    let mut t = Table::new(Settings { max_attempts: 9, ..policy_only() });
    let too_new = t.rolled(0, 1);
    assert!(matches!(too_new.refused, Some(Refusal::TooNew { .. })), "{too_new:?}");
    t.tick(100);
    t.rolled(0, 0);
    let wrong = [
        Rewards::Scores(vec![0.1, f64::NAN]),
        Rewards::Rubric { r_disc: vec![0.1, 0.2], r_anchor: vec![0.1, 0.2] },
    ];
    for rewards in wrong {
        let refused = t.evaluated(0, rewards).refused;
        assert!(matches!(refused, Some(Refusal::MalformedRewards { .. })), "{refused:?}");
        t.tick(200);
    }
    t.scored(0, &[0.1, 0.2]);
    t.queue(1, 0);
    let good = weights(Actor::Policy, 1, 9);
    let wrong = [
        (weights(Actor::Policy, 2, 9), vec![0, 1]),
        (weights(Actor::Policy, 0, 9), vec![0, 1]),
        (weights(Actor::Generator, 1, 9), vec![0, 1]),
        (good, vec![0]),
        (good, vec![0, 1, 2]),
    ];
    for (weights, groups) in wrong {
        let decision = t.trained(0, weights, &groups);
        assert!(decision.refused.is_some(), "{weights} {groups:?}");
        assert_eq!(decision.transaction, None);
        t.tick(10_000);
    }
    assert_eq!(t.trained(0, good, &[0, 1]).refused, None);
}

#[test]
fn a_step_waits_for_learners_but_fails_the_run_if_they_cannot_take_it() {
    let mut t = Table::new(policy_only());
    t.queue(0, 0);
    t.queue(1, 0);
    for _ in 0..10 {
        t.leave("l");
        assert_eq!(t.join("l", Role::Learner).actions.len(), 1);
    }
    let lease = t.lease(Work::Train(StepId(0)));
    let failed = t.apply(Event::StepFinished { lease, outcome: Err(failure(false)) });
    let why = "training of step 0 by l: out of luck".to_owned();
    let end = End::Failed { why };
    assert_eq!(failed.actions, [Action::Finish { end: end.clone() }]);
    assert_eq!(failed.transaction.expect("the end").record.end, Some(end));
    // Its groups stay open for the run that is recovered.
    assert_eq!(t.ledger.open_groups().count(), 2);
}

#[test]
fn a_clock_that_goes_back_shortens_no_lease() {
    let mut t = Table::new(policy_only());
    t.tick(500);
    t.now = 100;
    t.rolled(0, 0);
    let lease = t.ledger.leases().last().expect("an evaluation").clone();
    assert_eq!((lease.since, lease.deadline), (Millis(500), Millis(1_000)));
}

#[test]
fn rubric_rewards_must_come_in_pairs() {
    let mut t = Table::new(settings());
    t.rolled(0, 0);
    let (r_disc, r_anchor) = (vec![0.1, 0.2, 0.3], vec![-1.0, -2.0]);
    let refused = t.evaluated(0, Rewards::Rubric { r_disc, r_anchor }).refused;
    assert!(matches!(refused, Some(Refusal::MalformedRewards { .. })), "{refused:?}");
}

#[test]
fn the_least_loaded_worker_is_next() {
    let mut t = Table::new(policy_only());
    t.leave("r");
    t.join("a", Role::Rollout);
    t.join("b", Role::Rollout);
    t.leave("a");
    t.join("c", Role::Rollout);
    // "a" took both groups; "b" got them back, and is full when g0 is sampled and g2 is drawn.
    t.rolled(0, 0);
    assert_eq!(short(&t.scored(0, &[0.5, 0.5])), ["forget g0", "rollout of g2 by c, 1"]);
}
