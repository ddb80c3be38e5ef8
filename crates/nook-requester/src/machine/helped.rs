//! How much each device computed for this one, day by day, for the owner to see. Counted by what was
//! answered: it is this device's own count, and nobody is told.

use std::collections::BTreeMap;

use nook_api::views::LentDayView;
use nook_base::PeerId;
use nook_store::{LentDay, LentDays, MeasuredHelp};

/// The last days of each device; no more devices than are paired.
#[derive(Debug, Default)]
pub(crate) struct Helped {
    days: BTreeMap<PeerId, LentDays>,
}

impl Helped {
    /// A device answered steps of so many positions.
    pub(crate) fn add(&mut self, peer: PeerId, today: u32, positions: u64) {
        if positions > 0 {
            self.days.entry(peer).or_default().add(today, positions);
        }
    }

    /// Drops what is no longer of the last days.
    pub(crate) fn forget_old(&mut self, today: u32) {
        self.days.values_mut().for_each(|days| _ = days.forget_old(today));
        self.days.retain(|_, days| !days.days().is_empty());
    }

    /// A device is not paired any more.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.days.remove(&peer);
    }

    /// The days on which a device helped, oldest first.
    pub(crate) fn view(&self, peer: PeerId) -> Vec<LentDayView> {
        let days = self.days.get(&peer).into_iter().flat_map(LentDays::days);
        days.map(|&LentDay { day, positions }| LentDayView { day, tokens: positions }).collect()
    }

    /// All of it, to be kept.
    pub(crate) fn to_keep(&self) -> Vec<MeasuredHelp> {
        let of = |(peer, days): (&PeerId, &LentDays)| {
            let peer = *peer;
            let entry = move |it: &LentDay| MeasuredHelp {
                device: Some(peer),
                day: it.day,
                positions: it.positions,
            };
            days.days().iter().map(entry).collect::<Vec<_>>()
        };
        self.days.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTIC: PeerId = PeerId([1; 32]);
    const CELLAR: PeerId = PeerId([2; 32]);

    fn shown(helped: &Helped, peer: PeerId) -> Vec<(u32, u64)> {
        helped.view(peer).iter().map(|it| (it.day, it.tokens)).collect()
    }

    #[test]
    fn each_device_has_its_own_days_and_a_week_later_they_are_gone() {
        let mut helped = Helped::default();
        helped.add(ATTIC, 100, 40);
        helped.add(ATTIC, 100, 2);
        helped.add(ATTIC, 103, 5);
        helped.add(CELLAR, 103, 0);
        assert_eq!(shown(&helped, ATTIC), [(100, 42), (103, 5)]);
        assert_eq!(shown(&helped, CELLAR), []);
        let kept: Vec<_> = helped.to_keep().iter().map(|it| (it.day, it.positions)).collect();
        assert_eq!(kept, [(100, 42), (103, 5)]);
        helped.forget_old(107);
        assert_eq!(shown(&helped, ATTIC), [(103, 5)]);
        helped.forget_old(110);
        assert!(helped.days.is_empty());
    }

    #[test]
    fn nothing_is_kept_of_a_device_that_is_unpaired() {
        let mut helped = Helped::default();
        helped.add(ATTIC, 100, 1);
        helped.add(CELLAR, 100, 2);
        helped.forget(ATTIC);
        assert_eq!(helped.to_keep().len(), 1);
    }
}
