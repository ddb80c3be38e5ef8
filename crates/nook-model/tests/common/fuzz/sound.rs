//! The files that are damaged: small synthetic models of several formats, and the edge files.

use nook_kernels::Format;
use nook_model::gguf::Value;
use nook_model::synthetic::{Recipe, TensorEntry, header_bytes};

#[path = "../../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod fixtures;

/// A file before it is damaged.
pub(super) struct Sound {
    /// The parts of its header; `None` of an edge file.
    pub(super) parts: Option<Parts>,
    /// Its header; of an edge file all of it.
    pub(super) header: Vec<u8>,
    /// What follows the header.
    pub(super) data: Vec<u8>,
}

/// What a header is made from.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) version: u32,
    pub(super) metadata: Vec<(String, Value)>,
    pub(super) tensors: Vec<TensorEntry>,
}

impl Parts {
    pub(super) fn bytes(&self) -> Vec<u8> {
        header_bytes(self.version, &self.metadata, &self.tensors)
    }
}

/// Every byte of the weights. In each format it makes numbers that are finite and not large,
/// wherever a tensor begins, so logits that are no numbers are never the weights' fault.
const WEIGHT_BYTE: u8 = 0x3c;

pub(super) fn all() -> Vec<Sound> {
    let mut all = Vec::new();
    for (index, format) in
        [Format::F32, Format::F16, Format::Bf16, Format::Q4_0, Format::Q8_0, Format::Iq4Nl]
            .into_iter()
            .enumerate()
    {
        let recipe = Recipe {
            layers: 1 + index as u32 % 2,
            vocabulary: 6,
            tied_output: index % 2 == 0,
            rope_factors: index % 3 == 0,
            ..Recipe::tiny(format, 1)
        };
        let parts = Parts {
            version: 2 + index as u32 % 2,
            metadata: recipe.metadata(),
            tensors: recipe.tensors(),
        };
        all.push(Sound {
            header: parts.bytes(),
            data: vec![WEIGHT_BYTE; data_bytes(&parts.tensors)],
            parts: Some(parts),
        });
    }
    all.extend(edge_files());
    all
}

/// Bytes of the tensors with their padding.
fn data_bytes(tensors: &[TensorEntry]) -> usize {
    let one = |tensor: &TensorEntry| {
        let rows = tensor.dimensions[1..].iter().product();
        tensor.kind.bytes(tensor.dimensions[0], rows).unwrap().next_multiple_of(32)
    };
    tensors.iter().map(one).sum::<u64>() as usize
}

/// The edge files, in the order of their names.
fn edge_files() -> Vec<Sound> {
    let files = fixtures::fixture("edge").read_dir().unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    paths.sort();
    let sound =
        |path| Sound { parts: None, header: std::fs::read(path).unwrap(), data: Vec::new() };
    paths.iter().map(sound).collect()
}
