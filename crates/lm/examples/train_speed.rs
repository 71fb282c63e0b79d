//! How long a learner step, supervised fine-tuning and sampling take on this machine.
//!
//! Prints one line of JSON for each number of threads. `bench/torch_step.py` measures the same
//! work in PyTorch, and runs this beside it.
//!
//! ```text
//! cargo run --release -p lm --example train_speed [threads ..]
//! ```

use std::sync::Arc;
use std::time::Instant;

use lm::Device;
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::model::Decoder;
use lm::objective::Objective;
use lm::sampler::Sampler;
use lm::sft::{Document, SftConfig, fine_tune};
use lm::trainer::{Trainer, TrainerConfig};
use rl::weights::WeightVersion;
use rl::{Aggregation, Finish, GroupId, Rollout, Seed, Stream, TrainGroup};

const VOCAB: usize = 600;
const STEPS: usize = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut threads: Vec<usize> =
        std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    if threads.is_empty() {
        threads = vec![1, 2];
    }
    let model = Decoder::init(
        &ModelConfig::llama(VOCAB, 128, 4, 4),
        Seed::new(1, Stream::Weights),
        &Device::flex(),
    );
    for threads in threads {
        let compute = Arc::new(Compute::new(threads)?);
        let short = step_ms(&model, &compute, (18, 24), 0.0)?;
        let short_kl = step_ms(&model, &compute, (18, 24), 0.01)?;
        let long = step_ms(&model, &compute, (90, 18), 0.0)?;
        let sft = sft_tokens_per_s(model.clone(), &compute)?;
        let sampling = sampled_tokens_per_s(&model, &compute)?;
        println!(
            "{{\"threads\": {threads}, \"step_18_24_ms\": {short:.1}, \
             \"step_18_24_kl_ms\": {short_kl:.1}, \"step_90_18_ms\": {long:.1}, \
             \"sft_tokens_per_s\": {sft:.0}, \"sample_8_tokens_per_s\": {sampling:.0}}}"
        );
    }
    Ok(())
}

/// The median time of a step on 12 groups of 8 completions.
fn step_ms(
    model: &Decoder,
    compute: &Arc<Compute>,
    (prompt, completion): (usize, usize),
    kl_beta: f64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let objective =
        Objective { clip_low: 0.2, clip_high: 0.2, kl_beta, aggregation: Aggregation::Token };
    let mut trainer = Trainer::new(model.clone(), TrainerConfig::default(), compute.clone());
    let groups: Vec<TrainGroup> = (0..12).map(|id| group(id, prompt, completion)).collect();
    let mut times = Vec::new();
    for _ in 0..STEPS {
        let start = Instant::now();
        trainer.step(&groups, &objective, 1e-4)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[STEPS / 2])
}

fn group(id: u64, prompt: usize, completion: usize) -> TrainGroup {
    let seed = Seed::new(id, Stream::Data);
    let tokens = |child: u64, n: usize| -> Vec<u32> {
        (0..n as u64).map(|i| seed.child(child).below(i, VOCAB as u64) as u32).collect()
    };
    let rollout = |i: u64| Rollout {
        tokens: tokens(1 + i, completion),
        logprobs: vec![-6.4; completion],
        allowed: Vec::new(),
        text: String::new(),
        finish: Finish::Length,
        version: WeightVersion(0),
    };
    TrainGroup {
        id: GroupId(id),
        prompt: tokens(0, prompt),
        rollouts: (0..8).map(rollout).collect(),
        advantages: (0..8).map(|i| f32::from(i as u8) / 4.0 - 0.875).collect(),
        temperature: 1.0,
    }
}

/// Rows of 512 tokens of documents of 48, eight rows a step.
fn sft_tokens_per_s(model: Decoder, compute: &Compute) -> Result<f64, lm::sft::SftError> {
    let seed = Seed::new(2, Stream::Data);
    let document = |i: u64| {
        let tokens = |from: u64, n: u64| -> Vec<u32> {
            (from..from + n).map(|p| seed.child(i).below(p, VOCAB as u64) as u32).collect()
        };
        Document { prompt: tokens(0, 18), completions: vec![tokens(18, 30)] }
    };
    let documents: Vec<Document> = (0..500).map(document).collect();
    let config = SftConfig { steps: STEPS as u64, ..SftConfig::default() };
    let (mut tokens, start) = (0, Instant::now());
    fine_tune(model, &documents, (&config, seed), compute, |progress| tokens += progress.tokens)?;
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Groups of 8 completions of 24 tokens on a prompt of 18, one group on each thread.
fn sampled_tokens_per_s(
    model: &Decoder,
    compute: &Compute,
) -> Result<f64, lm::sampler::SampleError> {
    let sampler = Sampler::new(model);
    let prompt: Vec<u32> = (0..18).collect();
    let params = SamplingParams { max_tokens: 24, ..SamplingParams::default() };
    let groups: Vec<u64> = (0..STEPS as u64).collect();
    let start = Instant::now();
    let sampled = compute
        .map(groups, |i| sampler.sample(&prompt, 8, &params, Seed::new(i, Stream::PolicyTokens)));
    let sampled = sampled.into_iter().collect::<Result<Vec<_>, _>>()?;
    let tokens: usize = sampled.iter().flatten().map(|sampled| sampled.tokens.len()).sum();
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}
