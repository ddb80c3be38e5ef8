//! Lists of the tensors that a family reads, and the check that a file has exactly those.

use std::collections::HashSet;

use nook_base::ModelPart;

use crate::error::Fault;
use crate::gguf::Header;

/// A tensor that a family reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    pub(crate) name: String,
    /// Dimensions, fastest first.
    pub(crate) dimensions: Vec<u64>,
    pub(crate) place: Place,
    pub(crate) optional: bool,
}

/// Which part of a model needs a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Embedding,
    Head,
    /// The embedding of a model whose output matrix is the embedding.
    BothEnds,
    Layer(u32),
    /// Every holder of any layer.
    AnyLayer,
}

impl Place {
    /// Whether `part` needs the tensor.
    pub(crate) fn is_in(self, part: &ModelPart) -> bool {
        match self {
            Self::Embedding => part.embedding,
            Self::Head => part.head,
            Self::BothEnds => part.embedding || part.head,
            Self::Layer(index) => part.layers.contains_layer(index),
            Self::AnyLayer => !part.layers.is_empty(),
        }
    }
}

impl Expected {
    pub(crate) fn new(name: impl Into<String>, dimensions: &[u32], place: Place) -> Self {
        Self {
            name: name.into(),
            dimensions: dimensions.iter().copied().map(u64::from).collect(),
            place,
            optional: false,
        }
    }

    pub(crate) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

/// Every expected tensor is there in its exact shape and in a type that can be computed; there is no
/// tensor that nothing reads.
pub(crate) fn check_tensors(header: &Header, expected: &[Expected]) -> Result<(), Fault> {
    for wanted in expected {
        let Some(tensor) = header.tensor(&wanted.name) else {
            if wanted.optional {
                continue;
            }
            return Err(Fault::MissingTensor { tensor: wanted.name.clone() });
        };
        if tensor.dimensions != wanted.dimensions {
            return Err(Fault::TensorShape {
                tensor: wanted.name.clone(),
                got: tensor.dimensions.clone(),
                expected: wanted.dimensions.clone(),
            });
        }
        if tensor.kind.format().is_none() {
            return Err(Fault::UnsupportedTensorType {
                tensor: wanted.name.clone(),
                type_name: tensor.kind.name(),
            });
        }
    }
    let known: HashSet<&str> = expected.iter().map(|wanted| wanted.name.as_str()).collect();
    let unread = header.tensors().iter().find(|tensor| !known.contains(tensor.name.as_str()));
    match unread {
        Some(tensor) => Err(Fault::UnreadTensor { tensor: tensor.name.clone() }),
        None => Ok(()),
    }
}
