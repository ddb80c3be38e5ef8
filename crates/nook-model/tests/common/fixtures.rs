//! Where the reference files lie, and small readers for them. Tests that need them are skipped,
//! loudly, where they are not.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use nook_model::{
    Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, Session,
};
use serde_json::Value;

/// The folder `shared/NAME` beside the repository.
pub(crate) fn shared(name: &str, test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    // Past the test harness, which keeps what a passing test prints to itself.
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED (no fixtures): {test}\n").as_bytes(),
    );
    None
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub(crate) fn load(path: &Path, threads: usize) -> LoadedModel {
    let file = ModelFile::open(path).unwrap();
    let part = nook_base::ModelPart::whole(file.shape().layers);
    load_part(&file, &part, threads)
}

/// A whole model, in a precision that is not the one it chooses.
pub(crate) fn load_in(precision: Precision, path: &Path, threads: usize) -> LoadedModel {
    let file = ModelFile::open(path).unwrap();
    let mut model = LoadedModel::new(file, LoadOptions { threads, precision }).unwrap();
    model.hold(&whole(&model)).unwrap();
    model
}

/// A model that holds nothing but `part`.
pub(crate) fn load_part(
    file: &ModelFile,
    part: &nook_base::ModelPart,
    threads: usize,
) -> LoadedModel {
    let options = LoadOptions { threads, precision: Precision::Auto };
    let mut model = LoadedModel::new(file.clone(), options).unwrap();
    model.hold(part).unwrap();
    model
}

pub(crate) fn whole(model: &LoadedModel) -> nook_base::ModelPart {
    nook_base::ModelPart::whole(model.file().shape().layers)
}

pub(crate) fn session(model: &LoadedModel) -> Session {
    model.session(whole(model), model.file().shape().context_length).unwrap()
}

/// Logits of every position of `ids`, from a new session.
pub(crate) fn logits(model: &LoadedModel, ids: &[u32]) -> Vec<f32> {
    let output = session(model).step(model, Input::Tokens(ids), LogitRows::All).unwrap();
    values(output)
}

pub(crate) fn values(output: Output) -> Vec<f32> {
    match output {
        Output::Hidden(values) | Output::Logits { values, .. } => values,
    }
}

/// The greatest of the logits; the first of equal ones.
pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = index;
        }
    }
    best as u32
}

/// The `steps` greatest tokens after `prompt`, one by one.
pub(crate) fn greedy(
    model: &LoadedModel,
    prompt: &[u32],
    steps: usize,
    end: Option<u32>,
) -> Vec<u32> {
    let mut session = session(model);
    let mut next = prompt.to_vec();
    let mut out = Vec::new();
    while out.len() < steps {
        let output = session.step(model, Input::Tokens(&next), LogitRows::Last).unwrap();
        let token = argmax(&values(output));
        out.push(token);
        if Some(token) == end {
            break;
        }
        next = vec![token];
    }
    out
}

pub(crate) fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
