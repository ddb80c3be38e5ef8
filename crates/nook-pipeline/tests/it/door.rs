//! What a pipeline takes and does not take, seen from the node's side of the door.

use std::time::{Duration, Instant};

use nook_base::{Activation, ActivationDtype, ErrorCode, LayerRange, PeerId, Sensitive};
use nook_pipeline::*;
use nook_plan::{Hop, Place, Route, Topology};

const POSITIONS_MAX: u32 = 4;

fn pipeline() -> Pipeline {
    over(&Route::alone(2).expect("two layers"))
}

fn over(route: &Route) -> Pipeline {
    in_chunks(8, POSITIONS_MAX, route)
}

fn in_chunks(prefill_chunk: u32, positions_max: u32, route: &Route) -> Pipeline {
    let settings = PipelineSettings {
        hidden: 4,
        dtype: ActivationDtype::F32,
        prefill_chunk,
        prefill_window: PREFILL_WINDOW,
        positions_max,
        failovers_max: 2,
        fall_back: FallBack::Allow,
        room_here: u32::MAX,
        weights_here: vec![LayerRange::all(route.layers())],
        deadlines: Deadlines::usual(),
        forecast: std::sync::Arc::default(),
        norm_bounds: std::sync::Arc::default(),
        spot_check: SpotCheck::OFF,
        replay_log_bytes_max: REPLAY_LOG_BYTES_MAX,
        history_key: Sensitive([250; 32]),
        resume: None,
        forward: Default::default(),
    };
    Pipeline::new(route, settings)
}

fn begin(prompt: &[u32]) -> Event {
    Event::Begin { prompt: Sensitive(prompt.to_vec()) }
}

/// Begins, opens and answers the first step: the pipeline now waits for a token.
fn at_first_sample(now: Instant) -> (Pipeline, AttemptId) {
    let mut pipeline = pipeline();
    let opened = pipeline.handle(begin(&[7, 8, 9]), now);
    let [Action::Open { attempt, .. }] = opened[..] else { panic!("{opened:?}") };
    let position = 0;
    pipeline.handle(Event::Opened { attempt, position }, now);
    let sampled = pipeline.handle(logits(attempt, 0, 0), now);
    assert!(matches!(sampled[..], [Action::Sample { position: 2, .. }]));
    (pipeline, attempt)
}

fn logits(attempt: AttemptId, step: u64, position: u32) -> Event {
    Event::Logits { attempt, step, position, compute_us: 1, queue_us: 0 }
}

fn is_abort(actions: &[Action], expected: ErrorCode) -> bool {
    matches!(actions.last(), Some(Action::Aborted { code, .. }) if *code == expected)
}

#[test]
fn a_prompt_too_long_is_refused_before_anybody_is_asked() {
    let now = nook_base::clock::now();
    let actions = pipeline().handle(begin(&[1; POSITIONS_MAX as usize + 1]), now);
    assert!(is_abort(&actions, ErrorCode::TooLong) && actions.len() == 1);
    let actions = pipeline().handle(begin(&[]), now);
    assert!(is_abort(&actions, ErrorCode::BadRequest) && actions.len() == 1);
}

#[test]
fn a_reply_that_outgrows_its_room_ends_with_its_own_code() {
    let now = nook_base::clock::now();
    let (mut pipeline, attempt) = at_first_sample(now);
    assert_eq!(pipeline.positions_left(), 1);
    pipeline.handle(Event::NextToken(Sensitive(5)), now);
    pipeline.handle(logits(attempt, 1, 3), now);
    assert_eq!(pipeline.positions_left(), 0);
    let actions = pipeline.handle(Event::NextToken(Sensitive(6)), now);
    assert!(is_abort(&actions, ErrorCode::TooLong));
}

#[test]
fn a_token_nobody_asked_for_is_not_taken() {
    let now = nook_base::clock::now();
    let (mut pipeline, _) = at_first_sample(now);
    let sent = pipeline.handle(Event::NextToken(Sensitive(5)), now);
    assert!(matches!(sent[..], [Action::SendTokens { position: 3, .. }]));
    assert!(pipeline.handle(Event::NextToken(Sensitive(5)), now).is_empty());
    assert_eq!(pipeline.positions_left(), 0);
}

const HELPER: PeerId = PeerId([1; 32]);

/// The boomerang over one helper: this device's own first layer, the helper's, its own last one.
fn boomerang() -> Route {
    let topology = Topology::new(3, 1, 1).expect("a layer for the helper");
    let hops = [Hop { peer: HELPER, layers: topology.middle() }];
    Route::boomerang(topology, &hops).expect("a route")
}

#[test]
fn who_is_waited_for_is_the_first_that_has_not_answered_all() {
    let now = nook_base::clock::now();
    let mut pipeline = over(&boomerang());
    assert_eq!(pipeline.waits_for(), None, "nothing was asked yet");
    let opened = pipeline.handle(begin(&[7, 8]), now);
    let attempts: Vec<AttemptId> = opened
        .iter()
        .map(|action| match action {
            Action::Open { attempt, .. } => *attempt,
            other => panic!("{other:?}"),
        })
        .collect();
    for attempt in &attempts {
        pipeline.handle(Event::Opened { attempt: *attempt, position: 0 }, now);
    }
    assert_eq!(pipeline.waits_for(), None, "this device embeds the prompt first");
    let rows = |first: f32| {
        let values: Vec<f32> = (0..8).map(|at| first + at as f32).collect();
        Activation::from_f32(&values, 4, ActivationDtype::F32).expect("two rows")
    };
    let output = |attempt, activation| Event::Output {
        attempt,
        step: 0,
        position: 0,
        count: 2,
        activation,
        compute_us: 1,
        queue_us: 0,
    };
    pipeline.handle(output(attempts[0], rows(1.0)), now);
    assert_eq!(pipeline.waits_for(), Some(HELPER));
    pipeline.handle(output(attempts[1], rows(1.5)), now);
    assert_eq!(pipeline.waits_for(), None, "the rest is computed here");
    pipeline.handle(logits(attempts[2], 0, 0), now);
    assert_eq!(pipeline.waits_for(), None, "a token is to be chosen");
}

/// This device has computed as much of a prompt ahead as it may, and rests.
#[test]
fn a_helper_that_a_long_prompt_is_held_up_by_is_who_is_waited_for() {
    let now = nook_base::clock::now();
    let prompt = [7; 32];
    let mut pipeline = in_chunks(1, 64, &boomerang());
    let mut actions: std::collections::VecDeque<Action> =
        pipeline.handle(begin(&prompt), now).into();
    let mut sent_here = 0;
    while let Some(action) = actions.pop_front() {
        let next = match action {
            Action::Open { attempt, .. } => Event::Opened { attempt, position: 0 },
            Action::SendTokens { attempt, step, position, ids, .. } => {
                sent_here += ids.len();
                let values: Vec<f32> = (0..4).map(|at| (position + at) as f32).collect();
                let activation = Activation::from_f32(&values, 4, ActivationDtype::F32);
                Event::Output {
                    attempt: attempt.id(),
                    step,
                    position,
                    count: 1,
                    activation: activation.expect("a row"),
                    compute_us: 1,
                    queue_us: 0,
                }
            }
            // The helper never answers.
            _ => continue,
        };
        actions.extend(pipeline.handle(next, now));
    }
    assert!((1..prompt.len()).contains(&sent_here), "the rest is held back: {sent_here}");
    assert_eq!(pipeline.waits_for(), Some(HELPER));
}

#[test]
fn nothing_follows_the_end() {
    let now = nook_base::clock::now();
    let (mut pipeline, attempt) = at_first_sample(now);
    let done = pipeline.handle(Event::Finish, now);
    let reason = CloseReason::Finished;
    assert!(matches!(
        done[..],
        [Action::Close { reason: told, .. }, Action::Done] if told == reason
    ));
    let later = now + Duration::from_secs(3_600);
    let events = [Event::Tick, Event::Cancel, Event::Finish, Event::Lost { attempt }, begin(&[1])];
    for event in events {
        assert!(pipeline.handle(event, later).is_empty());
    }
    assert_eq!(pipeline.next_deadline(), None);
}

#[test]
fn cancel_before_the_start_is_an_end_too() {
    let now = nook_base::clock::now();
    let mut pipeline = pipeline();
    let actions = pipeline.handle(Event::Cancel, now);
    assert!(is_abort(&actions, ErrorCode::Cancelled));
    assert!(pipeline.handle(begin(&[1]), now).is_empty());
}

#[test]
fn the_words_of_our_own_worker_are_shown_and_the_first_cause_is_kept() {
    let now = nook_base::clock::now();
    let (mut pipeline, attempt) = at_first_sample(now);
    let failed = |attempt, code, sentence: &str| Event::Failed {
        attempt,
        code,
        sentence: sentence.to_owned(),
    };
    let again = pipeline.handle(failed(attempt, ErrorCode::WorkerCrashed, "signal 9"), now);
    let [_, Action::Open { attempt, place, .. }] = again[..] else { panic!("{again:?}") };
    assert_eq!(place, Place::Local);
    let end = pipeline.handle(failed(attempt, ErrorCode::OutOfMemory, "2 GB are missing"), now);
    let Some(Action::Aborted { code, sentence, first_cause, .. }) = end.last() else {
        panic!("{end:?}")
    };
    assert_eq!((*code, sentence.as_str()), (ErrorCode::OutOfMemory, "2 GB are missing"));
    assert_eq!(*first_cause, Some(ErrorCode::WorkerCrashed));
}

#[test]
fn debug_output_shows_neither_tokens_nor_keys() {
    let now = nook_base::clock::now();
    let mut pipeline = pipeline();
    let mut shown = format!("{:?}", begin(&[424_242]));
    let opened = pipeline.handle(begin(&[424_242]), now);
    let [Action::Open { attempt, .. }] = opened[..] else { panic!("{opened:?}") };
    let sent = pipeline.handle(Event::Opened { attempt, position: 0 }, now);
    assert!(matches!(sent[..], [Action::SendTokens { .. }]));
    shown += &format!("{opened:?} {sent:?} {pipeline:?}");
    assert!(!shown.contains("424242") && !shown.contains("250, 250"), "{shown}");
}
