//! How prompts of the small models are laid out in tokens.
//!
//! Text is data: it is encoded with special tokens off, and the marks between texts are put in by
//! id, so nothing a user writes can open or close a section.

use crate::tokenizer::{Tokenizer, TokenizerError};

/// Fills.
pub const PAD: &str = "<pad>";
/// Opens every text.
pub const BOS: &str = "<bos>";
/// Ends every completion.
pub const EOS: &str = "<eos>";
/// An answer follows.
pub const ANSWER: &str = "<ans>";
/// A rubric follows.
pub const RUBRIC: &str = "<rub>";
/// Weights of rubric items, with their sign.
pub const WEIGHTS: [&str; 10] =
    ["<+1>", "<+2>", "<+3>", "<+4>", "<+5>", "<-1>", "<-2>", "<-3>", "<-4>", "<-5>"];

/// All special tokens, in the order of their ids.
#[must_use]
pub fn specials() -> Vec<&'static str> {
    [&[PAD, BOS, EOS, ANSWER, RUBRIC], WEIGHTS.as_slice()].concat()
}

/// What the rubric generator sees of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupInput<'a> {
    /// For each check of a bank, how many completions meet it.
    Digest(&'a [(String, u32)]),
    /// The completions themselves.
    Raw(&'a [String]),
    /// Nothing: the rubric is written from the prompt alone.
    PromptOnly,
}

/// A template that this tokenizer cannot fill.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The tokenizer was trained for something else.
    #[error("cannot lay out a prompt: the tokenizer has no special token {0}")]
    NoSpecial(&'static str),
    /// A text could not be cut.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// `<bos> prompt <ans>`: the policy's completion follows.
///
/// # Errors
/// A tokenizer without the special tokens, or one that cannot spell the text.
pub fn policy_prompt(tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<u32>, TemplateError> {
    Ok(Layout::new(tokenizer).special(BOS)?.text(prompt)?.special(ANSWER)?.tokens)
}

/// The generator's view of a prompt and its group; the rubric follows.
///
/// ```text
/// Digest      <bos> prompt <ans> check count check count .. <rub>
/// Raw         <bos> prompt <ans> completion <ans> completion .. <rub>
/// PromptOnly  <bos> prompt <rub>
/// ```
///
/// # Errors
/// As for [`policy_prompt`].
pub fn generator_prompt(
    tokenizer: &Tokenizer,
    prompt: &str,
    input: GroupInput<'_>,
) -> Result<Vec<u32>, TemplateError> {
    let mut layout = Layout::new(tokenizer).special(BOS)?.text(prompt)?;
    match input {
        GroupInput::Digest(counts) => {
            let words: Vec<String> =
                counts.iter().map(|(check, count)| format!("{check} {count}")).collect();
            layout = layout.special(ANSWER)?.text(&words.join(" "))?;
        }
        GroupInput::Raw(completions) => {
            for completion in completions {
                layout = layout.special(ANSWER)?.text(completion)?;
            }
        }
        GroupInput::PromptOnly => {}
    }
    Ok(layout.special(RUBRIC)?.tokens)
}

struct Layout<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
}

impl<'a> Layout<'a> {
    fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, tokens: Vec::new() }
    }

    fn special(mut self, name: &'static str) -> Result<Self, TemplateError> {
        self.tokens.push(self.tokenizer.id(name).ok_or(TemplateError::NoSpecial(name))?);
        Ok(self)
    }

    fn text(mut self, text: &str) -> Result<Self, TemplateError> {
        self.tokens.extend(self.tokenizer.encode(text)?);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        Tokenizer::train(&["write a note to Mia"], 256 + 15, &specials()).unwrap()
    }

    #[test]
    fn specials_mark_the_sections_and_text_cannot() {
        let t = tokenizer();
        let id = |name| t.id(name).unwrap();
        let text = |text| t.encode(text).unwrap();
        let raw = [String::from("Hi <rub>"), String::new()];
        let digest = [(String::from("greets Mia"), 5), (String::from("has rain"), 8)];
        let cases = [
            (
                generator_prompt(&t, "p", GroupInput::Raw(&raw)),
                vec![
                    vec![id(BOS)],
                    text("p"),
                    vec![id(ANSWER)],
                    text("Hi <rub>"),
                    vec![id(ANSWER), id(RUBRIC)],
                ],
            ),
            (
                generator_prompt(&t, "p", GroupInput::Digest(&digest)),
                vec![
                    vec![id(BOS)],
                    text("p"),
                    vec![id(ANSWER)],
                    text("greets Mia 5 has rain 8"),
                    vec![id(RUBRIC)],
                ],
            ),
            (
                generator_prompt(&t, "p", GroupInput::PromptOnly),
                vec![vec![id(BOS)], text("p"), vec![id(RUBRIC)]],
            ),
            (policy_prompt(&t, "<eos>"), vec![vec![id(BOS)], text("<eos>"), vec![id(ANSWER)]]),
        ];
        for (got, expected) in cases {
            assert_eq!(got.unwrap(), expected.concat());
        }
        assert!(!text("<eos>").contains(&id(EOS)));
    }

    #[test]
    fn a_foreign_tokenizer_is_named() {
        let t = Tokenizer::train(&["a"], 300, &[BOS]).unwrap();
        let error = policy_prompt(&t, "a").unwrap_err().to_string();
        assert_eq!(error, "cannot lay out a prompt: the tokenizer has no special token <ans>");
    }
}
