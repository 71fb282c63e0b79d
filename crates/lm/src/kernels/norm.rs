//! Root mean square normalisation (Zhang and Sennrich 2019).

use burn::tensor::Tensor;

use super::{Kernel, apply, dot};

/// `x / rms(x) * weight` for rows `x` `[n, width]` and `weight` `[1, width]`, where
/// `rms(x) = sqrt(mean(x^2) + epsilon)`.
pub(crate) fn rms_norm(x: Tensor<2>, weight: Tensor<2>, epsilon: f64) -> Tensor<2> {
    let inputs = [x.clone(), weight.clone()];
    apply(RmsNorm { epsilon }, inputs, x.dims()).unwrap_or_else(|| compose(x, weight, epsilon))
}

/// The same of tensor operations.
pub(super) fn compose(x: Tensor<2>, weight: Tensor<2>, epsilon: f64) -> Tensor<2> {
    let rms = (x.clone().square().mean_dim(1) + epsilon).sqrt();
    x / rms * weight
}

#[derive(Debug, Clone, Copy)]
struct RmsNorm {
    epsilon: f64,
}

impl Kernel<2> for RmsNorm {
    /// Saves `1 / rms` of each row.
    #[inline(always)]
    fn forward(&self, [x, weight]: [&[f32]; 2]) -> (Vec<f32>, Vec<f32>) {
        let width = weight.len();
        let mut y = vec![0.0; x.len()];
        let mut scales = Vec::with_capacity(x.len() / width);
        for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let scale = 1.0 / (dot(x, x) / width as f32 + self.epsilon as f32).sqrt();
            for (y, (x, w)) in y.iter_mut().zip(x.iter().zip(weight)) {
                *y = x * scale * w;
            }
            scales.push(scale);
        }
        (y, scales)
    }

    /// With `s = 1 / rms` and `h = weight * gradient`: `dx = s h - x s^3 mean(h x)` and
    /// `dweight = sum over rows of gradient x s`.
    #[inline(always)]
    fn backward(
        &self,
        [x, weight]: [&[f32]; 2],
        scales: &[f32],
        gradient: &[f32],
    ) -> [Vec<f32>; 2] {
        let width = weight.len();
        let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; width]);
        let rows = x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(scales);
        for (dx, ((x, g), &s)) in dx.chunks_exact_mut(width).zip(rows) {
            for (dx, (g, w)) in dx.iter_mut().zip(g.iter().zip(weight)) {
                *dx = g * w;
            }
            let along = dot(dx, x) * s * s * s / width as f32;
            for ((dx, dw), (x, g)) in dx.iter_mut().zip(&mut dw).zip(x.iter().zip(g)) {
                *dx = s * *dx - along * x;
                *dw += g * x * s;
            }
        }
        [dx, dw]
    }
}
