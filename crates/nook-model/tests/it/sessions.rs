//! What a session refuses, and that a refusal changes nothing.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fixtures::{load, session, values, whole};
use nook_base::{LayerRange, ModelPart};
use nook_kernels::Format;
use nook_model::Device;
use nook_model::synthetic::{Family, Recipe};
use nook_model::{
    Fault, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, ResumeError,
    StepError, TruncateError,
};

fn tiny(seed: u64) -> LoadedModel {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    Recipe::tiny(Format::Q8_0, seed).write(&path).unwrap();
    load(&path, 2)
}

fn range(start: u32, end: u32) -> LayerRange {
    LayerRange::new(start, end).unwrap()
}

/// Whoever asks for a graphics card gets it or an error, never the processor instead.
#[cfg(not(any(feature = "cuda", feature = "metal")))]
#[test]
fn a_device_that_this_build_does_not_know_is_refused_by_name() {
    let file = tiny(1).file().clone();
    for device in [Device::Cuda(0), Device::Metal(1)] {
        let options = LoadOptions { threads: 1, precision: Precision::Auto };
        let error = LoadedModel::new_on(file.clone(), device, options).unwrap_err();
        assert_eq!(error.fault, Fault::DeviceSupport { device: device.to_string() });
    }
}

#[test]
fn refused_steps_leave_the_session_as_it_was() {
    let model = tiny(1);
    let mut session = model.session(whole(&model), 80).unwrap();
    session.step(&model, Input::Tokens(&[1, 5, 9]), LogitRows::None).unwrap();
    let bytes = session.cache_bytes();
    let mut refused = |input: Input<'_>| {
        let error = session.step(&model, input, LogitRows::Last).unwrap_err();
        assert_eq!((session.position(), session.cache_bytes()), (3, bytes));
        error
    };
    assert_eq!(refused(Input::Tokens(&[])), StepError::Empty);
    let vocabulary = 272;
    assert_eq!(refused(Input::Tokens(&[4, 272])), StepError::NoSuchToken { index: 1, vocabulary });
    let too_long = StepError::TooLong { position: 3, count: 78, limit: 80 };
    assert_eq!(refused(Input::Tokens(&[1; 78])), too_long);
    let expected = "token ids";
    assert_eq!(refused(Input::Hidden(&[0.0; 64])), StepError::WrongInput { expected });
    assert_eq!(session.truncate(4).unwrap_err().position, 3);
    // And it still goes on: exactly as many as there is room for.
    session.step(&model, Input::Tokens(&[1; 77]), LogitRows::Last).unwrap();
    assert_eq!(session.position(), 80);
}

#[test]
fn hidden_states_must_have_the_models_width() {
    let model = tiny(1);
    let part = ModelPart::inner(range(1, 3));
    let mut session = model.session(part, 10).unwrap();
    let got = session.step(&model, Input::Hidden(&[0.5; 100]), LogitRows::None);
    assert_eq!(got, Err(StepError::Width { got: 100, width: 64 }));
    let expected = "hidden states";
    let got = session.step(&model, Input::Tokens(&[1]), LogitRows::None);
    assert_eq!(got, Err(StepError::WrongInput { expected }));
    let got = session.step(&model, Input::Hidden(&[0.5; 128]), LogitRows::None).unwrap();
    assert!(matches!(got, Output::Hidden(values) if values.len() == 128));
}

#[test]
fn a_cancelled_step_stops_before_the_next_layer_and_changes_nothing() {
    let model = tiny(1);
    let expected = {
        let mut session = session(&model);
        values(session.step(&model, Input::Tokens(&[1, 2, 3]), LogitRows::Last).unwrap())
    };
    let mut session = session(&model);
    for stop_at in 0..=model.file().shape().layers as usize {
        let asked = AtomicUsize::new(0);
        let cancelled = || asked.fetch_add(1, Ordering::Relaxed) == stop_at;
        let input = Input::Tokens(&[9, 8, 7, 6]);
        let got = session.step_unless(&model, input, LogitRows::Last, &cancelled);
        assert_eq!(got, Err(StepError::Cancelled));
        assert_eq!(asked.load(Ordering::Relaxed), stop_at + 1);
        assert_eq!((session.position(), session.cache_bytes()), (0, 0));
    }
    let got = session.step(&model, Input::Tokens(&[1, 2, 3]), LogitRows::Last).unwrap();
    assert_eq!(values(got), expected);
}

#[test]
fn layers_are_held_one_by_one_and_overlaps_load_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    Recipe::tiny(Format::Q4_0, 2).write(&path).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let mut model =
        LoadedModel::new(file.clone(), LoadOptions { threads: 1, precision: Precision::Auto })
            .unwrap();
    assert_eq!((model.held(), model.weight_bytes()), (vec![], 0));
    model.hold(&ModelPart::inner(range(0, 2))).unwrap();
    model.hold(&ModelPart::inner(range(1, 3))).unwrap();
    assert_eq!(model.held(), [range(0, 3)]);
    assert_eq!(model.weight_bytes(), file.weight_bytes(&ModelPart::inner(range(0, 3))));
    model.release(range(1, 2));
    assert_eq!(model.held(), [range(0, 1), range(2, 3)]);
    let missing = model.session(ModelPart::inner(range(0, 3)), 10).unwrap_err().fault;
    assert!(matches!(missing, Fault::NotHeld { .. }));
    // The two ends of a tied model are one matrix.
    let ends = |embedding, head| ModelPart { layers: range(0, 0), embedding, head };
    model.release(LayerRange::all(u32::MAX));
    model.hold(&ends(false, true)).unwrap();
    model.hold(&ends(true, false)).unwrap();
    assert_eq!(model.weight_bytes(), file.weight_bytes(&ends(true, true)));
    assert!(file.weight_bytes(&ends(true, true)) < 2 * file.weight_bytes(&ends(true, false)));
    let beyond = model.hold(&ModelPart::inner(range(3, 5))).unwrap_err().fault;
    assert!(matches!(beyond, Fault::NoSuchLayers { layers: 4, .. }));
}

#[test]
fn released_layers_and_other_models_are_noticed() {
    let mut model = tiny(1);
    let other = tiny(1);
    let mut session = session(&model);
    let input = Input::Tokens(&[1]);
    assert_eq!(session.step(&other, input, LogitRows::None), Err(StepError::OtherModel));
    model.release(range(2, 3));
    let what = "layer 2".to_owned();
    assert_eq!(session.step(&model, input, LogitRows::None), Err(StepError::NotHeld { what }));
    model.hold(&whole(&model)).unwrap();
    session.step(&model, input, LogitRows::None).unwrap();
}

#[test]
fn a_session_is_never_longer_than_the_models_context() {
    let model = tiny(1);
    let fault = model.session(whole(&model), 513).unwrap_err().fault;
    assert_eq!(fault, Fault::ContextLength { limit: 512, asked: 513 });
}

/// All logits of `ids` in one session of this window.
fn logits(model: &LoadedModel, ids: &[u32], window: u32) -> Vec<f32> {
    let mut session = model.session(whole(model), window).unwrap();
    values(session.step(model, Input::Tokens(ids), LogitRows::All).unwrap())
}

#[test]
fn a_session_that_resumes_is_one_that_was_opened_so() {
    for family in [Family::Llama, Family::Phi3LongRope] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        Recipe::of(family, Format::Q8_0, 4).write(&path).unwrap();
        let model = load(&path, 1);
        let limit = model.file().shape().context_length;
        let (narrow, wide) = (limit / 4, limit);
        let ids: Vec<u32> = (0..40).map(|index| index * 7919 % 272).collect();
        let mut session = model.session(whole(&model), 30).unwrap();
        session.step(&model, Input::Tokens(&ids[..25]), LogitRows::None).unwrap();
        // Back to 20, and a window that the rest fits into.
        session.resume(20, narrow).unwrap();
        let got = session.step(&model, Input::Tokens(&ids[20..]), LogitRows::All).unwrap();
        let width = model.file().shape().vocabulary as usize;
        assert!(values(got) == logits(&model, &ids, narrow)[20 * width..], "{family:?}");
        // What cannot be is refused, and changes nothing.
        let truncate = TruncateError { position: 40, asked: 41 };
        let asked = limit + 1;
        assert_eq!(session.resume(41, narrow), Err(ResumeError::Truncate(truncate)));
        for asked in [39, asked] {
            let refused = Err(ResumeError::Window { asked, kept: 40, limit });
            assert_eq!(session.resume(40, asked), refused);
        }
        // Only some models turn positions otherwise in a wide window; then nothing kept counts
        // there.
        let changes = logits(&model, &ids, narrow) != logits(&model, &ids, wide);
        let outcome = session.resume(40, wide);
        assert_eq!(changes, family == Family::Phi3LongRope);
        assert_eq!(outcome.is_err(), changes, "{outcome:?}");
        assert_eq!(session.position(), 40);
        // From nothing, any window does.
        session.resume(0, wide).unwrap();
        assert_eq!((session.position(), session.positions_max()), (0, wide));
    }
}

#[test]
fn cache_memory_is_counted_before_it_is_taken() {
    let model = tiny(1);
    let mut session = session(&model);
    let layers = session.part().layers;
    for length in [1, 63, 1, 64] {
        let ids = vec![3; length];
        session.step(&model, Input::Tokens(&ids), LogitRows::None).unwrap();
        let counted = model.file().cache_bytes(layers, session.position());
        assert_eq!(session.cache_bytes(), counted);
    }
    // 4 layers, 3 blocks of 64 positions, keys and values, 2 heads of 16 numbers of 4 bytes.
    assert_eq!(session.cache_bytes(), 4 * 3 * 64 * 2 * 2 * 16 * 4);
}

#[test]
fn nothing_private_is_in_debug_output() {
    let model = tiny(1);
    let mut session = session(&model);
    let ids = [201, 202, 203];
    let output = session.step(&model, Input::Tokens(&ids), LogitRows::Last).unwrap();
    let error = session.step(&model, Input::Tokens(&[999]), LogitRows::Last).unwrap_err();
    let shown = format!("{session:?} {output:?} {:?} {error} {error:?}", Input::Tokens(&ids));
    for secret in ["201", "202", "203", "999"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
