//! The embedded file: the suite of all backends, its own file, other processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use store::{Embedded, Revision, Store, StoreError, Txn, conformance};

const FILE: &str = "run.store";

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(FILE);
    (folder, path)
}

/// This test program again, running only `test`, in `folder`.
fn child(test: &str, folder: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("piped"));
    (child, lines)
}

#[tokio::test]
async fn keeps_every_promise() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).await.expect("a new store");
    conformance::all(&store).await;
    // Again, on a used and reopened one.
    drop(store);
    conformance::all(&Embedded::open(&path).await.expect("the same store")).await;
}

#[tokio::test]
async fn a_later_term_fences_a_living_one_and_terms_survive() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).await.expect("a new store");
    let first = store.campaign("first").await.expect("a term");
    let revision = store.commit(Txn::new().fenced(&first).put("k", "1")).await.expect("leads");
    drop(store);
    let store = Embedded::open(&path).await.expect("the same store");
    store.commit(Txn::new().fenced(&first).expect("k", revision)).await.expect("still leads");
    let second = store.campaign("second").await.expect("a term");
    assert_eq!((first.number, second.number), (1, 2));
    let error = store.commit(Txn::new().fenced(&first).put("k", "2")).await.expect_err("over");
    assert_eq!(error.to_string(), "term 1 is over (now 2)");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_watch_from_before_the_opening_is_told_to_read_again() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).await.expect("a new store");
    let old = store.commit(Txn::new().put("k", "1")).await.expect("written");
    store.commit(Txn::new().put("k", "2")).await.expect("written");
    drop(store);
    let store = Embedded::open(&path).await.expect("the same store");
    let mut watch = store.watch("", old).await.expect("a watch");
    let next = futures::StreamExt::next(&mut watch).await.expect("an item");
    assert!(matches!(next, Err(StoreError::Lagged { oldest: Revision(2), .. })), "{next:?}");
}

#[tokio::test]
async fn an_open_file_is_refused_by_name() {
    let (folder, path) = folder();
    drop(Embedded::open(&path).await.expect("a new store"));
    let (mut holder, mut lines) = child("holds_the_file", folder.path());
    assert!(said(&mut lines, "held").is_some());
    let error = Embedded::open(&path).await.map(drop).expect_err("held by the child");
    assert_eq!(
        error.to_string(),
        format!("{} is held by another process (one store file, one process)", path.display())
    );
    assert_eq!(error.code(), "locked");
    holder.kill().expect("killed");
    holder.wait().expect("ended");
    Embedded::open(&path).await.expect("the lock ended with the child");
}

#[tokio::test]
#[ignore = "a child of an_open_file_is_refused_by_name"]
async fn holds_the_file() {
    if Path::new(FILE).exists() {
        let _store = Embedded::open(FILE).await.expect("opened");
        println!("held");
        std::future::pending::<()>().await;
    }
}

#[tokio::test]
async fn other_files_are_refused_by_name() {
    let (folder, _) = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "run: 1\n".repeat(9999)).expect("written");
    fs::write(path("empty"), "").expect("written");
    let other = redb::Database::create(path("other")).expect("a database");
    let write = other.begin_write().expect("a transaction");
    let table = redb::TableDefinition::<u64, u64>::new("data");
    write.open_table(table).expect("a table").insert(1, 2).expect("inserted");
    write.commit().expect("committed");
    drop(other);
    for (name, code) in [
        ("text", "foreign"),
        ("empty", "foreign"),
        ("other", "foreign"),
        (".", "io"),
        ("no/k", "io"),
    ] {
        let error = Embedded::open(path(name)).await.map(drop).expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error:?}");
        assert!(error.to_string().contains(&path(name).display().to_string()), "{error}");
    }
    assert_eq!(fs::read(path("text")).expect("left alone").len(), 7 * 9999);
}

/// No damage brings the process down, and none is read as data.
#[tokio::test]
async fn damage_is_an_error_or_harmless() {
    let (_folder, path) = folder();
    let store = Embedded::open(&path).await.expect("a new store");
    for i in 0..40 {
        let txn = Txn::new().put(format!("k/{i}"), vec![i; 700]).delete(format!("k/{}", i / 2));
        store.commit(txn).await.expect("written");
    }
    let expected = store.range("").await.expect("a range");
    drop(store);
    let sound = fs::read(&path).expect("the file");
    let used = sound.iter().rposition(|&byte| byte != 0).expect("not empty");
    let mut refused = 0;
    let flips = (0..64).map(|i| i * 5).chain((320..used).step_by(used / 150));
    let damages = flips.map(|at| (at, sound.len())).chain((0..20).map(|i| (0, used * i / 20)));
    for (at, len) in damages {
        let mut damaged = sound.clone();
        damaged[at] ^= if len == sound.len() { 0x10 } else { 0 };
        damaged.truncate(len);
        fs::write(&path, &damaged).expect("written");
        let found = match Embedded::open(&path).await {
            Ok(store) => store.range("").await,
            Err(error) => Err(error),
        };
        match found {
            Ok(found) => assert_eq!(found, expected, "flip at {at}, length {len}"),
            Err(error) => {
                assert!(matches!(error.code(), "corrupt" | "foreign" | "io"), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 40, "only {refused} refused");
}

/// Kills a writer again and again; what it was told is there, whole, and it goes on from there.
#[tokio::test]
async fn a_killed_writer_leaves_a_prefix_of_its_history() {
    let (folder, path) = folder();
    drop(Embedded::open(&path).await.expect("a new store"));
    let mut next = 0;
    for round in 0..12_u64 {
        let (mut writer, mut lines) = child("writes_until_killed", folder.path());
        let target = next + 1 + round * 7 % 10;
        let mut told = said(&mut lines, &format!("wrote {target}"));
        assert!(told.is_some(), "the writer ended by itself");
        // Some moment of the commit that is going on now.
        let moment = Instant::now() + Duration::from_micros(round * 331 % 3000);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        writer.kill().expect("killed");
        writer.wait().expect("ended");
        while let Some(more) = said(&mut lines, "wrote ") {
            told = Some(more);
        }
        let told: u64 =
            told.expect("a line").trim_start_matches("wrote ").parse().expect("a number");

        let store = Embedded::open(&path).await.expect("opens after a kill");
        let history = store.range("history/").await.expect("a range").entries;
        let count = history.len() as u64;
        assert!(count == told + 1 || count == told + 2, "told of {told}, found {count}");
        for (i, (key, versioned)) in history.iter().enumerate() {
            assert_eq!((key, &versioned.value), (&step_key(i as u64), &step_value(i as u64)));
        }
        for key in ["head/a", "head/b"] {
            let head = store.get(key).await.expect("a read").expect("a head");
            let (_, last) = history.last().expect("not empty");
            assert_eq!((&head.value, head.revision), (&last.value, last.revision), "{key}");
        }
        next = count;
    }
}

fn step_key(i: u64) -> String {
    format!("history/{i:08}")
}

/// Big enough that one commit writes many pages.
fn step_value(i: u64) -> Vec<u8> {
    i.to_le_bytes().repeat(600)
}

#[tokio::test]
#[ignore = "a child of a_killed_writer_leaves_a_prefix_of_its_history"]
async fn writes_until_killed() {
    if !Path::new(FILE).exists() {
        return;
    }
    let store = Embedded::open(FILE).await.expect("opened");
    let count = store.range("history/").await.expect("a range").entries.len() as u64;
    for i in count.. {
        let value = step_value(i);
        let txn = Txn::new().expect_absent(step_key(i)).put(step_key(i), value.clone());
        store.commit(txn.put("head/a", value.clone()).put("head/b", value)).await.expect("written");
        println!("wrote {i}");
    }
}

/// The rest of the first line that holds `what`, from there; `None` at the end. A line cut by a kill
/// is none.
fn said(lines: &mut impl BufRead, what: &str) -> Option<String> {
    let mut line = String::new();
    while lines.read_line(&mut line).expect("text") > 0 {
        if let Some(whole) = line.strip_suffix('\n')
            && let Some(at) = whole.find(what)
        {
            return Some(whole[at..].to_owned());
        }
        line.clear();
    }
    None
}
