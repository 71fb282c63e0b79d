//! The tagged rubric form as an automaton over token ids, for constrained decoding.
//!
//! A rubric is weight tag, phrase, weight tag, phrase, .., end. Phrases come from a bank, as the
//! token sequences that the caller's tokenizer gives them; one may be a prefix of another. No
//! phrase is used twice, and no prefix is offered whose phrases are all used, so every walk of
//! allowed tokens ends in a valid rubric: one that [`crate::parse::parse_tagged`] accepts, as long
//! as different phrases of the bank compile to different checks.

use std::collections::BTreeMap;
use std::ops::Range;

use rl::TokenSet;

use crate::parse::Limits;

mod state;

pub use state::{NotAllowed, State};

/// The rubrics that may be written over one bank of phrases.
#[derive(Debug, Clone)]
pub struct Grammar {
    nodes: Vec<Node>,
    tags: TokenSet,
    tags_or_end: TokenSet,
    end: TokenSet,
    eos: u32,
    limits: Limits,
    vocab_size: usize,
    phrases: u32,
}

/// A prefix of phrases. Phrases are numbered in the order of their tokens, so that those with a
/// common prefix are a range.
#[derive(Debug, Clone, Default)]
struct Node {
    next: BTreeMap<u32, usize>,
    /// The keys of `next`: what is allowed while no phrase of the range is used.
    next_set: TokenSet,
    phrases: Range<u32>,
    /// Whether the prefix is a phrase: the first of its range.
    is_phrase: bool,
}

/// What a [`Grammar`] is made from.
#[derive(Debug, Clone, Copy)]
pub struct Bank<'a> {
    /// The ids of the weight tags.
    pub tags: &'a [u32],
    /// The phrases' tokens.
    pub phrases: &'a [Vec<u32>],
    /// The id that ends a rubric.
    pub eos: u32,
    /// The number of ids.
    pub vocab_size: usize,
}

/// A bank or limits that no rubric can be written with, or not in one way only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// An id at or beyond the vocabulary's size.
    #[error("token {token} is outside of the vocabulary of {vocab_size}")]
    Outside {
        /// The id.
        token: u32,
        /// The number of ids.
        vocab_size: usize,
    },
    /// No weight tags.
    #[error("no weight tags")]
    NoTags,
    /// A weight tag is the end token.
    #[error("weight tag {0} is the end token")]
    TagIsEnd(u32),
    /// A phrase without tokens.
    #[error("phrase {0} (from 0) has no tokens")]
    EmptyPhrase(usize),
    /// A phrase holds a weight tag or the end token.
    #[error("phrase {phrase} (from 0) holds token {token}, a weight tag or the end")]
    Reserved {
        /// The phrase's place in the bank.
        phrase: usize,
        /// The id.
        token: u32,
    },
    /// Two phrases have the same tokens.
    #[error("phrases {0} and {1} (from 0) have the same tokens")]
    SamePhrase(usize, usize),
    /// Limits that no number of items meets.
    #[error("{min} to {max} items of {phrases} phrases (expected 1 <= min <= max, min <= phrases)")]
    Limits {
        /// The lower limit.
        min: usize,
        /// The upper limit.
        max: usize,
        /// Phrases of the bank.
        phrases: usize,
    },
}

impl Grammar {
    /// The rubrics over a bank with `min_items..=max_items` items.
    ///
    /// # Errors
    /// [`GrammarError`] where the bank is ambiguous or the limits cannot be met.
    pub fn new(bank: Bank<'_>, limits: Limits) -> Result<Self, GrammarError> {
        let order = checked_order(bank, limits)?;
        let set = |ids: &[u32]| {
            let mut set = TokenSet::empty(bank.vocab_size);
            ids.iter().for_each(|&id| set.insert(id));
            set
        };
        let mut tags_or_end = set(bank.tags);
        tags_or_end.insert(bank.eos);
        let mut nodes = trie(order.iter().map(|&at| bank.phrases[at].as_slice()));
        for node in &mut nodes {
            node.next_set = set(&node.next.keys().copied().collect::<Vec<_>>());
        }
        Ok(Self {
            nodes,
            tags: set(bank.tags),
            tags_or_end,
            end: set(&[bank.eos]),
            eos: bank.eos,
            limits,
            vocab_size: bank.vocab_size,
            phrases: order.len() as u32,
        })
    }

    /// The state before the first token.
    #[must_use]
    pub fn state(&self) -> State<'_> {
        State::new(self)
    }
}

/// The phrases' places in the order of their tokens, if bank and limits make a grammar.
fn checked_order(bank: Bank<'_>, limits: Limits) -> Result<Vec<usize>, GrammarError> {
    let Bank { tags, phrases, eos, vocab_size } = bank;
    let ids = tags.iter().chain(phrases.iter().flatten()).chain([&eos]);
    if let Some(&token) = ids.into_iter().find(|&&id| id as usize >= vocab_size) {
        return Err(GrammarError::Outside { token, vocab_size });
    }
    if tags.is_empty() {
        return Err(GrammarError::NoTags);
    }
    if tags.contains(&eos) {
        return Err(GrammarError::TagIsEnd(eos));
    }
    for (phrase, tokens) in phrases.iter().enumerate() {
        if tokens.is_empty() {
            return Err(GrammarError::EmptyPhrase(phrase));
        }
        if let Some(&token) = tokens.iter().find(|&&id| id == eos || tags.contains(&id)) {
            return Err(GrammarError::Reserved { phrase, token });
        }
    }
    let mut order: Vec<usize> = (0..phrases.len()).collect();
    order.sort_by_key(|&at| &phrases[at]);
    if let Some(pair) = order.windows(2).find(|pair| phrases[pair[0]] == phrases[pair[1]]) {
        return Err(GrammarError::SamePhrase(pair[0], pair[1]));
    }
    let Limits { min_items: min, max_items: max } = limits;
    if min == 0 || min > max || min > phrases.len() {
        return Err(GrammarError::Limits { min, max, phrases: phrases.len() });
    }
    Ok(order)
}

/// The prefixes of phrases given in the order of their tokens; the root, the empty one, first.
fn trie<'a>(phrases: impl Iterator<Item = &'a [u32]>) -> Vec<Node> {
    let mut nodes = vec![Node::default()];
    for (number, phrase) in (0..).zip(phrases) {
        let mut at = 0;
        nodes[at].phrases.end = number + 1;
        for &token in phrase {
            let new = nodes.len();
            at = *nodes[at].next.entry(token).or_insert(new);
            if at == new {
                nodes.push(Node { phrases: number..number, ..Node::default() });
            }
            nodes[at].phrases.end = number + 1;
        }
        nodes[at].is_phrase = true;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const EOS: u32 = 0;
    pub(super) const TAGS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    pub(super) const VOCAB: usize = 20;

    pub(super) fn grammar(
        phrases: &[Vec<u32>],
        min: usize,
        max: usize,
    ) -> Result<Grammar, GrammarError> {
        let bank = Bank { tags: &TAGS, phrases, eos: EOS, vocab_size: VOCAB };
        Grammar::new(bank, Limits { min_items: min, max_items: max })
    }

    #[test]
    fn ambiguous_banks_are_refused() {
        use GrammarError::{EmptyPhrase, NoTags, Outside, Reserved, SamePhrase, TagIsEnd};
        let one = vec![11];
        let vocab_size = VOCAB;
        #[rustfmt::skip]
        let table = [
            (vec![vec![11, 20]], Outside { token: 20, vocab_size }),
            (vec![one.clone(), vec![]], EmptyPhrase(1)),
            (vec![vec![11, 3]], Reserved { phrase: 0, token: 3 }),
            (vec![vec![EOS]], Reserved { phrase: 0, token: EOS }),
            (vec![one.clone(), vec![12], one.clone()], SamePhrase(0, 2)),
        ];
        for (phrases, error) in table {
            assert_eq!(grammar(&phrases, 1, 1).err(), Some(error));
        }
        let limits = Limits { min_items: 1, max_items: 1 };
        for (tags, error) in [(&[][..], NoTags), (&[EOS], TagIsEnd(EOS))] {
            let bank = Bank { tags, phrases: std::slice::from_ref(&one), eos: EOS, vocab_size };
            assert_eq!(Grammar::new(bank, limits).err(), Some(error));
        }
    }

    #[test]
    fn limits_that_cannot_be_met_are_refused() {
        let phrases = [vec![11], vec![12]];
        for (min, max) in [(0, 1), (3, 3), (2, 1)] {
            let error = GrammarError::Limits { min, max, phrases: 2 };
            assert_eq!(grammar(&phrases, min, max).err(), Some(error));
        }
        assert!(grammar(&phrases, 2, 9).is_ok());
    }
}
