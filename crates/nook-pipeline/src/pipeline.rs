//! The state of one prompt and the door for its events.
//!
//! [`Pipeline::handle`] takes one event at a time: it changes the stages, lets every stage that can
//! take a step (`walk`), relieves who is late (`hedge`), repairs what broke (`recover`), and
//! returns what the node must do.

use std::collections::BTreeMap;
use std::time::Instant;

use nook_base::{ErrorCode, PeerId, Sensitive};
use nook_plan::{Place, Route, Segment};

use crate::arrival::Corrupt;
use crate::fault::{Exclusion, Fault};
use crate::history::PrefixHashes;
use crate::measure::{HopVisit, Measure, Takeover, Visits};
use crate::message::{Action, AttemptId, CloseReason, Event, Report, ShardState};
use crate::norm_bounds::NormBounds;
use crate::prefix_cache::{PrefixCacheEntry, Resume};
use crate::replay_logs::ReplayLogs;
use crate::settings::{PipelineSettings, STOP_LIMIT};
use crate::stage::{Asked, Phase, Role, Stage};

/// One prompt's walk. See the crate's header.
pub struct Pipeline {
    pub(crate) settings: PipelineSettings,
    /// The main line in layer order; behind each of its stages those that run beside it.
    pub(crate) stages: Vec<Stage>,
    /// What was put into the stages that take rows, from position 0.
    pub(crate) replay_logs: ReplayLogs,
    pub(crate) state: State,
    /// Prompt and reply so far.
    pub(crate) ids: Sensitive<Vec<u32>>,
    pub(crate) marks: PrefixHashes,
    /// Positions whose logits were handed to the sampler.
    pub(crate) sampled: u32,
    /// The first logits, while they wait for checks of the prompt: whose they are, and behind how
    /// many positions.
    pub(crate) held: Option<(AttemptId, u32)>,
    pub(crate) began: Option<Instant>,
    pub(crate) attempts: u64,
    /// Devices that take no further part in this prompt.
    pub(crate) excluded: BTreeMap<PeerId, Exclusion>,
    /// Failures of other devices that count towards `failovers_max`.
    pub(crate) failures: u32,
    /// Attempts at other devices that were given up, for whatever reason.
    pub(crate) given_up: usize,
    pub(crate) takeovers: Vec<Takeover>,
    /// Why this device cannot stand in, once it has failed to.
    pub(crate) local_fault: Option<Fault>,
    pub(crate) first_cause: Option<ErrorCode>,
    /// When to stop waiting for offers.
    pub(crate) offers_due: Option<Instant>,
    /// Since when nobody can go on, until a token is chosen.
    pub(crate) absent_since: Option<Instant>,
    /// When to look for who comes back.
    pub(crate) look_again: Option<Instant>,
    /// The most layers that this device computes in this prompt.
    pub(crate) layers_here_max: u32,
    /// Until when the token that is under way may still be computed though nobody wants it.
    pub(crate) stop_due: Option<Instant>,
    /// What the hosts hold, once the walk has ended in order.
    pub(crate) prefix: Option<PrefixCacheEntry>,
    pub(crate) measure: Measure,
    pub(crate) visits: Visits,
    /// Gains that this walk has observed.
    pub(crate) norm_bounds: NormBounds,
    /// What the node must do next; handed over at the end of each event.
    pub(crate) actions: Vec<Action>,
}

/// Where a prompt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not begun.
    Ready,
    /// Under way.
    Walking,
    /// Ended; nothing happens any more.
    Over,
}

impl Pipeline {
    /// A prompt that will walk `route`; begins with [`Event::Begin`].
    #[must_use]
    pub fn new(route: &Route, mut settings: PipelineSettings) -> Self {
        if let Some(resume) = &settings.resume {
            settings.history_key = resume.key.clone();
        }
        let stage = |segment: &Segment| Stage::new(*segment, Role::Main);
        let stages: Vec<Stage> = route.segments().iter().map(stage).collect();
        let here = stages.iter().filter(|stage| stage.place() == Place::Local);
        let layers_here_max =
            here.map(|stage| stage.layers().len()).fold(settings.room_here, u32::saturating_add);
        let mut replay_logs = ReplayLogs::new(settings.hidden, settings.dtype);
        stages.iter().filter_map(Stage::takes).for_each(|layer| replay_logs.ensure(layer));
        Self {
            stages,
            replay_logs,
            state: State::Ready,
            ids: Sensitive(Vec::new()),
            marks: PrefixHashes::new(settings.history_key.clone()),
            sampled: 0,
            held: None,
            began: None,
            attempts: 0,
            excluded: BTreeMap::new(),
            failures: 0,
            given_up: 0,
            takeovers: Vec::new(),
            local_fault: None,
            first_cause: None,
            offers_due: None,
            absent_since: None,
            look_again: None,
            layers_here_max,
            stop_due: None,
            prefix: None,
            measure: Measure::default(),
            visits: Visits::default(),
            norm_bounds: NormBounds::default(),
            actions: Vec::new(),
            settings,
        }
    }

    /// Takes one event and returns what to do now, in this order. Anything that does not fit the
    /// state (late frames, events after the end) does nothing.
    pub fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        match (self.state, event) {
            (State::Ready, Event::Begin { prompt }) => self.begin(prompt, now),
            (State::Ready, Event::Cancel) => self.cancel(),
            (State::Walking, event) => self.on_event(event, now),
            _ => {}
        }
        if self.state == State::Walking {
            self.leave_the_drained(now);
            self.join_hosts(now);
            self.pump(now);
            if self.is_stopped_while_reading() && self.is_between_steps() {
                self.cancel();
            }
        }
        if self.state == State::Walking {
            self.want_verifiers();
            self.ask_for_offers(now);
            self.release_first_words(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// When to send [`Event::Tick`] at the latest; `None` while nothing is waited for.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.state != State::Walking {
            return None;
        }
        let stages = self.stages.iter().filter_map(|stage| stage.due);
        let migrations =
            self.stages.iter().flat_map(|stage| [stage.migration_due(), stage.caches_due]);
        stages
            .chain(migrations.flatten())
            .chain(self.offers_due)
            .chain(self.look_again)
            .chain(self.stop_due)
            .min()
    }

    /// What the walk has cost so far.
    #[must_use]
    pub fn measure(&self) -> Measure {
        let mut measure = self.measure.clone();
        measure.hops.extend(self.stages.iter().map(|stage| stage.measure));
        measure
    }

    /// The newest answered steps one by one, those of the prompt first: what the speed of a device
    /// is told from.
    pub fn visits(&self) -> impl Iterator<Item = &HopVisit> {
        self.visits.iter()
    }

    /// The norm_bounds of spans that this walk has observed; worth keeping when the reply was seen
    /// through.
    #[must_use]
    pub fn norm_bounds(&self) -> &NormBounds {
        &self.norm_bounds
    }

    /// Who computes which layers at the moment, in layer order.
    pub fn places(&self) -> impl Iterator<Item = Segment> {
        self.stages.iter().filter(|stage| stage.is_main()).map(|stage| stage.segment)
    }

    /// The device that the next token waits for; none while this device itself has to compute
    /// something first, and where nobody has the layers. A part of this device that has answered all
    /// it was given is waited for by nobody: more of the prompt goes to it once those behind it are
    /// further.
    #[must_use]
    pub fn waits_for(&self) -> Option<PeerId> {
        let is_behind = |stage: &&Stage| {
            let is_resting =
                matches!((stage.place(), &stage.phase), (Place::Local, Phase::Open(_)))
                    && stage.under_way.is_empty();
            stage.done < self.positions() && !is_resting
        };
        let first = self.stages.iter().filter(|stage| stage.is_main()).find(is_behind)?;
        match (first.place(), &first.phase) {
            (Place::Peer(peer), Phase::Opening(_) | Phase::Open(_)) => Some(peer),
            _ => None,
        }
    }

    /// Positions that may still be added.
    #[must_use]
    pub fn positions_left(&self) -> u32 {
        self.settings.positions_max.saturating_sub(self.positions())
    }

    fn begin(&mut self, prompt: Sensitive<Vec<u32>>, now: Instant) {
        self.state = State::Walking;
        self.began = Some(now);
        if prompt.is_empty() {
            return self.abort(ErrorCode::BadRequest, None);
        }
        // The whole length is checked before anybody is asked to compute.
        if prompt.len() > self.settings.positions_max as usize {
            return self.abort(ErrorCode::TooLong, None);
        }
        prompt.iter().for_each(|token| self.marks.push(*token));
        self.ids = prompt;
        // Something is left to compute, so that there is a position to choose the next token from.
        let resume =
            self.settings.resume.take().filter(|resume| resume.position < self.positions());
        let drawn = self.draw_spot_checks(resume.as_ref().map_or(0, |resume| resume.position));
        // What goes into a stage that is checked has to be here from the beginning, so those before
        // it compute their past again (`verification`).
        let first = drawn.unwrap_or(0);
        if let Some(resume) = &resume {
            let beyond = drawn.and_then(|index| self.stages[index].takes());
            self.replay_logs.resume_at(resume.position, beyond);
            self.measure.resumed = resume.position;
        }
        for index in 0..self.stages.len() {
            self.open_at(index, resume.as_ref().filter(|_| index >= first), now);
        }
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Begin { .. } => {}
            Event::Opened { attempt, position } => self.on_opened(attempt, position, now),
            Event::Progress { attempt } => {
                // Misses are forgotten only when a step is answered, and only as many pieces count
                // as there are, so a trickle does not hide a device that never answers.
                if let Some(index) = self.find_or_count(attempt) {
                    self.stages[index].progressed(&self.settings.deadlines, now);
                }
            }
            Event::Output { attempt, step, position, count, activation, compute_us, queue_us } => {
                let answer = (step, position, count);
                if let Some(index) = self.answers(attempt, step) {
                    self.on_output(index, answer, activation, (compute_us, queue_us), now);
                }
            }
            Event::Logits { attempt, step, position, compute_us, queue_us } => {
                if let Some(index) = self.answers(attempt, step) {
                    self.on_logits(index, (step, position), (compute_us, queue_us), now);
                }
            }
            caches @ (Event::KvCacheOffered { .. }
            | Event::KvCacheReceived { .. }
            | Event::KvCacheImported { .. }) => self.on_caches(caches, now),
            Event::Failed { attempt, code, sentence } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_fault(index, Fault::reported(code, sentence), now);
                }
            }
            Event::Corrupt { attempt, sentence } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.measure.corrupt_activations += 1;
                    let corrupt = Corrupt::Unreadable { reason: sentence };
                    self.on_fault(index, Fault::corrupt(corrupt), now);
                }
            }
            Event::Lost { attempt } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_fault(index, Fault::lost(self.stages[index].place()), now);
                }
            }
            Event::Forwarding { attempt, refused } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_forwarding(index, refused, now);
                }
            }
            Event::Passed { attempt, step, compute_us, queue_us } => {
                if let Some(index) = self.answers(attempt, step) {
                    self.on_passed(index, step, (compute_us, queue_us), now);
                }
            }
            Event::Draining { attempt } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_draining(index, now);
                }
            }
            Event::NextToken(token) => self.on_next_token(token),
            Event::Finish => self.finish(),
            Event::Offers(offers) => self.on_offers(&offers, now),
            Event::Tick => self.on_tick(now),
            Event::Cancel => self.on_cancel(now),
        }
    }

    /// What a host that leaves remembers is offered, has come, or was taken by another one.
    fn on_caches(&mut self, event: Event, now: Instant) {
        match event {
            Event::KvCacheOffered { attempt, takes } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_kv_cache_offered(index, takes);
                }
            }
            Event::KvCacheReceived { attempt, position, mark } => match self.find_or_count(attempt)
            {
                Some(index) => self.on_kv_cache_received(index, (position, mark), now),
                None => self.actions.push(Action::DiscardKvCache { from: attempt }),
            },
            Event::KvCacheImported { attempt, position } => {
                if let Some(index) = self.find_or_count(attempt) {
                    self.on_kv_cache_imported(index, position, now);
                }
            }
            _ => {}
        }
    }

    fn on_opened(&mut self, attempt: AttemptId, position: u32, now: Instant) {
        let Some(index) = self.find_or_count(attempt) else {
            return;
        };
        let stage = &mut self.stages[index];
        if !matches!(stage.phase, Phase::Opening(_)) {
            self.measure.late_frames += 1;
            return;
        }
        if position != stage.from && stage.from > 0 {
            return self.resume_nothing(now);
        }
        if position != stage.from {
            return self.on_fault(index, Fault::of(ErrorCode::HistoryMismatch), now);
        }
        stage.phase = Phase::Open(attempt);
        stage.misses = 0;
        stage.asked = Asked::No;
        stage.due = None;
        if let (Place::Peer(peer), Role::Main) = (stage.place(), stage.role) {
            let layers = stage.layers();
            let state = ShardState::Online;
            self.report(Report::ShardStatus { peer, layers, state });
        }
        let mut line = self.stages.iter().filter(|stage| stage.is_main());
        let is_built = line.all(|stage| matches!(stage.phase, Phase::Open(_)));
        if is_built && self.measure.construct.is_none() {
            self.measure.construct = self.began.map(|began| now - began);
        }
        self.send_kv_cache(index, now);
    }

    fn on_next_token(&mut self, token: Sensitive<u32>) {
        // A token that was not asked for has no position.
        if self.sampled != self.positions() {
            return;
        }
        if self.positions_left() == 0 {
            return self.abort(ErrorCode::TooLong, None);
        }
        self.absent_since = None;
        self.marks.push(*token);
        self.ids.0.push(*token);
        self.draw_decode_checks();
    }

    fn finish(&mut self) {
        self.end(CloseReason::Finished, Action::Done);
    }

    /// Between two steps the hosts can keep what they have. Those that are under way are waited
    /// for, but not for long, and nothing is repaired for them. While the prompt is read no further
    /// step is begun.
    fn on_cancel(&mut self, now: Instant) {
        if self.is_in_order() && self.stop_due.is_none() && !self.is_between_steps() {
            self.stop_due = Some(now + STOP_LIMIT);
        } else {
            self.cancel();
        }
    }

    /// Whether the reply was stopped before its first token.
    pub(crate) fn is_stopped_while_reading(&self) -> bool {
        self.stop_due.is_some() && self.sampled == 0
    }

    pub(crate) fn cancel(&mut self) {
        let code = ErrorCode::Cancelled;
        let has_begun = self.stages.iter().all(|stage| !stage.ends.is_empty());
        let is_kept = has_begun && self.is_between_steps();
        self.end(
            if is_kept { CloseReason::Finished } else { CloseReason::Cancelled },
            Action::Aborted {
                code,
                sentence: code.sentence().to_owned(),
                first_cause: None,
                missing: None,
            },
        );
    }

    /// Ends with `code`; `sentence` when something more exact is known.
    pub(crate) fn abort(&mut self, code: ErrorCode, sentence: Option<String>) {
        self.abort_for(code, sentence, None);
    }

    /// The same where nobody computes the layers of `missing`.
    pub(crate) fn abort_for(
        &mut self,
        code: ErrorCode,
        sentence: Option<String>,
        missing: Option<Segment>,
    ) {
        let aborted = Action::Aborted {
            code,
            sentence: sentence.unwrap_or_else(|| code.sentence().to_owned()),
            first_cause: self.first_cause.filter(|first| *first != code),
            missing,
        };
        self.end(CloseReason::Failed(code), aborted);
    }

    /// The one way out: closes what is open, then says how it ended. The first end wins.
    fn end(&mut self, reason: CloseReason, last: Action) {
        if self.state == State::Over {
            return;
        }
        self.state = State::Over;
        if reason == CloseReason::Finished {
            self.prefix = self.prefix_here();
        }
        for index in 0..self.stages.len() {
            // What is closed in the middle of a step, or beside the route, is not to be kept.
            let is_kept = self.stages[index].is_left_in_order();
            let is_cut = reason == CloseReason::Finished && !is_kept;
            self.drop_migration(index);
            self.close(index, if is_cut { CloseReason::Superseded } else { reason });
        }
        self.actions.push(last);
    }

    /// Opens a new attempt at the stage's place, from position 0.
    pub(crate) fn open(&mut self, index: usize, now: Instant) {
        self.open_at(index, None, now);
    }

    fn open_at(&mut self, index: usize, resume: Option<&Resume>, now: Instant) {
        self.attempts += 1;
        let attempt = AttemptId(self.attempts);
        if self.stages[index].segment.part.head {
            // They are computed again.
            self.held = None;
        }
        let stage = &mut self.stages[index];
        stage.open(attempt, resume, &self.settings, now);
        stage.keep_migration();
        self.actions.push(Action::Open {
            attempt,
            place: stage.place(),
            part: stage.segment.part,
            dtype: self.replay_logs.dtype(),
            positions_max: self.settings.positions_max,
            resume: resume.map(|resume| (resume.position, self.marks.at(resume.position))),
        });
    }

    /// Ends the stage's attempt, if it has one.
    pub(crate) fn close(&mut self, index: usize, reason: CloseReason) {
        if let Some(attempt) = self.stages[index].leave() {
            self.actions.push(Action::Close { attempt, reason });
        }
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.actions.push(Action::Report(report));
    }

    /// Positions of the history so far.
    pub(crate) fn positions(&self) -> u32 {
        u32::try_from(self.ids.len()).unwrap_or(u32::MAX)
    }

    /// The stage whose current attempt this is.
    pub(crate) fn stage_of(&self, attempt: AttemptId) -> Option<usize> {
        self.stages.iter().position(|stage| stage.attempt() == Some(attempt))
    }

    /// The stage whose current attempt this is; what belongs to an old attempt is counted.
    fn find_or_count(&mut self, attempt: AttemptId) -> Option<usize> {
        let found = self.stage_of(attempt);
        self.measure.late_frames += u32::from(found.is_none());
        found
    }

    /// The stage that waits for the answer to `step`; repeated answers are counted.
    fn answers(&mut self, attempt: AttemptId, step: u64) -> Option<usize> {
        let index = self.find_or_count(attempt)?;
        let stage = &self.stages[index];
        let expected = stage.under_way.front().map_or(stage.next_step, |front| front.step);
        if step < expected {
            self.measure.late_frames += 1;
            return None;
        }
        Some(index)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("state", &self.state)
            .field("positions", &self.ids.len())
            .field("places", &self.places().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
