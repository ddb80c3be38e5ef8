//! A restart that waits for the replies that run: for a new version of the program.
//!
//! The node's event loop decides when, and the program around it starts anew; both hold the same
//! [`Restart`]. A program that cannot start itself again never says that it can, and is not asked.
//! An order counts for `ORDER_LASTS` only: whoever gives it watches over what follows, and gives
//! it again for as long as that is so. Otherwise a program could start anew with nobody there who
//! puts the old version back. That one also asks whether the program that came of it has come up,
//! which the program says itself.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long an order counts.
const ORDER_LASTS: Duration = Duration::from_secs(10);

/// How the program that runs a node is started once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// Its file, as it was found when it started: what lies there later may be a newer version.
    pub program: PathBuf,
    /// Its words on the command line.
    pub words: Vec<OsString>,
}

/// What a restart waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct RestartWaits {
    /// Replies of this device, those that have not begun included.
    pub replies: usize,
    /// Streams that are lent to other devices.
    pub streams: u16,
}

/// What a node and the program that runs it know of a restart.
#[derive(Debug, Default)]
pub struct Restart {
    again: OnceLock<Again>,
    can_order: AtomicBool,
    order: Mutex<Option<Order>>,
    begun: AtomicBool,
    come_up: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Order {
    first: Instant,
    last: Instant,
}

impl Order {
    fn counts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < ORDER_LASTS
    }
}

impl Again {
    /// The program and its words, where all of them are Unicode.
    fn in_words(&self) -> Option<Vec<String>> {
        let words = self.words.iter().map(OsString::as_os_str);
        std::iter::once(self.program.as_os_str())
            .chain(words)
            .map(|word| word.to_str().map(str::to_owned))
            .collect()
    }
}

impl Restart {
    /// The program starts itself again once the node has left; `again` says how somebody else would
    /// start it. The first call counts.
    pub fn can_be_ordered(&self, again: Again) {
        self.was_started_as(again);
        self.can_order.store(true, Ordering::Release);
    }

    /// The program does not start itself again; `again` says how somebody else would start it. The
    /// first call counts.
    pub fn was_started_as(&self, again: Again) {
        self.again.get_or_init(|| again);
    }

    /// How somebody else would start the program once more: its file and its words. Empty where it
    /// is none that goes on by itself, or where a word is no Unicode.
    #[must_use]
    pub fn started_as(&self) -> Vec<String> {
        self.again.get().and_then(Again::in_words).unwrap_or_default()
    }

    /// How the program is started once more, where it starts itself again.
    #[must_use]
    pub fn again(&self) -> Option<&Again> {
        self.again.get().filter(|_| self.can_order.load(Ordering::Acquire))
    }

    /// Orders it at `now`, for when nothing is under way; whether the program can.
    pub fn order(&self, now: Instant) -> bool {
        if self.again().is_none() {
            return false;
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let first = order.filter(|order| order.counts(now)).map_or(now, |order| order.first);
        *order = Some(Order { first, last: now });
        true
    }

    /// For how long it has been ordered at `now`; absent where it is not, or not any more.
    #[must_use]
    pub fn ordered_for(&self, now: Instant) -> Option<Duration> {
        let order = *self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let order = order.filter(|order| order.counts(now))?;
        Some(now.saturating_duration_since(order.first))
    }

    /// Takes the order back.
    pub fn call_off(&self) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// All of the program has come up, whatever it has beside the node.
    pub fn come_up(&self) {
        self.come_up.store(true, Ordering::Release);
    }

    /// Whether all of the program has come up.
    #[must_use]
    pub fn has_come_up(&self) -> bool {
        self.come_up.load(Ordering::Acquire)
    }

    /// The node leaves for it.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Whether the node left for it, and the program is to start anew.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_counts_for_as_long_as_it_is_given_again() {
        let restart = Restart::default();
        let start = nook_base::clock::now();
        assert!(!restart.order(start), "this program cannot start itself again");
        assert_eq!(restart.ordered_for(start), None);
        let again = Again { program: "/opt/bin/nook".into(), words: vec!["up".into()] };
        restart.can_be_ordered(again.clone());
        assert_eq!(restart.again(), Some(&again));
        assert_eq!(restart.started_as(), ["/opt/bin/nook", "up"]);
        let other = Restart::default();
        other.was_started_as(again);
        assert_eq!(other.started_as(), ["/opt/bin/nook", "up"]);
        assert!(other.again().is_none() && !other.order(start), "it ends, and somebody starts it");
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for seconds in [0, 9, 18] {
            assert!(restart.order(at(seconds)));
            assert_eq!(restart.ordered_for(at(seconds)), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(restart.ordered_for(at(27)), Some(Duration::from_secs(27)));
        assert_eq!(restart.ordered_for(at(28)), None, "whoever gave it has gone");
        assert!(restart.order(at(40)));
        assert_eq!(restart.ordered_for(at(41)), Some(Duration::from_secs(1)), "a new one");
        restart.call_off();
        assert_eq!(restart.ordered_for(at(41)), None, "it was taken back");
        assert!(!restart.has_begun());
    }
}
