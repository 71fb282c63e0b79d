//! The verifier's answer to one item about one completion.

use serde::{Deserialize, Serialize};

/// Met, unmet, or not to be had. An outage is never a low reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The completion meets the criterion.
    Met,
    /// It does not.
    Unmet,
    /// Nobody knows.
    Abstained(Abstention),
}

impl Verdict {
    /// 1 for met, 0 for unmet, nothing where abstained.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Met => Some(1.0),
            Self::Unmet => Some(0.0),
            Self::Abstained(_) => None,
        }
    }
}

impl From<bool> for Verdict {
    fn from(met: bool) -> Self {
        if met { Self::Met } else { Self::Unmet }
    }
}

/// Why a verdict is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Abstention {
    /// This verifier cannot judge the criterion (no program check, for the program verifier).
    NotJudgeable,
    /// The verifier failed or did not answer in time.
    Failed,
    /// The verifier's answer could not be read.
    Unreadable,
}
