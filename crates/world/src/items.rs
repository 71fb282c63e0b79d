//! The item grammar: short phrases that say what an answer shows, and the check of each.
//!
//! A phrase is a template with up to two words: "greets Mia", "about red kite", "has rain",
//! "longer 12". There are some hundreds, so their tokens fit a trie that constrains decoding. They
//! are a rubric's criteria as people see them.

use std::collections::HashMap;
use std::sync::LazyLock;

use rl::{Check, Unit};

use crate::vocabulary::{ADJECTIVES, CATEGORIES, NAMES, NOUNS, WORDS, things};

/// The check that a phrase stands for; nothing for any text that is no phrase of the grammar.
#[must_use]
pub fn compile(phrase: &str) -> Option<Check> {
    let &index = GRAMMAR.index.get(phrase)?;
    Some(GRAMMAR.items[index].1.clone())
}

/// Every phrase, in the canonical order: by template, then by word.
pub fn phrases() -> impl ExactSizeIterator<Item = &'static str> {
    GRAMMAR.items.iter().map(|(phrase, _)| phrase.as_str())
}

/// The place of a phrase in the canonical order, in which rubrics and banks are written.
#[must_use]
pub fn place(phrase: &str) -> Option<usize> {
    GRAMMAR.index.get(phrase).copied()
}

/// Places a thing of a note may be.
pub const PLACES: [&str; 4] = ["door", "home", "bed", "hall"];

struct Grammar {
    items: Vec<(String, Check)>,
    index: HashMap<String, usize>,
}

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    let items = items();
    let index = items.iter().enumerate().map(|(i, (phrase, _))| (phrase.clone(), i)).collect();
    Grammar { items, index }
});

/// Words and marks for "has" beside those of the vocabulary.
const SEEN: [&str; 24] = [
    "Thank", "Please", "miss", "good", "near", "like", "Look", "today", "etc", "Nice", "Total",
    "on", "*", "So", "now", "Check", "together", "just", "He", "She", "things", "the", "are", "we",
];

fn items() -> Vec<(String, Check)> {
    let mut items = Vec::new();
    let mut add = |phrase: String, check: Check| items.push((phrase, check));
    for name in NAMES {
        add(format!("greets {name}"), starts_with(&format!("Dear {name},")));
    }
    for adjective in ADJECTIVES {
        for noun in NOUNS {
            add(format!("about {adjective} {noun}"), contains(&format!("{adjective} {noun}")));
        }
    }
    for (name, _) in CATEGORIES {
        let words = owned(things(name));
        add(format!("all {name}"), Check::ItemsIn { words });
    }
    for n in 1..=8 {
        add(format!("items {n}"), count(Unit::Item, n, Some(n)));
    }
    for n in 0..=20 {
        add(format!("answers {n}"), number_after("has", n));
    }
    for n in 2..=6 {
        add(format!("totals {n}"), number_after("Total", n));
    }
    for a in 1..=9 {
        for b in 1..=9 {
            add(format!("adds {a} {b}"), contains(&format!("{a} + {b} = {}", a + b)));
        }
    }
    for word in ["Dear", "The", "Here", "My", "Some", "-", "First", "So", "He", "She"] {
        add(format!("starts {word}"), starts_with(word));
    }
    for word in ["friend", "end", "you", "list"] {
        add(format!("ends {word}"), ends_with(&format!("{word}.")));
    }
    let plurals = NOUNS.map(|noun| format!("{noun}s"));
    let categories = CATEGORIES.map(|(name, _)| name);
    let words = [&NAMES[..], &NOUNS, &WORDS, &categories, &PLACES, &SEEN].concat();
    for word in words.into_iter().chain(plurals.iter().map(String::as_str)) {
        add(format!("has {word}"), contains(word));
    }
    for n in [4, 8, 12, 16, 20, 24, 28, 32] {
        add(format!("longer {n}"), count(Unit::Word, n + 1, None));
    }
    items.extend(plain().map(|(phrase, check)| (phrase.to_owned(), check)));
    items
}

/// The phrases without words.
fn plain() -> [(&'static str, Check); 17] {
    [
        ("place", any_of(&PLACES)),
        ("asks", contains("?")),
        ("comma", contains(",")),
        ("stops", ends_with(".")),
        ("sorted", Check::ItemsSorted { descending: false }),
        ("reversed", Check::ItemsSorted { descending: true }),
        ("dashes", Check::Bulleted),
        ("equation", Check::Equation),
        ("filler", any_of(&["very", "really", "stuff"])),
        ("hedges", any_of(&["maybe", "perhaps", "guess"])),
        ("shouts", contains("!")),
        ("stutters", Check::Stutters),
        ("repeats word", Check::Repeats { unit: Unit::Word }),
        ("repeats sentence", Check::Repeats { unit: Unit::Sentence }),
        ("repeats line", Check::Repeats { unit: Unit::Line }),
        ("repeats item", Check::Repeats { unit: Unit::Item }),
        ("sentences 3", count(Unit::Sentence, 3, None)),
    ]
}

fn contains(text: &str) -> Check {
    Check::Contains { text: text.to_owned() }
}

fn starts_with(text: &str) -> Check {
    Check::StartsWith { text: text.to_owned() }
}

fn ends_with(text: &str) -> Check {
    Check::EndsWith { text: text.to_owned() }
}

fn any_of(words: &[&str]) -> Check {
    Check::AnyOf { words: owned(words) }
}

fn count(unit: Unit, min: u32, max: Option<u32>) -> Check {
    Check::Count { unit, min, max }
}

fn number_after(word: &str, value: i64) -> Check {
    Check::NumberAfter { word: word.to_owned(), value }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn phrases_are_some_hundreds_and_each_stands_once() {
        let all: HashSet<&str> = phrases().collect();
        assert_eq!(all.len(), phrases().len());
        assert!((400..700).contains(&all.len()), "{}", all.len());
        assert!(phrases().enumerate().all(|(i, phrase)| place(phrase) == Some(i)));
    }

    #[test]
    fn phrases_compile_and_nothing_else_does() {
        assert_eq!(compile("greets Mia"), Some(starts_with("Dear Mia,")));
        assert_eq!(compile("adds 2 3"), Some(contains("2 + 3 = 5")));
        assert_eq!(compile("longer 12"), Some(count(Unit::Word, 13, None)));
        for other in ["", "greets", "greets mia", "greets Mia ", "has", "items 9", "adds 2 10"] {
            assert_eq!(compile(other), None, "{other}");
        }
    }
}
