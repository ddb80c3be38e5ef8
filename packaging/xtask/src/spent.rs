//! How long a piece of work took: by the clock, and of the processor's time.

use std::fmt;
use std::time::{Duration, Instant};

use crate::outside;

/// Measures from when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    begun: Instant,
    processor: Option<Duration>,
}

/// What a piece of work took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    wall: Duration,
    /// What the programs that were started and have ended took of all cores together; absent where
    /// the system does not say.
    processor: Option<Duration>,
}

impl Meter {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self { begun: outside::now(), processor: outside::processor_time_of_children() }
    }

    /// What was spent since then.
    pub(crate) fn read(&self) -> Spent {
        let now = outside::processor_time_of_children();
        let processor = now.zip(self.processor).map(|(now, then)| now.saturating_sub(then));
        Spent { wall: self.begun.elapsed(), processor }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} s", self.wall.as_secs_f64())?;
        match self.processor {
            Some(processor) => write!(f, " ({:.0} s of processor time)", processor.as_secs_f64()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::Program;

    #[test]
    fn both_times_are_told_where_both_are_known() {
        let wall = Duration::from_millis(61_400);
        let processor = Some(Duration::from_secs(118));
        assert_eq!(Spent { wall, processor }.to_string(), "61 s (118 s of processor time)");
        assert_eq!(Spent { wall, processor: None }.to_string(), "61 s");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_program_computes_is_counted() {
        let meter = Meter::start();
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        Program::new("sh", Path::new(".")).args(["-c", script]).run().unwrap();
        assert!(meter.read().processor.unwrap() > Duration::ZERO);
    }
}
