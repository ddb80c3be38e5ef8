//! Which reference files there are, and small readers for them.

use std::path::{Path, PathBuf};

use nook_model::{
    Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, Session,
};
use serde_json::Value;

/// Tiny models (random weights, with the logits of Hugging Face transformers in double precision)
/// whose file in half precision is in the tree.
const TINY: [&str; 13] = [
    "deepseek2",
    "gemma",
    "gemma2",
    "gemma3",
    "glm4",
    "granite",
    "llama3_rope",
    "olmo2",
    "phi3_longrope",
    "qwen2_yarn",
    "qwen3",
    "qwen3moe",
    "starcoder2",
];

/// Those that are among the large files only.
const TINY_LARGE: [&str; 6] = ["llama256", "minicpm", "mistral", "mixtral", "phi3", "qwen2"];

/// Distilled models, which tell stories: one in the tree, and those that are among the large files
/// only.
const DISTILLED: [&str; 1] = ["starcoder2"];
const DISTILLED_LARGE: [&str; 5] = ["gemma2", "gemma3", "phi3", "qwen2", "qwen3"];

/// Greatest difference of a logit from the reference. The fixtures say how far llama.cpp is off: up
/// to 9e-3 where it evaluates GELU through a table of half-precision numbers. Nothing here does.
const APART_MAX: f32 = 1e-4;

/// Newer tiny models, among the large files only, with the greatest difference of a logit: what
/// their README allows. Each mistake that it lists moves logits by a hundred times that at least.
const NEWER: [(&str, f32); 24] = [
    ("gemma3n", 1e-3),
    ("gemma4", 1e-3),
    ("gemma4_moe", 1e-3),
    ("gemma4_ple", 1e-3),
    ("glm4moe", 1e-3),
    ("glm4moe_mtp", 1e-3),
    ("gpt_oss", 1e-3),
    ("granitehybrid", 1e-3),
    ("granitemoe", 1e-3),
    ("lfm2", 1e-3),
    ("lfm2moe", 1e-3),
    ("llama4", 1e-3),
    ("minicpm3", 1e-3),
    ("mistral3", 1e-3),
    ("nemotron_h", 1e-3),
    ("nemotron_h_moe", 1e-3),
    ("qwen2moe", 1e-3),
    ("qwen35", 1e-2),
    ("qwen35_mtp", 1e-2),
    ("qwen35moe", 1e-2),
    ("qwen35moe_mtp", 1e-2),
    ("qwen3next", 1e-2),
    ("qwen3vl", 1e-3),
    ("smollm3", 1e-3),
];

/// A model file, and what is known of its model.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) folder: PathBuf,
    /// The logits of all cases of the reference.
    pub(crate) logits: PathBuf,
    /// Greatest difference from them.
    pub(crate) apart_max: f32,
}

impl Known {
    fn new(folder: PathBuf, file: &str, logits: &str, apart_max: f32) -> Self {
        Self {
            name: file.trim_start_matches("tiny-").trim_end_matches(".gguf").to_owned(),
            file: folder.join(file),
            logits: folder.join(logits),
            folder,
            apart_max,
        }
    }
}

/// A file or folder among the large fixtures.
pub(crate) use crate::places::large_fixture as large;

/// A file or folder of the fixtures in the tree.
pub(crate) use crate::places::fixture as carried;

/// Every file of every tiny model: in the tree those in half precision of [`TINY`], and all others
/// where the large fixtures are.
pub(crate) fn tiny_models(test: &str) -> Vec<Known> {
    let known = |folder, file: &str| Known::new(folder, file, "logits.f32", APART_MAX);
    let in_tree =
        TINY.map(|name| known(carried(&format!("tiny/{name}")), &format!("tiny-{name}-f16.gguf")));
    let mut all = Vec::from(in_tree);
    let Some(large) = large(test, "fixtures/tiny") else {
        return all;
    };
    for name in TINY.iter().chain(&TINY_LARGE) {
        let folder = large.join(name);
        let reference = json(&folder.join("reference.json"));
        for file in reference["files"].as_object().unwrap().keys() {
            let is_in_tree = TINY.contains(name) && *file == format!("tiny-{name}-f16.gguf");
            all.extend((!is_in_tree).then(|| known(folder.clone(), file)));
        }
    }
    assert_eq!(all.len(), 39);
    all
}

/// Every file of every newer tiny model, where the large fixtures are.
pub(crate) fn newer_models(test: &str) -> Vec<Known> {
    let Some(large) = large(test, "fixtures/tiny") else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for (name, apart_max) in NEWER {
        let folder = large.join(name);
        let reference = json(&folder.join("reference.json"));
        let files = reference["files"].as_object().unwrap().keys();
        for file in files.filter(|file| file.starts_with("tiny-") && file.ends_with(".gguf")) {
            // Quantised weights have logits of their own.
            let quantised = reference["quantised"].as_object().into_iter().flatten();
            let own = quantised.map(|(_, facts)| facts).find(|facts| facts["file"] == **file);
            let said = own.map_or("logits.f32", |facts| facts["logits"].as_str().unwrap());
            let logits = said.split_whitespace().next().unwrap();
            all.push(Known::new(folder.clone(), file, logits, apart_max));
        }
    }
    assert_eq!(all.len(), 38);
    all
}

/// Every distilled model: its name and folder.
pub(crate) fn distilled_models(test: &str) -> Vec<(String, PathBuf)> {
    let in_tree = DISTILLED.map(|name| (name.to_owned(), carried(&format!("distilled/{name}"))));
    let mut all = Vec::from(in_tree);
    if let Some(large) = large(test, "fixtures/distilled") {
        all.extend(DISTILLED_LARGE.map(|name| (name.to_owned(), large.join(name))));
    }
    all
}

/// The quantised files of one model with their reference: one in the tree, or all where the large
/// fixtures are. Each entry is its kind and what the reference says of it.
pub(crate) struct Quantised {
    pub(crate) folder: PathBuf,
    pub(crate) prompt: Vec<u32>,
    pub(crate) kinds: Vec<(String, Value)>,
    logits: Vec<f32>,
}

impl Quantised {
    pub(crate) fn find(test: &str) -> Self {
        let large = large(test, "fixtures/quant");
        let count = if large.is_some() { 14 } else { 1 };
        let folder = large.unwrap_or_else(|| carried("quant"));
        let reference = json(&folder.join("llama256-reference.json"));
        let kinds = reference["models"].as_object().unwrap();
        assert_eq!(kinds.len(), count);
        Self {
            prompt: ids(&reference["ids"]),
            kinds: kinds.iter().map(|(kind, facts)| (kind.clone(), facts.clone())).collect(),
            logits: floats(&folder.join("llama256-logits.f32")),
            folder,
        }
    }

    /// The model file that `facts` are about.
    pub(crate) fn file(&self, facts: &Value) -> PathBuf {
        self.folder.join(facts["file"].as_str().unwrap())
    }

    /// The logits of all positions of the prompt, from the decoded weights.
    pub(crate) fn logits(&self, facts: &Value) -> &[f32] {
        let from = facts["logits_offset_f32"].as_u64().unwrap() as usize;
        let shape = ids(&facts["logits_shape"]);
        &self.logits[from..from + (shape[0] * shape[1]) as usize]
    }
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // Python writes numbers that JSON does not have.
    let text = text.replace("-Infinity", "null").replace("Infinity", "null");
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
