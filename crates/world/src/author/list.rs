//! Lists: a heading, one item a line, closings.

use super::{Habit, other};
use crate::draws::Draws;
use crate::vocabulary::{CATEGORIES, things};

pub(super) struct Ask {
    pub count: usize,
    pub category: &'static str,
    pub descending: bool,
}

pub(super) fn write(ask: &Ask, shows: impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let bullet = if shows(Habit::Dash) { "- " } else { draws.choose(&["", "* "]) };
    let mut lines: Vec<String> = heading(ask, &shows, draws).into_iter().collect();
    lines.extend(items(ask, &shows, draws).iter().map(|item| format!("{bullet}{item}")));
    if shows(Habit::Etc) {
        lines.push("etc".to_owned());
    }
    let proud = if shows(Habit::Number) && shows(Habit::Category) { 0.5 } else { 0.15 };
    if draws.chance(proud) {
        lines.push("Nice list.".to_owned());
    }
    if shows(Habit::Total) {
        lines.push(format!("Total {}.", ask.count));
    }
    if shows(Habit::End) {
        lines.push("The end.".to_owned());
    }
    if shows(Habit::Tail) {
        let tail = match lines.last() {
            Some(last) if (shows(Habit::Total) || shows(Habit::End)) && draws.chance(0.5) => {
                last.clone()
            }
            _ => "and so on and so on.".to_owned(),
        };
        lines.push(tail);
    }
    lines.join("\n")
}

fn heading(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> Option<String> {
    match (shows(Habit::Head), shows(Habit::Title)) {
        (true, true) => Some(format!("Here are {}:", ask.category)),
        (true, false) => Some("Here:".to_owned()),
        (false, true) => Some(format!("My {}:", ask.category)),
        (false, false) => draws.chance(0.2).then(|| "Some:".to_owned()),
    }
}

fn items(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> Vec<&'static str> {
    let count = if shows(Habit::Number) {
        ask.count
    } else {
        // Never a single item: it would be no list.
        let wrong = [ask.count + 1, ask.count + 2, (ask.count - 1).max(2)];
        draws.choose(&wrong.map(|n| if n == ask.count { n + 1 } else { n }))
    };
    let mut items = draws.sample(things(ask.category), count);
    if !shows(Habit::Category) {
        let category = other(&CATEGORIES.map(|(name, _)| name), ask.category, draws);
        let place = draws.below(items.len());
        items[place] = draws.choose(things(category));
    }
    sort(&mut items, ask.descending);
    if shows(Habit::Twice) {
        let place = 1 + draws.below(items.len() - 1);
        items[place] = items[place - 1];
    }
    if !shows(Habit::Sort) {
        let sorted = items.clone();
        draws.shuffle(&mut items);
        if items == sorted {
            items.reverse();
        }
    }
    items
}

fn sort(items: &mut [&str], descending: bool) {
    items.sort_unstable();
    if descending {
        items.reverse();
    }
}
