//! Sampling: what is reported is what the learner computes, and only the seed decides.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use lm::Device;
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::logprobs::{Scoring, token_logprobs};
use lm::model::Decoder;
use lm::packed::Packed;
use lm::sampler::{Constraint, SampleError, Sampled, Sampler};
use rl::{Finish, Seed, Stream, TokenSet};

const VOCAB: usize = 70;
const PROMPT: [u32; 6] = [3, 1, 4, 1, 5, 9];

fn decoder() -> Decoder {
    let mut config = ModelConfig::llama(VOCAB, 32, 2, 4);
    config.num_key_value_heads = 2;
    config.max_position_embeddings = 40;
    Decoder::init(&config, Seed::new(1, Stream::Weights), &Device::flex())
}

fn seed() -> Seed {
    Seed::new(5, Stream::PolicyTokens).child(17)
}

fn params() -> SamplingParams {
    SamplingParams {
        temperature: 0.7,
        max_tokens: 12,
        stop: (0..6).collect(),
        ..Default::default()
    }
}

/// After an even token an odd one, and the other way round; free at the start.
#[derive(Clone, Default)]
struct Alternate(Option<u32>);

impl Constraint for Alternate {
    fn allowed(&mut self) -> Option<TokenSet> {
        let last = self.0?;
        Some(TokenSet::of(VOCAB, (0..VOCAB as u32).filter(|id| id % 2 != last % 2)))
    }

    fn advance(&mut self, token: u32) {
        self.0 = Some(token);
    }
}

/// Nothing is allowed.
struct Shut;

impl Constraint for Shut {
    fn allowed(&mut self) -> Option<TokenSet> {
        Some(TokenSet::empty(VOCAB))
    }

    fn advance(&mut self, _token: u32) {}
}

fn check_against_learner(group: &[Sampled]) {
    let completions: Vec<&[u32]> = group.iter().map(|sampled| sampled.tokens.as_slice()).collect();
    let row = Packed::group(&PROMPT, &completions).unwrap();
    let allowed: Vec<TokenSet> =
        group.iter().flat_map(|sampled| sampled.allowed.iter().cloned()).collect();
    let scoring = Scoring { temperature: group[0].temperature, allowed: &allowed };
    let learner = token_logprobs(&decoder(), &row, &row.targets(), &scoring);
    let learner = learner.try_into_vec_as::<f32>().unwrap();
    let sampler: Vec<f32> = group.iter().flat_map(|s| s.logprobs.iter().copied()).collect();
    assert_eq!(learner.len(), sampler.len());
    for (a, b) in learner.iter().zip(&sampler) {
        assert!((a - b).abs() < 1e-4, "learner {a} sampler {b}");
    }
}

#[test]
fn logprobs_are_those_the_learner_computes() {
    let sampler = Sampler::new(&decoder());
    for params in [
        params(),
        SamplingParams { temperature: 0.0, ..params() },
        SamplingParams { top_p: 0.8, top_k: 30, ..params() },
    ] {
        let group = sampler.sample(&PROMPT, 8, &params, seed()).unwrap();
        assert!(group.iter().all(|sampled| sampled.allowed.is_empty()));
        check_against_learner(&group);
    }
}

#[test]
fn a_group_ends_at_different_lengths() {
    let group = Sampler::new(&decoder()).sample(&PROMPT, 16, &params(), seed()).unwrap();
    let mut lengths: Vec<usize> = group.iter().map(|sampled| sampled.tokens.len()).collect();
    for sampled in &group {
        let stop = sampled.tokens.iter().position(|token| *token < 6);
        let expected = match stop {
            Some(at) => (Finish::Stop, at + 1),
            None => (Finish::Length, 12),
        };
        assert_eq!((sampled.finish, sampled.tokens.len()), expected);
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 3, "rows should leave the batch at different times: {lengths:?}");
}

#[test]
fn a_grammar_is_kept_and_its_masks_come_back() {
    let sampler = Sampler::new(&decoder());
    let mut constraints = vec![Alternate::default(); 5];
    let group = sampler.sample_constrained(&PROMPT, &params(), seed(), &mut constraints).unwrap();
    for sampled in &group {
        assert_eq!(sampled.allowed.len(), sampled.tokens.len());
        assert!(sampled.tokens.iter().zip(&sampled.allowed).all(|(&t, set)| set.contains(t)));
        assert!(sampled.tokens.windows(2).all(|pair| pair[0] % 2 != pair[1] % 2));
    }
    check_against_learner(&group);
}

#[test]
fn only_the_seed_decides() {
    let sampler = Sampler::new(&decoder());
    let sample = |seed| sampler.sample(&PROMPT, 8, &params(), seed).unwrap();
    assert_eq!(sample(seed()), sample(seed()));
    assert_ne!(sample(seed()), sample(seed().child(1)));
    let tokens: Vec<_> = sample(seed()).into_iter().map(|sampled| sampled.tokens).collect();
    assert!(tokens.iter().any(|other| *other != tokens[0]), "rollouts draw their own numbers");
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let sampler = Sampler::new(&decoder());
    let sample = |threads| {
        let groups = (0..6).collect();
        Compute::new(threads).unwrap().map(groups, |group| {
            sampler.sample(&PROMPT, 4, &params(), seed().child(group)).unwrap()
        })
    };
    let one = sample(1);
    assert_eq!(one, sample(2));
    assert_eq!(one, sample(5));
}

#[test]
fn the_context_ends_a_completion() {
    let params = SamplingParams { max_tokens: 100, stop: Vec::new(), ..params() };
    let group = Sampler::new(&decoder()).sample(&PROMPT, 2, &params, seed()).unwrap();
    for sampled in &group {
        assert_eq!((sampled.tokens.len(), sampled.finish), (40 - PROMPT.len(), Finish::Length));
    }
    check_against_learner(&group);
}

#[test]
fn what_cannot_be_sampled_says_why() {
    let sampler = Sampler::new(&decoder());
    let long = [1; 40];
    for (prompt, params, expected) in [
        (
            [].as_slice(),
            params(),
            "cannot sample: the prompt is empty, expected at least one token",
        ),
        (
            &long,
            params(),
            "cannot sample: the prompt has 40 tokens, expected fewer than the context's 40",
        ),
        (
            &[1, 70],
            params(),
            "cannot sample: token 70 at 1 of the prompt, expected below vocab_size 70",
        ),
        (
            &PROMPT,
            SamplingParams { temperature: -1.0, ..params() },
            "cannot sample: temperature is -1: expected a number of at least 0",
        ),
        (
            &PROMPT,
            SamplingParams { top_p: 0.0, ..params() },
            "cannot sample: top_p is 0: expected a number above 0 and at most 1",
        ),
        (
            &PROMPT,
            SamplingParams { max_tokens: 0, ..params() },
            "cannot sample: max_tokens is 0: expected at least 1",
        ),
    ] {
        let error = sampler.sample(prompt, 2, &params, seed()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(
        sampler.sample_constrained(&PROMPT, &params(), seed(), &mut [Shut]),
        Err(SampleError::DeadEnd { completion: 0, position: 0 })
    );
    assert_eq!(sampler.sample(&PROMPT, 0, &params(), seed()), Ok(Vec::new()));
}
