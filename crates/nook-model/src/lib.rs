//! Models: GGUF files, families of transformer blocks over layer ranges, sessions with their
//! caches.
//!
//! - [`ModelFile`] is the validated header of one GGUF file ([`gguf`]). Its architecture chooses a
//!   family ([`family`]), which checks hyperparameters and the exact shape of every tensor.
//! - [`LoadedModel`] holds weights: layers one by one, the embedding and the head apart, so that
//!   any part of a model loads alone. It owns the threads that compute.
//! - [`Session`] is one mutable timeline: the caches of one part of the model. A step takes token
//!   ids or hidden states in and gives hidden states or logits out.
//!
//! A file may hold only some tensors of its model ([`presence`]): each was checked by itself
//! against the model's [`Manifest`], and what has not arrived is never read.
//!
//! A family is one file that turns metadata into a description made of the shared [`parts`]; the
//! forward pass ([`loaded`]) is written once, on plain slices and the kernels of `nook-kernels`.
//! Every result is the same bit for bit however a model is cut, a prompt is chunked, sessions are
//! batched, and however many threads work. Over the same descriptions there are two more passes,
//! whose results agree within rounding: on the GPUs of every vendor (`gpu`), and through candle on
//! the CPU and, behind the features `cuda` and `metal`, on cards (`card`). [`Device`] chooses.
//!
//! No token ids, hidden states or logits appear in `Debug` output, errors or logs.

pub mod device;
pub mod digest;
pub mod error;
mod family;
pub mod file;
pub mod gguf;
mod hashing;
mod inventory;
pub mod loaded;
pub mod manifest;
mod parts;
pub mod presence;
mod reader;
pub mod reading;
pub mod shape;
#[cfg(feature = "synthetic")]
pub mod synthetic;
mod weights;

pub use device::Device;
pub use error::{Fault, ManifestError, ModelError, PresenceError};
pub use family::Architecture;
pub use file::{ModelFile, TensorRange};
pub use loaded::handover::{HandoverError, LayerExport};
pub use loaded::pass::{BatchError, BatchPiece};
pub use loaded::session::{Input, Output, ResumeError, Session, StepError, TruncateError};
pub use loaded::{LoadOptions, LoadedModel, Precision};
pub use manifest::{Manifest, TensorCheck};
pub use nook_base::LogitRows;
pub use nook_gpu;
pub use nook_kernels::heap;
pub use presence::Presence;
pub use shape::ModelShape;
