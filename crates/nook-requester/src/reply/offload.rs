//! A reply that another device of the same person makes whole: this side of it.
//!
//! [`Offload`] asks, tells what comes, and ends the reply; token ids, text and stop strings are
//! kept here as in any generation. Where the device refuses, hangs or is lost, or may not see words
//! any more, the reply goes on from the tokens so far in an ordinary generation, which [`Begun`]
//! takes over: what was told is told once, and the sampler goes on where that device's would have.
//! The ids leave in one place, [`Offload::ask`], behind the gate's proof and the host's own
//! consent.
//!
//! That device keeps what it has computed only where it has said the end and this one knows by what
//! name: then the call is closed in order, after every other end it is cancelled.

use std::time::{Duration, Instant};

use nook_base::{ErrorCode, LayerRange, PeerId, Sensitive, clock};
use nook_mux::{Call, CallError};
use nook_pipeline::{HopMeasure, Measure, StepSums};
use nook_plan::{Place, Prediction};
use nook_text::{ReplyText, Sampler};
use nook_trust::Admitted;
use nook_trust::purpose::RemoteWhole;
use nook_wire::{
    IdsAssembly, Message, OffloadFinish, OffloadKept, OffloadRequest, OffloadSampling,
    OffloadTokens, chunks_of, ids_for_own_device,
};

use crate::choice::{everything_on, prediction};
use crate::machine::records::{Note, Suspicion};
use crate::reply::generation::GenerationSetup;
use crate::reply::sink::ReaderLeft;
use nook_api::views::{FinishReason, ReplyEvent, RouteView, WrongResult};
use nook_resources::adverts::own_no_more;
use nook_resources::offload_ids::{NoIds, read_ids};
use nook_resources::prefix_cache::Offloaded;

/// Longest wait for the host to say whether it takes the request. It opens no more than a header
/// for that.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

/// Shortest and longest wait for a sign of life while the host loads and reads the prompt; between
/// them, four times what was predicted. A host whose connection is gone is noticed long before, by
/// its pings.
const FIRST_LIMITS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(600)];

/// Longest wait for each further one. Beyond it the reply goes on without that device.
const NEXT_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for the host to say the end behind the last token, which it does at once. Beyond it
/// the reply is as whole as before, and that device keeps nothing of it.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Longest wait for room to send a piece of the request, which the host makes by reading. Beyond it
/// the reply goes on without that device.
const SEND_LIMIT: Duration = Duration::from_secs(15);

/// How many times longer than predicted the first sign of life may take.
const PATIENCE: u32 = 4;

/// To whom a whole request goes.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// The gate's proof that words may go there.
    pub(crate) pass: Admitted<RemoteWhole>,
    /// What that was predicted to take, where it was.
    pub(crate) prediction: Option<Prediction>,
}

/// A reply that was begun elsewhere and goes on here.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Tokens of the prompt; what follows them in `Ready::ids` is reply.
    pub(crate) prompt_tokens: u32,
    pub(crate) text: ReplyText,
    /// Who began it, and when that device was last heard of; absent where it has begun nothing.
    pub(crate) from: Option<(PeerId, Instant)>,
    /// What it has done.
    pub(crate) done: Option<HopMeasure>,
}

/// How it ended.
#[derive(Debug)]
enum End {
    /// The reply is whole.
    Whole(FinishReason),
    /// Nobody wants it any more.
    Left,
    /// This node is leaving.
    Cancelled,
    /// It goes on without that device.
    Without(Fault),
}

/// Why a device is not gone on with.
#[derive(Debug)]
enum Fault {
    /// It said so, or may not be asked; [`is_failure`] tells whether that is held against it.
    Refused(ErrorCode),
    /// It is gone, or silent.
    Lost,
    /// It said what cannot be.
    Wrong(Suspicion),
}

/// One reply that another device makes.
struct Offload<'a> {
    setup: &'a mut GenerationSetup,
    given: Given,
    text: Option<ReplyText>,
    /// Tokens of the reply so far.
    said: Sensitive<Vec<u32>>,
    done: HopMeasure,
    /// When the ids went out, and when anything came last.
    since: Option<Instant>,
    heard: Instant,
    told: bool,
    /// Whether the host has said the end, and what it keeps.
    ended: bool,
    kept: Option<OffloadKept>,
}

/// Lets another device make the reply, where that was chosen; what is left to do here goes on in a
/// generation with the changed `setup`. `false`: nothing is left.
pub(crate) async fn give_away(setup: &mut GenerationSetup) -> bool {
    let Some(given) = setup.whole.take() else { return true };
    let mut offload = Offload::new(setup, given);
    match offload.run().await {
        End::Whole(finish) => {
            // The reader may have left meanwhile; then there is nobody to tell.
            let _ = offload.done(finish).await;
            false
        }
        End::Left => false,
        End::Cancelled => {
            let end = nook_api::NodeError::from(ErrorCode::Cancelled);
            let _ = offload.setup.sink.tell(end.into(), Vec::new()).await;
            false
        }
        End::Without(fault) => {
            offload.note(&fault).await;
            offload.hand_over();
            true
        }
    }
}

impl<'a> Offload<'a> {
    fn new(setup: &'a mut GenerationSetup, given: Given) -> Self {
        let ready = &setup.ready;
        let tokenizer = setup.model.tokenizer.clone();
        let text = ReplyText::new(tokenizer, ready.opening, ready.stops.clone());
        let text = text.spelling_out(ready.spelt.clone());
        let layers = LayerRange::all(setup.model.shape.layers);
        let done = HopMeasure {
            place: Place::Peer(given.pass.peer()),
            layers,
            prefill: StepSums::default(),
            decode: StepSums::default(),
            bytes_out: 0,
            bytes_in: 0,
            history: None,
        };
        let (text, said) = (Some(text), Sensitive(Vec::new()));
        let heard = clock::now();
        let (since, told, ended, kept) = (None, false, false, None);
        Self { setup, given, text, said, done, since, heard, told, ended, kept }
    }

    fn peer(&self) -> PeerId {
        self.given.pass.peer()
    }

    /// Asks and listens to the end; the call ends with it, however it ends.
    async fn run(&mut self) -> End {
        let peer = self.peer();
        let Some(link) = self.setup.links.link(peer) else {
            return End::Without(Fault::Lost);
        };
        let Ok(mut call) = link.mux().open_call().await else {
            return End::Without(Fault::Lost);
        };
        let leaving = self.setup.tasks.token().clone();
        let reader = self.setup.sink.events.clone();
        let book = self.setup.sink.book.clone();
        let end = tokio::select! {
            biased;
            () = leaving.cancelled() => End::Cancelled,
            () = reader.closed() => End::Left,
            () = own_no_more(book, peer) => End::Without(Fault::Refused(ErrorCode::TrustDenied)),
            end = self.ask(&mut call) => match end {
                Ok(finish) => End::Whole(finish),
                Err(end) => end,
            },
        };
        match &end {
            End::Whole(_) if self.ended => {
                self.remember().await;
                call.close(None);
            }
            _ => call.close(Some(ErrorCode::Cancelled)),
        }
        end
    }

    /// The request and what comes of it.
    async fn ask(&mut self, call: &mut Call<Message>) -> Result<FinishReason, End> {
        let (ask, biases) = self.question();
        send(Message::OffloadRequest(Box::new(ask)), call).await?;
        match self.next(call, ACCEPT_LIMIT).await? {
            Message::Opened { .. } => {}
            other => return Err(out_of_turn(other)),
        }
        let route = self.route();
        let prompt_tokens = u32::try_from(self.setup.ready.ids.len()).unwrap_or(u32::MAX);
        let predicted = self.given.prediction.as_ref().map(prediction);
        let started = ReplyEvent::Started { prompt_tokens, route, predicted };
        self.setup.sink.tell(started, Vec::new()).await?;
        self.told = true;
        let ids = ids_for_own_device(&self.setup.ready.ids, &biases);
        self.done.bytes_out = ids.len() as u64;
        for chunk in chunks_of(ids) {
            send(Message::Chunk(chunk), call).await?;
        }
        self.since = Some(clock::now());
        let mut limit = self.first_limit();
        loop {
            match self.next(call, limit).await? {
                Message::OffloadTokens(head) => match self.take(&head, call).await? {
                    Some(FinishReason::Length) => return Ok(self.hear_end(call).await),
                    Some(finish) => return Ok(finish),
                    None => {}
                },
                Message::OffloadEnd { finish, kept } => {
                    (self.ended, self.kept) = (true, kept);
                    return Ok(match finish {
                        OffloadFinish::Stop => FinishReason::Stop,
                        OffloadFinish::Length => FinishReason::Length,
                    });
                }
                other => return Err(out_of_turn(other)),
            }
            limit = NEXT_LIMIT;
        }
    }

    /// The head of the request, and the biases that go with its ids.
    fn question(&self) -> (OffloadRequest, Vec<(u32, f32)>) {
        let ready = &self.setup.ready;
        let biases: Vec<(u32, f32)> = ready.sampler.biases().collect();
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let ask = OffloadRequest {
            model: self.setup.model.listed.digest,
            prompt: count(ready.ids.len()),
            biases: count(biases.len()),
            tokens_max: ready.tokens_max,
            resume: self.setup.model.prefix_cache.known_offloaded(self.peer(), &ready.ids),
            sampling: sampling(&ready.sampler),
        };
        (ask, biases)
    }

    /// The next message, in time.
    async fn next(&mut self, call: &mut Call<Message>, limit: Duration) -> Result<Message, End> {
        let message = match tokio::time::timeout(limit, call.recv()).await {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(End::Without(Fault::Lost)),
        };
        self.heard = clock::now();
        Ok(message)
    }

    /// The reply is as long as it may be, and the host knows it too: what it says behind the last
    /// token is what it keeps.
    async fn hear_end(&mut self, call: &mut Call<Message>) -> FinishReason {
        if let Ok(Message::OffloadEnd { kept, .. }) = self.next(call, END_LIMIT).await {
            (self.ended, self.kept) = (true, kept);
        }
        FinishReason::Length
    }

    fn first_limit(&self) -> Duration {
        let [least, most] = FIRST_LIMITS;
        let predicted = self.given.prediction.map(|prediction| prediction.first_token);
        predicted.map_or(least, |first| first.saturating_mul(PATIENCE).clamp(least, most))
    }

    /// Tells tokens that have come. What ends the reply, if one of them does.
    async fn take(
        &mut self,
        head: &OffloadTokens,
        call: &mut Call<Message>,
    ) -> Result<Option<FinishReason>, End> {
        let mut ids = Sensitive(Vec::new());
        if head.count > 0 {
            let reading = read_ids(call.receiver(), IdsAssembly::of_tokens(head));
            match tokio::time::timeout(NEXT_LIMIT, reading).await {
                Ok(Ok(read)) => ids = read.ids,
                Ok(Err(none)) => return Err(none.into()),
                Err(_) => return Err(End::Without(Fault::Lost)),
            }
        }
        self.book(head, clock::now());
        for id in ids.0 {
            if id as usize >= self.setup.model.tokenizer.vocabulary_len() {
                let sentence = "it chose a token that the model does not have";
                return Err(wrong(WrongResult::NoSuchToken, sentence));
            }
            if let Some(finish) = self.say(id).await? {
                return Ok(Some(finish));
            }
        }
        Ok(None)
    }

    /// Books what the host says of its work, cut to what really passed.
    fn book(&mut self, head: &OffloadTokens, now: Instant) {
        let since = self.since.replace(now).unwrap_or(now);
        let total = u64::try_from(now.duration_since(since).as_micros()).unwrap_or(u64::MAX);
        let compute = u64::from(head.compute_us).min(total);
        let queue = u64::from(head.queue_us).min(total - compute);
        let prompt = self.setup.ready.ids.len();
        let is_prompt = self.said.is_empty();
        let sums = if is_prompt { &mut self.done.prefill } else { &mut self.done.decode };
        sums.steps += 1;
        // The first token comes behind all of the prompt.
        sums.positions = match is_prompt {
            true => u64::from(head.positions).min(prompt as u64),
            false => self.said.len() as u64,
        };
        sums.compute_us += compute;
        sums.queue_us += queue;
        sums.wire_us += total - compute - queue;
        self.done.bytes_in += u64::from(head.count) * 4;
        let history = u32::try_from(prompt + self.said.len()).unwrap_or(u32::MAX);
        let first = self.done.history.map_or(history, |(first, _)| first);
        self.done.history = Some((first, history));
    }

    /// Tells one token. What ends the reply, if it does.
    async fn say(&mut self, id: u32) -> Result<Option<FinishReason>, End> {
        let Some(text) = &mut self.text else { return Ok(Some(FinishReason::Stop)) };
        let piece = text.push(id);
        let is_stopped = piece.stopped.is_some();
        self.said.0.push(id);
        self.setup.sink.token(clock::now(), piece, id, None).await?;
        if is_stopped {
            self.text = None;
            return Ok(Some(FinishReason::Stop));
        }
        let is_full = self.setup.sink.tokens >= self.setup.ready.tokens_max;
        Ok(is_full.then_some(FinishReason::Length))
    }

    fn route(&self) -> RouteView {
        let layers = self.setup.model.shape.layers;
        self.setup.sink.route([everything_on(self.peer(), layers)])
    }

    /// Tells what was held back, then the numbers.
    async fn done(&mut self, finish: FinishReason) -> Result<(), ReaderLeft> {
        if let Some(text) = self.text.take() {
            self.setup.sink.rest(text).await?;
        }
        // What the device did not compute of the prompt it remembered.
        let prompt = self.setup.ready.ids.len() as u64;
        let resumed = prompt.saturating_sub(self.done.prefill.positions);
        let resumed = u32::try_from(resumed).unwrap_or(u32::MAX);
        let measure = Measure { hops: vec![self.done], resumed, ..Measure::default() };
        let model = &self.setup.model.listed;
        let peer = everything_on(self.peer(), self.setup.model.shape.layers);
        let norm_bounds = nook_pipeline::NormBounds::default();
        self.setup.sink.seen_through(model.digest, [peer].into_iter(), norm_bounds).await;
        let prompt_tokens = u32::try_from(self.setup.ready.ids.len()).unwrap_or(u32::MAX);
        let (name, route) = (model.name.clone(), self.route());
        let summary = self.setup.sink.summary(name, prompt_tokens, finish, route, &measure);
        self.setup.sink.helped(&measure.hops).await;
        self.setup.sink.went(&summary).await;
        self.setup.sink.tell(ReplyEvent::Done { summary }, Vec::new()).await
    }

    /// What that device may go on with when the next request begins alike.
    async fn remember(&self) {
        let (ids, model) = (&self.setup.ready.ids, &self.setup.model);
        let history = Sensitive([&ids[..], &self.said[..]].concat());
        let (peer, kept) = (self.peer(), self.kept);
        let ran = Offloaded { peer, prompt: ids.len(), history, kept };
        let (sink, digest) = (&self.setup.sink, model.listed.digest);
        sink.unwanted(digest, model.prefix_cache.keep_offloaded(ran, self.setup.conversation))
            .await;
        // Where words may not go there any more, this was kept after others were looked for.
        if !sink.book.borrow().own.contains_key(&peer) {
            sink.unwanted(digest, model.prefix_cache.revoke(|_| true, |other| other != peer)).await;
        }
    }

    /// Tells the house, and the log, how that device did.
    async fn note(&self, fault: &Fault) {
        let peer = self.peer();
        let note = match fault {
            Fault::Refused(code) if !is_failure(*code, self.told) => {
                tracing::info!(?peer, %code, "a reply goes on without the device that made it");
                return;
            }
            Fault::Refused(_) | Fault::Lost => Note::Failed(peer),
            Fault::Wrong(suspicion) => {
                let model = self.setup.model.listed.digest;
                Note::Suspect { peer, model, suspicion: suspicion.clone() }
            }
        };
        tracing::warn!(?peer, ?fault, "the device that made a reply failed; it goes on here");
        self.setup.sink.tell_house(note).await;
    }

    /// Leaves everything as a generation needs it to go on behind the last token that was told.
    fn hand_over(self) {
        let Self { setup, given, text, said, done, heard, told, .. } = self;
        let prompt_tokens = u32::try_from(setup.ready.ids.len()).unwrap_or(u32::MAX);
        setup.ready.sampler.go_on_after(&said);
        setup.ready.ids.extend_from_slice(&said);
        setup.begun = text.map(|text| Begun {
            prompt_tokens,
            text,
            from: told.then_some((given.pass.peer(), heard)),
            done: told.then_some(done),
        });
    }
}

fn sampling(sampler: &Sampler) -> OffloadSampling {
    let asked = sampler.settings().parameters();
    // Every one of them is set.
    let number = Option::unwrap_or_default;
    OffloadSampling {
        seed: asked.seed.unwrap_or_default(),
        temperature: number(asked.temperature),
        top_k: asked.top_k.unwrap_or_default(),
        top_p: number(asked.top_p),
        min_p: number(asked.min_p),
        repetition_penalty: number(asked.repetition_penalty),
        repetition_window: asked.repetition_window.unwrap_or_default(),
        frequency_penalty: number(asked.frequency_penalty),
        presence_penalty: number(asked.presence_penalty),
    }
}

/// Whether it is a failure of a device that it ends a request with `code`: it has broken down, or
/// does not do what it has accepted. Else it would be chosen again for every reply.
fn is_failure(code: ErrorCode, is_accepted: bool) -> bool {
    match code {
        ErrorCode::WorkerCrashed | ErrorCode::GpuLost => true,
        // Its owner, or somebody else there, wants it so.
        ErrorCode::Draining
        | ErrorCode::TrustDenied
        | ErrorCode::SwitchedOff
        | ErrorCode::Busy
        | ErrorCode::Cancelled => false,
        _ => is_accepted,
    }
}

fn out_of_turn(message: Message) -> End {
    match message {
        Message::Error(error) => End::Without(Fault::Refused(error.code)),
        Message::Draining { .. } => End::Without(Fault::Refused(ErrorCode::Draining)),
        _ => wrong(WrongResult::OutOfTurn, "it answered out of turn"),
    }
}

fn wrong(wrong: WrongResult, sentence: &str) -> End {
    End::Without(Fault::Wrong(Suspicion { wrong, reason: sentence.to_owned() }))
}

/// Sends a message once there is room for it, but does not wait for that for long.
async fn send(message: Message, call: &mut Call<Message>) -> Result<(), End> {
    match tokio::time::timeout(SEND_LIMIT, call.send(message)).await {
        Ok(sent) => sent.map_err(End::from),
        Err(_) => Err(End::Without(Fault::Lost)),
    }
}

impl From<CallError> for End {
    fn from(error: CallError) -> Self {
        Self::Without(match error {
            CallError::Closed { code: Some(code) } => Fault::Refused(code),
            _ => Fault::Lost,
        })
    }
}

impl From<NoIds> for End {
    fn from(none: NoIds) -> Self {
        match none {
            NoIds::Gone => Self::Without(Fault::Lost),
            NoIds::Refused(code) => Self::Without(Fault::Refused(code)),
            NoIds::Wrong(sentence) => wrong(WrongResult::Unreadable, &sentence),
        }
    }
}

impl From<ReaderLeft> for End {
    fn from(_: ReaderLeft) -> Self {
        Self::Left
    }
}

#[cfg(test)]
mod tests {
    use nook_base::limits::CREDIT_WINDOW;
    use nook_base::tasks::Tasks;
    use nook_wire::Chunk;

    use super::*;
    use nook_mux::testing::call;

    fn chunk() -> Message {
        Message::Chunk(Chunk { offset: 0, bytes: vec![1].into(), last: true })
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_takes_nothing_is_lost_after_the_limit() {
        let tasks = Tasks::new();
        // The host lives and answers pings; it only never reads the request that it has accepted.
        let (mut near, _far, _link) = call::<Message>(&tasks).await;
        for _ in 0..CREDIT_WINDOW {
            send(chunk(), &mut near).await.expect("there is credit for a window of chunks");
        }
        let end = tokio::time::timeout(2 * SEND_LIMIT, send(chunk(), &mut near)).await;
        assert!(matches!(end, Ok(Err(End::Without(Fault::Lost)))), "{end:?}");
        assert!(!near.is_ended(), "nothing but the limit has ended the wait");
        tasks.cancel();
    }

    #[test]
    fn a_device_fails_where_it_breaks_down_or_gives_up_what_it_has_accepted() {
        use ErrorCode as Of;
        let failures = |is_accepted| {
            let all = ErrorCode::ALL.into_iter();
            all.filter(move |code| is_failure(*code, is_accepted)).collect::<Vec<_>>()
        };
        assert_eq!(failures(false), [Of::WorkerCrashed, Of::GpuLost]);
        let all = ErrorCode::ALL.into_iter();
        let none = [Of::Draining, Of::TrustDenied, Of::SwitchedOff, Of::Busy, Of::Cancelled];
        let expected: Vec<_> = all.filter(|code| !none.contains(code)).collect();
        assert_eq!(failures(true), expected);
    }

    #[tokio::test]
    async fn a_host_that_ends_the_call_while_it_is_sent_ids_has_refused() {
        let tasks = Tasks::new();
        let (mut near, far, _link) = call::<Message>(&tasks).await;
        far.close(Some(ErrorCode::Draining));
        near.ended().await;
        let end = send(chunk(), &mut near).await;
        let code = ErrorCode::Draining;
        assert!(matches!(end, Err(End::Without(Fault::Refused(it))) if it == code), "{end:?}");
        tasks.cancel();
    }
}
