//! Getting a version from whoever has it: into memory first, and from there to the disk.
//!
//! A worker waits for the bytes, not for its disk: [`fetch`] answers once every tensor is in memory
//! and right, and [`Fetched::keep`] writes them whenever there is time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, iter};
use rl::{Digest, WeightRef};

use crate::blobs::matches;
use crate::claim::Claim;
use crate::folder::io_error;
use crate::{TensorEntry, WeightManifest, WeightStore, WeightsError};

/// How many tensors are read or checked at once: enough to hide a wait, few enough to hold.
const AT_ONCE: usize = 8;

/// Somebody who may have weights: a learner, a peer, another folder. A [`WeightStore`] is one, so
/// whatever was fetched can be served on.
///
/// Every call has a deadline of its own, set by the implementation.
#[async_trait]
pub trait Source: Send + Sync {
    /// The name in messages: an address or a folder.
    fn name(&self) -> String;

    /// The manifest that `wanted` names, as [`WeightManifest::encode`] gives it.
    async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError>;

    /// The bytes of each of `wanted` under the digest they are said to have, in any order. What
    /// the source lacks is an error or left out, and keeps back no other.
    fn blobs(&self, wanted: Vec<Digest>) -> Blobs;
}

/// Tensors on their way.
pub type Blobs = BoxStream<'static, Result<(Digest, Bytes), WeightsError>>;

/// A version in memory, whole and right.
#[derive(Debug)]
pub struct Fetched {
    manifest: WeightManifest,
    blobs: BTreeMap<Digest, Bytes>,
    /// What came from a source and may not be on the disk.
    came: BTreeSet<Digest>,
    store: WeightStore,
    _claim: Claim,
}

impl Fetched {
    /// What was wanted.
    #[must_use]
    pub fn manifest(&self) -> &WeightManifest {
        &self.manifest
    }

    /// The tensors with their bytes.
    pub fn tensors(&self) -> impl Iterator<Item = (&TensorEntry, Bytes)> {
        self.manifest.tensors.iter().map(|tensor| (tensor, self.blobs[&tensor.digest].clone()))
    }

    /// Writes what came to the disk, the manifest last. Waits for the disk.
    ///
    /// # Errors
    /// [`WeightsError::Io`]; the version is not on the disk then.
    pub fn keep(&self) -> Result<(), WeightsError> {
        self.keep_tensors()?;
        self.store.place_manifest(&self.manifest)
    }

    fn keep_tensors(&self) -> Result<(), WeightsError> {
        self.came.iter().try_for_each(|digest| self.store.place_blob(*digest, &self.blobs[digest]))
    }

    fn missing(&self) -> Vec<Digest> {
        let digests = self.manifest.blobs().into_iter();
        digests.filter(|digest| !self.blobs.contains_key(digest)).collect()
    }

    /// Takes what `source` has of what is missing. Fails with the first thing that was wrong.
    async fn take(&mut self, source: &dyn Source) -> Result<(), WeightsError> {
        let store = self.store.clone();
        let check = async |answer: Result<(Digest, Bytes), WeightsError>| {
            let (digest, bytes) = answer?;
            on_disk(&store, move |_| matches(digest, &bytes).map(|()| (digest, bytes))).await
        };
        let wanted = self.missing();
        let mut answers = pin!(source.blobs(wanted.clone()).map(check).buffered(AT_ONCE));
        let mut fault = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok((digest, bytes)) if wanted.contains(&digest) => {
                    self.came.insert(digest);
                    self.blobs.insert(digest, bytes);
                }
                // Right, and not asked for.
                Ok(_) => {}
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        match (fault, self.missing().len()) {
            (Some(fault), _) => Err(fault),
            (None, 0) => Ok(()),
            (None, left) => Err(WeightsError::Source {
                from: source.name(),
                what: format!("{left} tensors"),
                retryable: true,
                source: "they were left out".into(),
            }),
        }
    }
}

/// Brings `wanted` into memory, every tensor right.
///
/// Only what the disk lacks is asked for, of one source after the other until all bytes have their
/// digest. What came before a failure is written to the disk, so the next try goes on from there.
///
/// # Errors
/// [`WeightsError::Exhausted`] with every source's answer; what [`WeightStore`] itself may fail with.
pub async fn fetch(
    store: &WeightStore,
    sources: &[Arc<dyn Source>],
    wanted: WeightRef,
) -> Result<Fetched, WeightsError> {
    let manifest = manifest(store, sources, wanted).await?;
    let digests = manifest.blobs();
    let claim = store.claims.hold(digests.clone());
    let blobs = on_disk(store, move |store| store.present(digests)).await?;
    let store = store.clone();
    let mut fetched = Fetched { manifest, blobs, came: BTreeSet::new(), store, _claim: claim };
    let mut tried = Vec::new();
    for source in sources {
        if fetched.missing().is_empty() {
            break;
        }
        if let Err(error) = fetched.take(source.as_ref()).await {
            tried.push(passed_over(source.as_ref(), error));
        }
    }
    let Some(lacking) = fetched.missing().first().copied() else {
        return Ok(fetched);
    };
    let mut tensors = fetched.manifest.tensors.iter();
    let name = tensors.find(|tensor| tensor.digest == lacking).map_or("", |tensor| &tensor.name);
    let what = format!("tensor \"{name}\" of {wanted}");
    on_disk(&fetched.store.clone(), move |_| fetched.keep_tensors()).await?;
    Err(WeightsError::Exhausted { what, tried })
}

async fn manifest(
    store: &WeightStore,
    sources: &[Arc<dyn Source>],
    wanted: WeightRef,
) -> Result<WeightManifest, WeightsError> {
    if let Ok(manifest) = on_disk(store, move |store| store.resolve(wanted)).await {
        return Ok(manifest);
    }
    let mut tried = Vec::new();
    for source in sources {
        let answer = source.manifest(wanted).await;
        match answer.and_then(|bytes| WeightManifest::decode(wanted, &bytes)) {
            Ok(manifest) => return Ok(manifest),
            Err(error) => tried.push(passed_over(source.as_ref(), error)),
        }
    }
    Err(WeightsError::Exhausted { what: format!("the manifest of {wanted}"), tried })
}

fn passed_over(source: &dyn Source, error: WeightsError) -> (String, WeightsError) {
    let name = source.name();
    tracing::warn!(source = name, error = &error as &dyn std::error::Error, "source passed over");
    (name, error)
}

#[async_trait]
impl Source for WeightStore {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    async fn manifest(&self, wanted: WeightRef) -> Result<Bytes, WeightsError> {
        on_disk(self, move |store| store.resolve(wanted).map(|manifest| manifest.encode())).await
    }

    fn blobs(&self, wanted: Vec<Digest>) -> Blobs {
        let store = self.clone();
        let read = move |digest| {
            let store = store.clone();
            async move {
                let bytes = on_disk(&store, move |store| store.blob(digest)).await?;
                Ok((digest, bytes))
            }
        };
        iter(wanted).map(read).buffered(AT_ONCE).boxed()
    }
}

/// Runs `body` where it may wait for the disk or take its time.
async fn on_disk<T: Send + 'static>(
    store: &WeightStore,
    body: impl FnOnce(&WeightStore) -> Result<T, WeightsError> + Send + 'static,
) -> Result<T, WeightsError> {
    let ours = store.clone();
    let outcome = tokio::task::spawn_blocking(move || body(&ours)).await;
    outcome.map_err(|ended| io_error("finish work on", &store.root)(io::Error::other(ended)))?
}
