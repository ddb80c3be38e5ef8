//! The forward pass against logits and greedy texts of other implementations.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

#[path = "common/fixtures.rs"]
mod fixtures;

use fixtures::*;

/// Greedy tokens must agree up to the first near-tie of the reference.
#[test]
fn stories260k_tells_the_reference_stories() {
    let Some(folder) = shared("fixtures/stories260K", "stories260k stories") else {
        return;
    };
    for kind in ["f32", "f16", "q8_0", "q4_0"] {
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
    let Some(folder) = shared("fixtures/stories260K", "stories260k logits") else {
        return;
    };
    for kind in ["f32", "f16", "q8_0", "q4_0"] {
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
    let Some(folder) = shared("fixtures/stories260K", "stories260k author") else {
        return;
    };
    let model = load(&folder.join("stories260K-f32.gguf"), 2);
    let reference = json(&folder.join("upstream-expected.json"));
    let expected = ids(&reference["ids_reproduced"]);
    let got = greedy(&model, &ids(&reference["prompt_ids"]), expected.len(), None);
    assert_eq!(got, expected);
}

#[test]
fn stories260k_is_as_surprised_by_a_text_as_the_reference_in_every_format() {
    let Some(folder) = shared("fixtures/stories260K", "stories260k surprise") else {
        return;
    };
    let reference = json(&folder.join("nll.json"));
    let ids = ids(&reference["ids"]);
    let mut compared = 0;
    for (name, facts) in reference["models"].as_object().unwrap() {
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
        compared += 1;
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn tiny_models_reproduce_the_logits_of_transformers() {
    let Some(folder) = shared("fixtures/tiny", "tiny models") else {
        return;
    };
    for name in ["mistral", "llama3_rope", "llama256"] {
        let folder = folder.join(name);
        let reference = json(&folder.join("reference.json"));
        let all = floats(&folder.join("logits.f32"));
        for kind in ["f32", "f16"] {
            let model = load(&folder.join(format!("tiny-{name}-{kind}.gguf")), 2);
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
                assert_eq!(got, expected[..safe], "{name} {kind}");
            }
            eprintln!("{name} {kind}: {worst:e}");
            assert!(worst < 1e-3, "{name} {kind}: {worst:e}");
        }
    }
}

#[test]
fn quantised_weights_give_the_logits_of_their_decoded_values() {
    let Some(folder) = shared("fixtures/quant", "quantised logits") else {
        return;
    };
    let reference = json(&folder.join("llama256-reference.json"));
    let all = floats(&folder.join("llama256-logits.f32"));
    let prompt = ids(&reference["ids"]);
    for kind in ["bf16", "q4_0", "q5_1", "q8_0", "q4_k_m", "q5_k_m", "q6_k"] {
        let facts = &reference["models"][kind];
        let model = load(&folder.join(facts["file"].as_str().unwrap()), 2);
        let from = facts["logits_offset_f32"].as_u64().unwrap() as usize;
        let got = logits(&model, &prompt);
        let difference = greatest_difference(&got, &all[from..from + got.len()]);
        eprintln!("llama256 {kind}: {difference:e}");
        assert!(difference < 1e-4, "{kind}: {difference:e}");
    }
}

#[test]
fn ember_answers_as_its_reference_does() {
    let Some(folder) = shared("ember", "ember answers") else {
        return;
    };
    let reference = json(&folder.join("ember-greedy.json"));
    let most = reference["max_new"].as_u64().unwrap() as usize;
    for kind in ["f32", "f16", "q8_0", "q4_k_m"] {
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
    let Some(folder) = shared("ember", "ember logits") else {
        return;
    };
    let about = json(&folder.join("ember-logits.json"));
    for (kind, facts) in about["logits"].as_object().unwrap() {
        let model = load(&folder.join(format!("ember-{kind}.gguf")), 1);
        let expected = floats(&folder.join(facts["file"].as_str().unwrap()));
        let got = logits(&model, &ids(&about["ids"]));
        let difference = greatest_difference(&got, &expected);
        eprintln!("ember {kind}: {difference:e}");
        assert!(difference < 1e-4, "{kind}: {difference:e}");
    }
}
