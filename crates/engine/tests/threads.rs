//! Compute threads come back, whatever becomes of the calls they work for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::channel;
use std::time::Duration;

use engine::{Config, Engine, EngineError, OpenError};
use lm::config::ModelConfig;
use lm::folder::{Lm, Storage};
use lm::model::Decoder;
use lm::template;
use lm::tokenizer::Tokenizer;
use proto::pb::WeightsWanted;
use proto::status::Code;
use rl::{Actor, Digest, Seed, Stream, WeightRef, WeightVersion};
use tempfile::TempDir;
use weights::WeightStore;

#[tokio::test]
async fn a_job_that_panics_gives_its_thread_back() {
    let (_folder, engine) = engine();
    for _ in 0..3 {
        let error = engine.compute(|| assert_eq!(1, 2)).await.unwrap_err();
        assert!(matches!(error, EngineError::Died), "{error}");
    }
    assert_eq!(engine.compute(|| 7).await.unwrap().0, 7);
}

#[tokio::test]
async fn a_call_that_is_given_up_gives_its_thread_back() {
    let (_folder, engine) = engine();
    for _ in 0..3 {
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (release, held) = channel::<()>();
        let job = engine.compute(move || {
            begin.send(()).unwrap();
            held.recv().unwrap();
        });
        tokio::select! {
            _ = job => panic!("the job is held"),
            began = begun => began.unwrap(),
        }
        // Nobody waits for it any more, and it still computes: no second job may begin.
        let mut next = Box::pin(engine.compute(|| 7));
        tokio::select! {
            biased;
            _ = &mut next => panic!("there is one thread"),
            () = std::future::ready(()) => release.send(()).unwrap(),
        }
        assert_eq!(next.await.unwrap().0, 7);
    }
}

#[tokio::test]
async fn weights_that_nobody_has_just_now_may_be_asked_for_again() {
    let (_folder, engine) = engine();
    let weights =
        WeightRef { actor: Actor::Policy, version: WeightVersion(3), digest: Digest([7; 32]) };
    // Nobody listens on port 1.
    for sources in [Vec::new(), vec!["http://127.0.0.1:1".to_owned()]] {
        let wanted = WeightsWanted { weights: Some(weights.into()), sources };
        let error = engine.sampler(wanted).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
    }
}

#[test]
fn a_folder_without_a_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = open(&folder).unwrap_err();
    assert!(matches!(error, OpenError::Folder(_)), "{error}");
}

/// An engine of one thread with an untrained model.
fn engine() -> (TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::train(&["one two"], 300, &template::specials()).unwrap();
    let config = ModelConfig::llama(tokenizer.vocab_size(), 16, 1, 2);
    let decoder = Decoder::init(&config, Seed::new(1, Stream::Weights), &lm::Device::flex());
    Lm { decoder, tokenizer }.save(&folder.path().join("model"), Storage::F32).unwrap();
    let engine = open(&folder).unwrap();
    (folder, engine)
}

fn open(folder: &TempDir) -> Result<Engine, OpenError> {
    Engine::open(Config {
        model: &folder.path().join("model"),
        cache: WeightStore::open(folder.path().join("cache")).unwrap(),
        threads: 1,
        deadline: Duration::from_secs(5),
    })
}
