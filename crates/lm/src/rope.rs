//! Rotary position embedding in Hugging Face's half-split order (Su et al. 2021, "RoFormer").
//!
//! A head's vector `(a, b)` of two halves turns into `(a cos - b sin, b cos + a sin)`, with angle
//! `position * theta^(-2i/d)` for the `i`-th pair. Burn's own rotary pairs neighbours instead and
//! does not fit Hugging Face weights.

use burn::tensor::{Device, Tensor, TensorData};

use crate::config::ModelConfig;

/// Angles of one row, ready to turn queries and keys of every layer.
#[derive(Debug, Clone)]
pub(crate) struct Rope {
    /// Cosines `[S, kv_heads * head_dim]` and sines for keys.
    key: Turn,
    /// The same `[S, heads * head_dim]` for queries, with the attention's `1 / sqrt(head_dim)`
    /// already in, which spares a pass over the scores.
    query: Turn,
    /// `[head_dim, head_dim]`: `x . swap` is `(-b, a)`. One small product is cheaper than the
    /// slices, negation and concatenation it replaces, and exact, as each sum has one term.
    swap: Tensor<2>,
}

#[derive(Debug, Clone)]
struct Turn {
    cos: Tensor<2>,
    sin: Tensor<2>,
}

impl Rope {
    /// The angles of `positions`.
    pub(crate) fn new(config: &ModelConfig, positions: &[u32], device: &Device) -> Self {
        let half = config.head_dim() / 2;
        let angle = |position: u32, pair: usize| {
            f64::from(position) * config.rope_theta.powf(-(pair as f64) / half as f64)
        };
        let turn = |heads: usize, scale: f64| {
            let (mut cos, mut sin) = (Vec::new(), Vec::new());
            for &position in positions {
                let angles: Vec<f64> = (0..half).map(|pair| angle(position, pair)).collect();
                for _ in 0..heads * 2 {
                    cos.extend(angles.iter().map(|a| (a.cos() * scale) as f32));
                    sin.extend(angles.iter().map(|a| (a.sin() * scale) as f32));
                }
            }
            let shape = [positions.len(), heads * 2 * half];
            let tensor = |rows| Tensor::from_data(TensorData::new(rows, shape), device);
            Turn { cos: tensor(cos), sin: tensor(sin) }
        };
        let scale = 1.0 / (config.head_dim() as f64).sqrt();
        Self {
            key: turn(config.num_key_value_heads, 1.0),
            query: turn(config.num_attention_heads, scale),
            swap: swap(half, device),
        }
    }

    /// Turns queries `[S, heads * head_dim]` and scales them for the scores.
    pub(crate) fn query(&self, query: Tensor<2>) -> Tensor<2> {
        self.turn(query, &self.query)
    }

    /// Turns keys `[S, kv_heads * head_dim]`.
    pub(crate) fn key(&self, key: Tensor<2>) -> Tensor<2> {
        self.turn(key, &self.key)
    }

    fn turn(&self, x: Tensor<2>, by: &Turn) -> Tensor<2> {
        let [rows, width] = x.dims();
        let [head_dim, _] = self.swap.dims();
        let swapped = x.clone().reshape([rows * width / head_dim, head_dim]);
        let swapped = swapped.matmul(self.swap.clone()).reshape([rows, width]);
        x * by.cos.clone() + swapped * by.sin.clone()
    }
}

fn swap(half: usize, device: &Device) -> Tensor<2> {
    let n = 2 * half;
    let mut swap = vec![0.0f32; n * n];
    for i in 0..half {
        swap[(half + i) * n + i] = -1.0;
        swap[i * n + half + i] = 1.0;
    }
    Tensor::from_data(TensorData::new(swap, [n, n]), device)
}
