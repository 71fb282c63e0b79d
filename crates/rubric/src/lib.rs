//! Rubric text in and out, verdicts on it, and what they are worth.
//!
//! A generator writes a rubric as text, tagged or JSON ([`parse`]), held to the form by a
//! [`grammar`] over token ids or left free. A [`verifier`] answers each item for each completion;
//! the program verifier runs a [`check`] on the [`text`], behind a gate on its [`content`]. The
//! verdicts become the generator's two rewards with their guards ([`reward`]); scores and the bare
//! formulas are in `rl`. When no valid rubric was written, [`fallback`] decides what serves
//! instead, a [`fallback_rubric`] last. [`digest`] is what the generator reads of a group, and
//! [`score`] answers one request for the arithmetic by itself.
//!
//! Invariants: text of any kind gives a typed error or a valid value, never a panic; a valid
//! rubric has items within its [`parse::Limits`], weights of 1 to 5 and no item twice; a verdict
//! that could not be had is `Abstained`, never `Unmet`.

mod candidate;
pub mod check;
pub mod content;
pub mod digest;
pub mod fallback;
pub mod fallback_rubric;
pub mod grammar;
pub mod parse;
pub mod reward;
pub mod score;
pub mod text;
pub mod verifier;

pub use check::met;
pub use grammar::Grammar;
pub use parse::{Compile, Limits, ParseError};
pub use reward::{Guards, RubricReward};
pub use verifier::{ProgramVerifier, Verifier, judge_matrix};
