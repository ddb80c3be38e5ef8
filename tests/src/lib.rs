//! End-to-end tests of whole households; see the folder `tests/`. The parts they are made of are in
//! `nook-testkit`.
//!
//! What is here serves the benches of `src/bin`: [`figures`] turns samples into the numbers that are
//! told, [`machine`] says what was measured on and with, [`models`] keeps files of random weights,
//! [`report`] prints and saves.

pub mod figures;
pub mod machine;
pub mod models;
pub mod report;
