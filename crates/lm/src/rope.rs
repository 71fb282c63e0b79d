//! Rotary position embedding in Hugging Face's half-split order (Su et al. 2021, "RoFormer").
//!
//! A head's vector `(a, b)` of two halves turns into `(a cos - b sin, b cos + a sin)`, with angle
//! `position * theta^(-2i/d)` for the `i`-th pair. Burn's own rotary pairs neighbours instead and
//! does not fit Hugging Face weights.

use burn::tensor::{Device, Tensor, TensorData};

use crate::config::ModelConfig;
use crate::kernels;

/// How queries and keys turn with their positions, made once for all layers.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    /// Queries are also scaled by the attention's `1 / sqrt(head_dim)`, which spares a pass over
    /// the scores.
    pub(crate) query: Rope,
    pub(crate) key: Rope,
}

/// The turn of one kind of heads.
#[derive(Debug, Clone)]
pub(crate) struct Rope {
    /// Cosines `[positions, heads * head_dim]`.
    cos: Tensor<2>,
    /// Sines of the same shape.
    sin: Tensor<2>,
    /// `[head_dim, head_dim]`: `x . swap` is `(-b, a)`, exactly, as each sum has one term.
    swap: Tensor<2>,
}

impl Turns {
    /// The turns at each of `positions`.
    pub(crate) fn new(config: &ModelConfig, positions: &[u32], device: &Device) -> Self {
        let scale = 1.0 / (config.head_dim() as f64).sqrt();
        let rope = |heads, scale| Rope::new(config, positions, (heads, scale), device);
        Self {
            query: rope(config.num_attention_heads, scale),
            key: rope(config.num_key_value_heads, 1.0),
        }
    }

    /// The turns at the `index`-th of the positions alone, for any number of rows there.
    pub(crate) fn at(&self, index: usize) -> Self {
        Self { query: self.query.at(index), key: self.key.at(index) }
    }
}

impl Rope {
    /// Turns `x` `[S, heads * head_dim]`.
    pub(crate) fn turn(&self, x: Tensor<2>) -> Tensor<2> {
        kernels::turn(x, [self.cos.clone(), self.sin.clone()], &self.swap)
    }

    fn at(&self, index: usize) -> Self {
        let row = |table: &Tensor<2>| table.clone().narrow(0, index, 1);
        Self { cos: row(&self.cos), sin: row(&self.sin), swap: self.swap.clone() }
    }

    fn new(
        config: &ModelConfig,
        positions: &[u32],
        (heads, scale): (usize, f64),
        device: &Device,
    ) -> Self {
        let half = config.head_dim() / 2;
        let speed = |pair: usize| config.rope_theta.powf(-(pair as f64) / half as f64);
        let speeds: Vec<f64> = (0..half).map(speed).collect();
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for &position in positions {
            let angles = speeds.iter().map(|speed| f64::from(position) * speed);
            let turns: Vec<(f64, f64)> = angles.map(f64::sin_cos).collect();
            for _ in 0..2 * heads {
                sin.extend(turns.iter().map(|turn| (turn.0 * scale) as f32));
                cos.extend(turns.iter().map(|turn| (turn.1 * scale) as f32));
            }
        }
        let shape = [positions.len(), heads * 2 * half];
        let table = |values| Tensor::from_data(TensorData::new(values, shape), device);
        Self { cos: table(cos), sin: table(sin), swap: swap(half, device) }
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
