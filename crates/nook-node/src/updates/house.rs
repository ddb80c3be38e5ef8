//! Which devices of the house have something of a release, and which of them is asked. Knows links
//! and trust only by what it is told.

use std::collections::{BTreeMap, BTreeSet};

use nook_base::PeerId;
use nook_update::{MANIFEST_BYTES_MAX, SIGNATURE_BYTES_MAX};
use nook_wire::Releases;

/// Lists of one device that were not believed, after which it is asked for no other while it is
/// linked.
const REFUSED_MAX: usize = 8;

/// What linked devices have said of releases.
#[derive(Debug, Default)]
pub(super) struct House {
    heard: BTreeMap<PeerId, Releases>,
    /// Lists that a device had and that were not believed: not asked for again.
    refused: BTreeSet<(PeerId, u64)>,
    /// Whom a list is being taken from.
    taking: Option<PeerId>,
}

impl House {
    /// A device says what it has.
    pub(super) fn heard(&mut self, peer: PeerId, releases: Releases) {
        let can_be = |bytes: u32, most: usize| (1..=most).contains(&(bytes as usize));
        let Releases { serial, list_bytes, signature_bytes, .. } = releases;
        let is_list = serial > 0
            && can_be(list_bytes, MANIFEST_BYTES_MAX)
            && can_be(signature_bytes, SIGNATURE_BYTES_MAX);
        match is_list {
            true => drop(self.heard.insert(peer, releases)),
            false => drop(self.heard.remove(&peer)),
        }
    }

    /// A device is linked no more.
    pub(super) fn gone(&mut self, peer: PeerId) {
        self.heard.remove(&peer);
        self.refused.retain(|(refused, _)| *refused != peer);
    }

    /// The device that has the newest list, where that is newer than the one with the number
    /// `known`; it is being asked from now on, and nobody else until [`House::taken`].
    pub(super) fn ask(
        &mut self,
        known: u64,
        gives: impl Fn(PeerId) -> bool,
    ) -> Option<(PeerId, Releases)> {
        if self.taking.is_some() {
            return None;
        }
        let is_tiring =
            |peer: PeerId| self.refused.range((peer, 0)..=(peer, u64::MAX)).count() >= REFUSED_MAX;
        let can_be = |(peer, it): &(&PeerId, &Releases)| {
            let is_refused = self.refused.contains(&(**peer, it.serial)) || is_tiring(**peer);
            it.serial > known && !is_refused && gives(**peer)
        };
        let newest = self.heard.iter().filter(can_be).max_by_key(|(_, it)| it.serial);
        let (peer, releases) = newest.map(|(peer, it)| (*peer, it.clone()))?;
        self.taking = Some(peer);
        Some((peer, releases))
    }

    /// What was asked for has come, or will not. `refused`: the number of a list that is not
    /// believed.
    pub(super) fn taken(&mut self, refused: Option<u64>) {
        let Some(peer) = self.taking.take() else { return };
        if let Some(serial) = refused.filter(|_| self.heard.contains_key(&peer)) {
            self.refused.insert((peer, serial));
        }
    }

    /// Devices that have the package with this digest.
    pub(super) fn with_package(&self, sha256: [u8; 32]) -> Vec<PeerId> {
        let has = |(_, it): &(&PeerId, &Releases)| it.packages.contains(&sha256);
        self.heard.iter().filter(has).map(|(peer, _)| *peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId([1; 32]);
    const B: PeerId = PeerId([2; 32]);

    fn said(serial: u64) -> Releases {
        Releases { serial, list_bytes: 700, signature_bytes: 300, packages: vec![[7; 32]] }
    }

    #[test]
    fn the_newest_list_is_asked_for_once_and_one_that_is_not_believed_never_again() {
        let mut house = House::default();
        house.heard(A, said(5));
        house.heard(B, said(7));
        let trusted = |_| true;
        assert_eq!(house.ask(7, trusted), None, "it is known");
        assert_eq!(house.ask(4, |peer| peer == A).unwrap().0, A, "the other one is not trusted");
        assert_eq!(house.ask(4, trusted), None, "one at a time");
        house.taken(None);
        assert_eq!(house.ask(4, trusted).unwrap(), (B, said(7)));
        house.taken(Some(7));
        assert_eq!(house.ask(4, trusted).unwrap().0, A);
        house.taken(Some(5));
        assert_eq!(house.ask(4, trusted), None);
        house.heard(B, said(8));
        assert_eq!(house.ask(4, trusted).unwrap(), (B, said(8)), "it has another one");
    }

    #[test]
    fn a_device_that_has_one_wrong_list_after_the_other_is_not_asked_for_ever() {
        let mut house = House::default();
        let mut asked = 0;
        for serial in 1..1000 {
            house.heard(A, said(serial));
            if house.ask(0, |_| true).is_some() {
                house.taken(Some(serial));
                asked += 1;
            }
        }
        assert_eq!(asked, REFUSED_MAX);
        house.heard(B, said(1));
        assert_eq!(house.ask(0, |_| true).unwrap().0, B);
        house.taken(None);
        // Linked anew, as after it was mended.
        house.gone(A);
        house.heard(A, said(2000));
        assert_eq!(house.ask(0, |_| true).unwrap().0, A);
    }

    #[test]
    fn a_device_without_a_list_has_none_and_one_that_left_has_nothing() {
        let mut house = House::default();
        house.heard(A, said(5));
        assert_eq!(house.with_package([7; 32]), [A]);
        assert!(house.with_package([8; 32]).is_empty());
        house.heard(A, Releases::default());
        assert!(house.with_package([7; 32]).is_empty());
        for odd in [
            Releases { list_bytes: 0, ..said(5) },
            Releases { list_bytes: u32::MAX, ..said(5) },
            Releases { signature_bytes: 1 << 20, ..said(5) },
            Releases { serial: 0, ..said(5) },
        ] {
            house.heard(A, odd.clone());
            assert_eq!(house.ask(0, |_| true), None, "{odd:?}");
        }
        house.heard(A, said(5));
        house.gone(A);
        assert_eq!(house.ask(0, |_| true), None);
        // It left while it was asked: what it had counts no more, and others are asked.
        house.heard(A, said(5));
        assert!(house.ask(0, |_| true).is_some());
        house.gone(A);
        house.taken(Some(5));
        house.heard(A, said(5));
        assert!(house.ask(0, |_| true).is_some());
    }
}
