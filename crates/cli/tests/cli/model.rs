//! Commands on a model: `logprobs` and `sample`, and a `check` of a whole configuration.

use std::path::Path;

use lm::Device;
use lm::config::ModelConfig;
use lm::folder::{Lm, Storage};
use lm::model::Decoder;
use lm::template;
use lm::tokenizer::Tokenizer;
use rl::{Seed, Stream};
use serde_json::Value;

use super::{fails, succeeds};

/// Writes a model of one narrow layer.
pub(super) fn write_model(folder: &Path) {
    let tokenizer =
        Tokenizer::train(&["Dear Mia, come soon."], 300, &template::specials()).unwrap();
    let config = ModelConfig::llama(tokenizer.vocab_size(), 32, 1, 2);
    let decoder = Decoder::init(&config, Seed::new(0, Stream::Weights), &Device::flex());
    Lm { decoder, tokenizer }.save(folder, Storage::F32).unwrap();
}

#[test]
fn logprobs_of_a_text_and_of_its_ids_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("m"));
    let json = |arguments: &[&str]| -> Value {
        let arguments = [&["logprobs", "--model", "m", "--json"], arguments].concat();
        serde_json::from_str(&succeeds(dir.path(), &arguments, "")).unwrap()
    };
    let by_text = json(&["--text", "Dear Mia"]);
    let ids: Vec<String> =
        by_text["ids"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(json(&["--ids", &ids.join(",")]), by_text);
    let logprobs = by_text["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len(), ids.len() - 1);
    // Small random weights: nearly uniform over some 290 tokens.
    assert!(logprobs.iter().all(|p| (-8.0..-3.0).contains(&p.as_f64().unwrap())), "{logprobs:?}");
}

#[test]
fn tokens_that_the_model_does_not_have_are_named() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("m"));
    let message = fails(dir.path(), &["logprobs", "--model", "m", "--ids", "1,99999"], 1);
    assert!(message.contains("token 99999 (expected ids below"), "{message}");
    let message = fails(dir.path(), &["logprobs", "--model", "nowhere", "--ids", "1"], 1);
    assert!(message.contains("nowhere"), "{message}");
}

#[test]
fn a_damaged_checkpoint_is_named() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("m"));
    let weights = dir.path().join("m/model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let message = fails(dir.path(), &["logprobs", "--model", "m", "--ids", "1"], 1);
    assert!(message.contains("model.safetensors") && message.lines().count() == 1, "{message}");
}

#[test]
fn the_same_seed_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    write_model(&dir.path().join("m"));
    let say = |seed| {
        let arguments =
            ["sample", "--model", "m", "Hello", "-n", "2", "--max-tokens", "8", "--seed", seed];
        succeeds(dir.path(), &arguments, "")
    };
    assert_eq!(say("1"), say("1"));
    assert_ne!(say("1"), say("2"));
}
