//! The bounds on the size of what comes back: over real and reference models no honest answer is
//! refused, and what is a thousand times too large or small is.

use std::path::{Path, PathBuf};

use nook_base::{Activation, ActivationDtype, LayerRange, ModelPart};
use nook_model::{Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision};
use nook_pipeline::{NormBounds, Source, StepNormGain};
use nook_testkit::{fixture, large_fixture};

/// Positions of each prompt.
const POSITIONS: u32 = 96;

/// Prompts for each model; what is learned from one holds for the next.
const PROMPTS: u32 = 3;

/// Positions of one step of prefill; the second half of each prompt comes one by one.
const CHUNK: u32 = 24;

/// Models with random weights: those in the tree, and those beside the checkout.
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
const TINY_LARGE: [&str; 6] = ["llama256", "minicpm", "mistral", "mixtral", "phi3", "qwen2"];

/// Distilled models beside the checkout.
const DISTILLED_LARGE: [&str; 5] = ["gemma2", "gemma3", "phi3", "qwen2", "qwen3"];

/// Random, distilled and trained models: in the tree one file of each, beside the checkout all in
/// f32.
fn models() -> Vec<PathBuf> {
    let ember = "../crates/nook-store/ember/ember-q8_0.gguf";
    let mut files = vec![
        Path::new(env!("CARGO_MANIFEST_DIR")).join(ember),
        fixture("stories260K/stories260K-f32.gguf"),
        fixture("distilled/starcoder2/stories-starcoder2-f32.gguf"),
    ];
    files.extend(TINY.map(|name| fixture(&format!("tiny/{name}/tiny-{name}-f16.gguf"))));
    let test = "no_honest_answer_is_refused_and_a_thousandfold_one_is";
    if let Some(folder) = large_fixture(test, "fixtures") {
        let tiny = TINY.iter().chain(&TINY_LARGE);
        files.extend(tiny.map(|name| folder.join(format!("tiny/{name}/tiny-{name}-f32.gguf"))));
        files.push(folder.join("tiny/deepseek2/tiny-deepseek2-nomla-f32.gguf"));
        files.extend(
            DISTILLED_LARGE
                .map(|name| folder.join(format!("distilled/{name}/stories-{name}-f32.gguf"))),
        );
    }
    files.extend(large_fixture(test, "ember/ember-f32.gguf"));
    files
}

/// Some ids of the vocabulary, in no order.
fn prompt(number: u32, vocabulary: u32) -> Vec<u32> {
    let id = |n: u32| n.wrapping_mul(2_654_435_761).rotate_left(9) % vocabulary.max(1);
    (0..POSITIONS).map(|n| id(n + number * POSITIONS + 1)).collect()
}

/// Hidden states of all positions behind each layer, first layer first.
fn behind_each_layer(model: &LoadedModel, ids: &[u32]) -> anyhow::Result<Vec<Vec<f32>>> {
    let mut rows: Vec<Vec<f32>> = Vec::new();
    for layer in 0..model.file().shape().layers {
        let layers = LayerRange::with_len(layer, 1);
        let part = ModelPart { layers, embedding: layer == 0, head: false };
        let mut session = model.session(part, POSITIONS)?;
        let input = match rows.last() {
            Some(rows) => Input::Hidden(rows),
            None => Input::Tokens(ids),
        };
        match session.step(model, input, LogitRows::None)? {
            Output::Hidden(behind) => rows.push(behind),
            Output::Logits { .. } => anyhow::bail!("logits from an inner layer"),
        }
    }
    Ok(rows)
}

/// The steps in which a walk would hear of a span: `(position, before, after)`.
fn steps(before: &Activation, after: &Activation) -> Vec<(u32, Activation, Activation)> {
    let half = POSITIONS / 2;
    let chunks = (0..half).step_by(CHUNK as usize).map(|at| (at, (at + CHUNK).min(half)));
    let stretches = chunks.chain((half..POSITIONS).map(|at| (at, at + 1)));
    stretches.map(|(from, to)| (from, before.rows(from, to), after.rows(from, to))).collect()
}

fn times(activation: &Activation, factor: f32) -> Activation {
    let numbers: Vec<f32> = activation.to_f32().iter().map(|x| x * factor).collect();
    Activation::from_f32(&numbers, activation.hidden(), ActivationDtype::F32)
        .expect("hidden states of these models are far from the limits of f32")
}

#[test]
fn no_honest_answer_is_refused_and_a_thousandfold_one_is() -> anyhow::Result<()> {
    let (mut steps_seen, mut missed) = (0_u32, 0_u32);
    for path in models() {
        let options = LoadOptions { threads: 1, precision: Precision::Auto };
        let mut model = LoadedModel::new(ModelFile::open(&path)?, options)?;
        let shape = model.file().shape().clone();
        model.hold(&ModelPart::whole(shape.layers))?;
        let mut book = NormBounds::default();
        for number in 0..PROMPTS {
            let rows = behind_each_layer(&model, &prompt(number, shape.vocabulary))?;
            let written =
                |rows: &Vec<f32>| Activation::from_f32(rows, shape.hidden, ActivationDtype::F16);
            let rows = rows.iter().map(written).collect::<Result<Vec<_>, _>>()?;
            for first in 1..shape.layers {
                for end in first + 1..=shape.layers {
                    let layers = LayerRange::with_len(first, end - first);
                    let (before, after) = (&rows[first as usize - 1], &rows[end as usize - 1]);
                    for (position, before, after) in steps(before, after) {
                        let honest = StepNormGain::of(layers, position, &before, &after);
                        let checked = book.check(&honest);
                        assert_eq!(checked, Ok(()), "{} {layers} at {position}", path.display());
                        for factor in [1e3, 1e-3] {
                            let wrong = times(&after, factor);
                            let wrong = StepNormGain::of(layers, position, &before, &wrong);
                            missed += u32::from(book.check(&wrong).is_ok());
                        }
                        book.learn(&honest, Source::Theirs);
                        steps_seen += 1;
                    }
                }
            }
        }
    }
    assert!(steps_seen > 10_000, "only {steps_seen} steps");
    // Of two wrong answers for each step; some short span at its start may be too wide to tell.
    assert!(missed * 1_000 < steps_seen * 2, "{missed} of {} were not noticed", steps_seen * 2);
    Ok(())
}
