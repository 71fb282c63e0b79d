//! A folder of weights: what is published here, and what was fetched.
//!
//! ```text
//! blobs/<digest>                       bytes of one tensor
//! manifests/<actor>/v42.weights.json   written last
//! damaged/<digest>                     what did not match its name
//! drafts/                              files not yet under their name
//! spare/                               files to be written over
//! ```
//!
//! One process writes to a folder; any number may read it. Methods wait for the disk: call them
//! where that is allowed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rl::{Actor, Digest, WeightRef, WeightVersion};
use serde::{Deserialize, Serialize};

use crate::blobs::Flush;
use crate::claim::{Claim, Claims};
use crate::spare::Spares;
use crate::{Dtype, Kind, TensorEntry, WeightManifest, WeightsError, digest};

/// Weights in a folder; clones share it.
#[derive(Debug, Clone)]
pub struct WeightStore {
    pub(crate) root: PathBuf,
    pub(crate) claims: Claims,
    pub(crate) spares: Spares,
}

/// A version to be published; the fields are those of [`WeightManifest`].
#[derive(Debug, Clone)]
pub struct Publication {
    /// Whose weights.
    pub actor: Actor,
    /// Their version.
    pub version: WeightVersion,
    /// What the tensors are for.
    pub kind: Kind,
    /// The fingerprint of the model's configuration.
    pub model: Digest,
    /// The step that made this version.
    pub step: Option<u64>,
    /// Whatever else should be found again.
    pub extra: BTreeMap<String, serde_json::Value>,
    /// The tensors, in any order.
    pub tensors: Vec<Tensor>,
}

/// A tensor with its bytes.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its elements, little-endian and row-major.
    pub data: Bytes,
}

/// Tensors that are written and not yet a version. Dropped, they are left for pruning.
#[derive(Debug)]
pub struct Staged {
    manifest: WeightManifest,
    store: WeightStore,
    _claim: Claim,
}

/// A manifest file: it knows its own digest, so damage shows without anything to compare with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestFile {
    digest: Digest,
    manifest: WeightManifest,
}

impl WeightStore {
    /// The store in `root`, made if it is not there.
    ///
    /// # Errors
    /// [`WeightsError::Io`] if the folders cannot be made.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, WeightsError> {
        let store =
            Self { root: root.into(), claims: Claims::default(), spares: Spares::default() };
        let actors = [Actor::Policy, Actor::Generator].map(|actor| store.manifests(actor));
        for folder in
            [store.blobs(), store.damaged(), store.drafts(), store.spare()].iter().chain(&actors)
        {
            fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
        }
        Ok(store)
    }

    /// Writes the tensors, then the manifest that makes them a version. Doing it again changes
    /// nothing, and mends what was damaged since.
    ///
    /// A version is out once its weights are complete; until then anything of it may be replaced,
    /// so publish the optimiser's state before the weights.
    ///
    /// # Errors
    /// [`WeightsError::AlreadyPublished`] if the version is out with other content,
    /// [`WeightsError::Invalid`] for tensors that contradict themselves, [`WeightsError::Io`].
    pub fn publish(&self, publication: Publication) -> Result<WeightRef, WeightsError> {
        self.stage(publication)?.publish()
    }

    /// The first half of [`WeightStore::publish`]: writes the tensors, which nobody sees yet. So
    /// weights and optimiser's state can be written side by side, and published in their order.
    ///
    /// # Errors
    /// As for [`WeightStore::publish`].
    pub fn stage(&self, publication: Publication) -> Result<Staged, WeightsError> {
        let Publication { actor, version, kind, model, step, extra, mut tensors } = publication;
        // The digest must not depend on the order in which a model lists its tensors.
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let entries = tensors.iter().map(Tensor::entry).collect();
        let manifest =
            WeightManifest { actor, version, kind, model, step, tensors: entries, extra };
        manifest.check()?;
        self.refuse_another(&manifest)?;

        let claim = self.claims.hold(manifest.blobs());
        for (entry, tensor) in manifest.tensors.iter().zip(&tensors) {
            self.place_blob(entry.digest, &tensor.data)?;
        }
        Ok(Staged { manifest, store: self.clone(), _claim: claim })
    }

    /// The manifest that `wanted` names.
    ///
    /// # Errors
    /// [`WeightsError::Unknown`] if it is not here, [`WeightsError::DamagedManifest`].
    pub fn resolve(&self, wanted: WeightRef) -> Result<WeightManifest, WeightsError> {
        let mut failure = WeightsError::Unknown(wanted);
        for kind in Kind::ALL {
            match self.find(wanted.actor, wanted.version, kind) {
                Ok(Some(found)) if found.reference() == wanted => return Ok(found),
                Ok(_) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// The manifest of `actor`'s `version`, if there is one. Its tensors may be incomplete.
    ///
    /// # Errors
    /// [`WeightsError::DamagedManifest`] if the file is not what was written, [`WeightsError::Io`].
    pub fn find(
        &self,
        actor: Actor,
        version: WeightVersion,
        kind: Kind,
    ) -> Result<Option<WeightManifest>, WeightsError> {
        let path = self.manifest_path(actor, version, kind);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            outcome => outcome.map_err(io_error("read", &path))?,
        };
        let damaged = |detail| WeightsError::DamagedManifest { path: path.clone(), detail };
        let ManifestFile { digest, manifest } =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let found = manifest.reference();
        if found.digest != digest {
            return Err(damaged(format!("its digest is {}, expected {digest}", found.digest)));
        }
        if (manifest.actor, manifest.version, manifest.kind) != (actor, version, kind) {
            return Err(damaged(format!("it is of {found} ({})", manifest.kind.name())));
        }
        Ok(Some(manifest))
    }

    /// The highest version whose manifest and tensors are all here and right.
    ///
    /// Reads every tensor of the versions it looks at; says in the log why it passes one over.
    ///
    /// # Errors
    /// [`WeightsError::Io`] if the folder cannot be read.
    pub fn latest(&self, actor: Actor, kind: Kind) -> Result<Option<WeightManifest>, WeightsError> {
        for version in self.versions(actor, kind)?.into_iter().rev() {
            let complete = self.find(actor, version, kind).and_then(|found| {
                found.iter().try_for_each(|manifest| self.verify(manifest)).map(|()| found)
            });
            match complete {
                Ok(Some(manifest)) => return Ok(Some(manifest)),
                Ok(None) => {}
                Err(error) => {
                    let kind = kind.name();
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(%actor, weight_version = %version, kind, error, "version passed over");
                }
            }
        }
        Ok(None)
    }

    /// The versions that have a manifest file of `kind`, sound or not, in order.
    ///
    /// # Errors
    /// [`WeightsError::Io`] if the folder cannot be read.
    pub fn versions(&self, actor: Actor, kind: Kind) -> Result<Vec<WeightVersion>, WeightsError> {
        let suffix = format!(".{}.json", kind.name());
        let version = |name: String| {
            let number = name.strip_prefix('v')?.strip_suffix(&suffix)?;
            number.parse().ok().map(WeightVersion)
        };
        let names = names(&self.manifests(actor))?;
        let mut versions: Vec<_> = names.into_iter().filter_map(version).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// Makes `manifest` visible; its tensors must be here.
    pub(crate) fn place_manifest(&self, manifest: &WeightManifest) -> Result<(), WeightsError> {
        let WeightRef { actor, version, digest } = manifest.reference();
        let path = self.manifest_path(actor, version, manifest.kind);
        let file = ManifestFile { digest, manifest: manifest.clone() };
        let text = serde_json::to_vec(&file).expect("a manifest has text keys and finite numbers");
        if fs::read(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        self.place(&path, &text, Flush::Now)
    }

    fn refuse_another(&self, offered: &WeightManifest) -> Result<(), WeightsError> {
        let (actor, version) = (offered.actor, offered.version);
        // A manifest that cannot be read was never out; it is written anew.
        let found = |kind| self.find(actor, version, kind).ok().flatten();
        let Some(published) = found(offered.kind).map(|found| found.reference()) else {
            return Ok(());
        };
        let offered = offered.reference();
        let out = || found(Kind::Weights).is_some_and(|weights| self.verify(&weights).is_ok());
        if published != offered && out() {
            return Err(WeightsError::AlreadyPublished { published, offered });
        }
        Ok(())
    }

    pub(crate) fn manifest_path(
        &self,
        actor: Actor,
        version: WeightVersion,
        kind: Kind,
    ) -> PathBuf {
        self.manifests(actor).join(format!("{version}.{}.json", kind.name()))
    }

    pub(crate) fn manifests(&self, actor: Actor) -> PathBuf {
        self.root.join("manifests").join(actor.name())
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn damaged(&self) -> PathBuf {
        self.root.join("damaged")
    }

    pub(crate) fn drafts(&self) -> PathBuf {
        self.root.join("drafts")
    }

    pub(crate) fn spare(&self) -> PathBuf {
        self.root.join("spare")
    }
}

impl Staged {
    /// Writes the manifest.
    ///
    /// # Errors
    /// [`WeightsError::Io`].
    pub fn publish(self) -> Result<WeightRef, WeightsError> {
        self.store.place_manifest(&self.manifest)?;
        Ok(self.manifest.reference())
    }
}

impl Tensor {
    fn entry(&self) -> TensorEntry {
        TensorEntry {
            name: self.name.clone(),
            shape: self.shape.clone(),
            dtype: self.dtype,
            digest: digest(&self.data),
            bytes: self.data.len() as u64,
        }
    }
}

/// The names in `folder` that are text; others are not ours.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, WeightsError> {
    let list = || -> io::Result<Vec<String>> {
        let entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    };
    list().map_err(io_error("list", folder))
}

pub(crate) fn io_error(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> WeightsError {
    let path = path.to_path_buf();
    move |source| WeightsError::Io { operation, path, source }
}
