//! Whether a helper of this reply has other replies to make meanwhile, as its adverts say.
//!
//! A plan counts who asks when it is made. Whoever asks the same helper later takes turns with the
//! reply under way, which then is slower than was predicted, and its reader is told why. Another
//! reply of this computer counts the same.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::{PeerId, clock};
use nook_plan::Place;
use nook_resources::adverts::AdvertBook;

use crate::reply::generation::Generation;
use crate::reply::sink::ReaderLeft;
use nook_api::views::{ReplyEvent, ShardState};

/// How long adverts must have said so before it is told. A measurement that gives way to the reply,
/// or the reply before it, is counted by its host for a moment longer.
const SHARED_FOR: Duration = Duration::from_millis(300);

/// Helpers that make other replies too.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Since when adverts say so, and whether it was told.
    shared: BTreeMap<PeerId, (Instant, bool)>,
}

impl Turns {
    /// Helpers for which something has changed by `now`, and whether they make other replies.
    /// `calls`: how many open calls this reply has with each. A helper without a call is forgotten.
    fn news(
        &mut self,
        calls: &BTreeMap<PeerId, usize>,
        book: &AdvertBook,
        now: Instant,
    ) -> Vec<(PeerId, bool)> {
        self.shared.retain(|peer, _| calls.contains_key(peer));
        let mut news = Vec::new();
        for (peer, own) in calls {
            let open = book.heard.get(peer).map_or(0, |heard| heard.advert.queue_depth);
            if usize::from(open) <= *own {
                if let Some((_, true)) = self.shared.remove(peer) {
                    news.push((*peer, false));
                }
                continue;
            }
            let (since, is_told) = self.shared.entry(*peer).or_insert((now, false));
            if !*is_told && now.saturating_duration_since(*since) >= SHARED_FOR {
                *is_told = true;
                news.push((*peer, true));
            }
        }
        news
    }

    /// When to look again though no advert came; absent while there is nothing to be told.
    pub(super) fn due(&self) -> Option<Instant> {
        let waiting = self.shared.values().filter(|(_, is_told)| !is_told);
        waiting.map(|(since, _)| *since + SHARED_FOR).min()
    }
}

impl Generation {
    /// Tells the reader which helpers take turns with other replies since the adverts changed.
    pub(super) async fn tell_turns(&mut self) -> Result<(), ReaderLeft> {
        let mut calls: BTreeMap<PeerId, usize> = BTreeMap::new();
        for (peer, _) in self.asked.values() {
            *calls.entry(*peer).or_default() += 1;
        }
        let news = {
            let book = self.sink.book.borrow_and_update();
            self.turns.news(&calls, &book, clock::now())
        };
        for (peer, is_shared) in news {
            if is_shared {
                self.sink.note_shared(peer);
            }
            let status = if is_shared { ShardState::Shared } else { ShardState::Online };
            let device = self.sink.name(Place::Peer(peer));
            self.sink.tell(ReplyEvent::ShardStatus { device, status }, Vec::new()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nook_base::limits::ADVERT_LIFE;
    use nook_resources::adverts::Heard;
    use nook_wire::Advert;

    use super::*;

    const STUDY: PeerId = PeerId([1; 32]);
    const ATTIC: PeerId = PeerId([2; 32]);

    fn book(open: &[(PeerId, u16)]) -> AdvertBook {
        let advert = |queue_depth| Advert {
            sharing: true,
            shards: Vec::new(),
            streams_free: 3,
            queue_depth,
            memory_free_bytes: 0,
            fetch_bytes: 0,
        };
        let heard = |(peer, depth): &(PeerId, u16)| {
            let (at, life) = (clock::now(), ADVERT_LIFE);
            (*peer, Heard { advert: advert(*depth), at, life, app_version: "1".to_owned() })
        };
        AdvertBook { heard: open.iter().map(heard).collect(), ..AdvertBook::default() }
    }

    #[test]
    fn a_helper_that_somebody_else_asks_too_is_told_once_and_so_is_its_end() {
        let mut turns = Turns::default();
        let calls = BTreeMap::from([(STUDY, 1), (ATTIC, 1)]);
        let (start, later) = (clock::now(), clock::now() + SHARED_FOR);
        let ours = book(&[(STUDY, 1), (ATTIC, 1)]);
        assert!(turns.news(&calls, &ours, start).is_empty(), "both are ours");
        assert!(turns.news(&calls, &book(&[(STUDY, 0)]), start).is_empty(), "not counted yet");
        let two = book(&[(STUDY, 2), (ATTIC, 1)]);
        assert!(turns.news(&calls, &two, start).is_empty(), "it may be over in a moment");
        assert_eq!(turns.due(), Some(start + SHARED_FOR));
        assert_eq!(turns.news(&calls, &two, later), [(STUDY, true)]);
        assert_eq!(turns.due(), None);
        assert!(turns.news(&calls, &two, later).is_empty(), "it was told");
        assert_eq!(turns.news(&calls, &ours, later), [(STUDY, false)]);
    }

    #[test]
    fn what_is_over_in_a_moment_is_not_told() {
        let mut turns = Turns::default();
        let calls = BTreeMap::from([(STUDY, 1)]);
        let (start, later) = (clock::now(), clock::now() + SHARED_FOR);
        assert!(turns.news(&calls, &book(&[(STUDY, 2)]), start).is_empty());
        assert!(turns.news(&calls, &book(&[(STUDY, 1)]), start).is_empty());
        assert!(turns.news(&calls, &book(&[(STUDY, 2)]), later).is_empty(), "it begins anew");
    }

    #[test]
    fn own_calls_are_no_other_replies_and_a_helper_that_was_left_is_forgotten() {
        let mut turns = Turns::default();
        let (two, own, both) =
            (book(&[(STUDY, 2)]), BTreeMap::from([(STUDY, 1)]), BTreeMap::from([(STUDY, 2)]));
        let (start, later) = (clock::now(), clock::now() + SHARED_FOR);
        assert!(turns.news(&both, &two, start).is_empty() && turns.due().is_none());
        assert!(turns.news(&own, &two, start).is_empty());
        assert_eq!(turns.news(&own, &two, later), [(STUDY, true)]);
        assert!(turns.news(&BTreeMap::new(), &two, later).is_empty(), "nobody waits for it");
        assert!(turns.news(&own, &two, later).is_empty(), "it begins anew");
    }
}
