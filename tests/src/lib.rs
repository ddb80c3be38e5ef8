//! End-to-end tests of whole households; see the folder `tests/`. The parts they are made of are in
//! `nook-testkit`.
//!
//! What is here serves the benches of `src/bin`: [`figures`] turns samples into the numbers that
//! are told, [`machine`] says what was measured on and with, [`models`] keeps files of random
//! weights, [`report`] prints and saves, [`resident`] reads memory in use, [`fidelity`] compares
//! formats of activations. With the feature `walk`, `program` is how a bench of the whole product
//! begins and ends, and `walk` what two of them measure.

pub mod fidelity;
pub mod figures;
pub mod machine;
pub mod models;
#[cfg(feature = "walk")]
pub mod program;
pub mod report;
pub mod resident;
#[cfg(feature = "walk")]
pub mod walk;
