//! Noticing that this machine was asleep, or that this process did not run for a while.
//!
//! The house looks around every second. Where a look comes much later by the clock on the wall,
//! nobody was there in between: a lid was closed, or the process was stopped. The wall clock is
//! asked because the one that waits are measured with stands still during a sleep on Linux; a clock
//! that is set forward looks like a sleep, which costs nothing but a few tries to connect. No
//! system service is needed, so it works on every system.

/// A look that comes so many seconds after the last one: a busy machine delays it by less.
const ASLEEP_SECONDS: u64 = 5;

/// When the house looked around last.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Seconds since 1970.
    last: Option<u64>,
}

impl Looks {
    /// Whether nobody looked for so long that the machine must have slept; `unix` is now.
    pub(crate) fn slept(&mut self, unix: u64) -> bool {
        let last = self.last.replace(unix);
        last.is_some_and(|last| unix.saturating_sub(last) >= ASLEEP_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_between_two_looks_is_a_sleep() {
        let mut looks = Looks::default();
        let at = [1_000, 1_001, 1_004, 1_009, 1_010, 900, 901];
        let slept: Vec<u64> = at.into_iter().filter(|unix| looks.slept(*unix)).collect();
        assert_eq!(slept, [1_009], "neither the first look nor a clock that is set back");
    }
}
