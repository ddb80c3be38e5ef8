//! Devices by the names that people use, and trust as front ends show it.

use nook_api::NodeError;
use nook_api::views::{Trust, Wording};
use nook_base::{ErrorCode, PeerId};
use nook_store::Peers;
use nook_trust::TrustLevel;

/// A paired device by id, short id, name, or a unique beginning of its name.
pub(crate) fn paired(peers: &Peers, text: &str) -> Result<PeerId, NodeError> {
    let lower = text.trim().to_lowercase();
    let list = peers.list();
    let exact = list.iter().find(|peer| {
        peer.id.to_string().eq_ignore_ascii_case(&lower)
            || peer.id.short().eq_ignore_ascii_case(&lower)
    });
    let named: Vec<_> =
        list.iter().filter(|peer| peer.name.as_str().to_lowercase() == lower).collect();
    let begins: Vec<_> = list
        .iter()
        .filter(|peer| !lower.is_empty() && peer.name.as_str().to_lowercase().starts_with(&lower))
        .collect();
    match (exact, named.as_slice(), begins.as_slice()) {
        (Some(peer), ..) => Ok(peer.id),
        (None, [one], _) | (None, [], [one]) => Ok(one.id),
        (None, [], []) => Err(NodeError::new(
            ErrorCode::NotFound,
            format!("No device {text:?} is paired with this one."),
        )
        .worded(Wording::NoSuchDevice { name: text.to_owned() })),
        _ => Err(bad(format!("Several devices are called {text:?}: give the id instead."))),
    }
}

/// What a device is called; the beginning of its id where it is not paired.
pub(crate) fn name_of(peers: &Peers, peer: PeerId) -> String {
    peers.get(peer).map_or_else(|| peer.short(), |peer| peer.name.as_str().to_owned())
}

pub(super) fn bad(sentence: String) -> NodeError {
    NodeError::new(ErrorCode::BadRequest, sentence)
}

/// A level as front ends show it.
pub(crate) fn trust(level: TrustLevel) -> Trust {
    match level {
        TrustLevel::Blocked => Trust::Blocked,
        TrustLevel::Unknown => Trust::Unknown,
        TrustLevel::Guest => Trust::Guest,
        TrustLevel::Trusted => Trust::Trusted,
        TrustLevel::Own => Trust::Own,
    }
}

/// A level as it is stored.
pub(super) fn level(trust: Trust) -> TrustLevel {
    match trust {
        Trust::Blocked => TrustLevel::Blocked,
        Trust::Unknown => TrustLevel::Unknown,
        Trust::Guest => TrustLevel::Guest,
        Trust::Trusted => TrustLevel::Trusted,
        Trust::Own => TrustLevel::Own,
    }
}
