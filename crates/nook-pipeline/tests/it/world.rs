//! A house in simulated time: hosts that compute toy layers, a node that carries out actions, and
//! misfortune on demand. It checks every action against the rules as it goes.

mod hosts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use nook_base::{Activation, ActivationDtype, ErrorCode, LayerRange, Sensitive};
use nook_pipeline::*;
use nook_plan::{Line, Offer, Place, Route, Topology, greedy_cover};

use crate::case::{Case, End, Garbage, Hands, LOAD_LAYER, Outcome, peer};
use crate::mishap::spoil;
use crate::toy::{self, HIDDEN, Toy};

/// Between two pieces of a result that trickles in.
const PIECE: Duration = Duration::from_millis(300);

/// Far more than any run takes that makes progress.
const EVENTS_MAX: usize = 50_000;

pub(crate) struct Host {
    pub(crate) place: Place,
    dtype: ActivationDtype,
    pub(crate) toy: Toy,
    pub(crate) open: bool,
    pub(crate) closed: bool,
    pub(crate) dead: bool,
    pub(crate) draining: bool,
    pub(crate) mark: PrefixHash,
    /// Where steps began and ended.
    pub(crate) marks: BTreeMap<u32, PrefixHash>,
    steps: u64,
    answered: u64,
    logits: Option<(u32, u32)>,
    free_at: Instant,
    /// When the last of what it has answered arrives.
    pub(crate) silent_from: Instant,
    /// Where the first step began that crossed the goodbye.
    pub(crate) crossed_at: Option<u32>,
    /// The call that its results go to, instead of home.
    pub(crate) onward: Option<AttemptId>,
    /// The call that its steps come from.
    fed_by: Option<AttemptId>,
    /// Whether the requester has heard that they do.
    pub(crate) told: bool,
    /// Nothing gets through to that call any more.
    pub(crate) cut: bool,
}

impl Host {
    /// One that is not open yet, free from `at` on.
    fn new(
        (place, dtype): (Place, ActivationDtype),
        toy: Toy,
        (mark, marks): (PrefixHash, BTreeMap<u32, PrefixHash>),
        at: Instant,
    ) -> Self {
        Self {
            place,
            dtype,
            toy,
            open: false,
            closed: false,
            dead: false,
            draining: false,
            mark,
            marks,
            steps: 0,
            answered: 0,
            logits: None,
            free_at: at,
            silent_from: at,
            crossed_at: None,
            onward: None,
            fed_by: None,
            told: false,
            cut: false,
        }
    }
}

/// A step as it comes to a host.
struct Given {
    step: u64,
    position: u32,
    marks: (PrefixHash, PrefixHash),
    rows: LogitRows,
    input: Option<Activation>,
    at: Instant,
}

#[derive(Default, Clone)]
pub(crate) struct PeerState {
    pub(crate) dead: bool,
    /// When it is there again.
    pub(crate) back_at: Option<Instant>,
    pub(crate) silent: bool,
    pub(crate) full: bool,
    pub(crate) draining: bool,
    pub(crate) lies: bool,
    pub(crate) overflow_next: bool,
    /// Times slower than it was; 0 and 1 are not.
    pub(crate) slower: u64,
    pub(crate) delay_next: Duration,
    pub(crate) trickle_next: Duration,
    pub(crate) error_next: Option<ErrorCode>,
    pub(crate) garbage_next: Option<Garbage>,
}

pub(crate) struct World {
    pub(crate) case: Case,
    start: Instant,
    pub(crate) now: Instant,
    random: u64,
    pub(crate) hosts: BTreeMap<AttemptId, Host>,
    pub(crate) peers: Vec<PeerState>,
    pub(crate) local_refuses_middle: bool,
    pub(crate) offers_unanswered: bool,
    queue: BinaryHeap<Reverse<(Instant, usize)>>,
    events: Vec<Option<(Option<AttemptId>, Event)>>,
    history: u32,
    outcome: Outcome,
    /// Conversations between two calls.
    kept: Vec<Host>,
    /// What is on its way from devices that leave, by their call.
    pub(crate) coming: BTreeMap<AttemptId, (Toy, PrefixHash)>,
    /// And what has come.
    pub(crate) given: BTreeMap<AttemptId, (Toy, PrefixHash)>,
    over: bool,
}

/// Runs the case to its end; panics when a rule is broken.
pub(crate) fn run(case: &Case) -> Outcome {
    run_after(case, None, Vec::new())
}

/// As [`run`], for a prompt that goes on with `entry` where hosts still hold it.
pub(crate) fn run_after(case: &Case, prefix: Option<PrefixCacheEntry>, kept: Vec<Host>) -> Outcome {
    let start = nook_base::clock::now();
    let topology = Topology::or_alone(case.layers, case.prefix, case.suffix).expect("layers > 0");
    let mut world = World::new(case, start);
    let cover = greedy_cover(topology.middle(), &world.offers(), 16);
    world.kept = kept;
    let route = match cover {
        _ if prefix.is_some() => {
            let segments = prefix.as_ref().map(|prefix| prefix.segments().to_vec());
            Route::new(case.layers, segments.unwrap_or_default())
        }
        Ok(hops) => Route::boomerang(topology, &hops),
        Err(_) => Route::alone(case.layers),
    };
    let route = route.expect("a cover of the middle makes a route");
    let mut settings = world.settings();
    settings.resume = prefix.and_then(|prefix| prefix.resume(&case.prompt));
    let mut pipeline = Pipeline::new(&route, settings);
    world
        .carry_out(pipeline.handle(Event::Begin { prompt: Sensitive(case.prompt.clone()) }, start));
    for delivered in 0.. {
        assert!(delivered < EVENTS_MAX, "no progress");
        for (_, fault) in case.faults.iter().filter(|(at, _)| *at == delivered) {
            world.befall(*fault);
        }
        if world.over {
            break;
        }
        let event = world.next_event(&pipeline);
        let actions = pipeline.handle(event, world.now);
        world.carry_out(actions);
    }
    assert!(pipeline.handle(Event::Tick, world.now).is_empty());
    assert!(pipeline.next_deadline().is_none());
    assert!(world.hosts.values().all(|host| host.closed), "a call was left open");
    assert!(world.given.is_empty(), "what was handed over was not forgotten");
    world.outcome.prefix = pipeline.take_prefix();
    world.outcome.kept = world.kept;
    world.outcome.measure = pipeline.measure();
    world.outcome.places = pipeline.places().map(|segment| segment.place).collect();
    world.outcome.attempts = world.hosts.values().map(|host| host.place).collect();
    world.outcome
}

impl World {
    fn new(case: &Case, now: Instant) -> Self {
        Self {
            start: now,
            now,
            random: case.seed | 1,
            hosts: BTreeMap::new(),
            peers: vec![PeerState::default(); case.peers.len()],
            local_refuses_middle: false,
            offers_unanswered: false,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            history: case.prompt.len() as u32,
            outcome: Outcome {
                end: End::Done,
                missing: None,
                tokens: Vec::new(),
                reports: Vec::new(),
                measure: Measure::default(),
                sends: Vec::new(),
                forwarded: Vec::new(),
                places: Vec::new(),
                attempts: Vec::new(),
                superseded: 0,
                times: Vec::new(),
                prefix: None,
                kept: Vec::new(),
            },
            kept: Vec::new(),
            coming: BTreeMap::new(),
            given: BTreeMap::new(),
            over: false,
            case: case.clone(),
        }
    }

    fn settings(&self) -> PipelineSettings {
        PipelineSettings {
            hidden: HIDDEN,
            dtype: self.case.dtype,
            prefill_chunk: self.case.chunk,
            prefill_window: self.case.window,
            positions_max: (self.case.prompt.len() + self.case.reply) as u32,
            failovers_max: self.case.failovers_max,
            fall_back: self.case.fall_back,
            room_here: self.case.room_here,
            weights_here: self.case.weights_here(),
            // A row is several pieces.
            deadlines: Deadlines { piece_bytes: 1, ..Deadlines::usual() },
            norm_bounds: std::sync::Arc::default(),
            forecast: self.forecast(),
            spot_check: self.case.spot_check,
            replay_log_bytes_max: self.case.replay_log_bytes_max,
            history_key: Sensitive([3; 32]),
            resume: None,
            forward: match self.case.forward {
                Hands::Nobody => Default::default(),
                _ => (0..self.case.peers.len()).map(peer).collect(),
            },
        }
    }

    /// What earlier replies have shown of each device, where there were any.
    fn forecast(&self) -> std::sync::Arc<Forecast> {
        let mut forecast = Forecast::default();
        for (index, spec) in self.case.peers.iter().enumerate().filter(|_| self.case.knows_paces) {
            let held = if spec.is_cold { Vec::new() } else { spec.ranges.clone() };
            let step = Duration::from_micros(spec.step_us);
            forecast.insert(Place::Peer(peer(index)), known(step, held));
        }
        if let Some(step) = self.case.step_here {
            forecast.insert(Place::Local, known(step, vec![LayerRange::all(self.case.layers)]));
        }
        forecast.into()
    }

    pub(crate) fn chance(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn offers(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        for (index, (spec, state)) in self.case.peers.iter().zip(&self.peers).enumerate() {
            if state.draining || (state.dead && !self.case.adverts_outlive) {
                continue;
            }
            for layers in &spec.ranges {
                offers.push(Offer {
                    peer: peer(index),
                    layers: *layers,
                    held: if spec.is_cold { LayerRange::with_len(0, 0) } else { *layers },
                    queue_depth: index as u16 % 3,
                    streams_free: spec.streams.saturating_sub(self.calls(index)),
                });
            }
        }
        offers
    }

    pub(crate) fn calls(&self, index: usize) -> u16 {
        let of_peer = |host: &&Host| host.place == Place::Peer(peer(index)) && !host.closed;
        self.hosts.values().filter(of_peer).count() as u16
    }

    /// The next thing that happens: a delivery, or time running out.
    fn next_event(&mut self, pipeline: &Pipeline) -> Event {
        loop {
            let deadline = pipeline.next_deadline();
            self.come_back();
            let next = self.queue.peek().map(|Reverse((at, _))| *at);
            match (next, deadline) {
                (Some(at), deadline) if deadline.is_none_or(|deadline| at < deadline) => {
                    let Some(Reverse((_, index))) = self.queue.pop() else {
                        continue;
                    };
                    self.now = self.now.max(at);
                    if let Some(event) = self.deliver(index) {
                        return event;
                    }
                }
                (_, Some(deadline)) => {
                    self.now = self.now.max(deadline);
                    return Event::Tick;
                }
                (_, None) => panic!("a hang: nothing under way and no deadline: {pipeline:?}"),
            }
        }
    }

    /// Devices whose absence is over.
    fn come_back(&mut self) {
        for state in &mut self.peers {
            if state.back_at.take_if(|at| *at <= self.now).is_some() {
                state.dead = false;
            }
        }
    }

    /// What arrives, unless its sender died before.
    fn deliver(&mut self, index: usize) -> Option<Event> {
        let (attempt, event) = self.events[index].take()?;
        if let Some(host) = attempt.and_then(|attempt| self.hosts.get_mut(&attempt)) {
            match &event {
                Event::Lost { .. } => {}
                _ if host.dead => return None,
                Event::Opened { .. } => host.open = true,
                Event::Draining { .. } => host.draining = true,
                Event::Forwarding { refused: None, .. } => host.told = true,
                _ => {}
            }
        }
        if let Event::KvCacheReceived { attempt, .. } = &event {
            self.given.extend(self.coming.remove_entry(attempt));
        }
        if let Event::Output { attempt, step, .. }
        | Event::Passed { attempt, step, .. }
        | Event::Logits { attempt, step, .. } = &event
        {
            // What the end of a chain has answered, all of it has.
            let mut through = Some(*attempt);
            while let Some(host) = through.and_then(|attempt| self.hosts.get_mut(&attempt)) {
                host.answered = host.answered.max(step + 1).min(host.steps);
                through = host.fed_by;
            }
        }
        Some(event)
    }

    pub(crate) fn after(&mut self, delay: Duration, attempt: Option<AttemptId>, event: Event) {
        self.at(self.now + delay, attempt, event);
    }

    pub(crate) fn at(&mut self, at: Instant, attempt: Option<AttemptId>, event: Event) {
        self.queue.push(Reverse((at, self.events.len())));
        self.events.push(Some((attempt, event)));
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            assert!(!self.over, "an action after the end: {action:?}");
            match action {
                Action::Open { attempt, place, part, dtype, positions_max, resume } => {
                    let needed = self.case.prompt.len() + self.case.reply;
                    assert_eq!(positions_max as usize, needed);
                    self.open(attempt, place, (part, dtype), resume);
                }
                Action::SendTokens {
                    attempt,
                    step,
                    position,
                    ids,
                    history_before,
                    history_after,
                    rows,
                    ..
                } => {
                    let host = self.host(attempt.id());
                    assert_eq!(host.place, Place::Local, "token ids left this device");
                    let out = host.toy.of_tokens(&ids);
                    let (marks, at) = ((history_before, history_after), self.now);
                    let given = Given { step, position, marks, rows, input: None, at };
                    self.outcome.sends.push((attempt.id().number(), position, out.len() as u32));
                    self.step(attempt.id(), given, &out);
                }
                Action::SendActivation {
                    attempt,
                    step,
                    position,
                    activation,
                    history_before,
                    history_after,
                    rows,
                    ..
                } => {
                    let host = self.host(attempt);
                    assert_eq!(activation.dtype(), host.dtype);
                    assert_eq!(host.fed_by, None, "a step from here to a host in a chain");
                    let out = host.toy.of_activation(&activation);
                    let (marks, at) = ((history_before, history_after), self.now);
                    let input = Some(activation);
                    let given = Given { step, position, marks, rows, input, at };
                    self.outcome.sends.push((attempt.number(), position, out.len() as u32));
                    self.step(attempt, given, &out);
                }
                Action::Forward { attempt, next } => self.forward(attempt, next),
                Action::Close { attempt, reason } => self.close(attempt, reason),
                Action::RequestKvCache { attempt } => self.give(attempt),
                Action::SendKvCache { attempt, from } => self.take(attempt, from),
                Action::DiscardKvCache { from } => drop(self.given.remove(&from)),
                Action::Sample { attempt, position } => self.sample(attempt, position),
                Action::WantOffers { .. } => {
                    if !std::mem::take(&mut self.offers_unanswered) {
                        let offers = self.offers();
                        let delay = Duration::from_micros(50 + self.chance(500));
                        self.after(delay, None, Event::Offers(offers));
                    }
                }
                Action::Report(report) => self.outcome.reports.push(report),
                Action::Aborted { code, missing, .. } => {
                    self.outcome.missing = missing.map(|segment| segment.part.layers);
                    self.end(End::Aborted(code));
                }
                Action::Done => self.end(End::Done),
            }
        }
    }

    fn close(&mut self, attempt: AttemptId, reason: CloseReason) {
        let is_superseded = reason == CloseReason::Superseded;
        self.outcome.superseded += usize::from(is_superseded);
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert!(!host.closed, "closed twice");
        host.closed = true;
        if reason == CloseReason::Finished {
            self.keep(attempt);
        }
    }

    fn end(&mut self, end: End) {
        self.outcome.end = end;
        self.over = true;
    }

    fn sample(&mut self, attempt: AttemptId, position: u32) {
        let (at, token) = self.host(attempt).logits.expect("logits were asked for");
        assert_eq!((at, at + 1), (position, self.history), "an old position");
        let delay = Duration::from_micros(20 + self.chance(100));
        self.outcome.tokens.push(token);
        self.outcome.times.push(self.now - self.start);
        let event = if self.outcome.tokens.len() == self.case.reply {
            Event::Finish
        } else {
            self.history += 1;
            Event::NextToken(Sensitive(token))
        };
        self.after(delay, None, event);
    }
}

/// Toy layers cost nothing; a position costs what the device's step costs.
fn known(step: Duration, held: Vec<LayerRange>) -> DeviceForecast {
    DeviceForecast {
        decode: Line { fixed: step, slope: Duration::ZERO },
        prefill: None,
        away: Duration::ZERO,
        load_layer: LOAD_LAYER,
        held,
    }
}
