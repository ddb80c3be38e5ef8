//! Memory given back once nothing was under way for a moment.
//!
//! Replies and the streams of other devices come in bursts, and the allocator keeps the holes that
//! each burst leaves. Workers do the same for themselves when they free their layers.

/// Ticks, one a second, after which the node counts as quiet: between two turns of a conversation
/// nothing is gained.
const QUIET_LOOKS: u32 = 2;

/// What the looks have found.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// Looks since something was under way.
    looks: u32,
    /// Something was under way since memory was given back.
    is_due: bool,
}

impl Quiet {
    /// Takes in a look; whether memory is to be given back now.
    pub(crate) fn look(&mut self, is_busy: bool) -> bool {
        if is_busy {
            *self = Self { looks: 0, is_due: true };
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks >= QUIET_LOOKS && std::mem::take(&mut self.is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_each_burst() {
        let mut quiet = Quiet::default();
        let mut looks =
            |busy: &[u8]| busy.iter().map(|one| quiet.look(*one == 1)).collect::<Vec<_>>();
        assert_eq!(looks(&[0, 0, 0, 0]), [false; 4], "nothing has happened yet");
        assert_eq!(looks(&[1, 1, 0, 1, 0]), [false; 5], "a pause between two turns");
        assert_eq!(looks(&[0, 0, 0]), [true, false, false]);
        assert_eq!(looks(&[1, 0, 0]), [false, false, true]);
    }
}
