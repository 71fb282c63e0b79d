//! A completion with its per-token data.

use serde::{Deserialize, Serialize};

use crate::WeightVersion;

/// Why sampling of a completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model wrote a stop token (which is the last of `tokens`).
    Stop,
    /// The token limit was reached.
    Length,
}

/// One sampled completion, of either actor. Tokens in, tokens out: nobody encodes `text` again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// The sampled tokens, the stop token included.
    pub tokens: Vec<u32>,
    /// The log-probability of each token under the distribution it was drawn from, in nats:
    /// log-softmax of logits / temperature over the allowed tokens. As long as `tokens`.
    pub logprobs: Vec<f32>,
    /// The tokens that were allowed at each position, where decoding was constrained: as long as
    /// `tokens`, or empty. The learner applies the same mask.
    pub allowed: Vec<TokenSet>,
    /// The decoded completion without the stop token.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// The version of the weights that sampled it.
    pub version: WeightVersion,
}

/// A set of token ids as a bitmap: bit `id % 8` of byte `id / 8`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TokenSet(Vec<u8>);

impl TokenSet {
    /// The empty set over a vocabulary of `vocab_size` ids.
    #[must_use]
    pub fn empty(vocab_size: usize) -> Self {
        Self(vec![0; vocab_size.div_ceil(8)])
    }

    /// These ids of a vocabulary of `vocab_size`; ids outside of it are left out.
    #[must_use]
    pub fn of(vocab_size: usize, ids: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::empty(vocab_size);
        ids.into_iter().filter(|&id| (id as usize) < vocab_size).for_each(|id| set.insert(id));
        set
    }

    /// Adds an id, which must be inside the vocabulary.
    pub fn insert(&mut self, id: u32) {
        self.0[id as usize / 8] |= 1 << (id % 8);
    }

    /// Whether the id is in the set; ids outside of the vocabulary are not.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.0.get(id as usize / 8).is_some_and(|byte| byte >> (id % 8) & 1 == 1)
    }

    /// The ids in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &byte)| {
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| i as u32 * 8 + bit)
        })
    }

    /// How many ids are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Whether no id is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// The bitmap, for the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The inverse of [`TokenSet::as_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_set_holds_what_was_put_in() {
        let mut set = TokenSet::empty(20);
        assert!(set.is_empty());
        for id in [0, 7, 8, 19] {
            set.insert(id);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 8, 19]);
        assert_eq!(set.len(), 4);
        assert!(!set.contains(1) && !set.contains(1000));
        assert_eq!(TokenSet::from_bytes(set.as_bytes().to_vec()), set);
    }
}
