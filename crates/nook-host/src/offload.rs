//! Full-model offload: a whole request of another device of the same person, run here.
//!
//! [`host`] takes the proof of the gate that the asker is the owner's own, checks everything that
//! can be checked without ids, says OPENED, reads the ids, and runs the model on this node's worker
//! under the limits of guests: a stream of those that are lent, the cap on memory, the asker's own
//! name for what is kept. Each token goes out as it is chosen; a slow asker slows the model by the
//! credit of the call. Ids and tokens are in memory until the reply ends, and are never made into
//! text here.
//!
//! What the worker keeps of a request goes on with the next one that begins alike, under marks that
//! only this node can compute; the asker only guesses how far, and is told the mark that it needs
//! to have it dropped ([`naming`]).

mod naming;

use std::time::{Duration, Instant};

use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelPart, PeerId, Sensitive, clock};
use nook_mux::{Call, CallReceiver, CallSender};
use nook_pipeline::{HopVisit, PrefixHashes};
use nook_plan::Place;
use nook_store::AuditAsked;
use nook_text::{Sampler, SamplerSettings, SamplingParameters};
use nook_wire::{
    IdsAssembly, LocalMessage, LogitRows, Message, OffloadFinish, OffloadIds, OffloadRequest,
    OffloadSampling, OffloadTokens, ResumePoint, WireError, WorkerMessage, chunks_of,
    ids_for_own_device,
};

use super::audit::{Line, Moment, subject, why};
use super::events::HostEvent;
use super::lent::Lent;
use super::refusal::{error, withheld, worker_error};
use super::terms::{OwnGuest, Stream, Terms};
use super::tools::Tools;
use nook_resources::offload_ids::{NoIds, read_ids};
use nook_resources::open_models::{Listed, OpenModel};

/// How often the asker hears, while a long prompt is read, that it is being read.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the ids of a request that was accepted, and for room to send anything: somewhat
/// longer than a reader of the asker may take. Beyond it the asker counts as gone, and its stream
/// is free.
const ASKER_LIMIT: Duration = Duration::from_secs(75);

/// Steps of one request that are reported, so that it is known how fast this device is. More say
/// nothing new.
const VISITS_MAX: usize = 64;

/// Why a request ends before its reply is whole.
enum Over {
    /// The asker has closed the call, or is gone.
    Left,
    /// This side ends it, and says why.
    Refused(WireError),
}

/// Runs one request to its end.
pub(crate) async fn host(
    own: OwnGuest,
    ask: &OffloadRequest,
    call: Call<Message>,
    (terms, tools): (&Terms, &Tools),
) {
    let peer = own.pass.peer();
    let name = terms.lent.iter().find(|lent| lent.model == ask.model).map(|lent| &*lent.name);
    let asked = subject(AuditAsked::Whole, ask.model, name, None);
    let line = tools.audit.begin(Moment::read(), peer, asked);
    let (mut to_asker, mut from_asker) = call.split();
    let outcome = tokio::select! {
        biased;
        () = own.revoked.cancelled() => refused(ErrorCode::TrustDenied),
        () = terms.revoked.cancelled() => refused(ErrorCode::TrustDenied),
        () = terms.until.cancelled() => refused(ErrorCode::Draining),
        outcome = run(&own, ask, (&mut to_asker, &mut from_asker), (terms, tools, &line)) => outcome,
    };
    match outcome {
        Ok(()) => {
            line.end(Moment::read(), None);
            to_asker.close(None);
        }
        Err(Over::Left) => {
            line.end(Moment::read(), None);
            to_asker.close(Some(ErrorCode::Cancelled));
        }
        Err(Over::Refused(error)) => {
            let code = error.code;
            line.fail(Moment::read(), why(code));
            tracing::info!(?peer, %code, "a whole request was refused or has failed");
            // The asker may have left already; then there is nobody to tell.
            let _ = send(Message::Error(error), &mut to_asker).await;
            to_asker.close(Some(code));
        }
    }
}

fn refused<T>(code: ErrorCode) -> Result<T, Over> {
    Err(Over::Refused(error(code, "")))
}

async fn run(
    own: &OwnGuest,
    ask: &OffloadRequest,
    (to_asker, from_asker): (&mut CallSender<Message>, &mut CallReceiver<Message>),
    (terms, tools, line): (&Terms, &Tools, &Line),
) -> Result<(), Over> {
    let settings = settings(&ask.sampling)?;
    let (lent, stream) = admitted(ask, terms)?;
    // Told once it counts.
    let _ = tools.events.try_send(HostEvent::StreamChanged);
    let stream = (stream, terms.usage.enter(own.pass.peer()));
    let listed = Listed { name: lent.name.clone(), digest: lent.model, path: lent.path.clone() };
    let model = tools.open_models.open(listed).await;
    let model = model.map_err(|problem| withheld(problem.code, &problem.sentence))?;
    check(&model, ask, lent.layers)?;
    tracing::info!(peer = ?own.pass.peer(), model = ?lent.model, "running a whole request");
    terms.served.note(lent.model);
    send(Message::Opened { position: 0 }, to_asker).await?;
    let reading = read_ids(from_asker, IdsAssembly::of_ask(ask));
    let read = tokio::time::timeout(ASKER_LIMIT, reading).await.map_err(|_| Over::Left)?;
    let OffloadIds { ids, biases } = read?;
    let vocabulary = model.tokenizer.vocabulary_len();
    if ids.iter().chain(biases.iter().map(|(id, _)| id)).any(|id| *id as usize >= vocabulary) {
        return Err(bad("a token id is larger than the model's vocabulary"));
    }
    let sampler = Sampler::new(settings).with_biases(&biases);
    let mut sampler = sampler.map_err(|wrong| bad(&wrong.to_string()))?;
    let opening = Run::open((own.pass.peer(), lent), (&model, ask), ids, (terms, tools, line));
    let mut run = tokio::select! {
        biased;
        // Loading takes long, and nobody waits for it any more.
        _ = from_asker.recv() => return Err(Over::Left),
        run = opening => run?,
    };
    let outcome = tokio::select! {
        biased;
        // Whatever the asker says now is the end; it has nothing more to say.
        _ = from_asker.recv() => Err(Over::Left),
        outcome = run.reply(&mut sampler, ask.tokens_max, to_asker) => outcome,
    };
    let kept = run.kept();
    run.close(outcome.is_ok());
    drop(stream);
    naming::end((outcome?, kept), own, (to_asker, from_asker), &tools.workers).await
}

/// The model, where all of it is lent and a stream is free.
fn admitted<'a>(ask: &OffloadRequest, terms: &'a Terms) -> Result<(&'a Lent, Stream), Over> {
    let lent = terms.lent.iter().find(|lent| lent.model == ask.model);
    let lent = lent.ok_or_else(|| {
        let digest = ask.model.short();
        let sentence = format!("this device does not lend the model with digest {digest}");
        Over::Refused(error(ErrorCode::WeightsMismatch, &sentence))
    })?;
    let stream = terms.try_stream().ok_or_else(|| Over::Refused(error(ErrorCode::Busy, "")))?;
    Ok((lent, stream))
}

/// Whether the request fits the model and what is lent of it, by its counts alone.
fn check(model: &OpenModel, ask: &OffloadRequest, lent: LayerRange) -> Result<(), Over> {
    let shape = &model.shape;
    if lent != LayerRange::all(shape.layers) {
        let sentence =
            format!("a whole request takes all {} layers, this device lends {lent}", shape.layers);
        return Err(Over::Refused(error(ErrorCode::ShardUnavailable, &sentence)));
    }
    IdsAssembly::of_ask(ask).map_err(|wrong| bad(&wrong.to_string()))?;
    if ask.tokens_max == 0 {
        return Err(bad("a reply has one token at least"));
    }
    match ask.prompt.checked_add(ask.tokens_max) {
        Some(positions) if positions <= shape.context_length => Ok(()),
        _ => refused(ErrorCode::TooLong),
    }
}

fn bad(sentence: &str) -> Over {
    Over::Refused(error(ErrorCode::BadRequest, sentence))
}

/// The sampler's settings; what is out of range is refused as from any client.
fn settings(asked: &OffloadSampling) -> Result<SamplerSettings, Over> {
    let parameters = SamplingParameters {
        temperature: Some(asked.temperature),
        top_k: Some(asked.top_k),
        top_p: Some(asked.top_p),
        min_p: Some(asked.min_p),
        repetition_penalty: Some(asked.repetition_penalty),
        repetition_window: Some(asked.repetition_window),
        frequency_penalty: Some(asked.frequency_penalty),
        presence_penalty: Some(asked.presence_penalty),
        seed: Some(asked.seed),
    };
    SamplerSettings::new(parameters, asked.seed).map_err(|wrong| bad(&wrong.to_string()))
}

/// One request on the worker.
struct Run<'a> {
    call: Call<WorkerMessage>,
    model: &'a OpenModel,
    terms: &'a Terms,
    tools: &'a Tools,
    /// Where it is noted how much is computed.
    line: &'a Line,
    guest: PeerId,
    /// Prompt and reply so far.
    history: Sensitive<Vec<u32>>,
    marks: PrefixHashes,
    /// Positions that the worker has computed, or had kept.
    position: u32,
    /// Those of them that it had kept.
    kept: u32,
    step: u64,
    /// Since the asker was told last, in µs.
    compute_us: u32,
    queue_us: u32,
    visits: Vec<HopVisit>,
}

impl<'a> Run<'a> {
    async fn open(
        (guest, lent): (PeerId, &Lent),
        (model, ask): (&'a OpenModel, &OffloadRequest),
        ids: Sensitive<Vec<u32>>,
        (terms, tools, line): (&'a Terms, &'a Tools, &'a Line),
    ) -> Result<Self, Over> {
        let mut marks = PrefixHashes::new(terms.marks_key.clone());
        ids.iter().for_each(|id| marks.push(*id));
        let worker = tools.workers.get(lent.model, &lent.name).await;
        let worker = worker.map_err(|problem| withheld(problem.code, &problem.sentence))?;
        // Only the file is named here: the worker loads at the opening, under the guests' cap.
        let nothing = ModelPart::inner(LayerRange::with_len(0, 0));
        lent.path
            .with(async |file| worker.load(&file, lent.model, nothing).await)
            .await
            .map_err(worker_error)?;
        let positions_max = ask.prompt.saturating_add(ask.tokens_max);
        let guess = Some(ask.resume).filter(|guess| (1..ask.prompt).contains(guess));
        let guess =
            guess.map(|position| ResumePoint { position, mark: marks.at(position), copy: false });
        let opening = |resume| LocalMessage::OpenLocal {
            session: rand::random(),
            part: ModelPart::whole(model.shape.layers),
            dtype: ActivationDtype::F16,
            positions_max,
            resume,
        };
        let mut call = worker.open_call_for(guest).await.map_err(worker_error)?;
        let mut opened = opened(&mut call, opening(guess)).await;
        if guess.is_some() && opened.is_err() {
            // Nothing of it is kept: from the beginning.
            call = worker.open_call_for(guest).await.map_err(worker_error)?;
            opened = self::opened(&mut call, opening(None)).await;
        }
        let position = opened?;
        Ok(Self {
            call,
            model,
            terms,
            tools,
            line,
            guest,
            history: ids,
            marks,
            position,
            kept: position,
            step: 0,
            compute_us: 0,
            queue_us: 0,
            visits: Vec::new(),
        })
    }

    /// Reads the prompt and says the reply, token by token.
    async fn reply(
        &mut self,
        sampler: &mut Sampler,
        tokens_max: u32,
        to_asker: &mut CallSender<Message>,
    ) -> Result<OffloadFinish, Over> {
        let mut logits = self.prefill(to_asker).await?;
        for token in 1..=tokens_max {
            let chosen = sampler.sample(&logits, &self.history);
            let id = chosen.map_err(|wrong| {
                Over::Refused(error(ErrorCode::CorruptActivation, &wrong.to_string()))
            })?;
            if self.model.tokenizer.is_end_of_turn(id) {
                return Ok(OffloadFinish::Stop);
            }
            self.history.0.push(id);
            self.marks.push(id);
            self.tell(1, to_asker).await?;
            for chunk in chunks_of(ids_for_own_device(&[id], &[])) {
                send(Message::Chunk(chunk), to_asker).await?;
            }
            let peer = self.guest.short();
            metrics::counter!("distributed_inference_lent_tokens_total", "peer" => peer)
                .increment(1);
            if token < tokens_max {
                logits = self.compute(1, LogitRows::Last).await?;
            }
        }
        Ok(OffloadFinish::Length)
    }

    /// Reads the prompt in pieces, so that the conversations of others go on meanwhile; the logits
    /// behind its last token.
    async fn prefill(&mut self, to_asker: &mut CallSender<Message>) -> Result<Vec<f32>, Over> {
        let mut told: Instant = clock::now();
        loop {
            let left = self.prompt_left();
            let count = left.min(PREFILL_CHUNK_TOKENS);
            let rows = if count == left { LogitRows::Last } else { LogitRows::None };
            let logits = self.compute(count, rows).await?;
            if count == left {
                return Ok(logits);
            }
            let now = clock::now();
            if now.duration_since(told) >= PROGRESS_INTERVAL {
                told = now;
                self.tell(0, to_asker).await?;
            }
        }
    }

    /// Positions of the history that are not computed yet.
    fn prompt_left(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_sub(self.position)
    }

    async fn tell(&mut self, count: u32, to_asker: &mut CallSender<Message>) -> Result<(), Over> {
        let compute_us = std::mem::take(&mut self.compute_us);
        let queue_us = std::mem::take(&mut self.queue_us);
        let positions = self.position.saturating_sub(self.kept);
        let head = OffloadTokens { positions, count, compute_us, queue_us };
        send(Message::OffloadTokens(head), to_asker).await
    }

    /// Computes the next `count` positions of the history.
    async fn compute(&mut self, count: u32, rows: LogitRows) -> Result<Vec<f32>, Over> {
        let position = self.position;
        let end = position.saturating_add(count);
        let ids = self.history.get(position as usize..end as usize).unwrap_or_default().to_vec();
        self.step = self.step.saturating_add(1);
        let head = LocalMessage::Tokens {
            step: self.step,
            position,
            ids: Sensitive(ids),
            history_before: self.marks.at(position),
            history_after: self.marks.at(end),
            rows,
        };
        let crashed = || Over::Refused(error(ErrorCode::WorkerCrashed, ""));
        let asked = clock::now();
        self.call.send(head.into()).await.map_err(|_| crashed())?;
        match self.call.recv().await.map_err(|_| crashed())? {
            WorkerMessage::Local(LocalMessage::Logits {
                count: rows,
                vocabulary,
                compute_us,
                queue_us,
                ..
            }) => {
                let logits = self.call.recv_logits(rows, vocabulary).await;
                self.position = end;
                self.terms.usage.add(count);
                self.line.computed(count);
                self.book(count, rows > 0, (compute_us, queue_us), asked);
                logits.map_err(|_| crashed())
            }
            WorkerMessage::Peer(Message::Error(problem)) => Err(Over::Refused(problem)),
            _ => Err(crashed()),
        }
    }

    fn book(&mut self, rows: u32, logits: bool, host_us: (u32, u32), asked: Instant) {
        self.compute_us = self.compute_us.saturating_add(host_us.0);
        self.queue_us = self.queue_us.saturating_add(host_us.1);
        if self.visits.len() >= VISITS_MAX {
            return;
        }
        let us = |us: u32| Duration::from_micros(u64::from(us));
        let (compute, queue) = (us(host_us.0), us(host_us.1));
        let took = clock::now().duration_since(asked);
        self.visits.push(HopVisit {
            place: Place::Local,
            part: ModelPart::whole(self.model.shape.layers),
            rows,
            logits,
            compute,
            queue,
            wire: took.saturating_sub(compute).saturating_sub(queue),
            overlapped: false,
            forwarded: false,
        });
    }

    /// Ends the call; in order, so that the worker may keep what it has, or not. Reports how fast
    /// this device was.
    fn close(self, in_order: bool) {
        let model = self.model.listed.digest;
        // A full inbox loses the report.
        let _ = self.tools.events.try_send(HostEvent::Measured { model, visits: self.visits });
        self.call.close((!in_order).then_some(ErrorCode::Cancelled));
    }
}

/// Sends a message once there is room for it; everything for the asker goes this way.
async fn send(message: Message, to_asker: &mut CallSender<Message>) -> Result<(), Over> {
    let sent = tokio::time::timeout(ASKER_LIMIT, to_asker.send(message)).await;
    sent.ok().and_then(Result::ok).ok_or(Over::Left)
}

/// Sends an opening and waits for the position at which the worker begins.
async fn opened(call: &mut Call<WorkerMessage>, opening: LocalMessage) -> Result<u32, Over> {
    let crashed = || Over::Refused(error(ErrorCode::WorkerCrashed, ""));
    call.send(opening.into()).await.map_err(|_| crashed())?;
    match call.recv().await.map_err(|_| crashed())? {
        WorkerMessage::Peer(Message::Opened { position }) => Ok(position),
        WorkerMessage::Peer(Message::Error(problem)) => Err(Over::Refused(problem)),
        _ => Err(crashed()),
    }
}

impl From<WireError> for Over {
    fn from(error: WireError) -> Self {
        Self::Refused(error)
    }
}

impl From<NoIds> for Over {
    fn from(wrong: NoIds) -> Self {
        match wrong {
            // Why it wants no reply any more is its own affair.
            NoIds::Gone | NoIds::Refused(_) => Self::Left,
            NoIds::Wrong(sentence) => bad(&sentence),
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::limits::CREDIT_WINDOW;
    use nook_base::tasks::Tasks;
    use nook_mux::testing::call;
    use nook_wire::Chunk;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_asker_that_takes_nothing_counts_as_gone_after_the_limit() {
        let tasks = Tasks::new();
        // The other end lives and answers pings; it only never takes what it is sent.
        let (near, _far, _link) = call::<Message>(&tasks).await;
        let (mut to_asker, _from_asker) = near.split();
        let chunk = || Message::Chunk(Chunk { offset: 0, bytes: vec![1].into(), last: true });
        for _ in 0..CREDIT_WINDOW {
            assert!(send(chunk(), &mut to_asker).await.is_ok());
        }
        let sent = tokio::time::timeout(2 * ASKER_LIMIT, send(chunk(), &mut to_asker));
        assert!(matches!(sent.await, Ok(Err(Over::Left))), "it waits for ever");
        assert!(!to_asker.is_ended(), "nothing but the limit has ended the wait");
        tasks.cancel();
    }
}
