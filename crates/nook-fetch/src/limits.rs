//! Every limit of a download, and what happens there.

use std::time::Duration;

/// Largest model that is fetched, in one file or in several; a larger one is refused before the
/// first byte. What several computers of a household hold together is less, and a server that says
/// more is wrong.
pub const FILE_BYTES_MAX: u64 = 512 << 30;

/// What stays free on the disk: a download that would leave less is refused before it starts. A
/// full system disk breaks other programs, and the chats of this one.
pub const DISK_RESERVE_BYTES: u64 = 1 << 30;

/// How often what was written is made durable and noted, and the room on the disk looked at again.
/// A power cut or a kill costs at most this much of the way; what lies beyond the note is fetched
/// again, never believed.
pub const SYNC_EVERY_BYTES: u64 = 64 << 20;

/// Bytes that are gathered before they are written: one visit to the disk's threads for each.
pub(crate) const WRITE_BYTES: usize = 1 << 20;

/// Most redirects from one server to the next; one more ends the download.
pub const REDIRECTS_MAX: usize = 6;

/// Longest address; browsers take no longer ones either.
pub const URL_BYTES_MAX: usize = 2048;

/// Most servers behind `hf:`; a list with more is refused.
pub const HUBS_MAX: usize = 4;

/// Longest wait that a server may ask for between two tries; a longer wish counts as this.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What a fetcher keeps to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How patient it is.
    pub pace: Pace,
    /// Largest file, in bytes; one that is longer, or turns out to be, is not taken.
    pub file_bytes_max: u64,
    /// Bytes after which what came is made durable and the disk looked at again.
    pub sync_every_bytes: u64,
}

impl Limits {
    /// The product's.
    pub const USUAL: Self = Self {
        pace: Pace::USUAL,
        file_bytes_max: FILE_BYTES_MAX,
        sync_every_bytes: SYNC_EVERY_BYTES,
    };
}

/// How patient a download is.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest time without a byte; then the connection is given up and the download goes on with a
    /// new one.
    pub stall: Duration,
    /// Wait before the first new try; it doubles with each try that brought nothing new.
    pub wait_first: Duration,
    /// Longest wait between two tries.
    pub wait_max: Duration,
    /// Tries in a row that brought no byte further than ever before; then the download ends, and
    /// what was loaded stays.
    pub tries_max: u32,
    /// The same at a server behind which another one is named; then that one is asked.
    pub tries_before_next: u32,
}

impl Pace {
    /// The product's: a router that restarts takes two minutes, and the waits between these tries
    /// come to about three.
    pub const USUAL: Self = Self {
        connect: Duration::from_secs(20),
        stall: Duration::from_secs(60),
        wait_first: Duration::from_secs(1),
        wait_max: Duration::from_secs(60),
        tries_max: 9,
        tries_before_next: 3,
    };

    /// The wait after so many tries without anything new, from 1.
    pub(crate) fn wait(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(16);
        self.wait_first.saturating_mul(1 << doublings).min(self.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_tries_outlast_a_router_that_restarts() {
        let waits = |tries: u32| (1..tries).map(|tried| Pace::USUAL.wait(tried)).sum::<Duration>();
        // 1, 2, 4, 8, 16, 32, 60 and 60 seconds.
        assert_eq!(waits(Pace::USUAL.tries_max), Duration::from_secs(183));
        assert_eq!(waits(Pace::USUAL.tries_before_next), Duration::from_secs(3));
    }
}
