//! Is the other side there, and how far away? Counts strikes and round trips; knows no timer.
//!
//! The connection task calls [`Liveness::tick`] at each ping interval, and tells it of every frame
//! and every answer. Strikes count only while no byte arrives: a peer that is busy sending is
//! alive.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Round trips in the window. At the busy interval that is the last four seconds, at the idle one
/// the last four minutes; the oldest falls out.
const RTT_SAMPLES_MAX: usize = 16;

/// Round trips before a distance is told: one alone may have met a busy moment.
const RTT_SAMPLES_MIN: usize = 3;

/// Bytes per second that the slowest usable link carries. A ping waits behind what was written
/// before it, so silence is excused for as long as that takes at this rate.
const RATE_ASSUMED: u32 = 1 << 20;

/// Longest excuse, however much was written: one window of chunks at the assumed rate.
const EXCUSE_MAX: Duration = Duration::from_secs(4);

/// The state of one connection's liveness.
#[derive(Debug)]
pub(crate) struct Liveness {
    misses: u32,
    strikes: u32,
    heard: bool,
    /// The question under way, and when its first copy was written.
    asked: Option<(u64, Option<Instant>)>,
    next_nonce: u64,
    /// How long what was written since the last answer may keep the other side from answering.
    excuse: Duration,
    rtts: VecDeque<Duration>,
}

/// What a tick found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    /// Send a ping with this nonce.
    Ping(u64),
    /// The other side is gone.
    Dead,
}

impl Liveness {
    /// `misses` as in [`crate::PingPolicy`].
    pub(crate) fn new(misses: u32) -> Self {
        Self {
            misses,
            strikes: 0,
            heard: false,
            asked: None,
            next_nonce: 1,
            excuse: Duration::ZERO,
            rtts: VecDeque::new(),
        }
    }

    /// This long has passed since the last tick.
    pub(crate) fn tick(&mut self, interval: Duration) -> Tick {
        if self.heard {
            self.strikes = 0;
        } else if self.excuse >= interval {
            self.excuse -= interval;
        } else if self.asked.is_some() {
            self.strikes += 1;
        }
        self.heard = false;
        if self.strikes >= self.misses {
            return Tick::Dead;
        }
        Tick::Ping(self.ask())
    }

    /// The nonce to ask with: that of the question under way, so that a far peer's answer still
    /// counts from the first copy, or a new one.
    fn ask(&mut self) -> u64 {
        if let Some((nonce, _)) = self.asked {
            return nonce;
        }
        let nonce = self.next_nonce;
        self.next_nonce = nonce.wrapping_add(1);
        self.asked = Some((nonce, None));
        nonce
    }

    /// The ping was written.
    pub(crate) fn ping_written(&mut self, now: Instant) {
        if let Some((_, written @ None)) = &mut self.asked {
            *written = Some(now);
        }
    }

    /// So many bytes were handed to the stream.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let takes = Duration::from_secs(1).mul_f64(f64::from(bytes) / f64::from(RATE_ASSUMED));
        self.excuse = (self.excuse + takes).min(EXCUSE_MAX);
    }

    /// A frame, or a part of one, came.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
        self.strikes = 0;
    }

    /// An answer came. Returns the nonce of a further ping while the distance is not yet known.
    pub(crate) fn answered(&mut self, nonce: u64, now: Instant) -> Option<u64> {
        let Some((asked, Some(written))) = self.asked else {
            return None;
        };
        if asked != nonce {
            return None;
        }
        self.asked = None;
        // Whatever was written before the question has arrived.
        self.excuse = Duration::ZERO;
        if self.rtts.len() == RTT_SAMPLES_MAX {
            self.rtts.pop_front();
        }
        self.rtts.push_back(now.saturating_duration_since(written));
        (self.rtts.len() < RTT_SAMPLES_MIN).then(|| self.ask())
    }

    /// The connection goes on over another stream: the distance is another one. Returns the nonce of
    /// a ping there.
    pub(crate) fn moved(&mut self) -> u64 {
        self.asked = None;
        self.rtts.clear();
        self.ask()
    }

    /// The shortest round trip in the window, once there are enough to trust it.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        if self.rtts.len() < RTT_SAMPLES_MIN {
            return None;
        }
        self.rtts.iter().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_counts_only_while_a_question_is_open_and_nothing_comes() {
        let mut liveness = Liveness::new(2);
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        liveness.heard();
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        assert_eq!(liveness.tick(SECOND), Tick::Dead);
    }

    #[test]
    fn what_was_just_written_excuses_silence_for_as_long_as_it_takes() {
        let mut liveness = Liveness::new(1);
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        liveness.wrote(2 << 20);
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        assert_eq!(liveness.tick(SECOND), Tick::Ping(1));
        assert_eq!(liveness.tick(SECOND), Tick::Dead);

        let mut flooding = Liveness::new(1);
        flooding.wrote(usize::MAX);
        let alive = (0..100).take_while(|_| flooding.tick(SECOND) != Tick::Dead);
        assert_eq!(alive.count(), 4);
    }

    #[test]
    fn the_distance_is_the_shortest_of_at_least_three_round_trips() {
        let start = nook_base::clock::now();
        let mut liveness = Liveness::new(4);
        let mut nonce = match liveness.tick(SECOND) {
            Tick::Ping(nonce) => Some(nonce),
            Tick::Dead => None,
        };
        for ms in [9, 3, 5] {
            assert_eq!(liveness.rtt(), None);
            liveness.ping_written(start);
            let asked = nonce.unwrap();
            assert_eq!(liveness.answered(asked + 100, start), None, "a foreign nonce");
            nonce = liveness.answered(asked, start + Duration::from_millis(ms));
        }
        assert_eq!(liveness.rtt(), Some(Duration::from_millis(3)));
        assert_eq!(nonce, None);
    }
}
