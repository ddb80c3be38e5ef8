//! Whose form is tried next, and when.
//!
//! Forms come from programs, and a hostile one costs seconds of a processor for a request of a
//! hundred bytes. A lower priority alone does not help whoever waits for this device: where the
//! processor is rationed, or other cores are free, such work takes what a step for a reply needed.
//! So forms are tried one at a time, and while this device computes for its owner or for others,
//! each is followed by a rest in proportion to what it took.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, MutexGuard};
use tokio::time::Instant;

/// The rest behind a form, in multiples of the time that it took: forms then have a tenth of a
/// processor.
const REST_FACTOR: u32 = 9;

/// A form that was held up by others is not counted with more than a process may take of a
/// processor.
const COUNTED_MAX: Duration = Duration::from_secs(2);

/// So long after the last sign of it this device still counts as computing for somebody: replies
/// follow one another.
const COMPUTING: Duration = Duration::from_secs(10);

/// Longest wait for a turn. Whoever waits holds a place among the replies under way.
const WAIT_LIMIT: Duration = Duration::from_secs(5);

/// How often one who waits looks whether this device still computes.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The turns of all forms, of all models. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct FormTurns {
    /// Held by whoever has the turn; when the next one may begin.
    next: Arc<Turn<Option<Instant>>>,
    /// When this device computed last for its owner or for others.
    // Guards one value; never held across an await.
    computed: Arc<Mutex<Option<Instant>>>,
}

/// The turn of one form. Its end begins the rest.
#[derive(Debug)]
pub(super) struct FormTurn<'a> {
    next: MutexGuard<'a, Option<Instant>>,
    begun: Instant,
}

impl FormTurns {
    /// This device computes for its owner, or for others.
    pub(super) fn note_computing(&self) {
        *self.computed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Waits for a turn; `None` where it does not come soon.
    pub(super) async fn take(&self) -> Option<FormTurn<'_>> {
        tokio::time::timeout(WAIT_LIMIT, self.wait()).await.ok()
    }

    async fn wait(&self) -> FormTurn<'_> {
        let next = self.next.lock().await;
        while let Some(rest) = self.rest(*next, Instant::now()) {
            tokio::time::sleep(rest.min(LOOK_PAUSE)).await;
        }
        FormTurn { next, begun: Instant::now() }
    }

    /// How long a form still has to wait that may begin at `next`.
    fn rest(&self, next: Option<Instant>, now: Instant) -> Option<Duration> {
        let computed = (*self.computed.lock().unwrap_or_else(PoisonError::into_inner))?;
        let rest = next?.checked_duration_since(now).filter(|rest| !rest.is_zero())?;
        (now.saturating_duration_since(computed) < COMPUTING).then_some(rest)
    }
}

impl Drop for FormTurn<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun).min(COUNTED_MAX);
        *self.next = Some(now + took * REST_FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A form that takes so long; how long it waited for its turn.
    async fn form(turns: &FormTurns, takes: Duration) -> Option<Duration> {
        let asked = Instant::now();
        let _turn = turns.take().await?;
        let waited = asked.elapsed();
        tokio::time::sleep(takes).await;
        Some(waited)
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_without_a_rest_where_nobody_computes() {
        let turns = FormTurns::default();
        let two = tokio::join!(form(&turns, LONG), form(&turns, SHORT));
        assert_eq!(two, (Some(Duration::ZERO), Some(LONG)));
        assert_eq!(form(&turns, SHORT).await, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn forms_get_a_tenth_of_the_time_while_this_device_computes() {
        let turns = FormTurns::default();
        turns.note_computing();
        assert_eq!(form(&turns, SHORT).await, Some(Duration::ZERO));
        assert_eq!(form(&turns, LONG).await, Some(SHORT * REST_FACTOR));
        // The rest is longer than anybody waits, and longer than what one form may count.
        let asked = Instant::now();
        assert_eq!(form(&turns, SHORT).await, None);
        assert_eq!(asked.elapsed(), WAIT_LIMIT);
        turns.note_computing();
        assert_eq!(form(&turns, 100 * LONG).await, Some(LONG * REST_FACTOR - WAIT_LIMIT));
        turns.note_computing();
        let next = turns.next.lock().await.unwrap();
        assert_eq!(next - Instant::now(), COUNTED_MAX * REST_FACTOR);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_ends_soon_after_this_device_computed_last() {
        let turns = FormTurns::default();
        turns.note_computing();
        form(&turns, 2 * LONG).await.unwrap();
        tokio::time::sleep(COMPUTING - 2 * LONG - SHORT).await;
        // Eight of eighteen seconds are over.
        let waited = form(&turns, SHORT).await.unwrap();
        assert!(waited <= LOOK_PAUSE && waited >= SHORT, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_form_whose_asker_left_counts_with_what_it_took() {
        let turns = FormTurns::default();
        turns.note_computing();
        let left = tokio::time::timeout(SHORT, form(&turns, LONG)).await;
        assert!(left.is_err());
        assert_eq!(form(&turns, SHORT).await, Some(SHORT * REST_FACTOR));
    }
}
