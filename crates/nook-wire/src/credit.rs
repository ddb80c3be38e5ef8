//! Credit: how many chunks of a call may be under way before the consumer has taken some.
//!
//! The sender owns a [`SendWindow`], the receiver a [`ReceiveWindow`]. Credit is returned by the
//! consumer that has taken the chunk, not by whoever received the frame, and in batches, because a
//! frame per chunk would double the frames.

use nook_base::limits::CREDIT_WINDOW;

/// The sender's side: chunks that may still be sent.
#[derive(Debug, Clone)]
pub struct SendWindow {
    available: u32,
}

/// The receiver's side: chunks received and not yet paid for by credit.
#[derive(Debug, Clone, Default)]
pub struct ReceiveWindow {
    outstanding: u32,
    taken: u32,
}

/// Both sides of one call.
#[derive(Debug, Clone, Default)]
pub struct CreditWindow {
    /// What this side may send.
    pub send: SendWindow,
    /// What the other side has sent.
    pub receive: ReceiveWindow,
}

/// The other side breaks the rules of credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    /// More chunks than the window allows.
    #[error("more than {CREDIT_WINDOW} chunks came without credit")]
    Overrun,
    /// Credit for nothing, or for more chunks than were sent.
    #[error("credit for {granted} chunks came where {owed} were owed")]
    Overgrant {
        /// Chunks in the credit.
        granted: u32,
        /// Chunks sent and not yet paid for.
        owed: u32,
    },
}

/// The receiver returns credit when this many chunks were taken: half of the window, so that the
/// sender never has to stop for a receiver that keeps up.
pub const CREDIT_BATCH: u32 = CREDIT_WINDOW / 2;

impl Default for SendWindow {
    fn default() -> Self {
        Self { available: CREDIT_WINDOW }
    }
}

impl SendWindow {
    /// Whether a chunk may be sent now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.available > 0
    }

    /// Spends the credit of one chunk; `false` when there is none, and the sender has to wait.
    #[must_use]
    pub fn spend(&mut self) -> bool {
        let open = self.is_open();
        self.available = self.available.saturating_sub(1);
        open
    }

    /// Adds what the receiver returned.
    pub fn grant(&mut self, chunks: u32) -> Result<(), CreditError> {
        let owed = CREDIT_WINDOW - self.available;
        if chunks == 0 || chunks > owed {
            return Err(CreditError::Overgrant { granted: chunks, owed });
        }
        self.available += chunks;
        Ok(())
    }
}

impl ReceiveWindow {
    /// Counts a chunk that came.
    pub fn receive(&mut self) -> Result<(), CreditError> {
        if self.outstanding >= CREDIT_WINDOW {
            return Err(CreditError::Overrun);
        }
        self.outstanding += 1;
        Ok(())
    }

    /// Counts a chunk that the consumer took. Returns the credit that is now to be sent, if any.
    #[must_use]
    pub fn take(&mut self) -> Option<u32> {
        self.taken = (self.taken + 1).min(self.outstanding);
        if self.taken < CREDIT_BATCH {
            return None;
        }
        let credit = std::mem::take(&mut self.taken);
        self.outstanding -= credit;
        Some(credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_ends_at_its_limit_on_both_sides() {
        let mut window = CreditWindow::default();
        for _ in 0..CREDIT_WINDOW {
            assert!(window.send.spend());
            window.receive.receive().unwrap();
        }
        assert!(!window.send.spend());
        assert_eq!(window.receive.receive(), Err(CreditError::Overrun));
    }

    #[test]
    fn a_consumer_that_keeps_up_never_stops_the_sender() {
        let mut window = CreditWindow::default();
        for _ in 0..10 * CREDIT_WINDOW {
            assert!(window.send.spend());
            window.receive.receive().unwrap();
            if let Some(credit) = window.receive.take() {
                assert_eq!(credit, CREDIT_BATCH);
                window.send.grant(credit).unwrap();
            }
        }
    }

    #[test]
    fn credit_for_what_was_never_sent_is_refused() {
        let mut window = SendWindow::default();
        assert!(window.spend());
        for granted in [0, 2, u32::MAX] {
            let refused = CreditError::Overgrant { granted, owed: 1 };
            assert_eq!(window.grant(granted), Err(refused));
        }
        assert_eq!(window.grant(1), Ok(()));
    }

    #[test]
    fn taking_what_never_came_gives_no_credit() {
        let mut window = ReceiveWindow::default();
        assert!((0..100).all(|_| window.take().is_none()));
    }
}
