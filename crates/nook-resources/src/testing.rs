//! What replies leave, for tests here and of crates that build on this one.

use std::collections::VecDeque;

use nook_base::{Activation, ActivationDtype, LayerRange, PeerId, Sensitive, clock};
use nook_pipeline::{
    Action, Deadlines, Event, FallBack, Pipeline, PipelineSettings, PrefixCacheEntry, SpotCheck,
};
use nook_plan::{Hop, Route, Topology};
use nook_shard::WorkerCommand;

use crate::sandbox::SandboxSource;

/// For models that are opened and asked for nothing that a stranger wrote.
pub fn no_sandboxes() -> SandboxSource {
    SandboxSource::new(WorkerCommand { program: "false".into(), arguments: Vec::new() })
}

/// What a reply to `prompt` on this device alone leaves, when it says one token more.
pub fn prefix(prompt: &[u32]) -> PrefixCacheEntry {
    let alone = Route::alone(2).expect("two layers");
    prefix_over(&alone, ActivationDtype::F32, prompt)
}

/// The same over other devices, each of which adds a half to every number.
pub fn prefix_over(route: &Route, dtype: ActivationDtype, prompt: &[u32]) -> PrefixCacheEntry {
    let now = clock::now();
    let settings = PipelineSettings {
        hidden: 4,
        dtype,
        prefill_chunk: 2,
        prefill_window: 1,
        positions_max: 640,
        failovers_max: 0,
        fall_back: FallBack::Allow,
        room_here: u32::MAX,
        weights_here: vec![LayerRange::all(u32::MAX)],
        deadlines: Deadlines::usual(),
        norm_bounds: std::sync::Arc::default(),
        forecast: std::sync::Arc::default(),
        spot_check: SpotCheck::OFF,
        replay_log_bytes_max: 1 << 20,
        history_key: Sensitive([7; 32]),
        resume: None,
        forward: std::collections::BTreeSet::new(),
    };
    let mut pipeline = Pipeline::new(route, settings);
    let begin = Event::Begin { prompt: Sensitive(prompt.to_vec()) };
    let mut actions = VecDeque::from(pipeline.handle(begin, now));
    let mut heads = Vec::new();
    while let Some(action) = actions.pop_front() {
        let (attempt, step, position, rows) = match action {
            Action::Open { attempt, part, .. } => {
                heads.extend(part.head.then_some(attempt));
                let opened = Event::Opened { attempt, position: 0 };
                actions.extend(pipeline.handle(opened, now));
                continue;
            }
            Action::SendTokens { attempt, step, position, ids, .. } => {
                (attempt.id(), step, position, vec![1.0; 4 * ids.len()])
            }
            Action::SendActivation { attempt, step, position, activation, .. } => {
                let rows = activation.to_f32().iter().map(|x| x + 0.5).collect();
                (attempt, step, position, rows)
            }
            Action::Sample { .. } => {
                actions.extend(pipeline.handle(Event::Finish, now));
                continue;
            }
            _ => continue,
        };
        let (compute_us, queue_us) = (1, 0);
        let event = if heads.contains(&attempt) {
            Event::Logits { attempt, step, position, compute_us, queue_us }
        } else {
            let activation = Activation::from_f32(&rows, 4, dtype).expect("small numbers");
            let count = activation.tokens();
            Event::Output { attempt, step, position, count, activation, compute_us, queue_us }
        };
        actions.extend(pipeline.handle(event, now));
    }
    pipeline.take_prefix().expect("it ended in order")
}

/// What a reply over the devices with these numbers leaves, each with a layer between the two ends.
pub fn pooled(peers: &[u8], prompt: &[u32]) -> PrefixCacheEntry {
    let layers = peers.len() as u32 + 2;
    let topology = Topology::or_alone(layers, 1, 1).expect("there is a middle");
    let hops = (1..).zip(peers).map(|(layer, peer)| Hop {
        peer: PeerId([*peer; 32]),
        layers: LayerRange::with_len(layer, 1),
    });
    let hops: Vec<Hop> = hops.collect();
    let route = Route::boomerang(topology, &hops).expect("a legal route");
    prefix_over(&route, ActivationDtype::F32, prompt)
}
