//! The check bank of a task: what one may ask about its answers, in the canonical order.
//!
//! A generator that reads a digest sees how many answers of a group meet each phrase of the bank.
//! The bank holds everything worth asking among things that are not: it says neither which is
//! which nor which sign or weight a phrase deserves. Handing it over spares the generator the
//! discovery of checks; the docs of the digest say so.

use rl::Check;

use crate::items::{compile, place};
use crate::task::Task;

/// The phrases of a task's bank, about 30, with their checks.
#[must_use]
pub fn bank(task: &Task) -> Vec<(String, Check)> {
    let mut phrases = match *task {
        Task::Note { name, adjective, noun, word } => {
            let mut phrases = vec![
                format!("greets {name}"),
                format!("about {adjective} {noun}"),
                format!("has {word}"),
                format!("has {noun}"),
            ];
            phrases.extend(owned(NOTE));
            phrases
        }
        Task::List { count, category, descending: _ } => {
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
    let checked = |phrase: String| compile(&phrase).map(|check| (phrase, check));
    phrases.into_iter().filter_map(checked).collect()
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
    "starts My",
    "starts -",
    "ends end",
    "ends list",
    "has etc",
    "has Nice",
    "has on",
    "has *",
    "has are",
    "longer 4",
    "longer 8",
    "longer 12",
    "longer 16",
    "starts Some",
    "stops",
    "sorted",
    "reversed",
    "dashes",
    "repeats word",
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
    "has we",
    "has on",
    "longer 4",
    "longer 8",
    "longer 12",
    "longer 16",
    "repeats word",
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
    use crate::prompts::all_tasks;
    use crate::task::Kind;

    #[test]
    fn banks_hold_about_30_different_checks_in_order() {
        for (kind, size) in Kind::ALL.into_iter().zip([31, 29, 30]) {
            for task in all_tasks(kind).into_iter().step_by(19) {
                let bank = bank(&task);
                assert_eq!(bank.len(), size, "{bank:?}");
                assert!(bank.is_sorted_by_key(|(phrase, _)| place(phrase)), "{bank:?}");
                let checks: HashSet<&Check> = bank.iter().map(|(_, check)| check).collect();
                assert_eq!(checks.len(), size, "{bank:?}");
            }
        }
    }
}
