//! Every family against numbers of another implementation: the fixtures' tiny models (random
//! weights, logits of Hugging Face transformers in double precision), whole and split at every cut,
//! and the distilled ones, which tell stories.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use crate::fixtures::*;
use nook_base::{LayerRange, ModelPart};
use nook_model::{Input, LoadedModel, LogitRows, Precision, Session};
use serde_json::Value;

/// Greatest difference of a logit of the distilled models.
const LOGITS_APART_MAX: f32 = 1e-4;

/// Gaps between the two best tokens below which either may be said.
const NEAR_TIE: f64 = 1e-3;

const VOCABULARY: usize = 512;

/// Half-precision files hold the same numbers as those in single precision, but sessions over them
/// hold keys and values in half precision; asked for single precision they must agree as well.
#[test]
fn every_tiny_model_gives_the_logits_of_transformers_whole_and_at_every_cut() {
    let mut failures = Vec::new();
    for known in all("logits of every tiny model at every cut") {
        let reference = json(&known.folder.join("reference.json"));
        let expected = floats(&known.logits);
        let model = load_in(Precision::Full, &known.file, 2);
        let layers = model.file().shape().layers;
        let mut worst = 0.0f32;
        for cut in (0..=layers).filter(|cut| model.file().may_cut(*cut)) {
            let parts = parts(layers, cut);
            for case in reference["cases"].as_array().unwrap() {
                worst = worst.max(difference(&model, &parts, case, &expected));
            }
        }
        eprintln!("{}: {worst:e}", known.name);
        if worst >= known.apart_max {
            failures.push(format!("{}: {worst:e}", known.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_tiny_model_says_the_greedy_tokens_of_transformers() {
    // Of quantised weights there are logits, and no tokens.
    let is_exact = |known: &Known| known.logits.ends_with("logits.f32");
    let models = all("greedy tokens of every tiny model").into_iter().filter(is_exact);
    for Known { name, file, folder, .. } in models {
        let reference = json(&folder.join("reference.json"));
        let model = load_in(Precision::Full, &file, 1);
        let layers = model.file().shape().layers;
        let cut = (0..=layers / 2).rev().find(|cut| model.file().may_cut(*cut)).unwrap();
        for case in reference["cases"].as_array().unwrap() {
            let safe = safe(&case["greedy_top2_gaps"]);
            let expected = &ids(&case["greedy"])[..safe];
            let prompt = ids(&case["ids"]);
            let got = say(&model, &parts(layers, cut), &prompt, safe);
            assert_eq!(got, expected, "{name}");
        }
    }
}

#[test]
fn distilled_models_tell_the_reference_stories() {
    for (name, path) in distilled_models("stories of every distilled model") {
        let reference = json(&path.join("reference.json"));
        let model = load_in(Precision::Full, &path.join(reference["file"].as_str().unwrap()), 2);
        let layers = model.file().shape().layers;
        let about = &reference["logits"];
        let prompt = ids(&about["ids"]);
        let expected = floats(&path.join(about["file"].as_str().unwrap()));
        for cut in 0..=layers {
            let got = relayed(&model, &parts(layers, cut), &prompt, prompt.len());
            let worst = greatest_difference(&got, &expected);
            if cut == 0 {
                eprintln!("{name}: {worst:e}");
            }
            assert!(worst < LOGITS_APART_MAX, "{name} cut at {cut}: {worst:e}");
        }
        for case in reference["cases"].as_array().unwrap() {
            let safe = safe(&case["top2_gaps"]);
            let expected = &ids(&case["greedy"])[..safe];
            let prompt = ids(&case["prompt_ids"]);
            let got = say(&model, &parts(layers, 1), &prompt, safe);
            assert_eq!(got, expected, "{name}: {}", case["prompt"]);
        }
    }
}

/// The reference does not round activations, and the kernels do, as llama.cpp does: the fixture
/// says how far that one is off.
#[test]
fn quantised_files_stay_as_close_to_their_decoded_weights_as_llama_cpp_does() {
    let quantised = Quantised::find("how close quantised files stay");
    let prompt = &quantised.prompt;
    for (kind, facts) in &quantised.kinds {
        let model = load_in(Precision::Fast, &quantised.file(facts), 2);
        let layers = model.file().shape().layers;
        let got = relayed(&model, &parts(layers, 1), prompt, prompt.len());
        let squares =
            got.iter().zip(quantised.logits(facts)).map(|(a, b)| f64::from(a - b).powi(2));
        let rms = (squares.sum::<f64>() / got.len() as f64).sqrt();
        let bound = 1.25 * facts["llama_cpp_rms_diff"].as_f64().unwrap();
        eprintln!("llama256 {kind}: rms {rms:e} of {bound:e}");
        assert!(rms < bound, "{kind}: rms {rms:e} of {bound:e}");
    }
}

fn all(test: &str) -> Vec<Known> {
    let mut all = tiny_models(test);
    all.extend(newer_models(test));
    all
}

/// The two parts at a cut.
fn parts(layers: u32, cut: u32) -> [ModelPart; 2] {
    let part = |start, end, embedding, head| ModelPart {
        layers: LayerRange::new(start, end).unwrap(),
        embedding,
        head,
    };
    [part(0, cut, true, false), part(cut, layers, false, true)]
}

fn difference(model: &LoadedModel, parts: &[ModelPart], case: &Value, all: &[f32]) -> f32 {
    let number = |key: &str| case[key].as_u64().unwrap() as usize;
    let prompt = ids(&case["ids"]);
    let rows = case["logits_shape"][0].as_u64().unwrap() as usize;
    let from = number("logits_offset_f32");
    let got = relayed(model, parts, &prompt, prompt.len());
    let skip = number("first_logits_position") * VOCABULARY;
    let got = &got[skip..];
    let expected = &all[from..from + rows * VOCABULARY];
    let rows = got.chunks_exact(VOCABULARY).zip(expected.chunks_exact(VOCABULARY));
    let same = rows.into_iter().all(|(row, expected)| argmax(row) == argmax(expected));
    match same && got.iter().all(|logit| logit.is_finite()) {
        true => greatest_difference(got, expected),
        false => f32::INFINITY,
    }
}

/// Logits of all positions of `prompt`, in sessions of at most `window` positions: some rotary
/// scalings go by that, where the reference goes by the length so far.
fn relayed(model: &LoadedModel, parts: &[ModelPart], prompt: &[u32], window: usize) -> Vec<f32> {
    let mut sessions = sessions(model, parts, window);
    relay(model, &mut sessions, prompt)
}

fn sessions(model: &LoadedModel, parts: &[ModelPart], window: usize) -> Vec<Session> {
    parts.iter().map(|part| model.session(*part, window as u32).unwrap()).collect()
}

fn relay(model: &LoadedModel, sessions: &mut [Session], ids: &[u32]) -> Vec<f32> {
    let mut carried = Vec::new();
    for (index, session) in sessions.iter_mut().enumerate() {
        let input = if index == 0 { Input::Tokens(ids) } else { Input::Hidden(&carried) };
        carried = values(session.step(model, input, LogitRows::All).unwrap());
    }
    carried
}

/// The `steps` greatest tokens after `prompt`.
fn say(model: &LoadedModel, parts: &[ModelPart], prompt: &[u32], steps: usize) -> Vec<u32> {
    let mut sessions = sessions(model, parts, prompt.len() + steps);
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
