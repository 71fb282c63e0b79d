//! Removing old versions, and what nothing names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use rl::{Actor, Digest, WeightRef, WeightVersion};

use crate::folder::{io_error, names};
use crate::{Kind, WeightStore, WeightsError};

/// What [`WeightStore::prune`] removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many manifests.
    pub manifests: usize,
    /// How many tensors, after the manifests that named them or left over from a broken fetch.
    pub blobs: usize,
}

impl WeightStore {
    /// Removes all but, of each actor, the last `keep_last` versions of weights, the `pinned` ones
    /// and the latest complete one, each with its optimiser state, and then every tensor that no
    /// manifest left names.
    ///
    /// # Errors
    /// [`WeightsError::Io`]; what is still named is still there then.
    pub fn prune(&self, keep_last: usize, pinned: &[WeightRef]) -> Result<Pruned, WeightsError> {
        let mut kept = Vec::new();
        for actor in [Actor::Policy, Actor::Generator] {
            kept.push((actor, self.kept(actor, keep_last, pinned)?));
        }
        let mut pruned = Pruned::default();
        let mut named = BTreeSet::new();
        // Held to the end: whoever claims a tensor after this finds it gone and brings it again.
        let claimed = self.claims.lock();
        for (actor, kept) in kept {
            for kind in Kind::ALL {
                for version in self.versions(actor, kind)? {
                    if kept(version) {
                        named.extend(self.named(actor, version, kind)?);
                    } else {
                        remove(&self.manifest_path(actor, version, kind))?;
                        pruned.manifests += 1;
                    }
                }
            }
        }
        self.spares.clear(&self.spare())?;
        for name in names(&self.blobs())? {
            let Ok(digest) = name.parse::<Digest>() else {
                continue;
            };
            if !named.contains(&digest) && !claimed.contains_key(&digest) {
                self.spares.put(&self.blobs().join(name), &self.spare())?;
                pruned.blobs += 1;
            }
        }
        let ours = format!("{}-", std::process::id());
        for name in names(&self.drafts())?.iter().filter(|name| !name.starts_with(&ours)) {
            remove(&self.drafts().join(name))?;
        }
        Ok(pruned)
    }

    /// Takes back a version that nobody may go on from: its manifests go, so its number is free.
    ///
    /// # Errors
    /// [`WeightsError::Io`].
    pub fn withdraw(&self, actor: Actor, version: WeightVersion) -> Result<(), WeightsError> {
        // The weights first: without them the version is not out.
        for kind in [Kind::Weights, Kind::Optimizer] {
            remove(&self.manifest_path(actor, version, kind))?;
        }
        Ok(())
    }

    fn kept(
        &self,
        actor: Actor,
        keep_last: usize,
        pinned: &[WeightRef],
    ) -> Result<impl Fn(WeightVersion) -> bool, WeightsError> {
        let newest_first: Vec<_> = self.versions(actor, Kind::Weights)?.into_iter().rev().collect();
        // State above the newest weights belongs to the step going on.
        let floor = match keep_last {
            0 => newest_first.first().map(|newest| newest.next()),
            n => newest_first.get(n - 1).copied(),
        };
        let ours = pinned.iter().filter(|pinned| pinned.actor == actor);
        let mut kept: BTreeSet<_> = ours.map(|pinned| pinned.version).collect();
        kept.extend(self.latest(actor, Kind::Weights)?.map(|manifest| manifest.version));
        Ok(move |version| floor.is_none_or(|floor| version >= floor) || kept.contains(&version))
    }

    /// A damaged manifest names nothing: it is never chosen.
    fn named(
        &self,
        actor: Actor,
        version: WeightVersion,
        kind: Kind,
    ) -> Result<BTreeSet<Digest>, WeightsError> {
        match self.find(actor, version, kind) {
            Ok(found) => Ok(found.map(|manifest| manifest.blobs()).unwrap_or_default()),
            Err(WeightsError::DamagedManifest { .. }) => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }
}

fn remove(path: &Path) -> Result<(), WeightsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(io_error("remove", path)),
    }
}
