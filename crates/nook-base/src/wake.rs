//! How a sleeping computer is reached: the hardware address of a network interface, and the network
//! in which that hears.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Shortest and longest prefix of a network with room for somebody else and for a broadcast.
const PREFIX: std::ops::RangeInclusive<u8> = 8..=30;

/// The hardware address of a network interface. It names a machine for life, so no `Debug` output
/// shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MacAddress(pub [u8; 6]);

/// Where a computer hears a magic packet while it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "(MacAddress, Ipv4Addr, u8)", try_from = "(MacAddress, Ipv4Addr, u8)")]
pub struct WakeAddress {
    mac: MacAddress,
    /// Its lowest address.
    network: Ipv4Addr,
    prefix: u8,
}

/// Nobody can be woken there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither the hardware address of one machine nor a network in which it could hear")]
pub struct NoWakeAddress;

impl WakeAddress {
    /// The interface `mac`, which has `address` in a network of this prefix length.
    pub fn new(mac: MacAddress, address: Ipv4Addr, prefix: u8) -> Result<Self, NoWakeAddress> {
        let MacAddress([first, ..]) = mac;
        let is_of_one_machine = mac != MacAddress([0; 6]) && first & 1 == 0;
        if !is_of_one_machine || !PREFIX.contains(&prefix) {
            return Err(NoWakeAddress);
        }
        Ok(Self { mac, network: lowest(address, prefix), prefix })
    }

    /// The interface.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Whether a machine with this address and prefix length is in the same network.
    #[must_use]
    pub fn is_heard_from(&self, address: Ipv4Addr, prefix: u8) -> bool {
        prefix == self.prefix && lowest(address, prefix) == self.network
    }

    /// Everybody in the network.
    #[must_use]
    pub fn broadcast(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() | !mask(self.prefix))
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0)
}

fn lowest(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & mask(prefix))
}

impl TryFrom<(MacAddress, Ipv4Addr, u8)> for WakeAddress {
    type Error = NoWakeAddress;

    fn try_from((mac, address, prefix): (MacAddress, Ipv4Addr, u8)) -> Result<Self, NoWakeAddress> {
        Self::new(mac, address, prefix)
    }
}

impl From<WakeAddress> for (MacAddress, Ipv4Addr, u8) {
    fn from(it: WakeAddress) -> Self {
        (it.mac, it.network, it.prefix)
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hardware address>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([0x02, 0x42, 0xac, 0x11, 0x00, 0x02]);

    fn at(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(192, 168, 7, last)
    }

    #[test]
    fn a_network_hears_from_its_own_machines_alone() {
        let wake = WakeAddress::new(MAC, at(23), 24).unwrap();
        assert_eq!(wake.broadcast(), at(255));
        assert!(wake.is_heard_from(at(1), 24));
        assert!(!wake.is_heard_from(at(1), 25));
        assert!(!wake.is_heard_from(Ipv4Addr::new(192, 168, 8, 1), 24));
        let small = WakeAddress::new(MAC, at(23), 30).unwrap();
        assert_eq!(small.broadcast(), at(23));
        assert!(small.is_heard_from(at(21), 30) && !small.is_heard_from(at(24), 30));
    }

    #[test]
    fn what_is_no_interface_of_one_machine_or_no_network_is_refused() {
        for (mac, prefix) in [
            (MacAddress([0; 6]), 24),
            (MacAddress([0xff; 6]), 24),
            (MacAddress([0x01, 0, 0x5e, 0, 0, 1]), 24),
            (MAC, 0),
            (MAC, 7),
            (MAC, 31),
            (MAC, 32),
            (MAC, 255),
        ] {
            assert_eq!(WakeAddress::new(mac, at(23), prefix), Err(NoWakeAddress), "{prefix}");
        }
    }

    #[test]
    fn debug_output_shows_no_hardware_address() {
        let shown = format!("{:?}", WakeAddress::new(MAC, at(23), 24).unwrap());
        assert!(shown.contains("<hardware address>") && !shown.contains("66"), "{shown}");
    }
}
