//! When this machine is kept from falling asleep by itself: while a reply of this device is made,
//! and while this device computes for another one.
//!
//! The loop looks once a second. A stream of a guest counts while something is answered on it: one
//! on which nothing happens keeps nobody awake. To share and to wait for guests is no reason.

use std::time::{Duration, Instant};

use nook_machine::Rest;

/// After the last moment in which the machine was needed, its rest is held off for so much longer:
/// the next turn of a conversation, or the next piece of a reply, takes up the same lock.
const LINGER: Duration = Duration::from_secs(10);

/// A stream of a guest counts for so long after its last answer. A step of a slow computer takes
/// less; a guest that has fallen asleep itself, or waits for another device, is not waited for.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// What is under way now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnderWay {
    /// Replies of this device.
    pub(crate) replies: usize,
    /// Streams of guests.
    pub(crate) streams: u16,
    /// Answers that guests were given since the node began.
    pub(crate) answers: u64,
}

/// What the looks have found.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    /// Streams and answers at the last look.
    seen: (u16, u64),
    /// When something last happened on a stream.
    stepped: Option<Instant>,
    /// When the machine was needed last.
    needed: Option<Instant>,
}

impl Awake {
    /// Takes in a look; whether the machine may rest now.
    pub(crate) fn look(&mut self, under_way: UnderWay, now: Instant) -> Rest {
        let UnderWay { replies, streams, answers } = under_way;
        let before = std::mem::replace(&mut self.seen, (streams, answers));
        if streams > before.0 || answers != before.1 {
            self.stepped = Some(now);
        }
        let is_within = |at: Option<Instant>, limit| {
            at.is_some_and(|at| now.saturating_duration_since(at) < limit)
        };
        if replies > 0 || (streams > 0 && is_within(self.stepped, STEP_LIMIT)) {
            self.needed = Some(now);
        }
        if is_within(self.needed, LINGER) { Rest::HeldOff } else { Rest::Allowed }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    /// From this second on: replies, streams, answers.
    type Look = (u64, usize, u16, u64);

    /// The seconds in which rest begins or ends to be held off, over looks once a second.
    fn changes(looks: &[Look], until: u64) -> Vec<(u64, Rest)> {
        let (begin, mut awake) = (clock::now(), Awake::default());
        let (mut under_way, mut rest, mut changes) = (UnderWay::default(), Rest::Allowed, vec![]);
        for second in 0..=until {
            if let Some((_, replies, streams, answers)) = looks.iter().find(|it| it.0 == second) {
                under_way = UnderWay { replies: *replies, streams: *streams, answers: *answers };
            }
            let now = awake.look(under_way, begin + Duration::from_secs(second));
            if now != rest {
                changes.push((second, now));
                rest = now;
            }
        }
        changes
    }

    #[test]
    fn a_device_that_shares_and_is_not_asked_may_sleep() {
        assert_eq!(changes(&[], 1_000), []);
        // A stream and its answers between two looks are as good as none.
        assert_eq!(changes(&[(5, 0, 0, 40)], 1_000), []);
    }

    #[test]
    fn rest_is_held_off_from_the_first_step_until_shortly_after_the_last_stream() {
        let looks = [(3, 0, 1, 0), (4, 0, 1, 7), (20, 0, 1, 90), (21, 0, 0, 91)];
        assert_eq!(changes(&looks, 200), [(3, Rest::HeldOff), (30, Rest::Allowed)]);
    }

    #[test]
    fn turns_of_one_conversation_do_not_let_go_in_between() {
        let looks = [(1, 1, 0, 0), (5, 0, 0, 0), (14, 1, 0, 0), (15, 0, 0, 0)];
        assert_eq!(changes(&looks, 200), [(1, Rest::HeldOff), (24, Rest::Allowed)]);
    }

    #[test]
    fn a_stream_on_which_nothing_happens_lets_go_and_its_next_step_takes_hold_again() {
        let looks = [(1, 0, 2, 0), (2, 0, 2, 5), (300, 0, 2, 6), (301, 0, 1, 6)];
        let let_go = 2 + STEP_LIMIT.as_secs() - 1 + LINGER.as_secs();
        let expected = [
            (1, Rest::HeldOff),
            (let_go, Rest::Allowed),
            (300, Rest::HeldOff),
            (let_go + 298, Rest::Allowed),
        ];
        assert_eq!(changes(&looks, 1_000), expected);
    }

    #[test]
    fn a_reply_that_waits_long_keeps_its_device_awake() {
        let looks = [(1, 1, 0, 0), (400, 0, 0, 0)];
        assert_eq!(changes(&looks, 500), [(1, Rest::HeldOff), (409, Rest::Allowed)]);
    }
}
