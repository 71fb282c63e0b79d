//! Rotary position embedding; see [`Rope`](crate::rope::Rope) for the angles.

use burn::tensor::Tensor;

use super::{Kernel, apply};

/// Turns each head `(a, b)` of rows `x` into `(a cos - b sin, b cos + a sin)`.
///
/// `x` is `[n, heads * head_dim]` and so are the cosines and sines, or they are one row for all.
/// `swap` `[head_dim, head_dim]` is the constant with `x . swap = (-b, a)`.
pub(crate) fn turn(x: Tensor<2>, [cos, sin]: [Tensor<2>; 2], swap: &Tensor<2>) -> Tensor<2> {
    let ([rows, width], [head_dim, _]) = (x.dims(), swap.dims());
    let inputs = [x.clone(), cos.clone(), sin.clone()];
    apply(Turn { head_dim, width }, inputs, [rows, width])
        .unwrap_or_else(|| compose(x, [cos, sin], swap))
}

/// The same of tensor operations.
pub(super) fn compose(x: Tensor<2>, [cos, sin]: [Tensor<2>; 2], swap: &Tensor<2>) -> Tensor<2> {
    let ([rows, width], [head_dim, _]) = (x.dims(), swap.dims());
    let swapped = x.clone().reshape([rows * width / head_dim, head_dim]);
    let swapped = swapped.matmul(swap.clone()).reshape([rows, width]);
    x * cos + swapped * sin
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    head_dim: usize,
    width: usize,
}

impl Kernel<3> for Turn {
    #[inline(always)]
    fn forward(&self, [x, cos, sin]: [&[f32]; 3]) -> (Vec<f32>, Vec<f32>) {
        (self.turn(x, [cos, sin], 1.0), Vec::new())
    }

    /// The turn is linear, and its transpose is the turn the other way.
    #[inline(always)]
    fn backward(
        &self,
        [_, cos, sin]: [&[f32]; 3],
        _saved: &[f32],
        gradient: &[f32],
    ) -> [Vec<f32>; 3] {
        [self.turn(gradient, [cos, sin], -1.0), Vec::new(), Vec::new()]
    }
}

impl Turn {
    #[inline(always)]
    fn turn(self, x: &[f32], [cos, sin]: [&[f32]; 2], way: f32) -> Vec<f32> {
        let half = self.head_dim / 2;
        let mut y = vec![0.0; x.len()];
        // One row of angles serves all rows where there is only one.
        let angles = cos.chunks_exact(self.width).zip(sin.chunks_exact(self.width)).cycle();
        let rows = y.chunks_exact_mut(self.width).zip(x.chunks_exact(self.width));
        for ((y, x), (cos, sin)) in rows.zip(angles) {
            let heads = y.chunks_exact_mut(2 * half).zip(x.chunks_exact(2 * half));
            let angles = cos.chunks_exact(2 * half).zip(sin.chunks_exact(2 * half));
            for ((y, x), (cos, sin)) in heads.zip(angles) {
                let ((y_a, y_b), (a, b)) = (y.split_at_mut(half), x.split_at(half));
                let (cos, sin) = (&cos[..half], &sin[..half]);
                for i in 0..half {
                    y_a[i] = a[i] * cos[i] - b[i] * sin[i] * way;
                    y_b[i] = b[i] * cos[i] + a[i] * sin[i] * way;
                }
            }
        }
        y
    }
}
