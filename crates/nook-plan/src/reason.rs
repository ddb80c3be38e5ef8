//! Why a device is not part of a plan, as a fact to act on and a sentence to show.
//!
//! Absent, full, refused, gone and too slow are different things to tell the owner of a device, and
//! different things to do about it.

use std::fmt;
use std::time::Duration;

use nook_base::PeerId;

/// Facts that keep a device out before any speed is looked at. The node knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Out {
    /// Not connected.
    Absent,
    /// Its owner does not share it now.
    NotSharing,
    /// Its owner, or this one, does not allow it at this trust level.
    NotAllowed,
    /// It said goodbye: paused, on battery, closing.
    Leaving,
    /// It holds another file under this model's name, or none.
    OtherFile,
    /// It has no layer of this model yet, and would fetch some that it is asked to hold.
    LacksLayers,
    /// It refused this very thing, and nothing has changed since.
    Refused,
    /// It failed lately and is left out for a while.
    FailedLately,
    /// It computes the model otherwise than this device does.
    ComputesWrongly,
}

/// Why a device has no part in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Known before any planning.
    Out(Out),
    /// It computes no layer that could be asked of it.
    NothingToCompute,
    /// The smallest useful share does not fit.
    Full {
        /// Bytes that one layer would add, with this request's cache.
        needs: u64,
        /// Bytes that it would still spend.
        free: u64,
    },
    /// All its streams are taken.
    StreamsTaken,
    /// Its layers cannot be joined with those of the others: cuts, ends, number of hops.
    DoesNotFitIn,
    /// A layer takes longer there than with those that are used.
    TooSlow {
        /// Time that the reply would take longer.
        slower_by: Duration,
    },
    /// It would compute faster, but the way to it costs more.
    HopCostsMoreThanItSaves {
        /// What its hop would cost over the whole reply.
        hop: Duration,
        /// What its computing would save.
        saves: Duration,
    },
    /// It would pay, if its layers were in memory.
    LoadingTakesTooLong {
        /// How long loading takes.
        load: Duration,
        /// What it would save on this reply.
        saves: Duration,
    },
    /// Its speed or the way to it was never measured, and what is known suffices.
    UnknownSpeed,
    /// It would pay, but so little that other people's machines are better left in peace.
    GainIsTooSmall {
        /// What it would save on this reply.
        saves: Duration,
    },
    /// It would do; those that are used do better.
    OthersAreBetter,
}

/// A device and why it has no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The device.
    pub peer: PeerId,
    /// The reason.
    pub why: Why,
}

impl Out {
    /// For people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Absent => "It is not connected.",
            Self::NotSharing => "Sharing is switched off there.",
            Self::NotAllowed => "Its trust level does not allow it to help.",
            Self::Leaving => "It is pausing or leaving.",
            Self::OtherFile => "It does not have this model's exact file.",
            Self::LacksLayers => {
                "It has no part of this model yet; it gets one by itself when that is of use."
            }
            Self::Refused => "It refused, and nothing has changed there since.",
            Self::FailedLately => "It failed a moment ago and is left alone for a while.",
            Self::ComputesWrongly => "It computes the model otherwise than this device does.",
        }
    }
}

impl fmt::Display for Why {
    /// One sentence for people, without the device's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Out(out) => f.write_str(out.sentence()),
            Self::NothingToCompute => f.write_str("It offers no layer of this model."),
            Self::Full { needs, free } => write!(
                f,
                "Its memory is full: one layer with this conversation needs {}, {} is free.",
                Megabytes(*needs),
                Megabytes(*free)
            ),
            Self::StreamsTaken => {
                f.write_str("It already helps as many conversations as it allows.")
            }
            Self::DoesNotFitIn => {
                f.write_str("Its layers cannot be joined with those of the other devices.")
            }
            Self::TooSlow { slower_by } => {
                write!(f, "It is too slow: the reply would take {} longer.", Seconds(*slower_by))
            }
            Self::HopCostsMoreThanItSaves { hop, saves } => write!(
                f,
                "The way to it costs {} a reply and its computing saves {}.",
                Seconds(*hop),
                Seconds(*saves)
            ),
            Self::LoadingTakesTooLong { load, saves } => write!(
                f,
                "Loading its layers takes {} and would save {} on this reply.",
                Seconds(*load),
                Seconds(*saves)
            ),
            Self::UnknownSpeed => {
                f.write_str("Its speed has not been measured yet, and the others suffice.")
            }
            Self::GainIsTooSmall { saves } => {
                write!(f, "It would save only {} on this reply.", Seconds(*saves))
            }
            Self::OthersAreBetter => f.write_str("The devices in use do it faster."),
        }
    }
}

struct Megabytes(u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            gigabytes if gigabytes >= 10_000_000_000 => {
                write!(f, "{} GB", gigabytes / 1_000_000_000)
            }
            bytes => write!(f, "{} MB", bytes.div_ceil(1_000_000)),
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs_f64() {
            long if long >= 10.0 => write!(f, "{long:.0} s"),
            seconds if seconds >= 0.1 => write!(f, "{seconds:.1} s"),
            short => write!(f, "{:.0} ms", short * 1000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_one_plain_sentence_of_its_own() {
        let time = Duration::from_millis(1234);
        let outs = [
            Out::Absent,
            Out::NotSharing,
            Out::NotAllowed,
            Out::Leaving,
            Out::OtherFile,
            Out::Refused,
            Out::FailedLately,
            Out::ComputesWrongly,
        ];
        let others = [
            Why::NothingToCompute,
            Why::Full { needs: 120_000_001, free: 24_000_000_000 },
            Why::StreamsTaken,
            Why::DoesNotFitIn,
            Why::TooSlow { slower_by: 20 * time },
            Why::HopCostsMoreThanItSaves { hop: time, saves: time / 100 },
            Why::LoadingTakesTooLong { load: 9 * time, saves: time },
            Why::UnknownSpeed,
            Why::GainIsTooSmall { saves: time },
            Why::OthersAreBetter,
        ];
        let mut said: Vec<String> =
            outs.map(Why::Out).iter().chain(&others).map(ToString::to_string).collect();
        assert!(said.iter().all(|sentence| sentence.ends_with('.')), "{said:?}");
        assert_eq!(
            said[9],
            "Its memory is full: one layer with this conversation needs 121 MB, 24 GB is free."
        );
        assert_eq!(said[13], "The way to it costs 1.2 s a reply and its computing saves 12 ms.");
        said.sort();
        said.dedup();
        assert_eq!(said.len(), outs.len() + others.len());
    }
}
