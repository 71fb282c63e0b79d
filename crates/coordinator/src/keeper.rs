//! What is persisted: the ledger's record and its open groups, under one leader's term.
//!
//! ```text
//! run/config        digest of the configuration the run was started with
//! run/record        ledger::Record
//! run/groups/<id>   ledger::OpenGroup, while the group is open
//! ```

use std::sync::Arc;
use std::time::Duration;

use ledger::{OpenGroup, Record, Transaction};
use rl::{Digest, GroupId};
use store::{Store, StoreError, Term, Txn};

const CONFIG: &str = "run/config";
const RECORD: &str = "run/record";
const GROUPS: &str = "run/groups/";

/// Writes decisions as the leader of one term.
pub struct Keeper {
    store: Arc<dyn Store>,
    term: Term,
}

/// What a store holds of a run.
pub struct Kept {
    /// Of the configuration that the run was started with.
    pub config: Digest,
    /// The record, if the run has begun.
    pub record: Option<Record>,
    /// Groups that were open.
    pub open: Vec<OpenGroup>,
}

impl Keeper {
    /// Takes the lead, and reads what is there. A new run is marked with its configuration.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn open(store: Arc<dyn Store>, config: Digest) -> Result<(Self, Kept), StoreError> {
        let term = store.campaign("coordinator").await?;
        let mut kept = Kept { config, record: None, open: Vec::new() };
        match store.get(CONFIG).await? {
            Some(found) => kept.config = found.record(CONFIG)?,
            None => {
                let txn = Txn::new().fenced(&term).expect_absent(CONFIG);
                store.commit(txn.put_record(CONFIG, &config)?).await?;
            }
        }
        if let Some(found) = store.get(RECORD).await? {
            kept.record = Some(found.record(RECORD)?);
        }
        for (key, value) in store.range(GROUPS).await?.entries {
            kept.open.push(value.record(&key)?);
        }
        Ok((Self { store, term }, kept))
    }

    /// Writes what was decided, all of it or nothing. A store that is away for a while is waited
    /// for: nothing may follow from a decision that is not written.
    ///
    /// # Errors
    /// If the store refuses, or another leader has taken over.
    pub async fn write(&self, transaction: &Transaction) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(50);
        loop {
            let mut txn = Txn::new().fenced(&self.term).put_record(RECORD, &transaction.record)?;
            for group in &transaction.opened {
                txn = txn.put_record(&key(group.id), group)?;
            }
            for (group, _) in &transaction.closed {
                txn = txn.delete(key(*group));
            }
            match self.store.commit(txn).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "store is away, decisions wait for it");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Groups sort by their number.
fn key(group: GroupId) -> String {
    format!("{GROUPS}{:020}", group.0)
}
