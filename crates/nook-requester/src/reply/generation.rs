//! The task behind one reply.

mod caches;
mod handing;
mod leaving;
mod opening;
mod schedule;
mod sharing;

pub(crate) use opening::local_call;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use nook_base::limits::{PREFILL_CHUNK_POOLED_TOKENS, PREFILL_CHUNK_TOKENS};
use nook_base::tasks::Tasks;
use nook_base::{Activation, ActivationDtype, ErrorCode, LayerRange, PeerId, Sensitive, clock};
use nook_link::Links;
use nook_pipeline::{
    Action, AttemptId, CloseReason, Deadlines, Event, FallBack, Forecast, HopMeasure, LogitRows,
    NormBounds, PREFILL_WINDOW, Pipeline, PipelineSettings, PrefixCacheEntry, Priority,
    REPLAY_LOG_BYTES_MAX, Report, ShardState, SpotCheck,
};
use nook_plan::{Place, Route};
use nook_text::ReplyText;
use nook_trust::DeviceKey;
use nook_wire::{LocalMessage, Message, Open, ResumePoint, StepHead};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::choice::device_gone;
use crate::machine::awaiting::Awaited;
use crate::machine::records::Note;
use crate::prompt::Ready;
use crate::reply::choosing::{Chooser, Chosen};
use crate::reply::handover::{CacheCosts, Handovers};
use crate::reply::offload::{Begun, Given};
use crate::reply::segment_call::{CallEvent, Order, SegmentCall, put};
use crate::reply::sink::{ReaderLeft, ReplySink};
use nook_api::NodeError;
use nook_api::views::{self, FinishReason, ReplyEvent};
use nook_resources::open_models::OpenModel;
use nook_resources::prefix_cache::{GoingOn, Hosts};
use nook_resources::workers::Workers;

/// Events of calls that may wait; a call beyond them waits, and with it the other side.
const LEG_EVENTS_MAX: usize = 64;

/// What a generation needs to begin.
#[derive(Debug)]
pub(crate) struct GenerationSetup {
    pub(crate) model: Arc<OpenModel>,
    /// Who makes all of it, where that was chosen; the rest is for when it does not see it through.
    pub(crate) whole: Option<Given>,
    /// What another device has begun, once it has not.
    pub(crate) begun: Option<Begun>,
    pub(crate) route: Route,
    /// Layers besides those of the route that this device could compute.
    pub(crate) room_here: u32,
    /// Layers whose weights this device has.
    pub(crate) weights_here: Vec<LayerRange>,
    /// Whether that was chosen knowing what earlier replies left where.
    pub(crate) is_planned: bool,
    pub(crate) ready: Ready,
    pub(crate) dtype: ActivationDtype,
    pub(crate) fall_back: FallBack,
    pub(crate) failovers_max: u32,
    /// What is computed twice; chance is drawn here.
    pub(crate) spot_check: SpotCheck,
    pub(crate) norm_bounds: Arc<NormBounds>,
    pub(crate) forecast: Arc<Forecast>,
    /// The kept conversation that the reply belongs to.
    pub(crate) conversation: Option<i64>,
    pub(crate) cache_costs: CacheCosts,
    pub(crate) sink: ReplySink,
    /// Signs tickets.
    pub(crate) key: Arc<DeviceKey>,
    pub(crate) workers: Workers,
    pub(crate) links: Links,
    pub(crate) tasks: Tasks,
}

/// One reply under way.
pub(crate) struct Generation {
    model: Arc<OpenModel>,
    pipeline: Pipeline,
    hidden: u32,
    dtype: ActivationDtype,
    session: u64,
    conversation: Option<i64>,
    /// Whether what an earlier reply left is to stay with the hosts.
    resumes_copy: bool,
    /// What else they were left by it, until this reply leaves something itself.
    resumed: Option<PrefixCacheEntry>,
    history: Vec<u32>,
    prompt_tokens: u32,
    /// Who made the reply so far, and when it was last heard of; until the next token is chosen.
    relieves: Option<(PeerId, Instant)>,
    /// What that device has done.
    done_elsewhere: Option<HopMeasure>,
    tokens_max: u32,
    chooser: Chooser,
    text: Option<ReplyText>,
    finish: Option<FinishReason>,
    logits: Vec<f32>,
    calls: HashMap<AttemptId, (SegmentCall, JoinHandle<()>)>,
    handovers: Handovers,
    /// What other devices were asked for, of the calls that are open.
    asked: HashMap<AttemptId, (PeerId, Open)>,
    key: Arc<DeviceKey>,
    /// Legs that were told to leave their hosts in order.
    leaving: Vec<JoinHandle<()>>,
    /// What the reply waits for, until the next token; no more than attempts may be given up.
    awaited: Vec<Arc<Awaited>>,
    /// Helpers that make other replies too.
    turns: sharing::Turns,
    /// When its tokens were predicted without others.
    schedule: schedule::Schedule,
    /// Whether the pipeline was told that nobody wants the reply any more.
    stopping: bool,
    heard: mpsc::Receiver<CallEvent>,
    hear: mpsc::Sender<CallEvent>,
    pending: VecDeque<Event>,
    sink: ReplySink,
    workers: Workers,
    links: Links,
    // Cancelled when the generation ends, however it ends: no call outlives its generation.
    tasks: Tasks,
}

/// The generation is over; there is nobody, or nothing more, to tell.
struct Over;

fn prefill_chunk(route: &Route) -> u32 {
    match route.hops() {
        0 => PREFILL_CHUNK_TOKENS,
        _ => PREFILL_CHUNK_POOLED_TOKENS,
    }
}

impl Generation {
    pub(crate) fn new(setup: GenerationSetup) -> Self {
        let GenerationSetup { model, route, ready, dtype, fall_back, failovers_max, .. } = setup;
        let (prompt_tokens, text, relieves, done_elsewhere) = match setup.begun {
            Some(Begun { prompt_tokens, text, from, done }) => (prompt_tokens, text, from, done),
            None => {
                let text = ReplyText::new(model.tokenizer.clone(), ready.opening, ready.stops);
                let prompt_tokens = u32::try_from(ready.ids.len()).unwrap_or(u32::MAX);
                (prompt_tokens, text.spelling_out(ready.spelt), None, None)
            }
        };
        let offers = setup.sink.book.borrow().offers(model.listed.digest, clock::now());
        let may_differ = !setup.is_planned;
        let hosts = Hosts { offers: &offers, links: &setup.links, may_differ };
        let (route, going_on) = model.prefix_cache.go_on(route, dtype, &ready.ids, &hosts);
        let (resume, resumes_copy, resumed) = going_on
            .map_or((None, false, None), |GoingOn { resume, copy, taken }| (resume, copy, taken));
        let settings = PipelineSettings {
            hidden: model.shape.row,
            dtype,
            prefill_chunk: prefill_chunk(&route),
            prefill_window: PREFILL_WINDOW,
            positions_max: prompt_tokens.saturating_add(ready.tokens_max),
            failovers_max,
            fall_back,
            room_here: setup.room_here,
            weights_here: setup.weights_here,
            deadlines: Deadlines::usual(),
            norm_bounds: setup.norm_bounds,
            forecast: setup.forecast,
            spot_check: SpotCheck { random: rand::random(), ..setup.spot_check },
            replay_log_bytes_max: REPLAY_LOG_BYTES_MAX,
            history_key: Sensitive(rand::random()),
            resume,
            forward: handing::linked(&setup.links),
        };
        let (hear, heard) = mpsc::channel(LEG_EVENTS_MAX);
        Self {
            hidden: model.shape.row,
            dtype,
            pipeline: Pipeline::new(&route, settings),
            session: rand::random(),
            conversation: setup.conversation,
            resumes_copy,
            resumed,
            prompt_tokens,
            tokens_max: ready.tokens_max,
            chooser: Chooser::new(ready.sampler, ready.constraint, ready.alternatives),
            text: Some(text),
            relieves,
            done_elsewhere,
            history: ready.ids,
            finish: None,
            logits: Vec::new(),
            calls: HashMap::new(),
            handovers: Handovers::new(setup.cache_costs),
            asked: HashMap::new(),
            key: setup.key,
            leaving: Vec::new(),
            awaited: Vec::new(),
            turns: sharing::Turns::default(),
            schedule: schedule::Schedule::new(setup.sink.asked, setup.sink.predicted.as_ref()),
            stopping: false,
            heard,
            hear,
            pending: VecDeque::new(),
            model,
            sink: setup.sink,
            workers: setup.workers,
            links: setup.links,
            tasks: setup.tasks.child(),
        }
    }

    /// Walks to the end, and tells what was measured on the way, however it ended.
    pub(crate) async fn run(mut self) {
        self.generation().await;
        self.leave_nothing_behind().await;
        crate::metrics::shard_latencies(&self.model.listed.name, self.pipeline.visits());
        let visits = self.pipeline.visits().copied().collect();
        let row_bytes = self.dtype.row_bytes(self.hidden) as u64;
        self.sink.measured(self.model.listed.digest, row_bytes, visits).await;
        let measure = self.pipeline.measure();
        crate::metrics::computed_twice(&measure);
        self.sink.helped(&measure.hops).await;
        self.sink.joined(measure.joints).await;
    }

    async fn generation(&mut self) {
        let route = self.sink.route(self.pipeline.places());
        let first = match self.relieves {
            None => ReplyEvent::Started {
                prompt_tokens: self.prompt_tokens,
                predicted: self.sink.expected(route.legs.iter().any(|leg| !leg.local)),
                route,
            },
            Some((from, _)) => ReplyEvent::ShardStatus {
                device: self.sink.name(Place::Peer(from)),
                status: views::ShardState::Lost,
            },
        };
        if self.sink.tell(first, Vec::new()).await.is_err() {
            return;
        }
        let mut event = Event::Begin { prompt: Sensitive(self.history.clone()) };
        loop {
            let actions = self.pipeline.handle(event, clock::now());
            for action in actions {
                if let Err(Over) = self.perform(action).await {
                    return;
                }
            }
            event = match self.pending.pop_front() {
                Some(event) => event,
                None => self.next_event().await,
            };
        }
    }

    /// Waits for whatever happens next to the pipeline.
    async fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.what_happens().await {
                return event;
            }
            if self.tell_turns().await.is_err() || self.tell_wait().await.is_err() {
                self.stopping = true;
                return Event::Cancel;
            }
        }
    }

    /// Waits for the next event; none where it is only to be looked who takes turns at a helper, or
    /// who is waited for.
    async fn what_happens(&mut self) -> Option<Event> {
        let until = async |deadline: Option<Instant>| match deadline {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        };
        let (late, turns_due) = (until(self.pipeline.next_deadline()), until(self.turns.due()));
        let wait_due = until(self.schedule.due());
        Some(tokio::select! {
            biased;
            () = self.tasks.token().cancelled() => Event::Cancel,
            () = self.sink.events.closed(), if !self.stopping => {
                self.stopping = true;
                Event::Cancel
            }
            Ok(()) = self.sink.book.changed() => return None,
            () = turns_due => return None,
            () = wait_due => return None,
            Some(heard) = self.heard.recv() => match heard {
                CallEvent::Pipeline(event @ Event::Draining { attempt }) => {
                    match self.offer_of_caches(attempt) {
                        Some(offered) => {
                            self.pending.push_front(event);
                            offered
                        }
                        None => event,
                    }
                }
                CallEvent::Pipeline(event) => event,
                CallEvent::Logits { event, values } => {
                    self.logits = values;
                    event
                }
                CallEvent::Caches { attempt, pieces } => self.handovers.came(attempt, pieces),
            },
            () = late => Event::Tick,
        })
    }

    async fn perform(&mut self, action: Action) -> Result<(), Over> {
        match action {
            Action::Open { attempt, place, part, dtype, positions_max, resume } => {
                let copy = self.resumes_copy;
                let resume = resume.map(|(position, mark)| ResumePoint { position, mark, copy });
                self.open(attempt, place, part, (dtype, positions_max, resume));
            }
            send @ (Action::SendTokens { .. } | Action::SendActivation { .. }) => self.send(send),
            Action::Forward { attempt, next } => self.forward(attempt, next),
            Action::Close { attempt, reason } => {
                self.asked.remove(&attempt);
                if let Some((call, task)) = self.calls.remove(&attempt) {
                    call.close(reason);
                    if reason == CloseReason::Finished {
                        self.leaving.push(task);
                    }
                }
            }
            Action::RequestKvCache { attempt } => self.ask_for_caches(attempt),
            Action::SendKvCache { attempt, from } => self.give_caches(attempt, from),
            Action::DiscardKvCache { from } => self.handovers.forget(from),
            Action::Sample { .. } => self.sample().await?,
            Action::WantOffers { failed, .. } => {
                let book = self.sink.book.borrow().clone();
                let model = self.model.listed.digest;
                let offers = book.offers_besides(&failed, model, clock::now());
                self.pending.push_back(Event::Offers(offers));
            }
            Action::Report(report) => {
                if let Report::ShardStatus { peer, layers, state: ShardState::Awaited } = report {
                    let model = self.model.listed.digest;
                    let awaited = Arc::new(Awaited { model, peer, layers });
                    self.sink.tell_house(Note::Awaits(Arc::downgrade(&awaited))).await;
                    self.awaited.push(awaited);
                }
                let route = self.sink.route(self.pipeline.places());
                self.sink.report(report, route).await?;
            }
            Action::Aborted { code, sentence, missing, .. } => {
                if code != ErrorCode::Cancelled {
                    tracing::warn!(%code, "a reply ended early");
                }
                self.keep_prefix().await;
                let gone = missing.filter(|missing| missing.place != Place::Local);
                let error = match gone.filter(|_| self.sink.tokens > 0) {
                    Some(missing) => device_gone(self.sink.name(missing.place)),
                    None => NodeError::new(code, sentence),
                };
                self.sink.tell(error.into(), Vec::new()).await?;
                return Err(Over);
            }
            Action::Done => {
                self.keep_prefix().await;
                self.done().await?;
                return Err(Over);
            }
        }
        Ok(())
    }

    /// Passes a step on to its call. Token ids have no way into a peer's order: its type lacks
    /// them.
    fn send(&mut self, action: Action) {
        let (attempt, sent) = match action {
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
                let head = LocalMessage::Tokens {
                    step,
                    position,
                    ids,
                    history_before,
                    history_after,
                    rows,
                };
                (attempt.id(), self.send_tokens(attempt.id(), head))
            }
            Action::SendActivation {
                attempt,
                step,
                position,
                activation,
                history_before,
                history_after,
                rows,
                priority,
            } => {
                let head = StepHead {
                    step,
                    position,
                    count: activation.tokens(),
                    hidden: self.hidden,
                    dtype: activation.dtype(),
                    history_before,
                    history_after,
                    bulk: priority == Priority::Bulk,
                };
                (attempt, self.send_activation(attempt, head, &activation, rows))
            }
            _ => return,
        };
        if !sent {
            // It is gone, or far behind with what it was to send.
            self.pending.push_back(Event::Lost { attempt });
        }
    }

    /// Whether the call took it, or tells how it ended.
    fn send_tokens(&self, attempt: AttemptId, head: LocalMessage) -> bool {
        match self.calls.get(&attempt).map(|(call, _)| call) {
            Some(SegmentCall::Local { orders, .. }) => {
                put(orders, Order::Send { head: head.into(), tensor: None })
            }
            _ => false,
        }
    }

    /// The same.
    fn send_activation(
        &self,
        attempt: AttemptId,
        head: StepHead,
        activation: &Activation,
        rows: LogitRows,
    ) -> bool {
        let tensor = Some(activation.bytes().clone());
        match self.calls.get(&attempt).map(|(call, _)| call) {
            Some(SegmentCall::Peer(orders)) => {
                put(orders, Order::Send { head: Message::Step(head), tensor })
            }
            Some(SegmentCall::Local { orders, head: with_logits }) => {
                let head = if *with_logits {
                    LocalMessage::StepLogits { head, rows }.into()
                } else {
                    Message::Step(head).into()
                };
                put(orders, Order::Send { head, tensor })
            }
            None => false,
        }
    }

    /// Chooses the next token and tells its text.
    async fn sample(&mut self) -> Result<(), Over> {
        self.awaited.clear();
        let logits = std::mem::take(&mut self.logits);
        let (id, logprobs, last) = match self.chooser.choose(&logits, &self.history).await {
            Ok(Chosen::Token { id, logprobs, last }) => (id, logprobs, last),
            Ok(Chosen::Complete) => {
                self.finish_with(FinishReason::Stop);
                return Ok(());
            }
            Err(error) => {
                let error = NodeError::new(error.code(), error.to_string());
                self.sink.tell(error.into(), Vec::new()).await?;
                return Err(Over);
            }
        };
        if let Some((from, since)) = self.relieves.take() {
            let pause = clock::now().duration_since(since);
            let route = self.sink.route(self.pipeline.places());
            self.sink.relieved(from, pause, route).await?;
        }
        if self.model.tokenizer.is_end_of_turn(id) {
            self.finish_with(FinishReason::Stop);
            return Ok(());
        }
        self.history.push(id);
        let Some(text) = &mut self.text else {
            return Err(Over);
        };
        let piece = text.push(id);
        let is_stopped = piece.stopped.is_some();
        let logprobs = logprobs.map(|logprobs| logprobs.spelt(&self.model.tokenizer));
        let now = clock::now();
        let told = match self.end_wait(now).await {
            Ok(()) => self.sink.token(now, piece, id, logprobs).await,
            Err(left) => Err(left),
        };
        if let Err(ReaderLeft) = told {
            self.stopping = true;
            self.pending.push_back(Event::Cancel);
            return Ok(());
        }
        if is_stopped {
            self.text = None;
            self.finish_with(FinishReason::Stop);
        } else if last {
            self.finish_with(FinishReason::Stop);
        } else if self.sink.tokens >= self.tokens_max {
            self.finish_with(FinishReason::Length);
        } else {
            self.pending.push_back(Event::NextToken(Sensitive(id)));
        }
        Ok(())
    }

    fn finish_with(&mut self, reason: FinishReason) {
        self.finish = Some(reason);
        self.pending.push_back(Event::Finish);
    }

    /// Tells what was held back, then the numbers.
    async fn done(&mut self) -> Result<(), ReaderLeft> {
        if let Some(text) = self.text.take() {
            self.sink.rest(text).await?;
        }
        let mut measure = self.pipeline.measure();
        if let Some(done) = self.done_elsewhere.take() {
            measure.hops.insert(0, done);
        }
        if let Some(construct) = measure.construct {
            metrics::histogram!("distributed_inference_pipeline_construct_ms")
                .record(construct.as_secs_f64() * 1e3);
        }
        let (digest, norm_bounds) = (self.model.listed.digest, self.pipeline.norm_bounds().clone());
        self.sink.seen_through(digest, self.pipeline.places(), norm_bounds).await;
        let route = self.sink.route(self.pipeline.places());
        let reason = self.finish.unwrap_or(FinishReason::Stop);
        let model = self.model.listed.name.clone();
        let summary = self.sink.summary(model, self.prompt_tokens, reason, route, &measure);
        self.sink.went(&summary).await;
        self.sink.tell(ReplyEvent::Done { summary }, Vec::new()).await
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl SegmentCall {
    fn close(self, reason: CloseReason) {
        let code = match reason {
            CloseReason::Finished => None,
            CloseReason::Cancelled | CloseReason::Superseded => Some(ErrorCode::Cancelled),
            CloseReason::Failed(code) => Some(code),
        };
        // A call that has ended needs no order; one whose queue is full ends when this is dropped.
        match self {
            Self::Local { orders, .. } => drop(orders.try_send(Order::Close(code))),
            Self::Peer(orders) => drop(orders.try_send(Order::Close(code))),
        }
    }
}

impl From<ReaderLeft> for Over {
    fn from(_: ReaderLeft) -> Self {
        Self
    }
}
