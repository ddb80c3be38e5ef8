//! Numbers that stand beside matrices in a file, and that all of a matrix is multiplied with.
//!
//! Files in NVFP4 have one for each matrix, `blk.0.attn_q.scale` beside `blk.0.attn_q.weight`, and
//! one for each expert of a stack: the scales inside that format reach from 2^-9 to 448 and no
//! further. Any matrix of any family may have one. Source: llama.cpp, `llama-model.cpp` ("generic
//! pass") and `build_lora_mm`. What stands in `.input_scale` is for devices that round activations
//! to four bits, too, and is not read here.

use std::collections::HashSet;

use super::{MatrixSpec, Named, ScaleSpec, Source, StackSpec, VectorSpec, Weights};
use crate::error::Fault;
use crate::gguf::Header;

const WEIGHT: &str = ".weight";
const SCALE: &str = ".scale";
const INPUT_SCALE: &str = ".input_scale";

/// Gives each matrix the scale that the file has beside it.
#[derive(Debug)]
pub(crate) struct Scaling<'a> {
    header: &'a Header,
    /// Tensors that the family reads for itself, whatever they are called.
    named: &'a HashSet<String>,
    /// Tensors that are for other devices.
    pub(crate) passed_over: Vec<String>,
}

impl<'a> Scaling<'a> {
    pub(crate) fn new(header: &'a Header, named: &'a HashSet<String>) -> Self {
        Self { header, named, passed_over: Vec::new() }
    }

    /// The tensor with `count` scales beside `tensor`.
    fn beside(&mut self, tensor: &str, count: u32) -> Option<VectorSpec> {
        let stem = tensor.strip_suffix(WEIGHT)?;
        let free = |ending: &str| {
            let name = format!("{stem}{ending}");
            let is_there = self.header.tensor(&name).is_some() && !self.named.contains(&name);
            is_there.then_some(name)
        };
        let (scale, input) = (free(SCALE), free(INPUT_SCALE));
        self.passed_over.extend(input);
        scale.map(|name| VectorSpec::new(name, count))
    }
}

impl Source for Scaling<'_> {
    type Into = Named;

    fn matrix(&mut self, spec: &MatrixSpec) -> Result<<Named as Weights>::Matrix, Fault> {
        let scale = self.beside(&spec.tensor, 1).map(|all| ScaleSpec { all, at: 0 });
        Ok(MatrixSpec { scale, ..spec.clone() })
    }

    fn stack(&mut self, spec: &StackSpec) -> Result<<Named as Weights>::Stack, Fault> {
        let [_, _, count] = spec.dimensions;
        Ok(StackSpec { scales: self.beside(&spec.tensor, count), ..spec.clone() })
    }

    fn vector(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Vector, Fault> {
        Ok(spec.clone())
    }

    fn numbers(&mut self, spec: &VectorSpec) -> Result<<Named as Weights>::Numbers, Fault> {
        Ok(spec.clone())
    }
}
