//! Supervised fine-tuning learns what it is shown, and the same on any number of threads.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use lm::Device;
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::model::Decoder;
use lm::sampler::Sampler;
use lm::sft::{Document, SftConfig, SftProgress, fine_tune};
use rl::{Seed, Stream};

const SEED: u64 = 5;
const EOS: u32 = 1;

fn model() -> Decoder {
    let mut config = ModelConfig::llama(24, 32, 2, 4);
    config.max_position_embeddings = 32;
    Decoder::init(&config, Seed::new(SEED, Stream::Weights), &Device::flex())
}

/// Three symbols and a mark; the completion says the symbols again.
fn copies(n: u64) -> Vec<Document> {
    let seed = Seed::new(SEED, Stream::Data);
    let document = |i: u64| {
        let symbols: Vec<u32> = (0..3).map(|p| 3 + seed.child(i).below(p, 21) as u32).collect();
        Document {
            prompt: [symbols.as_slice(), &[2]].concat(),
            completions: vec![[symbols.as_slice(), &[EOS]].concat()],
        }
    };
    (0..n).map(document).collect()
}

fn train(config: &SftConfig, threads: usize) -> (Decoder, Vec<SftProgress>) {
    let compute = Compute::new(threads).unwrap();
    let mut log = Vec::new();
    let seed = Seed::new(SEED, Stream::Data).child(1);
    let trained =
        fine_tune(model(), &copies(2000), (config, seed), &compute, |progress| log.push(progress));
    (trained.unwrap(), log)
}

#[test]
fn a_copying_task_is_learnt() {
    let config = SftConfig {
        steps: 400,
        row_tokens: 256,
        rows_per_step: 2,
        lr: 5e-3,
        ..SftConfig::default()
    };
    let (trained, log) = train(&config, 2);
    // The first loss is that of a guess among 24 tokens.
    assert!((log[0].loss - 24f64.ln()).abs() < 0.1, "{:?}", log[0]);
    assert!(log[399].loss < 0.05, "{:?}", log[399]);
    let params = SamplingParams {
        temperature: 0.0,
        max_tokens: 6,
        stop: vec![EOS],
        ..SamplingParams::default()
    };
    let sampler = Sampler::new(&trained);
    let unseen = copies(2050).split_off(2000);
    let copied = unseen.iter().filter(|document| {
        let seed = Seed::new(SEED, Stream::PolicyTokens);
        let sampled = sampler.sample(&document.prompt, 1, &params, seed).unwrap();
        sampled[0].tokens == document.completions[0]
    });
    let copied = copied.count();
    assert!(copied >= 45, "{copied} of 50 unseen texts were copied");
}

#[test]
fn the_number_of_threads_does_not_show_in_a_single_bit() {
    let config = SftConfig { steps: 3, row_tokens: 64, rows_per_step: 5, ..SftConfig::default() };
    let (one, log) = train(&config, 1);
    let (three, log3) = train(&config, 3);
    assert_eq!(log, log3);
    assert_eq!(one.export(), three.export());
}

#[test]
fn a_row_is_filled_to_its_length() {
    let run = |row_tokens| {
        let config = SftConfig { steps: 1, row_tokens, rows_per_step: 3, ..SftConfig::default() };
        train(&config, 1).1[0]
    };
    // Documents have 8 tokens: 31 // 8 = 3 of them to a row, and one even where none fits.
    assert_eq!(run(31).tokens, 72);
    assert_eq!(run(5).tokens, 24);
}

#[test]
fn completions_that_share_a_prompt_are_learnt_as_if_each_had_its_own() {
    let (prompt, ends) = (vec![3, 4, 5], vec![vec![6, 7, EOS], vec![8, EOS]]);
    let shared = vec![Document { prompt: prompt.clone(), completions: ends.clone() }];
    let own =
        ends.into_iter().map(|end| Document { prompt: prompt.clone(), completions: vec![end] });
    let run = |documents: Vec<Document>| {
        let config =
            SftConfig { steps: 1, rows_per_step: 1, row_tokens: 11, ..SftConfig::default() };
        let (compute, seed) = (Compute::new(1).unwrap(), Seed::new(SEED, Stream::Data));
        let mut log = Vec::new();
        fine_tune(model(), &documents, (&config, seed), &compute, |at| log.push(at)).unwrap();
        log[0]
    };
    let (shared, own) = (run(shared), run(own.collect()));
    assert_eq!((shared.tokens, own.tokens), (8, 11));
    assert!((shared.loss - own.loss).abs() < 1e-6, "{shared:?} {own:?}");
    assert!((shared.grad_norm - own.grad_norm).abs() < 1e-5, "{shared:?} {own:?}");
}

#[test]
fn documents_that_cannot_be_learnt_are_named() {
    let good = Document { prompt: vec![3], completions: vec![vec![4], vec![5, 6]] };
    let document = |prompt: &[u32], completion: &[u32]| {
        let completions = vec![vec![4], completion.to_vec()];
        vec![good.clone(), Document { prompt: prompt.to_vec(), completions }]
    };
    for (documents, expected) in [
        (Vec::new(), "there are no documents, expected at least one"),
        (document(&[], &[3]), "document 1: a prompt of 0 tokens and a completion of 1"),
        (document(&[3], &[]), "document 1: a prompt of 1 tokens and a completion of 0"),
        (document(&[3], &[24]), "document 1: token 24, expected ids below 24"),
        (document(&[3; 30], &[4; 3]), "document 1: 33 tokens, expected at most 32"),
    ] {
        let compute = Compute::new(1).unwrap();
        let config = (&SftConfig::default(), Seed::new(SEED, Stream::Data));
        let error = fine_tune(model(), &documents, config, &compute, |_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error} should contain {expected:?}");
    }
}
