//! A house in simulated time: hosts that compute toy layers, a node that carries out actions, and
//! misfortune on demand. It checks every action against the rules as it goes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use nook_base::{Activation, ActivationDtype, ErrorCode, LayerRange, Sensitive};
use nook_pipeline::*;
use nook_plan::{Line, Offer, Place, Route, Topology, greedy_cover};

use crate::case::{Case, End, Garbage, Hands, Outcome, peer};
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
    pub(crate) mark: HistoryMark,
    /// Where steps began and ended.
    pub(crate) marks: BTreeMap<u32, HistoryMark>,
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

/// A step as it comes to a host.
struct Given {
    step: u64,
    position: u32,
    marks: (HistoryMark, HistoryMark),
    rows: LogitRows,
    input: Option<Activation>,
    at: Instant,
}

#[derive(Default, Clone)]
pub(crate) struct PeerState {
    pub(crate) dead: bool,
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
    pub(crate) coming: BTreeMap<AttemptId, (Toy, HistoryMark)>,
    /// And what has come.
    pub(crate) given: BTreeMap<AttemptId, (Toy, HistoryMark)>,
    over: bool,
}

/// Runs the case to its end; panics when a rule is broken.
pub(crate) fn run(case: &Case) -> Outcome {
    run_after(case, None, Vec::new())
}

/// As [`run`], for a prompt that goes on with `trail` where hosts still hold it.
pub(crate) fn run_after(case: &Case, trail: Option<Trail>, kept: Vec<Host>) -> Outcome {
    let start = nook_base::clock::now();
    let topology = Topology::or_alone(case.layers, case.prefix, case.suffix).expect("layers > 0");
    let mut world = World::new(case, start);
    let cover = greedy_cover(topology.middle(), &world.offers(), 16);
    world.kept = kept;
    let route = match cover {
        _ if trail.is_some() => {
            let segments = trail.as_ref().map(|trail| trail.segments().to_vec());
            Route::new(case.layers, segments.unwrap_or_default())
        }
        Ok(hops) => Route::boomerang(topology, &hops),
        Err(_) => Route::alone(case.layers),
    };
    let route = route.expect("a cover of the middle makes a route");
    let mut settings = world.settings();
    settings.resume = trail.and_then(|trail| trail.resume(&case.prompt));
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
    world.outcome.trail = pipeline.take_trail();
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
                tokens: Vec::new(),
                reports: Vec::new(),
                measure: Measure::default(),
                sends: Vec::new(),
                forwarded: Vec::new(),
                places: Vec::new(),
                attempts: Vec::new(),
                superseded: 0,
                times: Vec::new(),
                trail: None,
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
            // A row is several pieces.
            deadlines: Deadlines { piece_bytes: 1, ..Deadlines::usual() },
            gains: std::sync::Arc::default(),
            forecast: self.forecast(),
            spot_check: self.case.spot_check,
            retained_bytes_max: self.case.retained_bytes_max,
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
            // Toy layers cost nothing; a position costs what the device's step costs.
            let us = Duration::from_micros(spec.step_us);
            let device = DeviceForecast {
                decode: Line { fixed: us, slope: Duration::ZERO },
                prefill: None,
                away: Duration::ZERO,
                load_layer: Duration::ZERO,
                held: Vec::new(),
            };
            forecast.insert(Place::Peer(peer(index)), device);
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
        if let Event::CachesCame { attempt, .. } = &event {
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
                Action::Close { attempt, reason } => {
                    let is_superseded = reason == CloseReason::Superseded;
                    self.outcome.superseded += usize::from(is_superseded);
                    let host = self.hosts.get_mut(&attempt).expect("only what was opened");
                    assert!(!host.closed, "closed twice");
                    host.closed = true;
                    if reason == CloseReason::Finished {
                        self.keep(attempt);
                    }
                }
                Action::AskCaches { attempt } => self.give(attempt),
                Action::GiveCaches { attempt, from } => self.take(attempt, from),
                Action::ForgetCaches { from } => drop(self.given.remove(&from)),
                Action::Sample { attempt, position } => self.sample(attempt, position),
                Action::WantOffers { .. } => {
                    if !std::mem::take(&mut self.offers_unanswered) {
                        let offers = self.offers();
                        let delay = Duration::from_micros(50 + self.chance(500));
                        self.after(delay, None, Event::Offers(offers));
                    }
                }
                Action::Report(report) => self.outcome.reports.push(report),
                Action::Aborted { code, .. } => self.end(End::Aborted(code)),
                Action::Done => self.end(End::Done),
            }
        }
    }

    fn end(&mut self, end: End) {
        self.outcome.end = end;
        self.over = true;
    }

    fn host(&mut self, attempt: AttemptId) -> &mut Host {
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert!(host.open && !host.closed, "a step before OPENED or after CLOSE");
        assert!(!host.draining, "a step for somebody who leaves");
        host
    }

    fn open(
        &mut self,
        attempt: AttemptId,
        place: Place,
        (part, dtype): (nook_base::ModelPart, ActivationDtype),
        resume: Option<(u32, HistoryMark)>,
    ) {
        let delay = Duration::from_micros(200 + self.chance(3_000));
        let resumed = resume.map(|point| self.remembered((place, part, dtype), point));
        let (toy, mark, marks) = match resumed.flatten() {
            Some(Host { toy, mark, marks, .. }) => (toy, mark, marks),
            None => (Toy::new(part), HistoryMark::EMPTY, BTreeMap::new()),
        };
        let position = toy.len;
        let host = Host {
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
            free_at: self.now,
            silent_from: self.now,
            crossed_at: None,
            onward: None,
            fed_by: None,
            told: false,
            cut: false,
        };
        let mut refusal = None;
        let mut answers = true;
        if let Some(index) = self.index(place) {
            assert!(!part.embedding && !part.head);
            let state = self.peers[index].clone();
            let holds = |range: &LayerRange| range.contains(part.layers);
            assert!(self.case.peers[index].ranges.iter().any(holds));
            answers = !state.silent;
            refusal = if state.dead {
                Some(None)
            } else if state.draining {
                Some(Some(ErrorCode::Draining))
            } else if state.full || self.calls(index) >= self.case.peers[index].streams {
                Some(Some(ErrorCode::Busy))
            } else {
                None
            };
        } else if self.local_refuses_middle && !part.embedding && !part.head {
            refusal = Some(Some(ErrorCode::OutOfMemory));
        }
        if refusal.is_none() && resume.is_some_and(|(asked, _)| asked != position) {
            refusal = Some(Some(ErrorCode::HistoryMismatch));
        }
        let earlier = self.hosts.insert(attempt, host);
        assert!(earlier.is_none(), "an attempt was used twice");
        let event = match refusal {
            None => Event::Opened { attempt, position },
            Some(None) => Event::Lost { attempt },
            Some(Some(code)) => Event::Failed { attempt, code, sentence: "no".to_owned() },
        };
        if answers {
            self.after(delay, Some(attempt), event);
        }
    }

    /// The host of a call that was closed in order keeps what it has, if it still can.
    fn keep(&mut self, attempt: AttemptId) {
        let is_gone = |peer: &PeerState| peer.dead || peer.silent || peer.draining;
        let host = &self.hosts[&attempt];
        assert_eq!(host.steps, host.answered, "closed as in order in the middle of a step");
        let is_lost = self.index(host.place).is_some_and(|index| is_gone(&self.peers[index]));
        if host.toy.len > 0 && !host.dead && !is_lost {
            let toy = Toy::new(host.toy.part());
            let host = self.hosts.get_mut(&attempt).expect("just seen");
            let toy = std::mem::replace(&mut host.toy, toy);
            let (marks, dtype, place) = (host.marks.clone(), host.dtype, host.place);
            let (mark, free_at) = (host.mark, self.start);
            self.kept.push(Host {
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
                free_at,
                silent_from: free_at,
                crossed_at: None,
                onward: None,
                fed_by: None,
                told: false,
                cut: false,
            });
        }
    }

    /// What a host still knows under this name and mark, cut to the position.
    fn remembered(
        &mut self,
        who: (Place, nook_base::ModelPart, ActivationDtype),
        (position, mark): (u32, HistoryMark),
    ) -> Option<Host> {
        let fits = |host: &Host| {
            (host.place, host.toy.part(), host.dtype) == who
                && host.marks.get(&position) == Some(&mark)
        };
        let index = self.kept.iter().position(fits)?;
        let mut host = self.kept.remove(index);
        host.toy.truncate(position);
        host.marks.retain(|at, _| *at <= position);
        host.mark = mark;
        Some(host)
    }

    pub(crate) fn index(&self, place: Place) -> Option<usize> {
        (0..self.peers.len()).find(|index| place == Place::Peer(peer(*index)))
    }

    /// A host is asked to hand its results to another call.
    fn forward(&mut self, attempt: AttemptId, next: AttemptId) {
        let is_fresh = |host: &Host| host.open && !host.closed && host.steps == 0;
        assert!(is_fresh(&self.hosts[&attempt]) && is_fresh(&self.hosts[&next]), "not fresh");
        let place = self.hosts[&attempt].place;
        assert_ne!(place, self.hosts[&next].place);
        let Some(index) = self.index(place).filter(|index| !self.peers[*index].silent) else {
            return;
        };
        let is_linked = match self.case.forward {
            Hands::Nobody => panic!("nobody can hand anything on"),
            Hands::Everybody => true,
            Hands::Some => self.chance(2) == 0,
        };
        if is_linked {
            self.hosts.get_mut(&attempt).expect("just seen").onward = Some(next);
            self.hosts.get_mut(&next).expect("just seen").fed_by = Some(attempt);
        }
        let refused = (!is_linked).then_some(ErrorCode::TrustDenied);
        let wait = std::mem::take(&mut self.peers[index].delay_next);
        let delay = wait + Duration::from_micros(300 + self.chance(3_000));
        self.after(delay, Some(attempt), Event::Forwarding { attempt, refused });
    }

    /// Steps that may be under way to a host: each host before it in a chain adds a window.
    fn room(&self, attempt: AttemptId) -> u64 {
        let mut room = self.case.window as u64;
        let mut at = self.hosts[&attempt].fed_by;
        while let Some(before) = at {
            room += self.case.window as u64;
            at = self.hosts[&before].fed_by;
        }
        room
    }

    fn step(&mut self, attempt: AttemptId, given: Given, out: &[[u64; HIDDEN as usize]]) {
        let Given { step, position, marks, rows, input, at } = given;
        let count = out.len() as u32;
        let (history, room, chunk) = (self.history, self.room(attempt), self.case.chunk);
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert_eq!(position + count, host.toy.len, "not at the cache's length");
        assert_eq!((step, marks.0), (host.steps, host.mark));
        assert!(position + count <= history && count <= chunk);
        host.steps += 1;
        host.mark = marks.1;
        host.marks.insert(position, marks.0);
        host.marks.insert(position + count, marks.1);
        assert!(host.steps - host.answered <= room, "more steps under way than allowed");
        if rows == LogitRows::Last {
            assert_eq!(position + count, history, "logits of a known token");
            let last = out.last().expect("a step has a row");
            host.logits = Some((history - 1, toy::token(last)));
        }
        let (place, free_at, dtype) = (host.place, host.free_at, host.dtype);
        let is_head = host.toy.has_head();
        let wait = self.step_time(place, count);
        let at = free_at.max(at) + wait;
        self.hosts.get_mut(&attempt).expect("just used").free_at = at;
        let event = if is_head {
            Event::Logits { attempt, step, position, compute_us: 10, queue_us: 0 }
        } else {
            Event::Output {
                attempt,
                step,
                position,
                count,
                activation: toy::activation(out, dtype),
                compute_us: u32::MAX,
                queue_us: 5,
            }
        };
        self.answer((attempt, marks), place, at, event, input);
    }

    /// A result goes to the next host instead of home.
    fn hand_on(
        &mut self,
        from: AttemptId,
        marks: (HistoryMark, HistoryMark),
        at: Instant,
        event: Event,
    ) {
        let Some(next) = self.hosts[&from].onward.filter(|_| !self.hosts[&from].cut) else {
            return;
        };
        let Event::Output { step, position, activation, .. } = event else {
            return self.at(at, Some(from), event);
        };
        let notice = Duration::from_micros(100 + self.chance(2_000));
        let passed = Event::Passed { attempt: from, step, compute_us: 7, queue_us: 5 };
        self.at(at + notice, Some(from), passed);
        let on_the_way = Duration::from_micros(100 + self.chance(1_000));
        let host = self.hosts.get_mut(&next).expect("only what was opened");
        if host.closed || host.dead {
            return;
        }
        let fits =
            position == host.toy.len && step == host.steps && activation.dtype() == host.dtype;
        if !fits || activation.check_finite().is_err() {
            let (code, sentence) = (ErrorCode::CorruptActivation, "no".to_owned());
            return self.at(at, Some(next), Event::Failed { attempt: next, code, sentence });
        }
        let out = host.toy.of_activation(&activation);
        self.outcome.forwarded.push((next.number(), position, out.len() as u32));
        let at = at + on_the_way;
        let (rows, input) = (LogitRows::None, Some(activation));
        self.step(next, Given { step, position, marks, rows, input, at }, &out);
    }

    fn step_time(&mut self, place: Place, count: u32) -> Duration {
        let Some(index) = self.index(place) else {
            return Duration::from_micros(100 + self.chance(300));
        };
        let us =
            self.case.peers[index].step_us * u64::from(count) * self.peers[index].slower.max(1);
        let us = us + self.chance(400);
        Duration::from_micros(us) + std::mem::take(&mut self.peers[index].delay_next)
    }

    fn answer(
        &mut self,
        (attempt, marks): (AttemptId, (HistoryMark, HistoryMark)),
        place: Place,
        mut at: Instant,
        mut event: Event,
        input: Option<Activation>,
    ) {
        let is_wide = self.hosts[&attempt].dtype == ActivationDtype::F32;
        let is_in_the_middle = self.hosts[&attempt].onward.is_some();
        let is_fed = self.hosts[&attempt].fed_by.is_some();
        if let Some(index) = self.index(place) {
            let state = &mut self.peers[index];
            if state.silent {
                return;
            }
            // Within a chain nobody has both what was sent and what came of it; what looks like rows is
            // judged at its end, by bounds that toy numbers do not have.
            let is_unseen = match state.garbage_next {
                Some(Garbage::Zero) => is_in_the_middle,
                Some(Garbage::Copy) => is_in_the_middle || is_fed,
                _ => false,
            };
            if is_unseen {
                state.garbage_next = Some(Garbage::NotANumber);
            }
            let end = at + std::mem::take(&mut state.trickle_next);
            while at + PIECE < end {
                at += PIECE;
                self.at(at, Some(attempt), Event::Progress { attempt });
            }
            let state = &mut self.peers[index];
            if state.draining && self.case.giving.is_some() {
                // As below, and whoever gives what it remembers says nothing of the step.
                let host = self.hosts.get_mut(&attempt).expect("just used");
                host.crossed_at.get_or_insert(position_of(&event));
                return;
            }
            if state.draining {
                // The goodbye and the step have crossed: it is not computed any more.
                let code = ErrorCode::Draining;
                event = Event::Failed { attempt, code, sentence: "bye".to_owned() };
            } else if std::mem::take(&mut state.overflow_next) && !is_wide {
                let code = ErrorCode::ActivationOverflow;
                event = Event::Failed { attempt, code, sentence: "too large".to_owned() };
            } else if state.lies {
                event = spoil(event, Garbage::Nudged, None);
            } else if let Some(code) = state.error_next.take() {
                event = Event::Failed { attempt, code, sentence: "sorry".to_owned() };
            } else if let Some(garbage) = state.garbage_next.take() {
                event = spoil(event, garbage, input);
            }
        }
        if is_in_the_middle {
            return self.hand_on(attempt, marks, at, event);
        }
        if let Some(later) = self.case.echo {
            self.at(at + later, None, event.clone());
        }
        if let Some(host) = self.hosts.get_mut(&attempt) {
            host.silent_from = host.silent_from.max(at);
        }
        self.at(at, Some(attempt), event);
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

fn position_of(event: &Event) -> u32 {
    match event {
        Event::Output { position, .. } | Event::Logits { position, .. } => *position,
        _ => panic!("no answer: {event:?}"),
    }
}
