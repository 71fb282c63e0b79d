//! A student's weights depend on the steps it is told to make, not on what went wrong between them.

use std::sync::Arc;
use std::time::Duration;

use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::folder::{Lm, Storage};
use lm::model::Decoder;
use lm::template;
use lm::tokenizer::Tokenizer;
use proto::status::Code;
use rl::{
    Actor, Digest, Finish, GroupId, Rollout, Seed, StepId, Stream, TrainGroup, WeightRef,
    WeightVersion,
};
use runtime::config::Config;
use tempfile::TempDir;
use weights::WeightStore;

use crate::student::{Step, Student};

#[test]
fn a_repeated_step_is_answered_by_what_was_published() {
    let folder = folder();
    let mut student = open(&folder);
    let first = step(0, student.initial(), group(1, [7, 8]));
    let made = student.step(&first).unwrap();
    assert_ne!(made.weights.digest, student.initial().digest);
    // Here and after a restart.
    for mut student in [student, open(&folder)] {
        let again = student.step(&first).unwrap();
        assert_eq!((again.weights, again.model), (made.weights, Duration::ZERO));
        assert_eq!(again.metrics, made.metrics);
    }
}

#[test]
fn a_version_that_lost_its_optimisers_state_is_made_again() {
    let folder = folder();
    let mut student = open(&folder);
    let first = step(0, student.initial(), group(1, [7, 8]));
    let v1 = student.step(&first).unwrap().weights;
    let state = folder.path().join("weights/manifests/policy/v1.optimizer.json");
    for damage in ["", "{"] {
        if damage.is_empty() {
            std::fs::remove_file(&state).unwrap();
        } else {
            std::fs::write(&state, damage).unwrap();
        }
        let again = open(&folder).step(&first).unwrap();
        assert_eq!(again.weights, v1);
        assert_ne!(again.model, Duration::ZERO, "it was computed again");
    }
    // What follows finds all it needs.
    let mut student = open(&folder);
    student.step(&step(1, v1, group(2, [8, 9]))).unwrap();
}

#[test]
fn failures_and_restarts_between_steps_change_nothing() {
    let plain = folder();
    let mut student = open(&plain);
    let first = step(0, student.initial(), group(1, [7, 8]));
    let v1 = student.step(&first).unwrap().weights;
    let second = step(1, v1, group(2, [8, 9]));
    let v2 = student.step(&second).unwrap().weights;

    let folder = folder();
    let mut student = open(&folder);
    // A token that the model does not know.
    let refused = step(0, student.initial(), group(1, [7, 1_000_000]));
    assert_eq!(student.step(&refused).unwrap_err().code(), Code::InvalidArgument);
    // A base that is not here.
    let base = WeightRef { digest: Digest([1; 32]), ..v2 };
    let early = step(2, base, group(3, [7, 8]));
    assert_eq!(student.step(&early).unwrap_err().code(), Code::Unavailable);
    // Another step from the same base, which nobody heard of.
    let other = step(0, student.initial(), group(9, [5, 5]));
    assert_ne!(student.step(&other).unwrap().weights, v1);
    assert_eq!(student.step(&first).unwrap().weights, v1);
    let mut student = open(&folder);
    assert_eq!(student.step(&refused_after(v1)).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(student.step(&second).unwrap().weights, v2);
}

#[test]
fn a_distance_that_nobody_measured_is_no_metric() {
    let folder = folder();
    let metrics = |kl_coef| {
        let mut run = run(&folder);
        run.policy.kl_coef = kl_coef;
        let place = tempfile::tempdir().unwrap();
        let store = WeightStore::open(place.path().join("weights")).unwrap();
        let compute = Arc::new(Compute::new(1).unwrap());
        let mut student = Student::open(Actor::Policy, &run, store, compute).unwrap();
        let first = step(0, student.initial(), group(1, [7, 8]));
        student.step(&first).unwrap().metrics
    };
    assert!(metrics(0.01).contains_key("policy/kl"));
    let without = metrics(0.0);
    assert!(!without.contains_key("policy/kl") && without.contains_key("policy/loss"));
}

fn refused_after(base: WeightRef) -> Step {
    step(1, base, group(2, [1_000_000, 9]))
}

fn step(number: u64, base: WeightRef, group: TrainGroup) -> Step {
    Step { step: StepId(number), base, groups: vec![group], keep: Vec::new() }
}

/// Two completions of a token each, the first better than the second.
fn group(id: u64, tokens: [u32; 2]) -> TrainGroup {
    let rollout = |token| Rollout {
        tokens: vec![token],
        logprobs: vec![-5.0],
        allowed: Vec::new(),
        text: String::new(),
        finish: Finish::Length,
        version: WeightVersion(0),
    };
    TrainGroup {
        id: GroupId(id),
        prompt: vec![3, 4],
        rollouts: tokens.map(rollout).to_vec(),
        advantages: vec![1.0, -1.0],
        temperature: 1.0,
    }
}

/// A folder with an untrained model.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::train(&["one two"], 300, &template::specials()).unwrap();
    let config = ModelConfig::llama(tokenizer.vocab_size(), 16, 1, 2);
    let decoder = Decoder::init(&config, Seed::new(1, Stream::Weights), &lm::Device::flex());
    Lm { decoder, tokenizer }.save(&folder.path().join("model"), Storage::F32).unwrap();
    folder
}

fn run(folder: &TempDir) -> Config {
    let mut run = Config::default();
    run.policy.model = folder.path().join("model");
    run
}

fn open(folder: &TempDir) -> Student {
    let store = WeightStore::open(folder.path().join("weights")).unwrap();
    let compute = Arc::new(Compute::new(1).unwrap());
    Student::open(Actor::Policy, &run(folder), store, compute).unwrap()
}
