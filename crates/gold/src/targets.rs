//! Rubrics made with gold: noisy targets for the generator's supervised start, and the oracle's.
//!
//! Targets teach form and what varies in a group, little about direction: that is left to the
//! anchors. Items vary in the group wherever enough do; signs are right with probability .9 on
//! early and bad qualities, .5 on late ones, and random on everything else; weights are noisy.

use rl::{Check, Polarity, Rubric, RubricItem, Seed};
use rubric::met;
use world::author::Stage;
use world::bank::bank;
use world::prompts::all_tasks;
use world::{Author, Draws, Kind, Task};

use crate::quality::{Quality, qualities};

/// A group of answers and rubrics to imitate.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What was asked.
    pub task: Task,
    /// The answers, by one author somewhere on a policy's way.
    pub completions: Vec<String>,
    /// Noisy targets.
    pub rubrics: Vec<Rubric>,
}

/// Examples over all tasks, held-out prompts included, with `group_size` answers and `rubrics`
/// targets each.
#[must_use]
pub fn examples(count: usize, group_size: usize, rubrics: usize, seed: Seed) -> Vec<Example> {
    let pools = Kind::ALL.map(all_tasks);
    (0..count)
        .map(|i| {
            let mut draws = Draws::new(seed.child(i as u64));
            let task = draws.choose(&pools[i % pools.len()]);
            let author = Author::wild(&mut draws);
            let completions: Vec<String> =
                (0..group_size).map(|_| author.answer(&task, &mut draws)).collect();
            let rubrics =
                (0..rubrics).map(|_| noisy_target(&task, &completions, &mut draws)).collect();
            Example { task, completions, rubrics }
        })
        .collect()
}

/// A rubric of 5 to 7 items in the bank's order.
#[must_use]
pub fn noisy_target(task: &Task, group: &[String], draws: &mut Draws) -> Rubric {
    let truth = qualities(task, "");
    let quality_of = |phrase: &str| truth.iter().find(|quality| quality.item == phrase);
    let bank = bank(task);
    // Weighted sampling without replacement: the largest u^(1/w) win (Efraimidis and Spirakis
    // 2006). Qualities weigh 3, everything else 1; what does not vary comes after what does.
    let mut drawn: Vec<(bool, f64, usize)> = bank
        .iter()
        .enumerate()
        .map(|(place, (phrase, check))| {
            let weight = if quality_of(phrase).is_some() { 3.0 } else { 1.0 };
            (varies(check, group), draws.uniform().powf(1.0 / weight), place)
        })
        .collect();
    drawn.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let varying = drawn.iter().filter(|(varies, ..)| *varies).count();
    let wanted = 5 + draws.below(3);
    let mut places: Vec<usize> =
        drawn.iter().take(wanted.min(varying.max(5))).map(|(.., place)| *place).collect();
    places.sort_unstable();
    let items = places.into_iter().map(|place| {
        let (phrase, check) = &bank[place];
        let (weight, polarity) = noisy_opinion(quality_of(phrase), draws);
        item(phrase, check, weight, polarity)
    });
    Rubric { items: items.collect() }
}

/// The best rubric for a group: the five heaviest qualities that vary in it, with their right
/// signs; the five heaviest of all where none does. A ceiling for the generator.
#[must_use]
pub fn oracle_rubric(task: &Task, group: &[String]) -> Rubric {
    let judged: Vec<Vec<Quality>> = group.iter().map(|text| qualities(task, text)).collect();
    let varies = |index: usize| {
        let held = judged.iter().filter(|qualities| qualities[index].holds).count();
        0 < held && held < judged.len()
    };
    let mut best: Vec<(bool, Quality)> =
        qualities(task, "").into_iter().enumerate().map(|(i, q)| (varies(i), q)).collect();
    if best.iter().any(|(varies, _)| *varies) {
        best.retain(|(varies, _)| *varies);
    }
    best.sort_by_key(|(_, quality)| std::cmp::Reverse(quality.weight));
    best.truncate(5);
    let best = |phrase: &str| best.iter().find(|(_, quality)| quality.item == phrase);
    let items = bank(task).into_iter().filter_map(|(phrase, check)| {
        let (_, quality) = best(&phrase)?;
        Some(item(&phrase, &check, weight(quality), polarity(quality)))
    });
    Rubric { items: items.collect() }
}

fn noisy_opinion(quality: Option<&Quality>, draws: &mut Draws) -> (u8, Polarity) {
    let coin = if draws.chance(0.5) { Polarity::Positive } else { Polarity::Negative };
    let Some(quality) = quality else {
        return (1 + draws.below(5) as u8, coin);
    };
    let noisy = (weight(quality) + draws.below(3) as u8).saturating_sub(1).clamp(1, 5);
    let sign = match (quality.stage, draws.chance(0.9)) {
        (Stage::Late, _) => coin,
        (_, true) => polarity(quality),
        (_, false) => match polarity(quality) {
            Polarity::Positive => Polarity::Negative,
            Polarity::Negative => Polarity::Positive,
        },
    };
    (noisy, sign)
}

/// A quality's weight on the scale of rubrics: 5 for the heaviest, 1 for the lightest.
fn weight(quality: &Quality) -> u8 {
    quality.weight.div_ceil(50).clamp(1, 5) as u8
}

fn polarity(quality: &Quality) -> Polarity {
    if quality.stage == Stage::Bad { Polarity::Negative } else { Polarity::Positive }
}

fn varies(check: &Check, group: &[String]) -> bool {
    let met = group.iter().filter(|text| met(check, text)).count();
    0 < met && met < group.len()
}

fn item(phrase: &str, check: &Check, weight: u8, polarity: Polarity) -> RubricItem {
    RubricItem { criterion: phrase.to_owned(), weight, polarity, check: Some(check.clone()) }
}
