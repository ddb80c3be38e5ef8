//! Forms of files beside those that the synthetic recipes write: what llama.cpp reads, and what its
//! converter or an older one leaves out, puts in or lays out in another way.
//!
//! Each test takes a model of a known form and makes the same model in another form: then the
//! logits are the same, bit by bit. Where the other form is another model, the plain pass says what
//! it computes.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

mod biases;
mod experts;
mod gemma3;
mod granite;
mod predicting;
mod qwen3next;
mod remade;
mod rope;
mod routing;

use nook_kernels::Format;
use nook_model::gguf::Value;
use nook_model::synthetic::{Family, Recipe};
use nook_model::{Fault, ModelFile, Precision};

use crate::families::{bits, prompt};
use crate::fixtures::{load_in, logits};
use crate::plain::{self, Numerics, relative_worst};
use remade::Remade;

/// Greatest difference from the plain pass, over the greatest logit: as for the families.
const TOLERANCE: f64 = 1e-4;

/// Least difference, over the greatest logit, of two models that are not the same.
const APART: f64 = 10.0 * TOLERANCE;

/// The tiny model of `family`.
fn tiny(family: Family) -> Remade {
    Remade::of(&Recipe::of(family, Format::F32, 1))
}

fn number(number: u64) -> Value {
    Value::Unsigned(number)
}

/// The logits of a prompt.
fn computed(file: &Remade) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    logits(&load_in(Precision::Full, &file.write_in(folder.path()), 1), &prompt(1))
}

/// How far the logits of a prompt are from those of the plain pass.
fn off(file: &Remade) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = file.write_in(folder.path());
    let got = logits(&load_in(Precision::Full, &path, 1), &prompt(1));
    relative_worst(&got, &plain::logits(&path, &prompt(1), Numerics::exact(512)))
}

/// How far the logits of `file` are from those of `other`, over the greatest.
fn apart(file: &Remade, other: &Remade) -> f64 {
    let other: Vec<f64> = computed(other).into_iter().map(f64::from).collect();
    relative_worst(&computed(file), &other)
}

/// Both are the same model.
fn assert_same(file: &Remade, other: &Remade, what: &str) {
    assert_eq!(bits(&computed(file)), bits(&computed(other)), "{what}");
}

/// Why a file does not open.
fn fault(file: &Remade) -> Fault {
    let folder = tempfile::tempdir().unwrap();
    ModelFile::open(&file.write_in(folder.path())).map(|_| ()).unwrap_err().fault
}
