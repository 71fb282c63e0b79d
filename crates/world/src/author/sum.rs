//! Sums: the addition, the answer in a sentence, a check.

use super::{Habit, other};
use crate::draws::Draws;
use crate::vocabulary::{NAMES, NOUNS};

pub(super) struct Ask {
    pub name: &'static str,
    pub a: usize,
    pub b: usize,
    pub noun: &'static str,
}

pub(super) fn write(ask: &Ask, shows: impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let sum = ask.a + ask.b;
    let equation = equation(ask, &shows, draws);
    let mut text = match (shows(Habit::First), equation) {
        (true, Some(equation)) => format!("First {equation}. "),
        (true, None) => "First we add. ".to_owned(),
        (false, Some(equation)) => format!("{equation}. "),
        (false, None) => String::new(),
    };
    text.push_str(&sentence(ask, &shows, draws));
    if shows(Habit::Check) {
        text.push_str(&format!(". Check: {sum} - {} = {}", ask.b, ask.a));
    }
    if shows(Habit::Tail) {
        text.push_str(". and so on and so on");
    }
    if shows(Habit::Stop) {
        text.push('.');
    }
    text
}

fn equation(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> Option<String> {
    let (a, b) = (ask.a, ask.b);
    if shows(Habit::Equation) {
        return Some(format!("{a} + {b} = {}", a + b));
    }
    match draws.below(3) {
        0 => Some(format!("{a} + {b} = {}", a + b + 1)),
        // True, but not what was asked.
        1 => Some(format!("{} + {b} = {}", a + 1, a + b + 1)),
        _ => None,
    }
}

fn sentence(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let sum = ask.a + ask.b;
    let so = if shows(Habit::So) { "So " } else { "" };
    let who = if shows(Habit::Person) {
        ask.name
    } else {
        let stranger = other(&NAMES, ask.name, draws);
        draws.choose(&["He", "She", stranger])
    };
    let hedge = if shows(Habit::Hedge) { draws.choose(&["maybe ", "perhaps "]) } else { "" };
    let sure = if shows(Habit::Answer) && shows(Habit::Equation) { 0.5 } else { 0.15 };
    let just = if draws.chance(sure) { "just " } else { "" };
    let number = if shows(Habit::Answer) {
        sum
    } else {
        draws.choose(&[sum - 2, sum - 1, sum + 1, sum + 2])
    };
    let noun = if shows(Habit::Unit) {
        ask.noun
    } else {
        let thing = other(&NOUNS, ask.noun, draws);
        draws.choose(&["thing", thing])
    };
    let now = if shows(Habit::Now) { " now" } else { "" };
    let together = match (shows(Habit::Together), shows(Habit::Tail)) {
        (true, true) => " all put together all put together",
        (true, false) => " all put together",
        _ => "",
    };
    format!("{so}{who} has {hedge}{just}{number} {noun}s{now}{together}")
}
