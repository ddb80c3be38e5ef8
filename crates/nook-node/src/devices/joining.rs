//! Why a pairing with a device that shows a code did not happen, for people.

use nook_base::ErrorCode;
use nook_link::pairing::JoinError;
use nook_trust::pairing::{PairingError, RefusalReason};

use nook_api::NodeError;
use nook_api::sentence;
use nook_api::views::Wording;

/// What to tell the person who typed the code.
pub(crate) fn refusal(error: JoinError) -> NodeError {
    let (code, wording) = match &error {
        JoinError::Unreachable => (ErrorCode::ShardUnavailable, Wording::NobodyThere),
        JoinError::NotPairing => (ErrorCode::ShardUnavailable, Wording::NoCodeShown),
        JoinError::Lost => (ErrorCode::ShardUnavailable, Wording::PairingLost),
        JoinError::NotStored => (ErrorCode::BadRequest, Wording::NotKeptHere),
        JoinError::Refused { error } => refused(error),
    };
    NodeError::new(code, sentence(&error.to_string())).worded(wording)
}

/// How the other device, or this one, ended a pairing.
fn refused(error: &PairingError) -> (ErrorCode, Wording) {
    let reason = match error {
        PairingError::RefusedByPeer { reason, .. } => *reason,
        PairingError::WrongCode => RefusalReason::WrongCode,
        PairingError::VersionMismatch => RefusalReason::Version,
        PairingError::SameDevice => return (ErrorCode::BadRequest, Wording::SameDevice),
        PairingError::PeerMisbehaved | PairingError::OutOfTurn => RefusalReason::Other,
    };
    match reason {
        RefusalReason::WrongCode => (ErrorCode::TrustDenied, Wording::WrongCode),
        RefusalReason::NotPairing => (ErrorCode::ShardUnavailable, Wording::NoCodeShown),
        RefusalReason::Version => (ErrorCode::VersionMismatch, Wording::Code),
        RefusalReason::NotStored => (ErrorCode::BadRequest, Wording::NotKeptThere),
        RefusalReason::Busy => (ErrorCode::Busy, Wording::PairingLost),
        RefusalReason::Other => (ErrorCode::BadRequest, Wording::PairingOdd),
    }
}
