//! What a generation tells its door: names for ids, routes for people, the numbers at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nook_base::{ModelDigest, PeerId, Sensitive};
use nook_pipeline::{HopMeasure, HopVisit, Joint, Measure, NormBounds, Report};
use nook_plan::{Place, Segment};
use nook_text::{Piece, ReplyText};
use tokio::sync::{mpsc, watch};

use crate::choice::{Choice, Encoded};
use crate::machine::past::Passed;
use crate::machine::records::Note;
use crate::machine::{Event, Said};
use crate::reply::{READER_STALL_LIMIT, handover};
use nook_api::views::{
    DecisionView, FailoverView, FinishReason, LegView, PredictedView, PredictionView, ReplyEndView,
    ReplyEvent, ReplySpeedView, ReplySummary, RouteView, ShardState,
};
use nook_api::{PieceLogprobs, ReplyPiece};
use nook_resources::adverts::AdvertBook;
use nook_resources::open_models::Listed;
use nook_resources::prefix_cache::Unwanted;

/// Who is "this device" in a route.
#[derive(Debug, Clone)]
pub struct Me {
    /// Its id.
    pub id: PeerId,
    /// Its name, for people.
    pub name: String,
}

/// The door's end of a reply, and what was told so far.
#[derive(Debug)]
pub(crate) struct ReplySink {
    /// Tells this reply from others inside the house; drawn at random.
    pub(crate) number: u64,
    /// What answers.
    pub(crate) model: ModelDigest,
    pub(crate) me: Me,
    pub(crate) book: watch::Receiver<Arc<AdvertBook>>,
    pub(crate) events: mpsc::Sender<ReplyPiece>,
    pub(crate) asked: Instant,
    pub(crate) first: Option<Instant>,
    pub(crate) last: Option<Instant>,
    pub(crate) tokens: u32,
    pub(crate) failovers: Vec<FailoverView>,
    /// Helpers that had other replies to make meanwhile, in the order in which that was noticed.
    pub(crate) shared: Vec<PeerId>,
    /// What was predicted before it began.
    pub(crate) predicted: Option<PredictedView>,
    /// What is learned about other devices is told here.
    pub(crate) notes: mpsc::Sender<Event>,
}

/// The reader has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderLeft;

impl ReplySink {
    /// Hands an event over; a slow reader slows the reply, one that takes nothing for
    /// [`READER_STALL_LIMIT`] ends it.
    pub(crate) async fn tell(&self, event: ReplyEvent, ids: Vec<u32>) -> Result<(), ReaderLeft> {
        if let Some(passed) = Passed::of(&event) {
            self.tell_house(Note::Passed { reply: self.number, passed }).await;
        }
        self.tell_piece(ReplyPiece { event, ids: Sensitive(ids), logprobs: None, stopped: None })
            .await
    }

    async fn tell_piece(&self, piece: ReplyPiece) -> Result<(), ReaderLeft> {
        match tokio::time::timeout(READER_STALL_LIMIT, self.events.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ReaderLeft),
        }
    }

    /// A token was chosen at `now`; its text may be empty while a character is incomplete.
    pub(crate) async fn token(
        &mut self,
        now: Instant,
        piece: Piece,
        id: u32,
        logprobs: Option<PieceLogprobs>,
    ) -> Result<(), ReaderLeft> {
        self.tokens += 1;
        self.first.get_or_insert(now);
        self.last = Some(now);
        let tokens = self.tokens;
        let event = ReplyEvent::TokenDelta { text: piece.text, tokens };
        let stopped = piece.stopped.map(Sensitive);
        self.tell_piece(ReplyPiece { event, ids: Sensitive(vec![id]), logprobs, stopped }).await
    }

    /// Text that was held back, at the end of a reply.
    pub(crate) async fn rest(&self, text: ReplyText) -> Result<(), ReaderLeft> {
        let rest = text.finish().text;
        if rest.is_empty() {
            return Ok(());
        }
        self.tell(ReplyEvent::TokenDelta { text: rest, tokens: self.tokens }, Vec::new()).await
    }

    /// The device that made the whole reply was lost; whoever computes now has chosen the next
    /// token.
    pub(crate) async fn relieved(
        &mut self,
        from: PeerId,
        pause: Duration,
        route: RouteView,
    ) -> Result<(), ReaderLeft> {
        let mut to: Vec<String> = Vec::new();
        for leg in &route.legs {
            if !to.contains(&leg.device) {
                to.push(leg.device.clone());
            }
        }
        let failover = self.failed_over(from, &to, pause);
        self.tell(ReplyEvent::ShardFailover { failover, route }, Vec::new()).await
    }

    /// Counts and keeps that `to` took over from `from`.
    fn failed_over(&mut self, from: PeerId, to: &[String], pause: Duration) -> FailoverView {
        metrics::counter!("distributed_inference_failovers_total").increment(1);
        let failover = FailoverView {
            from: self.name(Place::Peer(from)),
            to: to.join(", "),
            pause_ms: pause.as_secs_f64() * 1e3,
            after_tokens: self.tokens,
        };
        self.failovers.push(failover.clone());
        failover
    }

    /// Keeps that a helper has other replies to make too.
    pub(crate) fn note_shared(&mut self, peer: PeerId) {
        if !self.shared.contains(&peer) {
            self.shared.push(peer);
        }
    }

    /// What the pipeline reports, for people and counters.
    pub(crate) async fn report(
        &mut self,
        report: Report,
        route: RouteView,
    ) -> Result<(), ReaderLeft> {
        self.note(&report).await;
        let event = match report {
            // The house tells its owner, and the device shows as lost besides.
            Report::ShardSuspect { .. } => return Ok(()),
            Report::KvMigration { from, layers, news } => {
                handover::note(&self.name(Place::Peer(from)), layers, news);
                return Ok(());
            }
            Report::ActivationsWidened => {
                tracing::info!("numbers of this model do not fit f16: the reply goes on in f32");
                return Ok(());
            }
            Report::ShardStatus { peer, state, .. } => ReplyEvent::ShardStatus {
                device: self.name(Place::Peer(peer)),
                status: match state {
                    nook_pipeline::ShardState::Online => ShardState::Online,
                    nook_pipeline::ShardState::Late | nook_pipeline::ShardState::Degraded => {
                        ShardState::Degraded
                    }
                    nook_pipeline::ShardState::Lost => ShardState::Lost,
                    nook_pipeline::ShardState::Awaited => ShardState::Awaited,
                },
            },
            Report::ShardFailover { from, to, pause, .. } => {
                let to: Vec<_> = to.into_iter().map(|place| self.name(place)).collect();
                let failover = self.failed_over(from, &to, pause);
                ReplyEvent::ShardFailover { failover, route }
            }
            Report::FallbackToLocal { .. } => {
                metrics::counter!("distributed_inference_fallback_to_local_total").increment(1);
                ReplyEvent::FallbackToLocal { route }
            }
        };
        self.tell(event, Vec::new()).await
    }

    /// Tells the house what a report says about a device.
    async fn note(&self, report: &Report) {
        let note = match report {
            Report::ShardStatus { peer, state, .. } => match state {
                nook_pipeline::ShardState::Lost => Note::Failed(*peer),
                nook_pipeline::ShardState::Late => Note::Late(*peer),
                _ => return,
            },
            Report::ShardSuspect { peer, reason, .. } => {
                crate::metrics::corruption_detected();
                Note::Suspect { peer: *peer, model: self.model, suspicion: reason.into() }
            }
            _ => return,
        };
        self.tell_house(note).await;
    }

    /// The reply came to its end over the places of `route`.
    pub(crate) async fn seen_through(
        &self,
        model: ModelDigest,
        route: impl Iterator<Item = Segment>,
        norm_bounds: NormBounds,
    ) {
        let peer = |segment: Segment| match segment.place {
            Place::Peer(peer) => Some(peer),
            Place::Local => None,
        };
        let peers = route.filter_map(peer).collect();
        self.tell_house(Note::SeenThrough { model, peers, norm_bounds }).await;
    }

    /// Where the reply will be computed, and why: for the owner and the log.
    pub(crate) async fn decided(&mut self, model: &Listed, choice: &Choice, told: &Encoded) {
        let name = |peer| self.name(Place::Peer(peer));
        let route = |segments: &[Segment]| self.route(segments.iter().copied());
        let view = choice.view(&model.name, told.prompt, name, route);
        let speed = |plan: Option<&PredictionView>| plan.map(|plan| plan.tokens_per_second);
        tracing::debug!(
            model = view.model,
            because = view.because,
            alone = ?speed(view.alone.as_ref()),
            pooled = ?speed(view.pooled.as_ref().map(|pooled| &pooled.prediction)),
            remembered = choice.counted_on(),
            "a reply was planned"
        );
        for out in &view.left_out {
            tracing::debug!(device = out.device, why = out.why, "left out of a reply");
        }
        self.predicted = predicted(&view);
        let note = Note::Decided { reply: self.number, decision: Box::new(view) };
        self.tell_house(note).await;
    }

    /// What was predicted of the way that the reply goes: with other devices, or on this one alone.
    pub(crate) fn expected(&self, is_together: bool) -> Option<PredictionView> {
        let predicted = self.predicted?;
        if is_together { predicted.together } else { predicted.alone }
    }

    /// How the reply went, to be seen beside what was predicted.
    pub(crate) async fn went(&self, summary: &ReplySummary) {
        let speed = ReplySpeedView {
            first_token_ms: summary.first_token_ms,
            tokens_per_second: summary.tokens_per_second,
        };
        self.tell_house(Note::Went { reply: self.number, speed }).await;
    }

    /// What the answered steps of a reply showed.
    pub(crate) async fn measured(&self, model: ModelDigest, row_bytes: u64, visits: Vec<HopVisit>) {
        self.tell_house(Note::Measured { model, row_bytes, visits }).await;
    }

    /// What devices computed for a reply, however it ended.
    pub(crate) async fn helped(&self, hops: &[HopMeasure]) {
        let positions = |hop: &HopMeasure| hop.prefill.positions + hop.decode.positions;
        let of_peer = |hop: &HopMeasure| match hop.place {
            Place::Peer(peer) if positions(hop) > 0 => Some((peer, positions(hop))),
            Place::Peer(_) | Place::Local => None,
        };
        let helped: Vec<_> = hops.iter().filter_map(of_peer).collect();
        if !helped.is_empty() {
            self.tell_house(Note::Helped(helped)).await;
        }
    }

    /// What hosts said when they were asked to hand results on.
    pub(crate) async fn joined(&self, joints: Vec<Joint>) {
        if !joints.is_empty() {
            self.tell_house(Note::Joined(joints)).await;
        }
    }

    pub(crate) async fn tell_house(&self, note: Note) {
        // A house that is leaving remembers nothing.
        let _ = self.notes.send(Said::Noted(note).into()).await;
    }

    /// Nobody will go on with this: whoever keeps something of it is told.
    pub(crate) async fn unwanted(&self, model: ModelDigest, unwanted: Unwanted) {
        if !unwanted.is_empty() {
            // A house that is leaving takes its workers and links along.
            let _ = self.notes.send(Event::Unwanted(model, unwanted)).await;
        }
    }

    /// A route for people.
    pub(crate) fn route(&self, segments: impl IntoIterator<Item = Segment>) -> RouteView {
        let leg = |segment: Segment| {
            let layers = segment.part.layers;
            let id = match segment.place {
                Place::Local => self.me.id,
                Place::Peer(peer) => peer,
            };
            LegView {
                device_id: id.to_string(),
                device: self.name(segment.place),
                local: segment.place == Place::Local,
                layers: (!layers.is_empty()).then(|| [layers.start(), layers.end() - 1]),
                embedding: segment.part.embedding,
                head: segment.part.head,
            }
        };
        RouteView { legs: segments.into_iter().map(leg).collect() }
    }

    /// The numbers at the end.
    pub(crate) fn summary(
        &self,
        model: String,
        prompt_tokens: u32,
        finish_reason: FinishReason,
        route: RouteView,
        measure: &Measure,
    ) -> ReplySummary {
        let first_token_ms = match self.first {
            Some(first) => first.duration_since(self.asked).as_secs_f64() * 1e3,
            None => 0.0,
        };
        let tokens_per_second = match (self.first, self.last) {
            (Some(first), Some(last)) if last > first => {
                f64::from(self.tokens.saturating_sub(1)) / last.duration_since(first).as_secs_f64()
            }
            _ => 0.0,
        };
        let positions = |hop: &HopMeasure| hop.prefill.positions + hop.decode.positions;
        let computed = measure.hops.last().map_or(0, positions);
        metrics::counter!("distributed_inference_positions_resumed_total")
            .increment(u64::from(measure.resumed));
        metrics::counter!("distributed_inference_positions_computed_total").increment(computed);
        metrics::counter!("distributed_inference_resumes_refused_total")
            .increment(u64::from(measure.resumes_refused));
        metrics::histogram!("distributed_inference_first_token_ms").record(first_token_ms);
        metrics::histogram!("distributed_inference_tokens_per_second").record(tokens_per_second);
        ReplySummary {
            model,
            finish_reason,
            prompt_tokens,
            completion_tokens: self.tokens,
            route,
            tokens_per_second,
            first_token_ms,
            resumed_tokens: measure.resumed,
            computed_tokens: u32::try_from(computed).unwrap_or(u32::MAX),
            failovers: self.failovers.clone(),
            total_ms: self
                .last
                .map_or(first_token_ms, |last| last.duration_since(self.asked).as_secs_f64() * 1e3),
            timeline: self.timeline(&measure.hops, prompt_tokens),
            predicted: self.predicted,
            shared: self.shared.iter().map(|peer| self.name(Place::Peer(*peer))).collect(),
        }
    }

    pub(crate) fn name(&self, place: Place) -> String {
        match place {
            Place::Local => self.me.name.clone(),
            Place::Peer(peer) => self.book.borrow().name(&peer),
        }
    }
}

impl Drop for ReplySink {
    /// A reply that has not ended by now was stopped. Where the house is too busy to hear it, it
    /// counts as under way until it is forgotten.
    fn drop(&mut self) {
        let passed = Passed::Ended(ReplyEndView::Stopped);
        let note = Note::Passed { reply: self.number, passed };
        let _ = self.notes.try_send(Said::Noted(note).into());
    }
}

/// The two speeds of a decision: of this device alone, and of the better way with others.
fn predicted(decision: &DecisionView) -> Option<PredictedView> {
    let ways = [decision.pooled.as_ref(), decision.whole.as_ref()].into_iter().flatten();
    let quickest = |a: &PredictionView, b: &PredictionView| a.total_ms.total_cmp(&b.total_ms);
    let together = ways.map(|way| way.prediction).min_by(quickest);
    let alone = decision.alone;
    (alone.is_some() || together.is_some()).then_some(PredictedView { alone, together })
}
