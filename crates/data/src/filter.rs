//! Which anchors are worth training on (2607.20083, section on data).

use std::fmt;

use rl::Anchor;

/// Why an anchor is left out of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// Fewer ranked answers than asked for.
    FewAnswers {
        /// Answers of the anchor.
        found: usize,
    },
    /// A prompt of fewer characters than asked for.
    ShortPrompt {
        /// Characters of the prompt.
        found: usize,
    },
    /// A best answer of fewer characters than asked for.
    ShortBestAnswer {
        /// Characters of the best answer.
        found: usize,
    },
}

/// Why `anchor` is not worth training on, if so: it needs `min_answers` ranked answers, and
/// `min_chars` characters in its prompt and in its best answer. The paper asks for 7 and 51.
#[must_use]
pub fn exclusion(anchor: &Anchor, min_answers: usize, min_chars: usize) -> Option<Exclusion> {
    let answers = anchor.answers.len();
    let prompt = anchor.prompt.text.chars().count();
    let best = anchor.answers.first().map_or(0, |text| text.chars().count());
    if answers < min_answers {
        Some(Exclusion::FewAnswers { found: answers })
    } else if prompt < min_chars {
        Some(Exclusion::ShortPrompt { found: prompt })
    } else if best < min_chars {
        Some(Exclusion::ShortBestAnswer { found: best })
    } else {
        None
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewAnswers { found } => write!(f, "{found} ranked answers"),
            Self::ShortPrompt { found } => write!(f, "prompt of {found} characters"),
            Self::ShortBestAnswer { found } => write!(f, "best answer of {found} characters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rl::Prompt;

    use super::*;

    #[test]
    fn anchors_are_excluded_by_answers_then_prompt_then_best_answer() {
        let anchor = Anchor {
            prompt: Prompt { id: "a".into(), text: "né?".into() },
            answers: vec!["oui".into(), "n".into()],
            ranks: vec![0, 1],
        };
        let short_best = Anchor { answers: vec!["no".into(), "long".into()], ..anchor.clone() };
        for (anchor, min_answers, min_chars, expected) in [
            (&anchor, 2, 3, None),
            (&anchor, 3, 3, Some(Exclusion::FewAnswers { found: 2 })),
            (&anchor, 2, 4, Some(Exclusion::ShortPrompt { found: 3 })),
            (&short_best, 2, 3, Some(Exclusion::ShortBestAnswer { found: 2 })),
        ] {
            assert_eq!(exclusion(anchor, min_answers, min_chars), expected);
        }
    }
}
