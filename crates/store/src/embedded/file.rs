//! Opening the file, and saying what is wrong with it.

use std::fs::File;
use std::io;
use std::path::Path;

use redb::{Builder, Database, ReadableDatabase};
use tempfile::NamedTempFile;

use super::{DATA, META, REVISION, TERM, number};
use crate::StoreError;

const FORMAT: &str = "format";
const FORMAT_1: u64 = 1;

/// A run's decisions are a few megabytes; the library's default of 1 GiB would never be given back.
const CACHE_BYTES: usize = 16 << 20;

/// Opens the store file at `path`, making a new one if there is none.
pub(super) fn open(path: &Path) -> Result<Database, redb::Error> {
    if !path.try_exists()? {
        create(path)?;
    }
    // The check reads every page once; without it a flipped bit would be found in the middle of a
    // run, or not at all.
    let database =
        Builder::new().set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).open(path)?;
    let format = number(&database.begin_read()?.open_table(META)?, FORMAT)?;
    if format != FORMAT_1 {
        return Err(redb::Error::Corrupted(format!("format {format}, expected {FORMAT_1}")));
    }
    Ok(database)
}

/// Makes the file under another name first: whoever is killed here leaves a stray draft, never a
/// store that cannot be opened.
fn create(path: &Path) -> Result<(), redb::Error> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let draft = NamedTempFile::with_prefix_in(".store-", parent)?;
    let database = Builder::new().set_cache_size(CACHE_BYTES).create(draft.path())?;
    let write = database.begin_write()?;
    write.open_table(DATA)?;
    let mut meta = write.open_table(META)?;
    for (name, value) in [(FORMAT, FORMAT_1), (REVISION, 0), (TERM, 0)] {
        meta.insert(name, value)?;
    }
    drop(meta);
    write.commit()?;
    drop(database);
    match draft.persist_noclobber(path) {
        // Somebody else was as quick: theirs is as good.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
        outcome => {
            outcome.map_err(|error| error.error)?;
        }
    }
    if cfg!(unix) {
        // The name must be as durable as the commits that follow.
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// What `error` means for the caller that tried `operation` on `path`.
pub(super) fn failure(operation: &'static str, path: &Path, error: redb::Error) -> StoreError {
    use redb::Error as E;
    let path = path.to_path_buf();
    match error {
        E::DatabaseAlreadyOpen | E::LockProtocolMismatch => StoreError::Locked { path },
        E::TableDoesNotExist(_) | E::TableTypeMismatch { .. } | E::UpgradeRequired(_) => {
            StoreError::Foreign { path, detail: error.to_string() }
        }
        E::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
            StoreError::Foreign { path, detail: source.to_string() }
        }
        E::Io(source) => StoreError::Io { operation, path, source },
        E::Corrupted(detail) => StoreError::Corrupt { path, detail },
        other => StoreError::Io { operation, path, source: io::Error::other(other) },
    }
}
