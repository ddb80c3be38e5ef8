//! How many strangers may knock at once.
//!
//! A connection counts from `accept` until it has proved who it is, or its deadline has closed it.
//! The caps are small because honest devices take milliseconds for that. Some slots are kept for
//! addresses of devices that this one knows, so that a crowd of strangers cannot lock them out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::LoopbackPolicy;

/// Connections that have not proved who they are, from all addresses. One more is closed at once.
pub(crate) const UNPROVEN_MAX: usize = 32;

/// The same, from one address (IPv6: one /64). One more is closed at once.
pub(crate) const UNPROVEN_PER_ADDRESS_MAX: usize = 4;

/// Slots of [`UNPROVEN_MAX`] that only known addresses may use.
pub(crate) const RESERVED_FOR_KNOWN: usize = 8;

/// Counts connections that have not proved who they are. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    loopback: LoopbackPolicy,
    /// How many there are from each address; no entry is zero.
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A slot; freed on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    admission: Admission,
    address: IpAddr,
}

/// Whether an address belongs to a device that this one knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Stranger,
    Known,
}

impl Admission {
    /// Nobody knocks yet. A household on one machine shares one address, so the cap per address
    /// does not count for loopback there.
    pub(crate) fn new(loopback: LoopbackPolicy) -> Self {
        Self { loopback, counts: Arc::default() }
    }

    /// A slot for a connection from `address`, if there is one.
    pub(crate) fn enter(&self, address: IpAddr, caller: Caller) -> Option<Slot> {
        let address = counted_as(address);
        let cap = match caller {
            Caller::Stranger => UNPROVEN_MAX - RESERVED_FOR_KNOWN,
            Caller::Known => UNPROVEN_MAX,
        };
        let mut counts = self.lock();
        let total: usize = counts.values().sum();
        let here = counts.get(&address).copied().unwrap_or_default();
        let shared = address.is_loopback() && self.loopback == LoopbackPolicy::Allow;
        if total >= cap || (here >= UNPROVEN_PER_ADDRESS_MAX && !shared) {
            return None;
        }
        counts.insert(address, here + 1);
        drop(counts);
        Some(Slot { admission: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        match counts.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                counts.remove(&self.address);
            }
        }
    }
}

/// One machine has a whole /64 of IPv6 addresses to itself: it counts as one.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn t2_one_address_gets_four_slots_and_gets_them_back() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let enter = || admission.enter(address("192.168.1.5"), Caller::Known);
        let slots: Vec<Slot> = std::iter::from_fn(enter).collect();
        assert_eq!(slots.len(), UNPROVEN_PER_ADDRESS_MAX);
        drop(slots);
        assert!(enter().is_some());
        assert!(admission.lock().is_empty(), "counts leak");
    }

    #[test]
    fn t2_a_crowd_of_strangers_leaves_room_for_known_devices() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let crowd = (0..250u8).filter_map(|n| {
            let stranger = IpAddr::from([10, 0, 0, n]);
            admission.enter(stranger, Caller::Stranger)
        });
        let crowd: Vec<Slot> = crowd.collect();
        assert_eq!(crowd.len(), UNPROVEN_MAX - RESERVED_FOR_KNOWN);
        assert!(admission.enter(address("10.1.0.1"), Caller::Stranger).is_none());
        let known = (0..250u8).filter_map(|n| {
            let device = IpAddr::from([192, 168, 1, n]);
            admission.enter(device, Caller::Known)
        });
        assert_eq!(known.collect::<Vec<_>>().len(), RESERVED_FOR_KNOWN);
    }

    #[test]
    fn t2_spoofed_addresses_of_one_network_count_as_one() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let spoofed = (0..250u16).filter_map(|n| {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, n, n, n, n);
            admission.enter(IpAddr::V6(address), Caller::Stranger)
        });
        assert_eq!(spoofed.collect::<Vec<_>>().len(), UNPROVEN_PER_ADDRESS_MAX);
    }
}
