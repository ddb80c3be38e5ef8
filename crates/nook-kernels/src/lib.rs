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
//! - A product with quantised weights takes quantised activations: integers are summed exactly in
//!   each block, and the blocks added one after another in f32 ([`matrix`]).
//! - A product with plain weights has 32 accumulators (element `i` goes to accumulator `i % 32`),
//!   and one final reduction by halves ([`dot`]).
//! - Attention is tiled at absolute positions, whatever the step ([`attention`]).
//! - Multiplication and addition are always two operations, rounded each: fused ones would be
//!   faster on few processors only, and a build without them could not give the same bits.
//! - Elementary functions are our own ([`elementary`]) or the `libm` crate's, never the platform's.
//!
//! # Instruction sets
//!
//! An [`Isa`] is chosen when the program runs. Most kernels are plain safe Rust that is compiled
//! once for each ([`isa`]): Rust never contracts `a * b + c` and never reorders floating point, so
//! all give equal bits. Where the compiler does badly, kernels are written over a small set of
//! vector operations with an implementation for each (`simd` for products of bytes,
//! `attention::lanes`). Either way the plain one is the oracle of the others, and tests compare
//! every bit.
//!
//! `unsafe` code is of five kinds: code for an instruction set (each call guarded by an [`Isa`],
//! which is proof that the processor has it), threads writing disjoint parts of one output
//! (`shared`), the lending of work to threads (`pool`), buffers that are parts of one mapping
//! (`buffer`), and one function of the C library ([`heap`]).

mod activations;
pub mod attention;
pub mod block;
mod buffer;
pub mod cache;
pub mod compute;
pub mod dot;
pub mod elementary;
pub mod heap;
pub mod isa;
pub mod matrix;
mod packed;
mod pool;
pub mod rope;
mod shared;
mod simd;
pub mod vector;

pub use attention::{Heads, Piece, attend};
pub use block::Format;
pub use buffer::Room;
pub use cache::{CacheKind, CacheShape, LayerCache};
pub use compute::Compute;
pub use isa::Isa;
pub use matrix::{Arithmetic, Layout, Matrix, MatrixError, Product, Scratch, multiply};
pub use rope::{Rope, RopeLayout, RopeScaling, RopeTable, rotate};
