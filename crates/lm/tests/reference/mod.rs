//! Values that PyTorch and transformers computed; `make.py` says how and names them.

#![allow(clippy::unwrap_used, dead_code, reason = "a test may fail here; each test reads its part")]

use std::path::{Path, PathBuf};

use lm::Device;
use lm::config::ModelConfig;
use lm::model::Decoder;
use lm::tensors::NamedTensor;
use rl::{Seed, Stream};
use safetensors::SafeTensors;

/// The stored values of one model.
pub struct Reference {
    file: Vec<u8>,
    config: ModelConfig,
}

impl Reference {
    /// `tied` or `untied`.
    pub fn open(name: &str) -> Self {
        let config = path(name, "json");
        let text = std::fs::read_to_string(&config).unwrap();
        Self {
            file: std::fs::read(path(name, "safetensors")).unwrap(),
            config: ModelConfig::from_json(&text, &config).unwrap(),
        }
    }

    /// The model with its stored weights.
    pub fn decoder(&self) -> Decoder {
        let fresh = Decoder::init(&self.config, Seed::new(0, Stream::Weights), &Device::flex());
        fresh.import(self.named("w.")).unwrap()
    }

    /// The tensors whose names begin with `prefix`, under the rest of their names.
    pub fn named(&self, prefix: &str) -> Vec<NamedTensor> {
        let file = SafeTensors::deserialize(&self.file).unwrap();
        let named = file.iter().filter_map(|(name, view)| {
            let name = name.strip_prefix(prefix)?.to_owned();
            let bytes = view.data().to_vec().into();
            Some(NamedTensor { name, shape: view.shape().to_vec(), bytes })
        });
        named.collect()
    }

    /// A tensor of f32.
    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.values(name).map(f32::from_le_bytes).collect()
    }

    /// A tensor of token ids, in rows of `width`.
    pub fn ids(&self, name: &str, width: usize) -> Vec<Vec<u32>> {
        let ids: Vec<u32> = self.values(name).map(u32::from_le_bytes).collect();
        ids.chunks_exact(width).map(<[u32]>::to_vec).collect()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = [u8; 4]> {
        let file = SafeTensors::deserialize(&self.file).unwrap();
        file.tensor(name).unwrap().data().as_chunks::<4>().0.to_vec().into_iter()
    }
}

fn path(name: &str, extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/reference")
        .join(name)
        .with_extension(extension)
}
