//! Finds criteria that single out one completion of the group by its name or number.

use crate::text;

const NOUNS: [&str; 5] = ["answer", "candidate", "completion", "reply", "response"];
const NUMBERS: [&str; 10] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const ORDINALS: [&str; 10] =
    ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
const ENDINGS: [&str; 4] = ["st", "nd", "rd", "th"];
/// After one of these a number is the content of the answer: "the answer 42" is no candidate.
const CONTENT: [&str; 5] = ["the", "an", "final", "correct", "right"];

/// The words of a criterion that name a candidate: "answer 3", "Candidate B", "second response".
pub(crate) fn named(criterion: &str) -> Option<String> {
    let tokens: Vec<&str> = text::tokens(criterion).filter(|&token| token != "#").collect();
    let lower: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
    (0..tokens.len()).filter(|&at| NOUNS.contains(&lower[at].as_str())).find_map(|at| {
        let before = |back| at.checked_sub(back).map_or("", |i| lower[i].as_str());
        let after = tokens.get(at + 1).copied().unwrap_or_default();
        if is_letter(after) || (is_number(after) && !CONTENT.contains(&before(1))) {
            Some(tokens[at..=at + 1].join(" "))
        } else if ORDINALS.contains(&before(1)) {
            Some(tokens[at - 1..=at].join(" "))
        } else if ENDINGS.contains(&before(1)) && is_number(before(2)) {
            Some(format!("{}{} {}", tokens[at - 2], tokens[at - 1], tokens[at]))
        } else {
            None
        }
    })
}

fn is_letter(token: &str) -> bool {
    matches!(token.as_bytes(), [b'A'..=b'Z'])
}

fn is_number(token: &str) -> bool {
    token.starts_with(char::is_numeric) || NUMBERS.contains(&token.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_named_by_letter_number_or_place() {
        for (criterion, expected) in [
            ("better than answer 3", Some("answer 3")),
            ("Is candidate B", Some("candidate B")),
            ("equals Response #2", Some("Response 2")),
            ("like response two", Some("response two")),
            ("the second response, reworded", Some("second response")),
            ("as the 3rd answer has it", Some("3rd answer")),
            ("gives the answer 42", None),
            ("answers 7", None),
            ("The response is a note", None),
            ("the second sentence of the answer", None),
            ("answer", None),
            ("", None),
        ] {
            assert_eq!(named(criterion).as_deref(), expected, "{criterion}");
        }
    }
}
