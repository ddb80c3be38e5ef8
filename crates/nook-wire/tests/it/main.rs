//! The codec: its bytes, its limits, and what it cannot say.

mod golden;
mod properties;
mod refusals;
mod vocabulary;
