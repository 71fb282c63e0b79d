//! What an answer of the controlled world is worth: the hidden truth of a run.
//!
//! Gold is a weighted sum of yes/no qualities. Neither generator, verifier nor policy may read it:
//! no service may name this crate, and `cargo xtask layers` holds them to it. Its users audit runs
//! and make data: the starting targets of the generator and the *order* of anchors' answers (never
//! a number) are the only ways in which gold reaches a model.
//!
//! Texts are cut into tokens, sentences and lines by `rubric::text`, as for the checks; what is
//! asked of the parts is written here a second time, from a task's parameters. So a wrong check
//! shows as a disagreement with gold (there is a test) instead of moving gold along with itself.
//!
//! Reading order: [`mod@score`], [`quality`] (the table of qualities), [`junk`], [`targets`],
//! [`anchors`].
//!
//! Invariants: a score is in [0, 1]; ideal answers score 1 exactly; empty and one-word answers 0.

pub mod anchors;
pub mod junk;
pub mod quality;
pub mod score;
pub mod targets;

pub use quality::{Quality, qualities};
pub use score::{CEILING, Gold, NotOfThisWorld, ideal, score, score_task};
