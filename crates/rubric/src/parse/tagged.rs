//! The tagged form.

use std::fmt::Write;

use rl::{Check, Polarity, Rubric, RubricItem};

use super::{Limits, ParseError, validate};

/// Reads the tagged form; every phrase must compile.
///
/// # Errors
/// The first thing wrong with the text, see [`ParseError`].
pub fn parse_tagged(
    text: &str,
    compile: &dyn Compile,
    limits: Limits,
) -> Result<Rubric, ParseError> {
    let mut rest = text.trim();
    let first_tag = tag_start(rest).unwrap_or(rest.len());
    if first_tag > 0 {
        return Err(ParseError::NotTagged { found: rest[..first_tag].trim().into() });
    }
    let mut items = Vec::new();
    while !rest.is_empty() {
        let end = tag_start(&rest[1..]).map_or(rest.len(), |at| at + 1);
        items.push(tagged_item(&rest[..end], items.len() + 1, compile)?);
        rest = &rest[end..];
    }
    let rubric = Rubric { items };
    validate(&rubric, limits)?;
    Ok(rubric)
}

/// Writes the tagged form, the inverse of [`parse_tagged`] for criteria that compile.
#[must_use]
pub fn write_tagged(rubric: &Rubric) -> String {
    rubric.items.iter().fold(String::new(), |mut text, item| {
        let sign = if item.polarity == Polarity::Positive { '+' } else { '-' };
        write!(text, "<{sign}{}> {}", item.weight, item.criterion).expect("a string takes all");
        text
    })
}

/// Turns a criterion into a program check.
pub trait Compile {
    /// The check that `criterion` means; nothing where it means none.
    fn check(&self, criterion: &str) -> Option<Check>;
}

impl<F: Fn(&str) -> Option<Check>> Compile for F {
    fn check(&self, criterion: &str) -> Option<Check> {
        self(criterion)
    }
}

/// Where the next weight tag begins.
fn tag_start(text: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| text[at + 1..].starts_with(['+', '-']))
}

/// Reads one tag with its phrase.
fn tagged_item(text: &str, place: usize, compile: &dyn Compile) -> Result<RubricItem, ParseError> {
    let (tag, phrase) = text.find('>').map_or((text, ""), |at| text.split_at(at + 1));
    let (polarity, weight) = match tag.as_bytes() {
        [b'<', b'+', weight @ b'1'..=b'5', b'>'] => (Polarity::Positive, weight - b'0'),
        [b'<', b'-', weight @ b'1'..=b'5', b'>'] => (Polarity::Negative, weight - b'0'),
        _ => {
            return Err(ParseError::BadWeight { item: place, found: tag.into() });
        }
    };
    let criterion = phrase.trim();
    if criterion.is_empty() {
        return Err(ParseError::EmptyCriterion { item: place });
    }
    let Some(check) = compile.check(criterion) else {
        return Err(ParseError::Unreadable { item: place, criterion: criterion.into() });
    };
    Ok(RubricItem { criterion: criterion.into(), weight, polarity, check: Some(check) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { min_items: 2, max_items: 3 };

    /// Understands "has W": the word is contained.
    fn has(criterion: &str) -> Option<Check> {
        let text = criterion.strip_prefix("has ")?.to_owned();
        Some(Check::Contains { text })
    }

    #[test]
    fn the_tagged_form_reads_and_writes() {
        let text = "<+3> has Mia<-2> has very much";
        let rubric = parse_tagged(&format!(" {text}\n"), &has, LIMITS).expect("valid");
        assert_eq!(rubric.items[1].polarity, Polarity::Negative);
        assert_eq!(rubric.items[1].weight, 2);
        assert_eq!(rubric.items[1].check, has("has very much"));
        assert_eq!(write_tagged(&rubric), text);
        assert_eq!(parse_tagged("<+3>has Mia <-2>  has very much", &has, LIMITS), Ok(rubric));
    }

    #[test]
    fn tagged_errors_name_what_is_wrong_and_where() {
        for (text, message) in [
            ("", "rubric has no items"),
            ("has a", "rubric begins with \"has a\" (expected a tag <+1> to <+5> or <-1> to <-5>)"),
            (
                "a <+1> has b",
                "rubric begins with \"a\" (expected a tag <+1> to <+5> or <-1> to <-5>)",
            ),
            ("<+1> has b", "rubric has 1 items (expected at least 2)"),
            ("<+1> has a<+1> has b<+1> has c<+1> has d", "rubric has 4 items (expected at most 3)"),
            ("<+1> has a<+6> has b", "item 2: weight <+6> (expected a whole number of 1 to 5)"),
            ("<+1> has a<+1", "item 2: weight <+1 (expected a whole number of 1 to 5)"),
            ("<+1><+2> has b", "item 1: the criterion is empty"),
            ("<+1> has a<-4> has a", "item 2 asks the same as item 1"),
            ("<+1> has a<+1> likes b", "item 2: \"likes b\" is no criterion of this grammar"),
            ("<+1> has a<+1> has answer 3", "item 2 names a candidate: \"answer 3\""),
        ] {
            let error = parse_tagged(text, &has, LIMITS).expect_err(text);
            assert_eq!(error.to_string(), message);
        }
    }
}
