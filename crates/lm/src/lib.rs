//! Language models: tokens in, tokens and log-probabilities out, gradients and updates.
//!
//! A model is a Llama-type decoder in a Hugging Face folder. All work is on *packed rows*: one
//! ragged row holds a prompt with all of its completions, so nothing is padded and the prompt is
//! computed once. This is the only crate that names the tensor library.
//!
//! Invariants: the same weights, seed and row give the same numbers whatever else runs and
//! however many threads there are; the log-probabilities the sampler reports are those the
//! learner computes from the same weights; a folder on disk is whole or absent.
//!
//! In reading order: [`config`], [`packed`], [`model`], [`logprobs`]; [`draw`], [`sampler`];
//! [`tokenizer`], [`template`]; [`tensors`], [`folder`]; [`objective`], [`optimizer`],
//! [`replica`], [`trainer`], [`sft`]; [`compute`].
pub mod compute;
pub mod config;
mod decode;
pub mod draw;
pub mod folder;
mod kernels;
pub mod logprobs;
pub mod model;
pub mod objective;
pub mod optimizer;
pub mod packed;
pub mod replica;
mod rope;
pub mod sampler;
pub mod sft;
pub mod template;
pub mod tensors;
pub mod tokenizer;
pub mod trainer;

pub use burn::tensor::Device;
