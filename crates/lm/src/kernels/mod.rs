//! Operations the CPU does in one pass, with gradients written by hand.
//!
//! Composed of the library's operations, attention, normalisation and the gated unit spend most
//! of their time on intermediate tensors. Each [`Kernel`] here reads its inputs once and writes
//! its output once, and so does its gradient. On any other device [`apply`] declines, and the
//! caller composes the same function of tensor operations; tests hold the two against each other.
//!
//! The loops are plain: `pulp` compiles them for the widest vectors the processor has.

mod attention;
mod exp;
mod norm;
mod swiglu;
#[cfg(test)]
mod tests;
mod turn;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};
use burn::tensor::{Tensor, TensorData};
use pulp::{Arch, NullaryFnOnce};

pub(crate) use attention::Mask;
pub(crate) use norm::rms_norm;
pub(crate) use swiglu::swiglu;
pub(crate) use turn::turn;

/// A function of matrices, row by row in f32, and its gradient.
trait Kernel<const N: usize>: Clone + Debug + Send + Sync + 'static {
    /// The output, and what the gradient needs to know besides the inputs.
    fn forward(&self, inputs: [&[f32]; N]) -> (Vec<f32>, Vec<f32>);

    /// The gradient in each input, given the one in the output; empty for an input that never
    /// takes part in training.
    fn backward(&self, inputs: [&[f32]; N], saved: &[f32], gradient: &[f32]) -> [Vec<f32>; N];
}

/// The kernel's output, of the given shape; `None` where the inputs are not on the CPU.
fn apply<const N: usize, K: Kernel<N>>(
    kernel: K,
    inputs: [Tensor<2>; N],
    shape: [usize; 2],
) -> Option<Tensor<2>> {
    if !inputs.iter().any(Tensor::is_autodiff) {
        let inputs = all(inputs.map(|input| input.try_into_primitive::<Flex>().ok()))?;
        let inputs = inputs.map(|input| input.to_contiguous());
        let inputs = inputs.each_ref().map(values);
        let (output, _) = Arch::new().dispatch(Through { kernel: &kernel, inputs });
        return Some(Tensor::from_data(TensorData::new(output, shape), &Default::default()));
    }
    let inputs = inputs.map(|input| input.autodiff().try_into_primitive::<Autodiff<Flex>>().ok());
    let parts = all(inputs)?.map(|input| input.into_parts());
    let (mut matrices, mut nodes) = (Vec::with_capacity(N), Vec::with_capacity(N));
    for (matrix, node) in parts {
        matrices.push(matrix.to_contiguous());
        nodes.push(node);
    }
    let nodes: [_; N] = nodes.try_into().expect("one node per input");
    let inputs = std::array::from_fn(|i| values(&matrices[i]));
    let (output, saved) = Arch::new().dispatch(Through { kernel: &kernel, inputs });
    let output = FlexTensor::from_data(TensorData::new(output, shape));
    let step = Step::<K>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound();
    let output = match step.stateful() {
        OpsKind::Tracked(step) => {
            step.finish(State { kernel, inputs: matrices.into(), saved: saved.into() }, output)
        }
        OpsKind::UnTracked(step) => step.finish(output),
    };
    Some(Tensor::from_primitive::<Autodiff<Flex>>(output))
}

/// The way back through a kernel.
#[derive(Debug)]
struct Step<K>(PhantomData<K>);

#[derive(Debug, Clone)]
struct State<K> {
    kernel: K,
    inputs: Arc<[FlexTensor]>,
    saved: Arc<[f32]>,
}

impl<const N: usize, K: Kernel<N>> Backward<Flex, N> for Step<K> {
    type State = State<K>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let State { kernel, inputs, saved } = ops.state;
        let gradient = gradients.consume::<Flex>(&ops.node).to_contiguous();
        let matrices = std::array::from_fn(|i| values(&inputs[i]));
        let (kernel, gradient) = (&kernel, values(&gradient));
        let back = Back { kernel, inputs: matrices, saved: &saved, gradient };
        let found = Arch::new().dispatch(back);
        for ((parent, input), found) in ops.parents.into_iter().zip(inputs.iter()).zip(found) {
            if let Some(parent) = parent {
                let found = FlexTensor::from_data(TensorData::new(found, input.shape()));
                gradients.register::<Flex>(parent.id, found);
            }
        }
    }
}

fn all<T, const N: usize>(options: [Option<T>; N]) -> Option<[T; N]> {
    let all: Vec<T> = options.into_iter().collect::<Option<_>>()?;
    all.try_into().ok()
}

fn values(matrix: &FlexTensor) -> &[f32] {
    matrix.as_slice().expect("models are f32 and their matrices were laid out row by row")
}

/// The way through a kernel, compiled for the widest vectors of this processor. A closure in its
/// place would stay a function of its own, compiled for the narrowest.
struct Through<'a, K, const N: usize> {
    kernel: &'a K,
    inputs: [&'a [f32]; N],
}

impl<K: Kernel<N>, const N: usize> NullaryFnOnce for Through<'_, K, N> {
    type Output = (Vec<f32>, Vec<f32>);

    #[inline(always)]
    fn call(self) -> Self::Output {
        self.kernel.forward(self.inputs)
    }
}

/// The way back, in the same manner.
struct Back<'a, K, const N: usize> {
    kernel: &'a K,
    inputs: [&'a [f32]; N],
    saved: &'a [f32],
    gradient: &'a [f32],
}

impl<K: Kernel<N>, const N: usize> NullaryFnOnce for Back<'_, K, N> {
    type Output = [Vec<f32>; N];

    #[inline(always)]
    fn call(self) -> Self::Output {
        self.kernel.backward(self.inputs, self.saved, self.gradient)
    }
}

/// The sum of products, in sixteen strands that are added at the end in a fixed order.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const STRANDS: usize = 16;
    let mut sums = [0.0f32; STRANDS];
    let (heads_a, tail_a) = a.as_chunks::<STRANDS>();
    let (heads_b, tail_b) = b.as_chunks::<STRANDS>();
    for (a, b) in heads_a.iter().zip(heads_b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = a.mul_add(*b, *sum);
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(tail_a.iter().zip(tail_b)) {
        *sum = a.mul_add(*b, *sum);
    }
    let mut width = STRANDS / 2;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Adds `by * x` to `sum`.
#[inline(always)]
fn add_scaled(sum: &mut [f32], by: f32, x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum = by.mul_add(*x, *sum);
    }
}
