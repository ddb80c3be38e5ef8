//! The executor for GPUs of any vendor against numbers of other implementations: the fixtures'
//! tiny, distilled and quantised models, and stories260K.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::Path;

use crate::fixtures::*;
use crate::gpu::gpu;
use nook_base::{LayerRange, ModelPart};
use nook_model::nook_gpu::Gpu;
use nook_model::{
    Fault, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision, Session,
};
use serde_json::Value;

/// Greatest difference of a logit, as for the CPU.
const LOGITS_APART_MAX: f32 = 1e-4;

/// Gaps between the two best tokens below which either may be said.
const NEAR_TIE: f64 = 1e-3;

const VOCABULARY: usize = 512;

#[test]
fn every_tiny_model_says_the_greedy_tokens_of_transformers() {
    let test = "greedy tokens of every tiny model on a GPU";
    let Some(gpu) = gpu(test) else { return };
    say_the_greedy_tokens(&gpu, tiny_models(test));
}

#[test]
fn every_newer_model_says_the_greedy_tokens_of_transformers() {
    let test = "greedy tokens of every newer model on a GPU";
    let Some(gpu) = gpu(test) else { return };
    let mut known = newer_models(test);
    known.retain(|known| known.name.ends_with("-f16"));
    say_the_greedy_tokens(&gpu, known);
}

fn say_the_greedy_tokens(gpu: &Gpu, models: Vec<Known>) {
    for Known { name, file, folder, .. } in models {
        let reference = json(&folder.join("reference.json"));
        let model = on_gpu(gpu, Precision::Full, &file).unwrap();
        let layers = model.file().shape().layers;
        let cut = (0..=layers / 2).rev().find(|cut| model.file().may_cut(*cut)).unwrap();
        for case in reference["cases"].as_array().unwrap() {
            let safe = safe(&case["greedy_top2_gaps"]);
            let expected = &ids(&case["greedy"])[..safe];
            let got = say(&model, cut, &ids(&case["ids"]), safe);
            assert_eq!(got, expected, "{name}");
        }
    }
}

#[test]
fn stories260k_tells_the_reference_stories() {
    let Some(gpu) = gpu("stories260K on a GPU") else { return };
    let folder = carried("stories260K");
    for kind in ["f32", "q8_0", "q4_0"] {
        let path = folder.join(format!("stories260K-{kind}.gguf"));
        let model = on_gpu(&gpu, Precision::Auto, &path).unwrap();
        let reference = json(&folder.join(format!("greedy-{kind}.json")));
        for case in reference["cases"].as_array().unwrap() {
            let safe = case["steps_before_gap_below_0_05"].as_u64().unwrap() as usize;
            let expected = &ids(&case["ids"])[..safe];
            let got = greedy(&model, &ids(&case["prompt_ids"]), safe, None);
            assert_eq!(got, expected, "{kind}: {}", case["prompt"]);
        }
    }
}

#[test]
fn distilled_models_tell_the_reference_stories() {
    let test = "stories of every distilled model on a GPU";
    let Some(gpu) = gpu(test) else { return };
    for (name, path) in distilled_models(test) {
        let reference = json(&path.join("reference.json"));
        let file = path.join(reference["file"].as_str().unwrap());
        let model = on_gpu(&gpu, Precision::Full, &file).unwrap();
        let about = &reference["logits"];
        let prompt = ids(&about["ids"]);
        let expected = floats(&path.join(about["file"].as_str().unwrap()));
        let mut sessions = sessions(&model, 1, prompt.len());
        let worst = greatest_difference(&relay(&model, &mut sessions, &prompt), &expected);
        eprintln!("{name}: {worst:e}");
        assert!(worst < LOGITS_APART_MAX, "{name}: {worst:e}");
        for case in reference["cases"].as_array().unwrap() {
            let safe = safe(&case["top2_gaps"]);
            let expected = &ids(&case["greedy"])[..safe];
            let got = say(&model, 1, &ids(&case["prompt_ids"]), safe);
            assert_eq!(got, expected, "{name}: {}", case["prompt"]);
        }
    }
}

/// The fixture says how far llama.cpp is off, which rounds activations as well; the bound is that
/// of the CPU.
#[test]
fn quantised_files_stay_as_close_to_their_decoded_weights_as_llama_cpp_does() {
    let test = "how close quantised files stay on a GPU";
    let Some(gpu) = gpu(test) else { return };
    let quantised = Quantised::find(test);
    let prompt = &quantised.prompt;
    for (kind, facts) in &quantised.kinds {
        let model = on_gpu(&gpu, Precision::Fast, &quantised.file(facts)).unwrap();
        let got = relay(&model, &mut sessions(&model, 1, prompt.len()), prompt);
        let squares =
            got.iter().zip(quantised.logits(facts)).map(|(a, b)| f64::from(a - b).powi(2));
        let rms = (squares.sum::<f64>() / got.len() as f64).sqrt();
        let bound = 1.25 * facts["llama_cpp_rms_diff"].as_f64().unwrap();
        eprintln!("llama256 {kind}: rms {rms:e} of {bound:e}");
        assert!(rms < bound, "{kind}: rms {rms:e} of {bound:e}");
    }
}

fn on_gpu(gpu: &Gpu, precision: Precision, path: &Path) -> Result<LoadedModel, Fault> {
    let file = ModelFile::open(path).unwrap();
    let options = LoadOptions { threads: 1, precision };
    let mut model = LoadedModel::with_gpu(file, gpu, options).unwrap();
    let part = whole(&model);
    model.hold(&part).map_err(|error| error.fault)?;
    Ok(model)
}

/// Sessions over the two parts at a cut.
fn sessions(model: &LoadedModel, cut: u32, window: usize) -> [Session; 2] {
    let layers = model.file().shape().layers;
    let part = |start, end, embedding, head| ModelPart {
        layers: LayerRange::new(start, end).unwrap(),
        embedding,
        head,
    };
    let parts = [part(0, cut, true, false), part(cut, layers, false, true)];
    parts.map(|part| model.session(part, window as u32).unwrap())
}

fn relay(model: &LoadedModel, sessions: &mut [Session; 2], ids: &[u32]) -> Vec<f32> {
    let [first, second] = sessions;
    let hidden = values(first.step(model, Input::Tokens(ids), LogitRows::All).unwrap());
    values(second.step(model, Input::Hidden(&hidden), LogitRows::All).unwrap())
}

/// The `steps` greatest tokens after `prompt`.
fn say(model: &LoadedModel, cut: u32, prompt: &[u32], steps: usize) -> Vec<u32> {
    let mut sessions = sessions(model, cut, prompt.len() + steps);
    let mut next = prompt.to_vec();
    let mut out = Vec::new();
    while out.len() < steps {
        let logits = relay(model, &mut sessions, &next);
        let token = argmax(&logits[logits.len() - VOCABULARY..]);
        out.push(token);
        next = vec![token];
    }
    out
}

/// Steps before the first near-tie of the reference.
fn safe(gaps: &Value) -> usize {
    let gaps = gaps.as_array().unwrap();
    gaps.iter().take_while(|gap| gap.as_f64().unwrap() > NEAR_TIE).count()
}
