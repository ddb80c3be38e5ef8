//! Batches and hand-overs: rows of several sessions in one pass get the bits that each would get
//! alone, and a session that goes on elsewhere gets those it would have got here.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use crate::fixtures::{Known, newer_models, tiny_models, values, whole};
use nook_base::{LayerRange, ModelPart};
use nook_kernels::Format;
use nook_model::synthetic::{Mix, Recipe};
use nook_model::{
    BatchPiece, HandoverError, Input, LayerExport, LoadOptions, LoadedModel, LogitRows, ModelFile,
    Output, Precision, Session, StepError,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const VOCABULARY: u64 = 272;

fn load(file: &ModelFile, part: &ModelPart, threads: usize) -> LoadedModel {
    let options = LoadOptions { threads, precision: Precision::Auto };
    let mut model = LoadedModel::new(file.clone(), options).unwrap();
    model.hold(part).unwrap();
    model
}

fn random() -> ModelFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    let recipe = Recipe { mix: Mix::All(Format::Q8_0), ..Recipe::tiny(Format::Q8_0, 5) };
    recipe.write(&path).unwrap();
    ModelFile::open(&path).unwrap()
}

/// A random model, and one of each older family.
fn files(test: &str) -> Vec<(String, ModelFile)> {
    let mut files = vec![("random".to_owned(), random())];
    for Known { name, file, .. } in tiny_models(test) {
        if name.ends_with("-f16") {
            files.push((name, ModelFile::open(&file).unwrap()));
        }
    }
    files
}

fn prompt(seed: u64, length: usize) -> Vec<u32> {
    (0..length as u64).map(|i| ((i * 7919 + seed * 104_729) % VOCABULARY) as u32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// All logits of `prompt`, alone, in one step.
fn alone(model: &LoadedModel, prompt: &[u32], window: u32) -> Vec<f32> {
    let mut session = model.session(whole(model), window).unwrap();
    values(session.step(model, Input::Tokens(prompt), LogitRows::All).unwrap())
}

/// Sessions at different positions, chunks of different lengths, in random company.
#[test]
fn neighbours_in_a_batch_do_not_show() {
    let mut random = StdRng::seed_from_u64(7);
    let test = "batches of every family";
    let mut files = files(test);
    for known in newer_models(test) {
        if known.name.ends_with("-f16") {
            files.push((known.name, ModelFile::open(&known.file).unwrap()));
        }
    }
    for (name, file) in files {
        let model = load(&file, &ModelPart::whole(file.shape().layers), 2);
        let window = 100;
        let prompts: Vec<Vec<u32>> = (0..4).map(|seed| prompt(seed, 40)).collect();
        let mut sessions: Vec<Session> =
            prompts.iter().map(|_| model.session(whole(&model), window).unwrap()).collect();
        let mut got: Vec<Vec<f32>> = vec![Vec::new(); prompts.len()];
        while sessions.iter().zip(&prompts).any(|(s, p)| (s.position() as usize) < p.len()) {
            let mut batch = Vec::new();
            let mut who = Vec::new();
            for (index, session) in sessions.iter_mut().enumerate() {
                let left = &prompts[index][session.position() as usize..];
                let count = random.random_range(0..12).min(left.len());
                if count > 0 {
                    let input = Input::Tokens(&left[..count]);
                    batch.push(BatchPiece { session, input, rows: LogitRows::All });
                    who.push(index);
                }
            }
            let outputs = model.step_batch(&mut batch, &|| false).unwrap();
            for (index, output) in who.into_iter().zip(outputs) {
                got[index].extend(values(output));
            }
        }
        for (prompt, got) in prompts.iter().zip(&got) {
            assert_eq!(bits(got), bits(&alone(&model, prompt, window)), "{name}");
        }
    }
}

/// More rows than go through a layer together, with a neighbour on either side.
#[test]
fn groups_of_rows_do_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.gguf");
    Recipe { context_length: 2048, ..Recipe::tiny(Format::F16, 8) }.write(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let model = load(&file, &ModelPart::whole(4), 2);
    let prompts = [prompt(1, 3), prompt(2, 1100), prompt(3, 600)];
    let new = || model.session(whole(&model), 2048).unwrap();
    let mut sessions = [new(), new(), new()];
    let mut batch: Vec<BatchPiece<'_>> = sessions
        .iter_mut()
        .zip(&prompts)
        .zip([LogitRows::None, LogitRows::Last, LogitRows::All])
        .map(|((session, prompt), rows)| BatchPiece { session, input: Input::Tokens(prompt), rows })
        .collect();
    let outputs = model.step_batch(&mut batch, &|| false).unwrap();
    assert_eq!(outputs[0], Output::Logits { rows: 0, values: Vec::new() });
    // In small chunks, alone.
    for (index, output) in outputs.into_iter().enumerate().skip(1) {
        let mut session = new();
        let mut expected = Vec::new();
        for chunk in prompts[index].chunks(97) {
            expected.extend(values(
                session.step(&model, Input::Tokens(chunk), LogitRows::All).unwrap(),
            ));
        }
        let got = values(output);
        assert_eq!(bits(&got), bits(&expected[expected.len() - got.len()..]));
    }
}

#[test]
fn a_refused_batch_changes_no_session() {
    let model = load(&random(), &ModelPart::whole(4), 1);
    let mut first = model.session(whole(&model), 8).unwrap();
    let mut second = model.session(whole(&model), 8).unwrap();
    second.step(&model, Input::Tokens(&[1, 2]), LogitRows::None).unwrap();
    let mut refused = |ids: &[u32], stop: bool| {
        let all = LogitRows::All;
        let mut batch = [
            BatchPiece { session: &mut first, input: Input::Tokens(&[5]), rows: all },
            BatchPiece { session: &mut second, input: Input::Tokens(ids), rows: all },
        ];
        let error = model.step_batch(&mut batch, &|| stop).unwrap_err();
        assert_eq!((first.position(), second.position()), (0, 2));
        assert_eq!(first.cache_bytes(), 0);
        error
    };
    let error = refused(&[3, 9999], false);
    let vocabulary = VOCABULARY as u32;
    assert_eq!((error.piece, error.error), (1, StepError::NoSuchToken { index: 1, vocabulary }));
    let error = refused(&[1; 7], false);
    let too_long = StepError::TooLong { position: 2, count: 7, limit: 8 };
    assert_eq!((error.piece, error.error), (1, too_long));
    assert_eq!(refused(&[1], true).error, StepError::Cancelled);
    // Sessions over different parts cannot go together.
    let inner = ModelPart::inner(LayerRange::new(1, 2).unwrap());
    let mut third = model.session(inner, 8).unwrap();
    let rows = LogitRows::None;
    let mut batch = [
        BatchPiece { session: &mut first, input: Input::Tokens(&[5]), rows },
        BatchPiece { session: &mut third, input: Input::Hidden(&[0.0; 64]), rows },
    ];
    let error = model.step_batch(&mut batch, &|| false).unwrap_err();
    assert_eq!((error.piece, error.error), (1, StepError::OtherPart));
    assert_eq!(model.step_batch(&mut [], &|| false).unwrap(), []);
}

/// Two hosts hand their layers, in parts, to a third, which goes on as one that never changed.
#[test]
fn a_session_that_was_handed_over_goes_on_with_the_same_bits() {
    for (name, file) in files("hand-over of every family") {
        let layers = file.shape().layers;
        let all = ModelPart::whole(layers);
        let model = load(&file, &all, 2);
        let prompt = prompt(1, 80);
        let expected = alone(&model, &prompt, 100);
        let width = file.shape().vocabulary as usize;
        let mut here = model.session(all, 100).unwrap();
        here.step(&model, Input::Tokens(&prompt[..70]), LogitRows::None).unwrap();

        let other = load(&file, &all, 1);
        let mut there = other.session(all, 100).unwrap();
        for positions in [0..64, 64..70] {
            let cut = layers / 2;
            let export = |start, end| {
                here.export(LayerRange::new(start, end).unwrap(), positions.clone()).unwrap()
            };
            let exports = [export(0, cut), export(cut, layers)].concat();
            there.import(&exports).unwrap();
        }
        assert_eq!((there.position(), there.cache_bytes()), (70, here.cache_bytes()));
        let got = there.step(&other, Input::Tokens(&prompt[70..]), LogitRows::All).unwrap();
        assert_eq!(bits(&values(got)), bits(&expected[70 * width..]), "{name}");
    }
}

#[test]
fn holes_in_a_hand_over_are_refused_and_change_nothing() {
    let model = load(&random(), &ModelPart::whole(4), 1);
    let all = LayerRange::all(4);
    let mut here = model.session(whole(&model), 100).unwrap();
    here.step(&model, Input::Tokens(&prompt(1, 20)), LogitRows::None).unwrap();
    let export = |positions| here.export(all, positions).unwrap();
    let mut there = model.session(whole(&model), 15).unwrap();
    there.import(&export(0..5)).unwrap();
    let bytes = there.cache_bytes();
    let mut refused = |exports: &[LayerExport]| {
        let error = there.import(exports).unwrap_err();
        assert_eq!((there.position(), there.cache_bytes()), (5, bytes));
        error
    };
    // A hole in the positions, a repetition, too many of them.
    assert!(matches!(refused(&export(6..8)), HandoverError::Layer { layer: 0, .. }));
    assert!(matches!(refused(&export(0..5)), HandoverError::Layer { layer: 0, .. }));
    let limit = 15;
    assert_eq!(refused(&export(5..20)), HandoverError::TooLong { positions: 20, limit });
    // A hole in the layers, another order, one too many.
    let good = export(5..9);
    let missing = [&good[..1], &good[2..]].concat();
    let got = "layer 2".to_owned();
    assert_eq!(refused(&missing), HandoverError::Order { expected: 1, got });
    let got = "nothing".to_owned();
    assert_eq!(refused(&good[..3]), HandoverError::Order { expected: 3, got });
    let surplus = [&good[..], &good[..1]].concat();
    assert_eq!(refused(&surplus), HandoverError::Surplus { layer: 0 });
    // Layers that end at different positions.
    let uneven = [&good[..3], &export(5..8)[3..]].concat();
    let expected = HandoverError::Uneven { layer: 3, expected: 9, got: 8 };
    assert_eq!(refused(&uneven), expected);
    // Bytes that are none.
    let mut broken = good.clone();
    broken[2].bytes.truncate(30);
    assert!(matches!(refused(&broken), HandoverError::Layer { layer: 2, .. }));
    there.import(&good).unwrap();
    assert_eq!(there.position(), 9);
    // What is not there cannot be given away.
    let asked = LayerRange::new(3, 5).unwrap();
    let nowhere = HandoverError::NoSuchLayers { asked, held: all };
    assert_eq!(here.export(asked, 0..1).unwrap_err(), nowhere);
    assert!(here.export(all, 10..21).is_err());
    assert_eq!(format!("{:?}", good[0]), format!("layer 0: {} bytes", good[0].bytes.len()));
}
