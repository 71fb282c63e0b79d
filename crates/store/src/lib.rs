//! Where a run keeps its decisions: versioned keys with compare-and-set, watch and a leader term.
//!
//! Callers hold an `Arc<dyn Store>` and never learn which backend is behind it: [`Embedded`] keeps
//! one durable file for a run on one machine. Keys are text (`groups/000042`), values are bytes;
//! everything written at once shares one [`Revision`].
//!
//! Invariants, checked on every backend by [`conformance`]:
//! - a transaction is seen whole or not at all, by readers, by watchers and after a crash;
//! - once `commit` has answered, the write survives the end of the process and of the machine;
//! - revisions only grow, and a key that was deleted and made again has a new one;
//! - once a later term has begun, nothing fenced by an earlier one is written.
//!
//! Reading order: the trait below, [`txn`], [`error`], [`record`], [`embedded`], [`conformance`].

use std::fmt;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

pub mod conformance;
pub mod embedded;
pub mod error;
pub mod record;
pub mod txn;

pub use embedded::Embedded;
pub use error::StoreError;
pub use txn::Txn;

/// Versioned keys under one root. Every method may be repeated; none holds a lock between calls.
#[async_trait]
pub trait Store: Send + Sync {
    /// The value of `key`, if it has one.
    async fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError>;

    /// Every key that starts with `prefix` (all of them for `""`), as of one moment.
    async fn range(&self, prefix: &str) -> Result<Snapshot, StoreError>;

    /// Writes all of `txn` if its fence and all its expectations hold, else nothing.
    ///
    /// Answers the revision of the write, or the present one where nothing was to be changed.
    /// After [`StoreError::Unavailable`], or when the future was dropped, the write may or may not
    /// have happened: read before deciding again.
    async fn commit(&self, txn: Txn) -> Result<Revision, StoreError>;

    /// Begins a new term led by `candidate`, whose number is above every earlier one, and fences
    /// all earlier terms.
    ///
    /// Waits while another candidate lives, where the backend can tell; the embedded file has one
    /// process at a time, so there whoever asks leads at once.
    async fn campaign(&self, candidate: &str) -> Result<Term, StoreError>;

    /// Ends `term`: its fenced writes are refused from now on and the next campaign need not wait.
    /// Does nothing if a later term has begun.
    async fn resign(&self, term: &Term) -> Result<(), StoreError>;

    /// All changes under `prefix` after revision `since`, in order.
    ///
    /// Take `since` from a [`Snapshot`] to miss nothing and see nothing twice.
    async fn watch(&self, prefix: &str, since: Revision) -> Result<Watch, StoreError>;
}

/// A moment in the store's history: the place of a commit in the order of all commits.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.0)
    }
}

/// A value and the commit that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes last put.
    pub value: Vec<u8>,
    /// The revision to name in [`Txn::expect`].
    pub revision: Revision,
}

/// What a prefix held at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment: watch from here.
    pub revision: Revision,
    /// Keys in byte order, with their values.
    pub entries: Vec<(String, Versioned)>,
}

/// The right to lead, until a later term begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Grows with every term of the store.
    pub number: u64,
    /// Who leads.
    pub candidate: String,
}

/// One commit, as a watcher sees it: whole, but for the keys outside the watched prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit's place in history.
    pub revision: Revision,
    /// What it changed, in key order; never empty.
    pub changes: Vec<Change>,
}

/// One key as a commit left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its new value; `None` when it was deleted.
    pub value: Option<Vec<u8>>,
}

/// A stream of commits. It holds a bounded number of them: a watcher that falls behind gets one
/// [`StoreError::Lagged`] and the stream ends; it reads the range again and watches from there.
/// The stream ends without an error when the store is closed.
pub type Watch = BoxStream<'static, Result<Committed, StoreError>>;
