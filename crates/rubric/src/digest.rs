//! What the generator reads of a group.
//!
//! The honest input is the texts. A model of a million parameters needs several times the
//! compute to learn to compare them, so it may be given a *digest* instead: the checks of a
//! bank that part the group, with the number of completions that meet each. That is a crutch, and named
//! one wherever results are shown. The counts are exact, free of the verifier's flips; the checks
//! are handed over, not discovered. What is left to the generator is which to choose, with which
//! weight and which sign. The digest holds nothing about gold or anchors.

use rl::Check;

use crate::met;

/// How many of the completions meet each check of a bank, in the bank's order. A check that all or
/// none of them meet says nothing that tells them apart, and is left out.
#[must_use]
pub fn digest<T: AsRef<str>>(bank: &[(String, Check)], completions: &[T]) -> Vec<(String, u32)> {
    bank.iter()
        .map(|(phrase, check)| {
            (phrase, completions.iter().filter(|text| met(check, text.as_ref())).count())
        })
        .filter(|&(_, count)| 0 < count && count < completions.len())
        .map(|(phrase, count)| (phrase.clone(), count as u32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_part_the_group_stand_in_the_order_of_the_bank() {
        let has = |text: &str| (format!("has {text}"), Check::Contains { text: text.into() });
        let bank = [has("d"), has("b"), has("a"), has("c")];
        let counts = digest(&bank, &["a b", "a", "A, b a d"]);
        assert_eq!(counts, [("has d".to_owned(), 1), ("has b".to_owned(), 2)]);
        assert!(digest(&bank, &[] as &[&str]).is_empty());
    }
}
