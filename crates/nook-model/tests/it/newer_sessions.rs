//! Sessions over the newer tiny models: cut, in chunks, truncated, replayed, resumed, cancelled and
//! handed over, they give the bits of a session that was never disturbed. Layers that remember in
//! one state, in the last positions alone or in nothing are among them.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::families::{bits, run, stage};
use crate::fixtures::{load, newer_models, values, whole};
use nook_base::LayerRange;
use nook_model::{
    Fault, Input, LoadedModel, LogitRows, ModelFile, Session, StepError, TruncateError,
};

const POSITIONS: usize = 70;

/// Chunks that prompts are fed in: decode steps, odd lengths, one that crosses a tile.
const CHUNKS: [usize; 6] = [1, 3, 17, 1, 1, 40];

/// Models that remember something of all positions in one state, and so keep only the whole of it.
const RECURRENT: [&str; 10] = [
    "granitehybrid",
    "lfm2",
    "lfm2moe",
    "nemotron_h",
    "nemotron_h_moe",
    "qwen35",
    "qwen35_mtp",
    "qwen35moe",
    "qwen35moe_mtp",
    "qwen3next",
];

struct Case {
    name: String,
    model: LoadedModel,
    prompt: Vec<u32>,
    /// The logits of all positions of the prompt, in one step.
    expected: Vec<f32>,
}

impl Case {
    fn file(&self) -> &ModelFile {
        self.model.file()
    }

    fn session(&self, window: u32) -> Session {
        self.model.session(whole(&self.model), window).unwrap()
    }

    fn step(&self, session: &mut Session, positions: std::ops::Range<usize>) -> Vec<f32> {
        let input = Input::Tokens(&self.prompt[positions]);
        values(session.step(&self.model, input, LogitRows::All).unwrap())
    }

    /// The logits from position `first` on are those of the undisturbed session.
    fn check(&self, what: &str, got: &[f32], first: usize) {
        let width = self.file().shape().vocabulary as usize;
        assert_eq!(bits(got), bits(&self.expected[first * width..]), "{}: {what}", self.name);
    }

    fn is_recurrent(&self) -> bool {
        is_recurrent(&self.name)
    }
}

/// Whether the model of this name remembers something of all positions in one state.
pub(crate) fn is_recurrent(name: &str) -> bool {
    RECURRENT.contains(&name)
}

fn cases(test: &str) -> impl Iterator<Item = Case> {
    newer_models(test).into_iter().filter_map(|known| {
        let name = known.name.strip_suffix("-f16")?.to_owned();
        let model = load(&known.file, 2);
        let prompt: Vec<u32> = (0..POSITIONS as u32).map(|i| (i * 7919 + 13) % 512).collect();
        let mut session = model.session(whole(&model), 200).unwrap();
        let output = session.step(&model, Input::Tokens(&prompt), LogitRows::All).unwrap();
        Some(Case { name, model, prompt, expected: values(output) })
    })
}

#[test]
fn cuts_and_chunks_do_not_show() {
    for case in cases("cuts and chunks of newer models") {
        let layers = case.file().shape().layers;
        let legal = |cut: &u32| case.file().may_cut(*cut);
        for cut in (0..=layers).filter(legal) {
            let parts = crate::executors::parts(case.file(), &[cut]);
            let mut stages: Vec<_> =
                parts.into_iter().map(|part| stage(case.file(), part, 200)).collect();
            let got = run(&mut stages, &case.prompt, &CHUNKS);
            case.check(&format!("cut at {cut}"), &got, 0);
        }
        // Three hosts, the middle one with layers alone.
        let last = (1..layers).rev().find(legal).unwrap();
        let parts = crate::executors::parts(case.file(), &[1, last]);
        let mut stages: Vec<_> =
            parts.into_iter().map(|part| stage(case.file(), part, 200)).collect();
        case.check("three parts", &run(&mut stages, &case.prompt, &CHUNKS), 0);
    }
}

/// Late layers read the keys and values of layers 3 and 4: behind those nothing may be cut.
#[test]
fn what_a_cut_would_separate_is_refused() {
    for case in cases("illegal cuts of newer models") {
        let file = case.file();
        let illegal: Vec<u32> = match case.name.as_str() {
            "gemma3n" => (4..8).collect(),
            "gemma4_ple" => (4..10).collect(),
            _ => Vec::new(),
        };
        assert_eq!(file.uncuttable(), illegal, "{}", case.name);
        for cut in illegal {
            for part in crate::executors::parts(file, &[cut]) {
                let refused = case.model.session(part, 10).map(|_| ());
                assert_eq!(refused.unwrap_err().fault, Fault::Cut { layer: cut });
            }
        }
    }
}

#[test]
fn the_last_step_can_be_taken_back_and_anything_replayed() {
    for case in cases("truncated sessions of newer models") {
        let mut session = case.session(200);
        case.step(&mut session, 0..40);
        let bytes = session.cache_bytes();
        // A detour, and back.
        let detour = Input::Tokens(&[9, 8, 7]);
        session.step(&case.model, detour, LogitRows::None).unwrap();
        session.truncate(40).unwrap();
        assert_eq!((session.position(), session.cache_bytes()), (40, bytes), "{}", case.name);
        case.check("after a detour", &case.step(&mut session, 40..POSITIONS), 40);
        // Further back goes only what remembers every position.
        let refused = TruncateError { position: 70, asked: 25 };
        match case.is_recurrent() {
            true => assert_eq!(session.truncate(25), Err(refused), "{}", case.name),
            false => {
                session.truncate(25).unwrap();
                case.check("after 25", &case.step(&mut session, 25..POSITIONS), 25);
            }
        }
        assert_eq!(session.position(), 70, "{}", case.name);
        session.truncate(0).unwrap();
        assert_eq!(session.cache_bytes(), 0, "{}", case.name);
        case.check("replayed", &case.step(&mut session, 0..POSITIONS), 0);
    }
}

#[test]
fn a_session_that_resumes_is_one_that_was_opened_so() {
    for case in cases("resumed sessions of newer models") {
        let mut session = case.session(45);
        case.step(&mut session, 0..30);
        case.step(&mut session, 30..41);
        session.resume(30, 200).unwrap();
        assert_eq!((session.position(), session.positions_max()), (30, 200));
        case.check("resumed", &case.step(&mut session, 30..POSITIONS), 30);
    }
}

/// A step that stops in the middle has changed the states of some layers and not of others.
#[test]
fn a_cancelled_step_changes_nothing() {
    for case in cases("cancelled steps of newer models") {
        let mut session = case.session(200);
        case.step(&mut session, 0..20);
        for stop_at in 0..=case.file().shape().layers as usize {
            let asked = AtomicUsize::new(0);
            let cancelled = || asked.fetch_add(1, Ordering::Relaxed) == stop_at;
            let input = Input::Tokens(&[5, 6, 7, 8, 9]);
            let got = session.step_unless(&case.model, input, LogitRows::Last, &cancelled);
            assert_eq!(got, Err(StepError::Cancelled), "{}", case.name);
        }
        case.check("after cancelled steps", &case.step(&mut session, 20..POSITIONS), 20);
    }
}

/// Two hosts hand their layers to a third, which goes on as one that never changed.
#[test]
fn a_session_that_was_handed_over_goes_on_with_the_same_bits() {
    for case in cases("hand-over of newer models") {
        let layers = case.file().shape().layers;
        let all = LayerRange::all(layers);
        let mut here = case.session(200);
        case.step(&mut here, 0..50);
        // One state is handed over whole; what remembers each position goes in parts.
        assert_eq!(here.export(all, 0..32).is_err(), case.is_recurrent(), "{}", case.name);
        let ends = if case.is_recurrent() { [0, 0, 50] } else { [0, 32, 50] };
        let pieces = ends.windows(2).map(|ends| ends[0]..ends[1]);
        let mut there = case.session(200);
        for positions in pieces.filter(|positions| !positions.is_empty()) {
            let export = |start, end| {
                here.export(LayerRange::new(start, end).unwrap(), positions.clone()).unwrap()
            };
            let exports = [export(0, layers / 2), export(layers / 2, layers)].concat();
            there.import(&exports).unwrap();
        }
        assert_eq!((there.position(), there.cache_bytes()), (50, here.cache_bytes()));
        case.check("handed over", &case.step(&mut there, 50..POSITIONS), 50);
        // What does not follow is refused, layer by layer, and changes nothing.
        let again = here.export(all, 0..50).unwrap();
        assert!(there.import(&again).is_err(), "{}", case.name);
        assert_eq!(there.position(), 70, "{}", case.name);
    }
}
