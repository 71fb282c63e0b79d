//! Going on from what was persisted.

use ledger::{
    End, Event, Ledger, Millis, OpenGroup, Outcome, Record, RecoverError, Role, Settings,
};
use rl::{Actor, DropReason, GroupId, StepId};

use crate::table::{Table, initial, policy_only, short, weights};

/// Starts again from the table's record, with the workers there were.
fn recover(table: &Table, settings: Settings) -> Result<Table, RecoverError> {
    let open = table.ledger.open_groups().cloned().collect();
    let ledger = Ledger::recover(settings, table.ledger.record().clone(), open)?;
    let mut table = Table { ledger, now: 0 };
    table.join("r", Role::Rollout);
    table.join("r2", Role::Rollout);
    table.join("e", Role::Evaluator);
    table.join("l", Role::Learner);
    Ok(table)
}

#[test]
fn open_groups_start_again_one_attempt_further() {
    let mut t = Table::new(policy_only());
    t.queue(0, 0);
    let open = t.ledger.open_groups().cloned().collect();
    let mut ledger = Ledger::recover(policy_only(), t.ledger.record().clone(), open).expect("fits");
    let (worker, role, slots) = (ledger::WorkerId("r".into()), Role::Rollout, 2);
    let joined = ledger.apply(Event::WorkerJoined { worker, role, slots }, Millis(0));
    assert_eq!(short(&joined), ["rollout of g0 by r, 2", "rollout of g1 by r, 2"]);
    assert_eq!(joined.transaction, None);
}

#[test]
fn an_audit_that_was_open_is_demanded_again() {
    let mut ledger = Ledger::new(policy_only(), initial()).expect("good settings");
    ledger.apply(Event::Ticked, Millis(0));
    let record = ledger.record().clone();
    let mut ledger = Ledger::recover(policy_only(), record, vec![]).expect("fits");
    assert_eq!(short(&ledger.apply(Event::Ticked, Millis(0))), ["audit at the start"]);
}

#[test]
fn a_step_published_before_the_crash_counts_with_the_groups_it_had() {
    let settings = || Settings { max_staleness: 1, ..policy_only() };
    let mut t = Table::new(settings());
    t.join("r2", Role::Rollout);
    t.queue(0, 0);
    t.queue(1, 0);
    // Step 0 is published with g0 and g1; then the coordinator dies, and others come first.
    let mut t = recover(&t, settings()).expect("fits");
    t.queue(2, 0);
    t.queue(3, 0);
    let done = t.trained(0, weights(Actor::Policy, 1, 9), &[0, 1]);
    assert_eq!(done.refused, None);
    let closed = done.transaction.as_ref().expect("a step").closed.clone();
    let trained = Outcome::Trained { step: StepId(0) };
    assert_eq!(closed, [0, 1].map(|id| (GroupId(id), trained.clone())));
    // g2 and g3 are whole and young enough for the next one.
    assert_eq!(short(&done)[1], "training of step 1 by l, 1");
    // From then on only the groups asked for are right.
    assert!(t.trained(1, weights(Actor::Policy, 2, 9), &[2]).refused.is_some());
}

#[test]
fn a_run_that_failed_is_tried_again_and_one_that_ended_is_not() {
    let mut t = Table::new(policy_only());
    let open: Vec<OpenGroup> = t.ledger.open_groups().cloned().collect();
    let mut record = t.ledger.record().clone();
    record.end = Some(End::Failed { why: "out of memory".into() });
    let mut ledger = Ledger::recover(policy_only(), record, open).expect("fits");
    let first = ledger.apply(Event::Ticked, Millis(0));
    assert_eq!(first.transaction.expect("the end is taken back").record.end, None);

    t.apply(Event::CancelRequested);
    let record = t.ledger.record().clone();
    let mut ledger = Ledger::recover(policy_only(), record, vec![]).expect("fits");
    assert_eq!(short(&ledger.apply(Event::Ticked, Millis(0))), ["finish Cancelled"]);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let t = Table::new(policy_only());
    let other = Settings { seed: 8, ..policy_only() };
    assert!(matches!(recover(&t, other), Err(RecoverError::OtherSettings { .. })));
    let tunable = Settings { max_attempts: 9, audit_every: Some(3), ..policy_only() };
    assert!(recover(&t, tunable).is_ok());

    let open: Vec<OpenGroup> = t.ledger.open_groups().cloned().collect();
    let with = |open: &[OpenGroup]| {
        Ledger::recover(policy_only(), t.ledger.record().clone(), open.to_vec()).err()
    };
    let (actor, recorded, found) = (Actor::Policy, 2, 1);
    assert_eq!(with(&open[1..]), Some(RecoverError::Accounting { actor, recorded, found }));
    let twice = [open[0].clone(), open[0].clone()];
    assert_eq!(with(&twice), Some(RecoverError::UnknownGroup(GroupId(0))));
    let undrawn = OpenGroup { id: GroupId(2), ..open[0].clone() };
    assert_eq!(with(&[undrawn]), Some(RecoverError::UnknownGroup(GroupId(2))));

    let broken = Settings { prompts: 0, anchor_weight: f64::NAN, ..policy_only() };
    let error = Ledger::new(broken, initial()).expect_err("two problems").to_string();
    assert_eq!(
        error,
        "settings cannot be run with: prompts is 0 (expected 1 or more); \
        anchor_weight is NaN (expected a finite number, 0 or more)"
    );
}

#[test]
fn a_record_survives_json() {
    let mut t = Table::new(policy_only());
    t.rolled(0, 0);
    t.scored(0, &[0.5, 0.5]);
    let record = t.ledger.record();
    assert_eq!(record.tally.policy.dropped.get(&DropReason::NoSignal), Some(&1));
    let json = serde_json::to_string(record).expect("serialises");
    assert_eq!(&serde_json::from_str::<Record>(&json).expect("parses"), record);
}
