//! Attention over a packed row: each token looks at the prefix and at its own segment, and
//! nothing is computed for tokens it does not see.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::exp::exp;
use super::{Kernel, add_scaled, apply, dot};
use crate::config::ModelConfig;
use crate::packed::{PREFIX, Packed};

/// Who sees whom in a row, for all heads and layers.
pub(crate) struct Mask {
    row: Packed,
    kernel: Attend,
    head_dim: usize,
    /// `[kv_heads, queries per key head * S, S]`, made where the kernel does not run.
    bias: OnceCell<Tensor<3>>,
}

impl Mask {
    pub(crate) fn new(row: &Packed, config: &ModelConfig) -> Self {
        let segments = row.segments().chunk_by(|a, b| a == b);
        let ends = segments.scan(0, |end, segment| {
            *end += segment.len();
            Some(*end - segment.len()..*end)
        });
        let kernel = Attend {
            prefix: row.segments().iter().take_while(|&&id| id == PREFIX).count(),
            segments: ends.collect(),
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
        };
        Self { row: row.clone(), kernel, head_dim: config.head_dim(), bias: OnceCell::new() }
    }

    /// `softmax(query key^T) value` for queries `[S, heads * head_dim]`, which come scaled, and
    /// keys and values `[S, kv_heads * head_dim]`; neighbouring query heads share a key head
    /// (Ainslie et al. 2023, "GQA").
    pub(crate) fn attend(&self, query: Tensor<2>, key: Tensor<2>, value: Tensor<2>) -> Tensor<2> {
        let inputs = [query.clone(), key.clone(), value.clone()];
        apply(self.kernel.clone(), inputs, query.dims())
            .unwrap_or_else(|| self.compose(query, key, value))
    }

    /// The same of tensor operations. The queries that share a key head are rows of one matrix, so
    /// keys are never repeated.
    pub(super) fn compose(&self, query: Tensor<2>, key: Tensor<2>, value: Tensor<2>) -> Tensor<2> {
        let (s, d, kv) = (self.row.len(), self.head_dim, self.kernel.kv_heads);
        let heads = self.kernel.heads;
        let bias = self.bias.get_or_init(|| {
            let mask = self.row.mask(&query.device()).unsqueeze::<3>();
            mask.repeat(&[heads, 1, 1]).reshape([kv, heads / kv * s, s])
        });
        let query = query.reshape([s, heads, d]).swap_dims(0, 1).reshape([kv, heads / kv * s, d]);
        let key = key.reshape([s, kv, d]).permute([1, 2, 0]);
        let value = value.reshape([s, kv, d]).swap_dims(0, 1);
        let weights = activation::softmax(query.matmul(key) + bias.clone(), 2);
        let context = weights.matmul(value).reshape([heads, s, d]);
        context.swap_dims(0, 1).reshape([s, heads * d])
    }
}

#[derive(Debug, Clone)]
struct Attend {
    segments: Arc<[Range<usize>]>,
    /// Tokens of the prefix, which come first in the row.
    prefix: usize,
    heads: usize,
    kv_heads: usize,
}

impl Attend {
    /// The width of a head, and how many query heads share a key head.
    fn sizes(&self, width: usize) -> (usize, usize) {
        (width / self.heads, self.heads / self.kv_heads)
    }

    /// For each token in order its place and the two stretches of tokens it sees, the second
    /// ending with itself.
    fn views(&self) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        self.segments.iter().flat_map(|segment| {
            let prefix = self.prefix.min(segment.start);
            segment.clone().map(move |i| (i, 0..prefix, segment.start..i + 1))
        })
    }
}

impl Kernel<3> for Attend {
    /// Saves the weights of the softmax: head by head, token by token, as many as it sees.
    #[inline(always)]
    fn forward(&self, [query, key, value]: [&[f32]; 3]) -> (Vec<f32>, Vec<f32>) {
        let views: Vec<_> = self.views().collect();
        let (dim, shared) = self.sizes(query.len() / views.len());
        let kv = |head: usize, j: usize| place(dim, j * self.kv_heads + head / shared);
        let seen = views.iter().map(|(_, prefix, own)| prefix.len() + own.len()).sum::<usize>();
        let mut context = vec![0.0; query.len()];
        let mut saved = vec![0.0; seen * self.heads];
        let mut rest = saved.as_mut_slice();
        for head in 0..self.heads {
            for (i, prefix, own) in &views {
                let at = place(dim, i * self.heads + head);
                let (weights, left) = rest.split_at_mut(prefix.len() + own.len());
                rest = left;
                let see = || prefix.clone().chain(own.clone());
                for (weight, j) in weights.iter_mut().zip(see()) {
                    *weight = dot(&query[at.clone()], &key[kv(head, j)]);
                }
                softmax(weights);
                let context = &mut context[at];
                for (weight, j) in weights.iter().zip(see()) {
                    add_scaled(context, *weight, &value[kv(head, j)]);
                }
            }
        }
        (context, saved)
    }

    /// With weights `p` and the gradient `g` of a context: `dvalue_j += p_j g`; `dp_j = g . value_j`;
    /// `dscore_j = p_j (dp_j - sum_k p_k dp_k)`; then queries and keys as in any product.
    #[inline(always)]
    fn backward(
        &self,
        [query, key, value]: [&[f32]; 3],
        saved: &[f32],
        gradient: &[f32],
    ) -> [Vec<f32>; 3] {
        let views: Vec<_> = self.views().collect();
        let n = views.len();
        let (dim, shared) = self.sizes(query.len() / n);
        let kv = |head: usize, j: usize| place(dim, j * self.kv_heads + head / shared);
        let mut d_query = vec![0.0; query.len()];
        let (mut d_key, mut d_value) = (vec![0.0; key.len()], vec![0.0; value.len()]);
        let mut d_score = vec![0.0; n];
        let mut rest = saved;
        for head in 0..self.heads {
            for (i, prefix, own) in &views {
                let at = place(dim, i * self.heads + head);
                let (weights, left) = rest.split_at(prefix.len() + own.len());
                rest = left;
                let see = || prefix.clone().chain(own.clone());
                let (g, q) = (&gradient[at.clone()], &query[at.clone()]);
                let d_score = &mut d_score[..weights.len()];
                for (d, j) in d_score.iter_mut().zip(see()) {
                    *d = dot(g, &value[kv(head, j)]);
                }
                let mean = dot(d_score, weights);
                let d_query = &mut d_query[at];
                for ((d, weight), j) in d_score.iter().zip(weights).zip(see()) {
                    let d = weight * (d - mean);
                    add_scaled(d_query, d, &key[kv(head, j)]);
                    add_scaled(&mut d_key[kv(head, j)], d, q);
                    add_scaled(&mut d_value[kv(head, j)], *weight, g);
                }
            }
        }
        [d_query, d_key, d_value]
    }
}

/// Where the `index`-th vector of `dim` numbers lies.
#[inline(always)]
fn place(dim: usize, index: usize) -> Range<usize> {
    index * dim..(index + 1) * dim
}

/// Turns scores into weights that add up to one.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
    for score in &mut *scores {
        *score = exp(*score - most);
    }
    let sum: f32 = scores.iter().sum();
    let scale = 1.0 / sum;
    for score in scores {
        *score *= scale;
    }
}
