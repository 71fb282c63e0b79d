//! A rubric being written.

use std::ops::Range;

use rl::TokenSet;

use super::Grammar;

/// Where a rubric being written stands.
#[derive(Debug, Clone)]
pub struct State<'g> {
    grammar: &'g Grammar,
    at: At,
    /// The numbers of the phrases before the current one.
    used: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    /// Behind a weight tag and a prefix of phrases.
    Prefix(usize),
    End,
}

/// A token that the grammar does not allow here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token {token} is not allowed after {items} complete items of a rubric")]
pub struct NotAllowed {
    /// The id.
    pub token: u32,
    /// The complete items before it.
    pub items: usize,
}

impl<'g> State<'g> {
    pub(super) fn new(grammar: &'g Grammar) -> Self {
        Self { grammar, at: At::Start, used: Vec::new() }
    }

    /// The tokens allowed next: never empty before the end, empty after it.
    #[must_use]
    pub fn allowed(&self) -> TokenSet {
        let grammar = self.grammar;
        let mut allowed = match self.at {
            At::Start => return grammar.tags.clone(),
            At::End => return TokenSet::empty(grammar.vocab_size),
            At::Prefix(at) if self.used_in(&grammar.nodes[at].phrases) == 0 => {
                grammar.nodes[at].next_set.clone()
            }
            At::Prefix(at) => {
                let mut open = TokenSet::empty(grammar.vocab_size);
                for (&token, &next) in &grammar.nodes[at].next {
                    if self.is_open(next) {
                        open.insert(token);
                    }
                }
                open
            }
        };
        if self.completes().is_some() {
            let items = self.items();
            let more = items < grammar.limits.max_items && items < grammar.phrases as usize;
            let after = match (more, items >= grammar.limits.min_items) {
                (true, true) => &grammar.tags_or_end,
                (true, false) => &grammar.tags,
                (false, _) => &grammar.end,
            };
            after.iter().for_each(|id| allowed.insert(id));
        }
        allowed
    }

    /// Takes one token.
    ///
    /// # Errors
    /// [`NotAllowed`] for a token that is not in [`State::allowed`]; the state stays as it was.
    pub fn advance(&mut self, token: u32) -> Result<(), NotAllowed> {
        if !self.allowed().contains(token) {
            return Err(NotAllowed { token, items: self.items() });
        }
        let next = match self.at {
            At::Prefix(at) => self.grammar.nodes[at].next.get(&token).copied(),
            At::Start | At::End => None,
        };
        // A phrase holds neither tags nor the end, so these complete the item before them.
        self.at = if let Some(next) = next {
            At::Prefix(next)
        } else {
            self.used.extend(self.completes());
            if token == self.grammar.eos { At::End } else { At::Prefix(0) }
        };
        Ok(())
    }

    /// Whether the end was taken.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.at == At::End
    }

    /// The complete items so far, one included that may still grow into a longer phrase.
    #[must_use]
    pub fn items(&self) -> usize {
        self.used.len() + usize::from(self.completes().is_some())
    }

    /// The phrase that the tokens since the last tag are, if they are one that is not used.
    fn completes(&self) -> Option<u32> {
        let At::Prefix(at) = self.at else { return None };
        let node = &self.grammar.nodes[at];
        let phrase = node.phrases.start;
        (node.is_phrase && !self.used.contains(&phrase)).then_some(phrase)
    }

    fn is_open(&self, node: usize) -> bool {
        let phrases = &self.grammar.nodes[node].phrases;
        self.used_in(phrases) < phrases.len()
    }

    fn used_in(&self, phrases: &Range<u32>) -> usize {
        self.used.iter().filter(|phrase| phrases.contains(phrase)).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rl::{Check, Seed};

    use super::super::tests::{EOS, TAGS, grammar};
    use super::*;
    use crate::parse::{Limits, parse_tagged};

    fn allowed(grammar: &Grammar, tokens: &[u32]) -> Vec<u32> {
        let mut state = grammar.state();
        tokens.iter().for_each(|&token| state.advance(token).expect("allowed"));
        state.allowed().iter().collect()
    }

    #[test]
    fn tokens_are_allowed_by_place_use_and_count() {
        // 11; 11 12; 13 14; 13 15 with 1 to 3 items.
        let phrases = [vec![13, 15], vec![11], vec![11, 12], vec![13, 14]];
        let g = grammar(&phrases, 1, 3).expect("a grammar");
        let tags_end: Vec<u32> = (0..=10).collect();
        let plus = |id| tags_end.iter().copied().chain([id]).collect::<Vec<u32>>();
        for (tokens, expected) in [
            (&[][..], TAGS.to_vec()),
            (&[1], vec![11, 13]),
            // A phrase, and the beginning of a longer one.
            (&[1, 11], plus(12)),
            (&[1, 11, 12], tags_end.clone()),
            // The short one is used: its tokens lead on only.
            (&[1, 11, 2, 11], vec![12]),
            // The long one is used: the short one is left.
            (&[1, 11, 12, 2, 11], tags_end.clone()),
            // Both are used: not begun again.
            (&[1, 11, 12, 2, 11, 3], vec![13]),
            (&[1, 13, 14, 2, 13], vec![15]),
            (&[1, 13, 14, 2, 13, 15, 3], vec![11]),
            // Three items are the most; the third may still grow.
            (&[1, 13, 14, 2, 13, 15, 3, 11], vec![EOS, 12]),
            (&[1, 11, EOS], vec![]),
        ] {
            assert_eq!(allowed(&g, tokens), expected, "{tokens:?}");
        }
        let two = grammar(&phrases, 2, 4).expect("a grammar");
        assert_eq!(allowed(&two, &[1, 13, 14]), TAGS);
        // All phrases used up before the limit.
        let all = grammar(&[vec![11], vec![12]], 1, 9).expect("a grammar");
        assert_eq!(allowed(&all, &[1, 11, 2, 12]), [EOS]);
    }

    #[test]
    fn a_token_that_is_not_allowed_changes_nothing() {
        let g = grammar(&[vec![11], vec![12]], 2, 2).expect("a grammar");
        let mut state = g.state();
        state.advance(1).expect("a tag");
        state.advance(11).expect("a phrase");
        for token in [EOS, 11, 19, 4000] {
            assert_eq!(state.advance(token), Err(NotAllowed { token, items: 1 }));
        }
        state.advance(2).expect("a tag");
        assert!(state.advance(11).is_err() && !state.is_ended());
    }

    /// The text of a rubric's tokens: ids of phrases are written as letters.
    fn text(tokens: &[u32]) -> String {
        let write = |&token: &u32| match token {
            EOS => String::new(),
            1..=5 => format!("<+{token}>"),
            6..=10 => format!("<-{}>", token - 5),
            _ => char::from(b'a' + token as u8 - 11).to_string(),
        };
        tokens.iter().map(write).collect()
    }

    proptest! {
        #[test]
        fn every_walk_ends_in_a_rubric_that_parses(
            phrases in proptest::collection::btree_set(
                proptest::collection::vec(11..15u32, 1..4), 1..14),
            limits in (1..5usize, 0..4usize),
            seed in any::<u64>(),
        ) {
            let phrases: Vec<Vec<u32>> = phrases.into_iter().collect();
            let (min, max) = (limits.0.min(phrases.len()), limits.0.min(phrases.len()) + limits.1);
            let g = grammar(&phrases, min, max).expect("a grammar");
            let known = |criterion: &str| {
                let is = phrases.iter().any(|phrase| text(phrase) == criterion);
                is.then(|| Check::Contains { text: criterion.into() })
            };
            for walk in 0..20 {
                let (mut state, mut tokens) = (g.state(), Vec::new());
                let seed = Seed::from_u64(seed).child(walk);
                while !state.is_ended() {
                    let allowed: Vec<u32> = state.allowed().iter().collect();
                    prop_assert!(!allowed.is_empty(), "stuck after {}", text(&tokens));
                    let pick = seed.below(tokens.len() as u64, allowed.len() as u64);
                    let token = allowed[pick as usize];
                    state.advance(token).expect("allowed");
                    tokens.push(token);
                }
                prop_assert!(state.allowed().is_empty());
                let limits = Limits { min_items: min, max_items: max };
                let parsed = parse_tagged(&text(&tokens), &known, limits);
                prop_assert!(parsed.is_ok(), "{}: {parsed:?}", text(&tokens));
                prop_assert_eq!(parsed.map(|r| r.items.len()), Ok(state.items()));
            }
        }
    }
}
