//! Bytes under their digest: in only if right, out only if right.
//!
//! Nothing here is flushed to the device but manifests. A process that dies loses no written page,
//! so only the end of the machine could leave a tensor half there; and then its digest says so,
//! the version is passed over, and the one before it, or a peer's copy, is taken. Flushing every
//! tensor of every step would cost more than the step's own work to protect what a manifest already
//! protects. The manifest is flushed, one small file a version, so that after a power cut the log
//! can say which version is incomplete instead of never having heard of it.
//!
//! A file costs more than its bytes (see `spare`), so state that is only ever read whole, such as an optimiser's moments, is best published as few
//! tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rl::Digest;

use crate::folder::io_error;
use crate::{TensorEntry, WeightManifest, WeightStore, WeightsError, digest};

/// Whether `bytes` have the digest that was asked for.
///
/// # Errors
/// [`WeightsError::WrongBytes`] if not.
pub(crate) fn matches(expected: Digest, bytes: &[u8]) -> Result<(), WeightsError> {
    let found = digest(bytes);
    if found == expected {
        return Ok(());
    }
    let (what, bytes) = (format!("blob {expected}"), bytes.len());
    Err(WeightsError::WrongBytes { what, expected, found, bytes })
}

/// When a file is made durable.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Flush {
    /// Before it is visible.
    Now,
    /// When the system gets to it.
    Later,
}

impl WeightStore {
    /// The bytes of `tensor`.
    ///
    /// # Errors
    /// [`WeightsError::Missing`] or [`WeightsError::Damaged`], naming tensor and file.
    pub fn tensor(&self, tensor: &TensorEntry) -> Result<Bytes, WeightsError> {
        self.read(tensor.digest, || format!("tensor \"{}\"", tensor.name))
    }

    /// The bytes with that digest.
    ///
    /// # Errors
    /// As [`WeightStore::tensor`], without a tensor to name.
    pub fn blob(&self, digest: Digest) -> Result<Bytes, WeightsError> {
        self.read(digest, || format!("blob {digest}"))
    }

    /// What `manifest` names and is not here, or was not right and is out of the way now.
    ///
    /// # Errors
    /// [`WeightsError::Io`] if a file that is here cannot be read.
    pub fn missing(&self, manifest: &WeightManifest) -> Result<Vec<Digest>, WeightsError> {
        let present = self.present(manifest.blobs())?;
        let digests = manifest.blobs().into_iter();
        Ok(digests.filter(|digest| !present.contains_key(digest)).collect())
    }

    /// Those of `wanted` that are here; what was not right is out of the way now.
    pub(crate) fn present(
        &self,
        wanted: BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, Bytes>, WeightsError> {
        let mut present = BTreeMap::new();
        for digest in wanted {
            match self.blob(digest) {
                Ok(bytes) => drop(present.insert(digest, bytes)),
                Err(WeightsError::Missing { .. }) => {}
                Err(error @ WeightsError::Damaged { .. }) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "blob to be replaced");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(present)
    }

    /// Reads every tensor of `manifest` and stops at the first fault.
    pub(crate) fn verify(&self, manifest: &WeightManifest) -> Result<(), WeightsError> {
        manifest.tensors.iter().try_for_each(|tensor| self.tensor(tensor).map(drop))
    }

    /// Makes bytes that are known to have `digest` visible, unless they are already.
    pub(crate) fn place_blob(&self, digest: Digest, bytes: &[u8]) -> Result<(), WeightsError> {
        match self.blob(digest) {
            Ok(_) => Ok(()),
            Err(WeightsError::Missing { .. } | WeightsError::Damaged { .. }) => {
                self.place(&self.blobs().join(digest.to_string()), bytes, Flush::Later)
            }
            Err(error) => Err(error),
        }
    }

    /// Puts `bytes` at `path` all at once.
    pub(crate) fn place(
        &self,
        path: &Path,
        bytes: &[u8],
        flush: Flush,
    ) -> Result<(), WeightsError> {
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = self.drafts().join(format!("{}-{number}", std::process::id()));
        self.spares.take(bytes.len() as u64, &draft);
        let written = (|| -> io::Result<()> {
            // A spare file has the right length already.
            let mut file = File::options().write(true).create(true).truncate(false).open(&draft)?;
            file.write_all(bytes)?;
            if flush == Flush::Now {
                file.sync_all()?;
            }
            fs::rename(&draft, path)
        })();
        written.map_err(|source| {
            // The write's own failure is the one to tell; a draft left behind is pruned later.
            fs::remove_file(&draft).ok();
            io_error("write", path)(source)
        })
    }

    fn read(&self, expected: Digest, what: impl Fn() -> String) -> Result<Bytes, WeightsError> {
        let name = expected.to_string();
        let path = self.blobs().join(&name);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(WeightsError::Missing { what: what(), path });
            }
            outcome => outcome.map_err(io_error("read", &path))?,
        };
        let found = digest(&bytes);
        if found == expected {
            return Ok(bytes.into());
        }
        let moved_to = self.damaged().join(&name);
        fs::rename(&path, &moved_to).map_err(io_error("move the damaged", &path))?;
        Err(WeightsError::Damaged { what: what(), path, bytes: bytes.len(), found, moved_to })
    }
}
