//! The starting policy: a fresh decoder that imitates the starting author.

use lm::Device;
use lm::compute::Compute;
use lm::model::Decoder;
use lm::sft::{Document, SftConfig, fine_tune};
use lm::template;
use lm::tokenizer::Tokenizer;

use super::{Seeds, shape, watch};
use crate::progress::Screen;

/// Answers to learn; about 2.9 million tokens with their prompts.
const DOCUMENTS: usize = 80_000;

/// Small rows, for attention inside of a row is computed for all of its tokens.
const RECIPE: SftConfig = SftConfig {
    steps: 1400,
    row_tokens: 256,
    rows_per_step: 8,
    lr: 2e-3,
    warmup: 40,
    max_grad_norm: 1.0,
    adamw: super::ADAMW,
};

/// Trains the policy.
///
/// # Errors
/// If the numbers leave what can be computed with.
pub fn train(
    tokenizer: &Tokenizer,
    screen: &Screen,
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<Decoder> {
    let documents = documents(tokenizer, seeds)?;
    let fresh = Decoder::init(&shape(tokenizer), seeds.weights, &Device::flex());
    let progress = watch(screen.progress("policy", RECIPE.steps));
    let seed = seeds.data.child(3);
    Ok(fine_tune(fresh, &documents, (&RECIPE, seed), compute, progress)?)
}

fn documents(tokenizer: &Tokenizer, seeds: Seeds) -> anyhow::Result<Vec<Document>> {
    let eos = super::special(tokenizer, template::EOS)?;
    let corpus = world::corpus::documents(DOCUMENTS, seeds.data.child(2));
    let document = |text: &world::corpus::Document| {
        let mut completion = tokenizer.encode(&text.answer)?;
        completion.push(eos);
        Ok(Document {
            prompt: template::policy_prompt(tokenizer, &text.prompt)?,
            completions: vec![completion],
        })
    };
    corpus.iter().map(document).collect()
}
