//! Models on disk, as Hugging Face lays them out: `config.json`, `model.safetensors` and
//! `tokenizer.json` in one folder, which appears whole or not at all.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use bytes::Bytes;
use half::{bf16, f16};
use rl::{Seed, Stream};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::config::{ConfigError, ModelConfig};
use crate::model::Decoder;
use crate::tensors::{NamedTensor, TensorError};
use crate::tokenizer::{Tokenizer, TokenizerError};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";

/// A model ready for use: weights and the tokenizer they were made with.
#[derive(Debug, Clone)]
pub struct Lm {
    /// The network; [`Decoder::config`] is its shape.
    pub decoder: Decoder,
    /// The vocabulary, not larger than the embedding.
    pub tokenizer: Tokenizer,
}

/// How weights are stored; in memory they are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Exact.
    F32,
    /// Half the size, rounded to 11 bits.
    F16,
}

/// A folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// `config.json` is not one of a model this crate runs.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// `tokenizer.json` is not one this crate runs.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The weights file is damaged.
    #[error("{file}: {problem}")]
    Weights {
        /// Its path.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The weights are not those of the model in `config.json`.
    #[error("{file}: {source}")]
    Tensor {
        /// Path of the weights.
        file: PathBuf,
        /// Which weight and why.
        source: TensorError,
    },
    /// The tokenizer makes ids the embedding has no row for.
    #[error("{file}: the tokenizer has {tokens} tokens: expected at most vocab_size {vocab_size}")]
    Vocabulary {
        /// Path of the tokenizer.
        file: PathBuf,
        /// Its size.
        tokens: usize,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// A folder is written once.
    #[error("cannot write {0}: it exists already, expected a new name")]
    Exists(PathBuf),
}

impl Lm {
    /// Reads a folder onto the CPU.
    ///
    /// # Errors
    /// A missing or damaged file, or files that do not belong together.
    pub fn load(folder: &Path) -> Result<Self, FolderError> {
        let config = folder.join(CONFIG);
        let config = ModelConfig::from_json(&read_text(&config)?, &config)?;
        let file = folder.join(TOKENIZER);
        let tokenizer = Tokenizer::from_json(&read_text(&file)?, &file)?;
        let (tokens, vocab_size) = (tokenizer.vocab_size(), config.vocab_size);
        if tokens > vocab_size {
            return Err(FolderError::Vocabulary { file, tokens, vocab_size });
        }
        let file = folder.join(WEIGHTS);
        let tensors = read_tensors(&file)?;
        // The shapes come from a fresh model, whose weights are then all replaced.
        let decoder = Decoder::init(&config, Seed::new(0, Stream::Weights), &Device::flex())
            .import(tensors)
            .map_err(|source| FolderError::Tensor { file, source })?;
        Ok(Self { decoder, tokenizer })
    }

    /// Writes a new folder: under a temporary name beside it first, then renamed.
    ///
    /// # Errors
    /// A folder that exists already, or a refusal of the operating system.
    pub fn save(&self, folder: &Path, storage: Storage) -> Result<(), FolderError> {
        if folder.exists() {
            return Err(FolderError::Exists(folder.to_owned()));
        }
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = folder.with_file_name(name);
        let written = self.write(&partial, storage).and_then(|()| {
            fs::rename(&partial, folder).map_err(io("rename to its place", &partial))
        });
        if written.is_err() && partial.exists() {
            // The error that led here says more than one from tidying up could.
            fs::remove_dir_all(&partial).ok();
        }
        written
    }

    fn write(&self, folder: &Path, storage: Storage) -> Result<(), FolderError> {
        fs::create_dir_all(folder).map_err(io("create", folder))?;
        write_file(&folder.join(CONFIG), self.decoder.config().to_json().as_bytes())?;
        write_file(&folder.join(TOKENIZER), self.tokenizer.to_json().as_bytes())?;
        let file = folder.join(WEIGHTS);
        let tensors = stored(self.decoder.export(), storage);
        let views = tensors.iter().map(|(tensor, dtype)| {
            TensorView::new(*dtype, tensor.shape.clone(), &tensor.bytes)
                .map(|view| (tensor.name.as_str(), view))
        });
        // transformers refuses a file that does not say which framework laid it out.
        let made_by = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let bytes = views
            .collect::<Result<Vec<_>, _>>()
            .and_then(|views| safetensors::serialize(views, Some(made_by)))
            .map_err(|e| FolderError::Weights { file: file.clone(), problem: e.to_string() })?;
        write_file(&file, &bytes)
    }
}

fn read_text(path: &Path) -> Result<String, FolderError> {
    fs::read_to_string(path).map_err(io("read", path))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let write = |mut file: File| file.write_all(bytes).and_then(|()| file.sync_all());
    File::create(path).and_then(write).map_err(io("write", path))
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { action, path, source }
}

/// Every tensor of a file, in f32.
fn read_tensors(file: &Path) -> Result<Vec<NamedTensor>, FolderError> {
    let problem = |problem| FolderError::Weights { file: file.to_owned(), problem };
    let bytes = fs::read(file).map_err(io("read", file))?;
    let tensors = SafeTensors::deserialize(&bytes).map_err(|e| {
        problem(format!("{e}: expected a whole safetensors file, found {} bytes", bytes.len()))
    })?;
    let widen = |(name, view): (String, TensorView<'_>)| {
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => chunks(view.data()).map(f32::from_le_bytes).collect(),
            Dtype::F16 => chunks(view.data()).map(|b| f16::from_le_bytes(b).to_f32()).collect(),
            Dtype::BF16 => chunks(view.data()).map(|b| bf16::from_le_bytes(b).to_f32()).collect(),
            other => {
                return Err(problem(format!(
                    "tensor {name} is of type {other}: expected F32, F16 or BF16"
                )));
            }
        };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(NamedTensor { name, shape: view.shape().to_vec(), bytes: bytes.into() })
    };
    tensors.tensors().into_iter().map(widen).collect()
}

/// Weights in the bytes they are stored as.
fn stored(tensors: Vec<NamedTensor>, storage: Storage) -> Vec<(NamedTensor, Dtype)> {
    let narrow = |bytes: &Bytes| {
        let halves = chunks(bytes).map(|value| f16::from_f32(f32::from_le_bytes(value)));
        halves.flat_map(f16::to_le_bytes).collect::<Vec<u8>>().into()
    };
    let store = |tensor: NamedTensor| match storage {
        Storage::F32 => (tensor, Dtype::F32),
        Storage::F16 => (NamedTensor { bytes: narrow(&tensor.bytes), ..tensor }, Dtype::F16),
    };
    tensors.into_iter().map(store).collect()
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
