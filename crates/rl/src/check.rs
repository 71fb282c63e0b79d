//! Program checks: criteria that a program can judge on the text of a completion.
//!
//! These are data; the crate `rubric` runs them. Words and punctuation marks are the *tokens* of a
//! text: runs of letters, runs of digits, and every other visible character by itself.

use serde::{Deserialize, Serialize};

/// A yes/no question about a text that a program answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// The tokens of `text` occur next to each other.
    Contains {
        /// A word, a mark or a phrase.
        text: String,
    },
    /// The text begins with the tokens of `text`.
    StartsWith {
        /// A word, a mark or a phrase.
        text: String,
    },
    /// The text ends with the tokens of `text`.
    EndsWith {
        /// A word, a mark or a phrase.
        text: String,
    },
    /// At least one of these words occurs.
    AnyOf {
        /// Words or marks.
        words: Vec<String>,
    },
    /// The same unit occurs twice.
    Repeats {
        /// What is compared.
        unit: Unit,
    },
    /// A run of at least two words stands twice in a row ("thank you thank you"), marks between
    /// them left out: the trace of a text that does not stop.
    Stutters,
    /// The number of units lies in `min..=max`.
    Count {
        /// What is counted.
        unit: Unit,
        /// The lowest number that meets the check.
        min: u32,
        /// The highest number that meets the check; no limit where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
    },
    /// There is a list, and each of its items is one of these words.
    ItemsIn {
        /// The words allowed.
        words: Vec<String>,
    },
    /// There is a list, and its items are in alphabetical order.
    ItemsSorted {
        /// From Z to A instead.
        #[serde(default)]
        descending: bool,
    },
    /// There is a list, and each of its items begins with "- ".
    Bulleted,
    /// The first number anywhere after the first `word` is `value`.
    NumberAfter {
        /// The word before the number.
        word: String,
        /// The number expected.
        value: i64,
    },
    /// There is an equation "a + b = c" and the first one is true.
    Equation,
}

/// What a [`Check`] counts or compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Parts that end in `.`, `!` or `?`.
    Sentence,
    /// Lines with a visible character.
    Line,
    /// List items: lines of a text of several lines or with bullets, less headings (ending in
    /// `:`), sentences (ending in `.`) and "etc". An item is compared without its bullet, "- " or
    /// "* ".
    Item,
    /// Runs of letters or of digits.
    Word,
}
