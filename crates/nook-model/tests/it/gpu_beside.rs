//! One model on a GPU and on the processor beside it: whatever of it the GPU has memory and kernels
//! for, the logits are the processor's, and sessions are as they are on one device.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code outside `#[test]`")]

use crate::executors::*;
use crate::fixtures::values;
use crate::gpu::gpu;
use nook_base::{LayerRange, ModelPart};
use nook_model::nook_gpu::{Choice, Gpu, OpenOptions};
use nook_model::synthetic::Family;
use nook_model::{
    BatchPiece, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision, StepError,
};

/// A card with so much memory of its own.
fn of_budget(budget: u64) -> Gpu {
    let (choice, budget, shares_memory) = (Choice::Index(0), Some(budget), Some(false));
    Gpu::open(&OpenOptions { choice, budget, shares_memory, ..OpenOptions::default() }).unwrap()
}

fn beside(gpu: &Gpu, file: &ModelFile, precision: Precision) -> LoadedModel {
    let options = LoadOptions { threads: 1, precision };
    let mut model = LoadedModel::with_gpu_and_cpu(file.clone(), gpu, options).unwrap();
    model.hold(&whole(file)).unwrap();
    model
}

fn on_gpu(model: &LoadedModel) -> u32 {
    model.held_on_gpu().iter().map(|range| range.len()).sum()
}

/// A GPU on which so many layers of `file` lie, found by giving it more and more memory.
fn with_layers(file: &ModelFile, precision: Precision, layers: u32) -> (Gpu, LoadedModel) {
    let roomy = of_budget(1 << 30);
    let all = beside(&roomy, file, precision);
    let (mut low, mut high) = (0, 1 << 30);
    assert_eq!(on_gpu(&all), file.shape().layers);
    loop {
        let middle = u64::midpoint(low, high);
        let gpu = of_budget(middle);
        let model = beside(&gpu, file, precision);
        match on_gpu(&model).cmp(&layers) {
            std::cmp::Ordering::Equal => return (gpu, model),
            std::cmp::Ordering::Less => low = middle,
            std::cmp::Ordering::Greater => high = middle,
        }
        assert!(high - low > 1, "no budget holds {layers} layers");
    }
}

#[test]
fn whatever_fits_on_the_gpu_the_logits_are_those_of_the_processor() {
    if gpu("divided models").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (family, seed) in
        [(Family::Llama, 1), (Family::Llama, 2), (Family::Gemma3, 1), (Family::Qwen35, 2)]
    {
        let file = ModelFile::open(&write(folder.path(), family, seed)).unwrap();
        let layers = file.shape().layers;
        let prompt = prompt(seed);
        let expected = on_cpu(&file, &prompt, Precision::Full);
        for count in [0, 1, layers / 2, layers - 1, layers] {
            let (gpu, model) = with_layers(&file, Precision::Full, count);
            assert_eq!(model.held(), [LayerRange::all(layers)], "all of it is there, once");
            assert!(gpu.used_bytes() <= gpu.budget_bytes());
            for cuts in [&[][..], &[layers / 3], &[0, layers]] {
                let off = relative(&run(&model, cuts, &prompt, &CHUNKS), &expected);
                assert!(off < TOLERANCE, "{family:?} {seed}, {count} there, {cuts:?}: {off:.1e}");
            }
        }
    }
}

#[test]
fn bytes_are_counted_where_they_lie_before_and_after_loading() {
    if gpu("bytes of divided models").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=2 {
        let file = ModelFile::open(&write(folder.path(), Family::Llama, seed)).unwrap();
        let (gpu, model) = with_layers(&file, Precision::Full, 2);
        let part = whole(&file);
        let options = LoadOptions { threads: 1, precision: Precision::Full };
        let same = of_budget(gpu.budget_bytes());
        let empty = LoadedModel::with_gpu_and_cpu(file.clone(), &same, options).unwrap();
        let in_memory = |of: &LoadedModel| of.part_bytes_by_device(&part, u64::MAX).memory;
        let (all, here) = (model.part_bytes(&part), in_memory(&model));
        assert_eq!((empty.part_bytes(&part), in_memory(&empty)), (all, here));
        assert_eq!(model.weight_bytes(), all, "{seed}");
        assert!(here > 0 && here < all, "{here} of {all}");
        // What any layer needs is counted with each; the tables of the rope are not.
        let (there, used) = (all - here, gpu.used_bytes());
        assert!((there * 4 / 5..there * 5 / 4).contains(&used), "{used} for {there}");
    }
}

#[test]
fn sessions_of_divided_models_are_batched_truncated_cancelled_and_handed_over() {
    if gpu("sessions of divided models").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Llama, Family::Qwen35] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let layers = file.shape().layers;
        let (_gpu, model) = with_layers(&file, Precision::Full, layers / 2);
        let cpu = cpu(&file, Precision::Full);
        let (prompt, other) = (prompt(3), prompt(4));
        let expected = on_cpu(&file, &prompt, Precision::Full);
        let expected_other = on_cpu(&file, &other, Precision::Full);
        let part = whole(&file);
        let mut first = model.session(part, 512).unwrap();
        let mut second = model.session(part, 512).unwrap();

        // A step that its caller leaves is as if it had not been, on both devices.
        for stop_at in 0..layers {
            let calls = std::sync::atomic::AtomicU32::new(0);
            let late = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == stop_at;
            let input = Input::Tokens(&prompt[..30]);
            let left = first.step_unless(&model, input, LogitRows::None, &late);
            assert_eq!(left.unwrap_err(), StepError::Cancelled, "{stop_at}");
            assert_eq!((first.position(), first.cache_bytes()), (0, 0));
        }
        first.step(&model, Input::Tokens(&prompt[..30]), LogitRows::None).unwrap();
        first.step(&model, Input::Tokens(&[9; 5]), LogitRows::None).unwrap();
        first.truncate(30).unwrap();
        second.step(&model, Input::Tokens(&other[..50]), LogitRows::None).unwrap();
        let rows = LogitRows::All;
        let mut batch = [
            BatchPiece { session: &mut first, input: Input::Tokens(&prompt[30..40]), rows },
            BatchPiece { session: &mut second, input: Input::Tokens(&other[50..]), rows },
        ];
        let mut got = model.step_batch(&mut batch, &|| false).unwrap().into_iter();
        let vocabulary = file.shape().vocabulary as usize;
        let off =
            relative(&values(got.next().unwrap()), &expected[30 * vocabulary..40 * vocabulary]);
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");
        let off = relative(&values(got.next().unwrap()), &expected_other[50 * vocabulary..]);
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");

        // The other way round through the processor alone.
        let mut there = cpu.session(part, 512).unwrap();
        there.import(&first.export(part.layers, 0..40).unwrap()).unwrap();
        there.step(&cpu, Input::Tokens(&prompt[40..50]), LogitRows::None).unwrap();
        let mut back = model.session(part, 512).unwrap();
        back.import(&there.export(part.layers, 0..50).unwrap()).unwrap();
        let got = values(back.step(&model, Input::Tokens(&prompt[50..]), rows).unwrap());
        let off = relative(&got, &expected[50 * vocabulary..]);
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");
    }
}

/// Late layers read what earlier ones remember: those lie on one device together, and the table of
/// the layers' inputs by token with the processor.
#[test]
fn layers_that_cannot_be_cut_apart_lie_on_one_device() {
    if gpu("layers that lie together").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Gemma4, Family::Gemma3n] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let layers = file.shape().layers;
        let bound = file.uncuttable();
        assert!(!bound.is_empty(), "{family:?}");
        let first = bound[0] - 1;
        let prompt = prompt(6);
        let expected = on_cpu(&file, &prompt, Precision::Full);
        // Room for all of them or for none; a few before them, too.
        for count in [0, 1, first, layers] {
            let (gpu, model) = with_layers(&file, Precision::Full, count);
            let held = if count == 0 { Vec::new() } else { vec![LayerRange::all(count)] };
            assert_eq!(model.held_on_gpu(), held, "{family:?}");
            assert!(gpu.used_bytes() <= gpu.budget_bytes());
            let part = whole(&file);
            assert_eq!(model.weight_bytes(), model.part_bytes(&part), "{family:?} {count}");
            for cuts in [&[][..], &[1], &[0, layers]] {
                let off = relative(&run(&model, cuts, &prompt, &CHUNKS), &expected);
                assert!(off < TOLERANCE, "{family:?}, {count} there, {cuts:?}: {off:.1e}");
            }
        }
        // One of them that comes again comes where the others are, wherever there is room then.
        for count in [first, layers] {
            let (gpu, mut model) = with_layers(&file, Precision::Full, count);
            let before = model.held_on_gpu();
            let last = ModelPart::inner(LayerRange::with_len(layers - 1, 1));
            model.release(LayerRange::all(first));
            model.release(last.layers);
            model.unsettle();
            model.hold(&last).unwrap();
            let there = model.held_on_gpu().iter().any(|range| range.contains(last.layers));
            assert_eq!(there, count == layers, "{family:?}, {before:?} of {gpu:?}");
        }
        // Between, there is no budget that divides them.
        let (gpu, _) = with_layers(&file, Precision::Full, layers);
        for less in 1..20 {
            let budget = gpu.budget_bytes() - less * gpu.budget_bytes() / 40;
            let there = on_gpu(&beside(&of_budget(budget), &file, Precision::Full));
            assert!(there <= first || there == layers, "{family:?}: {there} of {layers}");
        }
    }
}

#[test]
fn a_layer_that_comes_again_comes_where_its_sessions_look_for_it() {
    if gpu("layers that come again").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Llama, 1)).unwrap();
    let (gpu, mut model) = with_layers(&file, Precision::Full, 2);
    let before = model.held_on_gpu();
    let prompt = prompt(7);
    let expected = on_cpu(&file, &prompt, Precision::Full);
    let mut session = model.session(whole(&file), 512).unwrap();
    session.step(&model, Input::Tokens(&prompt[..40]), LogitRows::None).unwrap();
    let used = gpu.used_bytes();
    model.release(LayerRange::all(file.shape().layers));
    assert!(gpu.used_bytes() < used);
    let missing = session.step(&model, Input::Tokens(&prompt[40..]), LogitRows::All).unwrap_err();
    assert!(matches!(missing, StepError::NotHeld { .. }), "{missing}");
    // In another order than the first time.
    for at in (0..file.shape().layers).rev() {
        model.hold(&ModelPart::inner(LayerRange::with_len(at, 1))).unwrap();
    }
    assert_eq!(model.held_on_gpu(), before);
    let got = values(session.step(&model, Input::Tokens(&prompt[40..]), LogitRows::All).unwrap());
    let off = relative(&got, &expected[expected.len() - got.len()..]);
    assert!(off < TOLERANCE, "{off:.1e}");
}
