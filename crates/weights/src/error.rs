//! What can go wrong with weights, and whether asking again may help.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use rl::{Digest, WeightRef};

/// Why weights could not be published, read, fetched or pruned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The operating system refused: disk full, no permission.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold the bytes it is named after; it is out of the way now.
    #[error(
        "{what} is damaged: {} has {bytes} bytes with digest {found}; moved to {}",
        path.display(), moved_to.display()
    )]
    Damaged {
        /// The tensor, where the caller named one.
        what: String,
        /// The file that was read.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The digest of what it holds.
        found: Digest,
        /// Where the file is now.
        moved_to: PathBuf,
    },
    /// There is no such file.
    #[error("{what} is missing: there is no {}", path.display())]
    Missing {
        /// The tensor, where the caller named one.
        what: String,
        /// The file that was looked for.
        path: PathBuf,
    },
    /// A manifest file that was cut off, altered or put under another name.
    #[error("{} is not a sound manifest: {detail}", path.display())]
    DamagedManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// This store has no manifest of that digest.
    #[error("{0} is not here")]
    Unknown(WeightRef),
    /// The version is out already, and is something else. A version is never replaced.
    #[error("{offered} cannot be published: {published} already is")]
    AlreadyPublished {
        /// What everybody may have by now.
        published: WeightRef,
        /// What was to take its place.
        offered: WeightRef,
    },
    /// A manifest that contradicts itself.
    #[error("{what} is invalid: {detail}")]
    Invalid {
        /// The manifest or tensor.
        what: String,
        /// The contradiction.
        detail: String,
    },
    /// Bytes given or received are not the ones asked for.
    #[error("{what} arrived as {bytes} bytes with digest {found}, expected {expected}")]
    WrongBytes {
        /// The manifest or tensor.
        what: String,
        /// The digest asked for.
        expected: Digest,
        /// The digest of what came.
        found: Digest,
        /// How much came.
        bytes: usize,
    },
    /// A source could not be asked, or refused.
    #[error("{from} did not give {what}")]
    Source {
        /// The source's name.
        from: String,
        /// What was asked for.
        what: String,
        /// Whether asking again may help.
        retryable: bool,
        /// What went wrong.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Every source was asked.
    #[error("no source has {what}: {}", tried_by(tried))]
    Exhausted {
        /// What was asked for.
        what: String,
        /// Each source's name and answer.
        tried: Vec<(String, WeightsError)>,
    },
}

impl WeightsError {
    /// A stable name for logs, metrics and the status table.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::Damaged { .. } => "damaged",
            Self::Missing { .. } => "missing",
            Self::DamagedManifest { .. } => "damaged_manifest",
            Self::Unknown(_) => "unknown",
            Self::AlreadyPublished { .. } => "already_published",
            Self::Invalid { .. } => "invalid",
            Self::WrongBytes { .. } => "wrong_bytes",
            Self::Source { .. } => "source",
            Self::Exhausted { .. } => "exhausted",
        }
    }

    /// Whether the very same call may succeed later with nobody repairing anything. A full disk is
    /// not, bytes that came wrong over a wire are.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use io::ErrorKind::{Interrupted, ResourceBusy, TimedOut, WouldBlock};
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), Interrupted | ResourceBusy | TimedOut | WouldBlock)
            }
            Self::WrongBytes { .. } => true,
            Self::Source { retryable, .. } => *retryable,
            Self::Exhausted { tried, .. } => tried.iter().any(|(_, error)| error.is_retryable()),
            _ => false,
        }
    }
}

fn tried_by(tried: &[(String, WeightsError)]) -> String {
    if tried.is_empty() {
        return "there are none".into();
    }
    let line = |(name, error): &(String, WeightsError)| {
        let mut line = format!("{name}: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            line += &format!(": {error}");
            cause = error.source();
        }
        line
    };
    tried.iter().map(line).collect::<Vec<_>>().join("; ")
}
