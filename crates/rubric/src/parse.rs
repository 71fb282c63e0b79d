//! Rubric text in and out: JSON and the tagged form that small models write.
//!
//! `<+3> greets Mia<-2> filler` is a rubric of two items: a tag holds sign and weight, the phrase
//! up to the next tag is the criterion. A reader gets a valid rubric or the first thing wrong with
//! the text, the item named by its place from 1.

use std::collections::HashMap;

use rl::{Rubric, RubricItem};
use serde::{Deserialize, Serialize};

use crate::{candidate, text};

mod json;
mod tagged;

pub use json::parse_json;
pub(crate) use json::{JsonItem, from_json, weighed};
pub use tagged::{Compile, parse_tagged, write_tagged};

/// How many items a rubric may have, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// At least so many.
    pub min_items: usize,
    /// At most so many.
    pub max_items: usize,
}

/// Why a text is no valid rubric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not JSON.
    #[error("not json: {detail}")]
    NotJson {
        /// What the reader expected, with line and column.
        detail: String,
    },
    /// JSON of another shape.
    #[error("json at {path}: {detail}")]
    Shape {
        /// The place, such as `rubrics[2].weight` (counted from 0).
        path: String,
        /// What was expected there.
        detail: String,
    },
    /// Text before the first weight tag.
    #[error("rubric begins with \"{found}\" (expected a tag <+1> to <+5> or <-1> to <-5>)")]
    NotTagged {
        /// The text.
        found: String,
    },
    /// A rubric without items.
    #[error("rubric has no items")]
    NoItems,
    /// Fewer items than allowed.
    #[error("rubric has {found} items (expected at least {min})")]
    TooFew {
        /// Items of the rubric.
        found: usize,
        /// The limit.
        min: usize,
    },
    /// More items than allowed.
    #[error("rubric has {found} items (expected at most {max})")]
    TooMany {
        /// Items of the rubric.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// A criterion without a visible character.
    #[error("item {item}: the criterion is empty")]
    EmptyCriterion {
        /// Its place.
        item: usize,
    },
    /// A weight that is not a whole number of 1 to 5.
    #[error("item {item}: weight {found} (expected a whole number of 1 to 5)")]
    BadWeight {
        /// Its place.
        item: usize,
        /// The weight or tag.
        found: String,
    },
    /// The same criterion, or the same check, twice.
    #[error("item {item} asks the same as item {first}")]
    Duplicate {
        /// The later place.
        item: usize,
        /// The earlier place.
        first: usize,
    },
    /// An item about one candidate by name or number, which no other completion can meet.
    #[error("item {item} names a candidate: \"{found}\"")]
    NamesCandidate {
        /// Its place.
        item: usize,
        /// The words that name it.
        found: String,
    },
    /// A phrase that compiles to no check.
    #[error("item {item}: \"{criterion}\" is no criterion of this grammar")]
    Unreadable {
        /// Its place.
        item: usize,
        /// The phrase.
        criterion: String,
    },
}

/// Whether a rubric has so many items as allowed, each with a criterion and a weight of 1 to 5,
/// none twice and none that names a candidate.
///
/// # Errors
/// The first thing wrong with the rubric, see [`ParseError`].
pub fn validate(rubric: &Rubric, limits: Limits) -> Result<(), ParseError> {
    let found = rubric.items.len();
    if found == 0 {
        return Err(ParseError::NoItems);
    }
    let (mut criteria, mut checks) = (HashMap::new(), HashMap::new());
    for (item, rubric_item) in (1..).zip(&rubric.items) {
        validate_item(rubric_item, item)?;
        let earlier = criteria.insert(normal(&rubric_item.criterion), item);
        let same = rubric_item.check.as_ref().and_then(|check| checks.insert(check, item));
        if let Some(first) = earlier.or(same) {
            return Err(ParseError::Duplicate { item, first });
        }
    }
    if found < limits.min_items {
        return Err(ParseError::TooFew { found, min: limits.min_items });
    }
    if found > limits.max_items {
        return Err(ParseError::TooMany { found, max: limits.max_items });
    }
    Ok(())
}

fn validate_item(item: &RubricItem, place: usize) -> Result<(), ParseError> {
    if normal(&item.criterion).is_empty() {
        return Err(ParseError::EmptyCriterion { item: place });
    }
    if !WEIGHTS.contains(&item.weight) {
        return Err(ParseError::BadWeight { item: place, found: item.weight.to_string() });
    }
    match candidate::named(&item.criterion) {
        Some(found) => Err(ParseError::NamesCandidate { item: place, found }),
        None => Ok(()),
    }
}

const WEIGHTS: std::ops::RangeInclusive<u8> = 1..=5;

/// What makes two criteria the same: their tokens, whatever the case.
fn normal(criterion: &str) -> String {
    text::tokens(criterion).collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rl::{Check, Polarity};

    use super::*;

    const LIMITS: Limits = Limits { min_items: 2, max_items: 3 };

    /// Understands "has W": the word is contained.
    fn has(criterion: &str) -> Option<Check> {
        let text = criterion.strip_prefix("has ")?.to_owned();
        Some(Check::Contains { text })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            words in proptest::collection::hash_set("[a-z]{1,6}( [0-9A-Z<>]{1,3})?", 1..8),
            seed in any::<u64>(),
        ) {
            let items = (0..).zip(&words).map(|(i, word)| {
                let bits = rl::Seed::from_u64(seed).below(i, 10) as u8;
                let criterion = format!("has {word}");
                RubricItem {
                    check: has(&criterion),
                    criterion,
                    weight: bits % 5 + 1,
                    polarity: if bits < 5 { Polarity::Positive } else { Polarity::Negative },
                }
            });
            let rubric = Rubric { items: items.collect() };
            let limits = Limits { min_items: 1, max_items: 8 };
            // Words that differ in marks only or name a candidate are refused in both forms.
            prop_assume!(validate(&rubric, limits).is_ok());
            let tagged = parse_tagged(&write_tagged(&rubric), &has, limits);
            prop_assert_eq!(tagged.as_ref(), Ok(&rubric));
            let json = serde_json::to_string(&rubric).expect("json");
            prop_assert_eq!(parse_json(&json, limits), Ok(rubric));
        }

        #[test]
        fn rubbish_is_an_error_and_no_panic(
            text in "\\PC*|(<[+-]?[0-9]?>? ?(has )?[é<>a1]{0,3}){0,6}|[{}\\[\\]\":,a-c0-9 ]{0,40}|```.{0,9}(```)?",
        ) {
            for parsed in [parse_json(&text, LIMITS), parse_tagged(&text, &has, LIMITS)] {
                prop_assert!(parsed.is_err() || parsed.is_ok_and(|r| validate(&r, LIMITS).is_ok()));
            }
        }
    }
}
