//! Digests in use: tensors on their way in are named by no manifest yet, so pruning must be told.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rl::Digest;

/// How many hold each digest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims(Arc<Mutex<HashMap<Digest, usize>>>);

/// Keeps its digests from being pruned until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Claims,
    digests: BTreeSet<Digest>,
}

impl Claims {
    /// Holds `digests`.
    pub(crate) fn hold(&self, digests: BTreeSet<Digest>) -> Claim {
        let mut held = self.lock();
        for digest in &digests {
            *held.entry(*digest).or_default() += 1;
        }
        Claim { claims: self.clone(), digests }
    }

    /// What is held; nothing more can be while the guard lives.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<Digest, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.claims.lock();
        for digest in &self.digests {
            if let Some(count) = held.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    held.remove(digest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    #[test]
    fn a_digest_is_held_until_its_last_claim_is_dropped() {
        let claims = Claims::default();
        let first = claims.hold([digest(b"a"), digest(b"b")].into());
        let second = claims.hold([digest(b"a")].into());
        drop(first);
        assert_eq!(claims.lock().keys().collect::<Vec<_>>(), [&digest(b"a")]);
        drop(second);
        assert!(claims.lock().is_empty());
    }
}
