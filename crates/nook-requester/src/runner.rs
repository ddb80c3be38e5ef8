//! Tasks of the asking side: what [`Requester`] wants done that takes time.
//!
//! Each task reports back as an [`Event`]. All of them end with the node.
//!
//! [`Requester`]: crate::machine::Requester

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, ErrorCode, LayerRange, PeerId, Sensitive, clock};
use nook_link::Links;
use nook_plan::{OffloadPolicy, Place, Route};
use nook_store::ActivationChoice;
use nook_trust::DeviceKey;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::choice::{Choice, Encoded, Lack, Question};
use crate::machine::placement::PlacementLook;
use crate::machine::probing::{ProbeTools, Probed, Round};
use crate::machine::queue::EmbedMark;
use crate::machine::records::Note;
use crate::machine::replies::{ReplyJob, ReplyTerms};
use crate::machine::{Event, Said, Task, Work, embed};
use crate::prompt;
use crate::prompt::Ready;
use crate::reply::{self, GenerationSetup, Given, ReaderLeft, ReplySink};
use nook_api::views::{ReplyEvent, ShardState, Wording};
use nook_api::{
    Answer, Counted, EmbedRequest, Embedded, GenerateRequest, NodeError, REPLY_EVENTS_MAX, Reach,
    Reply, ReplyPiece,
};
use nook_resources::adverts::AdvertBook;
use nook_resources::open_models::{Listed, OpenModel, OpenModelCache};
use nook_resources::workers::Workers;

/// How long a device is waited for that was never woken before; they take from seconds out of a
/// light sleep to a minute from the disk.
const WAKING_USUAL: Duration = Duration::from_secs(60);

/// How much longer than last time: it also says what it lends.
const WAKING_MARGIN: Duration = Duration::from_secs(30);

/// Longest wait for devices that were woken. Then the reply is refused, as it is where nobody can
/// be woken.
const WAKING_MAX: Duration = Duration::from_secs(180);

/// How long devices are waited for that are neither called any more nor there: one that loses its
/// link again is called no more, but on its way.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// Shortest time between two looks of a reply that waits at what others offer.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// What the tasks need.
#[derive(Debug, Clone)]
pub struct Runner {
    /// Signs the tickets of this device's replies.
    pub key: Arc<DeviceKey>,
    /// Worker processes of this device.
    pub workers: Workers,
    /// Models that are open.
    pub open_models: OpenModelCache,
    /// Other devices.
    pub links: Links,
    /// What they offer.
    pub book: watch::Receiver<Arc<AdvertBook>>,
    /// What tasks report goes here.
    pub events: mpsc::Sender<Event>,
    /// All tasks of the node.
    pub tasks: Tasks,
    /// Held by whoever counts the tokens of a prompt: one at a time.
    pub counting: Arc<Semaphore>,
}

/// How far the tokens of a prompt are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Until it is certain that they do not fit.
    WhatFits,
    /// To the end.
    All,
}

/// Where a reply is computed.
struct Way {
    route: Route,
    /// Layers besides those of the route that this device could compute.
    room_here: u32,
    weights_here: Vec<LayerRange>,
    /// Whether that was chosen knowing what earlier replies left where.
    is_planned: bool,
    /// How activations travel there.
    dtype: ActivationDtype,
    /// The device that is to run everything first, if one is.
    whole: Option<Given>,
}

/// How long a reply waits for devices that it had woken.
#[derive(Debug)]
struct Patience {
    woken: BTreeSet<PeerId>,
    until: Instant,
}

impl Patience {
    /// With devices that are asleep and took so long the last time; none where nobody is.
    fn with(asleep: &BTreeMap<PeerId, Option<Duration>>, now: Instant) -> Option<Self> {
        let wait =
            asleep.values().map(|took| took.unwrap_or(WAKING_USUAL) + WAKING_MARGIN).max()?;
        Some(Self { woken: asleep.keys().copied().collect(), until: now + wait.min(WAKING_MAX) })
    }

    /// Once nobody is on the way any more, what those lend who came is heard soon or never.
    fn look(
        &mut self,
        asleep: &BTreeMap<PeerId, Option<Duration>>,
        is_linked: impl Fn(PeerId) -> bool,
        now: Instant,
    ) {
        if self.woken.iter().any(|peer| asleep.contains_key(peer)) {
            return;
        }
        let came = self.woken.iter().any(|peer| is_linked(*peer));
        self.until = self.until.min(now + if came { WAKING_MARGIN } else { GIVEN_UP });
    }
}

impl Runner {
    /// Starts the task for `task`.
    pub fn start(&self, task: Task) {
        match task.0 {
            Work::Reply(job) => self.reply(*job),
            Work::Count { listed, request, answer } => self.count(listed, *request, answer),
            Work::Embed { listed, request, answer, mark } => {
                self.embed(listed, request, answer, mark);
            }
            Work::Probe(round) => self.probe(*round),
            Work::LookAtPlacement(look) => self.look_at_placement(*look),
        }
    }

    fn reply(&self, job: ReplyJob) {
        let runner = self.clone();
        self.tasks.spawn_until_cancelled("reply", async move {
            let events = runner.events.clone();
            runner.make(job).await;
            // A node that is leaving makes no other reply.
            let _ = events.send(Said::ReplyEnded.into()).await;
        });
    }

    /// Makes a reply from its first look at the model to its end. Its slot is free again
    /// afterwards.
    async fn make(self, job: ReplyJob) {
        let ReplyJob { listed, request, mut answer, place: _place, terms } = job;
        let begun = self.begin(listed, request, Counts::WhatFits, &mut answer).await;
        let (ready, model) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let (events, receiver) = mpsc::channel(REPLY_EVENTS_MAX);
        let reply = Reply {
            model: model.listed.name.clone(),
            prompt_ids: Sensitive(ready.ids.clone()),
            form: ready.form.clone(),
            events: receiver,
        };
        if answer.send(Ok(reply)).is_ok()
            && let Some(setup) = self.set_up(terms, (model, ready), events).await
        {
            reply::run(setup).await;
        }
    }

    /// Makes a request ready. Whoever has left gives the place back: at once while this waits for
    /// others or for a process that ends with the wait, but not before a thread of this process has
    /// ended what it began. Else places would be free while their work goes on.
    async fn begin<A>(
        &self,
        listed: Listed,
        request: GenerateRequest,
        counts: Counts,
        answer: &mut Answer<A>,
    ) -> Result<(Ready, Arc<OpenModel>), NodeError> {
        let model = unless_left(answer, self.open_models.open(listed)).await?;
        let opened = model.clone();
        let draft = blocking(move || prompt::draft(&opened, request)).await?;
        let rendered = match &draft.job {
            Some(job) => unless_left(answer, model.render(job)).await?,
            None => None,
        };
        let opened = model.clone();
        let most = match counts {
            Counts::WhatFits => prompt::prompt_max(&model),
            Counts::All => usize::MAX,
        };
        let encoded = blocking(move || prompt::encode(&opened, (draft, most), rendered)).await?;
        if let Some(shape) = &encoded.shape {
            unless_left(answer, model.try_form(shape)).await?;
        }
        let opened = model.clone();
        let ready = blocking(move || prompt::ready(&opened, encoded)).await?;
        Ok((ready, model))
    }

    /// Decides where the reply is computed, and makes ready; `None` when it cannot be made, which
    /// the reader was told, or when the node is leaving.
    async fn set_up(
        self,
        terms: ReplyTerms,
        (model, ready): (Arc<OpenModel>, Ready),
        events: mpsc::Sender<ReplyPiece>,
    ) -> Option<GenerationSetup> {
        let ReplyTerms { conversation, mut question, fall_back, failovers_max, .. } = terms;
        if ready.constraint.is_some() || ready.alternatives.is_some() {
            // A form, and how likely each token was, are worked out from the logits, which stay
            // where they are made.
            question.whole = OffloadPolicy::Refused;
        }
        let mut sink = ReplySink {
            number: rand::random(),
            model: model.listed.digest,
            me: question.me.clone(),
            book: self.book.clone(),
            events,
            asked: terms.asked,
            first: None,
            last: None,
            tokens: 0,
            failovers: Vec::new(),
            shared: Vec::new(),
            predicted: None,
            notes: self.events.clone(),
        };
        let way = self.choose(question, &model, &ready, &mut sink).await?;
        Some(GenerationSetup {
            model,
            whole: way.whole,
            begun: None,
            room_here: way.room_here,
            weights_here: way.weights_here,
            route: way.route,
            is_planned: way.is_planned,
            ready,
            dtype: way.dtype,
            fall_back,
            failovers_max,
            spot_check: terms.spot_check,
            norm_bounds: terms.norm_bounds,
            forecast: terms.forecast,
            conversation,
            cache_costs: terms.cache_costs,
            sink,
            key: self.key,
            workers: self.workers,
            links: self.links,
            tasks: self.tasks,
        })
    }

    async fn choose(
        &self,
        mut question: Question,
        model: &OpenModel,
        ready: &Ready,
        sink: &mut ReplySink,
    ) -> Option<Way> {
        let reach = question.reach;
        let may_narrow = question.format == ActivationChoice::ByLink;
        let (mut news, mut patience) = (self.book.clone(), None);
        let (choice, told, (room_here, weights_here)) = loop {
            news.mark_unchanged();
            let (looked, choice, told, spare) = self.decide(question, model, ready).await?;
            question = looked;
            // What is on its way to this device comes whoever is awake.
            let is_for_others = !matches!(choice.lack, None | Some(Lack::Ends));
            if !is_for_others || reach == Reach::ThisDevice {
                break (choice, told, spare);
            }
            if patience.is_none() {
                patience = self.wake(sink).await.ok()?;
            }
            let Some(patience) = &mut patience else { break (choice, told, spare) };
            let is_linked = |peer| self.links.link(peer).is_some();
            patience.look(&self.book.borrow().asleep, is_linked, clock::now());
            tokio::select! {
                biased;
                () = sink.events.closed() => return None,
                () = tokio::time::sleep_until(patience.until.into()) => break (choice, told, spare),
                Ok(()) = news.changed() => tokio::time::sleep(LOOK_PAUSE).await,
            }
        };
        sink.decided(&model.listed, &choice, &told).await;
        let name = |peer| sink.name(Place::Peer(peer));
        if let Some(refusal) = choice.refusal(&model.listed.name, reach, name) {
            tracing::info!("a reply cannot be made: {refusal}");
            // A reader who has left needs no reason.
            let _ = sink.tell(refusal.into(), Vec::new()).await;
            return None;
        }
        // What was begun in one format goes on in it: to compute everything again costs more.
        let dtype = match may_narrow {
            true => model.prefix_cache.written_as(&ready.ids).unwrap_or(choice.dtype),
            false => choice.dtype,
        };
        let whole = choice.whole.and_then(|whole| {
            let own = self.book.borrow().own.get(&whole.peer).cloned()?;
            Some(Given { pass: own.pass, prediction: whole.prediction })
        });
        let (route, is_planned) = (choice.route, choice.is_planned);
        Some(Way { route, room_here, weights_here, is_planned, dtype, whole })
    }

    /// Looks at the house as it is now; `None` when the node is leaving.
    async fn decide(
        &self,
        question: Question,
        model: &OpenModel,
        ready: &Ready,
    ) -> Option<(Question, Choice, Encoded, (u32, Vec<LayerRange>))> {
        let told = Encoded {
            prompt: u32::try_from(ready.ids.len()).unwrap_or(u32::MAX),
            tokens_max: ready.tokens_max,
            held: self.workers.held(model.listed.digest).await,
            memory_free: 0,
            memory_ceiling: 0,
            warm: model.prefix_cache.warm(&ready.ids, question.file.shape().layers),
        };
        let book = self.book.borrow().clone();
        let card = self.workers.backends().card_bytes(model.listed.digest);
        // Sizing a large model looks at thousands of names, and the system is asked for its memory.
        let choosing = tokio::task::spawn_blocking(move || {
            let memory_free = question.memory_free(&told.held, card);
            let memory_ceiling = question.memory_ceiling(&told, card);
            let told = Encoded { memory_free, memory_ceiling, ..told };
            let choice = question.choose(&told, &book, clock::now());
            let spare = (question.room_here(&told, &choice.route), question.layers_here());
            (question, choice, told, spare)
        });
        choosing.await.ok()
    }

    /// Wakes the devices that can be woken, and tells the reader; how long they are waited for.
    /// None where nobody sleeps whom this device may wake.
    async fn wake(&self, sink: &mut ReplySink) -> Result<Option<Patience>, ReaderLeft> {
        let asleep = self.book.borrow().asleep.clone();
        for peer in asleep.keys() {
            let device = sink.name(Place::Peer(*peer));
            let event = ReplyEvent::ShardStatus { device, status: ShardState::Awaited };
            sink.tell(event, Vec::new()).await?;
        }
        let patience = Patience::with(&asleep, clock::now());
        if patience.is_some() {
            sink.tell_house(Note::Wakes(asleep.into_keys().collect())).await;
        }
        Ok(patience)
    }

    /// Counts the tokens of a prompt, of one at a time: a long one takes a good part of a second.
    /// One that is too long is an answer too.
    fn count(&self, listed: Listed, request: GenerateRequest, mut answer: Answer<Counted>) {
        let runner = self.clone();
        self.tasks.spawn_until_cancelled("counting", async move {
            let Ok(_turn) = runner.counting.acquire().await else { return };
            let model = listed.name.clone();
            let tokens = match runner.begin(listed, request, Counts::All, &mut answer).await {
                Ok((ready, _)) => Ok(ready.ids.len() as u64),
                Err(error) => match error.wording {
                    Some(Wording::PromptTooLong { tokens, .. }) => Ok(tokens),
                    _ => Err(error),
                },
            };
            let _ = answer.send(tokens.map(|tokens| Counted { model, tokens }));
        });
    }

    /// Works out vectors. Whoever stops waiting ends it.
    fn embed(
        &self,
        listed: Listed,
        request: EmbedRequest,
        mut answer: Answer<Embedded>,
        mark: EmbedMark,
    ) {
        let (open_models, workers) = (self.open_models.clone(), self.workers.clone());
        let events = self.events.clone();
        self.tasks.spawn_until_cancelled("embedding", async move {
            let done = tokio::select! {
                () = answer.closed() => None,
                done = embed::embed(&open_models, &workers, listed, request.inputs) => Some(done),
            };
            // Whoever hears of the end sees that nothing is under way.
            drop(mark);
            if let Some(done) = done {
                let _ = answer.send(done);
            }
            // As of a reply: what waits until nothing is computed here goes on.
            let _ = events.send(Said::ReplyEnded.into()).await;
        });
    }

    fn probe(&self, round: Round) {
        let tools = ProbeTools {
            workers: self.workers.clone(),
            links: self.links.clone(),
            events: self.events.clone(),
        };
        let (number, until) = (round.number, round.until.clone());
        let events = self.events.clone();
        self.tasks.spawn_until_cancelled("probe", async move {
            tokio::select! {
                biased;
                () = until.cancelled() => {}
                () = round.run(tools) => {
                    // A node that is leaving remembers nothing.
                    let _ = events.send(Said::Probed(Probed::Round(number)).into()).await;
                }
            }
        });
    }

    fn look_at_placement(&self, look: PlacementLook) {
        let (workers, events) = (self.workers.clone(), self.events.clone());
        let book = self.book.borrow().clone();
        self.tasks.spawn_until_cancelled("placement", async move {
            let model = look.question.model;
            let held = workers.held(model).await;
            let card = workers.backends().card_bytes(model);
            // A search over many devices takes milliseconds: not on the runtime.
            let looked = tokio::task::spawn_blocking(move || {
                let memory_free = look.question.memory_free(&held, card);
                let told = Encoded::usual(held, memory_free);
                let now = clock::now();
                let outlook = look.question.outlook(&told, &book, &look.movable, now);
                let of_each = |guests| look.question.gains(&told, &book, guests, now);
                (Box::new(outlook), look.gains_with.as_ref().map(of_each))
            });
            let (outlook, gains) = match looked.await {
                Ok((outlook, gains)) => (Some(outlook), gains),
                Err(_) => (None, None),
            };
            if let Some(gains) = gains {
                let _ = events.send(Said::Gains(model, gains).into()).await;
            }
            // A node that is leaving places nothing.
            let _ = events.send(Said::Outlook(model, outlook).into()).await;
        });
    }
}

/// What comes of `work`, unless the asker leaves before; the work ends then.
async fn unless_left<A, T>(
    answer: &mut Answer<A>,
    work: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    tokio::select! {
        biased;
        () = answer.closed() => Err(NodeError::from(ErrorCode::Cancelled)),
        done = work => done,
    }
}

/// What comes of `work`, which takes milliseconds: not on the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| NodeError::from(ErrorCode::BadRequest))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn devices_are_waited_for_as_long_as_last_time_and_no_longer_once_they_are_given_up() {
        let now = clock::now();
        let [near, far] = [PeerId([1; 32]), PeerId([2; 32])];
        assert!(Patience::with(&BTreeMap::new(), now).is_none());
        let both = BTreeMap::from([(near, Some(5 * SECOND)), (far, Some(3600 * SECOND))]);
        let mut patience = Patience::with(&both, now).unwrap();
        assert_eq!(patience.until, now + WAKING_MAX);
        // One is there, the other is still called.
        let one = BTreeMap::from([(far, Some(3600 * SECOND))]);
        patience.look(&one, |peer| peer == near, now + SECOND);
        assert_eq!(patience.until, now + WAKING_MAX);
        // The other is given up: what the first lends is heard soon, and looking again adds nothing.
        for later in [2, 20] {
            patience.look(&BTreeMap::new(), |peer| peer == near, now + later * SECOND);
            assert_eq!(patience.until, now + 2 * SECOND + WAKING_MARGIN);
        }
        // Nobody is there.
        patience.look(&BTreeMap::new(), |_| false, now + 3 * SECOND);
        assert_eq!(patience.until, now + 3 * SECOND + GIVEN_UP);
    }
}
