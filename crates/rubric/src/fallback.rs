//! Which rubric serves a policy group when the generator's is invalid (method section 6): the
//! generator writes once more, then the prompt's last valid rubric, then the static one.

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
    /// Written for this group, at the first attempt.
    Written,
    /// Written for this group, at the second attempt.
    Rewritten,
    /// The last valid one written for this prompt.
    LastValid,
    /// The static one.
    Static,
}

/// Decides by what the generator has written so far (`attempts`, one or two) and what there is
/// instead.
#[must_use]
pub fn decide(
    attempts: &[Result<Rubric, ParseError>],
    last_valid: Option<&Rubric>,
    static_rubric: Option<&Rubric>,
) -> Decision {
    let instead = || {
        let last = last_valid.map(|rubric| (rubric, Source::LastValid));
        let found = last.or(static_rubric.map(|rubric| (rubric, Source::Static)));
        found.map_or(Decision::NoRubric, |(rubric, source)| {
            Decision::Use(rubric.clone(), source)
        })
    };
    match attempts {
        [Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Written),
        [_, Ok(rubric), ..] => Decision::Use(rubric.clone(), Source::Rewritten),
        [] | [_] => Decision::Resample,
        _ => instead(),
    }
}

/// How often each decision was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Groups judged by the rubric written first.
    pub written: u64,
    /// Invalid rubrics that were written again.
    pub resampled: u64,
    /// Groups judged by the rubric written second.
    pub rewritten: u64,
    /// Groups judged by the prompt's last valid rubric.
    pub last_valid: u64,
    /// Groups judged by the static rubric.
    pub r#static: u64,
    /// Groups without a rubric.
    pub none: u64,
}

impl Counts {
    /// Counts a decision.
    pub fn add(&mut self, decision: &Decision) {
        let count = match decision {
            Decision::Use(_, Source::Written) => &mut self.written,
            Decision::Use(_, Source::Rewritten) => &mut self.rewritten,
            Decision::Use(_, Source::LastValid) => &mut self.last_valid,
            Decision::Use(_, Source::Static) => &mut self.r#static,
            Decision::Resample => &mut self.resampled,
            Decision::NoRubric => &mut self.none,
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use rl::{Polarity, RubricItem};

    use super::*;

    fn rubric(name: &str) -> Rubric {
        let item = RubricItem {
            criterion: name.into(),
            weight: 1,
            polarity: Polarity::Positive,
            check: None,
        };
        Rubric { items: vec![item] }
    }

    #[test]
    fn the_newest_valid_rubric_serves() {
        let bad = || Err(ParseError::NoItems);
        let (last, fixed) = (rubric("last"), rubric("fixed"));
        let mut counts = Counts::default();
        for (attempts, last, fixed, expected) in [
            (vec![], Some(&last), Some(&fixed), Decision::Resample),
            (vec![bad()], Some(&last), Some(&fixed), Decision::Resample),
            (
                vec![Ok(rubric("a"))],
                Some(&last),
                None,
                Decision::Use(rubric("a"), Source::Written),
            ),
            (
                vec![bad(), Ok(rubric("b"))],
                None,
                None,
                Decision::Use(rubric("b"), Source::Rewritten),
            ),
            (
                vec![bad(), bad()],
                Some(&last),
                Some(&fixed),
                Decision::Use(last.clone(), Source::LastValid),
            ),
            (
                vec![bad(), bad()],
                None,
                Some(&fixed),
                Decision::Use(fixed.clone(), Source::Static),
            ),
            (vec![bad(), bad()], None, None, Decision::NoRubric),
        ] {
            let decision = decide(&attempts, last, fixed);
            assert_eq!(decision, expected);
            counts.add(&decision);
        }
        let Counts {
            written,
            resampled,
            rewritten,
            last_valid,
            r#static,
            none,
        } = counts;
        assert_eq!(
            (written, resampled, rewritten, last_valid, r#static, none),
            (1, 2, 1, 1, 1, 1)
        );
    }
}
