//! The executor for GPUs of any vendor against the kernels of the CPU, on the first adapter of this
//! computer (Mesa's software one where there is no card): every family whole, at every cut and in
//! chunks; sessions, batches and hand-over. Without a driver these tests say so and end; where a CI
//! system runs them they fail.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::sync::OnceLock;

use crate::executors::*;
use crate::fixtures::values;
use nook_base::{LayerRange, ModelPart};
use nook_kernels::Format;
use nook_model::nook_gpu::{Choice, Gpu, KernelSet, OpenOptions, adapters};
use nook_model::synthetic::{Family, Mix, Recipe};
use nook_model::{
    BatchPiece, Device, Fault, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision,
    StepError,
};

/// The first adapter, opened once for all tests of this file; `None` without a driver.
pub(crate) fn gpu(test: &str) -> Option<Gpu> {
    static OPEN: OnceLock<Option<Gpu>> = OnceLock::new();
    let open = || {
        let options = OpenOptions { choice: Choice::Index(0), ..OpenOptions::default() };
        (!adapters().is_empty()).then(|| Gpu::open(&options).unwrap())
    };
    let gpu = OPEN.get_or_init(open).clone();
    if gpu.is_none() {
        assert!(nook_base::env::text("CI").is_none(), "CI needs mesa-vulkan-drivers: {test}");
        eprintln!("left out, no GPU driver: {test}");
    }
    gpu
}

#[test]
fn every_family_gives_the_logits_of_the_cpu_whole_at_every_cut_and_in_chunks() {
    let Some(gpu) = gpu("every family") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for family in Family::ALL.into_iter() {
        for seed in 1..=2 {
            let file = ModelFile::open(&write(folder.path(), family, seed)).unwrap();
            let model = on_gpu(&gpu, &file, Precision::Full, &whole(&file));
            let prompt = prompt(seed);
            let expected = on_cpu(&file, &prompt, Precision::Full);
            let layers = file.shape().layers;
            let mut worst = relative(&run(&model, &[], &prompt, &CHUNKS), &expected);
            // The forms with many layers, and the second seeds, differ in nothing but constants.
            let step = (layers as usize).div_ceil(if seed == 1 { 6 } else { 1 });
            for cut in (0..=layers).step_by(step).filter(|cut| file.may_cut(*cut)) {
                let got = run(&model, &[cut], &prompt, &[PROMPT]);
                worst = worst.max(relative(&got, &expected));
            }
            let line = format!("{family:?} {seed}: {worst:.1e}");
            eprintln!("{line}");
            if worst >= TOLERANCE {
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn parts_of_a_model_load_alone() {
    let Some(gpu) = gpu("parts of a model") else { return };
    let folder = tempfile::tempdir().unwrap();
    let all = [Family::Llama, Family::Gemma3, Family::Deepseek2, Family::Gemma3n, Family::Gemma4];
    for family in all {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let prompt = prompt(3);
        let cut = (0..=file.shape().layers / 2).rev().find(|cut| file.may_cut(*cut)).unwrap();
        let mut carried = Vec::new();
        for (index, part) in parts(&file, &[0, cut, cut]).into_iter().enumerate() {
            let model = on_gpu(&gpu, &file, Precision::Full, &part);
            assert_eq!(model.has_embedding(), part.embedding, "{family:?}");
            assert_eq!(model.has_head(), part.head, "{family:?}");
            let mut session = model.session(part, file.shape().context_length).unwrap();
            let input = if index == 0 { Input::Tokens(&prompt) } else { Input::Hidden(&carried) };
            carried = values(session.step(&model, input, LogitRows::All).unwrap());
        }
        let off = relative(&carried, &on_cpu(&file, &prompt, Precision::Full));
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");
    }
}

/// Activations are rounded to bytes as on the CPU. Where a number lies in the middle of two bytes
/// the two may still round apart, and then every later layer does in some places; but no logit gets
/// worse by it. (Two roundings that had nothing in common would be apart by 1.4 times what one
/// costs.)
#[test]
fn quantised_weights_give_nearly_the_logits_of_the_cpu() {
    let Some(gpu) = gpu("quantised weights") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("quantised.gguf");
    let mixes = [
        Mix::All(Format::Q4_0),
        Mix::All(Format::Q4_1),
        Mix::All(Format::Q5_0),
        Mix::All(Format::Q5_1),
        Mix::All(Format::Q8_0),
        Mix::All(Format::Q2K),
        Mix::All(Format::Q3K),
        Mix::All(Format::Q4K),
        Mix::All(Format::Q5K),
        Mix::All(Format::Q6K),
        Mix::All(Format::F16),
        Mix::All(Format::Bf16),
        Mix::All(Format::Iq4Nl),
        Mix::All(Format::Iq4Xs),
        Mix::Q4KM,
    ];
    let mut failures = Vec::new();
    for mix in mixes {
        let tiny = Recipe::tiny(Format::F32, 7);
        let wide = Recipe { hidden: 256, head_dim: 64, feed_forward: 512, ..tiny };
        Recipe { mix, ..wide }.write(&path).unwrap();
        let file = ModelFile::open(&path).unwrap();
        let prompt = prompt(4);
        let part = whole(&file);
        let exact = on_cpu(&file, &prompt, Precision::Full);
        let rounded = on_cpu(&file, &prompt, Precision::Fast);
        let cost = relative(&rounded, &exact);
        let model = on_gpu(&gpu, &file, Precision::Fast, &part);
        let got = run(&model, &[2], &prompt, &CHUNKS);
        let (apart, off) = (relative(&got, &rounded), relative(&got, &exact));
        let line = format!("{mix:?}: {apart:.1e} from the CPU, whose rounding costs {cost:.1e}");
        eprintln!("{line}");
        if apart >= cost || off >= 1.1 * cost {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn sessions_of_a_batch_see_each_other_nowhere() {
    let Some(gpu) = gpu("sessions of a batch") else { return };
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Gemma2, Family::Qwen35, Family::Deepseek3, Family::Phi3LongRope] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let model = on_gpu(&gpu, &file, Precision::Full, &whole(&file));
        let (one, two) = (prompt(5), prompt(6));
        let mut a = model.session(whole(&file), 128).unwrap();
        // Another window, so another set of factors in a model with long rope.
        let mut b = model.session(whole(&file), 512).unwrap();
        b.step(&model, Input::Tokens(&two[..20]), LogitRows::None).unwrap();
        let mut batch = [
            BatchPiece { session: &mut a, input: Input::Tokens(&one), rows: LogitRows::All },
            BatchPiece { session: &mut b, input: Input::Tokens(&two[20..]), rows: LogitRows::Last },
        ];
        let outputs = model.step_batch(&mut batch, &|| false).unwrap();
        let [got_one, got_two] = <[_; 2]>::try_from(outputs).unwrap().map(values);
        let expected = |prompt: &[u32], window: u32| {
            let cpu = cpu(&file, Precision::Full);
            let mut session = cpu.session(whole(&file), window).unwrap();
            values(session.step(&cpu, Input::Tokens(prompt), LogitRows::All).unwrap())
        };
        let off = relative(&got_one, &expected(&one, 128));
        assert!(off < TOLERANCE, "{family:?}, first: {off:.1e}");
        let all = expected(&two, 512);
        let last = &all[all.len() - file.shape().vocabulary as usize..];
        let off = relative(&got_two, last);
        assert!(off < TOLERANCE, "{family:?}, second: {off:.1e}");
    }
}

#[test]
fn a_session_that_was_truncated_or_cancelled_is_one_that_never_went_on() {
    let Some(gpu) = gpu("truncated sessions") else { return };
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Llama, Family::Gemma3, Family::Qwen35, Family::Minicpm3] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let model = on_gpu(&gpu, &file, Precision::Full, &whole(&file));
        let prompt = prompt(7);
        let expected = on_cpu(&file, &prompt, Precision::Full);
        let mut session = model.session(whole(&file), 512).unwrap();
        session.step(&model, Input::Tokens(&prompt[..30]), LogitRows::None).unwrap();
        session.step(&model, Input::Tokens(&[9; 25]), LogitRows::None).unwrap();
        session.truncate(30).unwrap();
        let calls = std::sync::atomic::AtomicU32::new(0);
        let late = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
        let rest = Input::Tokens(&prompt[30..]);
        session.step_unless(&model, rest, LogitRows::All, &late).unwrap_err();
        assert_eq!(session.position(), 30);
        let got = values(session.step(&model, rest, LogitRows::All).unwrap());
        let off = relative(&got, &expected[expected.len() - got.len()..]);
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");
        assert_eq!(session.cache_bytes(), model.cache_bytes(whole(&file).layers, PROMPT as u32));
        session.truncate(0).unwrap();
        assert_eq!(session.cache_bytes(), 0);
    }
}

#[test]
fn a_cache_grows_by_blocks_and_keeps_what_it_holds() {
    let Some(gpu) = gpu("growing caches") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Mistral, 1)).unwrap();
    let model = on_gpu(&gpu, &file, Precision::Full, &whole(&file));
    let long: Vec<u32> = (0..500).map(|i| (i * 7919 + 13) % 272).collect();
    let expected = on_cpu(&file, &long, Precision::Full);
    // Over the edges of blocks in steps of several lengths.
    let got = run(&model, &[2], &long, &[200, 1, 90, 1, 208]);
    let off = relative(&got, &expected);
    assert!(off < TOLERANCE, "{off:.1e}");
}

#[test]
fn what_a_session_remembers_goes_from_gpu_to_cpu_and_back() {
    let Some(gpu) = gpu("hand-over") else { return };
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Qwen3, Family::Qwen35, Family::Deepseek2, Family::Deepseek2Whole] {
        for precision in [Precision::Full, Precision::Fast] {
            let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
            let part = whole(&file);
            let card = on_gpu(&gpu, &file, precision, &part);
            let cpu = cpu(&file, precision);
            let prompt = prompt(8);
            let mut first = card.session(part, 512).unwrap();
            first.step(&card, Input::Tokens(&prompt[..40]), LogitRows::None).unwrap();
            let exported = first.export(part.layers, 0..40).unwrap();
            let mut second = cpu.session(part, 512).unwrap();
            second.import(&exported).unwrap();
            let again = second.export(part.layers, 0..40).unwrap();
            assert!(exported == again, "{family:?}");
            second.step(&cpu, Input::Tokens(&prompt[40..50]), LogitRows::None).unwrap();
            let mut third = card.session(part, 512).unwrap();
            if family == Family::Qwen35 {
                // A delta net has no state but the last one.
                third.import(&second.export(part.layers, 0..50).unwrap()).unwrap();
            } else {
                third.import(&again).unwrap();
                third.import(&second.export(part.layers, 40..50).unwrap()).unwrap();
                let middle = third.export(part.layers, 37..50).unwrap();
                assert!(middle == second.export(part.layers, 37..50).unwrap(), "{family:?}");
            }
            third.import(&exported).unwrap_err();
            assert_eq!(third.position(), 50);
            let got = third.step(&card, Input::Tokens(&prompt[50..]), LogitRows::All).unwrap();
            let got = values(got);
            let expected = on_cpu(&file, &prompt, precision);
            let off = relative(&got, &expected[expected.len() - got.len()..]);
            let limit = if precision == Precision::Full { TOLERANCE } else { 1e-2 };
            assert!(off < limit, "{family:?}: {off:.1e}");
        }
    }
}

/// The floor of all devices: no subgroups, the limits of WebGPU, small bindings, short submissions.
#[test]
fn the_least_device_computes_the_same() {
    if gpu("the least device").is_none() {
        return;
    }
    let options = OpenOptions {
        choice: Choice::Index(0),
        kernels: Some(KernelSet::Portable),
        binding_bytes: Some(1 << 20),
        // A few products: a layer of a prompt takes several.
        submission_work: Some(100_000),
        ..OpenOptions::default()
    };
    let least = Gpu::open(&options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for family in [Family::Llama, Family::Gemma3] {
        let file = ModelFile::open(&write(folder.path(), family, 1)).unwrap();
        let model = on_gpu(&least, &file, Precision::Full, &whole(&file));
        let prompt = prompt(9);
        let expected = on_cpu(&file, &prompt, Precision::Full);
        let off = relative(&run(&model, &[1], &prompt, &CHUNKS), &expected);
        assert!(off < TOLERANCE, "{family:?}: {off:.1e}");
    }
}

#[test]
fn a_budget_one_layer_too_small_is_refused_by_figure_and_what_was_held_stays() {
    if gpu("a budget").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Llama, 1)).unwrap();
    let layers = file.shape().layers;
    let part = |end| ModelPart { layers: LayerRange::all(end), embedding: true, head: false };
    let open = |budget| {
        let choice = Choice::Index(0);
        Gpu::open(&OpenOptions { choice, budget, ..OpenOptions::default() }).unwrap()
    };
    let free = open(None);
    let roomy = on_gpu(&free, &file, Precision::Full, &part(layers));
    let needed = free.used_bytes();
    assert!(needed > 0 && roomy.holds(&part(layers)));
    let tight = open(Some(needed - 1));
    let mut model = on_gpu(&tight, &file, Precision::Full, &part(layers - 1));
    let before = tight.used_bytes();
    let error = model.hold(&part(layers)).unwrap_err();
    let Fault::Gpu { error } = &error.fault else { panic!("{error}") };
    assert_eq!(error.code(), "gpu_out_of_memory");
    assert!(error.to_string().contains(&(needed - 1).to_string()), "{error}");
    assert_eq!(tight.used_bytes(), before);
    assert!(model.holds(&part(layers - 1)));
}

#[test]
fn a_lost_gpu_ends_steps_with_its_own_code() {
    if gpu("a lost GPU").is_none() {
        return;
    }
    let choice = Choice::Index(0);
    let own = Gpu::open(&OpenOptions { choice, ..OpenOptions::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Llama, 1)).unwrap();
    let model = on_gpu(&own, &file, Precision::Full, &whole(&file));
    let mut session = model.session(whole(&file), 64).unwrap();
    session.step(&model, Input::Tokens(&[1, 2]), LogitRows::Last).unwrap();
    own.destroy();
    let error = session.step(&model, Input::Tokens(&[3]), LogitRows::Last).unwrap_err();
    let StepError::Gpu { error } = error else { panic!("{error}") };
    assert_eq!(error.code(), "gpu_lost");
    assert_eq!(session.position(), 2);
}

#[test]
fn a_session_steps_where_it_was_made_and_nowhere_else() {
    let Some(gpu) = gpu("sessions and devices") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Llama, 1)).unwrap();
    let card = on_gpu(&gpu, &file, Precision::Full, &whole(&file));
    let cpu = cpu(&file, Precision::Full);
    assert_eq!((card.device(), cpu.device()), (Device::Gpu(0), Device::Cpu));
    for (own, other) in [(&card, &cpu), (&cpu, &card)] {
        let mut session = own.session(whole(&file), 64).unwrap();
        let refused = session.step(other, Input::Tokens(&[1]), LogitRows::Last);
        assert_eq!(refused.unwrap_err(), StepError::OtherModel);
        session.step(own, Input::Tokens(&[1]), LogitRows::Last).unwrap();
    }
}

#[test]
fn a_gpu_that_is_not_there_is_refused_and_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = ModelFile::open(&write(folder.path(), Family::Llama, 1)).unwrap();
    let options = LoadOptions { threads: 1, precision: Precision::Auto };
    let error = LoadedModel::new_on(file, Device::Gpu(63), options).unwrap_err();
    assert!(matches!(error.fault, Fault::Gpu { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("gpu:63") && said.matches("compute on the CPU").count() == 1, "{said}");
}

pub(crate) fn on_gpu(
    gpu: &Gpu,
    file: &ModelFile,
    precision: Precision,
    part: &ModelPart,
) -> LoadedModel {
    let options = LoadOptions { threads: 1, precision };
    let mut model = LoadedModel::with_gpu(file.clone(), gpu, options).unwrap();
    model.hold(part).unwrap_or_else(|error| panic!("{error}"));
    model
}
