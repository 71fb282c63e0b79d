//! The shape of a model, as Hugging Face's `config.json` of Llama-type models states it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The architecture this crate implements, under the name Hugging Face gives it.
pub const ARCHITECTURE: &str = "LlamaForCausalLM";

/// Sizes and constants of a [`Decoder`](crate::model::Decoder).
///
/// Field names are those of `config.json`. Keys this crate does not use are ignored on reading,
/// since the file carries many; keys that would change the arithmetic are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// Always [`ARCHITECTURE`].
    pub architectures: Vec<String>,
    /// Always `llama`.
    pub model_type: String,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; divides `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Width of a head; `hidden_size / num_attention_heads` where the file has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Added to the mean square in every normalisation.
    pub rms_norm_eps: f64,
    /// Base of the rotary angles.
    #[serde(default = "ModelConfig::usual_rope_theta")]
    pub rope_theta: f64,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Longest row, in tokens.
    pub max_position_embeddings: usize,
    /// Whether the output head is the embedding.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Id of the token that opens a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos_token_id: Option<u32>,
    /// Id of the token that ends a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eos_token_id: Option<u32>,
    /// Id of the token that fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad_token_id: Option<u32>,
}

/// A `config.json` that this crate cannot run.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ConfigError {
    file: String,
    problem: String,
}

impl ModelConfig {
    /// A Llama-type configuration with tied embeddings and as many key heads as query heads.
    #[must_use]
    pub fn llama(vocab_size: usize, hidden_size: usize, layers: usize, heads: usize) -> Self {
        Self {
            architectures: vec![ARCHITECTURE.into()],
            model_type: "llama".into(),
            hidden_size,
            // 8/3 of the width, rounded up to a multiple of 32: as many weights as a plain
            // feed-forward block of four times the width (Shazeer 2020, "GLU variants").
            intermediate_size: (hidden_size * 8 / 3).next_multiple_of(32),
            num_hidden_layers: layers,
            num_attention_heads: heads,
            num_key_value_heads: heads,
            head_dim: None,
            rms_norm_eps: 1e-5,
            rope_theta: Self::usual_rope_theta(),
            vocab_size,
            max_position_embeddings: 512,
            tie_word_embeddings: true,
            bos_token_id: None,
            eos_token_id: None,
            pad_token_id: None,
        }
    }

    /// Width of a head.
    #[must_use]
    pub fn head_dim(&self) -> usize {
        self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    /// Reads and checks the text of a `config.json`; `file` is named in errors.
    ///
    /// # Errors
    /// Text that is not JSON, a missing key or one of the wrong type, an impossible value.
    pub fn from_json(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let error = |problem: String| ConfigError { file: file.display().to_string(), problem };
        let mut raw: Value = serde_json::from_str(text).map_err(|e| error(e.to_string()))?;
        refuse_other_arithmetic(&raw).map_err(error)?;
        // transformers 5 moved the rotary base into a table of its own.
        if let Some(theta) = raw.pointer("/rope_parameters/rope_theta").cloned() {
            raw["rope_theta"] = theta;
        }
        let config: Self = serde_json::from_value(raw).map_err(|e| error(e.to_string()))?;
        config.check().map_err(error)?;
        Ok(config)
    }

    /// The text of `config.json`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data always serialises") + "\n"
    }

    /// Refuses values no model can have.
    ///
    /// # Errors
    /// The first key that is wrong and what was expected of it.
    pub fn check(&self) -> Result<(), String> {
        if self.architectures != [ARCHITECTURE] || self.model_type != "llama" {
            return Err(format!(
                "architectures {:?} with model_type {:?}: expected [{ARCHITECTURE:?}] with \"llama\"",
                self.architectures, self.model_type
            ));
        }
        // Far above all models there are, and far below what makes sizes overflow.
        for (key, value, most) in [
            ("hidden_size", self.hidden_size, 1 << 17),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("num_hidden_layers", self.num_hidden_layers, 1 << 10),
            ("num_attention_heads", self.num_attention_heads, 1 << 10),
            ("num_key_value_heads", self.num_key_value_heads, 1 << 10),
            ("vocab_size", self.vocab_size, 1 << 22),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 24),
        ] {
            if value == 0 {
                return Err(format!("{key} is 0: expected at least 1"));
            }
            if value > most {
                return Err(format!("{key} is {value}: expected at most {most}"));
            }
        }
        self.check_heads()?;
        for (key, value) in [("rms_norm_eps", self.rms_norm_eps), ("rope_theta", self.rope_theta)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(format!("{key} is {value}: expected a positive number"));
            }
        }
        for (key, id) in [
            ("bos_token_id", self.bos_token_id),
            ("eos_token_id", self.eos_token_id),
            ("pad_token_id", self.pad_token_id),
        ] {
            if let Some(id) = id.filter(|&id| id as usize >= self.vocab_size) {
                let vocab = self.vocab_size;
                return Err(format!("{key} is {id}: expected an id below vocab_size {vocab}"));
            }
        }
        Ok(())
    }

    fn check_heads(&self) -> Result<(), String> {
        let (heads, kv) = (self.num_attention_heads, self.num_key_value_heads);
        if !heads.is_multiple_of(kv) {
            return Err(format!(
                "num_key_value_heads is {kv}: expected a divisor of num_attention_heads {heads}"
            ));
        }
        let width = self.hidden_size;
        if self.head_dim.is_none() && !width.is_multiple_of(heads) {
            return Err(format!(
                "hidden_size is {width}: expected a multiple of num_attention_heads {heads} \
                 where there is no head_dim"
            ));
        }
        let head_dim = self.head_dim();
        if head_dim == 0 || head_dim % 2 == 1 {
            return Err(format!(
                "head_dim is {head_dim}: expected an even number for rotary pairs"
            ));
        }
        Ok(())
    }

    fn usual_rope_theta() -> f64 {
        10_000.0
    }
}

/// Keys Hugging Face's Llama reads and this crate does not follow.
fn refuse_other_arithmetic(raw: &Value) -> Result<(), String> {
    let is = |key: &str, usual: Value| match raw.get(key) {
        Some(value) if *value != usual && !value.is_null() => {
            Err(format!("{key} is {value}: expected {usual}"))
        }
        _ => Ok(()),
    };
    is("hidden_act", "silu".into())?;
    is("attention_bias", false.into())?;
    is("mlp_bias", false.into())?;
    for table in ["rope_scaling", "rope_parameters"] {
        let Some(table_value) = raw.get(table) else {
            continue;
        };
        let kind = table_value.get("rope_type").or_else(|| table_value.get("type"));
        if let Some(kind) = kind.filter(|kind| *kind != "default") {
            return Err(format!("{table}.rope_type is {kind}: expected \"default\""));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Result<ModelConfig, String> {
        let mut raw: Value =
            serde_json::from_str(&ModelConfig::llama(600, 128, 4, 4).to_json()).unwrap();
        change(&mut raw);
        ModelConfig::from_json(&raw.to_string(), Path::new("m/config.json"))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(read(|_| {}).unwrap(), ModelConfig::llama(600, 128, 4, 4));
    }

    #[test]
    fn unknown_keys_are_ignored_and_the_new_place_of_the_rotary_base_is_read() {
        let config = read(|raw| {
            raw["transformers_version"] = "5.24.0".into();
            raw.as_object_mut().unwrap().remove("rope_theta");
            raw["rope_parameters"] =
                serde_json::json!({"rope_type": "default", "rope_theta": 500.0});
        });
        assert_eq!(config.unwrap().rope_theta, 500.0);
    }

    #[test]
    fn impossible_values_name_file_key_and_expectation() {
        for (key, value, expected) in [
            ("hidden_size", 0.into(), "m/config.json: hidden_size is 0: expected at least 1"),
            ("vocab_size", 1_000_000_000_000_000_000_u64.into(), "expected at most 4194304"),
            ("num_key_value_heads", 3.into(), "expected a divisor of num_attention_heads 4"),
            ("head_dim", 31.into(), "head_dim is 31: expected an even number"),
            ("eos_token_id", 600.into(), "eos_token_id is 600: expected an id below vocab_size"),
            ("rms_norm_eps", (-1.0).into(), "rms_norm_eps is -1: expected a positive number"),
            ("model_type", "gpt2".into(), "expected [\"LlamaForCausalLM\"] with \"llama\""),
            ("hidden_act", "gelu".into(), "hidden_act is \"gelu\": expected \"silu\""),
            ("vocab_size", "many".into(), "m/config.json: invalid type"),
            (
                "rope_scaling",
                serde_json::json!({"rope_type": "yarn"}),
                "rope_scaling.rope_type is \"yarn\": expected \"default\"",
            ),
        ] {
            let error = read(|raw| raw[key] = value).unwrap_err();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
    }
}
