//! Sequence numbers: +1 per frame, per call and direction. A hole is an error, never an end.

/// Gives numbers to the frames of one call in one direction.
#[derive(Debug, Clone, Default)]
pub struct SeqCounter {
    next: u32,
}

/// Checks the numbers of the frames of one call in one direction.
#[derive(Debug, Clone, Default)]
pub struct SeqCheck {
    expected: u32,
}

/// A frame out of order, or more frames than can be numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SeqError {
    /// A frame is missing, doubled or out of order.
    #[error("frame {got} came where {expected} was due")]
    Gap {
        /// The number that was due.
        expected: u32,
        /// The number that came.
        got: u32,
    },
    /// All numbers are used up; the call has to be opened anew.
    #[error("the call has used up its frame numbers")]
    Exhausted,
}

impl SeqCounter {
    /// The number of the next frame.
    pub fn take(&mut self) -> Result<u32, SeqError> {
        let seq = self.next;
        // The highest number is never given out, so that the counter cannot wrap into a replay.
        self.next = seq.checked_add(1).ok_or(SeqError::Exhausted)?;
        Ok(seq)
    }

    /// Whether no number was given yet.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.next == 0
    }
}

impl SeqCheck {
    /// Accepts the frame that is due.
    pub fn accept(&mut self, seq: u32) -> Result<(), SeqError> {
        if seq != self.expected {
            return Err(SeqError::Gap { expected: self.expected, got: seq });
        }
        self.expected = seq.checked_add(1).ok_or(SeqError::Exhausted)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_doubled_or_swapped_frame_is_a_gap() {
        for (frames, expected, got) in
            [(&[0, 2][..], 1, 2), (&[0, 1, 1], 2, 1), (&[1], 0, 1), (&[0, 1, 2, 0], 3, 0)]
        {
            let mut check = SeqCheck::default();
            let (last, before) = frames.split_last().unwrap();
            assert!(before.iter().all(|seq| check.accept(*seq).is_ok()));
            assert_eq!(check.accept(*last), Err(SeqError::Gap { expected, got }));
        }
    }

    #[test]
    fn numbers_end_instead_of_starting_anew() {
        let mut counter = SeqCounter { next: u32::MAX - 1 };
        assert_eq!(counter.take(), Ok(u32::MAX - 1));
        assert_eq!(counter.take(), Err(SeqError::Exhausted));
        let mut check = SeqCheck { expected: u32::MAX };
        assert_eq!(check.accept(u32::MAX), Err(SeqError::Exhausted));
    }
}
