//! Waking a device, by lists of events.

use std::io;

use nook_base::MacAddress;

use super::super::wake::{CALL_PAUSE, CALLS_MAX, KEEP_PAUSE, OVERSLEPT_FOR, WAKE_LIMIT};
use super::*;

const CALL: &str = "call Attic PC at 1 addresses";
const DIAL_ONLY: &str = "call Attic PC at 0 addresses";

/// A network card.
pub(super) fn cable(number: u8) -> WakeAddress {
    let mac = MacAddress([2, 0, 0, 0, 0, number]);
    WakeAddress::new(mac, Ipv4Addr::new(192, 168, 1, number), 24).unwrap()
}

impl Scene {
    pub(super) fn called(&self, peer: PeerId, addresses: &[WakeAddress]) -> String {
        format!("call {} at {} addresses", self.devices.name_of(peer), addresses.len())
    }

    pub(super) fn woken(&mut self, woken: Result<u32, NodeError>) -> String {
        match woken {
            Ok(seconds) => format!("woken after {seconds} s"),
            Err(error) => {
                let line = format!("not woken: {}", error.code.name());
                self.refused = Some(error);
                line
            }
        }
    }

    /// A paired device that said this of being woken, and is away.
    fn asleep(wake: Vec<WakeAddress>) -> Self {
        let mut scene = Self::new();
        scene.pair(ATTIC, "Attic PC");
        scene.link(ATTIC, "Attic PC");
        scene.say_wake(wake);
        scene.on(DeviceEvent::LinkDown(ATTIC));
        scene
    }

    fn say_wake(&mut self, wake: Vec<WakeAddress>) {
        let sharing = SharingNow::On;
        let terms = HelpTerms { answered: true, helps: true, asks: true, sharing, wake };
        self.on(DeviceEvent::Said(ATTIC, Message::HelpTerms(terms)));
    }

    fn wake(&mut self) -> Vec<String> {
        let device = "attic".to_owned();
        self.ask(|answer| DeviceCommand::Wake { device, answer })
    }

    /// What comes of so many seconds, tick by tick, with the seconds at which it comes.
    fn pass(&mut self, seconds: u64) -> Vec<(u64, String)> {
        let mut told = Vec::new();
        for second in 1..=seconds {
            self.seconds += 1;
            told.extend(self.on(DeviceEvent::Tick).into_iter().map(|line| (second, line)));
        }
        told
    }

    fn wording(&self) -> Option<&Wording> {
        self.refused.as_ref()?.wording.as_ref()
    }
}

#[test]
fn a_device_that_allows_it_is_called_until_it_is_there_and_how_long_that_took_is_kept() {
    let mut scene = Scene::asleep(vec![cable(9)]);
    // The first one who asks has left by the time at which the others do.
    assert_eq!(scene.wake(), [CALL]);
    assert!(scene.devices.is_waking(ATTIC));
    let waits: [_; 2] = std::array::from_fn(|_| {
        let (answer, waits) = oneshot::channel();
        let asked = DeviceCommand::Wake { device: "Attic PC".to_owned(), answer };
        assert_eq!(scene.on(DeviceEvent::Asked(asked)), Vec::<String>::new());
        waits
    });
    let pause = CALL_PAUSE.as_secs();
    let calls = [(pause, CALL.to_owned()), (2 * pause, CALL.to_owned())];
    assert_eq!(scene.pass(12), calls);
    let told = scene.link(ATTIC, "Attic PC");
    let woken: Vec<_> = told.iter().filter(|line| line.starts_with("woken")).collect();
    assert_eq!(woken, ["woken after 12 s"; 2], "{told:?}");
    drop(waits);
    assert!(!scene.devices.is_waking(ATTIC));
    assert_eq!(scene.pass(60), [], "nobody calls a device that is there");
    let kept = Peers::load(&scene.home).unwrap();
    assert_eq!(kept.get(ATTIC).unwrap().woke_seconds, Some(12));
    assert_eq!(scene.wake(), ["woken after 0 s"], "it is there");
}

#[test]
fn a_device_that_does_not_come_is_given_up_and_calls_have_an_end() {
    let mut scene = Scene::asleep(vec![cable(9)]);
    scene.wake();
    let told = scene.pass(WAKE_LIMIT.as_secs());
    let calls = told.iter().filter(|(_, line)| line == CALL).count();
    assert_eq!(calls + 1, CALLS_MAX as usize);
    assert!(told.iter().any(|(_, line)| line == DIAL_ONLY), "it is dialled all the same");
    let end = told.last().map(|(second, line)| (*second, line.as_str()));
    assert_eq!(end, Some((WAKE_LIMIT.as_secs(), "not woken: shard_unavailable")));
    let device = "Attic PC".to_owned();
    assert_eq!(scene.wording(), Some(&Wording::NotWoken { device }));
    assert_eq!(scene.pass(60), []);
    assert_eq!(scene.peer(ATTIC).woke_seconds, None);
}

#[test]
fn a_device_that_did_not_come_is_not_waited_for_by_replies_for_a_while() {
    const BOOK: &str = "book";
    let mut scene = Scene::asleep(vec![cable(9)]);
    scene.wake();
    scene.pass(WAKE_LIMIT.as_secs() - 1);
    assert!(!scene.devices.has_overslept(ATTIC));
    assert!(scene.pass(1).contains(&(1, BOOK.to_owned())), "replies hear of it");
    assert!(scene.devices.has_overslept(ATTIC));
    let rest = OVERSLEPT_FOR.as_secs();
    assert_eq!(scene.pass(rest), [(rest, BOOK.to_owned())]);
    assert!(!scene.devices.has_overslept(ATTIC), "it is called anew");

    // So is one that cannot be called from here, until it comes by itself.
    scene.wake();
    scene.on(DeviceEvent::NotCalled(ATTIC, WakeError::OtherNetwork));
    assert!(scene.devices.has_overslept(ATTIC));
    scene.link(ATTIC, "Attic PC");
    assert!(!scene.devices.has_overslept(ATTIC));
}

#[test]
fn who_never_allowed_it_or_does_not_any_more_is_not_called() {
    let refused = Wording::MayNotWake { device: "Attic PC".to_owned() };
    let mut never = Scene::asleep(Vec::new());
    assert_eq!(never.wake(), ["not woken: trust_denied"]);
    assert_eq!(never.wording(), Some(&refused));

    let mut before = Scene::asleep(vec![cable(9)]);
    before.link(ATTIC, "Attic PC");
    before.pass(KEEP_PAUSE.as_secs());
    before.say_wake(Vec::new());
    before.on(DeviceEvent::LinkDown(ATTIC));
    assert_eq!(before.wake(), ["not woken: trust_denied"]);

    let mut blocked = Scene::asleep(vec![cable(9)]);
    blocked.set_trust("attic", Trust::Blocked);
    assert_eq!(blocked.wake(), ["not woken: trust_denied"]);
}

#[test]
fn a_device_that_says_one_address_after_the_other_has_them_kept_now_and_then() {
    let mut scene = Scene::asleep(vec![cable(9)]);
    scene.link(ATTIC, "Attic PC");
    let pause = KEEP_PAUSE.as_secs();
    scene.pass(pause);
    scene.say_wake(vec![cable(20)]);
    for number in 21..=40 {
        scene.say_wake(vec![cable(number)]);
    }
    assert_eq!(scene.peer(ATTIC).wake, [cable(20)]);
    scene.pass(pause - 1);
    assert_eq!(scene.peer(ATTIC).wake, [cable(20)]);
    scene.pass(1);
    assert_eq!(scene.peer(ATTIC).wake, [cable(40)]);
}

#[test]
fn a_first_call_that_does_not_go_out_ends_it_and_a_later_one_does_not() {
    let mut scene = Scene::asleep(vec![cable(9)]);
    scene.wake();
    let elsewhere = DeviceEvent::NotCalled(ATTIC, WakeError::OtherNetwork);
    assert_eq!(scene.on(elsewhere), ["book", "not woken: shard_unavailable"]);
    let device = "Attic PC".to_owned();
    assert_eq!(scene.wording(), Some(&Wording::WakeOtherNetwork { device }));
    scene.wake();
    scene.pass(CALL_PAUSE.as_secs());
    let refused = WakeError::Refused(io::Error::from(io::ErrorKind::NetworkUnreachable));
    assert_eq!(scene.on(DeviceEvent::NotCalled(ATTIC, refused)), Vec::<String>::new());
    assert!(scene.devices.is_waking(ATTIC));
}

#[test]
fn a_device_that_is_unpaired_meanwhile_is_waited_for_no_longer() {
    let mut scene = Scene::asleep(vec![cable(9)]);
    scene.wake();
    assert!(scene.forget("attic").contains(&"not woken: cancelled".to_owned()));
    assert_eq!(scene.pass(60), []);
}

#[test]
fn only_who_is_helped_hears_how_this_device_is_woken_and_only_if_the_owner_wants_that() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic PC");
    scene.link(ATTIC, "Attic PC");
    scene.set_trust("attic", Trust::Trusted);
    assert_eq!(scene.terms(ATTIC).wake, [], "as it is installed");
    scene.settings.network.let_others_wake = true;
    assert_eq!(scene.terms(ATTIC).wake, [cable(1)]);
    scene.set_trust("attic", Trust::Guest);
    assert_eq!(scene.terms(ATTIC).wake, []);
    scene.set_trust("attic", Trust::Own);
    assert_eq!(scene.terms(ATTIC).wake, [cable(1)]);
    scene.on(DeviceEvent::LinkDown(ATTIC));
    assert_eq!(scene.terms(ATTIC).wake, []);
}
