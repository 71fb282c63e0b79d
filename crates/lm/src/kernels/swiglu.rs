//! The gated unit of the feed-forward block (Shazeer 2020, "GLU variants improve transformer").

use burn::tensor::{Tensor, activation};

use super::exp::exp;
use super::{Kernel, apply};

/// `silu(gate) * up`, where `silu(x) = x / (1 + e^-x)`; all of one shape.
pub(crate) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let inputs = [gate.clone(), up.clone()];
    apply(SwiGlu, inputs, gate.dims()).unwrap_or_else(|| compose(gate, up))
}

/// The same of tensor operations.
pub(super) fn compose(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    activation::silu(gate) * up
}

#[derive(Debug, Clone, Copy)]
struct SwiGlu;

impl Kernel<2> for SwiGlu {
    #[inline(always)]
    fn forward(&self, [gate, up]: [&[f32]; 2]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![0.0; gate.len()];
        for (y, (gate, up)) in y.iter_mut().zip(gate.iter().zip(up)) {
            *y = gate * sigmoid(*gate) * up;
        }
        (y, Vec::new())
    }

    /// `silu'(x) = s (1 + x (1 - s))` with `s = sigmoid(x)`.
    #[inline(always)]
    fn backward(&self, [gate, up]: [&[f32]; 2], _saved: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
        let (mut d_gate, mut d_up) = (vec![0.0; gate.len()], vec![0.0; gate.len()]);
        let inputs = gate.iter().zip(up).zip(gradient);
        for ((d_gate, d_up), ((gate, up), g)) in d_gate.iter_mut().zip(&mut d_up).zip(inputs) {
            let s = sigmoid(*gate);
            *d_gate = g * up * s * (gate * (1.0 - s) + 1.0);
            *d_up = g * gate * s;
        }
        [d_gate, d_up]
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}
