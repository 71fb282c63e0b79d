//! Times of the small model's main loops, on one thread and on two.
//!
//!     cargo run --release -p lm --example speed

use std::time::{Duration, Instant};

use burn::module::Module;
use lm::Device;
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::logprobs::{Scoring, token_logprobs};
use lm::model::Decoder;
use lm::packed::Packed;
use lm::sampler::Sampler;
use rl::{Seed, Stream};

const PROMPT: usize = 18;
const LENGTH: usize = 24;

fn main() {
    let mut config = ModelConfig::llama(600, 128, 4, 4);
    config.intermediate_size = 352;
    let decoder = Decoder::init(&config, Seed::new(1, Stream::Weights), &Device::flex());
    let prompt: Vec<u32> = (0..PROMPT as u32).collect();
    let seed = Seed::new(1, Stream::PolicyTokens);
    let params = SamplingParams { max_tokens: LENGTH, ..SamplingParams::default() };
    let (one, two) = (Compute::new(1).expect("a thread"), Compute::new(2).expect("two threads"));

    let prepared = best(20, || one.map(vec![()], |()| drop(Sampler::new(&decoder))));
    println!("prepare sampler            {:8.3} ms", ms(prepared));
    let sampler = Sampler::new(&decoder);
    for batch in [1, 8, 16] {
        let sample = |()| sampler.sample(&prompt, batch, &params, seed).expect("a valid prompt");
        let alone = best(20, || one.map(vec![()], sample));
        let both = best(20, || two.map(vec![(); 2], sample));
        println!(
            "decode batch {batch:2}            {:8.3} ms a step, {:6.0} tokens/s, two threads x{:.2}",
            ms(alone) / LENGTH as f64,
            (batch * LENGTH) as f64 / alone.as_secs_f64(),
            2.0 * alone.as_secs_f64() / both.as_secs_f64(),
        );
    }

    let completions: Vec<Vec<u32>> =
        (0..8).map(|i| (0..LENGTH as u32).map(|t| 20 + i * 31 + t).collect()).collect();
    let row = Packed::group(&prompt, &completions).expect("a prompt");
    let targets = row.targets();
    let score =
        |decoder: &Decoder| token_logprobs(decoder, &row, &targets, &Scoring::default()).sum();
    let forward = |()| drop(score(&decoder).into_data());
    let training = decoder.clone().train();
    let backward = |()| drop(score(&training.clone()).backward());
    report("forward group row", &one, &two, forward);
    report("forward, backward group row", &one, &two, backward);
}

fn report(what: &str, one: &Compute, two: &Compute, work: impl Fn(()) + Sync) {
    let alone = best(20, || one.map(vec![()], &work));
    let both = best(20, || two.map(vec![(); 2], &work));
    let gain = 2.0 * alone.as_secs_f64() / both.as_secs_f64();
    println!("{what:27}{:8.3} ms, two threads x{gain:.2}", ms(alone));
}

/// The shortest of several runs, which others on the machine disturbed least.
fn best<R>(runs: usize, work: impl Fn() -> R) -> Duration {
    let time = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..runs).map(|_| time()).min().expect("at least one run")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
