//! How long publishing one training step takes: 4 MB of weights and 8 MB of optimiser state.
//!
//! `cargo run --release -p weights --example publish`

use std::time::Instant;

use rl::{Actor, WeightVersion};
use weights::{Dtype, Kind, Publication, Tensor, WeightStore, WeightsError, digest};

const STEPS: u64 = 30;

fn main() -> Result<(), WeightsError> {
    let folder = tempfile::tempdir().expect("a folder for the measurement");
    let store = WeightStore::open(folder.path())?;
    let mut millis = Vec::new();
    for step in 1..=STEPS {
        let state = publication(step, Kind::Optimizer, 80);
        let weights = publication(step, Kind::Weights, 40);
        let start = Instant::now();
        store.publish(state)?;
        store.publish(weights)?;
        millis.push(start.elapsed().as_secs_f64() * 1e3);
        if step % 10 == 0 {
            store.prune(3, &[])?;
        }
    }
    millis.sort_by(f64::total_cmp);
    let start = Instant::now();
    store.latest(Actor::Policy, Kind::Weights)?;
    let verified = start.elapsed().as_secs_f64() * 1e3;
    let (median, worst) = (millis[millis.len() / 2], millis[millis.len() - 1]);
    println!("publish 12 MB in 120 tensors: median {median:.1} ms, worst {worst:.1} ms");
    println!("verify 4 MB in 40 tensors: {verified:.1} ms");
    Ok(())
}

/// `count` tensors of 100 KB that no other step has.
fn publication(step: u64, kind: Kind, count: u64) -> Publication {
    let tensor = |i: u64| Tensor {
        name: format!("layers.{i}"),
        shape: vec![25_000],
        dtype: Dtype::F32,
        data: (step * 1000 + i).to_le_bytes().repeat(12_500).into(),
    };
    Publication {
        actor: Actor::Policy,
        version: WeightVersion(step),
        kind,
        model: digest(b"a model"),
        step: Some(step),
        extra: [("learning_rate".to_owned(), 1e-3.into())].into(),
        tensors: (0..count).map(tensor).collect(),
    }
}
