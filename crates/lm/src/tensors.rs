//! Weights as named bytes, in Hugging Face's names and layout: the form they travel and rest in.

use std::ops::Deref;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use bytes::Bytes;

use crate::model::Decoder;

/// One weight.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// Its path, such as `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// Its sizes; a linear weight is `[out, in]`.
    pub shape: Vec<usize>,
    /// Its values row by row, f32 in little-endian order.
    pub bytes: Bytes,
}

impl NamedTensor {
    /// The values of `tensor`.
    pub(crate) fn new<const D: usize>(name: String, tensor: Tensor<D>) -> Self {
        let (bytes, shape, _) = tensor.into_data_dtype(DType::F32).into_parts();
        Self { name, shape: shape.to_vec(), bytes: Bytes::from_owner(Values(bytes)) }
    }
}

/// Values read from a tensor, to be held without a copy.
struct Values<T>(T);

impl<T: Deref<Target = [u8]>> AsRef<[u8]> for Values<T> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Weights that are not those of the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The model has a weight that did not come.
    #[error("tensor {name} is missing: expected f32 values of shape {shape:?}")]
    Missing {
        /// Which.
        name: String,
        /// Its sizes in the model.
        shape: Vec<usize>,
    },
    /// A weight came that the model does not have, or one came twice.
    #[error("tensor {name} is not expected: the model has no such weight or it came twice")]
    Unexpected {
        /// Which.
        name: String,
    },
    /// A weight of other sizes.
    #[error("tensor {name} has shape {found:?}: expected {expected:?}")]
    Shape {
        /// Which.
        name: String,
        /// Its sizes in the model.
        expected: Vec<usize>,
        /// Its sizes as it came.
        found: Vec<usize>,
    },
    /// A weight whose bytes do not fill its shape.
    #[error("tensor {name} has {found} bytes: expected {expected} for its shape in f32")]
    Length {
        /// Which.
        name: String,
        /// Bytes its shape takes.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
}

impl Decoder {
    /// All weights, always in the same order.
    #[must_use]
    pub fn export(&self) -> Vec<NamedTensor> {
        let mut export = Export::default();
        self.visit(&mut export);
        export.tensors
    }

    /// The model with other weights, which may come in any order. The identity of parameters
    /// stays, so an optimiser's state still fits.
    ///
    /// # Errors
    /// The first weight that is missing, unexpected or of another shape.
    pub fn import(&self, tensors: Vec<NamedTensor>) -> Result<Self, TensorError> {
        let mut import = Import { path: Path::default(), left: tensors, error: None };
        let decoder = self.clone().map(&mut import);
        if let Some(error) = import.error {
            return Err(error);
        }
        match import.left.pop() {
            Some(NamedTensor { name, .. }) => Err(TensorError::Unexpected { name }),
            None => Ok(decoder),
        }
    }
}

/// Where a walk over the parameters is.
#[derive(Default)]
struct Path {
    names: Vec<String>,
    /// Whether each name is a field of a linear map, whose weight lies the other way round.
    linear: Vec<bool>,
}

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        self.names.push(name.to_owned());
        self.linear.push(container == "Struct:Linear");
    }

    fn exit(&mut self) {
        self.names.pop();
        self.linear.pop();
    }

    fn name(&self) -> String {
        self.names.join(".")
    }

    /// A parameter between memory's layout and Hugging Face's; its own inverse.
    fn flip<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        if self.linear.last() == Some(&true) { tensor.transpose() } else { tensor }
    }
}

#[derive(Default)]
struct Export {
    path: Path,
    tensors: Vec<NamedTensor>,
}

impl ModuleVisitor for Export {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = self.path.flip(param.val().without_autodiff());
        self.tensors.push(NamedTensor::new(self.path.name(), tensor));
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }
}

struct Import {
    path: Path,
    left: Vec<NamedTensor>,
    error: Option<TensorError>,
}

impl Import {
    /// The values that came for a weight of shape `expected`.
    fn take(&mut self, name: String, expected: Vec<usize>) -> Result<TensorData, TensorError> {
        let Some(at) = self.left.iter().position(|tensor| tensor.name == name) else {
            return Err(TensorError::Missing { name, shape: expected });
        };
        let NamedTensor { shape: found, bytes, .. } = self.left.swap_remove(at);
        if found != expected {
            return Err(TensorError::Shape { name, expected, found });
        }
        let length = expected.iter().product::<usize>() * size_of::<f32>();
        if bytes.len() != length {
            return Err(TensorError::Length { name, expected: length, found: bytes.len() });
        }
        let (values, _) = bytes.as_chunks::<4>();
        let values: Vec<f32> = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
        Ok(TensorData::new(values, expected))
    }
}

impl ModuleMapper for Import {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let mut expected = param.shape().to_vec();
        if self.path.linear.last() == Some(&true) {
            expected.reverse();
        }
        match self.take(self.path.name(), expected) {
            Ok(data) => param.map(|old| {
                // A transposed view would be repacked by every product that reads it.
                let device = old.device().without_autodiff();
                let flipped = self.path.flip(Tensor::<D>::from_data(data, &device)).into_data();
                Tensor::from_data(flipped, &old.device()).set_require_grad(old.is_require_grad())
            }),
            Err(error) => {
                self.error.get_or_insert(error);
                param
            }
        }
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }
}
