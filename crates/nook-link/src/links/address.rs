//! Where a device may be: which addresses are worth dialling, and in which order.
//!
//! Typed and remembered addresses are always dialled. What discovery says is a hint by anybody on
//! the network: only addresses that a household uses pass, so that nobody makes this device knock
//! at arbitrary doors. An address at which somebody else answers is left out for a while.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::LoopbackPolicy;

/// Addresses from discovery, per device; the rest is left out.
const SIGHTED_MAX: usize = 8;

/// Typed and remembered addresses, per device; the rest is left out.
const TYPED_MAX: usize = 16;

/// Addresses that links themselves have shown, per device; the oldest falls out.
const LEARNED_MAX: usize = 4;

/// Addresses tried in one attempt; later ones wait for the next.
pub(super) const CANDIDATES_MAX: usize = 8;

/// How long an address is left out after somebody else answered there.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(60);

/// The addresses of one device.
#[derive(Debug, Default)]
pub(super) struct AddressBook {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    address: SocketAddr,
    source: Source,
    last_success: Option<Instant>,
    refused_at: Option<Instant>,
    failures: u32,
}

/// Who says so, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The user, or the memory of earlier links.
    Typed,
    /// The device itself, over a link.
    Learned,
    /// Discovery.
    Sighted,
}

impl AddressBook {
    /// Replaces the typed addresses; returns whether there is one that was not known.
    pub(super) fn set_typed(&mut self, addresses: &[SocketAddr]) -> bool {
        let news = addresses.iter().any(|address| !self.knows(*address));
        self.replace(Source::Typed, addresses, TYPED_MAX);
        news
    }

    /// Replaces what discovery said; returns whether there is an address that was not known.
    pub(super) fn set_sighted(
        &mut self,
        addresses: &[SocketAddr],
        loopback: LoopbackPolicy,
    ) -> bool {
        let usable: Vec<SocketAddr> = addresses
            .iter()
            .copied()
            .filter(|address| is_household_address(*address, loopback))
            .collect();
        let news = usable.iter().any(|address| !self.knows(*address));
        self.replace(Source::Sighted, &usable, SIGHTED_MAX);
        news
    }

    /// A link stands to `address`, or came from there with that listening port.
    pub(super) fn succeeded(&mut self, address: SocketAddr, now: Instant) {
        // One that was only sighted has been proven now, whatever discovery says later.
        self.entries.retain(|it| it.address != address || it.source != Source::Sighted);
        match self.find(address) {
            Some(entry) => {
                entry.last_success = Some(now);
                entry.refused_at = None;
                entry.failures = 0;
            }
            None => self.learn(address, now),
        }
    }

    /// Nobody answered at `address`, or nothing that speaks the protocol.
    pub(super) fn failed(&mut self, address: SocketAddr) {
        if let Some(entry) = self.find(address) {
            entry.failures = entry.failures.saturating_add(1);
        }
    }

    /// Somebody else answered at `address`.
    pub(super) fn refused(&mut self, address: SocketAddr, now: Instant) {
        if let Some(entry) = self.find(address) {
            entry.refused_at = Some(now);
            entry.last_success = None;
        }
    }

    /// What to dial, best first: where a link stood last, then what failed least, then by source.
    pub(super) fn candidates(&self, now: Instant) -> Vec<SocketAddr> {
        let mut usable: Vec<&Entry> =
            self.entries.iter().filter(|entry| !entry.is_refused(now)).collect();
        usable.sort_by_key(|entry| {
            (
                entry.failures.min(1),
                std::cmp::Reverse(entry.last_success),
                entry.failures,
                entry.source,
            )
        });
        let best = usable.into_iter().take(CANDIDATES_MAX);
        best.map(|entry| entry.address).collect()
    }

    /// When an address that is left out now comes back, if none is left to dial.
    pub(super) fn next_return(&self) -> Option<Instant> {
        let returns = self.entries.iter().filter_map(|entry| entry.refused_at);
        returns.min().map(|refused| refused + REFUSED_FOR)
    }

    /// The hosts of the addresses that the device itself has shown, or the user. What discovery
    /// says may come from anybody, so it counts only behind a handshake.
    pub(super) fn hosts(&self, now: Instant) -> impl Iterator<Item = IpAddr> {
        let is_shown =
            move |entry: &&Entry| entry.source != Source::Sighted && !entry.is_refused(now);
        self.entries.iter().filter(is_shown).map(|entry| entry.address.ip())
    }

    fn replace(&mut self, source: Source, addresses: &[SocketAddr], max: usize) {
        self.entries.retain(|entry| entry.source != source || addresses.contains(&entry.address));
        for address in addresses {
            let held = self.entries.iter().filter(|entry| entry.source == source).count();
            if held >= max {
                continue;
            }
            match self.find(*address) {
                // Known from several: it stays as long as the best of them says so.
                Some(entry) => entry.source = entry.source.min(source),
                None => self.entries.push(Entry::new(*address, source)),
            }
        }
    }

    fn learn(&mut self, address: SocketAddr, now: Instant) {
        let learned = |entry: &Entry| entry.source == Source::Learned;
        let held = self.entries.iter().filter(|entry| learned(entry)).count();
        if held >= LEARNED_MAX
            && let Some(oldest) = self.entries.iter().position(learned)
        {
            self.entries.remove(oldest);
        }
        let mut entry = Entry::new(address, Source::Learned);
        entry.last_success = Some(now);
        self.entries.push(entry);
    }

    fn knows(&self, address: SocketAddr) -> bool {
        self.entries.iter().any(|entry| entry.address == address)
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.address == address)
    }
}

impl Entry {
    fn new(address: SocketAddr, source: Source) -> Self {
        Self { address, source, last_success: None, refused_at: None, failures: 0 }
    }

    fn is_refused(&self, now: Instant) -> bool {
        self.refused_at.is_some_and(|at| now.saturating_duration_since(at) < REFUSED_FOR)
    }
}

/// Whether an address that another machine advertises is one that a household uses: private or
/// link-local, no container or virtual machine bridge, an unprivileged port.
fn is_household_address(address: SocketAddr, loopback: LoopbackPolicy) -> bool {
    if address.port() < 1024 {
        return false;
    }
    match address.ip().to_canonical() {
        ip if ip.is_loopback() => loopback == LoopbackPolicy::Allow,
        IpAddr::V4(ip) => match ip.octets() {
            // The default networks of Docker, libvirt, VirtualBox and Docker Desktop: every machine
            // that has them has the same addresses there, so they lead back to the dialler.
            [172, 17, ..] | [192, 168, 122, _] | [10, 0, 2, _] | [192, 168, 65, _] => false,
            [_, _, _, 0 | 255] => false,
            _ => ip.is_private() || ip.is_link_local(),
        },
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            // Without a scope nobody knows which cable is meant.
            matches!(address, SocketAddr::V6(scoped) if scoped.scope_id() != 0)
        }
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn d3_only_household_addresses_of_a_hint_are_dialled() {
        let check = |text: &str, expected: bool| {
            let usable = is_household_address(at(text), LoopbackPolicy::Refuse);
            assert_eq!(usable, expected, "{text}");
        };
        for fine in [
            "192.168.1.20:4588",
            "10.3.4.5:4588",
            "172.20.1.9:4588",
            "169.254.7.7:4588",
            "[fd12::7]:4588",
            "[fe80::1%3]:4588",
            "[::ffff:192.168.1.20]:4588",
        ] {
            check(fine, true);
        }
        for odd in [
            "127.0.0.1:4588",
            "[::1]:4588",
            "0.0.0.0:4588",
            "[::]:4588",
            "8.8.8.8:4588",
            "[2001:db8::1]:4588",
            "224.0.0.251:4588",
            "255.255.255.255:4588",
            "192.168.1.255:4588",
            "172.17.0.1:4588",
            "192.168.122.1:4588",
            "192.168.1.20:22",
            "[fe80::1]:4588",
            "[::ffff:127.0.0.1]:4588",
        ] {
            check(odd, false);
        }
    }

    #[test]
    fn d3_a_household_on_one_machine_says_so() {
        let now = nook_base::clock::now();
        let here = at("127.0.0.1:4588");
        let mut book = AddressBook::default();
        book.set_sighted(&[here], LoopbackPolicy::Refuse);
        assert!(book.candidates(now).is_empty());
        book.set_sighted(&[here], LoopbackPolicy::Allow);
        assert_eq!(book.candidates(now), [here]);
    }

    #[test]
    fn the_last_success_comes_first_and_failures_come_last() {
        let now = nook_base::clock::now();
        let [a, b, c] = [1, 2, 3].map(|n| SocketAddr::from(([192, 168, 1, n], 4588)));
        let mut book = AddressBook::default();
        book.set_typed(&[a]);
        book.set_sighted(&[b, c], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [a, b, c]);
        book.succeeded(c, now);
        book.failed(a);
        assert_eq!(book.candidates(now), [c, b, a]);
        book.failed(c);
        assert_eq!(book.candidates(now), [b, c, a]);
    }

    #[test]
    fn a_fresh_sighting_replaces_the_old_one_and_typed_addresses_stay() {
        let now = nook_base::clock::now();
        let [a, b, c] = [1, 2, 3].map(|n| SocketAddr::from(([192, 168, 1, n], 4588)));
        let mut book = AddressBook::default();
        book.set_typed(&[a]);
        book.set_sighted(&[b], LoopbackPolicy::Refuse);
        book.set_sighted(&[c], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [a, c]);
        book.set_sighted(&[], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [a]);
    }

    #[test]
    fn an_address_that_was_sighted_before_it_was_typed_outlives_the_goodbye() {
        let now = nook_base::clock::now();
        let [a, b] = [1, 2].map(|n| SocketAddr::from(([192, 168, 1, n], 4588)));
        let mut book = AddressBook::default();
        book.set_sighted(&[a, b], LoopbackPolicy::Refuse);
        book.set_typed(&[a]);
        book.set_sighted(&[], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [a]);
        // A sighting does not take it back either.
        book.set_sighted(&[a], LoopbackPolicy::Refuse);
        book.set_sighted(&[], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [a]);
    }

    #[test]
    fn d2_an_address_with_the_wrong_key_is_left_out_for_a_while() {
        let now = nook_base::clock::now();
        let [a, b] = [1, 2].map(|n| SocketAddr::from(([192, 168, 1, n], 4588)));
        let mut book = AddressBook::default();
        book.set_sighted(&[a, b], LoopbackPolicy::Refuse);
        book.refused(a, now);
        book.set_sighted(&[a, b], LoopbackPolicy::Refuse);
        assert_eq!(book.candidates(now), [b]);
        assert_eq!(book.candidates(now + REFUSED_FOR), [a, b]);
    }

    #[test]
    fn d7_only_what_a_handshake_has_proven_counts_as_known() {
        let now = nook_base::clock::now();
        let [typed, real, forged] = [1, 2, 3].map(|n| SocketAddr::from(([192, 168, 1, n], 4588)));
        let mut book = AddressBook::default();
        book.set_typed(&[typed]);
        book.set_sighted(&[real, forged], LoopbackPolicy::Refuse);
        let hosts = |book: &AddressBook| book.hosts(now).collect::<Vec<_>>();
        assert_eq!(hosts(&book), [typed.ip()]);
        book.succeeded(real, now);
        assert_eq!(hosts(&book), [typed.ip(), real.ip()]);
        // Whoever forges the tag does not make it forgotten.
        book.set_sighted(&[forged], LoopbackPolicy::Refuse);
        assert_eq!(hosts(&book), [typed.ip(), real.ip()]);
        // Where somebody else answers, it is not.
        book.refused(typed, now);
        assert_eq!(hosts(&book), [real.ip()]);
    }

    #[test]
    fn books_stay_small() {
        let now = nook_base::clock::now();
        let many: Vec<SocketAddr> =
            (1..200).map(|n| SocketAddr::from(([192, 168, 1, n], 4588))).collect();
        let mut book = AddressBook::default();
        book.set_sighted(&many, LoopbackPolicy::Refuse);
        book.set_typed(&many);
        for n in 1..200 {
            book.succeeded(SocketAddr::from(([192, 168, 2, n], 4588)), now);
        }
        assert!(book.entries.len() <= SIGHTED_MAX + TYPED_MAX + LEARNED_MAX);
        assert_eq!(book.candidates(now).len(), CANDIDATES_MAX);
    }
}
