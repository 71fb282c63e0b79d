//! `rubricon logprobs`: what a model thinks of a text.

use anyhow::{Context, bail};
use lm::folder::Lm;
use serde_json::json;

use crate::args::LogprobsArgs;
use crate::failure::Failure;
use crate::say::say;

/// Prints `log p(ids[i + 1] | ids[..= i])` for each token but the first.
///
/// # Errors
/// If the model cannot be loaded or the tokens do not fit it.
pub fn run(args: &LogprobsArgs) -> Result<(), Failure> {
    let model = Lm::load(&args.model).map_err(anyhow::Error::from)?;
    let ids = match &args.text {
        Some(text) => model.tokenizer.encode(text).context("--text")?,
        None => args.ids.clone(),
    };
    check(&model, &ids)?;
    let logprobs = lm::logprobs::logprobs(&model.decoder, &ids).context("score the tokens")?;
    if args.json {
        say!("{}", json!({"ids": ids, "logprobs": logprobs}));
        return Ok(());
    }
    for (id, logprob) in ids.iter().skip(1).zip(&logprobs) {
        say!("{id:>8} {logprob:>10.4} {:?}", model.tokenizer.decode(&[*id]));
    }
    Ok(())
}

fn check(model: &Lm, ids: &[u32]) -> anyhow::Result<()> {
    let config = model.decoder.config();
    let (vocab, longest) = (config.vocab_size, config.max_position_embeddings);
    if let Some(id) = ids.iter().find(|id| **id as usize >= vocab) {
        bail!("--ids: token {id} (expected ids below {vocab}, the model's vocabulary)");
    }
    if ids.is_empty() || ids.len() > longest {
        bail!("{} tokens (expected 1 to {longest}, the model's context)", ids.len());
    }
    Ok(())
}
