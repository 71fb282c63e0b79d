//! The starting generator: the policy's weights, taught to write rubrics.
//!
//! Most examples show a digest of the group, as a run does by default; some show the prompt alone
//! (the `static` schedule) and some the completions themselves (`generator.input = "raw"`).

use lm::compute::Compute;
use lm::folder::Lm;
use lm::model::Decoder;
use lm::sft::{Document, SftConfig, fine_tune};
use lm::template::{self, GroupInput};
use lm::tokenizer::Tokenizer;
use rl::{Polarity, Rubric};
use rubric::digest::digest;
use runtime::config::Config;
use world::Draws;
use world::bank::bank;

use super::{Seeds, watch};
use crate::progress::Screen;

/// Groups to learn from.
const EXAMPLES: usize = 26_000;
/// Rubrics to learn for each; a row holds the group once and all of its rubrics.
const RUBRICS: usize = 4;

/// The parts of examples, in per cent, that show a digest and the prompt alone; the rest is raw.
const DIGEST: usize = 80;
const PROMPT_ONLY: usize = 12;

const RECIPE: SftConfig = SftConfig {
    steps: 1600,
    row_tokens: 320,
    rows_per_step: 16,
    lr: 2e-3,
    warmup: 40,
    max_grad_norm: 1.0,
    adamw: super::ADAMW,
};

/// Trains the generator, beginning with the policy's weights.
///
/// # Errors
/// If the numbers leave what can be computed with.
pub fn train(
    policy: &Lm,
    (config, screen): (&Config, &Screen),
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<Decoder> {
    let context = policy.decoder.config().max_position_embeddings;
    let group_size = config.batch.group_size as usize;
    let documents = documents(&policy.tokenizer, group_size, context, seeds)?;
    let progress = watch(screen.progress("generator", RECIPE.steps));
    let start = policy.decoder.clone();
    let seed = seeds.data.child(5);
    Ok(fine_tune(start, &documents, (&RECIPE, seed), compute, progress)?)
}

fn documents(
    tokenizer: &Tokenizer,
    group_size: usize,
    context: usize,
    seeds: Seeds,
) -> anyhow::Result<Vec<Document>> {
    let seed = seeds.data.child(4);
    let mut documents = Vec::new();
    for (i, example) in
        gold::targets::examples(EXAMPLES, group_size, RUBRICS, seed).iter().enumerate()
    {
        let view = Draws::new(seed.child(i as u64).child(1)).below(100);
        let counts = digest(&bank(&example.task), &example.completions);
        let input = match view {
            view if view < DIGEST => GroupInput::Digest(&counts),
            view if view < DIGEST + PROMPT_ONLY => GroupInput::PromptOnly,
            _ => GroupInput::Raw(&example.completions),
        };
        let prompt = template::generator_prompt(tokenizer, &example.task.prompt(), input)?;
        let completions = example.rubrics.iter().map(|target| spell(tokenizer, target));
        let completions = completions.collect::<anyhow::Result<Vec<_>>>()?;
        if prompt.len() + completions.iter().map(Vec::len).max().unwrap_or(0) <= context {
            documents.push(Document { prompt, completions });
        }
    }
    Ok(documents)
}

/// A rubric in tokens: weight tag, phrase, .., end.
fn spell(tokenizer: &Tokenizer, rubric: &Rubric) -> anyhow::Result<Vec<u32>> {
    let mut tokens = Vec::new();
    for item in &rubric.items {
        let place = match item.polarity {
            Polarity::Positive => usize::from(item.weight) - 1,
            Polarity::Negative => usize::from(item.weight) + 4,
        };
        tokens.push(super::special(tokenizer, template::WEIGHTS[place])?);
        tokens.extend(tokenizer.encode(&item.criterion)?);
    }
    tokens.push(super::special(tokenizer, template::EOS)?);
    Ok(tokens)
}
