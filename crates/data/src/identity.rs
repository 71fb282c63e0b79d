//! Whether two sets hold the same data, and whether training has seen what it is tested on.

use std::collections::HashSet;

use serde::Serialize;

/// A digest (BLAKE3, hex) of accepted rows, their order included. Layout of the file, extra keys
/// and rejected rows do not change it.
#[must_use]
pub fn fingerprint<'a, T: Serialize + 'a>(rows: impl IntoIterator<Item = &'a T>) -> String {
    let mut hasher = blake3::Hasher::new();
    for row in rows {
        serde_json::to_writer(&mut hasher, row).expect("a hasher takes any bytes");
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex().to_string()
}

/// The prompts of `heldout` that stand in `train` too, in the order of `heldout`. Prompts that
/// differ in white space only are the same.
#[must_use]
pub fn overlap<'a>(
    train: impl IntoIterator<Item = &'a str>,
    heldout: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let seen: HashSet<String> = train.into_iter().map(words).collect();
    heldout.into_iter().filter(|prompt| seen.contains(&words(prompt))).collect()
}

fn words(prompt: &str) -> String {
    prompt.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use rl::Prompt;

    use super::*;

    fn prompt(id: &str, text: &str) -> Prompt {
        Prompt { id: id.into(), text: text.into() }
    }

    #[test]
    fn a_fingerprint_tells_apart_order_content_and_field_borders() {
        let base = [prompt("a", "x"), prompt("b", "y")];
        assert_eq!(fingerprint(&base), fingerprint(&base.clone()));
        for other in [
            vec![prompt("b", "y"), prompt("a", "x")],
            vec![prompt("a", "x")],
            vec![prompt("a", "x"), prompt("by", "")],
        ] {
            assert_ne!(fingerprint(&base), fingerprint(&other));
        }
    }

    #[test]
    fn overlap_names_heldout_prompts_that_training_has() {
        let train = ["Say  hi.\n", "Count to 3."];
        let heldout = ["Say hi.", "say hi.", "Count to 4."];
        assert_eq!(overlap(train, heldout), ["Say hi."]);
        assert!(overlap([], heldout).is_empty());
    }
}
