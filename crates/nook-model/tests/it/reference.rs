//! The forward pass against logits and greedy texts of other implementations.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::{Path, PathBuf};

use crate::fixtures::*;

/// The formats of the story model that are in the tree, with the folder; and those beside the
/// checkout.
fn stories(test: &str, large_kinds: &[&'static str]) -> Vec<(&'static str, PathBuf)> {
    let folder = carried("stories260K");
    let mut all: Vec<_> = ["f32", "q8_0", "q4_0"].map(|kind| (kind, folder.clone())).into();
    if let Some(folder) = large(test, "fixtures/stories260K") {
        all.extend(large_kinds.iter().map(|kind| (*kind, folder.clone())));
    }
    all
}

/// Ember's file in the tree; and those beside the checkout, with the folder of all.
fn embers(test: &str, large_kinds: &[&'static str]) -> Vec<(&'static str, PathBuf)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nook-store/ember");
    let mut all = vec![("q8_0", own)];
    if let Some(folder) = large(test, "ember") {
        all.extend(large_kinds.iter().map(|kind| (*kind, folder.clone())));
    }
    all
}

/// Greedy tokens must agree up to the first near-tie of the reference.
#[test]
fn stories260k_tells_the_reference_stories() {
    for (kind, folder) in stories("stories of every format", &["f16"]) {
        let model = load(&folder.join(format!("stories260K-{kind}.gguf")), 2);
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
fn stories260k_reproduces_the_logits_of_its_reference() {
    for (kind, folder) in stories("logits of every format", &["f16"]) {
        let model = load(&folder.join(format!("stories260K-{kind}.gguf")), 1);
        let about = json(&folder.join(format!("logits-{kind}.json")));
        let expected = floats(&folder.join(format!("logits-{kind}.f32")));
        let got = logits(&model, &ids(&about["prompt_ids"]));
        let difference = greatest_difference(&got, &expected);
        eprintln!("stories260K {kind}: {difference:e}");
        assert!(difference < 1e-4, "{kind}: {difference:e}");
    }
}

#[test]
fn stories260k_reproduces_the_two_hundred_steps_of_its_author() {
    let folder = carried("stories260K");
    let model = load(&folder.join("stories260K-f32.gguf"), 2);
    let reference = json(&folder.join("upstream-expected.json"));
    let expected = ids(&reference["ids_reproduced"]);
    let got = greedy(&model, &ids(&reference["prompt_ids"]), expected.len(), None);
    assert_eq!(got, expected);
}

#[test]
fn stories260k_is_as_surprised_by_a_text_as_the_reference_in_every_format() {
    let reference = json(&carried("stories260K/nll.json"));
    let ids = ids(&reference["ids"]);
    let large = ["f16", "bf16", "q4_1", "q5_0", "q5_1"];
    for (name, folder) in stories("surprise in every format", &large) {
        let facts = &reference["models"][name];
        let model = load(&folder.join(format!("stories260K-{name}.gguf")), 2);
        let vocabulary = model.file().shape().vocabulary as usize;
        let logits = logits(&model, &ids);
        let mut sum = 0.0;
        for (row, next) in logits.chunks_exact(vocabulary).zip(&ids[1..]) {
            let total: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            sum += total.ln() - f64::from(row[*next as usize]);
        }
        let got = sum / (ids.len() - 1) as f64;
        let difference = (got - facts["mean_nll"].as_f64().unwrap()).abs();
        eprintln!("stories260K {name}: {difference:e}");
        assert!(difference < 1e-5, "{name}: {difference:e}");
    }
}

/// In the precision that a file chooses itself. (`tiny_references.rs` has all in single precision.)
#[test]
fn tiny_models_reproduce_the_logits_of_transformers() {
    let models = tiny_models("tiny models in the precision of their files");
    let llamas = ["mistral", "llama3_rope", "llama256"];
    let is_llama = |name: &str| llamas.iter().any(|llama| name.starts_with(llama));
    let mut seen = 0;
    for Known { name, file, folder, .. } in models.iter().filter(|known| is_llama(&known.name)) {
        let reference = json(&folder.join("reference.json"));
        let all = floats(&folder.join("logits.f32"));
        let model = load(file, 2);
        let mut worst = 0.0f32;
        for case in reference["cases"].as_array().unwrap() {
            let number = |key: &str| case[key].as_u64().unwrap() as usize;
            let prompt = ids(&case["ids"]);
            let rows = case["logits_shape"][0].as_u64().unwrap() as usize;
            let from = number("logits_offset_f32");
            let expected = &all[from..from + rows * 512];
            let got = logits(&model, &prompt);
            let skip = number("first_logits_position") * 512;
            worst = worst.max(greatest_difference(&got[skip..], expected));
            let expected = ids(&case["greedy"]);
            let gaps = case["greedy_top2_gaps"].as_array().unwrap();
            let safe = gaps.iter().take_while(|gap| gap.as_f64().unwrap() > 1e-3).count();
            let got = greedy(&model, &prompt, safe, None);
            assert_eq!(got, expected[..safe], "{name}");
        }
        eprintln!("{name}: {worst:e}");
        assert!(worst < 1e-3, "{name}: {worst:e}");
        seen += 1;
    }
    assert!([1, 6].contains(&seen), "{seen}");
}

#[test]
fn quantised_weights_give_the_logits_of_their_decoded_values() {
    let quantised = Quantised::find("logits of quantised files");
    let near = ["bf16", "q4_0", "q5_1", "q8_0", "q4_k_m", "q5_k_m", "q6_k"];
    for (kind, facts) in quantised.kinds.iter().filter(|(kind, _)| near.contains(&&**kind)) {
        let model = load(&quantised.file(facts), 2);
        let got = logits(&model, &quantised.prompt);
        let difference = greatest_difference(&got, quantised.logits(facts));
        eprintln!("llama256 {kind}: {difference:e}");
        assert!(difference < 1e-4, "{kind}: {difference:e}");
    }
}

#[test]
fn ember_answers_as_its_reference_does() {
    let reference = json(&carried("ember/ember-greedy.json"));
    let most = reference["max_new"].as_u64().unwrap() as usize;
    for (kind, folder) in embers("answers of every format of Ember", &["f32", "f16", "q4_k_m"]) {
        let model = load(&folder.join(format!("ember-{kind}.gguf")), 1);
        let cases = reference["cases"].as_array().unwrap();
        let mut equal = 0;
        for case in cases {
            let expected = match kind {
                "f32" => ids(&case["torch_f32"]["ids"]),
                other => ids(&case[format!("llamacpp_{other}")]["ids"]),
            };
            let got = greedy(&model, &ids(&case["prompt_ids"]), most, Some(1));
            equal += usize::from(got == expected);
        }
        eprintln!("ember {kind}: {equal} of {}", cases.len());
        // The reference of the quantised files also rounds activations, so near-ties may differ.
        let least = if kind == "f32" { cases.len() } else { cases.len() - 4 };
        assert!(equal >= least, "{kind}: {equal} of {}", cases.len());
    }
}

#[test]
fn ember_reproduces_the_logits_of_its_decoded_weights() {
    let about = json(&carried("ember/ember-logits.json"));
    assert_eq!(about["logits"].as_object().unwrap().len(), 3);
    for (kind, folder) in embers("logits of every format of Ember", &["f32", "f16"]) {
        let model = load(&folder.join(format!("ember-{kind}.gguf")), 1);
        let logits_file = about["logits"][kind]["file"].as_str().unwrap();
        let expected = match kind {
            "q8_0" => floats(&carried("ember").join(logits_file)),
            _ => floats(&folder.join(logits_file)),
        };
        let got = logits(&model, &ids(&about["ids"]));
        let difference = greatest_difference(&got, &expected);
        eprintln!("ember {kind}: {difference:e}");
        assert!(difference < 1e-4, "{kind}: {difference:e}");
    }
}
