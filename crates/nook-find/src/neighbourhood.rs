//! Which advertised addresses are worth dialling.
//!
//! Pure but for [`Neighbourhood::of_this_machine`], which reads the interfaces. An advert can name
//! any address in the world; dialling it would make this machine a port scanner for whoever wrote
//! the advert. So only addresses inside the subnets of this machine's own interfaces pass. Other
//! addresses (a VPN, another subnet) can be typed by the user, which is not this crate's business.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::txt::PORT_MIN;

/// Whether the household's nodes live on machines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Household {
    /// One node per machine: this machine's own addresses are somebody's mistake (a container
    /// bridge that every machine has), and are ignored.
    ManyMachines,
    /// Several nodes on this machine, as `nook house` and tests start them: its own addresses,
    /// loopback too, are where the others are.
    OneMachine,
}

/// The subnets this machine is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbourhood {
    household: Household,
    own: Vec<OwnAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnAddress {
    ip: IpAddr,
    prefix_bits: u8,
}

impl Neighbourhood {
    /// Reads the interfaces of this machine. When they cannot be read, every private address counts
    /// as near: empty means unknown, not alone.
    #[must_use]
    pub fn of_this_machine(household: Household) -> Self {
        let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
            tracing::debug!(%error, "the network interfaces cannot be read");
            Vec::new()
        });
        Self::with(
            household,
            interfaces.into_iter().map(|interface| {
                let prefix_bits = match &interface.addr {
                    if_addrs::IfAddr::V4(v4) => v4.prefixlen,
                    if_addrs::IfAddr::V6(v6) => v6.prefixlen,
                };
                (interface.ip(), prefix_bits)
            }),
        )
    }

    /// A machine with these addresses and prefix lengths.
    pub fn with(household: Household, own: impl IntoIterator<Item = (IpAddr, u8)>) -> Self {
        let own = own.into_iter().map(|(ip, prefix_bits)| OwnAddress { ip, prefix_bits }).collect();
        Self { household, own }
    }

    /// Whether an advertised `address` is worth dialling.
    #[must_use]
    pub fn admits(&self, address: &SocketAddr) -> bool {
        let ip = address.ip();
        if address.port() < PORT_MIN || ip.is_unspecified() || ip.is_multicast() {
            return false;
        }
        if self.owns(ip) {
            return self.household == Household::OneMachine;
        }
        match address {
            SocketAddr::V4(v4) => is_private_v4(*v4.ip()) && self.is_near(ip),
            // A link-local address means nothing without the interface it was heard on.
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id() != 0,
            SocketAddr::V6(v6) => v6.ip().is_unique_local() && self.is_near(ip),
        }
    }

    /// Whether `ip` is this machine: one of its addresses, or loopback.
    #[must_use]
    pub fn owns(&self, ip: IpAddr) -> bool {
        let ip = match ip {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
            IpAddr::V4(_) => ip,
        };
        ip.is_loopback() || self.own.iter().any(|own| own.ip == ip)
    }

    fn is_near(&self, ip: IpAddr) -> bool {
        let mut lan = self.own.iter().filter(|own| !own.ip.is_loopback()).peekable();
        lan.peek().is_none() || lan.any(|own| in_subnet(ip, own))
    }
}

/// The addresses of this machine that another one of the household could dial: no loopback, no
/// public and no link-local ones, IPv4 first. Empty when the interfaces cannot be read.
#[must_use]
pub fn own_addresses() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let mut addresses: Vec<IpAddr> = interfaces
        .into_iter()
        .map(|interface| interface.ip())
        .filter(|ip| match ip {
            IpAddr::V4(v4) => is_private_v4(*v4) && !v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unique_local(),
        })
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Private, link-local, or the shared range that carriers and VPNs use.
fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    ip.is_private() || ip.is_link_local() || (a == 100 && (64..128).contains(&b))
}

fn in_subnet(ip: IpAddr, own: &OwnAddress) -> bool {
    let (theirs, ours, width) = match (ip, own.ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (widened(a), widened(b), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (Ipv6Addr::to_bits(a), Ipv6Addr::to_bits(b), 128),
        _ => return false,
    };
    let host_bits = u32::from(u8::saturating_sub(width, own.prefix_bits));
    // A prefix of zero bits would make the whole world near.
    own.prefix_bits > 0 && (theirs ^ ours).checked_shr(host_bits).unwrap_or(0) == 0
}

fn widened(ip: Ipv4Addr) -> u128 {
    u128::from(ip.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(household: Household) -> Neighbourhood {
        let own = [
            ("127.0.0.1", 8),
            ("192.168.1.7", 24),
            ("172.17.0.1", 16),
            ("fd00:1::7", 64),
            ("fe80::7", 64),
        ];
        Neighbourhood::with(household, own.map(|(ip, bits)| (ip.parse().unwrap(), bits)))
    }

    #[test]
    fn only_near_private_addresses_are_dialled() {
        let admitted =
            ["192.168.1.9:4000", "[fe80::9%2]:4000", "[fd00:1::9]:4000", "172.17.0.5:4000"];
        let ignored = [
            "127.0.0.1:4000",
            "0.0.0.0:4000",
            "8.8.8.8:4000",
            "224.0.0.251:4000",
            "255.255.255.255:4000",
            "192.168.2.9:4000",
            "192.168.1.9:22",
            "192.168.1.7:4000",
            "172.17.0.1:4000",
            "[::]:4000",
            "[::1]:4000",
            "[ff02::fb]:4000",
            "[fe80::9]:4000",
            "[fd00:2::9]:4000",
            "[2001:db8::1]:4000",
            "[::ffff:8.8.8.8]:4000",
            "[::ffff:127.0.0.1]:4000",
        ];
        let home = home(Household::ManyMachines);
        for address in admitted {
            assert!(home.admits(&address.parse().unwrap()), "{address}");
        }
        for address in ignored {
            assert!(!home.admits(&address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn own_addresses_count_only_where_the_house_is_one_machine() {
        let house = home(Household::OneMachine);
        for address in ["127.0.0.1:4000", "[::1]:4000", "192.168.1.7:4000"] {
            assert!(house.admits(&address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8:4000", "0.0.0.0:4000", "127.0.0.1:80"] {
            assert!(!house.admits(&address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn unknown_interfaces_do_not_empty_the_house() {
        let unknown = Neighbourhood::with(Household::ManyMachines, []);
        assert!(unknown.admits(&"10.0.0.3:4000".parse().unwrap()));
        assert!(!unknown.admits(&"9.0.0.3:4000".parse().unwrap()));
    }

    #[test]
    fn a_prefix_of_no_bits_is_not_the_world() {
        let odd =
            Neighbourhood::with(Household::ManyMachines, [("192.168.1.7".parse().unwrap(), 0)]);
        assert!(!odd.admits(&"10.0.0.3:4000".parse().unwrap()));
    }
}
