//! Quantised models against the plain pass in double precision, which rounds activations as the
//! engine does; and the built-in model, which needs no reference files. (Every family in single
//! precision: `families.rs`.)

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::{Path, PathBuf};

use crate::fixtures::{greedy, load, load_in, logits};
use crate::plain::{self, Numerics, relative_rms};
use nook_kernels::Format;
use nook_model::gguf::TensorType;
use nook_model::synthetic::{Family, Mix, Random, Recipe, random_row};
use nook_model::{ModelFile, Precision};

/// Ember lies in the tree, so these run everywhere.
fn ember() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nook-store/ember/ember-q8_0.gguf")
}

#[test]
fn ember_says_who_it_is() {
    let model = load(&ember(), 2);
    // "<|bos|><|user|>Hello!<|end|><|assistant|>"
    let got = greedy(&model, &[0, 3, 540, 5, 1, 4], 40, Some(1));
    // "Hello! I am Ember. Ask me about Inglenook, or ask me for a story.<|end|>"
    let expected =
        [540, 5, 304, 385, 588, 18, 530, 341, 372, 422, 16, 424, 433, 341, 336, 262, 386, 18, 1];
    assert_eq!(got, expected);
}

#[test]
fn ember_is_what_its_card_says() {
    let model = load(&ember(), 1);
    let file = model.file();
    let shape = file.shape();
    assert_eq!((file.name(), file.architecture()), ("Ember", "llama"));
    assert_eq!(file.quantisation(), "Q8_0");
    assert_eq!(file.file_bytes(), 4_186_816);
    assert_eq!((shape.layers, shape.hidden, shape.heads, shape.kv_heads), (6, 256, 8, 2));
    assert_eq!((shape.feed_forward, shape.vocabulary, shape.context_length), (512, 2048, 1024));
    assert!(shape.tied_output);
    let vocabulary = file.vocabulary().unwrap();
    assert_eq!((vocabulary.tokens.len(), vocabulary.bos, vocabulary.eos), (2048, Some(0), Some(1)));
    assert!(vocabulary.chat_template.is_some());
}

#[test]
fn ember_agrees_with_the_plain_pass() {
    stays_as_near(&ember(), &[0, 3, 1053, 341, 262, 386, 372, 262, 5, 1, 4]).unwrap();
}

#[test]
fn random_models_of_every_format_agree_with_the_plain_pass() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = |(index, format): (usize, Format)| Recipe {
        rope_factors: index % 2 == 0,
        tied_output: index % 3 == 0,
        ..wide(Family::Llama, Mix::All(format), 40 + index as u64)
    };
    let known = |format: &Format| {
        let kind = TensorType::from_format(*format).unwrap();
        random_row(kind, 256, &mut Random::new(1)).is_some()
    };
    let formats: Vec<Format> = Format::ALL.into_iter().filter(known).collect();
    assert!(formats.len() >= 15, "{formats:?}");
    check(folder.path(), formats.into_iter().enumerate().map(recipe));
}

/// Families whose parts meet quantised matrices in ways that Llama's do not: biases, matrices in
/// one, experts, plain feed-forward layers, latent vectors.
#[test]
fn quantised_models_of_other_families_agree_with_the_plain_pass() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipes = Vec::new();
    for family in [
        Family::Mixtral,
        Family::Qwen2,
        Family::Qwen3Moe,
        Family::Qwen35,
        Family::Gemma3,
        Family::Phi3,
        Family::Starcoder2,
        Family::Glm4,
        Family::Deepseek2,
        Family::Deepseek2Whole,
        Family::Llama4,
    ] {
        for mix in [Mix::Q4KM, Mix::Q4_0, Mix::All(Format::Q8_0)] {
            recipes.push(wide(family, mix, 60));
        }
    }
    check(folder.path(), recipes);
}

/// One kind of matrix alone is quantised, in one layer: here roundings cannot cascade, so that each
/// place where activations are rounded is seen by itself, and exactly.
#[test]
fn each_quantised_place_alone_is_computed_as_the_plain_pass_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for recipe in single_places() {
        let path = write(folder.path(), &recipe);
        let got = match engine(&path, &prompt(), Precision::Fast) {
            Ok(got) => got,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        // Whichever precision the cache of a file has that is nearly all in single precision.
        let rounded = Numerics { half_cache: false, ..Numerics::quantised(512) };
        let distances = [rounded, Numerics { half_cache: true, ..rounded }]
            .map(|numerics| relative_rms(&got, &plain::logits(&path, &prompt(), numerics)));
        let rms = distances[0].min(distances[1]);
        eprintln!("{:?} {:?}: {rms:.1e}", recipe.family, recipe.mix);
        if rms.is_nan() || rms > SINGLE_PLACE_TOLERANCE {
            failures.push(format!("{:?} {:?}: {rms:.1e}", recipe.family, recipe.mix));
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Where [`SINGLE_PLACE_TOLERANCE`] comes from. The engine computes in single precision, so a few
/// activations lie on the other side of a rounding edge than in the plain pass, and differ by a
/// whole step. Products shaken by 3e-7, as single precision shakes them, show what that may do; and
/// the plain pass without rounding shows what a wrong rounding would do: three times as much at
/// least.
#[test]
fn single_precision_flips_few_activations_of_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let ids = prompt();
    for recipe in single_places() {
        let path = write(folder.path(), &recipe);
        let steady = Numerics { half_cache: false, ..Numerics::quantised(512) };
        let rounded = plain::logits(&path, &ids, steady);
        let shaken = plain::logits(&path, &ids, Numerics { noise: 3e-7, ..steady });
        let exact = plain::logits(&path, &ids, Numerics::exact(512));
        let flips = relative_rms(&singles(&shaken), &rounded);
        let roundings = relative_rms(&singles(&exact), &rounded);
        let name = format!("{:?} {:?}", recipe.family, recipe.mix);
        eprintln!("{name}: flips {flips:.1e}, roundings {roundings:.1e}");
        assert!(flips < SINGLE_PLACE_TOLERANCE / 2.0, "{name}: {flips:.1e}");
        assert!(roundings > 3.0 * SINGLE_PLACE_TOLERANCE, "{name}: {roundings:.1e}");
    }
}

/// What quantised activations cost in a whole model: the distance between logits with and without
/// them. And why whole models cannot be held to more than that distance: products shaken by 3e-7
/// move logits almost as far, since one flipped activation flips others in each later product.
#[test]
fn quantised_activations_move_logits_by_about_a_fiftieth() {
    let folder = tempfile::tempdir().unwrap();
    let ids = prompt();
    let llama = |mix, seed| wide(Family::Llama, mix, seed);
    for recipe in [
        llama(Mix::All(Format::Q8_0), 1),
        llama(Mix::All(Format::Q6K), 2),
        llama(Mix::All(Format::Q4_1), 3),
        llama(Mix::Q4KM, 4),
        llama(Mix::Q4_0, 5),
        wide(Family::Gemma3, Mix::Q4KM, 6),
        wide(Family::Starcoder2, Mix::Q4KM, 7),
    ] {
        let path = write(folder.path(), &recipe);
        let exact = plain::logits(&path, &ids, Numerics::exact(512));
        let rounded = plain::logits(&path, &ids, Numerics::quantised(512));
        let shaken = Numerics { noise: 3e-7, ..Numerics::quantised(512) };
        let shaken = plain::logits(&path, &ids, shaken);
        let distance = relative_rms(&singles(&rounded), &exact);
        let shift = relative_rms(&singles(&shaken), &rounded);
        let name = format!("{:?} {:?}", recipe.family, recipe.mix);
        eprintln!("{name}: quantised activations {distance:.1e}, shaken {shift:.1e}");
        assert!((0.005..0.05).contains(&distance), "{name}: {distance:.1e}");
    }
}

/// Greatest root mean square of the difference over that of the logits, in models of one layer
/// where one kind of matrix is quantised. See
/// [`single_precision_flips_few_activations_of_one_place`].
const SINGLE_PLACE_TOLERANCE: f64 = 1e-3;

/// Models of one layer, with one kind of matrix quantised.
fn single_places() -> Vec<Recipe> {
    let mut all = Vec::new();
    let mut add = |family, parts: &[&'static str], format| {
        for part in parts {
            let mix = Mix::Only { part, format };
            let recipe = wide(family, mix, 80);
            all.push(Recipe { layers: 1, tied_output: false, ..recipe });
        }
    };
    let dense = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    add(Family::Llama, &dense, Format::Q8_0);
    add(Family::Llama, &["attn_v", "ffn_up", "output"], Format::Q4K);
    add(Family::Llama, &["ffn_down", "output"], Format::Q6K);
    add(Family::Llama, &["ffn_down"], Format::Q4_0);
    add(Family::Llama, &["ffn_down"], Format::Q5_1);
    add(Family::Phi3, &["attn_qkv", "ffn_up"], Format::Q8_0);
    add(Family::Mixtral, &["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"], Format::Q4K);
    all
}

/// A small model whose rows fill blocks of 256.
fn wide(family: Family, mix: Mix, seed: u64) -> Recipe {
    let tiny = Recipe::of(family, Format::F32, seed);
    let layers = match family {
        Family::Gemma3 => 7,
        Family::Qwen35 | Family::Llama4 => 4,
        _ => 2,
    };
    Recipe {
        layers,
        hidden: 256,
        head_dim: 64,
        feed_forward: 512,
        expert_feed_forward: 256,
        mix,
        ..tiny
    }
}

fn write(folder: &Path, recipe: &Recipe) -> PathBuf {
    let name = format!("{:?}-{:?}-{}.gguf", recipe.family, recipe.mix, recipe.seed);
    let path = folder.join(name.replace([' ', '"'], ""));
    recipe.write(&path).unwrap();
    path
}

fn prompt() -> Vec<u32> {
    (0..40).map(|i| (i * 31 + 7) % 272).collect()
}

fn singles(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

/// Holds a model of each recipe against the plain pass, tells how each did, and fails if any
/// failed.
fn check(folder: &Path, recipes: impl IntoIterator<Item = Recipe>) {
    let mut failures = Vec::new();
    for recipe in recipes {
        let path = write(folder, &recipe);
        match stays_as_near(&path, &prompt()) {
            Ok(figure) => eprintln!("{:?} {:?}: {figure}", recipe.family, recipe.mix),
            Err(failure) => {
                failures.push(format!("{:?} {:?}: {failure}", recipe.family, recipe.mix));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Whether the engine's logits are as near to those without any rounding as the plain pass's are
/// when it rounds as the engine does. (Its own rounded logits are no nearer to the engine's: see
/// [`quantised_activations_move_logits_by_about_a_fiftieth`].) Files in single precision have none.
fn stays_as_near(path: &Path, ids: &[u32]) -> Result<String, String> {
    let exact = plain::logits(path, ids, Numerics::exact(512));
    let rounded = plain::logits(path, ids, Numerics::quantised(512));
    let single = ModelFile::open(path).unwrap().quantisation() == "F32";
    let got = engine(path, ids, if single { Precision::Full } else { Precision::Fast })?;
    let allowed = if single { 0.0 } else { relative_rms(&singles(&rounded), &exact) };
    let rms = relative_rms(&got, &exact);
    let figure = format!("{rms:.1e} from exact, where {allowed:.1e} is expected");
    // Twice, since mixtures may choose another expert here than there.
    match rms < 2.0 * allowed + 2e-5 {
        true => Ok(figure),
        false => Err(figure),
    }
}

/// The engine's logits; its words if it does not take the file.
fn engine(path: &Path, ids: &[u32], precision: Precision) -> Result<Vec<f32>, String> {
    ModelFile::open(path).map_err(|error| error.to_string())?;
    Ok(logits(&load_in(precision, path, 2), ids))
}
