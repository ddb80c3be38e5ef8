//! The executor for GPUs of any vendor on the newer tiny models, against the CPU: at every legal cut
//! and in chunks, in batches, truncated, resumed, cancelled and handed over both ways. Layers that
//! remember in one state, in the last positions alone or in nothing are among them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::executors::*;
use crate::fixtures::{newer_models, values};
use crate::gpu::gpu;
use crate::newer_sessions::is_recurrent;
use nook_model::{
    BatchPiece, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Precision, Session,
    StepError,
};

/// Positions that a session may have.
const WINDOW: u32 = 200;

struct Case {
    name: String,
    gpu: LoadedModel,
    cpu: LoadedModel,
    prompt: Vec<u32>,
    /// The CPU's logits of all positions of the prompt.
    expected: Vec<f32>,
}

impl Case {
    fn session(&self, on: &LoadedModel) -> Session {
        on.session(whole(self.gpu.file()), WINDOW).unwrap()
    }

    /// The next positions of the prompt, up to `end`, on the device of the session.
    fn step(&self, on: &LoadedModel, session: &mut Session, end: usize) -> Vec<f32> {
        let input = Input::Tokens(&self.prompt[session.position() as usize..end]);
        values(session.step(on, input, LogitRows::All).unwrap())
    }

    /// The logits from position `first` on are the CPU's.
    #[track_caller]
    fn check(&self, what: &str, got: &[f32], first: usize) {
        let width = self.gpu.file().shape().vocabulary as usize;
        let expected = &self.expected[first * width..][..got.len()];
        let off = relative(got, expected);
        eprintln!("{}, {what}: {off:.1e}", self.name);
        assert!(off < TOLERANCE, "{}, {what}: {off:.1e}", self.name);
    }
}

/// Every newer model, in single precision; nothing without a driver.
fn cases(test: &str) -> impl Iterator<Item = Case> {
    let gpu = gpu(test);
    let models = if gpu.is_some() { newer_models(test) } else { Vec::new() };
    let has_cases = models.iter().any(|known| known.name.ends_with("-f16"));
    assert!(models.is_empty() || has_cases, "the models have other names now");
    models.into_iter().filter_map(move |known| {
        let name = known.name.strip_suffix("-f16")?.to_owned();
        let file = ModelFile::open(&known.file).unwrap();
        let options = LoadOptions { threads: 1, precision: Precision::Full };
        let mut card = LoadedModel::with_gpu(file.clone(), gpu.as_ref()?, options).unwrap();
        card.hold(&whole(&file)).unwrap_or_else(|error| panic!("{error}"));
        let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| (i * 7919 + 13) % 512).collect();
        let cpu = cpu(&file, Precision::Full);
        let mut session = cpu.session(whole(&file), WINDOW).unwrap();
        let output = session.step(&cpu, Input::Tokens(&prompt), LogitRows::All).unwrap();
        Some(Case { name, gpu: card, cpu, prompt, expected: values(output) })
    })
}

#[test]
fn cuts_and_chunks_do_not_show() {
    for case in cases("cuts and chunks of newer models on a GPU") {
        let file = case.gpu.file();
        let layers = file.shape().layers;
        case.check("in chunks", &run(&case.gpu, &[], &case.prompt, &CHUNKS), 0);
        for cut in (0..=layers).filter(|cut| file.may_cut(*cut)) {
            let got = run(&case.gpu, &[cut], &case.prompt, &[PROMPT]);
            case.check(&format!("cut at {cut}"), &got, 0);
        }
    }
}

#[test]
fn sessions_of_a_batch_see_each_other_nowhere() {
    for case in cases("batches of newer models on a GPU") {
        let (mut one, mut two) = (case.session(&case.gpu), case.session(&case.gpu));
        case.step(&case.gpu, &mut one, 1);
        case.step(&case.gpu, &mut two, 33);
        let mut batch = [(&mut one, 1..40), (&mut two, 33..34)].map(|(session, rows)| {
            let input = Input::Tokens(&case.prompt[rows]);
            BatchPiece { session, input, rows: LogitRows::All }
        });
        let outputs = case.gpu.step_batch(&mut batch, &|| false).unwrap();
        let [got_one, got_two] = <[_; 2]>::try_from(outputs).unwrap().map(values);
        case.check("first of a batch", &got_one, 1);
        case.check("second of a batch", &got_two, 33);
        case.check("after a batch", &case.step(&case.gpu, &mut one, PROMPT), 40);
    }
}

#[test]
fn a_session_is_truncated_cancelled_resumed_and_replayed() {
    for case in cases("truncated sessions of newer models on a GPU") {
        let mut session = case.session(&case.gpu);
        case.step(&case.gpu, &mut session, 40);
        let bytes = session.cache_bytes();
        let detour = Input::Tokens(&[9, 8, 7]);
        session.step(&case.gpu, detour, LogitRows::None).unwrap();
        session.truncate(40).unwrap();
        assert_eq!((session.position(), session.cache_bytes()), (40, bytes), "{}", case.name);
        for stop_at in 0..=case.gpu.file().shape().layers as usize {
            let asked = AtomicUsize::new(0);
            let late = || asked.fetch_add(1, Ordering::Relaxed) == stop_at;
            let left = session.step_unless(&case.gpu, detour, LogitRows::Last, &late);
            assert_eq!(left, Err(StepError::Cancelled), "{}", case.name);
        }
        case.check("after a detour", &case.step(&case.gpu, &mut session, 55), 40);
        session.resume(40, WINDOW).unwrap();
        case.check("resumed", &case.step(&case.gpu, &mut session, PROMPT), 40);
        // Further back goes only what remembers every position.
        assert_eq!(session.truncate(25).is_err(), is_recurrent(&case.name), "{}", case.name);
        session.truncate(0).unwrap();
        assert_eq!(session.cache_bytes(), 0, "{}", case.name);
        case.check("replayed", &case.step(&case.gpu, &mut session, PROMPT), 0);
    }
}

#[test]
fn what_a_session_remembers_goes_from_gpu_to_cpu_and_back() {
    for case in cases("hand-over of newer models on a GPU") {
        let layers = whole(case.gpu.file()).layers;
        let mut first = case.session(&case.gpu);
        case.step(&case.gpu, &mut first, 40);
        let mut second = case.session(&case.cpu);
        second.import(&first.export(layers, 0..40).unwrap()).unwrap();
        let again = second.export(layers, 0..40).unwrap();
        assert!(first.export(layers, 0..40).unwrap() == again, "{}", case.name);
        case.check("on the CPU", &case.step(&case.cpu, &mut second, 50), 40);
        let mut third = case.session(&case.gpu);
        third.import(&second.export(layers, 0..50).unwrap()).unwrap();
        third.import(&again).unwrap_err();
        assert_eq!(third.position(), 50, "{}", case.name);
        case.check("back on the GPU", &case.step(&case.gpu, &mut third, PROMPT), 50);
    }
}
