//! The mistakes that the fixtures list, made in the file: metadata or weights are changed so that
//! the engine computes what a mistaken one would compute. The logits must move as far as the
//! reference says that they do, which shows that each constant is read, that it does what the
//! publishers' code does with it, and that the comparison with the references would see it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::Path;

use crate::fixtures::{floats, greatest_difference, ids, json, large, load_in, logits};
use nook_model::Precision;
use nook_model::gguf::{Header, TensorInfo, Value};
use nook_model::synthetic::{TensorEntry, header_bytes};

/// How far the greatest change may be from the one that the fixtures say.
const APART_MAX: f64 = 0.01;

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum Edit {
    /// Another number for a key.
    Number(&'static str, u64),
    Fraction(&'static str, f64),
    Text(&'static str, &'static str),
    Truth(&'static str, bool),
    /// A list of numbers that are all below any other.
    AllMinusInfinity(&'static str),
    /// The key is taken out.
    Without(&'static str),
    /// All numbers of the tensors with this ending are this one.
    Fill(&'static str, f32),
    /// All numbers of the tensors with this ending are multiplied.
    Scale(&'static str, f32),
    /// The norms of query and key heads are taken out.
    WithoutHeadNorms,
    /// The tensors whose names begin so are taken out.
    WithoutTensors(&'static [&'static str]),
}

/// Fixture, mistake as the fixtures call it, and what makes it.
const MISTAKES: [(&str, &str, Edit); 36] = [
    ("gpt_oss", "no sinks", Edit::Fill("attn_sinks.weight", -1e9)),
    ("gpt_oss", "window 17", Edit::Number("attention.sliding_window", 17)),
    ("gpt_oss", "window 15", Edit::Number("attention.sliding_window", 15)),
    ("gpt_oss", "no yarn", Edit::Text("rope.scaling.type", "none")),
    ("gemma3n", "no activation sparsity", Edit::AllMinusInfinity("activation_sparsity_scale")),
    ("gemma3n", "window 15", Edit::Number("attention.sliding_window", 15)),
    ("gemma4", "window 15", Edit::Number("attention.sliding_window", 15)),
    ("gemma4", "no final softcap", Edit::Without("final_logit_softcapping")),
    ("gemma4", "partial rotary 1.0 on full layers", Edit::Fill("rope_freqs.weight", 1.0)),
    ("gemma4", "local theta 1e6", Edit::Fraction("rope.freq_base_swa", 1e6)),
    ("gemma4", "layer_scalar 1", Edit::Fill("layer_output_scale.weight", 1.0)),
    ("gemma4_moe", "per_expert_scale 1", Edit::Fill("ffn_down_exps.scale", 1.0)),
    ("gemma4_moe", "router scale 1", Edit::Fill("ffn_gate_inp.scale", 1.0)),
    ("gemma4_ple", "no per-layer input", Edit::Fill("blk.post_norm.weight", 0.0)),
    ("gemma4_ple", "window 15", Edit::Number("attention.sliding_window", 15)),
    ("qwen35", "full rotary", Edit::Number("rope.dimension_count", 32)),
    ("qwen35", "no dt_bias", Edit::Fill("ssm_dt.bias", 0.0)),
    ("qwen35", "A doubled", Edit::Scale("ssm_a", 2.0)),
    ("qwen35", "theta 1e4", Edit::Fraction("rope.freq_base", 1e4)),
    ("qwen35moe", "no shared expert gate (0.5)", Edit::Fill("ffn_gate_inp_shexp.weight", 0.0)),
    ("lfm2", "theta 1e4", Edit::Fraction("rope.freq_base", 1e4)),
    ("lfm2moe", "no expert bias in selection", Edit::Fill("exp_probs_b.bias", 0.0)),
    ("lfm2moe", "no topk renorm", Edit::Truth("expert_weights_norm", false)),
    ("mistral3", "no temperature scaling", Edit::Without("attention.temperature_scale")),
    ("mistral3", "no yarn", Edit::Text("rope.scaling.type", "none")),
    (
        "mistral3",
        "mscale applied (mscale_all_dim 0)",
        Edit::Without("rope.scaling.yarn_log_multiplier"),
    ),
    ("granitehybrid", "attention multiplier 0.25", Edit::Fraction("attention.scale", 0.25)),
    ("granitehybrid", "residual 1", Edit::Fraction("residual_scale", 1.0)),
    ("granitehybrid", "D = 0", Edit::Fill("ssm_d", 0.0)),
    ("granitehybrid", "no conv bias", Edit::Fill("ssm_conv1d.bias", 0.0)),
    ("glm4moe", "routed scale 1", Edit::Fraction("expert_weights_scale", 1.0)),
    ("glm4moe", "no correction bias", Edit::Fill("exp_probs_b.bias", 0.0)),
    ("nemotron_h", "D = 0", Edit::Fill("ssm_d", 0.0)),
    ("nemotron_h_moe", "routed scale 1", Edit::Fraction("expert_weights_scale", 1.0)),
    ("nemotron_h_moe", "no correction bias", Edit::Fill("exp_probs_b.bias", 0.0)),
    ("glm4moe", "no qk norm", Edit::WithoutHeadNorms),
];

#[test]
fn every_mistake_moves_the_logits_as_far_as_the_reference_says() {
    let Some(folder) = large("mistakes in newer models", "fixtures/tiny") else { return };
    let said = json(&folder.join("sensitivity-second.json"));
    let said = said["mistakes"].as_array().unwrap();
    let work = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for (fixture, mistake, edit) in MISTAKES {
        let row = said.iter().find(|row| row["fixture"] == fixture && row["mistake"] == mistake);
        let expected = row.unwrap()["max_abs_logit_change"].as_f64().unwrap();
        let path = work.path().join("mistaken.gguf");
        let file = folder.join(fixture).join(format!("tiny-{fixture}-f16.gguf"));
        std::fs::write(&path, edited(&file, edit)).unwrap();
        let got = f64::from(change(&folder.join(fixture), &path));
        eprintln!("{fixture}, {mistake}: {got:.5} of {expected:.5}");
        if (got - expected).abs() > APART_MAX {
            failures.push(format!("{fixture}, {mistake}: {got:.5} of {expected:.5}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Some converters write 0 for what a model does not have.
#[test]
fn a_multiplier_of_zero_is_one_that_is_not_there() {
    let Some(folder) = large("multipliers of zero", "fixtures/tiny") else { return };
    let work = tempfile::tempdir().unwrap();
    for (fixture, key) in [
        ("mistral3", "attention.temperature_scale"),
        ("mistral3", "rope.scaling.yarn_log_multiplier"),
        ("granitehybrid", "attention.scale"),
        ("glm4moe", "expert_weights_scale"),
    ] {
        let file = folder.join(fixture).join(format!("tiny-{fixture}-f16.gguf"));
        let changes = [Edit::Fraction(key, 0.0), Edit::Without(key)].map(|edit| {
            let path = work.path().join("edited.gguf");
            std::fs::write(&path, edited(&file, edit)).unwrap();
            change(&folder.join(fixture), &path)
        });
        assert!(changes[0] > 0.1 && changes[0] == changes[1], "{fixture} {key}: {changes:?}");
    }
}

/// Older converters write no cap of the logits and no base of the layers with a window; newer ones
/// may leave out keys and values that no layer reads.
#[test]
fn what_files_of_gemma3n_leave_out_changes_nothing() {
    let Some(folder) = large("what files of Gemma 3n leave out", "fixtures/tiny") else { return };
    let folder = folder.join("gemma3n");
    let work = tempfile::tempdir().unwrap();
    for edit in [
        Edit::Without("final_logit_softcapping"),
        Edit::Without("rope.freq_base_swa"),
        Edit::WithoutTensors(&["blk.5.attn_k", "blk.5.attn_v", "blk.7.attn_v", "blk.7.attn_k"]),
    ] {
        let path = work.path().join("edited.gguf");
        std::fs::write(&path, edited(&folder.join("tiny-gemma3n-f16.gguf"), edit)).unwrap();
        let apart = change(&folder, &path);
        assert!(apart < 1e-3, "{edit:?}: {apart:.5}");
    }
}

/// How far the logits of the model at `path` are from those of the second case of the reference.
fn change(folder: &Path, path: &Path) -> f32 {
    let reference = json(&folder.join("reference.json"));
    let case = &reference["cases"][1];
    let number = |key: &str| case[key].as_u64().unwrap() as usize;
    let all = floats(&folder.join("logits.f32"));
    let got = logits(&load_in(Precision::Full, path, 2), &ids(&case["ids"]));
    let width = case["logits_shape"][1].as_u64().unwrap() as usize;
    let got = &got[number("first_logits_position") * width..];
    greatest_difference(got, &all[number("logits_offset_f32")..][..got.len()])
}

/// The bytes of the file at `path`, edited.
fn edited(path: &Path, edit: Edit) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let header = Header::read(&bytes[..], bytes.len() as u64).unwrap();
    let kept: Vec<&TensorInfo> =
        header.tensors().iter().filter(|tensor| !is_dropped(edit, &tensor.name)).collect();
    let entry = |tensor: &&TensorInfo| TensorEntry {
        name: tensor.name.clone(),
        dimensions: tensor.dimensions.clone(),
        kind: tensor.kind,
    };
    let tensors: Vec<TensorEntry> = kept.iter().map(entry).collect();
    let mut out = header_bytes(3, &metadata(&header, edit), &tensors);
    for tensor in kept {
        let from = tensor.start as usize;
        let mut data = bytes[from..from + tensor.bytes as usize].to_vec();
        change_numbers(edit, tensor, &mut data);
        data.resize(data.len().next_multiple_of(32), 0);
        out.extend(data);
    }
    out
}

fn metadata(header: &Header, edit: Edit) -> Vec<(String, Value)> {
    let architecture = header.required_text("general.architecture").unwrap();
    let (key, value) = match edit {
        Edit::Number(key, number) => (key, Some(Value::Unsigned(number))),
        Edit::Fraction(key, number) => (key, Some(Value::Float(number))),
        Edit::Text(key, text) => (key, Some(Value::Text(text.to_owned()))),
        Edit::Truth(key, truth) => (key, Some(Value::Bool(truth))),
        Edit::AllMinusInfinity(key) => {
            let known = header.value(&format!("{architecture}.{key}"));
            let Some(Value::Floats(list)) = known else { panic!("no list of {key}: {known:?}") };
            (key, Some(Value::Floats(vec![f32::NEG_INFINITY; list.len()])))
        }
        Edit::Without(key) => (key, None),
        Edit::Fill(..) | Edit::Scale(..) => ("", None),
        Edit::WithoutHeadNorms | Edit::WithoutTensors(_) => ("", None),
    };
    let key = format!("{architecture}.{key}");
    let others = header.keys().filter(|known| **known != key);
    let mut all: Vec<_> =
        others.map(|known| (known.to_owned(), header.value(known).unwrap().clone())).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.extend(value.map(|value| (key, value)));
    all
}

fn change_numbers(edit: Edit, tensor: &TensorInfo, data: &mut [u8]) {
    let (name, change): (_, &dyn Fn(f32) -> f32) = match edit {
        Edit::Fill(name, number) => (name, &move |_| number),
        Edit::Scale(name, factor) => (name, &move |number| number * factor),
        _ => return,
    };
    // `blk.` asks for a whole name within the layer.
    let is_meant = match name.strip_prefix("blk.") {
        Some(part) => tensor.name.splitn(3, '.').nth(2) == Some(part),
        None => tensor.name.ends_with(name),
    };
    if is_meant {
        assert_eq!(tensor.kind.name(), "F32", "{}", tensor.name);
        for number in data.as_chunks_mut::<4>().0 {
            *number = change(f32::from_le_bytes(*number)).to_le_bytes();
        }
    }
}

fn is_dropped(edit: Edit, name: &str) -> bool {
    let ends = ["attn_q_norm.weight", "attn_k_norm.weight"];
    match edit {
        Edit::WithoutHeadNorms => ends.iter().any(|end| name.ends_with(end)),
        Edit::WithoutTensors(begins) => begins.iter().any(|begin| name.starts_with(begin)),
        _ => false,
    }
}
