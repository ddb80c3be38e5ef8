//! Models on every vendor's GPU: weights, kernels and caches over Vulkan, DX12 and Metal.
//!
//! - [`adapters`] lists what there is; [`Gpu::open`] opens one, with a memory budget that refuses
//!   by figure before anything is uploaded.
//! - [`Matrix`] holds weights in pieces that a device can bind, [`Buffer`] numbers, [`Cache`] keys
//!   and values.
//! - [`Commands`] records what is to be computed and submits it at once. Products, norms, rotary
//!   positions, attention and the functions between them are its methods.
//!
//! Quantised weights are multiplied with activations in bytes, rounded exactly as `nook-kernels`
//! rounds them, so a layer gives nearly the same numbers on a GPU as on a CPU: the rounding, which
//! is a thousand times the difference in the order of sums, is the same. [`KernelSet::Exact`] gives
//! the very bits and is the oracle of the others.
//!
//! Kernels are WGSL, written out for one shape each and built when first used. Formats are
//! those of `nook_kernels::Format`: one definition of what a file holds.
//!
//! wgpu is known to this crate alone. Drivers are looked for when they are asked for: a program
//! that never asks needs none, and none that is missing is an error until a GPU is named.

mod adapter;
mod attention;
mod buffer;
mod commands;
mod convolution;
mod delta;
mod device;
mod error;
mod kernel;
mod layout;
mod ledger;
mod mamba;
mod matrix;
mod product;
mod rows;
mod streams;
mod template;
mod vector;

pub use adapter::{AdapterInfo, AdapterKind, Choice, adapters};
pub use attention::{Attend, Cache, CacheShape, Reach, spare_numbers};
pub use buffer::Buffer;
pub use commands::Commands;
pub use convolution::Convolution;
pub use delta::{DeltaInput, DeltaShape};
pub use device::{Gpu, KernelSet, OpenOptions};
pub use error::GpuError;
pub use mamba::{MambaInput, MambaShape};
pub use matrix::Matrix;
pub use product::Quantised;
pub use rows::Columns;
pub use streams::{ByMean, Mixing, Streams};
pub use vector::{Each, Norm, Turn};

#[cfg(test)]
mod translation;
