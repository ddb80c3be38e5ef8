//! Lists the tensors that a part of a description names.

use super::{MatrixSpec, Named, Part, Source, StackSpec, VectorSpec, Weights};
use crate::error::Fault;

/// Names and dimensions (fastest first), in the order in which a part asks for them.
#[derive(Debug, Default)]
struct Listing {
    tensors: Vec<(String, Vec<u32>)>,
}

/// The tensors that `part` names, with their dimensions, fastest first. A tensor that several
/// matrices are cut from comes once for each.
pub(crate) fn list(part: &impl Part) -> Vec<(String, Vec<u32>)> {
    let mut listing = Listing::default();
    // A listing never fails, so there is no fault to report.
    let _ = part.read(&mut listing);
    listing.tensors
}

impl Source for Listing {
    type Into = Named;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Named as Weights>::Matrix, Fault> {
        self.tensors.push((spec.tensor.clone(), spec.dimensions.clone()));
        if let Some(scale) = &spec.scale {
            self.vector(&scale.all)?;
        }
        Ok(spec.clone())
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Named as Weights>::Stack, Fault> {
        self.tensors.push((spec.tensor.clone(), spec.dimensions.to_vec()));
        if let Some(scales) = &spec.scales {
            self.vector(scales)?;
        }
        Ok(spec.clone())
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Vector, Fault> {
        self.tensors.push((spec.tensor.clone(), spec.dimensions.clone()));
        Ok(spec.clone())
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Numbers, Fault> {
        self.vector(spec)
    }
}
