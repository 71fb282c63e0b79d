//! What can go wrong in a store, and what the caller can do about it.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::Revision;

/// Why a store call failed. Refusals (`Conflict`, `Fenced`, `Lagged`) are part of the contract;
/// the rest are faults of the caller, the file or the connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An expectation of the transaction did not hold; nothing was written. Read again, decide again.
    #[error("\"{key}\" is {}, expected {}", seen(*found), seen(*expected))]
    Conflict {
        /// The first key found otherwise.
        key: String,
        /// The revision the transaction named; `None` for a key that should not exist.
        expected: Option<Revision>,
        /// The revision it has.
        found: Option<Revision>,
    },
    /// The transaction's term is over; nothing was written. Stop leading.
    #[error("term {term} is over (now {current})")]
    Fenced {
        /// The term of the transaction.
        term: u64,
        /// The latest term known.
        current: u64,
    },
    /// The watcher fell behind what is remembered. Read the range again and watch from there.
    #[error("changes of \"{prefix}\" after {since} are forgotten (remembered after {oldest})")]
    Lagged {
        /// The watched prefix.
        prefix: String,
        /// Where the watcher was.
        since: Revision,
        /// The earliest place a watch can still go on from.
        oldest: Revision,
    },
    /// A transaction beyond what every backend takes.
    #[error("a transaction with {found} {what}; at most {limit} are taken")]
    TooLarge {
        /// "writes", "expectations" or "bytes".
        what: &'static str,
        /// How many there were.
        found: usize,
        /// How many are taken.
        limit: usize,
    },
    /// Keys have at least one byte.
    #[error("a key is empty")]
    EmptyKey,
    /// The value of a key could not be written as, or read as, the record it should be.
    #[error("\"{key}\" does not hold a valid {record}")]
    Record {
        /// The key.
        key: String,
        /// The name of the type.
        record: &'static str,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The file is in use.
    #[error("{} is held by another process (one store file, one process)", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a rubricon store: {detail}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        detail: String,
    },
    /// The file was one, and was damaged.
    #[error("{} is damaged: {detail}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the check found.
        detail: String,
    },
    /// The operating system refused: disk full, no permission, no such folder.
    ///
    /// A store file that failed once takes no more writes until it is opened again.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The store did not answer. Ask again; a commit may have happened all the same.
    #[error("the store did not answer to {operation}")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// What the backend said.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// A stable name for logs, metrics and the status table.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Fenced { .. } => "fenced",
            Self::Lagged { .. } => "lagged",
            Self::TooLarge { .. } => "too_large",
            Self::EmptyKey => "empty_key",
            Self::Record { .. } => "record",
            Self::Locked { .. } => "locked",
            Self::Foreign { .. } => "foreign",
            Self::Corrupt { .. } => "corrupt",
            Self::Io { .. } => "io",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// Whether the very same call may succeed later with nobody repairing anything. A conflict is
    /// not: the caller has to read and decide again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

fn seen(revision: Option<Revision>) -> String {
    revision.map_or_else(|| "absent".into(), |revision| format!("at {revision}"))
}
