//! What every backend promises, as checks that run on any of them: call [`all`] from a backend's
//! tests. Each check keeps to keys under its own name, so a used store will do.

use futures::future::{join, join_all};
use futures::stream::StreamExt;

use crate::txn::{MAX_BYTES, MAX_OPERATIONS};
use crate::{Change, Committed, Revision, Store, StoreError, Txn, Versioned};

/// Runs every check, one after the other.
///
/// # Panics
/// Where the backend breaks a promise; so does each check.
pub async fn all(store: &dyn Store) {
    values_are_read_as_written(store).await;
    expectations_guard_every_write(store).await;
    a_key_made_again_is_another(store).await;
    ranges_are_sorted_and_exact(store).await;
    impossible_transactions_are_refused(store).await;
    concurrent_increments_lose_nothing(store).await;
    a_term_that_is_over_writes_nothing(store).await;
    watchers_see_whole_commits_in_order(store).await;
    a_snapshot_and_its_watch_make_the_present(store).await;
}

/// Put, overwrite, delete; any bytes, also none.
pub async fn values_are_read_as_written(store: &dyn Store) {
    let (a, b) = ("written/a", "written/ü b\u{10FFFF}");
    let bytes: Vec<u8> = (0..=255).collect();
    let first = commit(store, Txn::new().put(a, bytes.clone()).put(b, "")).await;
    for (key, value) in [(a, bytes), (b, vec![])] {
        assert_eq!(get(store, key).await, Some(Versioned { value, revision: first }));
    }
    let second = commit(store, Txn::new().put(a, "new").delete(b)).await;
    assert!(second > first);
    let new = Versioned { value: b"new".to_vec(), revision: second };
    assert_eq!(get(store, a).await, Some(new.clone()));
    assert_eq!(get(store, b).await, None);
    assert!(commit(store, Txn::new().delete(b)).await >= second, "a delete of nothing is no error");
    assert_eq!(get(store, a).await, Some(new), "an untouched key keeps its revision");
}

/// One failed expectation, and nothing of the transaction is written.
pub async fn expectations_guard_every_write(store: &dyn Store) {
    let (a, b) = ("guarded/a", "guarded/b");
    commit(store, Txn::new().delete(a).delete(b)).await;
    let first = commit(store, Txn::new().expect_absent(a).expect_absent(b).put(a, "1")).await;
    let second = commit(store, Txn::new().expect(a, first).put(a, "2")).await;
    let refused = [
        (Txn::new().expect_absent(a), a, None, Some(second)),
        (Txn::new().expect(a, first), a, Some(first), Some(second)),
        (Txn::new().expect(b, first), b, Some(first), None),
        (Txn::new().expect(a, second).expect(b, second), b, Some(second), None),
        (Txn::new().expect(a, second).expect(a, first), a, Some(first), Some(second)),
    ];
    for (txn, culprit, wanted, actual) in refused {
        match store.commit(txn.clone().put(b, "3").delete(a)).await {
            Err(StoreError::Conflict { key, expected, found }) => {
                assert_eq!((key.as_str(), expected, found), (culprit, wanted, actual), "{txn:?}");
            }
            other => panic!("{txn:?} should conflict, not {other:?}"),
        }
        assert_eq!(get(store, a).await.map(|found| found.revision), Some(second), "{txn:?}");
        assert_eq!(get(store, b).await, None, "{txn:?}");
    }
    commit(store, Txn::new().expect(a, second).expect_absent(b)).await;
}

/// Deleting a key and making it again does not bring its old revision back.
pub async fn a_key_made_again_is_another(store: &dyn Store) {
    let key = "again/k";
    let first = commit(store, Txn::new().put(key, "same")).await;
    commit(store, Txn::new().expect(key, first).delete(key)).await;
    let again = commit(store, Txn::new().expect_absent(key).put(key, "same")).await;
    assert!(again > first);
    let error = store.commit(Txn::new().expect(key, first).put(key, "other")).await;
    assert_eq!(error.expect_err("another key by the same name").code(), "conflict");
}

/// A range holds the keys that start with the prefix, in byte order, and nothing else.
pub async fn ranges_are_sorted_and_exact(store: &dyn Store) {
    let inside = ["ranged/", "ranged/1", "ranged/10", "ranged/2", "ranged/é", "ranged/\u{10FFFF}"];
    let outside = ["ranged", "ranged.", "ranged0", "range", "rangee/1"];
    let put = |txn: Txn, key: &&str| txn.put(*key, *key);
    let revision = commit(store, inside.iter().chain(&outside).fold(Txn::new(), put)).await;
    let snapshot = store.range("ranged/").await.expect("a range");
    assert!(snapshot.revision >= revision);
    let expected =
        inside.map(|key| (key.to_owned(), Versioned { value: key.as_bytes().to_vec(), revision }));
    assert_eq!(snapshot.entries, expected);
    assert_eq!(store.range("ranged/3").await.expect("a range").entries, []);
    let everything = store.range("").await.expect("a range").entries;
    assert!(everything.is_sorted_by(|(a, _), (b, _)| a < b));
    let keys: Vec<_> = everything.iter().map(|(key, _)| key.as_str()).collect();
    assert!(inside.iter().chain(&outside).all(|key| keys.contains(key)));
}

/// The limits are the same everywhere, so no caller depends on the backend that takes more.
pub async fn impossible_transactions_are_refused(store: &dyn Store) {
    let key = |i: usize| format!("limits/{i}");
    let full = (0..MAX_OPERATIONS)
        .fold(Txn::new(), |txn, i| txn.put(key(i), "").expect_absent(format!("no/{i}")));
    commit(store, full.clone()).await;
    commit(store, Txn::new().put("limits/0", vec![7; MAX_BYTES - "limits/0".len()])).await;
    let expectations = (0..=MAX_OPERATIONS).fold(Txn::new(), |txn, i| txn.expect_absent(key(i)));
    for (txn, code) in [
        (full.put(key(MAX_OPERATIONS), ""), "too_large"),
        (expectations, "too_large"),
        (Txn::new().put("limits/0", vec![7; MAX_BYTES]), "too_large"),
        (Txn::new().put("", "1"), "empty_key"),
    ] {
        assert_eq!(store.commit(txn).await.expect_err("impossible").code(), code);
    }
}

/// Many writers that read, add one and write under an expectation: every one counts.
pub async fn concurrent_increments_lose_nothing(store: &dyn Store) {
    let key = "counted/n";
    commit(store, Txn::new().put(key, "0")).await;
    let increment = || async {
        loop {
            let now = get(store, key).await.expect("the counter");
            let count: u64 = now.record(key).expect("a number");
            let txn = Txn::new().expect(key, now.revision).put(key, (count + 1).to_string());
            match store.commit(txn).await {
                Ok(_) => return,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    join_all((0..12).map(|_| increment())).await;
    assert_eq!(get(store, key).await.expect("the counter").value, b"12");
}

/// Terms grow; only the present one writes.
pub async fn a_term_that_is_over_writes_nothing(store: &dyn Store) {
    let key = "fenced/k";
    let first = store.campaign("first").await.expect("a term");
    assert_eq!(first.candidate, "first");
    let written = commit(store, Txn::new().fenced(&first).put(key, "first")).await;
    store.resign(&first).await.expect("resigned");
    let refused = |by| store.commit(Txn::new().fenced(by).expect_absent(key).put(key, "late"));
    let error = refused(&first).await.expect_err("resigned");
    assert_eq!(error.code(), "fenced", "the fence comes before the expectations");

    let second = store.campaign("second").await.expect("a term");
    assert!(second.number > first.number);
    match refused(&first).await {
        Err(StoreError::Fenced { term, current }) => {
            assert_eq!((term, current), (first.number, second.number));
        }
        other => panic!("the first term is over, yet {other:?}"),
    }
    assert_eq!(get(store, key).await.map(|found| found.revision), Some(written));
    store.resign(&first).await.expect("resigning twice is no error");
    commit(store, Txn::new().fenced(&second).expect(key, written).put(key, "second")).await;
    store.resign(&second).await.expect("resigned");
}

/// One item per commit, with the watched keys only, deletes included.
pub async fn watchers_see_whole_commits_in_order(store: &dyn Store) {
    let key = |name: &str| format!("watched/{name}");
    commit(store, Txn::new().delete(key("a")).delete(key("b")).put(key("old"), "")).await;
    let since = store.range("watched/").await.expect("a range").revision;
    let mut early = store.watch("watched/", since).await.expect("a watch");
    let both = Txn::new().put(key("b"), "1").put(key("a"), "1").put("elsewhere/k", "1");
    let first = commit(store, both).await;
    commit(store, Txn::new().put("elsewhere/k", "2").delete(key("none"))).await;
    let last = commit(store, Txn::new().delete(key("a")).put(key("b"), "2")).await;

    let change =
        |name, value: Option<&str>| Change { key: key(name), value: value.map(Into::into) };
    let expected = [
        Committed {
            revision: first,
            changes: vec![change("a", Some("1")), change("b", Some("1"))],
        },
        Committed { revision: last, changes: vec![change("a", None), change("b", Some("2"))] },
    ];
    let mut late = store.watch("watched/", since).await.expect("a watch");
    for watch in [&mut early, &mut late] {
        for committed in &expected {
            let seen = watch.next().await.expect("goes on").expect("remembered");
            assert_eq!(&seen, committed);
        }
    }
    let mut rest = store.watch("watched/", first).await.expect("a watch");
    assert_eq!(rest.next().await.expect("goes on").expect("remembered"), expected[1]);
}

/// A reader that takes a snapshot among writes and follows it ends with what is there.
pub async fn a_snapshot_and_its_watch_make_the_present(store: &dyn Store) {
    const WRITES: u64 = 30;
    let last = "followed/last";
    commit(store, Txn::new().delete(last)).await;
    let writer = async {
        for i in 0..WRITES {
            let txn = Txn::new().put(format!("followed/{}", i % 7), i.to_string());
            commit(store, txn.delete(format!("followed/{}", (i + 3) % 7))).await;
        }
        commit(store, Txn::new().put(last, "")).await
    };
    let follower = async {
        let snapshot = store.range("followed/").await.expect("a range");
        let mut watch = store.watch("followed/", snapshot.revision).await.expect("a watch");
        let mut seen: std::collections::BTreeMap<_, _> = snapshot.entries.into_iter().collect();
        let mut revision = snapshot.revision;
        while !seen.contains_key(last) {
            let committed = watch.next().await.expect("goes on").expect("remembered");
            assert!(committed.revision > revision, "in order, each once");
            revision = committed.revision;
            for Change { key, value } in committed.changes {
                match value {
                    Some(value) => drop(seen.insert(key, Versioned { value, revision })),
                    None => drop(seen.remove(&key)),
                }
            }
        }
        seen
    };
    let (_, seen) = join(writer, follower).await;
    let present = store.range("followed/").await.expect("a range").entries;
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), present);
}

async fn get(store: &dyn Store, key: &str) -> Option<Versioned> {
    store.get(key).await.expect("a read")
}

async fn commit(store: &dyn Store, txn: Txn) -> Revision {
    store.commit(txn).await.expect("a write")
}
