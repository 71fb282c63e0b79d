//! What the policy is asked to do, as parameters and as text.

use std::fmt;

use crate::vocabulary::{ADJECTIVES, CATEGORIES, NAMES, NOUNS, WORDS};

/// One task with its parameters, each a word of [`crate::vocabulary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Write to somebody about something.
    Note {
        /// Whom.
        name: &'static str,
        /// How the thing is.
        adjective: &'static str,
        /// The thing.
        noun: &'static str,
        /// A word to use.
        word: &'static str,
    },
    /// List things in alphabetical order.
    List {
        /// How many, 2 to 6.
        count: usize,
        /// What kind of thing.
        category: &'static str,
        /// From Z to A.
        descending: bool,
    },
    /// Add two numbers.
    Sum {
        /// Who has the things.
        name: &'static str,
        /// How many first, 1 to 9.
        a: usize,
        /// How many more, 1 to 9.
        b: usize,
        /// What is counted, singular.
        noun: &'static str,
    },
}

impl Task {
    /// The task in words.
    #[must_use]
    pub fn prompt(&self) -> String {
        match *self {
            Self::Note { name, adjective, noun, word } => {
                format!("Write a note to {name} about the {adjective} {noun}. Use {word}.")
            }
            Self::List { count, category, descending } => {
                let order = if descending { "Z to A" } else { "A to Z" };
                format!("List {count} {category} from {order}.")
            }
            Self::Sum { name, a, b, noun } => {
                format!("{name} has {a} {noun}s and gets {b} more. How many {noun}s?")
            }
        }
    }

    /// The task that a prompt words; nothing for any other text.
    #[must_use]
    pub fn parse(prompt: &str) -> Option<Self> {
        let words: Vec<&str> =
            prompt.split_whitespace().map(|word| word.trim_end_matches(['.', '?'])).collect();
        let task = match words[..] {
            ["Write", "a", "note", "to", name, "about", "the", adjective, noun, "Use", word] => {
                Self::Note {
                    name: one_of(name, &NAMES)?,
                    adjective: one_of(adjective, &ADJECTIVES)?,
                    noun: one_of(noun, &NOUNS)?,
                    word: one_of(word, &WORDS)?,
                }
            }
            ["List", count, category, "from", from, "to", _] => Self::List {
                count: number_in(count, 2, 6)?,
                category: one_of(category, &CATEGORIES.map(|(name, _)| name))?,
                descending: from == "Z",
            },
            [name, "has", a, nouns, "and", "gets", b, "more", "How", "many", _] => Self::Sum {
                name: one_of(name, &NAMES)?,
                a: number_in(a, 1, 9)?,
                b: number_in(b, 1, 9)?,
                noun: one_of(nouns.strip_suffix('s')?, &NOUNS)?,
            },
            _ => return None,
        };
        (task.prompt() == prompt).then_some(task)
    }

    /// Which of the three tasks it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Note { .. } => Kind::Note,
            Self::List { .. } => Kind::List,
            Self::Sum { .. } => Kind::Sum,
        }
    }
}

/// The three tasks without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Task::Note`].
    Note,
    /// [`Task::List`].
    List,
    /// [`Task::Sum`].
    Sum,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Note, Self::List, Self::Sum];

    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::List => "list",
            Self::Sum => "sum",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn one_of(word: &str, words: &[&'static str]) -> Option<&'static str> {
    words.iter().copied().find(|known| *known == word)
}

fn number_in(word: &str, min: usize, max: usize) -> Option<usize> {
    word.parse().ok().filter(|number| (min..=max).contains(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_exact_prompts_are_read() {
        let prompt = "List 3 animals from Z to A.";
        let task = Task::List { count: 3, category: "animals", descending: true };
        assert_eq!(Task::parse(prompt), Some(task));
        for other in [
            "",
            "List 3 animals from Z to A",
            "List 7 animals from Z to A.",
            "List 3 stones from Z to A.",
            "List 3  animals from Z to A.",
            "List 03 animals from Z to A.",
            "List 3 animals from Z to Z.",
            "Mia has 2 kites and gets 3 more. How many cups?",
            "Mia has 0 kites and gets 3 more. How many kites?",
        ] {
            assert_eq!(Task::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            if let Some(task) = Task::parse(&text) {
                prop_assert_eq!(task.prompt(), text);
            }
        }
    }
}
