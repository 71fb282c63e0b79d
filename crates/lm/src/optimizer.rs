//! AdamW and the course of its learning rate.
//!
//! The library's optimisers key their state by numbers that change with every load and clip each
//! parameter by itself; this one keeps its state in the order of the model's parameter names, so
//! it can be written down and read back, and leaves clipping by the global norm to its caller.

use std::collections::HashMap;

use burn::tensor::{Tensor, TensorData};
use rl::RateShape;
use serde::{Deserialize, Serialize};

use crate::replica::Gradients;
use crate::tensors::{NamedTensor, TensorError};

/// Constants of AdamW (Loshchilov and Hutter 2019), with PyTorch's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamWConfig {
    /// Decay of the mean of the gradients.
    pub beta1: f64,
    /// Decay of the mean of their squares.
    pub beta2: f64,
    /// Added to the root of the second mean.
    pub epsilon: f64,
    /// Share of a weight taken off per unit of learning rate, apart from the gradient.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

/// The optimiser's memory: two means per parameter, and how many steps went into them.
#[derive(Debug, Clone)]
pub struct AdamW {
    pub(crate) config: AdamWConfig,
    pub(crate) steps: u64,
    /// Per parameter the means of the gradients and of their squares.
    pub(crate) means: Vec<[Tensor<1>; 2]>,
}

impl AdamW {
    /// An optimiser that has seen nothing yet.
    #[must_use]
    pub fn new(config: AdamWConfig, parameters: &[Tensor<1>]) -> Self {
        let zeros = |parameter: &Tensor<1>| [parameter.zeros_like(), parameter.zeros_like()];
        Self { config, steps: 0, means: parameters.iter().map(zeros).collect() }
    }

    /// The parameters after one step along the gradients.
    #[must_use]
    pub fn step(
        &mut self,
        parameters: Vec<Tensor<1>>,
        gradients: Gradients,
        lr: f64,
    ) -> Vec<Tensor<1>> {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay } = self.config;
        self.steps += 1;
        let t = self.steps as f64;
        let pace = lr / (1.0 - beta1.powf(t));
        let spread = (1.0 - beta2.powf(t)).sqrt();
        let means = std::mem::take(&mut self.means);
        let update = |((w, g), [m, v]): ((Tensor<1>, Tensor<1>), [Tensor<1>; 2])| {
            let m = m * beta1 + g.clone() * (1.0 - beta1);
            let v = v * beta2 + g.square() * (1.0 - beta2);
            let root = v.clone().sqrt() / spread + epsilon;
            (w * (1.0 - lr * weight_decay) - m.clone() / root * pace, [m, v])
        };
        let (parameters, means) =
            parameters.into_iter().zip(gradients.0).zip(means).map(update).unzip();
        self.means = means;
        parameters
    }
}

/// What an optimiser remembers, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamWState {
    /// Steps taken.
    pub steps: u64,
    /// Per parameter `p` the means `p.exp_avg` and `p.exp_avg_sq`, flat, in memory's order.
    pub tensors: Vec<NamedTensor>,
}

/// PyTorch's names of the two means.
const MEANS: [&str; 2] = ["exp_avg", "exp_avg_sq"];

impl AdamW {
    /// The memory by the names of the parameters, given in the model's order.
    #[must_use]
    pub fn export(&self, names: &[String]) -> AdamWState {
        let export = |(name, means): (&String, &[Tensor<1>; 2])| {
            std::array::from_fn::<_, 2, _>(|i| {
                NamedTensor::new(format!("{name}.{}", MEANS[i]), means[i].clone())
            })
        };
        let tensors = names.iter().zip(&self.means).flat_map(export).collect();
        AdamWState { steps: self.steps, tensors }
    }

    /// An optimiser of the same parameters with another memory, in any order.
    ///
    /// # Errors
    /// The first tensor that is missing, of another length or not expected.
    pub fn import(&self, names: &[String], state: AdamWState) -> Result<Self, TensorError> {
        let mut left: HashMap<_, _> =
            state.tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        let mut means = Vec::with_capacity(names.len());
        for (name, [m, v]) in names.iter().zip(&self.means) {
            let mut take = |i: usize, like: &Tensor<1>| {
                let (name, shape) = (format!("{name}.{}", MEANS[i]), like.dims().to_vec());
                match left.remove(&name) {
                    Some(tensor) => tensor.flat(like),
                    None => Err(TensorError::Missing { name, shape }),
                }
            };
            means.push([take(0, m)?, take(1, v)?]);
        }
        match left.into_keys().min() {
            Some(name) => Err(TensorError::Unexpected { name }),
            None => Ok(Self { config: self.config, steps: state.steps, means }),
        }
    }
}

impl NamedTensor {
    /// The values as a tensor like another.
    fn flat(self, like: &Tensor<1>) -> Result<Tensor<1>, TensorError> {
        let (name, found, expected) = (self.name, self.shape, like.dims().to_vec());
        if found != expected {
            return Err(TensorError::Shape { name, expected, found });
        }
        let length = expected[0] * size_of::<f32>();
        if self.bytes.len() != length {
            return Err(TensorError::Length { name, expected: length, found: self.bytes.len() });
        }
        let (values, _) = self.bytes.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
        Ok(Tensor::from_data(TensorData::new(values, expected), &like.device()))
    }
}

/// A learning rate over the steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The rate at the end of the warm-up.
    pub peak: f64,
    /// Steps over which it rises from 0, in a straight line.
    pub warmup: u64,
    /// Steps of the whole run; the rate stays at its last value beyond.
    pub total: u64,
    /// How it goes on after the warm-up.
    pub shape: RateShape,
    /// The share of `peak` at the end.
    pub floor: f64,
}

impl Schedule {
    /// The rate of the `step`-th step, from 0: the first is never 0.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let left = self.total.saturating_sub(self.warmup).max(1);
        let done = ((step - self.warmup) as f64 / left as f64).min(1.0);
        let height = match self.shape {
            RateShape::Constant => return self.peak,
            RateShape::Linear => 1.0 - done,
            RateShape::Cosine => f64::midpoint(1.0, (std::f64::consts::PI * done).cos()),
        };
        self.peak * (self.floor + (1.0 - self.floor) * height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn a_step_is_adamw_written_out() {
        let device = Device::flex();
        let config = AdamWConfig { weight_decay: 0.1, ..AdamWConfig::default() };
        let mut w = vec![Tensor::from_floats([1.0, -2.0], &device)];
        let mut adamw = AdamW::new(config, &w);
        let (mut want, mut m, mut v) = ([1.0f64, -2.0], [0.0; 2], [0.0; 2]);
        for (t, g) in [(1, [0.5, -3.0]), (2, [0.25, 1.0]), (3, [0.0, 0.0])] {
            for i in 0..2 {
                m[i] = 0.9 * m[i] + 0.1 * g[i];
                v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
                let (mean, square) =
                    (m[i] / (1.0 - 0.9f64.powi(t)), v[i] / (1.0 - 0.999f64.powi(t)));
                want[i] = want[i] * (1.0 - 0.01 * 0.1) - 0.01 * mean / (square.sqrt() + 1e-8);
            }
            let g = Gradients(vec![Tensor::from_floats(g.map(|g| g as f32), &device)]);
            w = adamw.step(w, g, 0.01);
            let got = w[0].clone().into_data();
            for (got, want) in got.as_slice::<f32>().unwrap().iter().zip(want) {
                assert!((f64::from(*got) - want).abs() < 1e-6, "step {t}: {got} for {want}");
            }
        }
    }

    #[test]
    fn a_schedule_rises_then_takes_its_shape() {
        let schedule = |shape| Schedule { peak: 2.0, warmup: 4, total: 14, shape, floor: 0.1 };
        for (shape, rates) in [
            (RateShape::Constant, [0.5, 2.0, 2.0, 2.0, 2.0, 2.0]),
            (RateShape::Linear, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2]), // halfway: 2 (.1 + .9 / 2)
            (RateShape::Cosine, [0.5, 2.0, 2.0, 1.1, 0.2, 0.2]),
        ] {
            for (step, rate) in [0, 3, 4, 9, 14, 99].into_iter().zip(rates) {
                let got = schedule(shape).at(step);
                assert!((got - rate).abs() < 1e-12, "{shape:?} at {step}: {got}");
            }
        }
        let quarter = schedule(RateShape::Cosine).at(4 + 5 / 2);
        assert!((quarter - 2.0 * (0.1 + 0.9 * 0.904_508_497)).abs() < 1e-8, "{quarter}");
    }
}
