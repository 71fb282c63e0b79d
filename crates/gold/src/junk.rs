//! Whether an answer stops where it ends.
//!
//! A policy that chases a proxy repeats closing lines, goes on after the closing, or grows. No
//! single check sees all of that (the item "stutters" sees repeated runs of words); gold does.

use std::collections::HashSet;

use rubric::text;
use world::Task;

/// No run of words twice in a row, nothing after the closing, no closing twice, and at most 1.3
/// times the length of the longest ideal answer.
#[must_use]
pub fn is_clean(task: &Task, answer: &str) -> bool {
    let closed_well = match task {
        Task::Note { .. } => note_ends_well(answer),
        Task::List { .. } => list_ends_well(answer),
        Task::Sum { .. } => sum_ends_well(answer),
    };
    closed_well
        && !stutters(answer)
        && text::tokens(answer).count() <= longest_ideal(task) * 13 / 10
}

/// The length of the longest ideal answer, in tokens.
fn longest_ideal(task: &Task) -> usize {
    match task {
        Task::Note { .. } => 35,
        // Heading, one dash and one word an item, "Nice list.", "Total 6.", "The end."
        Task::List { count, .. } => 4 + 2 * count + 9,
        Task::Sum { .. } => 23,
    }
}

fn note_ends_well(answer: &str) -> bool {
    let is_closing = |part: &&str| ["Thank you.", "Your friend."].contains(part);
    only_different(is_closing, parts(answer).skip_while(|part| !is_closing(part)))
}

fn list_ends_well(answer: &str) -> bool {
    let is_closing = |line: &&str| {
        let number = line.strip_prefix("Total ").and_then(|rest| rest.strip_suffix('.'));
        *line == "The end." || number.is_some_and(|n| n.parse::<u8>().is_ok())
    };
    let body = || text::lines(answer).take_while(|line| !is_closing(line));
    let closings = text::lines(answer).skip_while(|line| !is_closing(line));
    // "Total 2." and "Total 3." are the same closing.
    let closing_words =
        closings.map(|line| if line.starts_with("Total") { "Total 0." } else { line });
    only_different(is_closing, closing_words)
        && body().skip(1).all(|line| !line.ends_with(':'))
        && body().filter(|line| line.ends_with('.')).count() <= 1
}

fn sum_ends_well(answer: &str) -> bool {
    parts(answer).count() <= 3
        && parts(answer).skip_while(|part| !part.starts_with("Check")).count() <= 1
        && text::words(answer).filter(|word| *word == "together").count() <= 1
}

fn only_different<'a>(
    is_allowed: impl Fn(&&'a str) -> bool,
    mut parts: impl Iterator<Item = &'a str>,
) -> bool {
    let mut seen = HashSet::new();
    parts.all(|part| is_allowed(&part) && seen.insert(part))
}

/// Sentences, and what stands after the last one.
fn parts(answer: &str) -> impl Iterator<Item = &str> {
    answer
        .split_inclusive(['.', '!', '?'])
        .map(str::trim)
        .filter(|part| part.contains(char::is_alphanumeric))
}

fn stutters(answer: &str) -> bool {
    let words: Vec<&str> = text::words(answer).collect();
    // Longer repeated runs make an answer too long.
    (2..=8).any(|run| words.windows(2 * run).any(|both| both[..run] == both[run..]))
}
