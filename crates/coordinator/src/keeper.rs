//! What is persisted: the ledger's record and its open groups, under one leader's term.
//!
//! ```text
//! run/config        digest of the configuration the run was started with
//! run/record        ledger::Record
//! run/groups/<n>    the open ones of groups 64 n to 64 n + 63, as ledger::OpenGroup
//! ```
//!
//! Groups share keys, for a store takes a limited number of writes in one transaction, and a step may
//! end hundreds of groups while as many are drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ledger::{OpenGroup, Record, Transaction};
use rl::{Digest, GroupId};
use store::{Store, StoreError, Term, Txn};

const CONFIG: &str = "run/config";
const RECORD: &str = "run/record";
const GROUPS: &str = "run/groups/";
/// Groups that share a key.
const GROUPS_A_KEY: u64 = 64;

/// Writes decisions as the leader of one term.
pub struct Keeper {
    store: Arc<dyn Store>,
    term: Term,
    /// What the keys of open groups hold together.
    open: BTreeMap<GroupId, OpenGroup>,
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
            kept.open.extend(value.record::<Vec<OpenGroup>>(&key)?);
        }
        let open = kept.open.iter().map(|group| (group.id, group.clone())).collect();
        Ok((Self { store, term, open }, kept))
    }

    /// Writes what was decided, all of it or nothing. A store that is away for a while is waited
    /// for: nothing may follow from a decision that is not written.
    ///
    /// # Errors
    /// If the store refuses, or another leader has taken over.
    pub async fn write(&mut self, transaction: &Transaction) -> Result<(), StoreError> {
        let touched = self.take_in(transaction);
        let mut pause = Duration::from_millis(50);
        loop {
            let mut txn = Txn::new().fenced(&self.term).put_record(RECORD, &transaction.record)?;
            for &bucket in &touched {
                let ids = GroupId(bucket * GROUPS_A_KEY)..GroupId((bucket + 1) * GROUPS_A_KEY);
                let open: Vec<&OpenGroup> = self.open.range(ids).map(|(_, group)| group).collect();
                txn = if open.is_empty() {
                    txn.delete(key(bucket))
                } else {
                    txn.put_record(&key(bucket), &open)?
                };
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

    /// Opens and closes groups; answers which keys change by that.
    fn take_in(&mut self, transaction: &Transaction) -> BTreeSet<u64> {
        let mut touched = BTreeSet::new();
        for group in &transaction.opened {
            touched.insert(group.id.0 / GROUPS_A_KEY);
            self.open.insert(group.id, group.clone());
        }
        for (group, _) in &transaction.closed {
            touched.insert(group.0 / GROUPS_A_KEY);
            self.open.remove(group);
        }
        touched
    }
}

/// Keys sort by the numbers of their groups.
fn key(bucket: u64) -> String {
    format!("{GROUPS}{bucket:020}")
}

#[cfg(test)]
mod tests {
    use ledger::{Ledger, Outcome, PerActor, Settings};
    use rl::{Actor, Attempt, GroupKind, StepId, WeightRef, WeightVersion};
    use runtime::config::Config;
    use store::embedded::Embedded;

    use super::*;
    use crate::plan::{self, Data};

    fn group(id: u64) -> OpenGroup {
        OpenGroup {
            id: GroupId(id),
            kind: GroupKind::Policy,
            prompt: 0,
            step: StepId(0),
            attempt: Attempt(1),
        }
    }

    fn record() -> Record {
        let weights =
            |actor| WeightRef { actor, version: WeightVersion(0), digest: Digest([0; 32]) };
        let initial =
            PerActor { policy: weights(Actor::Policy), generator: weights(Actor::Generator) };
        let data = Data { prompts: Vec::new(), anchors: Vec::new(), heldout: Vec::new() };
        let settings = plan::settings(&Config::default(), &data);
        let settings = Settings { prompts: 1, anchors: 1, ..settings };
        Ledger::new(settings, initial).unwrap().record().clone()
    }

    /// A batch of the size that is used for models of billions of parameters, replaced by the next.
    #[tokio::test]
    async fn a_step_may_end_hundreds_of_groups_while_as_many_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(Embedded::open(dir.path().join("store")).await.unwrap());
        let record = record();
        let (mut keeper, _) = Keeper::open(Arc::clone(&store), Digest([2; 32])).await.unwrap();
        let write = |opened: std::ops::Range<u64>, closed: std::ops::Range<u64>| Transaction {
            record: record.clone(),
            opened: opened.map(group).collect(),
            closed: closed.map(|id| (GroupId(id), Outcome::Trained { step: StepId(0) })).collect(),
        };
        keeper.write(&write(0..512, 0..0)).await.unwrap();
        keeper.write(&write(512..1024, 0..511)).await.unwrap();
        let (_, kept) = Keeper::open(store, Digest([2; 32])).await.unwrap();
        let ids: Vec<u64> = kept.open.iter().map(|group| group.id.0).collect();
        assert_eq!(ids, (511..1024).collect::<Vec<_>>());
    }
}
