//! A rubric: weighted yes/no items written for one group of completions.

use serde::{Deserialize, Serialize};

use crate::Check;

/// Items `{(r_m, w_m)}` that serve a whole group, so scores inside the group are comparable
/// (DynamicRubric, arXiv 2607.20083). Parsing and validation live in the crate `rubric`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rubric {
    /// The items in the order they were written.
    #[serde(rename = "rubrics")]
    pub items: Vec<RubricItem>,
}

/// One yes/no question about one completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RubricItem {
    /// What is asked, in words.
    pub criterion: String,
    /// How much it counts, 1 to 5.
    pub weight: u8,
    /// Whether meeting it is good.
    #[serde(default)]
    pub polarity: Polarity,
    /// The criterion as a program, where it compiles to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

/// Whether a completion earns an item's weight by meeting it or by not meeting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Polarity {
    /// Earned when met.
    #[default]
    #[serde(rename = "+")]
    Positive,
    /// Earned when unmet.
    #[serde(rename = "-")]
    Negative,
}
