//! The plain pass itself against the publishers' reference implementations, before anything is held
//! against it: Hugging Face transformers in double precision, on every family that has fixtures.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::Path;

use crate::fixtures::{Known, floats, ids, json, newer_models, tiny_models};
use crate::plain::{self, Numerics};

/// The reference rounds norms and the angles of rope to single precision, and its logits are stored
/// in it. Errors of angles grow with the position: at 560 they make 2e-4 (3e-5 when the plain pass
/// rounds its angles too).
fn tolerance(positions: usize) -> f64 {
    2e-5 * (positions as f64 / 40.0).max(1.0)
}

#[test]
fn the_plain_pass_reproduces_the_publishers_implementations() {
    let mut worse = Vec::new();
    for Known { name, file, folder, .. } in tiny_models("the plain pass against transformers") {
        let reference = json(&folder.join("reference.json"));
        let all = floats(&folder.join("logits.f32"));
        for (positions, worst) in cases(&file, &reference, &all) {
            eprintln!("{name}, {positions} positions: {worst:.1e}");
            if worst > tolerance(positions) {
                worse.push(format!("{name}, {positions} positions: {worst:.1e}"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}

/// Those of the newer models that have a plain pass, and are not held to it by older fixtures.
#[test]
fn the_plain_pass_reproduces_newer_implementations() {
    let names = [
        "gemma3n",
        "gemma4",
        "gemma4_ple",
        "gpt_oss",
        "granitehybrid",
        "lfm2moe",
        "llama4",
        "minicpm3",
        "qwen35",
        "smollm3",
    ];
    let is_meant =
        |known: &Known| known.name.strip_suffix("-f16").is_some_and(|name| names.contains(&name));
    let models = newer_models("the plain pass against newer implementations").into_iter();
    let mut worse = Vec::new();
    for Known { name, file, folder, logits, apart_max } in models.filter(is_meant) {
        let reference = json(&folder.join("reference.json"));
        for (positions, worst) in cases(&file, &reference, &floats(&logits)) {
            eprintln!("{name}, {positions} positions: {worst:.1e}");
            if worst > f64::from(apart_max) {
                worse.push(format!("{name}, {positions} positions: {worst:.1e}"));
            }
        }
    }
    assert!(worse.is_empty(), "{worse:?}");
}

/// Positions and the greatest difference of any logit, of each case.
fn cases(file: &Path, reference: &serde_json::Value, all: &[f32]) -> Vec<(usize, f64)> {
    let case = |case: &serde_json::Value| {
        let ids = ids(&case["ids"]);
        let number = |key: &str| case[key].as_u64().unwrap() as usize;
        let (first, from) = (number("first_logits_position"), number("logits_offset_f32"));
        // Transformers choose long rope's factors by the length of the sequence.
        let got = plain::logits(file, &ids, Numerics::exact(ids.len()));
        let width = got.len() / ids.len();
        let got = &got[first * width..];
        let pairs = got.iter().zip(&all[from..from + got.len()]);
        let worst = pairs.map(|(got, x)| (got - f64::from(*x)).abs()).fold(0.0, f64::max);
        (ids.len(), worst)
    };
    reference["cases"].as_array().unwrap().iter().map(case).collect()
}
