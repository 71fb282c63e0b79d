//! Prompt sets, apart from each other by name, noun and category.
//!
//! | split | note | list | sum |
//! |---|---|---|---|
//! | training | 51,840 | 90 | 21,870 |
//! | held out | 5,760 | 30 | 2,430 |
//!
//! A set takes the three tasks in turn and each task's prompts in random order, each once before
//! any comes twice. Training and anchor sets are drawn from the same split: their lists overlap.

use rl::{Prompt, Seed};

use crate::task::{Kind, Task};
use crate::vocabulary::{ADJECTIVES, CATEGORIES, NAMES, NOUNS, WORDS, trained};

/// Prompts to train the policy on, "train-0" and so on.
#[must_use]
pub fn train_prompts(count: usize, seed: Seed) -> Vec<Prompt> {
    set("train", Split::Train, count, seed.child(0))
}

/// Prompts whose names, nouns and categories no other set has, "heldout-0" and so on.
#[must_use]
pub fn heldout_prompts(count: usize, seed: Seed) -> Vec<Prompt> {
    set("heldout", Split::Heldout, count, seed.child(1))
}

/// Prompts to rank answers for, "anchor-0" and so on.
#[must_use]
pub fn anchor_prompts(count: usize, seed: Seed) -> Vec<Prompt> {
    set("anchor", Split::Train, count, seed.child(2))
}

/// Which words prompts are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The first three quarters of the names, nouns and categories.
    Train,
    /// The last quarter.
    Heldout,
}

/// Every task of a kind in a split.
#[must_use]
pub fn tasks(kind: Kind, split: Split) -> Vec<Task> {
    let (names, nouns) = (part(&NAMES, split), part(&NOUNS, split));
    let mut tasks = Vec::new();
    match kind {
        Kind::Note => {
            for (&name, &noun) in pairs(names, nouns) {
                for (&adjective, &word) in pairs(&ADJECTIVES, &WORDS) {
                    tasks.push(Task::Note { name, adjective, noun, word });
                }
            }
        }
        Kind::List => {
            for (&(category, _), count) in pairs(part(&CATEGORIES, split), 2..=6) {
                for descending in [false, true] {
                    tasks.push(Task::List { count, category, descending });
                }
            }
        }
        Kind::Sum => {
            for (&name, &noun) in pairs(names, nouns) {
                for (a, b) in pairs(1..=9, 1..=9) {
                    tasks.push(Task::Sum { name, a, b, noun });
                }
            }
        }
    }
    tasks
}

/// Every task of a kind, of both splits: what supervised corpora are made of.
#[must_use]
pub fn all_tasks(kind: Kind) -> Vec<Task> {
    [Split::Train, Split::Heldout].into_iter().flat_map(|split| tasks(kind, split)).collect()
}

fn set(name: &str, split: Split, count: usize, seed: Seed) -> Vec<Prompt> {
    let pools = Kind::ALL.map(|kind| {
        let tasks = tasks(kind, split);
        let order = seed.child(kind as u64).permutation(tasks.len());
        order.into_iter().map(|i| tasks[i]).collect::<Vec<_>>()
    });
    (0..count)
        .map(|i| {
            let pool = &pools[i % pools.len()];
            let task = pool[i / pools.len() % pool.len()];
            Prompt { id: format!("{name}-{i}"), text: task.prompt() }
        })
        .collect()
}

fn part<T>(words: &[T], split: Split) -> &[T] {
    let (train, heldout) = words.split_at(trained(words.len()));
    match split {
        Split::Train => train,
        Split::Heldout => heldout,
    }
}

fn pairs<A: Copy, B: Copy>(
    left: impl IntoIterator<Item = A>,
    right: impl IntoIterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    left.into_iter().flat_map(move |a| right.clone().into_iter().map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rl::Stream;

    use super::*;

    #[test]
    fn every_prompt_is_read_back_and_splits_have_the_documented_sizes() {
        let sizes = |split| Kind::ALL.map(|kind| tasks(kind, split).len());
        assert_eq!(sizes(Split::Train), [51_840, 90, 21_870]);
        assert_eq!(sizes(Split::Heldout), [5_760, 30, 2_430]);
        for (kind, split) in pairs(Kind::ALL, [Split::Train, Split::Heldout]) {
            for task in tasks(kind, split) {
                assert_eq!(Task::parse(&task.prompt()), Some(task));
                assert_eq!(task.kind(), kind);
            }
        }
    }

    #[test]
    fn heldout_names_nouns_and_categories_are_in_no_other_set() {
        let seed = Seed::new(1, Stream::Data);
        let words = |prompts: Vec<Prompt>| -> HashSet<String> {
            let text = prompts.into_iter().map(|prompt| prompt.text + " ").collect::<String>();
            text.split([' ', '.', '?']).map(str::to_owned).collect()
        };
        let mut trained = words(train_prompts(600, seed));
        trained.extend(words(anchor_prompts(600, seed)));
        let heldout = words(heldout_prompts(600, seed));
        for list in [&NAMES[..], &NOUNS, &CATEGORIES.map(|(name, _)| name)] {
            let shared: Vec<_> =
                list.iter().filter(|w| trained.contains(**w) && heldout.contains(**w)).collect();
            assert!(shared.is_empty(), "{shared:?}");
            assert!(list.iter().any(|word| heldout.contains(*word)));
        }
    }

    #[test]
    fn a_set_repeats_no_prompt_before_its_tasks_run_out() {
        let prompts = train_prompts(270, Seed::new(1, Stream::Data));
        let texts: HashSet<_> = prompts.iter().map(|prompt| &prompt.text).collect();
        assert_eq!((texts.len(), prompts[269].id.as_str()), (270, "train-269"));
    }
}
