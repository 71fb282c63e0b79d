//! The words of the world.
//!
//! Of names, nouns and categories the last quarter is held out: prompts of reinforcement learning
//! and of anchors use the first three quarters only, held-out prompts the last quarter only.

/// Whom notes and sums are about.
pub const NAMES: [&str; 24] = [
    "Mia", "Ben", "Ana", "Tom", "Zoe", "Max", "Ivy", "Leo", "Eva", "Sam", "Kim", "Ali", "Rosa",
    "Finn", "Nora", "Omar", "Lily", "Hugo", "Ada", "Jan", "Uma", "Noah", "Tess", "Raj",
];

/// What notes are about and sums count; the plural is formed with "s".
pub const NOUNS: [&str; 20] = [
    "kite", "cup", "hat", "boat", "lamp", "book", "desk", "chair", "coat", "drum", "bag", "bell",
    "clock", "plate", "rope", "shoe", "tent", "ring", "key", "map",
];

/// How the noun of a note is.
pub const ADJECTIVES: [&str; 12] =
    ["red", "blue", "green", "old", "new", "big", "small", "wet", "dry", "soft", "cold", "warm"];

/// Words that a note is asked to use.
pub const WORDS: [&str; 16] = [
    "wind", "rain", "sun", "snow", "moon", "river", "garden", "market", "school", "music", "bread",
    "winter", "summer", "night", "morning", "bridge",
];

/// A kind of thing to list, and twelve things of it in alphabetical order.
pub type Category = (&'static str, [&'static str; 12]);

/// What lists are about. No thing stands in two categories.
pub const CATEGORIES: [Category; 12] = [
    (
        "animals",
        ["bear", "cat", "dog", "duck", "fox", "frog", "goat", "hen", "lion", "mouse", "owl", "pig"],
    ),
    (
        "fruits",
        [
            "apple", "banana", "cherry", "date", "fig", "grape", "kiwi", "lemon", "mango",
            "orange", "peach", "plum",
        ],
    ),
    (
        "tools",
        [
            "axe", "brush", "drill", "file", "hammer", "knife", "nail", "pliers", "rake", "saw",
            "shovel", "wrench",
        ],
    ),
    (
        "colors",
        [
            "black", "blue", "brown", "gray", "green", "pink", "purple", "red", "silver", "teal",
            "white", "yellow",
        ],
    ),
    (
        "trees",
        [
            "ash", "birch", "cedar", "elm", "fir", "larch", "maple", "oak", "palm", "spruce",
            "willow", "yew",
        ],
    ),
    (
        "foods",
        [
            "butter", "cake", "cheese", "egg", "honey", "jam", "noodle", "pasta", "rice", "soup",
            "toast", "waffle",
        ],
    ),
    (
        "clothes",
        [
            "apron", "belt", "cap", "dress", "glove", "jacket", "mitten", "scarf", "shirt", "sock",
            "tie", "vest",
        ],
    ),
    (
        "sports",
        [
            "boxing", "chess", "darts", "fencing", "golf", "hockey", "judo", "karate", "polo",
            "rugby", "soccer", "tennis",
        ],
    ),
    (
        "jobs",
        [
            "actor", "baker", "cook", "doctor", "farmer", "guard", "judge", "miner", "nurse",
            "pilot", "singer", "tailor",
        ],
    ),
    (
        "fish",
        [
            "bass", "carp", "cod", "eel", "haddock", "herring", "perch", "pike", "salmon", "shark",
            "trout", "tuna",
        ],
    ),
    (
        "rooms",
        [
            "attic", "bath", "cellar", "den", "garage", "kitchen", "loft", "nursery", "office",
            "pantry", "study", "veranda",
        ],
    ),
    (
        "flowers",
        [
            "aster", "clover", "daisy", "iris", "jasmine", "lilac", "lotus", "orchid", "pansy",
            "poppy", "rose", "tulip",
        ],
    ),
];

/// How many of a list of words reinforcement learning may see: three quarters.
#[must_use]
pub const fn trained(words: usize) -> usize {
    words * 3 / 4
}

/// The things of a category; nothing for a word that is none.
#[must_use]
pub fn things(category: &str) -> &'static [&'static str] {
    CATEGORIES.iter().find(|(name, _)| *name == category).map_or(&[], |(_, things)| things)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn things_are_sorted_and_stand_in_one_category() {
        assert!(CATEGORIES.iter().all(|(_, things)| things.is_sorted()));
        let all: HashSet<_> = CATEGORIES.iter().flat_map(|(_, things)| things).collect();
        assert_eq!(all.len(), 144);
    }
}
