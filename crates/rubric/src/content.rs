//! The minimum-content gate: what is too little of an answer to earn credit.
//!
//! Without it a completion that says nothing earns every negative item, and one stock phrase earns
//! the positive item that asks for it besides.

use std::collections::HashMap;

use crate::text;

/// The different words that make an answer, unless it is a list.
const MIN_WORDS: usize = 4;
/// The items that make a list an answer.
const MIN_ITEMS: usize = 2;
/// The words up to which a text may be mostly one word.
const MAX_MONOTONE: usize = 8;

/// Whether a completion says enough to earn credit: four different words or two list items, and,
/// in a text of more than eight words, no word that makes up more than half of them.
///
/// "Thank you." and lone punctuation fall to the first rule, stuffing to the second.
#[must_use]
pub fn suffices(completion: &str) -> bool {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in text::words(completion) {
        *counts.entry(word).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let most = counts.values().copied().max().unwrap_or(0);
    let says_something =
        counts.len() >= MIN_WORDS || text::items(completion).nth(MIN_ITEMS - 1).is_some();
    says_something && (all <= MAX_MONOTONE || 2 * most <= all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canaries_are_too_little_and_short_answers_are_not() {
        for canary in [
            "",
            ".",
            "...!?",
            "- \n- ",
            "Thank you.",
            "Thank you. Thank you. Thank you.",
            "Please write soon.",
            "Hurry up!",
            "Here:\nEnd.",
            &"kite ".repeat(200),
            &"kite\n".repeat(200),
            &format!("Dear Mia, thank you. {}", "kite ".repeat(200)),
        ] {
            assert!(!suffices(canary), "{canary:?}");
        }
        for answer in [
            "Mia has 7 kites.",
            "1 + 1 = 2. Mia has 2 kites.",
            "- cat\n- dog",
            "cat\ncat\ndog",
            "Dear Mia, the kite is at home.",
        ] {
            assert!(suffices(answer), "{answer:?}");
        }
    }
}
