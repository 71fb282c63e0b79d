//! The score of one answer.

use rl::{Seed, Stream};
use rubric::text;
use world::{Author, Care, Draws, Task};

use crate::quality::qualities;

/// The score of an ideal answer.
pub const CEILING: f64 = 1.0;

/// An answer's score and what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    /// The weights of the qualities that hold, in [0, 1].
    pub total: f64,
    /// Each quality of the task and whether it holds.
    pub qualities: Vec<(&'static str, bool)>,
}

/// A prompt that no task of the world words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot score an answer to \"{0}\": expected a prompt of the controlled world")]
pub struct NotOfThisWorld(pub String);

/// The score of an answer to a prompt.
///
/// # Errors
/// A prompt of another world.
pub fn score(prompt: &str, answer: &str) -> Result<Gold, NotOfThisWorld> {
    Ok(score_task(&read(prompt)?, answer))
}

/// The score of an answer to a task.
#[must_use]
pub fn score_task(task: &Task, answer: &str) -> Gold {
    // Nearly nothing shows no bad habit either: that is worth nothing.
    let says_something = text::words(answer).nth(1).is_some();
    let mut thousandths = 0;
    let mut held = Vec::new();
    for quality in qualities(task, answer) {
        let holds = says_something && quality.holds;
        thousandths += if holds { quality.weight } else { 0 };
        held.push((quality.name, holds));
    }
    Gold { total: f64::from(thousandths) / 1000.0, qualities: held }
}

/// An answer of score [`CEILING`].
#[must_use]
pub fn ideal(task: &Task) -> String {
    Author::new(Care::PERFECT).answer(task, &mut Draws::new(Seed::new(0, Stream::Data)))
}

pub(crate) fn read(prompt: &str) -> Result<Task, NotOfThisWorld> {
    Task::parse(prompt).ok_or_else(|| NotOfThisWorld(prompt.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use world::Kind;
    use world::prompts::{Split, tasks};

    use super::*;

    const WORDS: &str = "(Dear|Mia|Total|Check|The end|- cat|together|[ .,!\\n:0-9+=-]){0,30}";

    proptest! {
        #[test]
        fn any_text_has_a_score_between_zero_and_one(
            answer in ["\\PC*", "[-a-c0-9 .!?:\\n*+=]{0,80}", WORDS].join("|").as_str(),
            place: prop::sample::Index,
        ) {
            for kind in Kind::ALL {
                let task = place.get(&tasks(kind, Split::Heldout)).to_owned();
                let gold = score(&task.prompt(), &answer).expect("of this world");
                prop_assert!((0.0..=1.0).contains(&gold.total));
                prop_assert_eq!(gold, score_task(&task, &answer));
            }
        }
    }
}
