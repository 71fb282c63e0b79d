//! Folders: what is written is read back, and what is damaged is named.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use lm::Device;
use lm::config::ModelConfig;
use lm::folder::{Lm, Storage};
use lm::logprobs::logprobs;
use lm::model::Decoder;
use lm::tokenizer::Tokenizer;
use rl::{Seed, Stream};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

fn model() -> Lm {
    let config = ModelConfig::llama(264, 16, 1, 2);
    Lm {
        decoder: Decoder::init(&config, Seed::new(1, Stream::Weights), &Device::flex()),
        tokenizer: Tokenizer::train(&["the cat", "the mat"], 260, &["<pad>", "<eos>"]).unwrap(),
    }
}

#[test]
fn a_model_reads_back_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = model();
    model.save(&folder.path().join("full"), Storage::F32).unwrap();
    model.save(&folder.path().join("half"), Storage::F16).unwrap();
    let full = Lm::load(&folder.path().join("full")).unwrap();
    assert_eq!(full.decoder.export(), model.decoder.export());
    assert_eq!(full.decoder.config(), model.decoder.config());
    assert_eq!(full.tokenizer.to_json(), model.tokenizer.to_json());
    let half = Lm::load(&folder.path().join("half")).unwrap();
    let ids = half.tokenizer.encode("the cat").unwrap();
    let (a, b) = (logprobs(&half.decoder, &ids).unwrap(), logprobs(&full.decoder, &ids).unwrap());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-3), "{a:?} {b:?}");
    assert_ne!(half.decoder.export(), full.decoder.export());
    let size = |name: &str| {
        fs::metadata(folder.path().join(name).join("model.safetensors")).unwrap().len()
    };
    assert!(size("half") < size("full") * 6 / 10);
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "no partial folder should be left");
}

#[test]
fn a_folder_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("m");
    model().save(&place, Storage::F32).unwrap();
    let before = fs::read(place.join("model.safetensors")).unwrap();
    let error = model().save(&place, Storage::F16).unwrap_err().to_string();
    assert!(error.ends_with("m: it exists already, expected a new name"), "{error}");
    assert_eq!(fs::read(place.join("model.safetensors")).unwrap(), before);
}

/// The weights file with some of its tensors changed.
fn rewrite(folder: &Path, change: impl Fn(&mut HashMap<String, TensorView<'_>>)) {
    let file = folder.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let mut tensors = SafeTensors::deserialize(&bytes).unwrap().tensors().into_iter().collect();
    change(&mut tensors);
    fs::write(&file, safetensors::serialize(tensors, None).unwrap()).unwrap();
}

fn replace(folder: &Path, file: &str, from: &str, to: &str) {
    let file = folder.join(file);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(from));
    fs::write(&file, text.replace(from, to)).unwrap();
}

#[test]
fn damage_is_named_in_one_line() {
    const NORM: &str = "model.norm.weight";
    type Damage = fn(&Path);
    let cases: [(Damage, &str); 9] = [
        (
            |folder| {
                let file = folder.join("model.safetensors");
                let bytes = fs::read(&file).unwrap();
                fs::write(&file, &bytes[..bytes.len() - 10]).unwrap();
            },
            "model.safetensors: incomplete metadata, file not fully covered: expected a whole \
             safetensors file, found",
        ),
        (
            |folder| fs::write(folder.join("model.safetensors"), "not tensors").unwrap(),
            "model.safetensors: header too large: expected a whole safetensors file",
        ),
        (
            |folder| rewrite(folder, |tensors| drop(tensors.remove(NORM))),
            "model.safetensors: tensor model.norm.weight is missing: expected f32 values of shape \
             [16]",
        ),
        (
            |folder| {
                rewrite(folder, |tensors| {
                    tensors.insert("extra.weight".to_owned(), tensors[NORM].clone());
                });
            },
            "model.safetensors: tensor extra.weight is not expected: the model has no such weight",
        ),
        (
            |folder| replace(folder, "config.json", "\"vocab_size\": 264", "\"vocab_size\": 270"),
            "model.safetensors: tensor model.embed_tokens.weight has shape [264, 16]: expected \
             [270, 16]",
        ),
        (
            |folder| replace(folder, "config.json", "\"vocab_size\": 264", "\"vocab_size\": 250"),
            "tokenizer.json: the tokenizer has 260 tokens: expected at most vocab_size 250",
        ),
        (
            |folder| replace(folder, "config.json", "hidden_size", "hidden"),
            "config.json: missing field `hidden_size`",
        ),
        (
            |folder| replace(folder, "tokenizer.json", "\"vocab\"", "\"words\""),
            "tokenizer.json: model.vocab: expected a table of tokens to ids",
        ),
        (
            |folder| fs::remove_file(folder.join("tokenizer.json")).unwrap(),
            "tokenizer.json: No such file",
        ),
    ];
    for (damage, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("m");
        model().save(&place, Storage::F32).unwrap();
        damage(&place);
        let error = Lm::load(&place).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        assert!(!error.contains('\n'), "{error:?} should be one line");
    }
}
