//! What this device has asked of others and their adverts do not show yet.
//!
//! An advert is up to half a minute old. Two requests within a few milliseconds must not both take the
//! same free memory, so own bookings are taken off until an advert that was sent after the host accepted
//! them. A refusal is remembered as well: the same question is not asked again before the host says
//! something new. Plans never book; whoever carries one out does.

use std::collections::BTreeMap;

use nook_base::PeerId;

use crate::facts::Device;

/// Most bookings at once; one more is not taken in, and the caller must not ask the device.
pub const BOOKINGS_MAX: usize = 1024;

/// One call's demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booking {
    /// Whom it was asked of.
    pub peer: PeerId,
    /// Weights to load and caches, in bytes.
    pub bytes: u64,
}

/// Names a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BookingId(u64);

/// The bookings and refusals of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    bookings: BTreeMap<BookingId, (Booking, Stage)>,
    refusals: BTreeMap<PeerId, Refusal>,
    next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// OPEN was sent.
    Asked,
    /// OPENED came: the next advert counts it.
    Accepted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    /// What was too much.
    bytes: u64,
    /// What the host said was free when it refused.
    free: u64,
}

impl Ledger {
    /// Books a call before it is opened; `None` at [`BOOKINGS_MAX`].
    #[must_use]
    pub fn book(&mut self, booking: Booking) -> Option<BookingId> {
        if self.bookings.len() >= BOOKINGS_MAX {
            return None;
        }
        let id = BookingId(self.next);
        self.next = self.next.wrapping_add(1);
        self.bookings.insert(id, (booking, Stage::Asked));
        Some(id)
    }

    /// The host accepted the call.
    pub fn accepted(&mut self, id: BookingId) {
        if let Some((_, stage)) = self.bookings.get_mut(&id) {
            *stage = Stage::Accepted;
        }
    }

    /// The call is over, however it ended.
    pub fn ended(&mut self, id: BookingId) {
        self.bookings.remove(&id);
    }

    /// The host had no room for the call, although it had advertised `free`.
    pub fn refused(&mut self, id: BookingId, free: u64) {
        if let Some((booking, _)) = self.bookings.remove(&id) {
            let bytes = match self.refusals.get(&booking.peer) {
                Some(before) if before.free == free => before.bytes.min(booking.bytes),
                _ => booking.bytes,
            };
            self.refusals.insert(booking.peer, Refusal { bytes, free });
        }
    }

    /// An advert of `peer` came, with `free` bytes. Only another figure than at the refusal is news.
    pub fn advertised(&mut self, peer: PeerId, free: u64) {
        self.bookings.retain(|_, (booking, stage)| booking.peer != peer || *stage == Stage::Asked);
        if self.refusals.get(&peer).is_some_and(|refusal| refusal.free != free) {
            self.refusals.remove(&peer);
        }
    }

    /// The device went away: nothing that was said to it or by it counts.
    pub fn forget(&mut self, peer: PeerId) {
        self.bookings.retain(|_, (booking, _)| booking.peer != peer);
        self.refusals.remove(&peer);
    }

    /// Takes off what the device's advert does not show. The sums saturate: nothing becomes more.
    pub fn apply(&self, device: &mut Device) {
        let Some(peer) = device.peer() else { return };
        for (booking, _) in self.bookings.values().filter(|(booking, _)| booking.peer == peer) {
            device.memory_free = device.memory_free.saturating_sub(booking.bytes);
            device.streams_free = device.streams_free.saturating_sub(1);
        }
        if let Some(refusal) = self.refusals.get(&peer) {
            device.memory_free = device.memory_free.min(refusal.bytes.saturating_sub(1));
        }
    }
}
