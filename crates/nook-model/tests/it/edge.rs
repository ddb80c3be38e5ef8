//! Malformed files: every one is refused with a reason, or loads and computes; none panics.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::io::Write;
use std::path::Path;

use crate::fixtures::{carried, json, session, values, whole};
use nook_kernels::Format;
use nook_model::gguf::{Header, Value};
use nook_model::synthetic::{Recipe, TensorEntry, header_bytes};
use nook_model::{
    Fault, Input, LoadOptions, LoadedModel, LogitRows, ModelError, ModelFile, Precision,
};

/// What the manifest asks of `ok-*` and `bad-*` files is asked of the header reader, of `model-*`
/// files of opening, loading and one step.
#[test]
fn every_edge_file_has_the_outcome_that_its_manifest_demands() {
    let folder = carried("edge");
    let manifest = json(&folder.join("manifest.json"));
    let cases = manifest["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 68);
    for (name, case) in cases {
        let path = folder.join(case["file"].as_str().unwrap());
        let outcome = if name.starts_with("model-") {
            load_and_step(&path).map_err(|error| error.fault)
        } else {
            read_header(&path)
        };
        match case["expect"].as_str().unwrap() {
            "accept" => assert_eq!(outcome, Ok(()), "{name}: {}", case["what"]),
            "reject" => assert!(outcome.is_err(), "{name} got through: {}", case["what"]),
            _ => {}
        }
        // What the header reader lets through must not panic later either.
        let _ = load_and_step(&path);
    }
}

#[test]
fn a_wrong_file_is_refused_by_name() {
    let folder = carried("edge");
    let fault = |name: &str| {
        let path = folder.join(format!("{name}.gguf"));
        ModelFile::open(&path).map(|_| ()).unwrap_err()
    };
    let unknown = fault("model-unknown-arch");
    assert!(unknown.to_string().contains("not supported: "), "{unknown}");
    assert!(unknown.to_string().contains("model-unknown-arch.gguf"), "{unknown}");
    let missing = fault("model-missing-tensor").fault;
    assert!(matches!(&missing, Fault::MissingTensor { tensor } if tensor.starts_with("blk.0.")));
    let shape = fault("model-wrong-shape").fault;
    assert!(matches!(&shape, Fault::TensorShape { tensor, .. } if tensor.contains("attn_k")));
    let hparam = fault("model-missing-hparam").fault;
    let key = "llama.embedding_length".to_owned();
    assert_eq!(hparam, Fault::MissingKey { key });
    for (name, key) in [
        ("model-block-count-huge", "llama.block_count"),
        ("model-head-count-0", "llama.attention.head_count"),
        ("model-head-not-dividing", "llama.attention.head_count"),
        ("model-rope-dim-odd", "llama.rope.dimension_count"),
        ("model-eps-nan", "llama.attention.layer_norm_rms_epsilon"),
        ("model-context-huge", "llama.context_length"),
        ("model-scores-short", "tokenizer.ggml.scores"),
        ("model-vocab-mismatch", "tokenizer.ggml.tokens"),
    ] {
        let fault = fault(name).fault;
        assert!(matches!(&fault, Fault::BadValue { key: k, .. } if k == key), "{name}: {fault}");
    }
}

/// A tensor that no layer reads, an expert model, an unknown rope scaling: refused, never guessed.
#[test]
fn what_would_be_ignored_is_refused() {
    let recipe = Recipe::tiny(Format::F16, 1);
    let changed = |metadata: &[(&str, Value)], extra: &[TensorEntry]| {
        let mut all = recipe.metadata();
        for (key, value) in metadata {
            all.retain(|(known, _)| known != key);
            all.push(((*key).to_owned(), value.clone()));
        }
        let mut tensors = recipe.tensors();
        tensors.extend_from_slice(extra);
        let mut bytes = header_bytes(3, &all, &tensors);
        bytes.resize(bytes.len() + (1 << 20), 0);
        open_bytes(&bytes).err().map(|error| error.fault)
    };
    assert_eq!(changed(&[], &[]), None);
    let extra = TensorEntry::new("blk.0.attn_sinks.weight", &[4], Format::F32);
    let tensor = extra.name.clone();
    assert_eq!(changed(&[], &[extra]), Some(Fault::UnreadTensor { tensor }));
    // Experts that are said to be there, and are not.
    let experts = [
        ("llama.expert_count", Value::Unsigned(8)),
        ("llama.expert_used_count", Value::Unsigned(2)),
    ];
    let tensor = "blk.0.ffn_gate_inp.weight".to_owned();
    assert_eq!(changed(&experts, &[]), Some(Fault::MissingTensor { tensor }));
    for (key, value) in [
        ("llama.expert_count", Value::Unsigned(100_000)),
        ("llama.rope.scaling.type", Value::Text("su".to_owned())),
        ("llama.attention.sliding_window", Value::Text("4096".to_owned())),
        ("llama.rope.freq_base", Value::Float(f64::NAN)),
        ("llama.attention.value_length", Value::Unsigned(8)),
        ("llama.vocab_size", Value::Unsigned(271)),
    ] {
        let fault = changed(&[(key, value)], &[]);
        assert!(matches!(&fault, Some(Fault::BadValue { key: k, .. }) if k == key), "{fault:?}");
    }
}

/// The shared expert's gate of some files is `[48, 1]`, that of others `[48]`.
#[test]
fn ones_at_the_end_of_dimensions_say_nothing() {
    let recipe = Recipe::tiny(Format::F32, 1);
    let with = |name: &str, dimensions: &[u64]| {
        let mut tensors = recipe.tensors();
        let tensor = tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        tensor.dimensions = dimensions.to_vec();
        let mut bytes = header_bytes(3, &recipe.metadata(), &tensors);
        bytes.resize(bytes.len() + (1 << 20), 0);
        open_bytes(&bytes).err().map(|error| error.fault)
    };
    let (norm, matrix) = ("blk.0.attn_norm.weight", "blk.0.attn_q.weight");
    for dimensions in [&[64][..], &[64, 1], &[64, 1, 1, 1]] {
        assert_eq!(with(norm, dimensions), None, "{dimensions:?}");
    }
    assert_eq!(with(matrix, &[64, 64, 1]), None);
    for (name, dimensions) in [(norm, &[64, 2][..]), (norm, &[1, 64]), (matrix, &[64, 1, 64])] {
        let fault = with(name, dimensions);
        assert!(matches!(fault, Some(Fault::TensorShape { .. })), "{dimensions:?}: {fault:?}");
    }
}

#[test]
fn what_is_no_file_is_no_model() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ModelFile::open(folder.path()).unwrap_err().fault, Fault::NotGguf);
    let absent = ModelFile::open(&folder.path().join("absent.gguf")).unwrap_err();
    assert!(absent.to_string().contains("absent.gguf"), "{absent}");
}

#[test]
fn versions_two_and_three_are_read_alike() {
    let recipe = Recipe::tiny(Format::Q8_0, 1);
    for version in [2, 3] {
        let mut bytes = header_bytes(version, &recipe.metadata(), &recipe.tensors());
        bytes.resize(bytes.len() + (1 << 20), 0);
        let header = Header::read(&bytes[..], bytes.len() as u64).unwrap();
        assert_eq!(header.version(), version);
        assert_eq!(header.tensors().len(), recipe.tensors().len());
    }
}

#[test]
fn a_file_that_shrinks_or_changes_after_opening_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    Recipe::tiny(Format::F16, 3).write(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let length = file.file_bytes();
    let part = nook_base::ModelPart::whole(file.shape().layers);
    let mut model =
        LoadedModel::new(file.clone(), LoadOptions { threads: 1, precision: Precision::Auto })
            .unwrap();
    let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    handle.set_len(length - 64).unwrap();
    assert_eq!(model.hold(&part).unwrap_err().fault, Fault::Changed);
    assert!(model.held().is_empty() && !model.has_embedding());
    assert_eq!(file.digest().unwrap_err().fault, Fault::Changed);
    // Cut files do not open at all.
    let cut = ModelFile::open(&path).unwrap_err().fault;
    assert!(matches!(cut, Fault::Place { .. }), "{cut}");
}

#[test]
fn a_file_that_was_written_over_after_opening_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    Recipe::tiny(Format::F16, 3).write(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let part = nook_base::ModelPart::whole(file.shape().layers);
    let mut model =
        LoadedModel::new(file, LoadOptions { threads: 1, precision: Precision::Auto }).unwrap();
    let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let opened = handle.metadata().unwrap().modified().unwrap();
    handle.set_modified(opened + std::time::Duration::from_secs(5)).unwrap();
    assert_eq!(model.hold(&part).unwrap_err().fault, Fault::Changed);
    // Another file at its path is another matter: the one that was checked is still open.
    handle.set_modified(opened).unwrap();
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    std::fs::write(&path, b"something else").unwrap();
    model.hold(&part).unwrap();
}

#[test]
fn a_model_has_one_identity_and_another_weight_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let digest = |path: &Path| ModelFile::open(path).unwrap().digest().unwrap();
    Recipe::tiny(Format::Q8_0, 3).write(&path("a")).unwrap();
    Recipe::tiny(Format::Q8_0, 3).write(&path("b")).unwrap();
    Recipe::tiny(Format::Q8_0, 4).write(&path("c")).unwrap();
    assert_eq!(digest(&path("a")), digest(&path("b")));
    assert_ne!(digest(&path("a")), digest(&path("c")));
    let mut bytes = std::fs::read(path("a")).unwrap();
    let last_weight = bytes.len() - 100;
    bytes[last_weight] ^= 1;
    std::fs::write(path("d"), &bytes).unwrap();
    assert_ne!(digest(&path("a")), digest(&path("d")));
    // Bytes after the last tensor are not part of the model.
    bytes[last_weight] ^= 1;
    bytes.extend([7; 40]);
    std::fs::write(path("e"), &bytes).unwrap();
    assert_eq!(digest(&path("a")), digest(&path("e")));
}

fn read_header(path: &Path) -> Result<(), Fault> {
    let bytes = std::fs::read(path).unwrap();
    Header::read(&bytes[..], bytes.len() as u64).map(|_| ())
}

fn load_and_step(path: &Path) -> Result<(), ModelError> {
    let file = ModelFile::open(path)?;
    let mut model = LoadedModel::new(file, LoadOptions { threads: 1, precision: Precision::Auto })?;
    model.hold(&whole(&model))?;
    let output = session(&model).step(&model, Input::Tokens(&[1, 2]), LogitRows::All);
    assert_eq!(values(output.unwrap()).len(), 2 * model.file().shape().vocabulary as usize);
    Ok(())
}

fn open_bytes(bytes: &[u8]) -> Result<ModelFile, ModelError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    ModelFile::open(file.path())
}
