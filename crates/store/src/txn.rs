//! A transaction: what must be true, and what is written if it is.

use std::collections::BTreeMap;

use crate::{Revision, StoreError, Term};

/// The most expectations, and the most writes, of one transaction: etcd's default limit less the
/// one comparison a fence takes, held by every backend so that no caller outgrows one of them.
pub const MAX_OPERATIONS: usize = 127;

/// The most bytes of keys and values in one transaction: etcd's default of 1.5 MiB less room for
/// its own framing.
pub const MAX_BYTES: usize = 1 << 20;

/// Writes that happen together or not at all; built by chaining, given to
/// [`Store::commit`](crate::Store::commit).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    pub(crate) fence: Option<u64>,
    pub(crate) expectations: Vec<(String, Option<Revision>)>,
    /// The last write to a key wins; `None` deletes.
    pub(crate) writes: BTreeMap<String, Option<Vec<u8>>>,
}

impl Txn {
    /// A transaction that expects and writes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only while `term` is the present one.
    #[must_use]
    pub fn fenced(mut self, term: &Term) -> Self {
        self.fence = Some(term.number);
        self
    }

    /// Only if `key` was last written at `revision`.
    #[must_use]
    pub fn expect(mut self, key: impl Into<String>, revision: Revision) -> Self {
        self.expectations.push((key.into(), Some(revision)));
        self
    }

    /// Only if `key` has no value.
    #[must_use]
    pub fn expect_absent(mut self, key: impl Into<String>) -> Self {
        self.expectations.push((key.into(), None));
        self
    }

    /// Sets `key` to `value`.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.writes.insert(key.into(), Some(value.into()));
        self
    }

    /// Removes `key`; a key without a value is left as it is.
    #[must_use]
    pub fn delete(mut self, key: impl Into<String>) -> Self {
        self.writes.insert(key.into(), None);
        self
    }

    /// Refuses what some backend could not take: an empty key, too many operations, too many bytes.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let written = self.writes.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len));
        let expected = self.expectations.iter().map(|(key, _)| key.len());
        for (what, found, limit) in [
            ("expectations", self.expectations.len(), MAX_OPERATIONS),
            ("writes", self.writes.len(), MAX_OPERATIONS),
            ("bytes", written.chain(expected).sum(), MAX_BYTES),
        ] {
            if found > limit {
                return Err(StoreError::TooLarge { what, found, limit });
            }
        }
        let mut keys = self.expectations.iter().map(|(key, _)| key).chain(self.writes.keys());
        if keys.any(String::is_empty) {
            return Err(StoreError::EmptyKey);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_to_a_key_wins() {
        let txn = Txn::new().put("a", "1").delete("a").put("b", "1").put("b", "2");
        let writes: Vec<_> = txn.writes.into_iter().collect();
        assert_eq!(writes, [("a".into(), None), ("b".into(), Some(b"2".to_vec()))]);
    }

    #[test]
    fn limits_are_inclusive() {
        let many = |n: usize| (0..n).fold(Txn::new(), |txn, i| txn.put(format!("{i}"), ""));
        assert!(many(MAX_OPERATIONS).check().is_ok());
        let error = many(MAX_OPERATIONS + 1).check().expect_err("128 writes");
        assert_eq!(error.to_string(), "a transaction with 128 writes; at most 127 are taken");

        let sized = |bytes: usize| Txn::new().put("k", vec![0; bytes - 1]);
        assert!(sized(MAX_BYTES).check().is_ok());
        assert_eq!(sized(MAX_BYTES + 1).check().expect_err("too big").code(), "too_large");
        assert_eq!(Txn::new().expect_absent("").check().expect_err("no key").code(), "empty_key");
    }
}
