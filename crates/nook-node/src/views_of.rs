//! How types of other crates are told in views. Functions, because neither side is of this crate.

use std::time::Duration;

use nook_base::ErrorCode;
use nook_pipeline::Corrupt;
use nook_plan::{Out, Why};

use crate::house::HouseError;
use crate::views::{Reason, SystemReason, WhyLeftOut, WrongResult};

pub(crate) fn why_left_out(why: Why) -> WhyLeftOut {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    match why {
        Why::Out(out) => match out {
            Out::Absent => WhyLeftOut::Absent,
            Out::NotSharing => WhyLeftOut::NotSharing,
            Out::NotAllowed => WhyLeftOut::NotAllowed,
            Out::Leaving => WhyLeftOut::Leaving,
            Out::OtherFile => WhyLeftOut::OtherFile,
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

/// The reason of a file that the system refuses.
pub(crate) fn reason_of_file(error: &nook_store::FileError) -> Reason {
    Reason { means: SystemReason::of(error.kind), said: error.reason.clone() }
}

/// A task of this node was lost with its answer.
pub(crate) fn task_lost(_: tokio::task::JoinError) -> HouseError {
    ErrorCode::WorkerCrashed.into()
}
