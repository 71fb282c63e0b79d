//! A folder of weights on its own: publishing, reading, damage, pruning.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rl::{Actor, WeightRef, WeightVersion};
use weights::{Dtype, Kind, Pruned, Publication, Tensor, WeightManifest, WeightStore, digest};

fn folder() -> (tempfile::TempDir, WeightStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = WeightStore::open(folder.path().join("weights")).expect("a store");
    (folder, store)
}

/// Tensors of one `i64` each: name and value.
fn publication(version: u64, kind: Kind, tensors: &[(&str, i64)]) -> Publication {
    let tensor = |&(name, value): &(&str, i64)| Tensor {
        name: name.into(),
        shape: vec![1],
        dtype: Dtype::I64,
        data: value.to_le_bytes().to_vec().into(),
    };
    Publication {
        actor: Actor::Policy,
        version: WeightVersion(version),
        kind,
        model: digest(b"a model"),
        step: Some(version),
        extra: [("loss".to_owned(), 0.1.into())].into(),
        tensors: tensors.iter().map(tensor).collect(),
    }
}

fn weights(version: u64, tensors: &[(&str, i64)]) -> Publication {
    publication(version, Kind::Weights, tensors)
}

fn latest(store: &WeightStore, kind: Kind) -> Option<u64> {
    let latest = store.latest(Actor::Policy, kind).expect("a readable folder");
    latest.map(|manifest| manifest.version.0)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn blob_path(folder: &tempfile::TempDir, manifest: &WeightManifest, name: &str) -> PathBuf {
    let digest = manifest.tensor(name).expect("a tensor").digest;
    folder.path().join("weights/blobs").join(digest.to_string())
}

#[test]
fn what_was_published_is_read_back_by_its_reference() {
    let (folder, store) = folder();
    let wanted = store.publish(weights(3, &[("b", 2), ("a", 1), ("tied", 2)])).expect("published");
    let manifest = store.resolve(wanted).expect("here");
    assert_eq!(manifest.reference(), wanted);
    assert_eq!((manifest.step, &manifest.extra["loss"]), (Some(3), &0.1.into()));
    for (name, value) in [("a", 1_i64), ("b", 2), ("tied", 2)] {
        let bytes = store.tensor(manifest.tensor(name).expect("named")).expect("right");
        assert_eq!(bytes[..], value.to_le_bytes(), "{name}");
    }
    assert_eq!(files(&folder.path().join("weights/blobs")).len(), 2, "equal bytes are kept once");
    let other = WeightRef { digest: digest(b"other"), ..wanted };
    assert_eq!(store.resolve(other).expect_err("not here").code(), "unknown");
    assert_eq!(latest(&store, Kind::Weights), Some(3));
    assert_eq!(latest(&store, Kind::Optimizer), None);
}

#[test]
fn publishing_again_changes_nothing_and_another_content_is_refused_once_out() {
    let (folder, store) = folder();
    let state = |value| publication(1, Kind::Optimizer, &[("moment", value)]);
    let lost = store.publish(state(1)).expect("published");
    let state_1 = store.publish(state(2)).expect("the version is not out yet");
    assert_eq!(store.resolve(lost).expect_err("replaced").code(), "unknown");
    let weights_1 = store.publish(weights(1, &[("w", 1), ("v", 2)])).expect("published");

    let before: Vec<_> =
        files(folder.path()).iter().map(|f| fs::metadata(f).unwrap().modified().unwrap()).collect();
    assert_eq!(store.publish(state(2)).expect("again"), state_1);
    assert_eq!(store.publish(weights(1, &[("v", 2), ("w", 1)])).expect("any order"), weights_1);
    let after: Vec<_> =
        files(folder.path()).iter().map(|f| fs::metadata(f).unwrap().modified().unwrap()).collect();
    assert_eq!(before, after, "not written again");

    for other in [weights(1, &[("w", 1), ("v", 3)]), state(3)] {
        let error = store.publish(other).expect_err("out already");
        assert_eq!(error.code(), "already_published", "{error}");
    }
    assert_eq!(store.resolve(weights_1).expect("untouched").reference(), weights_1);
}

#[test]
fn a_flipped_bit_names_tensor_and_file_and_publishing_mends_it() {
    let (folder, store) = folder();
    let first = store.publish(weights(1, &[("w", 1)])).expect("published");
    let second = store.publish(weights(2, &[("w", 2), ("v", 3)])).expect("published");
    let manifest = store.resolve(second).expect("here");
    let entry = manifest.tensor("w").expect("named");
    let path = blob_path(&folder, &manifest, "w");
    for damage in [vec![3, 0, 0, 0, 0, 0, 0, 0], vec![2, 0, 0], vec![]] {
        fs::write(&path, &damage).expect("damaged");
        let error = store.tensor(entry).expect_err("damaged");
        let aside = folder.path().join("weights/damaged").join(entry.digest.to_string());
        assert_eq!(
            error.to_string(),
            format!(
                "tensor \"w\" is damaged: {} has {} bytes with digest {}; moved to {}",
                path.display(),
                damage.len(),
                digest(&damage),
                aside.display()
            )
        );
        assert_eq!(fs::read(&aside).expect("moved"), damage);
        assert_eq!(store.tensor(entry).expect_err("moved").code(), "missing");
        assert_eq!(store.missing(&manifest).expect("readable"), [entry.digest]);
        assert_eq!(latest(&store, Kind::Weights), Some(1), "passed over");
        store.publish(weights(2, &[("w", 2), ("v", 3)])).expect("mended");
        assert_eq!(latest(&store, Kind::Weights), Some(2));
    }
    // A version that nobody can have whole may be replaced.
    fs::remove_file(&path).expect("removed");
    store.publish(weights(2, &[("w", 9)])).expect("it was not out any more");
    store.resolve(first).expect("untouched");
}

#[test]
fn a_manifest_cut_anywhere_or_changed_is_never_chosen() {
    let (folder, store) = folder();
    store.publish(weights(1, &[("w", 1)])).expect("published");
    let wanted = store.publish(weights(2, &[("w", 2)])).expect("published");
    let path = folder.path().join("weights/manifests/policy/v2.weights.json");
    let sound = fs::read(&path).expect("the manifest");
    let copied = fs::read(path.with_file_name("v1.weights.json")).expect("the manifest");
    let cut = (0..sound.len()).map(|len| sound[..len].to_vec());
    let flipped = (0..sound.len()).map(|at| {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        flipped
    });
    for damaged in cut.chain(flipped).chain([copied]) {
        fs::write(&path, &damaged).expect("written");
        let error = store.resolve(wanted).map(drop);
        let error = error.expect_err(&String::from_utf8_lossy(&damaged));
        assert_eq!(error.code(), "damaged_manifest");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert_eq!(latest(&store, Kind::Weights), Some(1));
    }
    assert_eq!(store.publish(weights(2, &[("w", 2)])).expect("mended"), wanted);
    assert_eq!(latest(&store, Kind::Weights), Some(2));
}

#[test]
fn a_write_that_fails_says_where_and_leaves_no_version() {
    let (folder, store) = folder();
    store.publish(weights(1, &[("w", 1)])).expect("published");
    // Works for any user, unlike taking permissions away.
    let drafts = folder.path().join("weights/drafts");
    fs::remove_dir(&drafts).expect("empty");
    fs::write(&drafts, "").expect("a file in the way");
    let error = store.publish(weights(2, &[("w", 2)])).expect_err("nowhere to write");
    let path = folder.path().join("weights/blobs").join(digest(&2_i64.to_le_bytes()).to_string());
    assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
    assert!(!error.is_retryable() && std::error::Error::source(&error).is_some());
    assert_eq!(latest(&store, Kind::Weights), Some(1));
    let error = WeightStore::open(drafts.join("x")).expect_err("a file in the way");
    assert_eq!(error.code(), "io");
}

#[test]
fn a_tensor_that_does_not_fill_its_shape_is_refused() {
    let (_folder, store) = folder();
    let mut bad = weights(1, &[("w", 1)]);
    bad.tensors[0].shape = vec![2];
    assert_eq!(store.publish(bad).expect_err("8 bytes for 2").code(), "invalid");
}

#[test]
fn what_is_staged_is_no_version_and_not_pruned() {
    let (_folder, store) = folder();
    let staged = store.stage(weights(1, &[("w", 1)])).expect("staged");
    assert_eq!(latest(&store, Kind::Weights), None);
    assert_eq!(store.prune(0, &[]).expect("pruned"), Pruned::default());
    staged.publish().expect("published");
    assert_eq!(latest(&store, Kind::Weights), Some(1));
}

#[test]
fn pruning_keeps_the_last_the_pinned_the_complete_and_the_coming() {
    let (folder, store) = folder();
    let mut published = Vec::new();
    for version in 1..=5 {
        let shared = ("frozen", 1000);
        let state = [("moment", 100 + version as i64)];
        store.publish(publication(version, Kind::Optimizer, &state)).expect("published");
        let tensors = [("w", version as i64), shared];
        published.push(store.publish(weights(version, &tensors)).expect("published"));
    }
    store.publish(publication(6, Kind::Optimizer, &[("moment", 106)])).expect("the coming step");
    let left_over = folder.path().join("weights/blobs").join(digest(b"left over").to_string());
    fs::write(left_over, "left over").expect("written");
    fs::write(folder.path().join("weights/drafts/0-1"), "a dead process'").expect("written");
    let fifth = store.resolve(published[4]).expect("here");
    fs::remove_file(blob_path(&folder, &fifth, "w")).expect("5 is incomplete");

    // Kept: 5 (the last), 4 (complete), 2 (pinned). Gone: 1 and 3, two manifests each, and of
    // each one weight and one moment; and what was left over.
    let pruned = store.prune(1, &[published[1]]).expect("pruned");
    assert_eq!(pruned, Pruned { manifests: 4, blobs: 5 });
    for kind in Kind::ALL {
        let versions: Vec<_> =
            store.versions(Actor::Policy, kind).expect("listed").iter().map(|v| v.0).collect();
        let expected: &[u64] = if kind == Kind::Weights { &[2, 4, 5] } else { &[2, 4, 5, 6] };
        assert_eq!(versions, expected);
    }
    for reference in [published[1], published[3]] {
        let manifest = store.resolve(reference).expect("kept");
        assert_eq!(store.missing(&manifest).expect("readable"), []);
    }
    assert_eq!(files(&folder.path().join("weights/drafts")), [] as [PathBuf; 0]);

    // What was pruned is written over by tensors of its length; what is left goes for good.
    let spare = || files(&folder.path().join("weights/spare")).len();
    assert_eq!(spare(), 5);
    let sixth = store.publish(weights(6, &[("w", 6)])).expect("published");
    assert_eq!(spare(), 4);
    let sixth = store.resolve(sixth).expect("here");
    assert_eq!(store.tensor(&sixth.tensors[0]).expect("right")[..], 6_i64.to_le_bytes());
    assert_eq!(store.prune(1, &[published[1]]).expect("again").manifests, 4);
    assert_eq!(store.prune(1, &[published[1]]).expect("again"), Pruned::default());
    assert_eq!(spare(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is published, damaged and pruned: the latest complete version stays, and what a
    /// manifest that is left names is as complete as it was.
    #[test]
    fn pruning_never_makes_a_kept_version_incomplete(
        versions in prop::collection::vec(prop::collection::vec(0..6_i64, 1..4), 1..6),
        damaged in prop::collection::vec(0..6_i64, 0..2),
        keep_last in 0..4_usize,
        pinned in prop::collection::vec(0..6_usize, 0..2),
    ) {
        let (folder, store) = folder();
        let names = ["a", "b", "c", "d"];
        let mut references = Vec::new();
        for (version, values) in versions.iter().enumerate() {
            let tensors: Vec<_> = names.into_iter().zip(values.iter().copied()).collect();
            references.push(store.publish(weights(version as u64, &tensors)).unwrap());
        }
        for value in damaged {
            let name = digest(&value.to_le_bytes()).to_string();
            fs::write(folder.path().join("weights/blobs").join(name), "damaged").unwrap();
        }
        let complete = |reference: &WeightRef| {
            store.resolve(*reference).is_ok_and(|m| store.missing(&m).unwrap().is_empty())
        };
        let before: Vec<_> = references.iter().map(complete).collect();
        let latest_before = latest(&store, Kind::Weights);
        let pinned: Vec<_> = pinned.into_iter().filter_map(|i| references.get(i).copied()).collect();
        store.prune(keep_last, &pinned).unwrap();
        prop_assert_eq!(latest(&store, Kind::Weights), latest_before);
        for (i, reference) in references.iter().enumerate() {
            let kept = store.resolve(*reference).is_ok();
            let must = i + keep_last >= references.len() || pinned.contains(reference);
            prop_assert_eq!(kept, must || latest_before == Some(i as u64), "version {}", i);
            if kept {
                prop_assert_eq!(complete(reference), before[i], "version {}", i);
            }
        }
    }
}
