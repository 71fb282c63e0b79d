//! A policy as people meet it: a prompt in, texts out.

use lm::draw::SamplingParams;
use lm::sampler::Sampler;
use lm::template;
use lm::tokenizer::Tokenizer;
use rl::Seed;

use anyhow::Context;
use lm::model::Decoder;

/// Samples answers as text.
#[derive(Debug)]
pub struct Speaker<'a> {
    sampler: Sampler,
    tokenizer: &'a Tokenizer,
    params: SamplingParams,
    eos: u32,
}

impl<'a> Speaker<'a> {
    /// A speaker with these weights.
    ///
    /// # Errors
    /// If the tokenizer was not made for a policy.
    pub fn new(
        decoder: &Decoder,
        tokenizer: &'a Tokenizer,
        params: SamplingParams,
    ) -> anyhow::Result<Self> {
        let eos = tokenizer.id(template::EOS);
        let eos = eos.with_context(|| format!("the tokenizer has no token {}", template::EOS))?;
        let params = SamplingParams { stop: vec![eos], ..params };
        Ok(Self { sampler: Sampler::new(decoder), tokenizer, params, eos })
    }

    /// Answers to a prompt; the same seed gives the same ones.
    ///
    /// # Errors
    /// If the prompt does not fit the model.
    pub fn answers(&self, prompt: &str, count: usize, seed: Seed) -> anyhow::Result<Vec<String>> {
        let tokens = template::policy_prompt(self.tokenizer, prompt)?;
        let sampled = self.sampler.sample(&tokens, count, &self.params, seed)?;
        let text = |tokens: &[u32]| {
            let tokens: Vec<u32> = tokens.iter().copied().filter(|&t| t != self.eos).collect();
            self.tokenizer.decode(&tokens)
        };
        Ok(sampled.iter().map(|sampled| text(&sampled.tokens)).collect())
    }
}
