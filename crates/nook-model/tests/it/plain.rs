//! The forward pass of every family a second time: in double precision, over the whole prompt at
//! once, written from the papers and the publishers' definitions.
//!
//! It shares nothing with the crate but the header reader and the decoding of blocks (both have
//! references of their own), reads its hyperparameters from the metadata itself, and knows nothing
//! of caches, chunks or layer ranges. Speed is no concern. One file for each family or small group
//! of families; [`model`] has the weights and their products, [`rope`], [`attention`] and
//! [`feed_forward`] what several families have in common.

#![allow(dead_code, reason = "each test file uses a part of it")]

mod attention;
mod deepseek2;
mod feed_forward;
mod gemma;
mod gemma3n;
mod gemma4;
mod glm4;
mod gpt_oss;
mod granitehybrid;
mod lfm2;
mod llama;
mod llama4;
mod minicpm3;
mod model;
mod nemotron_h;
mod olmo2;
mod phi3;
mod qwen;
mod qwen35;
mod rope;
mod starcoder2;

use std::path::Path;

pub(crate) use model::{Model, Numerics};

/// One vector for each position.
type Rows = Vec<Vec<f64>>;

/// The logits of every position of `ids`, in the file at `path`.
pub(crate) fn logits(path: &Path, ids: &[u32], numerics: Numerics) -> Vec<f64> {
    let model = Model::read(path, numerics);
    let rows = match model.architecture() {
        "llama" | "minicpm" | "granite" | "granitemoe" | "smollm3" => llama::logits(&model, ids),
        "gpt-oss" => gpt_oss::logits(&model, ids),
        "lfm2moe" => lfm2::logits(&model, ids),
        "granitehybrid" => granitehybrid::logits(&model, ids),
        "nemotron_h_moe" => nemotron_h::logits(&model, ids),
        "llama4" => llama4::logits(&model, ids),
        "qwen2" | "qwen2moe" | "qwen3" | "qwen3moe" => qwen::logits(&model, ids),
        "qwen35" => qwen35::logits(&model, ids),
        "gemma" | "gemma2" | "gemma3" => gemma::logits(&model, ids),
        "gemma3n" => gemma3n::logits(&model, ids),
        "gemma4" => gemma4::logits(&model, ids),
        "phi3" => phi3::logits(&model, ids),
        "starcoder2" => starcoder2::logits(&model, ids),
        "glm4" => glm4::logits(&model, ids),
        "olmo2" => olmo2::logits(&model, ids),
        "deepseek2" => deepseek2::logits(&model, ids),
        "minicpm3" => minicpm3::logits(&model, ids),
        other => panic!("no plain pass for {other}"),
    };
    rows.concat()
}

/// Root of the mean of squares of the difference, over that of `expected`.
pub(crate) fn relative_rms(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let square = |x: f64| x * x;
    let pairs = got.iter().zip(expected);
    let error: f64 = pairs.map(|(got, expected)| square(f64::from(*got) - expected)).sum();
    (error / expected.iter().copied().map(square).sum::<f64>()).sqrt()
}

/// The greatest difference, over the greatest of `expected`.
pub(crate) fn relative_worst(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let pairs = got.iter().zip(expected);
    let worst = pairs.map(|(got, expected)| (f64::from(*got) - expected).abs()).fold(0.0, f64::max);
    worst / expected.iter().fold(0.0f64, |most, x| most.max(x.abs()))
}
