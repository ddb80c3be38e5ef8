//! What can go wrong at a segment, and what a device is to this prompt afterwards.

use nook_base::{ActivationDtype, ErrorCode};
use nook_plan::Place;

use crate::arrival::Corrupt;

/// What went wrong at a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: ErrorCode,
    pub(crate) sentence: Option<String>,
    pub(crate) kind: FaultKind,
    /// With [`FaultKind::Wrong`] what is wrong.
    pub(crate) corrupt: Option<Corrupt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The other side said so.
    Reported,
    /// Link or worker: it cannot go on.
    Broken,
    /// What came back cannot be right.
    Wrong,
    /// Too late, maybe still alive.
    Stalled,
    /// Somebody else is much faster.
    Slow,
    /// It said goodbye.
    Leaving,
}

/// Why a device is not asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusion {
    /// It was late. It gets one more chance when nobody else is left.
    Suspected,
    /// It failed or refused. It is asked again where the reply would else have to wait.
    Failed,
    /// It computed wrongly, or may not be asked any more.
    Barred,
}

impl Fault {
    /// The other side of the call reported `code`.
    pub(crate) fn reported(code: ErrorCode, sentence: String) -> Self {
        let kind = match code {
            // A goodbye that crossed a step on its way.
            ErrorCode::Draining => FaultKind::Leaving,
            _ => FaultKind::Reported,
        };
        let sentence = Some(sentence).filter(|text| !text.is_empty());
        Self { code, sentence, kind, corrupt: None }
    }

    /// The way to `place` is gone.
    pub(crate) fn lost(place: Place) -> Self {
        Self::of(match place {
            Place::Local => ErrorCode::WorkerCrashed,
            Place::Peer(_) => ErrorCode::ShardUnavailable,
        })
    }

    /// A result could not be right.
    pub(crate) fn corrupt(why: Corrupt) -> Self {
        Self {
            code: ErrorCode::CorruptActivation,
            sentence: Some(why.to_string()),
            kind: FaultKind::Wrong,
            corrupt: Some(why),
        }
    }

    pub(crate) fn of(code: ErrorCode) -> Self {
        Self { code, sentence: None, kind: FaultKind::Broken, corrupt: None }
    }

    pub(crate) fn stalled() -> Self {
        Self { kind: FaultKind::Stalled, ..Self::of(ErrorCode::PipelineStalled) }
    }

    pub(crate) fn slow() -> Self {
        Self { kind: FaultKind::Slow, ..Self::of(ErrorCode::PipelineStalled) }
    }

    pub(crate) fn leaving() -> Self {
        Self { kind: FaultKind::Leaving, ..Self::of(ErrorCode::Draining) }
    }

    /// What the device is to this prompt from now on, to which it was `before`.
    pub(crate) fn exclusion(&self, before: Option<Exclusion>) -> Exclusion {
        let is_barred = self.kind == FaultKind::Wrong || self.code == ErrorCode::TrustDenied;
        match (before, self.kind) {
            (Some(Exclusion::Barred), _) => Exclusion::Barred,
            _ if is_barred => Exclusion::Barred,
            (None, FaultKind::Stalled | FaultKind::Slow) => Exclusion::Suspected,
            _ => Exclusion::Failed,
        }
    }

    /// Whether honest numbers were too large for how they are written: that is the format's fault
    /// and nobody's.
    pub(crate) fn is_overflow(&self, dtype: ActivationDtype) -> bool {
        self.code == ErrorCode::ActivationOverflow && dtype != ActivationDtype::F32
    }
}
