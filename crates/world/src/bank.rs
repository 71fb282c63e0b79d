//! The check bank of a task: what one may ask about its answers, in the canonical order.
//!
//! A generator that reads a digest sees how many answers of a group meet each phrase of the bank.
//! The bank holds everything worth asking among things that are not: it says neither which is
//! which nor which sign or weight a phrase deserves. Handing it over spares the generator the
//! discovery of checks; the docs of the digest say so.

use crate::items::place;
use crate::task::Task;

/// The phrases of a task's bank, 25 to 35.
#[must_use]
pub fn bank(task: &Task) -> Vec<String> {
    let mut phrases = match *task {
        Task::Note {
            name,
            adjective,
            noun,
            word,
        } => {
            let mut phrases = vec![
                format!("greets {name}"),
                format!("about {adjective} {noun}"),
                format!("has {word}"),
                format!("has {noun}"),
            ];
            phrases.extend(owned(NOTE));
            phrases
        }
        Task::List {
            count,
            category,
            descending: _,
        } => {
            let mut phrases = vec![
                format!("items {count}"),
                format!("items {}", count - 1),
                format!("items {}", count + 1),
                format!("totals {count}"),
                format!("all {category}"),
                format!("has {category}"),
            ];
            phrases.extend(owned(LIST));
            phrases
        }
        Task::Sum { name, a, b, noun } => {
            let mut phrases = vec![
                format!("answers {}", a + b),
                format!("answers {}", a + b - 1),
                format!("answers {}", a + b + 1),
                format!("adds {a} {b}"),
                format!("has {name}"),
                format!("has {noun}s"),
            ];
            phrases.extend(owned(SUM));
            phrases
        }
    };
    phrases.sort_by_key(|phrase| place(phrase));
    phrases
}

const NOTE: [&str; 27] = [
    "starts Dear",
    "starts The",
    "ends friend",
    "ends you",
    "has Thank",
    "has Please",
    "has miss",
    "has good",
    "has near",
    "has like",
    "has Look",
    "has today",
    "has door",
    "has home",
    "has bed",
    "has hall",
    "longer 12",
    "longer 16",
    "longer 20",
    "place",
    "asks",
    "comma",
    "stops",
    "filler",
    "shouts",
    "stutters",
    "repeats sentence",
];

const LIST: [&str; 23] = [
    "starts Here",
    "starts Some",
    "starts -",
    "ends end",
    "ends etc",
    "has etc",
    "has Nice",
    "has on",
    "has *",
    "has is",
    "longer 4",
    "longer 8",
    "longer 12",
    "longer 16",
    "comma",
    "stops",
    "sorted",
    "reversed",
    "dashes",
    "shouts",
    "stutters",
    "repeats line",
    "repeats item",
];

const SUM: [&str; 24] = [
    "starts First",
    "starts So",
    "starts He",
    "starts She",
    "has So",
    "has now",
    "has Check",
    "has together",
    "has just",
    "has He",
    "has She",
    "has things",
    "has the",
    "has on",
    "longer 4",
    "longer 8",
    "longer 12",
    "longer 16",
    "comma",
    "stops",
    "equation",
    "hedges",
    "stutters",
    "sentences 3",
];

fn owned<const N: usize>(phrases: [&str; N]) -> impl Iterator<Item = String> {
    phrases.into_iter().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::prompts::{Split, tasks};
    use crate::task::Kind;

    #[test]
    fn banks_hold_25_to_35_phrases_of_the_grammar_in_order() {
        for kind in Kind::ALL {
            for split in [Split::Train, Split::Heldout] {
                for task in tasks(kind, split) {
                    let bank = bank(&task);
                    let places: Vec<_> = bank.iter().map(|p| place(p).expect("valid")).collect();
                    assert!(
                        places.is_sorted() && (25..=35).contains(&bank.len()),
                        "{bank:?}"
                    );
                    assert_eq!(places.iter().collect::<HashSet<_>>().len(), bank.len());
                }
            }
        }
    }
}
