//! From whom this device takes files: models, and what others have of a release of this program.

use nook_base::PeerId;
use nook_library::Giver;
use nook_link::Links;
use nook_trust::purpose::CopyModels;

use crate::devices::{Devices, name_of};

/// What it takes to ask `peer` for files: the gate's leave and a link.
pub(crate) fn giver_of(devices: &Devices, links: &Links, peer: PeerId) -> Option<Giver> {
    let pass = devices.gate().admit::<CopyModels>(peer).ok()?;
    Some(Giver { pass, link: links.link(peer)?, name: name_of(devices.peers(), peer) })
}
