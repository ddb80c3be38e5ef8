//! What the last replies of one model left behind, so that the next prompt computes only what is new.
//!
//! A walk that ended in order keeps its [`Trail`] here; the next one takes the trail that shares most
//! with its prompt, whichever door and chat either came from: the tokens alone decide, so editing,
//! asking again and clients without chats are no special cases. A trail is taken out when it is used,
//! because hosts hold each conversation once. In memory only, and of this device's own prompts.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nook_base::ActivationDtype;
use nook_link::Links;
use nook_pipeline::{Resume, Trail};
use nook_plan::{Offer, Place, Route, Segment};
use nook_wire::FEATURE_RESUME;

/// Trails of one model; of more, the one that was left longest ago is forgotten, and the prompt that
/// would have used it is computed whole. Our own worker keeps twice as many conversations in all.
const TRAILS_MAX: usize = 16;

/// Positions that going back to the devices of an earlier reply must save, when the house would now
/// choose others.
const DETOUR_POSITIONS_MIN: u32 = 64;

/// The trails of one model.
#[derive(Debug, Default)]
pub(crate) struct TrailBook {
    // Guards a short list; never held across an await. The one left longest ago comes first.
    trails: Mutex<VecDeque<Trail>>,
}

/// Who could go on with an earlier reply at the moment.
pub(crate) struct Hosts<'a> {
    pub(crate) offers: &'a [Offer],
    pub(crate) links: &'a Links,
}

impl TrailBook {
    /// Keeps a trail.
    pub(crate) fn keep(&self, trail: Trail) {
        let mut trails = self.trails.lock().unwrap_or_else(PoisonError::into_inner);
        while trails.len() >= TRAILS_MAX {
            trails.pop_front();
        }
        trails.push_back(trail);
    }

    /// Takes the trail that saves `prompt` most positions, of those that `may` be used.
    fn take(&self, prompt: &[u32], may: impl Fn(&Trail, u32) -> bool) -> Option<Trail> {
        let mut trails = self.trails.lock().unwrap_or_else(PoisonError::into_inner);
        let saves = trails.iter().enumerate().map(|(at, trail)| (trail.resumable(prompt), at));
        let usable = saves.filter(|(saved, at)| {
            *saved > 0 && trails.get(*at).is_some_and(|trail| may(trail, *saved))
        });
        // Of equals the youngest: its hosts are likeliest to remember.
        let (_, at) = usable.max()?;
        trails.remove(at)
    }

    /// The route to walk and where on it `prompt` goes on: that of an earlier reply, when its devices
    /// can still be asked, else the `planned` one from the beginning.
    pub(crate) fn go_on(
        &self,
        planned: Route,
        dtype: ActivationDtype,
        prompt: &[u32],
        hosts: &Hosts<'_>,
    ) -> (Route, Option<Resume>) {
        let may = |trail: &Trail, saved: u32| {
            let is_planned = trail.segments() == planned.segments();
            trail.dtype() == dtype
                && hosts.understand(trail.segments())
                && (is_planned
                    || saved >= DETOUR_POSITIONS_MIN && hosts.stand_in(trail.segments(), &planned))
        };
        let Some(trail) = self.take(prompt, may) else {
            return (planned, None);
        };
        match Route::new(planned.layers(), trail.segments().to_vec()) {
            Ok(route) => (route, trail.resume(prompt)),
            Err(error) => {
                tracing::error!(%error, "the route of an earlier reply is none");
                (planned, None)
            }
        }
    }
}

impl Hosts<'_> {
    /// Whether every other device in `segments` is connected and knows how to go on.
    fn understand(&self, segments: &[Segment]) -> bool {
        segments.iter().all(|segment| match segment.place {
            Place::Local => true,
            Place::Peer(peer) => self
                .links
                .link(peer)
                .is_some_and(|link| link.hello().features & FEATURE_RESUME != 0),
        })
    }

    /// Whether `segments` may be walked instead of `planned`: the same layers stay here, and the other
    /// devices still offer theirs. A layer that this device only stood in for is no reason to stay.
    fn stand_in(&self, segments: &[Segment], planned: &Route) -> bool {
        let ends = |all: &[Segment]| (all.first().copied(), all.last().copied());
        let offered = |segment: &Segment| match segment.place {
            Place::Local => false,
            Place::Peer(peer) => self.offers.iter().any(|offer| {
                offer.peer == peer
                    && offer.streams_free > 0
                    && offer.layers.contains(segment.part.layers)
            }),
        };
        let inner = segments.get(1..segments.len().saturating_sub(1)).unwrap_or_default();
        ends(segments) == ends(planned.segments()) && inner.iter().all(offered)
    }
}

#[cfg(test)]
mod tests {
    use nook_base::{Sensitive, clock};
    use nook_pipeline::{
        Action, Deadlines, Event, FallBack, Pipeline, PipelineSettings, SpotCheck,
    };

    use super::*;

    /// What a reply to `prompt` on this device alone leaves, when it says one token more.
    fn trail(prompt: &[u32]) -> Trail {
        let now = clock::now();
        let settings = PipelineSettings {
            hidden: 4,
            dtype: ActivationDtype::F32,
            prefill_chunk: 2,
            prefill_window: 1,
            positions_max: 64,
            failovers_max: 0,
            fall_back: FallBack::Allow,
            deadlines: Deadlines::usual(),
            gains: std::sync::Arc::default(),
            spot_check: SpotCheck::OFF,
            retained_bytes_max: 1 << 20,
            history_key: Sensitive([7; 32]),
            resume: None,
        };
        let mut pipeline = Pipeline::new(&Route::alone(2).expect("two layers"), settings);
        let begin = Event::Begin { prompt: Sensitive(prompt.to_vec()) };
        let mut actions = VecDeque::from(pipeline.handle(begin, now));
        while let Some(action) = actions.pop_front() {
            let event = match action {
                Action::Open { attempt, .. } => Event::Opened { attempt, position: 0 },
                Action::SendTokens { attempt, step, position, .. } => {
                    let (attempt, compute_us, queue_us) = (attempt.id(), 1, 0);
                    Event::Logits { attempt, step, position, compute_us, queue_us }
                }
                Action::Sample { .. } => Event::Finish,
                _ => continue,
            };
            actions.extend(pipeline.handle(event, now));
        }
        pipeline.take_trail().expect("it ended in order")
    }

    #[test]
    fn the_trail_that_saves_most_is_taken_and_only_once() {
        let book = TrailBook::default();
        for prompt in [&[1, 2, 3, 4][..], &[1, 2, 3, 4, 5, 6], &[9, 9]] {
            book.keep(trail(prompt));
        }
        let asked = [1, 2, 3, 4, 5, 6, 7];
        let saved = |trail: Option<Trail>| trail.map(|trail| trail.resumable(&asked));
        assert_eq!(saved(book.take(&asked, |_, _| false)), None, "nobody may");
        assert_eq!(saved(book.take(&asked, |_, _| true)), Some(6));
        assert_eq!(saved(book.take(&asked, |_, _| true)), Some(4));
        assert_eq!(saved(book.take(&asked, |_, _| true)), None);
        assert!(book.take(&[9, 9, 1], |_, _| true).is_some());
    }

    #[test]
    fn the_oldest_trail_makes_room() {
        let book = TrailBook::default();
        let prompts = 1..=TRAILS_MAX as u32 + 1;
        prompts.for_each(|first| book.keep(trail(&[first, 2])));
        assert!(book.take(&[1, 2, 3], |_, _| true).is_none());
        assert!(book.take(&[2, 2, 3], |_, _| true).is_some());
        assert_eq!(book.trails.lock().unwrap().len(), TRAILS_MAX - 1);
    }
}
