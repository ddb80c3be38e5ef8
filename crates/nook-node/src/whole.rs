//! Whole requests between two devices of the same person: everything, from token ids to sampling,
//! on one of them.
//!
//! This is the only case in which ids leave the asking device, so it has three locks. The asker's
//! owner switches it on (`distributed_inference.whole_on_own_devices`); the asker's gate says that
//! the other device is its owner's own, and what it yields lies in the advert book
//! (`adverts::OwnDevice`), so that a reply has a proof of the moment; the host's gate says the same
//! of the asker, and only then does the host answer, and only after that answer do ids go out. Each
//! side notices at once when its lock falls.
//!
//! Here is what hosts say beforehand, on the connection: which models each would run whole. The
//! asker's part of a request is `reply::elsewhere`, the host's is `host::offload`.

use std::collections::BTreeMap;

use nook_base::{ErrorCode, PeerId};
use nook_mux::{CallError, CallReceiver};
use nook_wire::{IdsAssembly, Message, WholeIds, WholeOffers};

use crate::state::State;

/// What is known of other devices of the same person. At most one entry for each linked device.
#[derive(Debug, Default)]
pub(crate) struct Wholes {
    /// What each would run whole for this device.
    heard: BTreeMap<PeerId, WholeOffers>,
}

impl Wholes {
    /// A link is gone: what was said on it is void.
    pub(crate) fn gone(&mut self, peer: PeerId) {
        self.heard.remove(&peer);
    }

    /// What `peer` offers.
    pub(crate) fn offers(&self, peer: PeerId) -> Option<&WholeOffers> {
        self.heard.get(&peer).filter(|offers| !offers.offers.is_empty())
    }
}

impl State {
    /// A device says what it would run whole for this one.
    pub(crate) fn on_whole_offers(&mut self, peer: PeerId, offers: WholeOffers) {
        self.whole.heard.insert(peer, offers);
        self.publish_book();
    }
}

/// Why ids did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoIds {
    /// The other side has left, or is not to be reached any more.
    Gone,
    /// It has ended the request and says why. It may do so whenever it likes, between a head and
    /// its ids too: that says nothing against it.
    Refused(ErrorCode),
    /// It has said something else, or in the wrong number.
    Wrong(String),
}

/// Reads ids whose head was just received.
pub(crate) async fn read_ids(
    from: &mut CallReceiver<Message>,
    assembly: Result<IdsAssembly, nook_wire::TensorError>,
) -> Result<WholeIds, NoIds> {
    let wrong = |error: nook_wire::TensorError| NoIds::Wrong(error.to_string());
    let mut assembly = assembly.map_err(wrong)?;
    loop {
        match from.recv().await {
            Ok(Message::Chunk(chunk)) => {
                if let Some(ids) = assembly.take(chunk).map_err(wrong)? {
                    return Ok(ids);
                }
            }
            Ok(Message::Error(error)) => return Err(NoIds::Refused(error.code)),
            Ok(Message::Draining { .. }) => return Err(NoIds::Refused(ErrorCode::Draining)),
            Ok(_) => return Err(NoIds::Wrong("something else came between ids".to_owned())),
            Err(CallError::Closed { code: Some(code) }) => return Err(NoIds::Refused(code)),
            Err(_) => return Err(NoIds::Gone),
        }
    }
}

#[cfg(test)]
mod tests;
