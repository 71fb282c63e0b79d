//! Learner steps against PyTorch, against finite differences, and against themselves.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod reference;

use std::sync::Arc;

use lm::Device;
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::model::Decoder;
use lm::objective::Objective;
use lm::optimizer::AdamWConfig;
use lm::sampler::Sampler;
use lm::tensors::NamedTensor;
use lm::trainer::{TrainError, Trainer, TrainerConfig};
use reference::Reference;
use rl::{
    Aggregation, Finish, GroupId, Rollout, Seed, Stream, TokenSet, TrainGroup, WeightVersion,
};

const OBJECTIVE: Objective =
    Objective { clip_low: 0.2, clip_high: 0.3, kl_beta: 0.1, aggregation: Aggregation::Token };
const AGGREGATIONS: [(&str, Aggregation); 2] =
    [("token", Aggregation::Token), ("sequence", Aggregation::Sequence)];

fn compute(threads: usize) -> Arc<Compute> {
    Arc::new(Compute::new(threads).unwrap())
}

fn trainer(model: &Decoder, threads: usize) -> Trainer {
    Trainer::new(model.clone(), TrainerConfig::default(), compute(threads))
}

fn floats(tensor: &NamedTensor) -> Vec<f32> {
    tensor.bytes.as_chunks::<4>().0.iter().map(|&v| f32::from_le_bytes(v)).collect()
}

/// The same weights, each through `f` with its place.
fn changed(model: &Decoder, f: impl Fn(&str, usize, f32) -> f32) -> Decoder {
    let change = |mut tensor: NamedTensor| {
        let values = floats(&tensor);
        let values = values.iter().enumerate().map(|(i, &v)| f(&tensor.name, i, v));
        tensor.bytes = values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
        tensor
    };
    model.import(model.export().into_iter().map(change).collect()).unwrap()
}

#[track_caller]
fn assert_close(found: &[NamedTensor], expected: &[NamedTensor], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for found in found {
        let expected = expected.iter().find(|e| e.name == found.name).unwrap();
        assert_eq!(found.shape, expected.shape, "{}", found.name);
        for (i, (a, b)) in floats(found).iter().zip(floats(expected)).enumerate() {
            assert!((a - b).abs() <= tolerance, "{} at {i}: {a}, expected {b}", found.name);
        }
    }
}

/// A group of the file `make_grpo.py` wrote.
fn stored_group(stored: &Reference, name: &str) -> TrainGroup {
    let ids = |what: &str| stored.ids(&format!("{name}.{what}"), 1).concat();
    let numbers = |what: &str| stored.floats(&format!("{name}.{what}"));
    let (tokens, logprobs) = (ids("completions"), numbers("rollout"));
    let allowed: Vec<TokenSet> = if name == "b" {
        let flags = stored.ids("b.allowed", 40);
        let set = |flags: &Vec<u32>| {
            let mut set = TokenSet::empty(40);
            (0..40).filter(|&id| flags[id as usize] == 1).for_each(|id| set.insert(id));
            set
        };
        flags.iter().map(set).collect()
    } else {
        Vec::new()
    };
    let mut start = 0;
    let rollout = |length: u32| {
        let at = start..start + length as usize;
        start = at.end;
        Rollout {
            tokens: tokens[at.clone()].to_vec(),
            logprobs: logprobs[at.clone()].to_vec(),
            allowed: allowed.get(at).map(<[_]>::to_vec).unwrap_or_default(),
            text: String::new(),
            finish: Finish::Length,
            version: WeightVersion(1),
        }
    };
    TrainGroup {
        id: GroupId(7),
        prompt: ids("prompt"),
        rollouts: ids("lengths").into_iter().map(rollout).collect(),
        advantages: numbers("advantages"),
        temperature: numbers("temperature")[0],
    }
}

fn stored_groups() -> (Decoder, Reference, Vec<TrainGroup>) {
    let stored = Reference::open("grpo");
    let groups = ["a", "b"].map(|name| stored_group(&stored, name)).to_vec();
    (Reference::open("tied").decoder(), stored, groups)
}

/// A model whose distributions are far from uniform, and groups it sampled itself.
fn sampled_groups(temperature: f64) -> (Decoder, Vec<TrainGroup>) {
    let mut config = ModelConfig::llama(50, 32, 2, 4);
    config.num_key_value_heads = 2;
    let model = Decoder::init(&config, Seed::new(1, Stream::Weights), &Device::flex());
    let model = changed(&model, |name, _, v| if name.contains("norm") { v } else { 8.0 * v });
    let sampler = Sampler::new(&model);
    let params = SamplingParams { temperature, max_tokens: 9, ..SamplingParams::default() };
    let group = |id: u64| {
        let seed = Seed::new(3, Stream::PolicyTokens).child(id);
        let prompt: Vec<u32> = (0..3 + id).map(|i| seed.below(i, 50) as u32).collect();
        let sampled = sampler.sample(&prompt, 4, &params, seed).unwrap();
        let rollout = |sampled: lm::sampler::Sampled| Rollout {
            tokens: sampled.tokens,
            logprobs: sampled.logprobs,
            allowed: Vec::new(),
            text: String::new(),
            finish: Finish::Length,
            version: WeightVersion(0),
        };
        TrainGroup {
            id: GroupId(id),
            prompt,
            rollouts: sampled.into_iter().map(rollout).collect(),
            advantages: vec![1.0, -1.0, 0.5, -0.5],
            temperature: temperature as f32,
        }
    };
    let groups = (0..5).map(group).collect();
    (model, groups)
}

#[test]
fn losses_gradients_and_steps_are_those_of_pytorch() {
    let (model, stored, groups) = stored_groups();
    let config = TrainerConfig {
        adamw: AdamWConfig { weight_decay: 0.1, ..AdamWConfig::default() },
        max_grad_norm: 0.05,
    };
    for (name, aggregation) in AGGREGATIONS {
        let objective = Objective { aggregation, ..OBJECTIVE };
        let mut trainer = Trainer::new(model.clone(), config, compute(2))
            .with_reference(changed(&model, |_, _, v| 0.9 * v));
        let (metrics, gradients) = trainer.gradients(&groups, &objective).unwrap();
        let m = &metrics;
        let kl = m.kl.unwrap();
        let found = [m.loss, m.ratio_mean, m.clip_fraction, kl, m.entropy, m.grad_norm];
        for (found, expected) in found.iter().zip(stored.floats(&format!("{name}.metrics"))) {
            let expected = f64::from(expected);
            assert!((found - expected).abs() < 2e-5 * expected.abs().max(1.0), "{name}: {m:?}");
        }
        assert_eq!(metrics.tokens, 25);
        assert_close(&gradients.export(&model), &stored.named(&format!("{name}.g.")), 1e-5);
        assert_eq!(trainer.step(&groups, &objective, 0.01).unwrap(), metrics);
        assert_close(&trainer.model().export(), &stored.named(&format!("{name}.p.")), 2e-5);
    }
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    let (model, _, groups) = stored_groups();
    let reference = changed(&model, |_, _, v| 0.9 * v);
    let at = |model: &Decoder| {
        trainer(model, 1).with_reference(reference.clone()).gradients(&groups, &OBJECTIVE).unwrap()
    };
    let gradients = at(&model).1.export(&model);
    for tensor in &gradients {
        let values = floats(tensor);
        let steepest =
            (0..values.len()).max_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
        for place in [0, steepest.unwrap()] {
            let h = 2e-3;
            let moved = |by: f32| {
                let move_one = |name: &str, i: usize, v: f32| {
                    if name == tensor.name && i == place { v + by } else { v }
                };
                at(&changed(&model, move_one)).0.loss
            };
            let slope = (moved(h) - moved(-h)) / f64::from(2.0 * h);
            let error = (slope - f64::from(values[place])).abs();
            let allowed = 2e-3 + 0.02 * slope.abs();
            assert!(error < allowed, "{} at {place}: {} for {slope}", tensor.name, values[place]);
        }
    }
}

#[test]
fn a_step_at_rate_zero_sees_its_own_samples_and_changes_nothing() {
    for temperature in [1.0, 0.7] {
        let (model, groups) = sampled_groups(temperature);
        let mut trainer = trainer(&model, 2);
        let metrics = trainer.step(&groups, &OBJECTIVE, 0.0).unwrap();
        assert!(metrics.ratio_deviation < 1e-5, "{metrics:?}");
        assert_eq!((metrics.clip_fraction, metrics.kl), (0.0, Some(0.0)));
        // Without a penalty nobody measures the distance.
        let free = Objective { kl_beta: 0.0, ..OBJECTIVE };
        assert_eq!(trainer.step(&groups, &free, 0.0).unwrap().kl, None);
        assert!(metrics.mismatch_kl < 1e-9 && metrics.entropy > 0.1, "{metrics:?}");
        // Advantages of a group add up to 0, and so does a loss of ratios of 1.
        assert!(metrics.loss.abs() < 1e-5 && metrics.grad_norm > 1e-3, "{metrics:?}");
        assert_eq!(trainer.model().export(), model.export());
    }
}

#[test]
fn gradients_of_groups_add_up_to_those_of_the_step() {
    let (model, groups) = sampled_groups(1.0);
    let trainer = trainer(&model, 1);
    for (_, aggregation) in AGGREGATIONS {
        let objective = Objective { aggregation, ..OBJECTIVE };
        let whole = trainer.gradients(&groups, &objective).unwrap();
        let tokens = |groups: &[TrainGroup]| -> f64 {
            match aggregation {
                Aggregation::Token => {
                    groups.iter().map(TrainGroup::completion_tokens).sum::<usize>() as f64
                }
                Aggregation::Sequence => groups.len() as f64,
            }
        };
        let mut sum = vec![0.0; 0];
        for part in [&groups[..2], &groups[2..]] {
            let (_, gradients) = trainer.gradients(part, &objective).unwrap();
            // A part alone is divided by its own size.
            let share = (tokens(part) / tokens(&groups)) as f32;
            let flat: Vec<f32> = gradients.export(&model).iter().flat_map(floats).collect();
            sum.resize(flat.len(), 0.0);
            sum.iter_mut().zip(&flat).for_each(|(sum, g)| *sum += share * g);
        }
        let flat: Vec<f32> = whole.1.export(&model).iter().flat_map(floats).collect();
        for (sum, whole) in sum.iter().zip(&flat) {
            assert!((sum - whole).abs() < 1e-6, "{sum}, expected {whole}");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_show_in_a_single_bit() {
    let (model, groups) = sampled_groups(1.0);
    let run = |threads| {
        let mut trainer = trainer(&model, threads);
        let metrics: Vec<_> =
            (0..3).map(|_| trainer.step(&groups, &OBJECTIVE, 1e-2).unwrap()).collect();
        (metrics, trainer.model().export())
    };
    let one = run(1);
    assert!(one.0[2].kl > Some(0.0) && one.1 != model.export());
    for threads in [2, 3] {
        assert!(run(threads) == one, "{threads} threads differ");
    }
}

#[test]
fn a_restarted_trainer_goes_on_bit_for_bit() {
    let (model, groups) = sampled_groups(1.0);
    let step = |trainer: &mut Trainer| trainer.step(&groups, &OBJECTIVE, 1e-2).unwrap();
    let mut through = trainer(&model, 1);
    let metrics: Vec<_> = (0..3).map(|_| step(&mut through)).collect();

    let mut before = trainer(&model, 1);
    step(&mut before);
    let (weights, mut state) = (before.model().export(), before.export_state());
    state.tensors.reverse();
    let fresh = Decoder::init(model.config(), Seed::new(99, Stream::Weights), &Device::flex());
    let mut after = trainer(&fresh.import(weights).unwrap(), 1).with_reference(model.clone());
    after.import_state(state).unwrap();
    let again: Vec<_> = (0..2).map(|_| step(&mut after)).collect();
    assert_eq!(metrics[1..], again);
    assert_eq!(after.model().export(), through.model().export());
    assert_eq!(after.export_state(), through.export_state());
}

#[test]
fn a_memory_of_other_parameters_is_refused() {
    let (model, _) = sampled_groups(1.0);
    let mut trainer = trainer(&model, 1);
    let state = trainer.export_state();
    assert_eq!(state.steps, 0);
    let mut missing = state.clone();
    missing.tensors.remove(0);
    let mut short = state.clone();
    short.tensors[1].shape[0] -= 1;
    let mut extra = state.clone();
    extra.tensors.push(NamedTensor { name: "other".into(), ..state.tensors[0].clone() });
    for (state, expected) in [
        (missing, "tensor model.embed_tokens.weight.exp_avg is missing"),
        (short, "tensor model.embed_tokens.weight.exp_avg_sq has shape [1599]: expected [1600]"),
        (extra, "tensor other is not expected"),
    ] {
        let error = trainer.import_state(state).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
    }
}

#[test]
fn gradients_are_cut_by_their_common_length_alone() {
    let (model, groups) = sampled_groups(1.0);
    // With no memory of squares AdamW would hide the scale; betas of 0 and a large epsilon show it:
    // weight -= lr * g / (|g| + epsilon), close to lr / epsilon * g.
    let epsilon = 1e3;
    let adamw = AdamWConfig { beta1: 0.0, beta2: 0.0, epsilon, weight_decay: 0.0 };
    let moved = |max_grad_norm: f64| {
        let config = TrainerConfig { adamw, max_grad_norm };
        let mut trainer = Trainer::new(model.clone(), config, compute(1));
        let (metrics, gradients) = trainer.gradients(&groups, &OBJECTIVE).unwrap();
        trainer.step(&groups, &OBJECTIVE, epsilon).unwrap();
        let flat =
            |tensors: Vec<NamedTensor>| -> Vec<f32> { tensors.iter().flat_map(floats).collect() };
        let (before, after) = (flat(model.export()), flat(trainer.model().export()));
        let moves: Vec<f32> = before.iter().zip(&after).map(|(b, a)| b - a).collect();
        (metrics.grad_norm, flat(gradients.export(&model)), moves)
    };
    let (norm, gradients, _) = moved(1.0);
    let by_hand: f64 = gradients.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
    assert!((norm - by_hand).abs() < 1e-5 * norm, "{norm}, by hand {by_hand}");
    for most in [norm / 4.0, norm * 4.0] {
        let by = (most / norm).min(1.0) as f32;
        for (found, gradient) in moved(most).2.iter().zip(&gradients) {
            let expected = gradient * by;
            assert!((found - expected).abs() < 1e-3 * expected.abs() + 1e-6, "{found} {expected}");
        }
    }
}

#[test]
fn what_cannot_be_learnt_is_named_and_changes_nothing() {
    let (model, groups) = sampled_groups(1.0);
    let mut trainer = trainer(&model, 1);
    let change = |f: &dyn Fn(&mut TrainGroup)| {
        let mut groups = groups.clone();
        f(&mut groups[1]);
        groups
    };
    for (groups, expected) in [
        (Vec::new(), "expected at least one sampled token in 0 groups"),
        (change(&|g| g.prompt.clear()), "group g1: cannot pack a group: its prompt is empty"),
        (change(&|g| g.advantages.truncate(3)), "3 advantages, expected one for each of 4"),
        (change(&|g| g.advantages[2] = f32::NAN), "an advantage is NaN"),
        (change(&|g| g.rollouts[0].tokens[0] = 50), "token 50, expected ids below vocab_size 50"),
        (change(&|g| g.rollouts[3].logprobs.truncate(8)), "rollout 3 has 9 tokens, 8 log-prob"),
        (change(&|g| g.temperature = 0.0), "temperature is 0, expected a positive number"),
        (
            change(&|g| g.prompt = vec![1; 504]),
            "rollout 0 ends at 513 tokens, expected at most 512",
        ),
        (
            change(&|g| g.rollouts[1].allowed = vec![TokenSet::empty(50); 9]),
            "token 0 of rollout 1 is not in its own allowed set",
        ),
        (
            change(&|g| g.rollouts[2].logprobs[4] = f32::NEG_INFINITY),
            "rollout 2 has a log-probability of -inf, expected a finite number",
        ),
        (
            // A ratio beyond all numbers, which the clip does not hold at a negative advantage.
            change(&|g| g.rollouts[1].logprobs[0] = -1e30),
            "group g1: its loss is inf",
        ),
    ] {
        let error = trainer.step(&groups, &OBJECTIVE, 1e-2).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should contain {expected:?}");
    }
    let broken = changed(
        &model,
        |name, i, v| {
            if name == "model.norm.weight" && i == 0 { f32::MAX } else { v }
        },
    );
    let error = self::trainer(&broken, 1).step(&groups, &OBJECTIVE, 1e-2).unwrap_err();
    assert!(matches!(error, TrainError::Loss { .. } | TrainError::Gradient(_)), "{error}");
    assert_eq!(trainer.model().export(), model.export());
    assert_eq!(trainer.export_state().steps, 0);
}
