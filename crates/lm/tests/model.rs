//! The model against PyTorch, and packed rows against each text alone.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod reference;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use lm::Device;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::logprobs::{Scoring, logprobs, token_logprobs};
use lm::model::Decoder;
use lm::packed::Packed;
use lm::sampler::Sampler;
use lm::tensors::NamedTensor;
use reference::Reference;
use rl::{Seed, Stream};

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "differs by {worst}, expected at most {tolerance}");
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.try_into_vec_as::<f32>().unwrap()
}

/// A model whose logits are spread enough to tell errors from noise.
fn random_decoder(kv_heads: usize) -> Decoder {
    let mut config = ModelConfig::llama(50, 32, 2, 4);
    config.num_key_value_heads = kv_heads;
    let decoder = Decoder::init(&config, Seed::new(1, Stream::Weights), &Device::flex());
    let louder = |mut tensor: NamedTensor| {
        if tensor.shape.len() == 1 {
            return tensor;
        }
        let values = tensor.bytes.as_chunks::<4>().0.iter().map(|&v| f32::from_le_bytes(v) * 10.0);
        tensor.bytes = values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
        tensor
    };
    decoder.import(decoder.export().into_iter().map(louder).collect()).unwrap()
}

#[test]
fn logits_are_those_of_transformers() {
    for name in ["tied", "untied"] {
        let reference = Reference::open(name);
        let decoder = reference.decoder();
        let row = Packed::documents(&reference.ids("ids", 11)).unwrap();
        let logits = values(decoder.logits(decoder.forward(&row)));
        assert_close(&logits, &reference.floats("logits"), 1e-5);
    }
}

#[test]
fn logprobs_of_a_packed_group_are_those_of_transformers() {
    for name in ["tied", "untied"] {
        let reference = Reference::open(name);
        let prompt = &reference.ids("prompt", 5)[0];
        let row = Packed::group(prompt, &reference.ids("completions", 6)).unwrap();
        let found = token_logprobs(&reference.decoder(), &row, &row.targets(), &Scoring::default());
        assert_close(&values(found), &reference.floats("logprobs"), 1e-5);
    }
}

#[test]
fn greedy_tokens_are_those_of_transformers() {
    for name in ["tied", "untied"] {
        let reference = Reference::open(name);
        let params =
            SamplingParams { temperature: 0.0, max_tokens: 12, ..SamplingParams::default() };
        let prompt = &reference.ids("prompt", 5)[0];
        let group = Sampler::new(&reference.decoder())
            .sample(prompt, 3, &params, Seed::new(0, Stream::PolicyTokens))
            .unwrap();
        for sampled in group {
            assert_eq!(sampled.tokens, reference.ids("greedy", 12)[0]);
        }
    }
}

#[test]
fn a_packed_group_is_each_of_its_texts_alone() {
    for kv_heads in [1, 2, 4] {
        let decoder = random_decoder(kv_heads);
        let prompt = [3, 1, 4, 1, 5];
        let completions = [vec![9, 2, 6], vec![], vec![5], vec![3, 5, 8, 9, 7]];
        let row = Packed::group(&prompt, &completions).unwrap();
        let packed = values(token_logprobs(&decoder, &row, &row.targets(), &Scoring::default()));
        let alone: Vec<f32> = completions
            .iter()
            .flat_map(|completion| {
                let text = [prompt.as_slice(), completion].concat();
                logprobs(&decoder, &text).unwrap().split_off(prompt.len() - 1)
            })
            .collect();
        assert_close(&packed, &alone, 1e-5);
    }
}

#[test]
fn the_same_seed_gives_the_same_weights() {
    let config = ModelConfig::llama(50, 32, 2, 4);
    let weights =
        |seed| Decoder::init(&config, Seed::new(seed, Stream::Weights), &Device::flex()).export();
    assert_eq!(weights(1), weights(1));
    assert_ne!(weights(1), weights(2));
    let embedding = &weights(1)[0];
    let (values, _) = embedding.bytes.as_chunks::<4>();
    let square = |&value: &[u8; 4]| f64::from(f32::from_le_bytes(value)).powi(2);
    let deviation = (values.iter().map(square).sum::<f64>() / values.len() as f64).sqrt();
    assert!((deviation - 0.02).abs() < 0.002, "{deviation}");
}

#[test]
fn weights_travel_with_their_names() {
    let decoder = Reference::open("untied").decoder();
    let sent = decoder.export();
    let names: Vec<&str> = sent.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[..2], ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight"]);
    assert_eq!((names.len(), names[20]), (21, "lm_head.weight"));
    assert_eq!(sent[1].shape, [32, 16]);
    assert_eq!(decoder.import(sent.clone()).unwrap().export(), sent);
    let training = decoder.clone().train();
    assert_eq!(training.import(sent.clone()).unwrap().export(), sent);
    for (change, expected) in [
        (
            (|sent| drop(sent.remove(3))) as fn(&mut Vec<NamedTensor>),
            "tensor model.layers.0.self_attn.v_proj.weight is missing: expected f32 values of \
             shape [16, 16]",
        ),
        (
            |sent| sent.push(sent[0].clone()),
            "tensor model.embed_tokens.weight is not expected: the model has no such weight or \
             it came twice",
        ),
        (
            |sent| sent[1].shape = vec![16, 32],
            "tensor model.layers.0.self_attn.q_proj.weight has shape [16, 32]: expected [32, 16]",
        ),
        (
            |sent| drop(sent[20].bytes.split_off(4)),
            "tensor lm_head.weight has 4 bytes: expected 2560 for its shape in f32",
        ),
    ] {
        let mut wrong = sent.clone();
        change(&mut wrong);
        assert_eq!(decoder.import(wrong).unwrap_err().to_string(), expected);
    }
}

/// Of each parameter, in the order they are visited, the entry with the largest gradient.
struct Largest<'a> {
    gradients: &'a Gradients,
    found: Vec<(usize, f32)>,
}

impl ModuleVisitor for Largest<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.gradients).expect("every weight has a gradient");
        // Transposed to the layout of exported weights, in which matrices are [out, in].
        let gradient =
            if D == 2 && !self.found.is_empty() { gradient.transpose() } else { gradient };
        let gradient = values(gradient).into_iter().enumerate();
        self.found.extend(gradient.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())));
    }
}

#[test]
fn gradients_are_the_slopes_of_the_logprob_sum() {
    let decoder = random_decoder(2);
    let row = Packed::group(&[3, 1, 4], &[vec![1, 5, 9], vec![2, 6]]).unwrap();
    let sum = |decoder: &Decoder| {
        token_logprobs(decoder, &row, &row.targets(), &Scoring::default()).sum()
    };
    let training = decoder.clone().train();
    let gradients = sum(&training).backward();
    let mut largest = Largest { gradients: &gradients, found: Vec::new() };
    training.visit(&mut largest);
    let weights = decoder.export();
    assert_eq!(largest.found.len(), weights.len());
    for (i, (entry, gradient)) in largest.found.into_iter().enumerate() {
        let moved = |by: f32| {
            let mut weights = weights.clone();
            let mut bytes = weights[i].bytes.to_vec();
            let value = &mut bytes.as_chunks_mut::<4>().0[entry];
            *value = (f32::from_le_bytes(*value) + by).to_le_bytes();
            weights[i].bytes = bytes.into();
            values(sum(&decoder.import(weights).unwrap()))[0]
        };
        let step = 4e-3;
        let slope = (moved(step) - moved(-step)) / (2.0 * step);
        let name = &weights[i].name;
        assert!(
            (slope - gradient).abs() < 1e-2 * gradient.abs() + 2e-3,
            "{name}: {slope} {gradient}"
        );
    }
}
