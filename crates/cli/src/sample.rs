//! `rubricon sample`: what a policy says to a prompt.

use lm::draw::SamplingParams;
use lm::folder::Lm;
use rl::{Seed, Stream};

use crate::args::SampleArgs;
use crate::say::say;
use crate::speaker::Speaker;

/// Prints one answer after the other.
///
/// # Errors
/// If the model cannot be loaded or the prompt does not fit it.
pub fn run(args: &SampleArgs) -> anyhow::Result<()> {
    let model = Lm::load(&args.model)?;
    let params = SamplingParams {
        temperature: args.temperature,
        max_tokens: args.max_tokens,
        ..SamplingParams::default()
    };
    let speaker = Speaker::new(&model.decoder, &model.tokenizer, params)?;
    let seed = Seed::new(args.seed, Stream::PolicyTokens);
    let answers = speaker.answers(&args.prompt, usize::from(args.n), seed)?;
    say!("{}", answers.join("\n\n"));
    Ok(())
}
