//! One model, one set of bits: whatever the cuts, chunks, threads and instruction sets.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::sync::OnceLock;

use crate::fixtures::values;
use nook_base::{LayerRange, ModelPart};
use nook_kernels::{Compute, Format, Isa};
use nook_model::synthetic::{Mix, Recipe};
use nook_model::{Input, LoadedModel, LogitRows, ModelFile, Precision, Session};
use proptest::prelude::*;

/// Prompt of the property tests.
const PROMPT: usize = 90;

/// The models of the property tests: odd widths, grouped heads, blocks of 32 and of 256.
fn files() -> &'static [ModelFile] {
    static FILES: OnceLock<Vec<ModelFile>> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let tiny = Recipe::tiny(Format::Q8_0, 11);
        let recipes = [
            Recipe {
                feed_forward: 172,
                mix: Mix::All(Format::F16),
                tied_output: false,
                rope_factors: true,
                ..tiny.clone()
            },
            Recipe { hidden: 256, head_dim: 64, feed_forward: 512, mix: Mix::Q4KM, ..tiny.clone() },
            tiny,
        ];
        let mut files = Vec::new();
        for (index, recipe) in recipes.iter().enumerate() {
            let path = folder.path().join(format!("{index}.gguf"));
            recipe.write(&path).unwrap();
            files.push(ModelFile::open(&path).unwrap());
        }
        // The files stay open and outlive their names.
        files
    })
}

fn model(file: &ModelFile, threads: usize, isa: Isa, part: &ModelPart) -> LoadedModel {
    let compute = Compute::with_isa(threads, isa).unwrap();
    // Small models would choose full precision; here one does, and those with blocks round.
    let precision = if file.quantisation() == "F16" { Precision::Full } else { Precision::Fast };
    let mut model = LoadedModel::with_compute(file.clone(), compute, precision);
    model.hold(part).unwrap();
    model
}

fn prompt(seed: u64) -> Vec<u32> {
    (0..PROMPT as u64).map(|i| ((i * 7919 + seed * 104_729) % 272) as u32).collect()
}

/// All logits of the prompt in one step of one whole model, on one thread, with plain instructions.
fn undisturbed(file: &ModelFile, prompt: &[u32]) -> Vec<f32> {
    let part = ModelPart::whole(file.shape().layers);
    let model = model(file, 1, Isa::PLAIN, &part);
    let mut session = model.session(part, 512).unwrap();
    values(session.step(&model, Input::Tokens(prompt), LogitRows::All).unwrap())
}

/// The parts between `cuts` of a model of `layers` layers.
fn parts(layers: u32, cuts: &[u32]) -> Vec<ModelPart> {
    let mut edges: Vec<u32> = cuts.iter().map(|cut| cut.min(&layers)).copied().collect();
    edges.extend([0, layers]);
    edges.sort_unstable();
    let count = edges.len() - 1;
    let part = |(index, pair): (usize, &[u32])| ModelPart {
        layers: LayerRange::new(pair[0], pair[1]).unwrap(),
        embedding: index == 0,
        head: index + 1 == count,
    };
    edges.windows(2).enumerate().map(part).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sends one chunk through all parts in turn.
fn relay(stages: &mut [(LoadedModel, Session)], chunk: &[u32]) -> Vec<f32> {
    let mut carried = Vec::new();
    for (index, (model, session)) in stages.iter_mut().enumerate() {
        let input = if index == 0 { Input::Tokens(chunk) } else { Input::Hidden(&carried) };
        carried = values(session.step(model, input, LogitRows::All).unwrap());
    }
    carried
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn cuts_chunks_threads_and_instructions_do_not_show(
        which in 0usize..3,
        cuts in prop::collection::vec(0u32..5, 0..4),
        chunks in prop::collection::vec(1usize..40, 1..8),
        threads in prop::collection::vec(1usize..5, 5),
        isas in prop::collection::vec(0usize..4, 5),
        seed in 0u64..1000,
    ) {
        let file = &files()[which];
        let prompt = prompt(seed);
        let expected = undisturbed(file, &prompt);
        let available = Isa::available();
        let mut stages = Vec::new();
        for (index, part) in parts(file.shape().layers, &cuts).into_iter().enumerate() {
            let isa = available[isas[index] % available.len()];
            let model = model(file, threads[index], isa, &part);
            let session = model.session(part, 512).unwrap();
            stages.push((model, session));
        }
        let mut got = Vec::new();
        let mut rest = &prompt[..];
        for length in chunks.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at((*length).min(rest.len()));
            got.extend(relay(&mut stages, chunk));
            rest = after;
        }
        prop_assert_eq!(bits(&got), bits(&expected));
    }

    #[test]
    fn a_session_that_was_truncated_is_one_that_never_went_on(
        which in 0usize..3,
        keep in 1usize..80,
        detour in 1usize..40,
    ) {
        let file = &files()[which];
        let prompt = prompt(5);
        let expected = undisturbed(file, &prompt);
        let part = ModelPart::whole(file.shape().layers);
        let model = model(file, 2, Isa::detect(), &part);
        let mut session = model.session(part, 512).unwrap();
        let width = file.shape().vocabulary as usize;
        session.step(&model, Input::Tokens(&prompt[..keep]), LogitRows::None).unwrap();
        let away: Vec<u32> = (0..detour as u32).collect();
        session.step(&model, Input::Tokens(&away), LogitRows::Last).unwrap();
        session.truncate(keep as u32).unwrap();
        prop_assert_eq!(session.position() as usize, keep);
        prop_assert_eq!(session.cache_bytes(), model.cache_bytes(part.layers, keep as u32));
        let output = session.step(&model, Input::Tokens(&prompt[keep..]), LogitRows::All).unwrap();
        prop_assert_eq!(bits(&values(output)), bits(&expected[keep * width..]));
    }
}

/// Every cut of every model, both halves alone in memory.
#[test]
fn every_cut_gives_the_whole() {
    for file in files() {
        let prompt = prompt(1);
        let expected = undisturbed(file, &prompt);
        for cut in 0..=file.shape().layers {
            let mut stages = Vec::new();
            for part in parts(file.shape().layers, &[cut]) {
                let model = model(file, 2, Isa::detect(), &part);
                assert_eq!(model.weight_bytes(), file.weight_bytes(&part));
                let session = model.session(part, 512).unwrap();
                stages.push((model, session));
            }
            assert_eq!(bits(&relay(&mut stages, &prompt)), bits(&expected), "cut at {cut}");
        }
    }
}

#[test]
fn one_model_serves_sessions_on_several_threads() {
    let file = &files()[1];
    let part = ModelPart::whole(file.shape().layers);
    let model = model(file, 2, Isa::detect(), &part);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let model = &model;
            scope.spawn(move || {
                let prompt = prompt(seed);
                let mut session = model.session(part, 512).unwrap();
                let mut got = Vec::new();
                for chunk in prompt.chunks(13) {
                    let input = Input::Tokens(chunk);
                    got.extend(values(session.step(model, input, LogitRows::All).unwrap()));
                }
                assert_eq!(bits(&got), bits(&undisturbed(file, &prompt)));
            });
        }
    });
}

#[test]
fn the_last_row_is_the_last_of_all_rows() {
    let file = &files()[0];
    let prompt = prompt(3);
    let expected = undisturbed(file, &prompt);
    let part = ModelPart::whole(file.shape().layers);
    let model = model(file, 1, Isa::detect(), &part);
    let mut session = model.session(part, 512).unwrap();
    let output = session.step(&model, Input::Tokens(&prompt), LogitRows::Last).unwrap();
    let width = file.shape().vocabulary as usize;
    assert_eq!(bits(&values(output)), bits(&expected[expected.len() - width..]));
}
