//! Which rubric serves a policy group when the generator's is invalid: the generator writes once
//! more, then the fallback rubric serves, and without one the group cannot be scored.
//!
//! The last valid rubric of the prompt would fit better, but it depends on what was judged before, by
//! whom and since which restart, and so would the weights that a run ends with.

use rl::Rubric;
use serde::{Deserialize, Serialize};

use crate::ParseError;

/// What to do about the rubric of a policy group.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Judge by this rubric.
    Use(Rubric, Source),
    /// Let the generator write again.
    Resample,
    /// There is none: the group cannot be scored.
    NoRubric,
}

/// Where the rubric of a policy group is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The first attempt.
    Written,
    /// The second attempt.
    Rewritten,
    /// The fallback rubric.
    Fallback,
}

/// Decides by what the generator has written so far; `fallback` is the fallback rubric, if there is one.
#[must_use]
pub fn decide(attempts: &[Result<Rubric, ParseError>], fallback: Option<&Rubric>) -> Decision {
    match attempts {
        [Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Written),
        [_, Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Rewritten),
        [] | [_] => Decision::Resample,
        _ => fallback
            .map_or(Decision::NoRubric, |rubric| Decision::Use(rubric.clone(), Source::Fallback)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_attempts_and_no_more() {
        let (good, bad) = (|| Ok(Rubric::default()), || Err(ParseError::NoItems));
        let used = |source| Decision::Use(Rubric::default(), source);
        for (attempts, expected) in [
            (vec![], Decision::Resample),
            (vec![bad()], Decision::Resample),
            (vec![good()], used(Source::Written)),
            (vec![bad(), good()], used(Source::Rewritten)),
            (vec![bad(), bad()], Decision::NoRubric),
        ] {
            assert_eq!(decide(&attempts, None), expected, "{attempts:?}");
            let with = decide(&attempts, Some(&Rubric::default()));
            let is_last = expected == Decision::NoRubric;
            assert_eq!(with, if is_last { used(Source::Fallback) } else { expected });
        }
    }
}
