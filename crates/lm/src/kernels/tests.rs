//! Each kernel against the same function composed of tensor operations.

use burn::tensor::{Device, Tensor, TensorData};
use rl::{Seed, Stream};

use super::{attention::Mask, norm, swiglu, turn};
use crate::config::ModelConfig;
use crate::packed::Packed;

fn random(child: u64, shape: [usize; 2]) -> Tensor<2> {
    let seed = Seed::new(1, Stream::Data).child(child);
    let values = (0..shape[0] * shape[1]).map(|i| seed.uniform(i as u64) as f32 * 4.0 - 2.0);
    Tensor::from_data(TensorData::new(values.collect::<Vec<_>>(), shape), &Device::flex())
}

fn values(tensor: Tensor<2>) -> Vec<f32> {
    tensor.try_into_vec_as::<f32>().unwrap()
}

/// Outputs and the gradients of the first `trained` inputs, of two ways to compute one function.
fn compare<const N: usize>(
    inputs: [Tensor<2>; N],
    trained: usize,
    ways: [&dyn Fn([Tensor<2>; N]) -> Tensor<2>; 2],
) {
    let [kernel, composed] = ways.map(|way| {
        let leaves = std::array::from_fn::<_, N, _>(|i| {
            inputs[i].clone().autodiff().set_require_grad(i < trained)
        });
        let output = way(leaves.clone());
        let pull = random(99, output.dims()).autodiff();
        let tape = (output.clone() * pull).sum().backward();
        let gradients = leaves[..trained].iter().map(|leaf| leaf.grad(&tape).unwrap());
        let plain = way(inputs.clone());
        assert_eq!(values(plain), values(output.clone().inner()), "training changes the output");
        std::iter::once(output.inner()).chain(gradients).map(values).collect::<Vec<_>>()
    });
    for (which, (found, expected)) in kernel.iter().zip(&composed).enumerate() {
        assert_eq!(found.len(), expected.len());
        for (i, (a, b)) in found.iter().zip(expected).enumerate() {
            let near = (a - b).abs() <= 2e-5 * b.abs().max(1.0);
            assert!(near, "tensor {which} differs at {i}: {a}, composed {b}");
        }
    }
}

#[test]
fn normalisation() {
    for [n, width] in [[1, 1], [5, 16], [3, 21]] {
        compare(
            [random(0, [n, width]), random(1, [1, width])],
            2,
            [&|[x, w]| norm::rms_norm(x, w, 1e-2), &|[x, w]| norm::compose(x, w, 1e-2)],
        );
    }
}

#[test]
fn gated_unit() {
    compare(
        [random(0, [7, 13]) * 6.0, random(1, [7, 13])],
        2,
        [&|[gate, up]| swiglu::swiglu(gate, up), &|[gate, up]| swiglu::compose(gate, up)],
    );
}

#[test]
fn rotary_turn() {
    // (x1, x2, x3, x4) . swap = (-x3, -x4, x1, x2)
    let swap = [[0., 0., 1., 0.], [0., 0., 0., 1.], [-1., 0., 0., 0.], [0., -1., 0., 0.]];
    let swap = Tensor::<2>::from_floats(swap, &Device::flex());
    for angles in [6, 1] {
        let [cos, sin] = [1, 2].map(|child| {
            // Both halves of a head turn by the same angle.
            let half = random(child, [angles, 2]);
            let head = Tensor::cat(vec![half.clone(), half], 1);
            Tensor::cat(vec![head.clone(), head], 1)
        });
        compare(
            [random(0, [6, 8]), cos, sin],
            1,
            [&|[x, cos, sin]| turn::turn(x, [cos, sin], &swap), &|[x, cos, sin]| {
                turn::compose(x, [cos, sin], &swap)
            }],
        );
    }
}

#[test]
fn attention() {
    let group = Packed::group(&[1, 2, 3], &[vec![4, 5], vec![], vec![6, 7, 8, 9]]).unwrap();
    let documents = Packed::documents(&[vec![1, 2, 3, 4], vec![5]]).unwrap();
    for row in [group, documents] {
        for (heads, kv_heads, head_dim) in [(1, 1, 4), (4, 4, 8), (4, 2, 6), (6, 1, 18)] {
            let mut config = ModelConfig::llama(10, heads * head_dim, 1, heads);
            config.num_key_value_heads = kv_heads;
            let mask = Mask::new(&row, &config);
            let kv = [row.len(), kv_heads * head_dim];
            let query = random(0, [row.len(), heads * head_dim]);
            compare(
                [query, random(1, kv), random(2, kv)],
                3,
                [&|[q, k, v]| mask.attend(q, k, v), &|[q, k, v]| mask.compose(q, k, v)],
            );
        }
    }
}
