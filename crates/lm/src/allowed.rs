//! Sets of token ids, one bit each.

/// The tokens a grammar allows next, as a bit per id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSet {
    words: Vec<u64>,
}

impl TokenSet {
    /// No token of a vocabulary of `vocab` ids.
    #[must_use]
    pub fn empty(vocab: usize) -> Self {
        Self { words: vec![0; vocab.div_ceil(64)] }
    }

    /// The given tokens; ids at or above `vocab` are left out.
    #[must_use]
    pub fn of(vocab: usize, ids: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::empty(vocab);
        ids.into_iter().filter(|&id| (id as usize) < vocab).for_each(|id| set.insert(id));
        set
    }

    /// The set with the given bits, 64 ids to a word from the lowest bit on.
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The bits, 64 ids to a word from the lowest bit on.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a token; does nothing where `id` is beyond the vocabulary.
    pub fn insert(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 64) {
            *word |= 1 << (id % 64);
        }
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.words.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let set = TokenSet::of(130, [0, 63, 64, 129, 130, 4000]);
        let ids: Vec<u32> = (0..4096).filter(|&id| set.contains(id)).collect();
        assert_eq!(ids, [0, 63, 64, 129]);
        assert_eq!(TokenSet::from_words(set.words().to_vec()), set);
        assert!(TokenSet::empty(130).is_empty() && !set.is_empty());
    }
}
