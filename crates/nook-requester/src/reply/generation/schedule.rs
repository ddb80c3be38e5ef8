//! Whom a reply waits for, once it comes later than this computer alone would have made it.
//!
//! The deadlines of the pipeline forgive, since a hand-over costs more than a short wait. A reader
//! who watches nothing happen is told sooner: when the next token is later than it was predicted
//! to be without others, and nothing has come for [`SILENT_FOR`].

use std::time::{Duration, Instant};

use nook_api::views::{PredictedView, ReplyEvent, ShardState};
use nook_base::{PeerId, clock};
use nook_plan::Place;

use crate::reply::generation::Generation;
use crate::reply::sink::{ReaderLeft, ReplySink};

/// How long nothing must have come: a shorter wait is over before it is read.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// What was predicted for this computer alone, and what of a wait was told.
#[derive(Debug)]
pub(super) struct Schedule {
    /// When the reply was asked for.
    asked: Instant,
    /// From then to the first token, and from each to the next; absent where nothing was predicted.
    alone: Option<(Duration, Duration)>,
    /// Tokens that were chosen.
    tokens: u32,
    /// When the last of them was, or when it was looked for the last time.
    seen: Instant,
    /// For whom the next token waits, as the reader was told.
    told: Option<PeerId>,
}

impl Schedule {
    pub(super) fn new(asked: Instant, predicted: Option<&PredictedView>) -> Self {
        let alone = predicted.and_then(|predicted| predicted.alone).and_then(|alone| {
            let first = Duration::try_from_secs_f64(alone.first_token_ms / 1e3).ok()?;
            let token = Duration::try_from_secs_f64(alone.tokens_per_second.recip()).ok()?;
            Some((first, token))
        });
        Self { asked, alone, tokens: 0, seen: asked, told: None }
    }

    /// When it is to be looked whom the reply waits for; absent where nothing is predicted, and
    /// until the next token once it was told.
    pub(super) fn due(&self) -> Option<Instant> {
        let (first, token) = self.alone.filter(|_| self.told.is_none())?;
        let alone = first.checked_add(token.checked_mul(self.tokens)?)?;
        Some(self.asked.checked_add(alone)?.max(self.seen + SILENT_FOR))
    }

    /// The reply waits for `peer` at `now`, or for nobody else: whom to tell, if it is time to.
    fn news(&mut self, peer: Option<PeerId>, now: Instant) -> Option<PeerId> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        self.seen = now;
        self.told = peer;
        peer
    }

    /// A token was chosen at `now`: who was said to be waited for.
    fn token(&mut self, now: Instant) -> Option<PeerId> {
        self.tokens = self.tokens.saturating_add(1);
        self.seen = now;
        self.told.take()
    }
}

impl Generation {
    /// Tells the reader whom the reply waits for, where it should have gone on by now.
    pub(super) async fn tell_wait(&mut self) -> Result<(), ReaderLeft> {
        let waits_for = self.pipeline.waits_for();
        match self.schedule.news(waits_for, clock::now()) {
            Some(peer) => {
                let device = self.sink.name(Place::Peer(peer));
                tracing::info!(device, "a reply waits, and would be further without others");
                tell(&self.sink, peer, ShardState::Degraded).await
            }
            None => Ok(()),
        }
    }

    /// A token was chosen at `now`, so nobody is waited for any more.
    pub(super) async fn end_wait(&mut self, now: Instant) -> Result<(), ReaderLeft> {
        match self.schedule.token(now) {
            Some(peer) => tell(&self.sink, peer, ShardState::Online).await,
            None => Ok(()),
        }
    }
}

async fn tell(sink: &ReplySink, peer: PeerId, status: ShardState) -> Result<(), ReaderLeft> {
    let device = sink.name(Place::Peer(peer));
    sink.tell(ReplyEvent::ShardStatus { device, status }, Vec::new()).await
}

#[cfg(test)]
mod tests {
    use nook_api::views::PredictionView;

    use super::*;

    const STUDY: PeerId = PeerId([1; 32]);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Alone the first token comes after three seconds, and ten in each second after it.
    fn schedule(asked: Instant) -> Schedule {
        let alone = PredictionView {
            first_token_ms: 3_000.0,
            load_ms: 0.0,
            tokens_per_second: 10.0,
            total_ms: 9_000.0,
            measured: true,
        };
        Schedule::new(asked, Some(&PredictedView { alone: Some(alone), together: None }))
    }

    #[test]
    fn who_is_waited_for_is_told_once_for_each_token_that_is_later_than_alone() {
        let asked = clock::now();
        let mut schedule = schedule(asked);
        assert_eq!(schedule.due(), Some(asked + ms(3_000)));
        assert_eq!(schedule.news(Some(STUDY), asked + ms(2_999)), None);
        assert_eq!(schedule.news(Some(STUDY), asked + ms(3_000)), Some(STUDY));
        assert_eq!(schedule.due(), None, "it was told");
        assert_eq!(schedule.news(Some(STUDY), asked + ms(9_000)), None);
        assert_eq!(schedule.token(asked + ms(9_000)), Some(STUDY));
        // It is late already, but not silent yet.
        assert_eq!(schedule.due(), Some(asked + ms(10_000)));
        assert_eq!(schedule.token(asked + ms(9_500)), None);
        assert_eq!(schedule.news(Some(STUDY), asked + ms(10_500)), Some(STUDY));
    }

    #[test]
    fn a_reply_that_is_as_fast_as_alone_tells_nothing_however_long_a_token_takes() {
        let asked = clock::now();
        let mut schedule = schedule(asked);
        (0..40).for_each(|_| assert_eq!(schedule.token(asked + ms(500)), None));
        assert_eq!(schedule.due(), Some(asked + ms(7_000)), "the 41st would come then");
        assert_eq!(schedule.news(Some(STUDY), asked + ms(6_999)), None);
    }

    #[test]
    fn where_this_computer_itself_is_waited_for_it_is_looked_again_in_a_while() {
        let asked = clock::now();
        let mut schedule = schedule(asked);
        assert_eq!(schedule.news(None, asked + ms(3_000)), None);
        assert_eq!(schedule.due(), Some(asked + ms(4_000)));
        assert_eq!(schedule.news(Some(STUDY), asked + ms(4_000)), Some(STUDY));
    }

    #[test]
    fn without_a_prediction_or_with_one_that_is_no_speed_there_is_no_schedule() {
        let asked = clock::now();
        assert_eq!(Schedule::new(asked, None).due(), None);
        let stands_still = PredictionView {
            first_token_ms: 1.0,
            load_ms: 0.0,
            tokens_per_second: 0.0,
            total_ms: 1.0,
            measured: true,
        };
        let predicted = PredictedView { alone: Some(stands_still), together: None };
        assert_eq!(Schedule::new(asked, Some(&predicted)).due(), None);
    }
}
