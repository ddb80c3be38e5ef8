//! How fast files may travel: as fast as they can while nothing is computed, slowly while a reply
//! is.
//!
//! The frames of replies overtake those of files inside this program (`nook-mux`), but not what the
//! system has taken already: a socket's buffer holds megabytes, and on a wireless line that is a
//! good part of a second. So while anything is computed here, for this device or for others, files
//! go in single chunks with pauses between them. They never stop wholly: who waits for them can
//! tell a slow device from a lost one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of files that travel in a second while replies are computed: one chunk in an eighth of a
/// second.
const BUSY_BYTES_PER_SECOND: u64 = 2 << 20;

/// Whether something is computed here. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    is_busy: Arc<AtomicBool>,
}

impl Traffic {
    /// Whether replies are computed now: then files travel slowly.
    pub fn set(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// Waits as long as so many bytes are to take now.
    pub async fn give_way(&self, bytes: usize) {
        if self.is_busy.load(Ordering::Relaxed) {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            let micros = bytes.saturating_mul(1_000_000) / BUSY_BYTES_PER_SECOND;
            tracing::debug!(bytes, "a piece of a file gives way to a reply");
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::limits::CHUNK_BYTES;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_give_way_while_something_is_computed_and_only_then() {
        let traffic = Traffic::default();
        let start = Instant::now();
        traffic.clone().give_way(CHUNK_BYTES).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        traffic.set(true);
        for _ in 0..8 {
            traffic.clone().give_way(CHUNK_BYTES).await;
        }
        let took = start.elapsed().as_millis();
        assert!((1000..1010).contains(&took), "{took} ms for {BUSY_BYTES_PER_SECOND} bytes");
        traffic.set(false);
        traffic.give_way(usize::MAX).await;
        assert_eq!(start.elapsed().as_millis(), took);
    }
}
