//! Tensors by digest: publish, serve, fetch, relay, prune.
//!
//! A version of an actor's weights is a [`WeightManifest`] that names its tensors by the digest of
//! their bytes; the digest of the manifest itself is the one in a [`WeightRef`](rl::WeightRef). So
//! whoever holds a reference can take the bytes from anybody, and knows whether they are right.
//! The state of the optimiser travels the same way, as another [`Kind`] of manifest.
//!
//! Invariants of a [`WeightStore`]:
//! - bytes are visible under a digest only whole, and are never handed out unless they match it;
//! - a manifest is written after all its tensors, so a folder or a file that exists means nothing,
//!   a manifest that verifies means everything;
//! - what a kept manifest names is never removed, nor what is being published or fetched.
//!
//! Reading order: [`manifest`], [`folder`], `blobs`, [`fetch`](mod@fetch), [`prune`], `spare`, [`error`].

mod blobs;
mod claim;
pub mod error;
pub mod fetch;
pub mod folder;
pub mod manifest;
pub mod prune;
mod spare;

pub use error::WeightsError;
pub use fetch::{Blobs, Fetched, Source, fetch};
pub use folder::{Publication, Staged, Tensor, WeightStore};
pub use manifest::{Dtype, Kind, TensorEntry, WeightManifest, digest};
pub use prune::Pruned;
