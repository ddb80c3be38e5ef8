//! What the walk through other machines costs on this one: the measuring behind the benches of the
//! walk and of the pipeline, which differ in what they print.
//!
//! - [`hop`]: what a decode step costs on the whole real path beyond its computing, and on pieces
//!   of it;
//! - [`split`]: a divided model against the undivided one, arms interleaved;
//! - [`kill`]: from the loss of a helper in the middle of a reply to the next token.
//!
//! The nodes are processes of the program that `NOOK_BIN` names; the requester of [`hop`] lives in
//! this process, so that it sees both clocks. [`asking`] follows replies, [`steps`] walks one call.

pub mod asking;
pub mod hop;
pub mod kill;
mod pieces;
mod requester;
pub mod split;
pub mod steps;
