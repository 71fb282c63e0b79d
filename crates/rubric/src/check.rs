//! Runs a program check on a text.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use rl::{Check, Unit};

use crate::text;

/// Whether `text` meets the check. Case counts; an empty phrase or word is never met.
///
/// The time is linear in the text for each word of the check.
#[must_use]
pub fn met(check: &Check, text: &str) -> bool {
    match check {
        Check::Contains { text: phrase } => compare(text, phrase, |t, p| t.contains(p)),
        Check::StartsWith { text: phrase } => compare(text, phrase, |t, p| t.starts_with(p)),
        Check::EndsWith { text: phrase } => compare(text, phrase, |t, p| t.ends_with(p)),
        Check::AnyOf { words } => {
            let tokens = joined(text);
            words.iter().map(|word| joined(word)).any(|w| !w.is_empty() && tokens.contains(&w))
        }
        Check::Repeats { unit } => !all_different(units(*unit, text)),
        Check::Stutters => stutters(text),
        Check::Count { unit, min, max } => {
            let count = units(*unit, text).count();
            count >= *min as usize && max.is_none_or(|max| count <= max as usize)
        }
        Check::ItemsIn { words } => {
            some_and_all(text::items(text), |item| words.iter().any(|word| word == item))
        }
        Check::ItemsSorted { descending } => {
            let items: Vec<String> = text::items(text).map(str::to_lowercase).collect();
            let sorted =
                if *descending { items.is_sorted_by(|a, b| a >= b) } else { items.is_sorted() };
            sorted && !items.is_empty()
        }
        Check::Bulleted => some_and_all(text::item_lines(text), |line| line.starts_with("- ")),
        Check::NumberAfter { word, value } => text::number_after(text, word) == Some(*value),
        Check::Equation => {
            text::equation(text).is_some_and(|[a, b, sum]| a.checked_add(b) == Some(sum))
        }
    }
}

/// Compares the tokens of a text with those of a phrase, which must have one.
fn compare(text: &str, phrase: &str, matches: fn(&str, &str) -> bool) -> bool {
    let phrase = joined(phrase);
    !phrase.is_empty() && matches(&joined(text), &phrase)
}

/// The tokens with a mark on both sides of each that is in no token, so that a substring of whole
/// tokens is found by the linear search of `str`.
fn joined(text: &str) -> String {
    const BORDER: char = '\0';
    let mut joined = String::new();
    for token in text::tokens(text) {
        if joined.is_empty() {
            joined.push(BORDER);
        }
        joined.push_str(token);
        joined.push(BORDER);
    }
    joined
}

fn units(unit: Unit, text: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    match unit {
        Unit::Sentence => Box::new(text::sentences(text)),
        Unit::Line => Box::new(text::lines(text)),
        Unit::Item => Box::new(text::items(text)),
        Unit::Word => Box::new(text::words(text)),
    }
}

fn all_different<T: Eq + Hash>(mut parts: impl Iterator<Item = T>) -> bool {
    let mut seen = HashSet::new();
    parts.all(|part| seen.insert(part))
}

fn some_and_all<'a>(parts: impl Iterator<Item = &'a str>, is_good: impl Fn(&str) -> bool) -> bool {
    let mut parts = parts.peekable();
    parts.peek().is_some() && parts.all(is_good)
}

/// The longest run of words that [`stutters`] looks for: bounds its time on hostile text.
const LONGEST_RUN: usize = 64;

/// Whether a run of 2 to [`LONGEST_RUN`] words is followed by itself.
fn stutters(text: &str) -> bool {
    let mut numbers = HashMap::new();
    let words: Vec<usize> = text::words(text)
        .map(|word| {
            let next = numbers.len();
            *numbers.entry(word).or_insert(next)
        })
        .collect();
    (2..=LONGEST_RUN.min(words.len() / 2)).any(|run| {
        let mut equal = 0;
        words.iter().zip(&words[run..]).any(|(earlier, later)| {
            equal = if earlier == later { equal + 1 } else { 0 };
            equal == run
        })
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn check(json: &str) -> Check {
        serde_json::from_str(json).expect("a check")
    }

    /// Each check with texts that meet it and texts that do not.
    const TABLE: &[(&str, &[&str], &[&str])] = &[
        (
            r#"{"kind":"contains","text":"red kite"}"#,
            &["the red kite.", "red\n kite"],
            &["red kites", "a red, kite", "Red kite", ""],
        ),
        (r#"{"kind":"contains","text":" "}"#, &[], &["", "a b"]),
        (
            r#"{"kind":"starts_with","text":"Dear Mia,"}"#,
            &["Dear Mia, hi", " Dear  Mia,"],
            &["Dear Mia hi", "Dear", "Oh Dear Mia,"],
        ),
        (
            r#"{"kind":"ends_with","text":"End."}"#,
            &["- cat\nEnd.", "End. "],
            &["End", "The bEnd.", "End. no"],
        ),
        (
            r#"{"kind":"any_of","words":["very","?",""]}"#,
            &["very good", "Can you?"],
            &["every day", "", "Very"],
        ),
        (
            r#"{"kind":"repeats","unit":"sentence"}"#,
            &["Hi Mia. Go.  Hi Mia."],
            &["Hi Mia. Hi Ben.", "Hi Hi", ""],
        ),
        (r#"{"kind":"repeats","unit":"item"}"#, &["- cat\n* cat"], &["- cat\n- cats", "cat cat"]),
        (r#"{"kind":"repeats","unit":"word"}"#, &["a b, a"], &["a A", ", ,"]),
        (
            r#"{"kind":"stutters"}"#,
            &["thank you, thank you!", "x a b c a b c", "so so so so"],
            &["thank you thank me", "so so so", "a b c a b", ""],
        ),
        (
            r#"{"kind":"count","unit":"sentence","min":2,"max":3}"#,
            &["A. B.", "A. B! C?"],
            &["A.", "A. B. C. D.", "A. ."],
        ),
        (r#"{"kind":"count","unit":"word","min":3}"#, &["a b 3", "a b c d"], &["a, b!", ""]),
        (r#"{"kind":"count","unit":"line","min":0,"max":0}"#, &["", " \n"], &["a"]),
        (
            r#"{"kind":"items_in","words":["cat","dog"]}"#,
            &["- dog\n- cat", "Here:\ncat\nEnd."],
            &["- dog\n- axe", "cat", "Here:\nEnd."],
        ),
        (r#"{"kind":"items_sorted"}"#, &["ape\nBear\ncat", "- cat"], &["cat\nape", "", "no list"]),
        (
            r#"{"kind":"items_sorted","descending":true}"#,
            &["cat\ncat\nape"],
            &["ape\ncat", "Here:\nEnd."],
        ),
        (
            r#"{"kind":"bulleted"}"#,
            &["Here:\n- cat\n- dog\nEnd."],
            &["- cat\ndog", "* cat\n* dog", "Here:\nEnd.", ""],
        ),
        (
            r#"{"kind":"number_after","word":"has","value":7}"#,
            &["Mia has 7 kites", "Mia has just 7, not 8"],
            &["Mia has 8 or 7", "7 has", "Mia has 77", "has"],
        ),
        (
            r#"{"kind":"equation"}"#,
            &["4 + 3 = 7.", "4+3=7 and 1 + 1 = 3"],
            &["4 + 3 = 8. 1 + 1 = 2", "4 - 3 = 1", "+ ="],
        ),
    ];

    #[test]
    fn each_check_is_met_and_unmet_as_it_says() {
        for &(json, yes, no) in TABLE {
            for text in yes {
                assert!(met(&check(json), text), "{json} on {text:?}");
            }
            for text in no {
                assert!(!met(&check(json), text), "{json} on {text:?}");
            }
        }
    }

    #[test]
    fn an_equation_that_overflows_is_false() {
        let text = format!("{0} + {0} = {0}", u64::MAX);
        assert!(!met(&Check::Equation, &text));
    }

    #[test]
    fn one_megabyte_of_hostile_text_takes_no_longer_than_a_pass_over_it() {
        // A quadratic check would take minutes on any of these.
        for part in ["a ", "a b ", ".", "- \n", "- a\n", "a.\n", "\u{301}", "1+", "Dear Dear Mia "]
        {
            let text = part.repeat(1_000_000 / part.len());
            let start = Instant::now();
            for &(json, ..) in TABLE {
                std::hint::black_box(met(&check(json), &text));
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{part:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gets_an_answer(text in "\\PC*|[-a-c1 .!?:\\n*+=]{0,80}", index in 0..TABLE.len()) {
            let check = check(TABLE[index].0);
            prop_assert_eq!(met(&check, &text), met(&check, &text.clone()));
        }

        #[test]
        fn a_phrase_taken_from_a_text_is_contained_in_it(
            words in proptest::collection::vec("[a-c]{1,2}|[0-9]|[,.!]", 1..12),
            cut in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let (a, b) = (cut.0.index(words.len()), cut.1.index(words.len()));
            let text = words[a.min(b)..=a.max(b)].join(" ");
            let found = Check::Contains { text: text.clone() };
            prop_assert!(met(&found, &words.join(" ")));
            let start = Check::StartsWith { text: words[0].clone() };
            prop_assert!(met(&start, &words.join(" ")));
        }
    }
}
