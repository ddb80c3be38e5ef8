//! How types of other crates are told in views. Functions, because neither side is of this crate.

use std::time::Duration;

use nook_api::views::{WhyLeftOut, WrongResult};
use nook_pipeline::Corrupt;
use nook_plan::{Out, Why};

pub(crate) fn why_left_out(why: Why) -> WhyLeftOut {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    match why {
        Why::Out(out) => match out {
            Out::Absent => WhyLeftOut::Absent,
            Out::NotSharing => WhyLeftOut::NotSharing,
            Out::NotAllowed => WhyLeftOut::NotAllowed,
            Out::Leaving => WhyLeftOut::Leaving,
            Out::OtherFile => WhyLeftOut::OtherFile,
            Out::LacksLayers => WhyLeftOut::LacksLayers,
            Out::Refused => WhyLeftOut::Refused,
            Out::FailedLately => WhyLeftOut::FailedLately,
            Out::ComputesWrongly => WhyLeftOut::ComputesWrongly,
        },
        Why::NothingToCompute => WhyLeftOut::NothingToCompute,
        Why::Full { needs, free } => WhyLeftOut::Full { needs_bytes: needs, free_bytes: free },
        Why::StreamsTaken => WhyLeftOut::StreamsTaken,
        Why::DoesNotFitIn => WhyLeftOut::DoesNotFitIn,
        Why::TooSlow { slower_by } => WhyLeftOut::TooSlow { slower_ms: ms(slower_by) },
        Why::HopCostsMoreThanItSaves { hop, saves } => {
            WhyLeftOut::HopCostsMoreThanItSaves { hop_ms: ms(hop), saves_ms: ms(saves) }
        }
        Why::LoadingTakesTooLong { load, saves } => {
            WhyLeftOut::LoadingTakesTooLong { load_ms: ms(load), saves_ms: ms(saves) }
        }
        Why::UnknownSpeed => WhyLeftOut::UnknownSpeed,
        Why::GainIsTooSmall { saves } => WhyLeftOut::GainIsTooSmall { saves_ms: ms(saves) },
        Why::OthersAreBetter => WhyLeftOut::OthersAreBetter,
    }
}

pub(crate) fn wrong_result(corrupt: &Corrupt) -> WrongResult {
    match corrupt {
        Corrupt::OtherPositions => WrongResult::OtherPositions,
        Corrupt::OtherShape => WrongResult::OtherShape,
        Corrupt::NotFinite => WrongResult::NotFinite,
        Corrupt::ZeroRow => WrongResult::ZeroRow,
        Corrupt::Copy => WrongResult::Copy,
        Corrupt::MuchLarger => WrongResult::MuchLarger,
        Corrupt::MuchSmaller => WrongResult::MuchSmaller,
        Corrupt::ContradictedHere => WrongResult::ContradictedHere,
        Corrupt::ContradictedElsewhere => WrongResult::ContradictedElsewhere,
        Corrupt::Unreadable { .. } => WrongResult::Unreadable,
    }
}
