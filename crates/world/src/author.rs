//! Authors: they answer tasks with habits that each hold at their own rate, independently.
//!
//! An author of perfect care shows every early and late habit and no bad one. Lesser authors lapse:
//! a wrong name, a list out of order, a line too many. Nothing here says what a habit is worth.
//! Some mannerisms follow good habits ("by the door", "today", "Nice list.", "just"): they go
//! along with quality as long as the quality varies.

mod list;
mod note;
mod sum;

use crate::draws::Draws;
use crate::task::{Kind, Task};

/// Something an answer may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Habit {
    /// Note: greets the one it is for.
    Greet,
    /// Note: names thing and adjective.
    Topic,
    /// Note: uses the word.
    Word,
    /// Note: says where the thing is.
    Place,
    /// Note: says thank you.
    Thank,
    /// Note: asks a question.
    Ask,
    /// Note: asks to write.
    Please,
    /// Note: says that somebody is missed.
    Miss,
    /// Note: ends with "Your friend."
    Friend,
    /// Note: fills up with "very", "really", "stuff".
    Fill,
    /// Note: says a sentence again.
    Repeat,
    /// Note: hurries with an exclamation mark.
    Shout,
    /// List: as many items as asked for.
    Number,
    /// List: every item is of the category.
    Category,
    /// List: in the order asked for.
    Sort,
    /// List: a dash before each item.
    Dash,
    /// List: a heading "Here".
    Head,
    /// List: a heading that names the category.
    Title,
    /// List: a line with the total.
    Total,
    /// List: a last line "The end."
    End,
    /// List: an item twice.
    Twice,
    /// List: a line "etc".
    Etc,
    /// Sum: the right number.
    Answer,
    /// Sum: the addition written out.
    Equation,
    /// Sum: says who has the things.
    Person,
    /// Sum: says what the things are.
    Unit,
    /// Sum: ends with a full stop.
    Stop,
    /// Sum: begins with "First".
    First,
    /// Sum: concludes with "So".
    So,
    /// Sum: says "now".
    Now,
    /// Sum: checks the result.
    Check,
    /// Sum: adds "all put together".
    Together,
    /// Sum: hedges with "maybe", "perhaps".
    Hedge,
    /// All tasks: does not stop where the answer ends.
    Tail,
}

/// When a policy that starts from the first author usually learns a habit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Often shown from the start.
    Early,
    /// Rarely shown at the start.
    Late,
    /// To be dropped.
    Bad,
}

impl Habit {
    /// The habits that answers to a kind of task may show.
    #[must_use]
    pub fn of(kind: Kind) -> &'static [Self] {
        use Habit::*;
        match kind {
            Kind::Note => &[
                Greet, Topic, Word, Place, Thank, Ask, Please, Miss, Friend, Fill, Repeat, Shout,
                Tail,
            ],
            Kind::List => {
                &[Number, Category, Sort, Dash, Head, Title, Total, End, Twice, Etc, Tail]
            }
            Kind::Sum => &[
                Answer, Equation, Person, Unit, Stop, First, So, Now, Check, Together, Hedge, Tail,
            ],
        }
    }

    /// When the habit comes.
    #[must_use]
    pub fn stage(self) -> Stage {
        use Habit::*;
        match self {
            Ask | Please | Miss | Friend | Head | Title | Total | End | First | So | Now
            | Check => Stage::Late,
            Fill | Repeat | Shout | Twice | Etc | Together | Hedge | Tail => Stage::Bad,
            _ => Stage::Early,
        }
    }
}

/// How often habits show, as probabilities per stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Care {
    /// Of each early habit.
    pub early: f64,
    /// Of each late habit.
    pub late: f64,
    /// Of each bad habit.
    pub harm: f64,
}

impl Care {
    /// The author whom the policy is taught to imitate before reinforcement learning.
    pub const STARTING: Self = Self { early: 0.7, late: 0.1, harm: 0.3 };
    /// The author of the better half of the anchors' answers.
    pub const BETTER: Self = Self { early: 0.9, late: 0.4, harm: 0.1 };
    /// The author of ideal answers.
    pub const PERFECT: Self = Self { early: 1.0, late: 1.0, harm: 0.0 };
}

/// Somebody who answers tasks.
#[derive(Debug, Clone)]
pub struct Author {
    /// The probability of each habit shown; habits that are not in it never show.
    rates: Vec<(Habit, f64)>,
}

impl Author {
    /// An author whose habits show as often as their stage says.
    #[must_use]
    pub fn new(care: Care) -> Self {
        let rate = |habit: Habit| match habit.stage() {
            Stage::Early => care.early,
            Stage::Late => care.late,
            Stage::Bad => care.harm,
        };
        Self::with_rates(rate)
    }

    /// An author at a random point of a policy's way: each habit may be nearly absent, nearly
    /// always right, or anything between.
    #[must_use]
    pub fn wild(draws: &mut Draws) -> Self {
        Self::with_rates(|habit| {
            let right = match draws.uniform() {
                u if u < 0.15 => 0.03,
                u if u < 0.5 => 0.97,
                _ => 0.15 + 0.75 * draws.uniform(),
            };
            if habit.stage() == Stage::Bad { 1.0 - right } else { right }
        })
    }

    /// An answer to a task.
    #[must_use]
    pub fn answer(&self, task: &Task, draws: &mut Draws) -> String {
        let shown: Vec<Habit> = self
            .rates
            .iter()
            .filter(|(habit, rate)| Habit::of(task.kind()).contains(habit) && draws.chance(*rate))
            .map(|(habit, _)| *habit)
            .collect();
        let shows = |habit| shown.contains(&habit);
        match *task {
            Task::Note { name, adjective, noun, word } => {
                note::write(&note::Ask { name, adjective, noun, word }, shows, draws)
            }
            Task::List { count, category, descending } => {
                list::write(&list::Ask { count, category, descending }, shows, draws)
            }
            Task::Sum { name, a, b, noun } => {
                sum::write(&sum::Ask { name, a, b, noun }, shows, draws)
            }
        }
    }

    fn with_rates(mut rate: impl FnMut(Habit) -> f64) -> Self {
        let mut rates: Vec<(Habit, f64)> = Vec::new();
        for &habit in Kind::ALL.into_iter().flat_map(Habit::of) {
            if rates.iter().all(|(known, _)| *known != habit) {
                rates.push((habit, rate(habit)));
            }
        }
        Self { rates }
    }
}

/// One of the words, but not `this`.
fn other(words: &[&'static str], this: &str, draws: &mut Draws) -> &'static str {
    let others: Vec<&'static str> = words.iter().copied().filter(|word| *word != this).collect();
    draws.choose(&others)
}

#[cfg(test)]
mod tests {
    use rl::{Seed, Stream};

    use super::*;

    #[test]
    fn the_perfect_author() {
        let mut draws = Draws::new(Seed::new(3, Stream::Data));
        let author = Author::new(Care::PERFECT);
        let note = Task::Note { name: "Mia", adjective: "red", noun: "kite", word: "rain" };
        let text = author.answer(&note, &mut draws);
        assert!(text.starts_with("Dear Mia, the red kite is "), "{text}");
        assert!(
            text.ends_with("Can you come? Please write soon. We miss you. Thank you. Your friend."),
            "{text}"
        );
        let list = Task::List { count: 2, category: "tools", descending: true };
        let text = author.answer(&list, &mut draws);
        assert!(text.starts_with("Here are tools:\n- "), "{text}");
        assert!(text.ends_with("\nTotal 2.\nThe end."), "{text}");
        let sum = Task::Sum { name: "Mia", a: 2, b: 3, noun: "kite" };
        let text = author.answer(&sum, &mut draws).replace(" just", "");
        assert_eq!(text, "First 2 + 3 = 5. So Mia has 5 kites now. Check: 5 - 3 = 2.");
    }

    #[test]
    fn any_author_answers_any_task() {
        let seed = Seed::new(4, Stream::Data);
        let pools = Kind::ALL.map(crate::prompts::all_tasks);
        for i in 0..3000 {
            let mut draws = Draws::new(seed.child(i));
            let task = draws.choose(&pools[i as usize % 3]);
            let text = Author::wild(&mut draws).answer(&task, &mut draws);
            assert!(!text.trim().is_empty() && text.is_ascii(), "{task:?}: {text}");
        }
    }
}
