//! The tensors that a description names, and the check that a file has exactly those.

use std::collections::HashSet;

use nook_base::{LayerRange, ModelPart};

use super::Description;
use crate::error::Fault;
use crate::gguf::Header;
use crate::weights::{MatrixSpec, list};

/// A tensor that a description names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expected {
    pub(crate) name: String,
    /// Dimensions, fastest first.
    pub(crate) dimensions: Vec<u64>,
    pub(crate) place: Place,
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

    /// Those of `layers` that need the tensor, in order.
    pub(crate) fn layers_in(self, layers: LayerRange) -> std::ops::Range<u32> {
        match self {
            Self::Embedding | Self::Head | Self::BothEnds => 0..0,
            Self::Layer(index) if layers.contains_layer(index) => index..index + 1,
            Self::Layer(_) => 0..0,
            Self::AnyLayer => layers.iter(),
        }
    }
}

/// Every tensor of `description`, once each.
pub(crate) fn expected(description: &Description) -> Vec<Expected> {
    let mut all = Vec::new();
    let head = &description.head;
    let ends = if head.output.is_none() { Place::BothEnds } else { Place::Embedding };
    let whole = |spec: &MatrixSpec| {
        let scale = spec.scale.as_ref().map(|scale| &scale.all);
        let scale = scale.map(|all| (all.tensor.clone(), all.dimensions.clone()));
        let own = (spec.tensor.clone(), spec.dimensions.clone());
        std::iter::once(own).chain(scale).collect::<Vec<_>>()
    };
    add(&mut all, ends, whole(&description.embedding));
    if let Some(inputs) = &description.layer_inputs {
        add(&mut all, Place::Embedding, list(inputs));
    }
    if let Some(streams) = &description.streams {
        add(&mut all, Place::Embedding, list(&streams.spread));
        add(&mut all, Place::Head, list(&streams.merge));
    }
    for rope in &description.ropes {
        add(&mut all, Place::AnyLayer, list(rope));
    }
    for (index, block) in (0u32..).zip(&description.blocks) {
        add(&mut all, Place::Layer(index), list(block));
    }
    add(&mut all, Place::Head, list(&head.norm));
    if let Some(output) = &head.output {
        add(&mut all, Place::Head, whole(output));
    }
    all
}

/// Every expected tensor is there in its exact shape and in a type that can be computed; there is
/// no tensor that nothing reads.
pub(super) fn check_tensors(header: &Header, description: &Description) -> Result<(), Fault> {
    let mut known: HashSet<String> = HashSet::new();
    for wanted in expected(description) {
        check_tensor(header, &wanted)?;
        known.insert(wanted.name);
    }
    known.extend(description.passed_over.iter().cloned());
    match header.tensors().iter().find(|tensor| !known.contains(&tensor.name)) {
        Some(tensor) => Err(Fault::UnreadTensor { tensor: tensor.name.clone() }),
        None => Ok(()),
    }
}

fn check_tensor(header: &Header, wanted: &Expected) -> Result<(), Fault> {
    let Some(tensor) = header.tensor(&wanted.name) else {
        return Err(Fault::MissingTensor { tensor: wanted.name.clone() });
    };
    if significant(&tensor.dimensions) != significant(&wanted.dimensions) {
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
    Ok(())
}

/// Dimensions without the ones at their end, which say nothing: a tensor of `[48, 1]` is one of
/// `[48]`, as in ggml.
fn significant(dimensions: &[u64]) -> &[u64] {
    let ones = dimensions.iter().rev().take_while(|dimension| **dimension == 1).count();
    &dimensions[..dimensions.len() - ones]
}

/// Adds what a part names, each tensor once: several matrices may be cut from one.
fn add(all: &mut Vec<Expected>, place: Place, tensors: Vec<(String, Vec<u32>)>) {
    let from = all.len();
    for (name, dimensions) in tensors {
        if all[from..].iter().any(|known| known.name == name) {
            continue;
        }
        let dimensions = dimensions.into_iter().map(u64::from).collect();
        all.push(Expected { name, dimensions, place });
    }
}
