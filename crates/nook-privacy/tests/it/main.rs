//! Promise: the meter reads what can be read, nothing where there is nothing, and says which.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use nook_base::ActivationDtype;
use nook_privacy::{
    Attack, BESIDE_WEIGHTS_MAX, MeasureWish, Prepared, PrivacyError, PrivacyView, Progress, measure,
};

const EMBER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");

const STORIES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/stories260K/stories260K-f32.gguf");

fn wish(model: &str) -> MeasureWish {
    MeasureWish {
        model: PathBuf::from(model),
        layers: None,
        tokens: 16,
        candidates: Some(96),
        noise: false,
        threads: Some(2),
    }
}

fn measured(wish: &MeasureWish) -> PrivacyView {
    measure(wish, &|_| {}).unwrap()
}

#[test]
fn whoever_has_the_model_file_reads_every_token_at_every_cut_in_every_format() {
    for model in [EMBER, STORIES] {
        let view = measured(&wish(model));
        assert!(view.controls.passed(), "{:?}", view.controls);
        let layers = view.model.layers;
        let cuts: Vec<u32> = view.cuts.iter().map(|cut| cut.layers_before).collect();
        assert_eq!(cuts, (0..=layers).collect::<Vec<_>>());
        for cut in &view.cuts {
            let formats: Vec<_> = cut.formats.iter().map(|it| it.format).collect();
            assert_eq!(formats, [ActivationDtype::F32, ActivationDtype::F16, ActivationDtype::Q8]);
            for of in &cut.formats {
                assert_eq!(of.recovered.replay, 1.0, "{} {of:?}", cut.layers_before);
            }
        }
        assert_eq!((view.tokens, view.candidates, view.highest.recovered), (16, 96, 1.0));
        assert!(view.meaning.contains("at least 100 of 100"), "{}", view.meaning);
    }
}

#[test]
fn the_last_helper_sees_what_the_model_says_next_and_the_first_one_what_was_said() {
    let view = measured(&wish(EMBER));
    let first = &view.cuts[0].formats[0];
    assert_eq!((first.recovered.nearest, first.recovered.highest()), (1.0, (Attack::Nearest, 1.0)));
    let last = &view.cuts.last().unwrap().formats[0];
    assert_eq!(last.next, 1.0);
    assert!(first.next < 0.5, "{first:?}");
    // One layer on, a map learnt from another text still reads most.
    let second = &view.cuts[1].formats[0];
    assert!(second.recovered.probe > 0.6, "{second:?}");
}

#[test]
fn only_what_is_asked_for_is_measured_beside_the_two_ends() {
    let wish = MeasureWish { layers: Some(vec![3]), tokens: 4, ..wish(EMBER) };
    let cuts: Vec<u32> = measured(&wish).cuts.iter().map(|cut| cut.layers_before).collect();
    assert_eq!(cuts, [0, 3, 6]);
    let wish = MeasureWish { layers: Some(vec![7]), ..wish };
    let refused = measure(&wish, &|_| {});
    assert!(matches!(refused, Err(PrivacyError::Layers { asked: 7, .. })), "{refused:?}");
}

#[test]
fn noise_is_measured_against_what_it_costs() {
    let wish = MeasureWish { noise: true, tokens: 8, layers: Some(vec![1]), ..wish(STORIES) };
    let view = measured(&wish);
    let noise = view.noise.unwrap();
    let (none, loudest) = (noise.levels[0], *noise.levels.last().unwrap());
    assert_eq!((none.noise, none.reply_kept, none.recovered.replay), (0.0, 1.0, 1.0));
    assert!(loudest.reply_kept < 0.2 && loudest.perplexity > 2.0 * none.perplexity, "{loudest:?}");
    assert_eq!(noise.layers_before, 1);
    // What was measured is the same each time.
    assert_eq!(measured(&wish).noise.unwrap(), noise);
}

#[test]
fn with_less_memory_the_same_is_measured_in_more_rounds_and_with_too_little_nothing() {
    let wish = MeasureWish { tokens: 64, layers: Some(vec![1]), ..wish(STORIES) };
    let whole = Prepared::of(&wish, u64::MAX).unwrap();
    let (weights, beside) = (whole.weight_bytes(), whole.beside_bytes());
    assert!(whole.in_use_bytes() < beside && beside < BESIDE_WEIGHTS_MAX, "{whole:?}");
    let divided = Prepared::of(&wish, weights + beside - 1).unwrap();
    assert!(divided.beside_bytes() < beside, "{divided:?} {whole:?}");
    let told = std::cell::RefCell::new(Vec::new());
    let view = divided.load().unwrap().measure(&|it| told.borrow_mut().push(it)).unwrap();
    let at_once = whole.load().unwrap().measure(&|_| {}).unwrap();
    assert_eq!(PrivacyView { measured_at: at_once.measured_at, ..view }, at_once);
    // Two rounds over 96 candidates.
    assert!(told.into_inner().contains(&Progress::Replay { done: 192, of: 192 }));

    let refused = Prepared::of(&wish, weights + (30 << 20)).unwrap_err();
    assert!(matches!(refused, PrivacyError::TooLarge { tokens: 64, fitting: None, .. }));
    let refused = Prepared::of(&wish, weights - 1).unwrap_err();
    assert!(matches!(refused, PrivacyError::NoRoom { .. }), "{refused:?}");
}

#[test]
fn what_was_measured_is_named_by_the_digest_of_its_file() {
    let view = measured(&MeasureWish { tokens: 4, layers: Some(vec![1]), ..wish(STORIES) });
    let digest = nook_model::ModelFile::digest_at(STORIES.as_ref()).unwrap();
    assert_eq!(view.model.digest, digest.to_string());
}

#[test]
fn a_file_that_changes_before_it_is_loaded_is_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stories.gguf");
    std::fs::copy(STORIES, &file).unwrap();
    let wish = MeasureWish { model: file.clone(), tokens: 4, ..wish(STORIES) };
    let prepared = Prepared::of(&wish, u64::MAX).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    bytes.push(0);
    std::fs::write(&file, bytes).unwrap();
    let refused = prepared.load().unwrap_err();
    assert!(matches!(refused, PrivacyError::Model(_)), "{refused:?}");
}

#[test]
fn debug_output_shows_no_path() {
    let wish = wish(STORIES);
    let prepared = Prepared::of(&wish, u64::MAX).unwrap();
    let before = format!("{wish:?} {prepared:?}");
    let shown = format!("{before} {:?}", prepared.load().unwrap());
    assert!(!shown.contains("stories") && shown.contains("Prepared"), "{shown}");
}

#[test]
fn progress_reaches_the_end_of_each_stage() {
    let told = std::cell::RefCell::new(Vec::new());
    measure(&MeasureWish { tokens: 4, ..wish(STORIES) }, &|it| told.borrow_mut().push(it)).unwrap();
    let told = told.into_inner();
    assert!(told.contains(&Progress::Cuts { done: 6, of: 6 }), "{told:?}");
    assert!(told.contains(&Progress::Replay { done: 96, of: 96 }), "{told:?}");
}

#[test]
fn files_that_are_no_models_are_refused_in_a_sentence() {
    let refused = measure(&wish(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")), &|_| {});
    assert!(matches!(refused, Err(PrivacyError::Model(_))), "{refused:?}");
}
