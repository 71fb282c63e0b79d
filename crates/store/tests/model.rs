//! Any sequence of transactions, cut by reopenings, does what an ordinary map would do.

use std::collections::BTreeMap;

use proptest::prelude::*;
use store::{Embedded, Revision, Store, StoreError, Txn};

#[derive(Debug, Clone)]
enum Step {
    /// Expectations (key, whether what is expected is true), then writes.
    Commit(Vec<(u8, bool)>, Vec<(u8, Option<u8>)>),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..5_u8;
    let commit = (
        prop::collection::vec((key(), prop::bool::weighted(0.8)), 0..3),
        prop::collection::vec((key(), any::<Option<u8>>()), 0..4),
    );
    let step = prop_oneof![
        9 => commit.prop_map(|(expected, written)| Step::Commit(expected, written)),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..25)
}

type Model = BTreeMap<String, (u8, Revision)>;

/// The transaction and the key whose expectation fails first.
fn transaction(
    model: &Model,
    expected: &[(u8, bool)],
    written: &[(u8, Option<u8>)],
) -> (Txn, Option<String>) {
    let mut txn = Txn::new();
    let mut wrong = None;
    for &(key, holds) in expected {
        let key = format!("k{key}");
        txn = match (model.get(&key), holds) {
            (Some(&(_, revision)), true) => txn.expect(&key, revision),
            (Some(_), false) | (None, true) => txn.expect_absent(&key),
            (None, false) => txn.expect(&key, Revision(1)),
        };
        if !holds {
            wrong.get_or_insert(key);
        }
    }
    for &(key, value) in written {
        let key = format!("k{key}");
        txn = match value {
            Some(value) => txn.put(key, [value]),
            None => txn.delete(key),
        };
    }
    (txn, wrong)
}

async fn run(steps: Vec<Step>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.store");
    let mut store = Embedded::open(&path).await.expect("a new store");
    let mut model = Model::new();
    let mut last = Revision(0);
    for step in steps {
        match step {
            Step::Reopen => {
                drop(store);
                store = Embedded::open(&path).await.expect("the same store");
            }
            Step::Commit(expected, written) => {
                let (txn, wrong) = transaction(&model, &expected, &written);
                match (store.commit(txn).await, wrong) {
                    (Err(StoreError::Conflict { key, .. }), Some(wrong)) => assert_eq!(key, wrong),
                    (Ok(revision), None) => {
                        assert!(revision >= last);
                        last = revision;
                        for (key, value) in written {
                            model.remove(&format!("k{key}"));
                            if let Some(value) = value {
                                model.insert(format!("k{key}"), (value, revision));
                            }
                        }
                    }
                    (outcome, wrong) => panic!("{outcome:?}, but {wrong:?} is wrong"),
                }
            }
        }
        let snapshot = store.range("").await.expect("a range");
        assert_eq!(snapshot.revision, last);
        let found = snapshot.entries.into_iter().map(|(k, v)| (k, (v.value[0], v.revision)));
        assert_eq!(found.collect::<Model>(), model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn behaves_like_a_map(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(run(steps));
    }
}
