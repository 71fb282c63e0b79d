//! Fetching from sources that lack, corrupt or refuse what is asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use rl::{Actor, Digest, WeightRef, WeightVersion};
use tempfile::TempDir;
use weights::{
    Blobs, Dtype, Kind, Publication, Source, Tensor, WeightManifest, WeightStore, WeightsError,
    digest, fetch,
};

fn store(folder: &TempDir, name: &str) -> WeightStore {
    WeightStore::open(folder.path().join(name)).expect("a store")
}

fn publish(store: &WeightStore, version: u64, values: &[f32]) -> WeightRef {
    let tensor = |(i, value): (usize, &f32)| Tensor {
        name: format!("layer.{i}"),
        shape: vec![300, 1],
        dtype: Dtype::F32,
        data: value.to_le_bytes().repeat(300).into(),
    };
    let publication = Publication {
        actor: Actor::Generator,
        version: WeightVersion(version),
        kind: Kind::Weights,
        model: digest(b"a model"),
        step: None,
        extra: Default::default(),
        tensors: values.iter().enumerate().map(tensor).collect(),
    };
    store.publish(publication).expect("published")
}

/// A store behind a bad line.
struct Line {
    store: WeightStore,
    /// What becomes of each blob on the way.
    fault: fn(Bytes) -> Result<Bytes, WeightsError>,
    asked: Mutex<Vec<Digest>>,
    streams: AtomicUsize,
    manifests: AtomicUsize,
}

impl Line {
    fn new(store: &WeightStore, fault: fn(Bytes) -> Result<Bytes, WeightsError>) -> Arc<Self> {
        let (streams, manifests) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { store: store.clone(), fault, asked: Mutex::default(), streams, manifests })
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("not poisoned").len()
    }
}

#[async_trait]
impl Source for Line {
    fn name(&self) -> String {
        "line".into()
    }

    async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError> {
        self.manifests.fetch_add(1, Ordering::Relaxed);
        Source::manifest(&self.store, wanted).await
    }

    fn blobs(&self, wanted: Vec<Digest>) -> Blobs {
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.asked.lock().expect("not poisoned").extend(&wanted);
        let fault = self.fault;
        let spoil = move |answer: Result<(Digest, Bytes), WeightsError>| {
            answer.and_then(|(digest, bytes)| Ok((digest, fault(bytes)?)))
        };
        self.store.blobs(wanted).map(spoil).boxed()
    }
}

fn flip(bytes: Bytes) -> Result<Bytes, WeightsError> {
    let mut bytes = bytes.to_vec();
    bytes[700] ^= 0x40;
    Ok(bytes.into())
}

fn cut(_: Bytes) -> Result<Bytes, WeightsError> {
    let source = "connection reset".into();
    Err(WeightsError::Source {
        from: "line".into(),
        what: "a blob".into(),
        retryable: true,
        source,
    })
}

/// Fetches and keeps.
async fn bring(
    store: &WeightStore,
    sources: &[Arc<dyn Source>],
    wanted: WeightRef,
) -> Result<WeightManifest, WeightsError> {
    let fetched = fetch(store, sources, wanted).await?;
    fetched.keep()?;
    Ok(fetched.manifest().clone())
}

fn complete(store: &WeightStore, wanted: WeightRef) -> bool {
    let latest = store.latest(wanted.actor, Kind::Weights).expect("readable");
    latest.is_some_and(|manifest| manifest.reference() == wanted)
}

#[tokio::test]
async fn only_what_is_missing_is_asked_for_and_what_is_here_is_served_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, worker, peer) =
        (store(&folder, "learner"), store(&folder, "worker"), store(&folder, "peer"));
    let first = publish(&learner, 1, &[1.0, 2.0, 3.0]);
    let second = publish(&learner, 2, &[1.0, 2.5, 3.0]);
    let line = Line::new(&learner, Ok);
    let sources: [Arc<dyn Source>; 1] = [line.clone()];
    bring(&worker, &sources, first).await.expect("fetched");
    assert_eq!((line.asked(), line.streams.load(Ordering::Relaxed)), (3, 1), "in one stream");
    let manifest = bring(&worker, &sources, second).await.expect("fetched");
    assert_eq!((line.asked(), manifest.reference()), (4, second));
    bring(&worker, &sources, second).await.expect("here");
    assert_eq!((line.asked(), line.manifests.load(Ordering::Relaxed)), (4, 2), "nothing asked");
    assert!(complete(&worker, second));

    // The learner is gone; the peer gets it from the worker.
    let relay: [Arc<dyn Source>; 1] = [Arc::new(worker.clone())];
    bring(&peer, &relay, second).await.expect("relayed");
    assert!(complete(&peer, second));
    // What is damaged here counts as missing.
    let damaged = manifest.tensor("layer.1").expect("named").digest;
    let path = folder.path().join("peer/blobs").join(damaged.to_string());
    std::fs::write(path, "damaged").expect("written");
    bring(&peer, &sources, second).await.expect("mended");
    assert_eq!(line.asked(), 5);
    assert!(complete(&peer, second));
}

#[tokio::test]
async fn a_flipped_bit_on_the_way_is_asked_for_again_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, empty, worker) =
        (store(&folder, "learner"), store(&folder, "empty"), store(&folder, "worker"));
    let values: Vec<f32> = (0..20).map(|i| i as f32).collect();
    let wanted = publish(&learner, 7, &values);
    let (bad, good) = (Line::new(&learner, flip), Line::new(&learner, Ok));
    let sources: [Arc<dyn Source>; 4] =
        [Arc::new(empty), bad.clone(), Line::new(&learner, cut), good.clone()];
    bring(&worker, &sources, wanted).await.expect("the last source is good");
    assert_eq!((bad.asked(), good.asked()), (20, 20));
    assert!(complete(&worker, wanted));
}

#[tokio::test]
async fn a_broken_fetch_leaves_no_version_and_may_be_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, worker) = (store(&folder, "learner"), store(&folder, "worker"));
    let wanted = publish(&learner, 7, &[1.0, 2.0]);
    let gone = learner.resolve(wanted).expect("here").tensor("layer.1").expect("named").digest;
    let hidden = folder.path().join("learner/blobs").join(gone.to_string());
    let bytes = std::fs::read(&hidden).expect("a blob");
    std::fs::remove_file(&hidden).expect("removed");

    let line: [Arc<dyn Source>; 1] = [Line::new(&learner, Ok)];
    let error = bring(&worker, &line, wanted).await.expect_err("one is gone");
    assert_eq!(
        error.to_string(),
        format!(
            "no source has tensor \"layer.1\" of {wanted}: \
             line: blob {gone} is missing: there is no {}",
            hidden.display()
        )
    );
    assert!(!error.is_retryable());
    assert!(!complete(&worker, wanted));
    std::fs::write(&hidden, bytes).expect("back");
    let again = Line::new(&learner, Ok);
    let line: [Arc<dyn Source>; 1] = [again.clone()];
    bring(&worker, &line, wanted).await.expect("fetched");
    assert_eq!(again.asked(), 1, "what came before the failure was kept");
    assert!(complete(&worker, wanted));

    let unknown = WeightRef { version: WeightVersion(8), ..wanted };
    let error = bring(&worker, &line, unknown).await.expect_err("never published");
    assert_eq!(error.code(), "exhausted");
    let lines: [Arc<dyn Source>; 1] = [Line::new(&learner, cut)];
    let error = bring(&store(&folder, "other"), &lines, wanted).await.expect_err("cut");
    assert!(error.is_retryable() && error.to_string().contains("connection reset"), "{error}");
}

#[tokio::test]
async fn pruning_leaves_alone_what_is_being_fetched() {
    /// Prunes the fetching store before each answer.
    struct Pruning(WeightStore, WeightStore);
    #[async_trait]
    impl Source for Pruning {
        fn name(&self) -> String {
            "pruning".into()
        }
        async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError> {
            Source::manifest(&self.0, wanted).await
        }
        fn blobs(&self, wanted: Vec<Digest>) -> Blobs {
            let store = self.1.clone();
            let prune = move |answer| store.prune(0, &[]).and(answer);
            self.0.blobs(wanted).map(prune).boxed()
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, worker) = (store(&folder, "learner"), store(&folder, "worker"));
    let values: Vec<f32> = (0..20).map(|i| i as f32).collect();
    let wanted = publish(&learner, 7, &values);
    let source: Arc<dyn Source> = Arc::new(Pruning(learner, worker.clone()));
    let fetched = fetch(&worker, &[source], wanted).await.expect("fetched");
    worker.prune(0, &[]).expect("pruned");
    fetched.keep().expect("kept");
    assert!(complete(&worker, wanted));
}

#[tokio::test]
async fn a_version_is_whole_in_memory_before_it_is_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, worker) = (store(&folder, "learner"), store(&folder, "worker"));
    let wanted = publish(&learner, 7, &[1.0, 2.0]);
    let line: [Arc<dyn Source>; 1] = [Line::new(&learner, Ok)];
    let fetched = fetch(&worker, &line, wanted).await.expect("fetched");
    let sum: f32 = fetched
        .tensors()
        .map(|(tensor, bytes)| {
            assert_eq!(digest(&bytes), tensor.digest);
            f32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"))
        })
        .sum();
    assert_eq!(sum, 3.0);
    assert!(!complete(&worker, wanted));

    // The worker's disk refuses; it can sample all the same, and the version stays unseen.
    let blobs = folder.path().join("worker/blobs");
    std::fs::remove_dir(&blobs).expect("empty");
    assert_eq!(fetched.keep().expect_err("nowhere to write").code(), "io");
    assert!(!complete(&worker, wanted));
    std::fs::create_dir(&blobs).expect("made");
    fetched.keep().expect("kept");
    assert!(complete(&worker, wanted));
}

/// A source may leave out what it lacks, and say things that nobody asked for.
#[tokio::test]
async fn what_is_left_out_is_asked_for_elsewhere() {
    struct Partial(WeightStore);
    #[async_trait]
    impl Source for Partial {
        fn name(&self) -> String {
            "partial".into()
        }
        async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError> {
            Source::manifest(&self.0, wanted).await
        }
        fn blobs(&self, mut wanted: Vec<Digest>) -> Blobs {
            wanted.truncate(1);
            let other = Bytes::from_static(b"not asked for");
            let unasked = futures::stream::iter([Ok((digest(&other), other))]);
            unasked.chain(self.0.blobs(wanted)).boxed()
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (learner, worker) = (store(&folder, "learner"), store(&folder, "worker"));
    let wanted = publish(&learner, 7, &[1.0, 2.0, 3.0]);
    let partial: Arc<dyn Source> = Arc::new(Partial(learner.clone()));
    let error = bring(&store(&folder, "other"), std::slice::from_ref(&partial), wanted).await;
    let error = error.expect_err("two are left out");
    assert!(
        error.to_string().ends_with("partial did not give 2 tensors: they were left out"),
        "{error}"
    );
    assert!(error.is_retryable());
    let rest = Line::new(&learner, Ok);
    bring(&worker, &[partial, rest.clone()], wanted).await.expect("fetched");
    assert_eq!(rest.asked(), 2);
    assert!(complete(&worker, wanted));
    let blobs = std::fs::read_dir(folder.path().join("worker/blobs")).expect("listed");
    assert_eq!(blobs.count(), 3);
}
