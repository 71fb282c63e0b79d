//! Getting a version from whoever has it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use rl::{Digest, WeightRef};

use crate::folder::io_error;
use crate::{WeightManifest, WeightStore, WeightsError};

/// How many tensors are on their way at once: enough to hide a round trip, few enough to hold.
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

    /// The bytes with that digest.
    async fn blob(&self, digest: Digest) -> Result<Bytes, WeightsError>;
}

/// Brings `wanted` into `store` and answers its manifest once all tensors are there and right.
///
/// Only what is missing is asked for, of one source after the other until the bytes have their
/// digest. What came before a failure is kept, so the next try goes on from there.
///
/// # Errors
/// [`WeightsError::Exhausted`] with every source's answer; what [`WeightStore`] itself may fail with.
pub async fn fetch(
    store: &WeightStore,
    sources: &[Arc<dyn Source>],
    wanted: WeightRef,
) -> Result<WeightManifest, WeightsError> {
    let manifest = manifest(store, sources, wanted).await?;
    let _claim = store.claims.hold(manifest.blobs());
    let here = manifest.clone();
    let missing = on_disk(store, move |store| store.missing(&here)).await?;
    let mut names = BTreeMap::new();
    for tensor in &manifest.tensors {
        names.entry(tensor.digest).or_insert(tensor.name.as_str());
    }
    let blobs = missing.into_iter().map(|digest| {
        blob(store, sources, digest, format!("tensor \"{}\" of {wanted}", names[&digest]))
    });
    iter(blobs).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let placed = manifest.clone();
    on_disk(store, move |store| store.place_manifest(&placed)).await?;
    Ok(manifest)
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

async fn blob(
    store: &WeightStore,
    sources: &[Arc<dyn Source>],
    digest: Digest,
    what: String,
) -> Result<(), WeightsError> {
    let mut tried = Vec::new();
    for source in sources {
        let error = match source.blob(digest).await {
            Err(error) => error,
            Ok(bytes) => match on_disk(store, move |store| store.insert_blob(digest, &bytes)).await
            {
                Err(error @ WeightsError::WrongBytes { .. }) => error,
                // In, or a fault of our own disk that no other source would mend.
                outcome => return outcome,
            },
        };
        tried.push(passed_over(source.as_ref(), error));
    }
    Err(WeightsError::Exhausted { what, tried })
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

    async fn blob(&self, digest: Digest) -> Result<Bytes, WeightsError> {
        on_disk(self, move |store| store.blob(digest)).await
    }
}

/// Runs `body` where it may wait for the disk.
async fn on_disk<T: Send + 'static>(
    store: &WeightStore,
    body: impl FnOnce(&WeightStore) -> Result<T, WeightsError> + Send + 'static,
) -> Result<T, WeightsError> {
    let ours = store.clone();
    let outcome = tokio::task::spawn_blocking(move || body(&ours)).await;
    outcome.map_err(|ended| io_error("finish work on", &store.root)(io::Error::other(ended)))?
}
