//! Memory that the parts of a pass use again and again.

use nook_kernels::Scratch;

/// Memory that parts use again and again. It grows to the largest step and stays.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    pub(crate) scratch: Scratch,
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
    pub(crate) mixed: Vec<f32>,
    pub(crate) gate: Vec<f32>,
    pub(crate) up: Vec<f32>,
    pub(crate) spare: Vec<f32>,
    pub(crate) latent: Vec<f32>,
    /// Of parts that are made of parts.
    pub(crate) branches: [Vec<f32>; 3],
    pub(crate) experts: Gathered,
}

/// Buffers of mixtures.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(super) scores: Vec<f32>,
    /// By expert, then by row.
    pub(super) choices: Vec<Choice>,
    /// Of one row: number, and what it is chosen by.
    pub(super) ranking: Vec<(usize, f32)>,
    pub(super) input: Vec<f32>,
    pub(super) output: Vec<f32>,
}

/// One row's choice of one expert.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choice {
    pub(crate) expert: usize,
    pub(crate) row: usize,
    pub(crate) weight: f32,
}

/// The first `length` numbers of `buffer`, which grows if it must. What they are is left over.
pub(crate) fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
