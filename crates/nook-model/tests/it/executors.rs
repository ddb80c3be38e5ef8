//! What the tests of all executors but the CPU's share: models, prompts, and the CPU's answers.
//!
//! Both compute in single precision and sum in different orders, so they differ by rounding: about
//! 1e-6 of the logits, 4e-6 in models of sixty layers and 1e-5 in delta nets, which is what they
//! differ from double precision, too.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::path::{Path, PathBuf};

use crate::fixtures::values;
use nook_base::{LayerRange, ModelPart};
use nook_kernels::Format;
use nook_model::synthetic::{Family, Recipe};
use nook_model::{Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision, Session};

/// Greatest difference from the CPU, as root mean square over that of the logits.
pub(crate) const TOLERANCE: f64 = 3e-5;

/// Positions of a prompt: more than the windows.
pub(crate) const PROMPT: usize = 70;

/// Chunks that prompts are fed in: decode steps and odd lengths.
pub(crate) const CHUNKS: [usize; 6] = [1, 3, 17, 1, 1, 40];

/// A model in single precision. The second seed of each family turns round whether the output is
/// tied, and gives Llama its frequency factors.
pub(crate) fn write(folder: &Path, family: Family, seed: u64) -> PathBuf {
    let usual = Recipe::of(family, Format::F32, seed);
    let recipe = match seed % 2 {
        0 => Recipe { tied_output: !usual.tied_output, rope_factors: true, ..usual },
        _ => usual,
    };
    let path = folder.join(format!("{family:?}-{seed}.gguf"));
    recipe.write(&path).unwrap();
    path
}

pub(crate) fn prompt(seed: u64) -> Vec<u32> {
    (0..PROMPT as u64).map(|i| ((i * 7919 + seed * 104_729) % 272) as u32).collect()
}

pub(crate) fn whole(file: &ModelFile) -> ModelPart {
    ModelPart::whole(file.shape().layers)
}

pub(crate) fn cpu(file: &ModelFile, precision: Precision) -> LoadedModel {
    let mut model = LoadedModel::new(file.clone(), LoadOptions { threads: 1, precision }).unwrap();
    model.hold(&whole(file)).unwrap();
    model
}

/// All logits of `prompt` from the CPU.
pub(crate) fn on_cpu(file: &ModelFile, prompt: &[u32], precision: Precision) -> Vec<f32> {
    let model = cpu(file, precision);
    let mut session = model.session(whole(file), file.shape().context_length).unwrap();
    values(session.step(&model, Input::Tokens(prompt), LogitRows::All).unwrap())
}

/// The parts between `cuts`.
pub(crate) fn parts(file: &ModelFile, cuts: &[u32]) -> Vec<ModelPart> {
    let layers = file.shape().layers;
    let edges: Vec<u32> = [0].iter().chain(cuts).chain([&layers]).copied().collect();
    let last = edges.len() - 2;
    let part = |(index, pair): (usize, &[u32])| ModelPart {
        layers: LayerRange::new(pair[0], pair[1]).unwrap(),
        embedding: index == 0,
        head: index == last,
    };
    edges.windows(2).enumerate().map(part).collect()
}

/// All logits of `prompt`, cut at `cuts`, fed in chunks of these lengths, over and over.
pub(crate) fn run(model: &LoadedModel, cuts: &[u32], prompt: &[u32], chunks: &[usize]) -> Vec<f32> {
    let window = model.file().shape().context_length;
    let session = |part| model.session(part, window).unwrap();
    let mut sessions: Vec<Session> = parts(model.file(), cuts).into_iter().map(session).collect();
    let mut out = Vec::new();
    let mut rest = prompt;
    for length in chunks.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*length).min(rest.len()));
        let mut carried = Vec::new();
        for (index, session) in sessions.iter_mut().enumerate() {
            let input = if index == 0 { Input::Tokens(chunk) } else { Input::Hidden(&carried) };
            carried = values(session.step(model, input, LogitRows::All).unwrap());
        }
        out.extend(carried);
        rest = after;
    }
    out
}

/// Root mean square of the differences, over that of what is expected; infinite where something is
/// not a number.
pub(crate) fn relative(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
    let apart = got.iter().zip(expected).map(|(a, b)| f64::from(*a) - f64::from(*b));
    let size = expected.iter().map(|x| f64::from(*x));
    let off = (squares(&mut { apart }) / squares(&mut { size })).sqrt();
    if off.is_nan() { f64::INFINITY } else { off }
}
