//! Whole runs: what they end with, and that it does not depend on how they came there.

use std::time::Duration;

use coordinator::driver::Outcome;
use coordinator::journal::{AuditLine, RunState};
use ledger::End;
use local_cluster::{Cluster, Fault, Part};
use rl::{Actor, WeightVersion};
use weights::{Kind, WeightStore};

/// The state at the end of a run that was conducted under `fault`, and taken up again if need be.
async fn conduct(settings: &[&str], fault: Fault) -> (Cluster, RunState) {
    let cluster = Cluster::new(settings).expect("a cluster");
    let run = tokio::time::timeout(Duration::from_secs(60), cluster.run(fault)).await;
    let mut outcome = run.unwrap_or_else(|_| panic!("{fault:?}: the run hangs")).expect("a run");
    if let Fault::StopAfter(_) = fault {
        assert_eq!(outcome, Outcome::Interrupted);
        assert_eq!(cluster.state().expect("a state").end, None);
        outcome = cluster.run(Fault::None).await.expect("a resumed run");
    }
    assert_eq!(outcome, Outcome::Completed);
    let state = cluster.state().expect("a state");
    assert_eq!(state.end, Some(End::Completed));
    for (kind, tally) in &state.groups {
        let dropped: u64 = tally.dropped.values().sum();
        assert_eq!(tally.drawn, tally.trained + dropped, "{kind}: {tally:?}");
    }
    assert_eq!(state.step, 8);
    (cluster, state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_with_the_same_weights_however_it_came_there() {
    let (cluster, plain) = conduct(&[], Fault::None).await;
    let steps = cluster.steps().expect("steps");
    assert_eq!(steps.iter().map(|line| line.step).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert!(plain.weights["policy"].version.0 + plain.weights["generator"].version.0 > 4);

    for (what, settings, fault) in [
        ("again", &[][..], Fault::None),
        ("two workers", &["services.rollout_workers=2"], Fault::None),
        ("two threads", &["services.threads=2"], Fault::None),
        ("stopped at the start", &[], Fault::StopAfter(0)),
        ("stopped in a phase", &[], Fault::StopAfter(3)),
        ("stopped between phases", &[], Fault::StopAfter(4)),
        ("rollout worker restarted", &[], Fault::Restart(Part::Rollout, 2)),
        ("evaluator restarted", &[], Fault::Restart(Part::Evaluator, 3)),
        ("learner restarted", &[], Fault::Restart(Part::Learner, 1)),
        ("coordinator restarted", &[], Fault::RestartCoordinator(3)),
        ("no audit", &["audit.world=none"], Fault::None),
    ] {
        let (_, state) = conduct(settings, fault).await;
        assert_eq!(state.weights, plain.weights, "{what}");
        assert_eq!(state.groups, plain.groups, "{what}");
    }
    let (_, other) = conduct(&["run.seed=7"], Fault::None).await;
    assert_ne!(other.weights, plain.weights);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_learning_rate_nothing_changes() {
    let rates = ["policy.learning_rate=0", "generator.learning_rate=0"];
    let (cluster, state) = conduct(&rates, Fault::None).await;
    for line in cluster.steps().expect("steps") {
        for actor in ["policy", "generator"] {
            let Some(deviation) = line.metrics.get(&format!("{actor}/ratio_deviation")) else {
                continue;
            };
            assert!(*deviation < 1e-5, "step {}: {deviation}", line.step);
            assert_eq!(line.metrics[&format!("{actor}/clip_fraction")], 0.0);
        }
    }
    let audits: Vec<AuditLine> =
        coordinator::journal::read(&cluster.dir().join("audit.jsonl")).expect("audits");
    let rounds: Vec<&AuditLine> =
        audits.iter().filter(|line| ["start", "policy"].contains(&line.moment.as_str())).collect();
    assert_eq!(rounds.len(), 3);
    // The versions count steps, and all have the same tensors.
    let store = WeightStore::open(cluster.dir().join("weights")).expect("the run's weights");
    let tensors = |actor, version| {
        let manifest = store.find(actor, version, Kind::Weights).expect("a sound manifest");
        manifest.expect("it is published").tensors
    };
    for actor in [Actor::Policy, Actor::Generator] {
        let last = state.weights[actor.name()].version;
        assert!(last > WeightVersion(0));
        assert_eq!(tensors(actor, last), tensors(actor, WeightVersion(0)), "{actor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_schedule_trains_what_it_says() {
    for (schedule, generator_steps) in
        [("fresh", 4), ("stale", 2), ("stale_budget", 4), ("static", 2)]
    {
        let cluster = Cluster::new(&[&format!("schedule.kind={schedule}")]).expect("a cluster");
        let outcome = cluster.run(Fault::None).await.expect("a run");
        assert_eq!(outcome, Outcome::Completed, "{schedule}");
        let steps = cluster.steps().expect("steps");
        let made = steps.iter().filter(|line| line.phase == "evaluator").count();
        assert_eq!(made, generator_steps, "{schedule}");
        assert_eq!(steps.len(), generator_steps + 4, "{schedule}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn free_decoding_counts_what_it_cannot_read() {
    let cluster = Cluster::new(&["generator.decoding=free"]).expect("a cluster");
    let error = cluster.run(Fault::None).await.expect_err("a run of no use").to_string();
    assert!(error.contains("the generator was not trained: all of its groups"), "{error}");
    let steps = cluster.steps().expect("steps");
    let failures = |line: &coordinator::journal::StepLine| {
        line.metrics.get("rubric/parse_failure_fraction").copied()
    };
    // An untrained model writes nothing that can be read.
    assert!(steps.iter().filter_map(failures).all(|share| share > 0.9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_configuration_is_refused() {
    let cluster = Cluster::new(&[]).expect("a cluster");
    assert_eq!(cluster.run(Fault::StopAfter(1)).await.expect("a run"), Outcome::Interrupted);
    let other = cluster.with("policy.learning_rate=1e-3");
    let error = other.run(Fault::None).await.expect_err("another run").to_string();
    assert!(error.contains("started with another configuration"), "{error}");
}
