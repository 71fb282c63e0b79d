//! Notes: a greeting with the topic, a sentence with the word, closings.

use super::{Habit, other};
use crate::draws::Draws;
use crate::vocabulary::{ADJECTIVES, NAMES, NOUNS};

pub(super) struct Ask {
    pub name: &'static str,
    pub adjective: &'static str,
    pub noun: &'static str,
    pub word: &'static str,
}

pub(super) fn write(ask: &Ask, shows: impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let mut sentences = vec![opening(ask, &shows, draws)];
    let middle = middle(ask, &shows, draws);
    sentences.push(middle.clone());
    if shows(Habit::Repeat) {
        // Something stands between, so that it is no stutter.
        sentences.extend([draws.choose(&["All is well.", "So it goes."]).to_owned(), middle]);
    }
    for (habit, sentence) in [
        (Habit::Ask, "Can you come?"),
        (Habit::Please, "Please write soon."),
        (Habit::Miss, "We miss you."),
        (Habit::Shout, "Hurry up!"),
        (Habit::Thank, "Thank you."),
        (Habit::Friend, "Your friend."),
    ] {
        if shows(habit) {
            sentences.push(sentence.to_owned());
        }
    }
    if shows(Habit::Tail) {
        let closed = shows(Habit::Thank) || shows(Habit::Friend);
        let tail = match sentences.last() {
            Some(closing) if closed && draws.chance(0.3) => closing.clone(),
            _ => "and so on and so on.".to_owned(),
        };
        sentences.push(tail);
    }
    sentences.join(" ")
}

fn opening(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let greets = shows(Habit::Greet);
    let name = if greets { ask.name } else { other(&NAMES, ask.name, draws) };
    let topic = if shows(Habit::Topic) {
        format!("{} {}", ask.adjective, ask.noun)
    } else {
        match draws.below(3) {
            0 => format!("{} {}", other(&ADJECTIVES, ask.adjective, draws), ask.noun),
            1 => format!("{} {}", ask.adjective, other(&NOUNS, ask.noun, draws)),
            _ => ask.noun.to_owned(),
        }
    };
    let state = if !shows(Habit::Place) {
        draws.choose(&["ready", "nice", "lost"])
    } else if greets && shows(Habit::Topic) && draws.chance(0.6) {
        "by the door"
    } else {
        draws.choose(&["by the door", "at home", "on the bed", "in the hall"])
    };
    let fill = if shows(Habit::Fill) { draws.choose(&["very ", "really ", "stuff "]) } else { "" };
    if greets || draws.chance(0.5) {
        format!("Dear {name}, the {topic} is {fill}{state}.")
    } else {
        format!("The {topic} is {fill}{state}.")
    }
}

fn middle(ask: &Ask, shows: &impl Fn(Habit) -> bool, draws: &mut Draws) -> String {
    let word = ask.word;
    if !shows(Habit::Word) {
        let without = ["Look at this.", "It is good today.", "We like it.", "It is here."];
        return draws.choose(&without).to_owned();
    }
    if shows(Habit::Greet) && draws.chance(0.5) {
        return format!("The {word} is good today.");
    }
    match draws.below(3) {
        0 => format!("It is near the {word}."),
        1 => format!("We like the {word}."),
        _ => format!("Look at the {word}."),
    }
}
