//! Waking a sleeping computer, what others need to wake this one, and what kinds of interfaces it
//! has.
//!
//! A magic packet is six bytes 0xff and sixteen times the hardware address of the one that is
//! meant, to everybody in its network (Wake-on-LAN). The network card of a sleeping computer looks
//! for it; nobody answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use netdev::prelude::InterfaceType;
use nook_base::{MacAddress, WakeAddress};

/// Discard, which nothing listens at: a card looks at all packets, whatever their port.
const PORT: u16 = 9;

/// Bytes of a magic packet.
const PACKET_BYTES: usize = 102;

/// The network interfaces of this machine.
#[derive(Debug, Clone, Default)]
pub struct OwnInterfaces(Vec<OwnInterface>);

#[derive(Debug, Clone)]
struct OwnInterface {
    index: u32,
    kind: InterfaceKind,
    /// Absent where the system does not say it, as for a tunnel.
    mac: Option<MacAddress>,
    v4: Vec<(Ipv4Addr, u8)>,
    v6: Vec<(Ipv6Addr, u8)>,
}

/// What carries an interface, where the system says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A network cable.
    Cable,
    /// Wi-Fi.
    Wifi,
    /// Something else: a tunnel of a VPN, a modem, a bridge to virtual machines.
    Other,
    /// The system does not say.
    Unknown,
}

/// A computer was not called.
#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    /// This machine is in none of the networks in which it hears.
    #[error("this computer is not in the network of the other one")]
    OtherNetwork,
    /// The system sends no packet.
    #[error("no packet could be sent: {0}")]
    Refused(io::Error),
}

impl OwnInterfaces {
    /// Reads them. None where they cannot be read: nobody is then told how to wake this machine.
    #[must_use]
    pub fn read() -> Self {
        let shown = netdev::get_interfaces();
        Self(shown.into_iter().filter(|it| !it.is_loopback()).map(OwnInterface::from).collect())
    }

    /// What carries the interface with this address of this machine.
    #[must_use]
    pub fn kind_of(&self, local: IpAddr) -> InterfaceKind {
        let found = self.0.iter().find(|interface| interface.has(local.to_canonical()));
        found.map_or(InterfaceKind::Unknown, |interface| interface.kind)
    }

    /// Whether a cable of this machine leads into the network of `remote`.
    #[must_use]
    pub fn has_cable_to(&self, remote: SocketAddr) -> bool {
        let mut cables = self.0.iter().filter(|interface| interface.kind == InterfaceKind::Cable);
        cables.any(|interface| interface.reaches(remote))
    }

    /// How a device at `remote` wakes this machine: by the interfaces that are in one network with
    /// it. Beyond a router or in a tunnel there is none.
    #[must_use]
    pub fn towards(&self, remote: SocketAddr) -> Vec<WakeAddress> {
        let near = self.0.iter().filter(|interface| interface.reaches(remote));
        let mut found: Vec<_> = near.flat_map(OwnInterface::wake_addresses).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl OwnInterface {
    fn has(&self, local: IpAddr) -> bool {
        match local {
            IpAddr::V4(local) => self.v4.iter().any(|(own, _)| *own == local),
            IpAddr::V6(local) => self.v6.iter().any(|(own, _)| *own == local),
        }
    }

    fn reaches(&self, remote: SocketAddr) -> bool {
        match (remote, remote.ip().to_canonical()) {
            (SocketAddr::V6(remote), IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
                remote.scope_id() == self.index
            }
            (_, IpAddr::V4(ip)) => self.v4.iter().any(|(own, prefix)| {
                share(own.to_bits().into(), ip.to_bits().into(), 32_u8.saturating_sub(*prefix))
            }),
            (_, IpAddr::V6(ip)) => self.v6.iter().any(|(own, prefix)| {
                share(own.to_bits(), ip.to_bits(), 128_u8.saturating_sub(*prefix))
            }),
        }
    }

    fn wake_addresses(&self) -> impl Iterator<Item = WakeAddress> + '_ {
        let wake = |(ip, prefix): &(Ipv4Addr, u8)| WakeAddress::new(self.mac?, *ip, *prefix).ok();
        self.v4.iter().filter_map(wake)
    }
}

/// Whether two addresses are equal but for their last bits.
fn share(one: u128, other: u128, last_bits: u8) -> bool {
    (one ^ other).checked_shr(u32::from(last_bits)).unwrap_or(0) == 0
}

impl From<netdev::Interface> for OwnInterface {
    fn from(shown: netdev::Interface) -> Self {
        let mac = shown.mac_addr.map(|mac| mac.octets());
        Self {
            index: shown.index,
            kind: shown.if_type.into(),
            // A tunnel has none; some systems write zeros.
            mac: mac.filter(|mac| *mac != [0; 6]).map(MacAddress),
            v4: shown.ipv4.iter().map(|net| (net.addr(), net.prefix_len())).collect(),
            v6: shown.ipv6.iter().map(|net| (net.addr(), net.prefix_len())).collect(),
        }
    }
}

impl From<InterfaceType> for InterfaceKind {
    fn from(shown: InterfaceType) -> Self {
        match shown {
            InterfaceType::Ethernet
            | InterfaceType::Ethernet3Megabit
            | InterfaceType::FastEthernetT
            | InterfaceType::FastEthernetFx
            | InterfaceType::GigabitEthernet => Self::Cable,
            InterfaceType::Wireless80211 => Self::Wifi,
            InterfaceType::Unknown | InterfaceType::UnknownWithValue(_) => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// Calls a computer that sleeps, in each of its networks in which this machine is. Nobody knows
/// whether it has heard.
pub fn wake(addresses: &[WakeAddress]) -> Result<(), WakeError> {
    let own = OwnInterfaces::read();
    let own: Vec<_> = own.0.iter().flat_map(|interface| interface.v4.iter().copied()).collect();
    let mut result = Err(WakeError::OtherNetwork);
    for address in addresses {
        for (ip, prefix) in &own {
            if address.is_heard_from(*ip, *prefix) {
                let sent = send(*address, *ip).map_err(WakeError::Refused);
                // One that was sent is enough.
                result = if result.is_ok() { result } else { sent };
            }
        }
    }
    result
}

fn send(address: WakeAddress, from: Ipv4Addr) -> io::Result<()> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.set_broadcast(true)?;
    socket.send_to(&packet(address.mac()), (address.broadcast(), PORT))?;
    Ok(())
}

fn packet(MacAddress(mac): MacAddress) -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    for copy in packet.chunks_exact_mut(mac.len()).skip(1) {
        copy.copy_from_slice(&mac);
    }
    packet
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    const MAC: MacAddress = MacAddress([0x02, 0x42, 0xac, 0x11, 0x00, 0x02]);

    fn house() -> OwnInterfaces {
        let v4 = |second, prefix| (Ipv4Addr::new(10, second, 0, 5), prefix);
        let cable = OwnInterface {
            index: 2,
            kind: InterfaceKind::Cable,
            mac: Some(MAC),
            v4: vec![v4(77, 24)],
            v6: vec![("2001:db8:7::5".parse().unwrap(), 64)],
        };
        let tunnel = OwnInterface {
            index: 3,
            kind: InterfaceKind::Other,
            mac: None,
            v4: vec![v4(99, 24)],
            v6: Vec::new(),
        };
        OwnInterfaces(vec![cable, tunnel])
    }

    #[test]
    fn a_neighbour_is_told_the_interface_that_it_reaches_and_nobody_else_anything() {
        let wake = WakeAddress::new(MAC, Ipv4Addr::new(10, 77, 0, 0), 24).unwrap();
        let link_local = |scope| SocketAddrV6::new("fe80::1".parse().unwrap(), 4000, 0, scope);
        for near in [
            "10.77.0.9:4000".parse().unwrap(),
            "[::ffff:10.77.0.9]:4000".parse().unwrap(),
            "[2001:db8:7::9]:4000".parse().unwrap(),
            link_local(2).into(),
        ] {
            assert_eq!(house().towards(near), [wake], "{near}");
        }
        for far in [
            "10.78.0.9:4000".parse().unwrap(),
            // Through the tunnel.
            "10.99.0.9:4000".parse().unwrap(),
            "[2001:db8:8::9]:4000".parse().unwrap(),
            link_local(3).into(),
            "127.0.0.1:4000".parse().unwrap(),
        ] {
            assert_eq!(house().towards(far), [], "{far}");
        }
    }

    #[test]
    fn a_magic_packet_is_six_ones_and_sixteen_times_the_address() {
        let packet = packet(MAC);
        assert_eq!((packet.len(), &packet[..6]), (102, [0xff; 6].as_slice()));
        assert!(packet[6..].chunks(6).all(|copy| copy == MAC.0));
        assert_eq!(packet[6..].chunks(6).count(), 16);
    }

    #[test]
    fn an_interface_is_told_by_its_address_and_a_cable_by_where_it_leads() {
        let kind = |text: &str| house().kind_of(text.parse().unwrap());
        assert_eq!(kind("10.77.0.5"), InterfaceKind::Cable);
        assert_eq!(kind("::ffff:10.77.0.5"), InterfaceKind::Cable);
        assert_eq!(kind("2001:db8:7::5"), InterfaceKind::Cable);
        assert_eq!(kind("10.99.0.5"), InterfaceKind::Other);
        assert_eq!(kind("10.77.0.6"), InterfaceKind::Unknown, "of another machine");
        assert!(house().has_cable_to("10.77.0.9:4000".parse().unwrap()));
        assert!(!house().has_cable_to("10.99.0.9:4000".parse().unwrap()));
    }

    #[test]
    fn what_is_neither_cable_nor_wifi_is_not_called_either() {
        assert_eq!(InterfaceKind::from(InterfaceType::Wireless80211), InterfaceKind::Wifi);
        assert_eq!(InterfaceKind::from(InterfaceType::GigabitEthernet), InterfaceKind::Cable);
        assert_eq!(InterfaceKind::from(InterfaceType::Tunnel), InterfaceKind::Other);
        assert_eq!(InterfaceKind::from(InterfaceType::Unknown), InterfaceKind::Unknown);
    }

    #[test]
    fn a_network_in_which_this_machine_is_not_is_not_called() {
        // 240.0.0.0/4 is nobody's.
        let elsewhere = WakeAddress::new(MAC, Ipv4Addr::new(250, 1, 2, 3), 24).unwrap();
        assert!(matches!(wake(&[elsewhere]), Err(WakeError::OtherNetwork)));
        assert!(matches!(wake(&[]), Err(WakeError::OtherNetwork)));
    }
}
