//! Models: GGUF files, families of transformer blocks over layer ranges, sessions with their caches.
//!
//! - [`ModelFile`] is the validated header of one GGUF file ([`gguf`]). Its architecture chooses a
//!   family ([`family`]), which checks hyperparameters and the exact shape of every tensor.
//! - [`LoadedModel`] holds weights: layers one by one, the embedding and the head apart, so that any
//!   part of a model loads alone. It owns the threads that compute.
//! - [`Session`] is one mutable timeline: the caches of one part of the model. A step takes token
//!   ids or hidden states in and gives hidden states or logits out.
//!
//! A family is one file over the shared [`parts`]. Blocks are written on candle tensors and call the
//! kernels of `nook-kernels`, which wrap themselves as candle operations; on the CPU, every result is
//! the same bit for bit however a model is cut, a prompt is chunked, and however many threads work.
//! With the features `cuda` and `metal`, candle is built with its own kernels for those devices; this
//! crate does not place anything there yet.
//!
//! No token ids, hidden states or logits appear in `Debug` output, errors or logs.

pub mod digest;
pub mod error;
mod family;
pub mod file;
pub mod gguf;
pub mod loaded;
mod parts;
mod reader;
pub mod session;
pub mod shape;
#[cfg(feature = "synthetic")]
pub mod synthetic;
mod weights;

pub use error::{Fault, ModelError};
pub use file::ModelFile;
pub use loaded::{LoadOptions, LoadedModel};
pub use session::{Input, LogitRows, Output, Session, StepError};
pub use shape::ModelShape;
