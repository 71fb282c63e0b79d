//! Which rubric serves a policy group when the generator's is invalid: the generator writes once
//! more, and if that cannot be read either the group cannot be scored.
//!
//! Method section 6 would go on to the last valid rubric of the prompt. That depends on what was
//! judged before, by whom and since which restart, so the weights a run ends with would, too.

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
}

/// Decides by what the generator has written so far.
#[must_use]
pub fn decide(attempts: &[Result<Rubric, ParseError>]) -> Decision {
    match attempts {
        [Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Written),
        [_, Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Rewritten),
        [] | [_] => Decision::Resample,
        _ => Decision::NoRubric,
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
            assert_eq!(decide(&attempts), expected, "{attempts:?}");
        }
    }
}
