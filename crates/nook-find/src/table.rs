//! Who was seen, bounded in every direction.
//!
//! Pure: the finder's loop feeds it what was heard and the time, and takes changes out one by one.
//! A change is kept per device, not per message, so that a slow reader gets the newest state of
//! each device instead of a queue that grows; goodbyes go out first, which bounds what a reader can
//! believe to be present to [`SIGHTINGS_MAX`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::tag::Tag;
use crate::txt::Hint;

/// Most devices remembered. Beyond it the unpaired one that was heard longest ago makes room; a
/// newcomer that is not paired finds none where all the others are.
pub const SIGHTINGS_MAX: usize = 256;

/// Most addresses kept for one device: those heard last.
pub const ADDRESSES_MAX: usize = 8;

/// How long a device counts as seen after it was last heard or reached.
pub const SIGHTING_LIFE: Duration = Duration::from_secs(120);

/// How long an address outlives an announcement that does not name it. Announcements come in
/// pieces, one interface after another, so the newest alone is not the whole; but after a network
/// change the old addresses must go.
const MERGE_WINDOW: Duration = Duration::from_secs(10);

/// A change in who is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// A device appeared, or what it says changed.
    Seen {
        /// Under which tag; dial only paired devices, and check the whole id then.
        tag: Tag,
        /// Its name, sanitised; text from the network, never markup.
        name: Option<String>,
        /// Protocol version it speaks.
        protocol: u16,
        /// Where to dial, IPv4 first; never empty.
        addresses: Vec<SocketAddr>,
        /// Port of its pairing window, while one is open.
        pairing_port: Option<u16>,
    },
    /// A device said goodbye or was not heard for [`SIGHTING_LIFE`].
    Gone {
        /// Under which tag it was seen.
        tag: Tag,
    },
}

#[derive(Debug)]
struct Entry {
    hint: Hint,
    addresses: Vec<(SocketAddr, Instant)>,
    heard: Instant,
}

/// The devices seen, and what the reader has not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<Tag, Entry>,
    paired: HashSet<Tag>,
    /// Tags that the reader believes present.
    told: BTreeSet<Tag>,
    /// Tags whose state differs from what the reader knows.
    changed: BTreeSet<Tag>,
}

impl Table {
    /// Takes in an announcement whose addresses passed the policy.
    pub(crate) fn hear(&mut self, now: Instant, hint: Hint, addresses: &[SocketAddr]) {
        let tag = hint.tag;
        if addresses.is_empty() {
            // Not yet dialable; a later announcement will have more. What is known stays.
            return;
        }
        if !self.entries.contains_key(&tag) && !self.make_room(tag) {
            return;
        }
        let entry = self.entries.entry(tag).or_insert_with(|| Entry {
            hint: hint.clone(),
            addresses: Vec::new(),
            heard: now,
        });
        let before = (entry.hint.clone(), entry.sorted_addresses());
        entry.hint = hint;
        entry.heard = now;
        entry.merge(now, addresses);
        if before != (entry.hint.clone(), entry.sorted_addresses()) {
            self.changed.insert(tag);
        }
    }

    /// The device was reached by other means (a link to it stands): it stays.
    pub(crate) fn reached(&mut self, now: Instant, tag: Tag) {
        if let Some(entry) = self.entries.get_mut(&tag) {
            entry.heard = now;
        }
    }

    /// The device said goodbye.
    pub(crate) fn remove(&mut self, tag: Tag) {
        self.entries.remove(&tag);
        if self.told.contains(&tag) {
            self.changed.insert(tag);
        } else {
            self.changed.remove(&tag);
        }
    }

    /// Drops who was not heard for [`SIGHTING_LIFE`].
    pub(crate) fn expire(&mut self, now: Instant) {
        let old: Vec<Tag> = self
            .entries
            .iter()
            .filter(|(_, entry)| now.saturating_duration_since(entry.heard) >= SIGHTING_LIFE)
            .map(|(tag, _)| *tag)
            .collect();
        old.into_iter().for_each(|tag| self.remove(tag));
    }

    /// Says which devices are paired: they never make room for others.
    pub(crate) fn set_paired(&mut self, paired: HashSet<Tag>) {
        self.paired = paired;
    }

    /// Whether the reader has something to be told.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The next thing to tell the reader, goodbyes first.
    pub(crate) fn next_change(&mut self) -> Option<Sighting> {
        let gone = |tag: &&Tag| !self.entries.contains_key(*tag);
        let tag = *self.changed.iter().find(gone).or_else(|| self.changed.first())?;
        self.changed.remove(&tag);
        Some(match self.entries.get(&tag) {
            Some(entry) => {
                self.told.insert(tag);
                entry.sighting()
            }
            None => {
                self.told.remove(&tag);
                Sighting::Gone { tag }
            }
        })
    }

    /// Whether `newcomer` may come in; the oldest unpaired device is dropped for it if need be.
    fn make_room(&mut self, newcomer: Tag) -> bool {
        if self.entries.len() < SIGHTINGS_MAX {
            return true;
        }
        let oldest = self
            .entries
            .iter()
            .filter(|(tag, _)| !self.paired.contains(*tag))
            .min_by_key(|(_, entry)| entry.heard)
            .map(|(tag, _)| *tag);
        match oldest {
            Some(tag) => {
                tracing::debug!(%tag, %newcomer, "the list of devices is full, the oldest unpaired one is dropped");
                self.remove(tag);
                true
            }
            None => false,
        }
    }
}

impl Entry {
    fn merge(&mut self, now: Instant, addresses: &[SocketAddr]) {
        let port = addresses.first().map(SocketAddr::port);
        // Another port is another life of that device: its old addresses are dead.
        self.addresses.retain(|(address, heard)| {
            Some(address.port()) == port && now.saturating_duration_since(*heard) <= MERGE_WINDOW
        });
        for address in addresses {
            match self.addresses.iter_mut().find(|(known, _)| known == address) {
                Some((_, heard)) => *heard = now,
                None => self.addresses.push((*address, now)),
            }
        }
        // Newest first; equally new ones in the order in which they are tried.
        self.addresses
            .sort_by_key(|(address, heard)| (std::cmp::Reverse(*heard), dial_order(address)));
        self.addresses.truncate(ADDRESSES_MAX);
    }

    fn sorted_addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = self.addresses.iter().map(|(a, _)| *a).collect();
        addresses.sort_by_key(dial_order);
        addresses
    }

    fn sighting(&self) -> Sighting {
        Sighting::Seen {
            tag: self.hint.tag,
            name: self.hint.name.clone(),
            protocol: self.hint.protocol,
            addresses: self.sorted_addresses(),
            pairing_port: self.hint.pairing_port,
        }
    }
}

/// LAN addresses before this machine's own, IPv4 before IPv6, link-local last.
fn dial_order(address: &SocketAddr) -> (bool, bool, bool, SocketAddr) {
    let link_local = match address {
        SocketAddr::V4(v4) => v4.ip().is_link_local(),
        SocketAddr::V6(v6) => v6.ip().is_unicast_link_local(),
    };
    (link_local, address.ip().is_loopback(), address.is_ipv6(), *address)
}

#[cfg(test)]
mod tests {
    use nook_base::{PeerId, clock};

    use super::*;

    fn tag(number: u32) -> Tag {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&number.to_be_bytes());
        Tag::of(&PeerId(id))
    }

    fn hint(number: u32) -> Hint {
        Hint { tag: tag(number), protocol: 1, pairing_port: None, name: None }
    }

    fn drain(table: &mut Table) -> Vec<Sighting> {
        std::iter::from_fn(|| table.next_change()).collect()
    }

    fn addresses(sighting: &Sighting) -> Vec<String> {
        match sighting {
            Sighting::Seen { addresses, .. } => addresses.iter().map(ToString::to_string).collect(),
            Sighting::Gone { .. } => Vec::new(),
        }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_flood_of_strangers_keeps_the_cap_and_the_paired_devices() {
        let (mut table, start) = (Table::default(), clock::now());
        table.set_paired([tag(1), tag(2)].into());
        for number in 0..10_000_u32 {
            let now = start + Duration::from_millis(u64::from(number));
            table.hear(now, hint(number), &[at("192.168.1.9:4000")]);
            assert!(table.entries.len() <= SIGHTINGS_MAX);
            if number % 100 == 0 {
                table.next_change();
            }
            assert!(table.changed.len() <= 2 * SIGHTINGS_MAX && table.told.len() <= SIGHTINGS_MAX);
        }
        drain(&mut table);
        assert_eq!(table.told.len(), SIGHTINGS_MAX);
        assert!(table.told.contains(&tag(1)) && table.told.contains(&tag(2)));
        assert!(table.told.contains(&tag(9_999)) && !table.told.contains(&tag(3)));
    }

    #[test]
    fn a_table_full_of_paired_devices_takes_no_stranger() {
        let (mut table, now) = (Table::default(), clock::now());
        let full = u32::try_from(SIGHTINGS_MAX).unwrap();
        table.set_paired((0..full).map(tag).collect());
        for number in 0..=full {
            table.hear(now, hint(number), &[at("192.168.1.9:4000")]);
        }
        assert_eq!(table.entries.len(), SIGHTINGS_MAX);
        assert!(!table.entries.contains_key(&tag(full)));
    }

    #[test]
    fn addresses_grow_by_merging_and_shrink_after_a_network_change() {
        let (mut table, now) = (Table::default(), clock::now());
        table.hear(now, hint(1), &[at("127.0.0.1:4000")]);
        assert_eq!(addresses(&drain(&mut table)[0]), ["127.0.0.1:4000"]);
        table.hear(now + Duration::from_secs(1), hint(1), &[at("192.168.1.9:4000")]);
        assert_eq!(addresses(&drain(&mut table)[0]), ["192.168.1.9:4000", "127.0.0.1:4000"]);
        table.hear(now + Duration::from_secs(1), hint(1), &[at("192.168.1.9:4000")]);
        assert_eq!(drain(&mut table), [], "nothing changed, nothing is told");

        let moved = now + Duration::from_secs(30);
        table.hear(moved, hint(1), &[at("10.0.0.4:4000")]);
        assert_eq!(addresses(&drain(&mut table)[0]), ["10.0.0.4:4000"]);
        table.hear(moved, hint(1), &[at("10.0.0.4:4100")]);
        assert_eq!(
            addresses(&drain(&mut table)[0]),
            ["10.0.0.4:4100"],
            "a new port replaces the old at once"
        );
    }

    #[test]
    fn one_device_has_at_most_eight_addresses() {
        let (mut table, now) = (Table::default(), clock::now());
        let many: Vec<_> = (1..=100).map(|n| at(&format!("10.0.0.{n}:4000"))).collect();
        table.hear(now, hint(1), &many);
        assert_eq!(addresses(&drain(&mut table)[0]).len(), ADDRESSES_MAX);
    }

    #[test]
    fn silence_and_goodbye_end_a_sighting_and_a_link_keeps_it() {
        let (mut table, now) = (Table::default(), clock::now());
        for number in 1..=3 {
            table.hear(now, hint(number), &[at("10.0.0.4:4000")]);
        }
        drain(&mut table);
        table.remove(tag(1));
        assert_eq!(drain(&mut table), [Sighting::Gone { tag: tag(1) }]);
        let later = now + SIGHTING_LIFE;
        table.reached(later, tag(2));
        table.expire(later);
        assert_eq!(drain(&mut table), [Sighting::Gone { tag: tag(3) }]);
    }

    #[test]
    fn a_device_that_came_and_went_unread_is_never_mentioned() {
        let (mut table, now) = (Table::default(), clock::now());
        table.hear(now, hint(1), &[at("10.0.0.4:4000")]);
        table.remove(tag(1));
        assert_eq!(drain(&mut table), []);
        table.hear(now, hint(2), &[]);
        assert_eq!(drain(&mut table), [], "nowhere to dial, nothing to tell");
    }
}
