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
mod nemotron_h;
mod predicting;
mod qwen3next;
mod remade;
mod rope;
mod routing;
mod scales;

use nook_kernels::Format;
use nook_model::gguf::Value;
use nook_model::synthetic::{Family, Recipe};
use nook_model::{Fault, ModelFile, Precision};

use crate::card::on_card;
use crate::executors::{self, CHUNKS, on_cpu, relative, run, whole};
use crate::families::{bits, prompt};
use crate::fixtures::{load_in, logits};
use crate::gpu::{gpu, on_gpu};
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

/// The logits of `file` on candle, and on a GPU where there is one, are those of the CPU.
fn assert_same_on_every_executor(file: &Remade, what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&file.write_in(folder.path())).unwrap();
    let (prompt, part) = (executors::prompt(1), whole(&file));
    let expected = on_cpu(&file, &prompt, Precision::Full);
    let card = on_card(&file, Precision::Full, &part);
    let far = relative(&run(&card, &[2], &prompt, &CHUNKS), &expected);
    assert!(far < executors::TOLERANCE, "{what}, candle: {far:.1e}");
    let Some(gpu) = gpu(what) else { return };
    let model = on_gpu(&gpu, &file, Precision::Full, &part);
    let far = relative(&run(&model, &[2], &prompt, &CHUNKS), &expected);
    assert!(far < executors::TOLERANCE, "{what}, a GPU: {far:.1e}");
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
