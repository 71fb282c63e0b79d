//! The store as one durable file, for a run whose coordinator has one machine.
//!
//! The file is a redb database: copy-on-write pages with checksums, so a process killed at any
//! moment leaves the last commit or the one before it, never a mixture. Every commit is flushed to
//! the device before it is answered. One process has the file at a time, by a lock that the
//! operating system lets go when that process ends, however it ends.

mod file;
mod history;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::{
    Change, Committed, Revision, Snapshot, Store, StoreError, Term, Txn, Versioned, Watch,
};
use history::History;

/// A store in a file; clones share it. It is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    database: Database,
    /// Held over commit and announcement, so that watchers hear of commits in their order.
    writer: Mutex<()>,
    history: History,
}

/// Key to (revision, value).
const DATA: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("data");
/// The store's own numbers, by the names below.
const META: TableDefinition<&str, u64> = TableDefinition::new("rubricon-store");
const REVISION: &str = "revision";
const TERM: &str = "term";

impl Embedded {
    /// Opens the store at `path`, making it if there is no such file. Checks every page.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`Foreign`](StoreError::Foreign), [`Corrupt`](StoreError::Corrupt)
    /// or [`Io`](StoreError::Io), each naming the file.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let file = path.clone();
        let inner = blocking("open", &path, move || {
            let database = file::open(&file)?;
            let read = database.begin_read()?;
            let revision = number(&read.open_table(META)?, REVISION)?;
            drop(read);
            let history = History::starting_at(Revision(revision));
            Ok(Inner { path: file, database, writer: Mutex::default(), history })
        })
        .await?;
        Ok(Self { inner: Arc::new(inner) })
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        body: impl FnOnce(&Inner) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        blocking(operation, &self.inner.path, move || body(&inner)).await
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        let key = key.to_owned();
        let read = move |inner: &Inner| {
            let data = inner.database.begin_read()?.open_table(DATA)?;
            Ok(data.get(key.as_str())?.map(|entry| versioned(entry.value())))
        };
        self.run("read", read).await
    }

    async fn range(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        let prefix = prefix.to_owned();
        self.run("read", move |inner| inner.range(&prefix)).await
    }

    async fn commit(&self, txn: Txn) -> Result<Revision, StoreError> {
        txn.check()?;
        self.run("write", move |inner| inner.commit(txn)).await?
    }

    async fn campaign(&self, candidate: &str) -> Result<Term, StoreError> {
        let number = self.run("write", |inner| inner.end_terms(None)).await?;
        tracing::info!(term = number, candidate, "term began");
        Ok(Term { number, candidate: candidate.into() })
    }

    async fn resign(&self, term: &Term) -> Result<(), StoreError> {
        let number = term.number;
        self.run("write", move |inner| inner.end_terms(Some(number))).await?;
        Ok(())
    }

    async fn watch(&self, prefix: &str, since: Revision) -> Result<Watch, StoreError> {
        Ok(self.inner.history.watch(prefix, since))
    }
}

impl Inner {
    fn range(&self, prefix: &str) -> Result<Snapshot, redb::Error> {
        let read = self.database.begin_read()?;
        let revision = Revision(number(&read.open_table(META)?, REVISION)?);
        let mut entries = Vec::new();
        for entry in read.open_table(DATA)?.range(prefix..)? {
            let (key, value) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            entries.push((key.value().to_owned(), versioned(value.value())));
        }
        Ok(Snapshot { revision, entries })
    }

    /// The outer error is the file's, the inner one a refusal.
    fn commit(&self, txn: Txn) -> Result<Result<Revision, StoreError>, redb::Error> {
        let _order = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let write = self.database.begin_write()?;
        if let Some(refusal) = refusal(&write, &txn)? {
            write.abort()?;
            return Ok(Err(refusal));
        }
        let before = number(&write.open_table(META)?, REVISION)?;
        let revision = before + 1;
        let changes = apply(&write, txn, revision)?;
        if changes.is_empty() {
            write.abort()?;
            return Ok(Ok(Revision(before)));
        }
        write.open_table(META)?.insert(REVISION, revision)?;
        write.commit()?;
        let revision = Revision(revision);
        self.history.announce(Committed { revision, changes });
        Ok(Ok(revision))
    }

    /// Moves on to a term number that nobody held before, if `only` is none or the present one.
    fn end_terms(&self, only: Option<u64>) -> Result<u64, redb::Error> {
        let write = self.database.begin_write()?;
        let current = number(&write.open_table(META)?, TERM)?;
        if only.is_some_and(|term| term != current) {
            write.abort()?;
            return Ok(current);
        }
        write.open_table(META)?.insert(TERM, current + 1)?;
        write.commit()?;
        Ok(current + 1)
    }
}

/// The first reason not to write `txn`, if there is one.
fn refusal(write: &WriteTransaction, txn: &Txn) -> Result<Option<StoreError>, redb::Error> {
    if let Some(term) = txn.fence {
        let current = number(&write.open_table(META)?, TERM)?;
        if term != current {
            return Ok(Some(StoreError::Fenced { term, current }));
        }
    }
    let data = write.open_table(DATA)?;
    for (key, expected) in &txn.expectations {
        let found = data.get(key.as_str())?.map(|entry| Revision(entry.value().0));
        if found != *expected {
            let (key, expected) = (key.clone(), *expected);
            return Ok(Some(StoreError::Conflict { key, expected, found }));
        }
    }
    Ok(None)
}

/// Writes what `txn` writes and lists what that changed.
fn apply(write: &WriteTransaction, txn: Txn, revision: u64) -> Result<Vec<Change>, redb::Error> {
    let mut data = write.open_table(DATA)?;
    let mut changes = Vec::with_capacity(txn.writes.len());
    for (key, value) in txn.writes {
        let changed = match &value {
            Some(value) => {
                data.insert(key.as_str(), (revision, value.as_slice()))?;
                true
            }
            None => data.remove(key.as_str())?.is_some(),
        };
        if changed {
            changes.push(Change { key, value });
        }
    }
    Ok(changes)
}

fn number(meta: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, redb::Error> {
    let found = meta.get(name)?.map(|entry| entry.value());
    found.ok_or_else(|| redb::Error::Corrupted(format!("the number \"{name}\" is missing")))
}

fn versioned((revision, value): (u64, &[u8])) -> Versioned {
    Versioned { value: value.to_vec(), revision: Revision(revision) }
}

/// Runs `body` where it may wait for the disk. The database promises no panic on a checked file; if
/// it panics nevertheless, that is a damaged file, not the end of the caller.
async fn blocking<T: Send + 'static>(
    operation: &'static str,
    path: &Path,
    body: impl FnOnce() -> Result<T, redb::Error> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(body).await {
        Ok(outcome) => outcome.map_err(|error| file::failure(operation, path, error)),
        Err(join) => match join.try_into_panic() {
            Ok(panic) => Err(StoreError::Corrupt { path: path.into(), detail: message(&*panic) }),
            Err(cancelled) => {
                Err(StoreError::Unavailable { operation, source: Box::new(cancelled) })
            }
        },
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no message").to_owned()
}
