//! Random tiny models of every family against the plain pass in double precision: whole, split at
//! every cut with each half alone in memory, and in chunks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::path::{Path, PathBuf};

use crate::executors::parts;
use crate::fixtures::{load_part, values};
use crate::plain::{self, Numerics, relative_worst};
use nook_base::ModelPart;
use nook_kernels::Format;
use nook_model::gguf::Value;
use nook_model::synthetic::{Family, Recipe, header_bytes};
use nook_model::{Fault, Input, LoadedModel, LogitRows, ModelFile, Session, StepError};

/// Greatest difference from the plain pass, over the greatest logit. Single precision costs about
/// 1e-6, and 1e-5 in delta nets (measured with llama.cpp on these files); a wrong constant ten
/// times the tolerance at least, as [`every_constant_of_every_family_shows_in_the_logits`] sees to.
const TOLERANCE: f64 = 1e-4;

/// Positions of a prompt: more than the windows, and more than a tile of attention.
pub(crate) const PROMPT: usize = 70;

/// Chunks that prompts are fed in: a decode step, odd lengths, one that crosses a tile.
const CHUNKS: [usize; 6] = [1, 3, 17, 1, 1, 40];

#[test]
fn every_family_computes_what_its_paper_says() {
    check_families(|_, path, file| {
        let prompt = prompt(1);
        let whole = run(&mut stages(file, &[], window(file)), &prompt, &[PROMPT]);
        let numerics = Numerics::exact(window(file) as usize);
        let expected = plain::logits(path, &prompt, numerics);
        let worst = relative_worst(&whole, &expected);
        match worst < TOLERANCE {
            true => Ok(format!("{worst:.1e}")),
            // Also true when something is not a number.
            false => Err(format!("is off by {worst:.1e} of the greatest logit")),
        }
    });
}

#[test]
fn every_cut_of_every_family_gives_the_bits_of_the_whole() {
    check_families(|_, _, file| {
        let prompt = prompt(2);
        let whole = run(&mut stages(file, &[], window(file)), &prompt, &[PROMPT]);
        let layers = file.shape().layers;
        let legal: Vec<u32> = (0..=layers).filter(|cut| file.may_cut(*cut)).collect();
        for cut in legal.iter().copied() {
            let got = run(&mut stages(file, &[cut], window(file)), &prompt, &[PROMPT]);
            if bits(&got) != bits(&whole) {
                return Err(format!("differs when cut at layer {cut}"));
            }
        }
        Ok(format!("{} cuts", legal.len()))
    });
}

#[test]
fn chunks_of_every_family_give_the_bits_of_the_whole() {
    check_families(|_, _, file| {
        let prompt = prompt(3);
        let whole = run(&mut stages(file, &[], window(file)), &prompt, &[PROMPT]);
        let middle = (1..=file.shape().layers / 2).rev().find(|cut| file.may_cut(*cut));
        let cuts = [1, middle.unwrap()];
        for cuts in [&[][..], &cuts] {
            let got = run(&mut stages(file, cuts, window(file)), &prompt, &CHUNKS);
            if bits(&got) != bits(&whole) {
                return Err(format!("differs in chunks, with the cuts {cuts:?}"));
            }
        }
        Ok("same bits".to_owned())
    });
}

#[test]
fn a_cut_between_a_layer_and_the_one_that_it_reads_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Gemma3n, Family::Gemma4] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        // Layers 0 to 3 remember, and 4, 5 and 6 read 3, 2 and 3.
        assert_eq!(file.uncuttable(), [3, 4, 5, 6]);
        for cut in file.uncuttable() {
            for part in parts(&file, &[cut]) {
                let refused = load_part(&file, &part, 1).session(part, 8).map(|_| ());
                assert_eq!(refused.unwrap_err().fault, Fault::Cut { layer: cut });
            }
        }
    }
}

/// What layers get by token comes to a helper as rows: it needs no table of tokens, and takes no
/// ids.
#[test]
fn layers_with_inputs_by_token_need_no_tokens() {
    let folder = tempfile::tempdir().unwrap();
    for (family, hidden_states) in [(Family::Gemma3n, 3), (Family::Gemma4, 1)] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let shape = file.shape();
        assert_eq!(shape.row, hidden_states * shape.hidden + shape.layers * 8);
        let [asking, helping, last] = &parts(&file, &[1, 2])[..] else { panic!("three parts") };
        let needs = |part: &ModelPart, number: usize| {
            file.ranges_of(part).iter().any(|range| range.number as usize == number)
        };
        for (number, tensor) in file.header().tensors().iter().enumerate() {
            let name = &tensor.name;
            let by_token = tensor.dimensions.contains(&u64::from(shape.vocabulary));
            if by_token || name.starts_with("per_layer") || name.starts_with("altup") {
                assert!(!needs(helping, number), "{family:?}: {name}");
                assert!(needs(asking, number) || needs(last, number), "{family:?}: {name}");
            }
        }
        let (model, mut session) = stage(&file, *helping, 8);
        let refused = session.step(&model, Input::Tokens(&[5]), LogitRows::None);
        assert_eq!(refused, Err(StepError::WrongInput { expected: "hidden states" }));
        // One hidden state alone is no row of theirs.
        let narrow = vec![0.1; shape.hidden as usize];
        let refused = session.step(&model, Input::Hidden(&narrow), LogitRows::None);
        assert_eq!(refused, Err(StepError::Width { got: narrow.len(), width: shape.row }));
    }
}

#[test]
fn what_a_gemma3n_cannot_have_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Family::Gemma3n, 1);
    let recipe = Recipe::of(Family::Gemma3n, Format::F32, 1);
    let changed_path = folder.path().join("changed.gguf");
    let cutoffs = |first: f32| {
        let mut all = vec![f32::NEG_INFINITY; recipe.layers as usize];
        all[0] = first;
        Value::Floats(all)
    };
    for (name, value) in [
        ("altup.num_inputs", Value::Unsigned(1)),
        ("altup.num_inputs", Value::Unsigned(17)),
        ("altup.active_idx", Value::Unsigned(3)),
        ("embedding_length_per_layer_input", Value::Unsigned(0)),
        ("embedding_length_per_layer_input", Value::Unsigned(5000)),
        ("activation_sparsity_scale", cutoffs(f32::NAN)),
        ("activation_sparsity_scale", cutoffs(f32::INFINITY)),
        ("activation_sparsity_scale", Value::Floats(vec![0.5; 6])),
        ("activation_sparsity_scale", Value::Float(0.5)),
        ("attention.shared_kv_layers", Value::Unsigned(6)),
        ("attention.value_length", Value::Unsigned(8)),
    ] {
        let key = format!("gemma3n.{name}");
        write_changed(&recipe, &path, &key, value.clone(), &changed_path);
        let refused = ModelFile::open(&changed_path).map(|_| ()).unwrap_err().fault;
        let named = matches!(&refused, Fault::BadValue { key: found, .. } if *found == key);
        assert!(named, "{key} {}: {refused:?}", value.summary());
    }
    // Another number of streams than the tensors have.
    let key = "gemma3n.altup.num_inputs";
    write_changed(&recipe, &path, key, Value::Unsigned(4), &changed_path);
    let refused = ModelFile::open(&changed_path).map(|_| ()).unwrap_err().fault;
    assert!(matches!(&refused, Fault::TensorShape { .. }), "{refused:?}");
}

/// LongRoPE has factors for windows up to the original context (here 128), and others for longer
/// ones: the window is what the session may grow to, not how far it has come.
#[test]
fn long_rope_goes_by_the_window_of_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Family::Phi3LongRope, 5);
    let file = ModelFile::open(&path).unwrap_or_else(|error| panic!("{error}"));
    let prompt = prompt(4);
    for window in [128, 129] {
        let got = run(&mut stages(&file, &[], window), &prompt, &[PROMPT]);
        let expected = plain::logits(&path, &prompt, Numerics::exact(window as usize));
        let worst = relative_worst(&got, &expected);
        assert!(worst < TOLERANCE, "window {window}: off by {worst:.1e}");
    }
}

/// The models are no use if a mistake does not show in them. So each fraction of the metadata, and
/// each window, is changed in turn, and the plain pass must notice. (Not epsilon, which is too
/// small beside activations of about one.)
#[test]
fn every_constant_of_every_family_shows_in_the_logits() {
    let folder = tempfile::tempdir().unwrap();
    let mut unseen = Vec::new();
    for family in Family::ALL {
        let recipe = Recipe::of(family, Format::F32, 1);
        let path = write(folder.path(), family, 1);
        let prompt = prompt(5);
        let expected = plain::logits(&path, &prompt, Numerics::exact(512));
        let changed_path = folder.path().join("changed.gguf");
        for (key, value) in recipe.metadata() {
            let changed = match value {
                _ if key.ends_with("epsilon") => continue,
                Value::Float(number) => Value::Float(number * 1.25),
                Value::Unsigned(number) if key.ends_with("window") => Value::Unsigned(number + 1),
                _ => continue,
            };
            write_changed(&recipe, &path, &key, changed, &changed_path);
            let got = plain::logits(&changed_path, &prompt, Numerics::exact(512));
            let got: Vec<f32> = got.iter().map(|logit| *logit as f32).collect();
            let shift = relative_worst(&got, &expected);
            if shift < 10.0 * TOLERANCE {
                unseen.push(format!("{family:?} {key}: {shift:.1e}"));
            }
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}

/// Writes the model of `recipe`, which lies at `path`, with another value for `key`.
fn write_changed(recipe: &Recipe, path: &Path, key: &str, value: Value, changed: &Path) {
    let mut metadata = recipe.metadata();
    let (_, old) = metadata.iter_mut().find(|(known, _)| known == key).unwrap();
    *old = value;
    let length = header_bytes(3, &recipe.metadata(), &recipe.tensors()).len();
    let mut bytes = header_bytes(3, &metadata, &recipe.tensors());
    bytes.extend(&std::fs::read(path).unwrap()[length..]);
    std::fs::write(changed, bytes).unwrap();
}

/// Runs `check` on models of every family, tells how each did, and fails if any failed.
pub(crate) fn check_families(check: impl Fn(Family, &Path, &ModelFile) -> Result<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for family in Family::ALL {
        for seed in 1..=2 {
            let path = write(folder.path(), family, seed);
            let outcome = match ModelFile::open(&path) {
                Ok(file) => check(family, &path, &file),
                Err(error) => Err(error.to_string()),
            };
            match outcome {
                Ok(figure) => eprintln!("{family:?} {seed}: {figure}"),
                Err(failure) => failures.push(format!("{family:?} {seed}: {failure}")),
            }
        }
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count} models failed:\n{}", failures.join("\n"));
}

/// A model in single precision. The second seed of each family turns round whether the output is
/// tied, and gives Llama its frequency factors.
fn write(folder: &Path, family: Family, seed: u64) -> PathBuf {
    let usual = Recipe::of(family, Format::F32, seed);
    let recipe = match seed % 2 {
        0 => Recipe { tied_output: !usual.tied_output, rope_factors: true, ..usual },
        _ => usual,
    };
    let path = folder.join(format!("{family:?}-{seed}.gguf"));
    recipe.write(&path).unwrap();
    path
}

pub(crate) fn prompt(seed: u64) -> Vec<u32> {
    (0..PROMPT as u64).map(|i| ((i * 7919 + seed * 104_729) % 272) as u32).collect()
}

pub(crate) fn window(file: &ModelFile) -> u32 {
    file.shape().context_length
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The parts between `cuts`, each alone in a model of its own, with a session for `window`
/// positions.
fn stages(file: &ModelFile, cuts: &[u32], window: u32) -> Vec<(LoadedModel, Session)> {
    parts(file, cuts).into_iter().map(|part| stage(file, part, window)).collect()
}

/// `part` alone in a model of its own.
pub(crate) fn stage(file: &ModelFile, part: ModelPart, window: u32) -> (LoadedModel, Session) {
    let model = load_part(file, &part, 1);
    let session = model.session(part, window).unwrap();
    (model, session)
}

/// All logits of `prompt`, fed in chunks of these lengths, over and over, through all stages.
pub(crate) fn run(
    stages: &mut [(LoadedModel, Session)],
    prompt: &[u32],
    chunks: &[usize],
) -> Vec<f32> {
    let mut out = Vec::new();
    let mut rest = prompt;
    for length in chunks.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*length).min(rest.len()));
        let mut carried = Vec::new();
        for (index, (model, session)) in stages.iter_mut().enumerate() {
            let input = if index == 0 { Input::Tokens(chunk) } else { Input::Hidden(&carried) };
            carried = values(session.step(model, input, LogitRows::All).unwrap());
        }
        out.extend(carried);
        rest = after;
    }
    out
}
