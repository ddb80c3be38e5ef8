//! The account: exact limits, nothing lost, and what is kept going first. Used by the test run
//! alone.

use nook_base::{ActivationDtype, LayerRange, ModelDigest, ModelPart, clock};
use nook_wire::PrefixHash;

use super::*;
use crate::history::History;
use crate::retained::Requester;

const GUEST: Caller = Caller::Guest(None);

/// Nothing but a length.
#[derive(Debug)]
struct Length(u32);

impl Resumable for Length {
    fn position(&self) -> u32 {
        self.0
    }

    fn can_resume(&self, position: u32, positions_max: u32) -> bool {
        position <= self.0 && position <= positions_max
    }
}

fn account() -> Account<Length> {
    let account = Account::default();
    account.allow(Limits { bytes_max: bytes(1_000), guests_max: 2 });
    account
}

fn slot(account: &Account<Length>, caller: Caller, of: u64) -> Result<Slot<Length>, Refusal> {
    let mut slot = account.admit(caller)?;
    slot.promise(DeviceBytes::in_memory(of))?;
    Ok(slot)
}

fn key(requester: Requester) -> RetainedKey {
    let part = ModelPart::inner(LayerRange::with_len(1, 2));
    RetainedKey { requester, model: ModelDigest([1; 32]), part, dtype: ActivationDtype::F16 }
}

fn guest(number: u8) -> (Caller, RetainedKey) {
    let peer = PeerId([number; 32]);
    (Caller::Guest(Some(peer)), key(Requester::Guest(peer)))
}

fn bytes(of: u64) -> DeviceBytes {
    DeviceBytes::in_memory(of)
}

/// Parks a conversation of ten positions that takes `bytes`.
fn park(account: &Account<Length>, number: u8, of: u64) {
    let (caller, key) = guest(number);
    let slot = slot(account, caller, of).unwrap();
    let mut history = History::default();
    history.note(10, PrefixHash([number; 16]));
    slot.park(key, Kept { session: Length(10), history }, bytes(of), clock::now());
}

fn point(number: u8) -> ResumePoint {
    ResumePoint { position: 10, mark: PrefixHash([number; 16]), copy: false }
}

fn parked(account: &Account<Length>) -> (u16, u64) {
    let balance = account.balance();
    (balance.parked, balance.parked_bytes)
}

#[test]
fn guests_are_limited_exactly_and_the_owner_is_not() {
    let account = account();
    let first = slot(&account, GUEST, 1).unwrap();
    let _second = slot(&account, GUEST, 1).unwrap();
    assert_eq!(slot(&account, GUEST, 1).unwrap_err(), Refusal::StreamsTaken);
    let _own = slot(&account, Caller::Owner, 1).unwrap();
    drop(first);
    assert!(slot(&account, GUEST, 1).is_ok());
}

#[test]
fn a_refusal_takes_nothing_and_dropping_gives_everything_back() {
    let account = account();
    account.lend_weights(GUEST, bytes(600)).unwrap();
    account.set_weights(600);
    for _ in 0..10 {
        let refused = slot(&account, GUEST, 500).unwrap_err();
        assert_eq!(refused, Refusal::NoMemory { memory: Memory::Computer, wanted: 500, free: 400 });
    }
    let taken = slot(&account, GUEST, 400).unwrap();
    assert_eq!(account.balance().caches, 400);
    drop(taken);
    let after = account.balance();
    assert_eq!((after.caches, after.sessions, after.guests), (0, 0, 0));
}

#[test]
fn a_cap_on_lending_does_not_bind_the_owner() {
    let account = account();
    account.lend_weights(Caller::Owner, bytes(5_000)).unwrap();
    account.set_weights(5_000);
    let _own = slot(&account, Caller::Owner, 9_000).unwrap();
    assert!(slot(&account, GUEST, 900).is_ok());
}

#[test]
fn a_thousand_simultaneous_openers_never_exceed_the_limit() {
    let account = Account::default();
    account.allow(Limits { bytes_max: bytes(u64::MAX), guests_max: 4 });
    let seats: Vec<_> = std::thread::scope(|scope| {
        let openers: Vec<_> =
            (0..1_000).map(|_| scope.spawn(|| slot(&account, GUEST, 1).ok())).collect();
        openers.into_iter().filter_map(|opener| opener.join().unwrap()).collect()
    });
    assert_eq!(seats.len(), 4);
    assert_eq!(account.balance().guests, 4);
}

#[test]
fn what_is_kept_takes_no_stream_and_no_more_than_it_needs() {
    let account = account();
    park(&account, 1, 300);
    let balance = account.balance();
    assert_eq!((balance.sessions, balance.guests, balance.caches), (0, 0, 0));
    assert_eq!(parked(&account), (1, 300));
}

#[test]
fn what_is_kept_goes_before_anything_is_refused_the_longest_unused_first() {
    let account = account();
    for number in 1..=3 {
        park(&account, number, 300);
    }
    let taken = slot(&account, GUEST, 350).unwrap();
    assert_eq!(parked(&account), (2, 600));
    // A refusal frees nothing, since it would help nobody.
    let refused = slot(&account, GUEST, 700).unwrap_err();
    assert_eq!(refused, Refusal::NoMemory { memory: Memory::Computer, wanted: 700, free: 650 });
    assert_eq!(parked(&account), (2, 600));
    account.lend_weights(GUEST, bytes(340)).unwrap();
    account.set_weights(340);
    assert_eq!(parked(&account), (1, 300));
    let (caller, key) = guest(3);
    let mut slot = account.admit(caller).unwrap();
    assert!(slot.resume(&key, point(3), 20, bytes(310)).is_ok());
    drop((taken, slot));
    assert_eq!((parked(&account), account.balance().caches), ((0, 0), 0));
}

#[test]
fn a_lower_limit_frees_what_is_kept_beyond_it() {
    let account = account();
    park(&account, 1, 300);
    park(&account, 2, 300);
    account.allow(Limits { bytes_max: bytes(400), guests_max: 2 });
    assert_eq!(parked(&account), (1, 300));
}

#[test]
fn a_refused_return_leaves_everything_where_it_is() {
    let account = account();
    let busy = [slot(&account, GUEST, 1).unwrap(), slot(&account, GUEST, 1).unwrap()];
    drop(busy);
    park(&account, 1, 300);
    let (caller, key) = guest(1);
    // No stream: it is told before anything is looked at.
    let busy = [slot(&account, GUEST, 1).unwrap(), slot(&account, GUEST, 400).unwrap()];
    assert_eq!(account.admit(caller).unwrap_err(), Refusal::StreamsTaken);
    drop(busy);
    // No memory for what it wants to become.
    let _other = slot(&account, GUEST, 400).unwrap();
    let mut slot = account.admit(caller).unwrap();
    let refused = slot.resume(&key, point(1), 20, bytes(601)).unwrap_err();
    assert_eq!(refused, Refusal::NoMemory { memory: Memory::Computer, wanted: 601, free: 600 });
    assert_eq!(parked(&account), (1, 300));
    // Its own bytes are given back for it.
    assert_eq!(slot.resume(&key, point(1), 20, bytes(600)).unwrap().session.0, 10);
    assert_eq!((parked(&account), account.balance().caches), ((0, 0), 1_000));
}

#[test]
fn a_call_that_was_open_when_its_device_was_forgotten_leaves_nothing() {
    let account = account();
    let kept = |number: u8, slot: Slot<Length>| {
        let mut history = History::default();
        history.note(10, PrefixHash([number; 16]));
        let (_, key) = guest(number);
        slot.park(key, Kept { session: Length(10), history }, bytes(5), clock::now());
        parked(&account).0
    };
    let admit = |number: u8| account.admit(guest(number).0).unwrap();
    let (one, other) = (admit(1), admit(2));
    account.forget(Some(PeerId([1; 32])));
    assert_eq!(kept(1, one), 0, "its end comes after the word");
    assert_eq!(kept(2, other), 1, "another device's");
    assert_eq!(kept(1, admit(1)), 2, "a call that came later");
    let (one, other) = (admit(1), admit(2));
    account.forget(None);
    assert_eq!((parked(&account).0, kept(1, one), kept(2, other)), (0, 0, 0));
    assert!(account.books().forgotten.is_empty(), "no call is open that it could concern");
}

#[test]
fn what_was_out_to_be_copied_when_its_device_was_forgotten_does_not_come_back() {
    for (forgotten, left) in [(Some(PeerId([1; 32])), 0), (None, 0), (Some(PeerId([2; 32])), 1)] {
        let account = account();
        park(&account, 1, 300);
        let (caller, key) = guest(1);
        let mut slot = account.admit(caller).unwrap();
        let out = slot.resume(&key, point(1), 20, bytes(310)).unwrap();
        account.forget(forgotten);
        slot.put_back(key, out, bytes(300), clock::now());
        assert_eq!(parked(&account).0, left, "{forgotten:?}");
    }
}

/// What of each memory.
fn both(memory: u64, gpu: u64) -> DeviceBytes {
    DeviceBytes { memory, gpu }
}

/// An account that lends `memory` bytes of the computer's memory and `gpu` of a card's.
fn with_card(memory: u64, gpu: u64) -> Account<Length> {
    let account = Account::default();
    account.allow(Limits { bytes_max: both(memory, gpu), guests_max: 4 });
    account
}

fn on_card(wanted: u64, free: u64) -> Refusal {
    Refusal::NoMemory { memory: Memory::Gpu, wanted, free }
}

#[test]
fn graphics_memory_has_a_cap_of_its_own_which_does_not_bind_the_owner() {
    let account = with_card(1_000, 100);
    assert_eq!(account.lend_weights(GUEST, both(0, 101)), Err(on_card(101, 100)));
    account.lend_weights(Caller::Owner, both(0, 5_000)).unwrap();
    account.lend_weights(GUEST, both(900, 60)).unwrap();
    account.set_weights(5_960);
    let mut slot = account.admit(GUEST).unwrap();
    assert_eq!(slot.promise(both(0, 41)), Err(on_card(41, 40)));
    slot.promise(both(100, 40)).unwrap();
    let balance = account.balance();
    assert_eq!((balance.lent, balance.lent_on_gpu, balance.caches), (1_000, 100, 140));
    // The two memories do not stand in for each other.
    assert_eq!(account.lend_weights(GUEST, both(0, 1)), Err(on_card(1, 0)));
    let mut own = account.admit(Caller::Owner).unwrap();
    own.promise(both(7_000, 7_000)).unwrap();
    drop((own, slot));
    account.take_back_weights(both(900, 60));
    let balance = account.balance();
    assert_eq!((balance.lent, balance.lent_on_gpu, balance.caches), (0, 0, 0));
    assert!(account.lend_weights(GUEST, both(0, 100)).is_ok());
}

#[test]
fn a_gpu_without_memory_of_its_own_takes_of_the_computers_cap_alone() {
    let account = with_card(1_000, 0);
    account.count_gpu_as_memory(true);
    account.lend_weights(GUEST, both(100, 600)).unwrap();
    account.set_weights(700);
    let refused = account.lend_weights(GUEST, both(1, 300)).unwrap_err();
    assert_eq!(refused, Refusal::NoMemory { memory: Memory::Computer, wanted: 301, free: 300 });
    let balance = account.balance();
    assert_eq!((balance.lent, balance.lent_on_gpu), (700, 600));
    assert_eq!(account.gpu_bytes_free(GUEST), u64::MAX);
}

#[test]
fn a_lower_cap_on_graphics_memory_frees_what_is_kept_there_and_nothing_else() {
    let account = with_card(1_000, 1_000);
    for (number, bytes) in [(1, both(300, 0)), (2, both(10, 300)), (3, both(10, 300))] {
        let (caller, key) = guest(number);
        let slot = account.admit(caller).unwrap();
        let mut history = History::default();
        history.note(10, PrefixHash([number; 16]));
        slot.park(key, Kept { session: Length(10), history }, bytes, clock::now());
    }
    assert_eq!(account.balance().kept_on_gpu, 600);
    account.allow(Limits { bytes_max: both(1_000, 400), guests_max: 4 });
    assert_eq!(parked(&account), (2, 610), "the older one on the card, not the oldest");
    account.allow(Limits { bytes_max: both(1_000, 0), guests_max: 4 });
    assert_eq!((parked(&account), account.balance().kept_on_gpu), ((1, 300), 0));
}

#[test]
fn a_promise_follows_layers_that_came_to_lie_elsewhere() {
    let account = with_card(1_000, 100);
    let mut slot = account.admit(GUEST).unwrap();
    slot.promise(both(0, 80)).unwrap();
    slot.promise_instead(both(50, 30)).unwrap();
    assert_eq!((slot.bytes(), account.balance().lent_on_gpu), (80, 30));
    assert_eq!(slot.promise_instead(both(0, 101)), Err(on_card(101, 100)));
    drop(slot);
    let balance = account.balance();
    assert_eq!((balance.lent, balance.lent_on_gpu, balance.caches), (0, 0, 0));
}
