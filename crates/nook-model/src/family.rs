//! Families of models: what an architecture's files must hold, and how its blocks compute.
//!
//! A family is one file in this folder over the shared [`crate::parts`]. It reads and checks the
//! hyperparameters once ([`of`]), lists every tensor that it reads with its exact shape, and builds
//! layers, one by one, from weights. Names of architectures are those of GGUF.

mod llama;
mod tensors;

use std::fmt;

use candle_core::{Result as TensorResult, Tensor};
use nook_kernels::{Compute, LayerCache, Rope, RopeTable};

use crate::error::{Fault, ModelError};
use crate::gguf::Header;
use crate::shape::ModelShape;
use crate::weights::Weights;

pub(crate) use tensors::{Expected, Place, check_tensors};

/// One model of some family: checked hyperparameters, and how to build its pieces.
pub(crate) trait Family: fmt::Debug + Send + Sync {
    /// The hyperparameters.
    fn shape(&self) -> &ModelShape;

    /// Every tensor that the family reads.
    fn tensors(&self) -> Vec<Expected>;

    /// What every holder of any layer needs.
    fn shared(&self, weights: &Weights<'_>) -> Result<Shared, ModelError>;

    /// Layer `index`, alone.
    fn layer(&self, weights: &Weights<'_>, index: u32) -> Result<Box<dyn Layer>, ModelError>;
}

/// One transformer layer.
pub(crate) trait Layer: fmt::Debug + Send + Sync {
    /// Hidden states `(n, hidden)` to hidden states; keys and values go into `cache`, which has room.
    fn forward(&self, x: &Tensor, step: &Step<'_>, cache: &mut LayerCache) -> TensorResult<Tensor>;
}

/// Weights that belong to no single layer.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Rotary frequencies; layers choose theirs by number.
    pub(crate) ropes: Vec<Rope>,
}

/// What the layers of one step share.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// Where kernels run.
    pub(crate) compute: &'a Compute,
    /// Turns of the step's positions, one table for each of [`Shared::ropes`].
    pub(crate) tables: Vec<RopeTable>,
    /// Absolute position of the first row.
    pub(crate) first: usize,
}

/// The family of a file, with its hyperparameters and tensors checked.
pub(crate) fn of(header: &Header, tokens: usize) -> Result<Box<dyn Family>, Fault> {
    let family: Box<dyn Family> = match header.required_text("general.architecture")? {
        "llama" => Box::new(llama::Llama::read(header, tokens)?),
        other => {
            return Err(Fault::Architecture { architecture: other.to_owned() });
        }
    };
    check_tensors(header, &family.tensors())?;
    Ok(family)
}
