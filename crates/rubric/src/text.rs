//! The parts of a text that checks speak of: tokens, words, sentences, lines, list items.
//!
//! Each is found in one pass and borrows from the text.

/// The tokens of a text: runs of letters, runs of digits, every other visible character by itself.
pub fn tokens(text: &str) -> impl Iterator<Item = &str> {
    token_indices(text).map(|(_, token)| token)
}

/// The tokens of a text with the byte at which each begins.
pub fn token_indices(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].find(is_visible)?;
        let rest = &text[at..];
        let first = rest.chars().next()?;
        let run_end = |within: fn(char) -> bool| rest.find(|c| !within(c)).unwrap_or(rest.len());
        let length = if first.is_alphabetic() {
            run_end(char::is_alphabetic)
        } else if first.is_numeric() {
            run_end(char::is_numeric)
        } else {
            first.len_utf8()
        };
        let token = (at, &rest[..length]);
        at += length;
        Some(token)
    })
}

/// The tokens that are words: runs of letters or of digits.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    tokens(text).filter(|token| token.starts_with(char::is_alphanumeric))
}

/// The sentences: parts with a word that end in `.`, `!` or `?` before white space or the end of
/// the text ("3.5" holds no end). A tail without such a mark is not a sentence.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    text.match_indices(['.', '!', '?'])
        .map(|(at, mark)| at + mark.len())
        .filter(|&end| text[end..].chars().next().is_none_or(char::is_whitespace))
        .map(move |end| text[std::mem::replace(&mut start, end)..end].trim())
        .filter(|part| has_word(part))
}

/// The lines with a visible character, without the white space around them.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| line.contains(is_visible))
}

/// The list items, without their bullets: see [`item_lines`].
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    item_lines(text).map(without_bullet)
}

/// The lines that are list items: in a text of several lines or with a bullet, the lines with a
/// word, less headings (ending in `:`), sentences (ending in `.`) and "etc".
pub fn item_lines(text: &str) -> impl Iterator<Item = &str> {
    let listed = lines(text).nth(1).is_some() || lines(text).any(|l| l != without_bullet(l));
    lines(text).filter(move |line| {
        let item = without_bullet(line);
        listed && has_word(item) && !item.ends_with([':', '.']) && item != "etc"
    })
}

/// The first equation "a + b = c" of whole numbers, as `[a, b, c]`.
#[must_use]
pub fn equation(text: &str) -> Option<[u64; 3]> {
    let tokens: Vec<&str> = tokens(text).collect();
    tokens.windows(5).find_map(|window| match window {
        [a, "+", b, "=", c] => Some([a.parse().ok()?, b.parse().ok()?, c.parse().ok()?]),
        _ => None,
    })
}

/// The first whole number anywhere after the first token `word`; nothing where there is none or it
/// is too large.
#[must_use]
pub fn number_after(text: &str, word: &str) -> Option<i64> {
    let mut tokens = token_indices(text).skip_while(|&(_, token)| token != word).skip(1);
    let (at, digits) = tokens.find(|(_, token)| token.starts_with(char::is_numeric))?;
    let number: i64 = digits.parse().ok()?;
    Some(if text[..at].ends_with('-') { -number } else { number })
}

fn without_bullet(line: &str) -> &str {
    let rest = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    rest.map_or(line, str::trim)
}

fn has_word(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

fn is_visible(c: char) -> bool {
    // White space and control characters have no mark; neither have Unicode's format characters,
    // which std does not tell: soft hyphen, zero-width and direction marks, byte order mark.
    let is_format = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_whitespace() && !c.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        parts.collect()
    }

    #[test]
    fn tokens_are_runs_and_single_marks() {
        for (text, expected) in [
            ("Dear Mia, hi!", &["Dear", "Mia", ",", "hi", "!"][..]),
            ("4+12=16 kites", &["4", "+", "12", "=", "16", "kites"]),
            ("b2b ...", &["b", "2", "b", ".", ".", "."]),
            ("élan\u{200b}\u{a0}日本 👍\u{0}", &["élan", "日本", "👍"]),
            ("\u{feff} \n\t", &[]),
        ] {
            assert_eq!(all(tokens(text)), expected, "{text:?}");
        }
        assert_eq!(all(words("4 + b, c.")), ["4", "b", "c"]);
    }

    #[test]
    fn sentences_end_in_a_mark_before_white_space() {
        for (text, expected) in [
            ("It is 3.5 m. Good! Is it?", &["It is 3.5 m.", "Good!", "Is it?"][..]),
            ("Stop!!! . ? Go.\nand then", &["Stop!!!", "Go."]),
            ("no mark", &[]),
            ("...", &[]),
        ] {
            assert_eq!(all(sentences(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn items_are_lines_less_headings_sentences_and_etc() {
        for (text, expected) in [
            ("Here:\n- cat\n* dog\netc\nTotal 2.\nEnd.", &["cat", "dog"][..]),
            ("cat\ndog", &["cat", "dog"]),
            ("- cat", &["cat"]),
            ("cat", &[]),
            ("-\n- \n!\n", &[]),
        ] {
            assert_eq!(all(items(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn the_first_equation_and_the_first_number_after_a_word() {
        assert_eq!(equation("So 4+3 = 7. 1 + 1 = 2"), Some([4, 3, 7]));
        assert_eq!(equation("4 + = 7, 4 - 3 = 1"), None);
        assert_eq!(equation(&format!("{0} + {0} = {0}", "9".repeat(40))), None);
        for (text, expected) in [
            ("4 + 3 = 7. Mia has about 7 kites, 2 red", Some(7)),
            ("Mia has -7", Some(-7)),
            ("Mia has 7 - 3", Some(7)),
            ("7 hats", None),
            ("Mia has 99999999999999999999", None),
        ] {
            assert_eq!(number_after(text, "has"), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_parts_that_lie_in_it(text in "[-a-c0-9 .!?:\\n*+=\u{301}\u{200b}é½👍]{0,60}|\\PC*") {
            for (at, token) in token_indices(&text) {
                prop_assert_eq!(&text[at..at + token.len()], token);
                prop_assert!(!token.is_empty());
            }
            let glued: String = tokens(&text).collect();
            let visible: String = text.chars().filter(|&c| is_visible(c)).collect();
            prop_assert_eq!(glued, visible);
            prop_assert!(items(&text).count() <= lines(&text).count());
            prop_assert!(sentences(&text).all(|s| s.ends_with(['.', '!', '?'])));
            prop_assert!(number_after(&text, "a").is_none_or(|n| n.abs() >= 0));
            prop_assert!(equation(&text).is_none() || text.contains('='));
        }
    }
}
