//! CPU kernels of Inglenook: packed quantised matrices, attention over a block-grown cache, and the
//! small vector functions between them.
//!
//! # One order of operations
//!
//! Every output element is computed in **one fixed order** that depends on nothing but the numbers
//! that go into it: not on how many rows are computed together, how a prompt was cut into chunks,
//! how many threads work, or which instruction set they use. That is what makes a model that is
//! split over several devices give the very bits of the model that is not.
//!
//! - A dot product has 32 accumulators (element `i` goes to accumulator `i % 32`), a separate
//!   multiplication and addition for each element, and one final reduction by halves ([`dot`]).
//! - Each kernel is written once, in plain safe Rust, and compiled three times on x86-64: plain,
//!   AVX2 and AVX-512 ([`isa`]). Rust never contracts `a * b + c` and never reorders floating point,
//!   so the three give equal bits; on other machines the plain version is compiled for what they
//!   have (NEON on aarch64).
//! - Elementary functions are our own ([`elementary`]) or the `libm` crate's, never the platform's.
//!
//! # Where candle comes in
//!
//! [`ops`] wraps the kernels as candle `CustomOp`s, so that a model family is written once, on
//! candle tensors. On the CPU candle then only carries buffers and shapes: its own matrix products
//! change with the number of rows and with the thread count, and are not used.
//!
//! The only `unsafe` code is the call of a function compiled for an instruction set ([`isa`]).

pub mod attention;
pub mod block;
pub mod cache;
pub mod compute;
pub mod dot;
pub mod elementary;
pub mod isa;
pub mod matrix;
pub mod ops;
pub mod rope;
pub mod vector;

pub use block::Format;
pub use cache::LayerCache;
pub use compute::Compute;
pub use isa::Isa;
pub use matrix::{Matrix, MatrixError};
pub use rope::{Rope, RopeTable};
