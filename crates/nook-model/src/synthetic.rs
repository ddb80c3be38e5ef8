//! Models of any shape and family with random weights, written as GGUF files: for tests and
//! benchmarks.
//!
//! A [`Recipe`] says what to write; [`Family`] knows the keys and tensors of each family, as
//! llama.cpp's converter names and shapes them, so that other engines read the files too. [`Mix`]
//! gives each matrix its format. A file depends on its recipe alone, byte for byte. Weights have
//! the variance of a freshly initialised model (`1 / columns`), so that activations stay sane
//! through many layers. The text they write is noise. The vocabulary is that of a byte-level
//! SentencePiece model: `<unk>`, `<s>`, `</s>`, one token for each byte, then fillers, so any text
//! can be encoded.

mod blocks;
mod cut;
mod families;
mod mix;
mod recipe;
mod tensors;
mod writer;

pub use blocks::{Random, random_row};
pub use cut::cut;
pub use families::Family;
pub use mix::Mix;
pub use recipe::Recipe;
pub use writer::{TensorEntry, header_bytes};
