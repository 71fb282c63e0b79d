//! What the policy is asked, and prompts whose answers somebody has ranked.

use serde::{Deserialize, Serialize};

/// A prompt of the training or held-out set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Unique in its file.
    pub id: String,
    /// What the policy reads.
    pub text: String,
}

/// A prompt with reference answers ranked from best to worst (y'_1 > .. > y'_n).
///
/// The generator never sees the answers; they are judged by its rubrics only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The prompt.
    pub prompt: Prompt,
    /// The answers, best first.
    pub answers: Vec<String>,
    /// The rank of each answer, not decreasing, equal for ties; as long as `answers`.
    pub ranks: Vec<u32>,
}
