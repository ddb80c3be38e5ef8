//! How many strangers may knock at once, and who gives way to whom.
//!
//! A connection counts from `accept` until it has proved who it is, or its deadline has closed it.
//! The caps are small because honest devices take milliseconds for that. When all slots are taken,
//! the oldest connection of the address that has most of them gives way: whoever says nothing keeps
//! nobody out, also where it comes again and again. Some slots are kept for addresses at which a
//! device has proved before that it is there.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::LoopbackPolicy;

/// Connections that have not proved who they are, from all addresses. For one more, another one is
/// closed.
pub(crate) const UNPROVEN_MAX: usize = 32;

/// The same, from one address (IPv6: one /64). One more is closed at once.
pub(crate) const UNPROVEN_PER_ADDRESS_MAX: usize = 4;

/// Slots of [`UNPROVEN_MAX`] that only known addresses may use.
pub(crate) const RESERVED_FOR_KNOWN: usize = 8;

/// How many there may be of what.
#[derive(Debug, Clone, Copy)]
struct Caps {
    all: usize,
    reserved_for_known: usize,
    per_address: usize,
    /// The cap per address does not count there.
    loopback: LoopbackPolicy,
}

/// Counts connections that have not proved who they are. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    caps: Caps,
    knocking: Arc<Mutex<Knocking>>,
}

/// A slot; freed on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    admission: Admission,
    number: u64,
    leave: CancellationToken,
}

/// Whether an address belongs to a device that this one knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Stranger,
    Known,
}

#[derive(Debug, Default)]
struct Knocking {
    /// Oldest first.
    all: Vec<Knock>,
    next: u64,
}

#[derive(Debug)]
struct Knock {
    number: u64,
    from: IpAddr,
    caller: Caller,
    /// It has proved who it is: it still counts, and gives way to nobody.
    is_proven: bool,
    leave: CancellationToken,
}

impl Admission {
    /// Nobody knocks yet. A household on one machine shares one address, so the cap per address
    /// does not count for loopback there.
    pub(crate) fn new(loopback: LoopbackPolicy) -> Self {
        Self::with(Caps {
            all: UNPROVEN_MAX,
            reserved_for_known: RESERVED_FOR_KNOWN,
            per_address: UNPROVEN_PER_ADDRESS_MAX,
            loopback,
        })
    }

    /// So many at once, whoever they are and wherever they come from.
    pub(crate) fn of_anybody(all: usize) -> Self {
        let loopback = LoopbackPolicy::Allow;
        Self::with(Caps { all, reserved_for_known: 0, per_address: usize::MAX, loopback })
    }

    fn with(caps: Caps) -> Self {
        Self { caps, knocking: Arc::default() }
    }

    /// A slot for a connection from `address`, if there is one or another one gives way.
    pub(crate) fn enter(&self, address: IpAddr, caller: Caller) -> Option<Slot> {
        let from = counted_as(address);
        let mut knocking = self.lock();
        if !self.caps.leave_room(&mut knocking, from, caller) {
            return None;
        }
        let number = knocking.next;
        knocking.next += 1;
        let leave = CancellationToken::new();
        let knock = Knock { number, from, caller, is_proven: false, leave: leave.clone() };
        knocking.all.push(knock);
        drop(knocking);
        Some(Slot { admission: self.clone(), number, leave })
    }

    fn lock(&self) -> MutexGuard<'_, Knocking> {
        self.knocking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caps {
    /// Whether one more may enter; another one was told to leave for it, where that was needed.
    fn leave_room(&self, knocking: &mut Knocking, from: IpAddr, caller: Caller) -> bool {
        let here = knocking.all.iter().filter(|knock| knock.from == from).count();
        let is_shared = from.is_loopback() && self.loopback == LoopbackPolicy::Allow;
        if here >= self.per_address && !is_shared {
            return false;
        }
        let cap = match caller {
            Caller::Stranger => self.all - self.reserved_for_known,
            Caller::Known => self.all,
        };
        knocking.all.len() < cap
            || knocking.dismiss(Caller::Stranger)
            || (caller == Caller::Known && knocking.dismiss(Caller::Known))
    }
}

impl Knocking {
    /// Tells the oldest of the address with the most to leave; whether there is one.
    fn dismiss(&mut self, caller: Caller) -> bool {
        let may_leave = |knock: &Knock| knock.caller == caller && !knock.is_proven;
        let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
        for knock in self.all.iter().filter(|knock| may_leave(knock)) {
            *crowds.entry(knock.from).or_default() += 1;
        }
        let Some(largest) = crowds.values().copied().max() else {
            return false;
        };
        let is_first =
            |knock: &Knock| may_leave(knock) && crowds.get(&knock.from) == Some(&largest);
        let Some(first) = self.all.iter().position(is_first) else {
            return false;
        };
        self.all.remove(first).leave.cancel();
        true
    }
}

impl Slot {
    /// Waits until this connection has to give way to another one.
    pub(crate) async fn must_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Gives way to nobody from here on, unless it has to already.
    pub(crate) fn proven(&self) {
        let mut knocking = self.admission.lock();
        if let Some(knock) = knocking.all.iter_mut().find(|knock| knock.number == self.number) {
            knock.is_proven = true;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.lock().all.retain(|knock| knock.number != self.number);
    }
}

/// One machine has a whole /64 of IPv6 for itself. This one's own address stays what it is: it must
/// still be known as that.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => address,
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

    /// How many of these are still wanted.
    fn staying(slots: &[Slot]) -> usize {
        slots.iter().filter(|slot| !slot.leave.is_cancelled()).count()
    }

    #[test]
    fn t2_one_address_gets_four_slots_and_gets_them_back() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let enter = || admission.enter(address("192.168.1.5"), Caller::Known);
        let slots: Vec<Slot> = std::iter::from_fn(enter).collect();
        assert_eq!(slots.len(), UNPROVEN_PER_ADDRESS_MAX);
        assert_eq!(staying(&slots), UNPROVEN_PER_ADDRESS_MAX);
        drop(slots);
        assert!(enter().is_some());
        assert!(admission.lock().all.is_empty(), "counts leak");
    }

    #[test]
    fn t2_a_crowd_of_strangers_leaves_room_for_known_devices() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let crowd = (0..250u8).filter_map(|n| {
            let stranger = IpAddr::from([10, 0, 0, n]);
            admission.enter(stranger, Caller::Stranger)
        });
        let crowd: Vec<Slot> = crowd.collect();
        assert_eq!(staying(&crowd), UNPROVEN_MAX - RESERVED_FOR_KNOWN);
        let known = (0..RESERVED_FOR_KNOWN as u8).filter_map(|n| {
            let device = IpAddr::from([192, 168, 1, n]);
            admission.enter(device, Caller::Known)
        });
        let known: Vec<Slot> = known.collect();
        assert_eq!(staying(&known), RESERVED_FOR_KNOWN);
        // They need not wait for each other while somebody else can give way.
        let more = admission.enter(address("192.168.2.1"), Caller::Known).unwrap();
        assert_eq!(staying(&known), RESERVED_FOR_KNOWN);
        assert_eq!(staying(&crowd), UNPROVEN_MAX - RESERVED_FOR_KNOWN - 1);
        drop(more);
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

    #[test]
    fn d7_a_crowd_that_comes_again_and_again_does_not_push_out_who_came_once() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let mut crowd = Vec::new();
        let come_again = |crowd: &mut Vec<Slot>| {
            crowd.retain(|slot| !slot.leave.is_cancelled());
            crowd
                .extend((0..8u8).filter_map(|n| {
                    admission.enter(IpAddr::from([10, 0, 0, n]), Caller::Stranger)
                }));
        };
        (0..10).for_each(|_| come_again(&mut crowd));
        let once = admission.enter(address("192.168.1.5"), Caller::Stranger).unwrap();
        (0..100).for_each(|_| come_again(&mut crowd));
        assert!(!once.leave.is_cancelled());
    }

    #[test]
    fn who_has_proved_who_it_is_gives_way_to_nobody() {
        let admission = Admission::of_anybody(2);
        let enter = || admission.enter(address("192.168.1.5"), Caller::Stranger);
        let (first, second) = (enter().unwrap(), enter().unwrap());
        first.proven();
        let third = enter().unwrap();
        assert!(!first.leave.is_cancelled() && second.leave.is_cancelled());
        third.proven();
        assert!(enter().is_none());
    }

    #[test]
    fn t2_only_a_household_on_one_machine_may_come_more_often_from_one_address() {
        let entered = |loopback, from| {
            let admission = Admission::new(loopback);
            let slots: Vec<_> =
                (0..20).filter_map(|_| admission.enter(address(from), Caller::Stranger)).collect();
            slots.len()
        };
        for from in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(entered(LoopbackPolicy::Allow, from), 20, "{from}");
            assert_eq!(entered(LoopbackPolicy::Refuse, from), UNPROVEN_PER_ADDRESS_MAX, "{from}");
        }
        for from in ["192.168.1.5", "fe80::5", "::2"] {
            assert_eq!(entered(LoopbackPolicy::Allow, from), UNPROVEN_PER_ADDRESS_MAX, "{from}");
        }
    }

    #[test]
    fn t2_strangers_never_push_out_known_devices_and_those_only_each_other() {
        let admission = Admission::new(LoopbackPolicy::Refuse);
        let known = |n: usize| IpAddr::from([192, 168, 1, n as u8]);
        let enter = |n| admission.enter(known(n), Caller::Known);
        let devices: Vec<Slot> = (0..UNPROVEN_MAX).filter_map(enter).collect();
        assert_eq!(devices.len(), UNPROVEN_MAX);
        assert!(admission.enter(address("10.0.0.1"), Caller::Stranger).is_none());
        assert_eq!(staying(&devices), UNPROVEN_MAX);
        let more = enter(UNPROVEN_MAX).unwrap();
        assert_eq!(staying(&devices), UNPROVEN_MAX - 1);
        assert!(devices[0].leave.is_cancelled(), "it was the first");
        more.proven();
        devices.iter().for_each(Slot::proven);
        assert!(enter(UNPROVEN_MAX + 1).is_none(), "all have proved who they are");
    }

    #[test]
    fn a_network_is_a_whole_64_and_no_more() {
        let one = address("2001:db8:0:7::");
        for same in ["2001:db8:0:7:8000::", "2001:db8:0:7:ffff:ffff:ffff:ffff"] {
            assert_eq!(counted_as(address(same)), one);
        }
        for other in ["2001:db8:0:6::", "2001:db8:0:8::", "2001:db8:8000:7::"] {
            assert_eq!(counted_as(address(other)), address(other));
        }
        assert_eq!(counted_as(address("::ffff:10.0.0.1")), address("10.0.0.1"));
        assert_eq!(counted_as(address("10.0.0.1")), address("10.0.0.1"));
    }

    #[test]
    fn who_need_not_leave_waits() {
        use futures_util::FutureExt as _;
        let admission = Admission::of_anybody(1);
        let enter = || admission.enter(address("192.168.1.5"), Caller::Stranger).unwrap();
        let first = enter();
        assert_eq!(first.must_leave().now_or_never(), None);
        let second = enter();
        assert_eq!(first.must_leave().now_or_never(), Some(()));
        assert_eq!(second.must_leave().now_or_never(), None);
    }
}
