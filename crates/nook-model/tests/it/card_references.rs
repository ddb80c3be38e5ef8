//! The executor for graphics cards, on candle's own path for the processor, against numbers of
//! other implementations: the fixtures' tiny, distilled and quantised models.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::Path;

use crate::fixtures::*;
use nook_base::{LayerRange, ModelPart};
use nook_model::{
    Device, Fault, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision, Session,
};
use serde_json::Value;

/// Greatest difference of a logit, as for the CPU.
const LOGITS_APART_MAX: f32 = 1e-4;

/// Gaps between the two best tokens below which either may be said.
const NEAR_TIE: f64 = 1e-3;

const VOCABULARY: usize = 512;

#[test]
fn every_tiny_model_says_the_greedy_tokens_of_transformers() {
    let test = "greedy tokens of every tiny model on the card";
    let newer = newer_models(test).into_iter();
    let newer = newer
        .filter(|known| known.name.ends_with("-f16") && needs_processor(&known.name).is_none());
    for Known { name, file, folder, .. } in tiny_models(test).into_iter().chain(newer) {
        let reference = json(&folder.join("reference.json"));
        let model = on_card(Precision::Full, &file);
        let layers = model.file().shape().layers;
        for case in reference["cases"].as_array().unwrap() {
            let safe = safe(&case["greedy_top2_gaps"]);
            let expected = &ids(&case["greedy"])[..safe];
            let got = say(&model, layers / 2, &ids(&case["ids"]), safe);
            assert_eq!(got, expected, "{name}");
        }
    }
}

/// The first layer with a part that is computed on the processor alone, and that part.
fn needs_processor(name: &str) -> Option<(u32, &'static str)> {
    let model = name.split_once('-').map_or(name, |(model, _)| model);
    Some(match model {
        "gemma4" | "gemma4_moe" => (0, "a norm of values"),
        "gemma3n" | "gemma4_ple" => (0, "inputs of layers by token"),
        "gpt_oss" => (0, "attention sinks"),
        "granitehybrid" | "nemotron_h" | "nemotron_h_moe" => (0, "a Mamba layer"),
        "lfm2" | "lfm2moe" => (0, "a gated convolution"),
        "qwen3next" => (0, "value heads that share key heads in groups"),
        _ => return None,
    })
}

#[test]
fn what_a_card_cannot_compute_is_refused_by_name() {
    for known in newer_models("refusals of newer models on the card") {
        let Some((layer, what)) = needs_processor(&known.name) else { continue };
        let file = ModelFile::open(&known.file).unwrap();
        let options = LoadOptions { threads: 1, precision: Precision::Full };
        let mut model = LoadedModel::new_on(file, Device::CandleCpu, options).unwrap();
        let part = whole(&model);
        let refused = model.hold(&part).map_err(|error| error.fault);
        assert_eq!(refused, Err(Fault::NeedsProcessor { layer, what }), "{}", known.name);
    }
}

#[test]
fn distilled_models_tell_the_reference_stories() {
    for (name, path) in distilled_models("stories of every distilled model on the card") {
        let reference = json(&path.join("reference.json"));
        let file = path.join(reference["file"].as_str().unwrap());
        let model = on_card(Precision::Full, &file);
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
/// of the CPU, but for Q8_0, where candle on the processor rounds in wider blocks (see `card.rs`).
#[test]
fn quantised_files_stay_as_close_to_their_decoded_weights_as_llama_cpp_does() {
    let quantised = Quantised::find("how close quantised files stay on the card");
    let prompt = &quantised.prompt;
    for (kind, facts) in &quantised.kinds {
        let model = on_card(Precision::Fast, &quantised.file(facts));
        let got = relay(&model, &mut sessions(&model, 1, prompt.len()), prompt);
        let squares =
            got.iter().zip(quantised.logits(facts)).map(|(a, b)| f64::from(a - b).powi(2));
        let rms = (squares.sum::<f64>() / got.len() as f64).sqrt();
        let room = if kind == "q8_0" { 1.8 } else { 1.25 };
        let bound = room * facts["llama_cpp_rms_diff"].as_f64().unwrap();
        eprintln!("llama256 {kind}: rms {rms:e} of {bound:e}");
        assert!(rms < bound, "{kind}: rms {rms:e} of {bound:e}");
    }
}

fn on_card(precision: Precision, path: &Path) -> LoadedModel {
    let file = ModelFile::open(path).unwrap();
    let options = LoadOptions { threads: 1, precision };
    let mut model = LoadedModel::new_on(file, Device::CandleCpu, options).unwrap();
    model.hold(&whole(&model)).unwrap();
    model
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
