//! The list of tensors that makes a version.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rl::{Actor, Digest, WeightRef, WeightVersion};
use serde::{Deserialize, Serialize};

use crate::WeightsError;

/// One version of an actor's weights, or of the optimiser state beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightManifest {
    /// Whose weights.
    pub actor: Actor,
    /// Their version.
    pub version: WeightVersion,
    /// What the tensors are for.
    pub kind: Kind,
    /// The fingerprint of the model's configuration, made with [`digest`].
    pub model: Digest,
    /// The step that made this version; none for starting weights.
    pub step: Option<u64>,
    /// The tensors, by name.
    pub tensors: Vec<TensorEntry>,
    /// Whatever else the publisher wants to find again.
    pub extra: BTreeMap<String, serde_json::Value>,
}

/// What the tensors of a manifest are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The model: what a [`WeightRef`] in a request names.
    Weights,
    /// The state the optimiser goes on from.
    Optimizer,
}

/// A tensor, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// Its name in the model.
    pub name: String,
    /// Its dimensions, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The digest of its bytes.
    pub digest: Digest,
    /// How many bytes, little-endian and row-major.
    pub bytes: u64,
}

/// The type of a tensor's elements, named as in safetensors files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// 4-byte float.
    F32,
    /// 2-byte IEEE float.
    F16,
    /// 2-byte brain float.
    BF16,
    /// 8-byte signed integer.
    I64,
}

/// The BLAKE3 digest of `bytes`.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

impl WeightManifest {
    /// The one byte form that is digested and sent: compact JSON, fields in the order of the struct.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a manifest has text keys and finite numbers only").into()
    }

    /// Reads what [`WeightManifest::encode`] wrote, if it is what `wanted` names.
    ///
    /// # Errors
    /// [`WeightsError::WrongBytes`] if the digest is another, [`WeightsError::Invalid`] if it is no
    /// manifest or one of another actor or version.
    pub fn decode(wanted: WeightRef, bytes: &[u8]) -> Result<Self, WeightsError> {
        let (what, expected, found) =
            (|| format!("manifest of {wanted}"), wanted.digest, digest(bytes));
        if found != expected {
            let bytes = bytes.len();
            return Err(WeightsError::WrongBytes { what: what(), expected, found, bytes });
        }
        let invalid = |detail| WeightsError::Invalid { what: what(), detail };
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        manifest.check()?;
        if manifest.reference() != wanted {
            return Err(invalid(format!("it names itself {}", manifest.reference())));
        }
        Ok(manifest)
    }

    /// The name of exactly this manifest.
    #[must_use]
    pub fn reference(&self) -> WeightRef {
        let digest = digest(&self.encode());
        WeightRef { actor: self.actor, version: self.version, digest }
    }

    /// The tensor called `name`.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorEntry> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// The digests of its tensors, each once.
    #[must_use]
    pub fn blobs(&self) -> BTreeSet<Digest> {
        self.tensors.iter().map(|tensor| tensor.digest).collect()
    }

    /// Refuses two tensors of one name, and sizes that do not follow from the shapes.
    pub(crate) fn check(&self) -> Result<(), WeightsError> {
        let mut names = BTreeSet::new();
        for TensorEntry { name, shape, dtype, bytes, .. } in &self.tensors {
            let invalid = |detail| {
                let what = format!("tensor \"{name}\" of {} {}", self.actor, self.version);
                Err(WeightsError::Invalid { what, detail })
            };
            if name.is_empty() || !names.insert(name) {
                return invalid("its name is empty or taken".into());
            }
            let size = shape.iter().try_fold(dtype.size(), |size, &n| size.checked_mul(n as u64));
            if size != Some(*bytes) {
                return invalid(format!("{bytes} bytes do not fill {shape:?} of {dtype:?}"));
            }
        }
        Ok(())
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Weights, Self::Optimizer];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Optimizer => "optimizer",
        }
    }
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::I64 => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(tensors: Vec<TensorEntry>) -> WeightManifest {
        WeightManifest {
            actor: Actor::Policy,
            version: WeightVersion(3),
            kind: Kind::Weights,
            model: digest(b"config"),
            step: Some(3),
            tensors,
            extra: [("loss".to_owned(), 0.1.into())].into(),
        }
    }

    fn entry(name: &str, shape: &[usize], dtype: Dtype, bytes: u64) -> TensorEntry {
        TensorEntry { name: name.into(), shape: shape.into(), dtype, digest: digest(b""), bytes }
    }

    /// The first value is from the BLAKE3 paper's test vectors (empty input).
    #[test]
    fn digests_and_the_byte_form_stay_what_they_are() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(digest(b"").to_string(), empty);
        let text =
            String::from_utf8(manifest(vec![entry("w", &[2], Dtype::F16, 4)]).encode().into());
        let model = digest(b"config");
        assert_eq!(
            text.expect("text"),
            format!(
                r#"{{"actor":"policy","version":3,"kind":"weights","model":"{model}","step":3,"#
            ) + &format!(
                r#""tensors":[{{"name":"w","shape":[2],"dtype":"F16","digest":"{empty}","#
            ) + r#""bytes":4}],"extra":{"loss":0.1}}"#
        );
    }

    #[test]
    fn a_manifest_is_taken_for_its_own_reference_only() {
        let made = manifest(vec![entry("w", &[2, 3], Dtype::F32, 24)]);
        let (bytes, wanted) = (made.encode(), made.reference());
        assert_eq!(WeightManifest::decode(wanted, &bytes).expect("its own"), made);
        let mut flipped = bytes.to_vec();
        flipped[10] ^= 1;
        let error = WeightManifest::decode(wanted, &flipped).expect_err("flipped");
        assert_eq!(error.code(), "wrong_bytes");
        let other = WeightRef { version: WeightVersion(4), ..wanted };
        assert_eq!(WeightManifest::decode(other, &bytes).expect_err("v3").code(), "invalid");
        let rubbish = WeightRef { digest: digest(b"{}"), ..wanted };
        assert_eq!(WeightManifest::decode(rubbish, b"{}").expect_err("{}").code(), "invalid");
    }

    #[test]
    fn sizes_follow_from_shapes_and_names_are_unique() {
        let tables = [
            (vec![entry("w", &[2, 3], Dtype::BF16, 12), entry("s", &[], Dtype::I64, 8)], true),
            (vec![entry("none", &[0, 7], Dtype::F32, 0)], true),
            (vec![entry("w", &[2, 3], Dtype::F32, 23)], false),
            (vec![entry("w", &[usize::MAX, 3], Dtype::F32, 12)], false),
            (vec![entry("w", &[1], Dtype::F32, 4), entry("w", &[1], Dtype::F32, 4)], false),
            (vec![entry("", &[1], Dtype::F32, 4)], false),
        ];
        for (tensors, valid) in tables {
            let outcome = manifest(tensors).check();
            assert_eq!(outcome.is_ok(), valid, "{outcome:?}");
        }
    }
}
