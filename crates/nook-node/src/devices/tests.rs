//! Other devices by lists of events.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nook_base::{ErrorCode, clock};
use nook_store::{Home, HomeChoice};
use nook_trust::{Purpose, TrustLevel};
use nook_wire::{Have, HelpTerms, SharingNow};

mod waking;

use super::*;
use nook_api::views::{Help, UnusedReason, Wording};
use nook_base::Sensitive;

const ATTIC: PeerId = PeerId([7; 32]);
const CELLAR: PeerId = PeerId([9; 32]);

/// A device in a home of its own.
struct Scene {
    _folder: tempfile::TempDir,
    home: Home,
    settings: Settings,
    devices: Devices,
    start: Instant,
    seconds: u64,
    /// Where this device would join.
    join: Option<Join>,
    /// What front ends were told last.
    code: Option<Result<PairingView, NodeError>>,
    refused: Option<NodeError>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        let settings = Settings::default();
        let devices = Devices::new(Peers::load(&home).unwrap(), &settings);
        Self {
            _folder: folder,
            home,
            settings,
            devices,
            start: clock::now(),
            seconds: 1_000,
            join: None,
            code: None,
            refused: None,
        }
    }

    /// What comes of an event, a line for each effect.
    fn on(&mut self, event: DeviceEvent) -> Vec<String> {
        let around = Surroundings {
            now: self.start + Duration::from_secs(self.seconds),
            unix: self.seconds,
            settings: &self.settings,
        };
        let effects = self.devices.on(event, &around);
        effects.into_iter().map(|effect| self.line(effect)).collect()
    }

    fn line(&mut self, effect: DeviceEffect) -> String {
        match effect {
            DeviceEffect::Connect(known) => {
                let known: Vec<_> = known.iter().map(|it| self.devices.name_of(it.id)).collect();
                format!("connect [{}]", known.join(" "))
            }
            DeviceEffect::Dial(peer, addresses) => {
                format!("dial {} at {} addresses", self.devices.name_of(peer), addresses.len())
            }
            DeviceEffect::Call(peer, addresses) => self.called(peer, &addresses),
            DeviceEffect::AnswerWoken(_, woken) => self.woken(woken),
            DeviceEffect::Reached(_) => "reached".to_owned(),
            DeviceEffect::Announce => match self.devices.pairing_port() {
                Some(port) => format!("announce a window at {port}"),
                None => "announce".to_owned(),
            },
            DeviceEffect::OpenWindow(_) => "open a window".to_owned(),
            DeviceEffect::CloseWindow => "close the window".to_owned(),
            DeviceEffect::Join(join) => {
                let line = format!("join at {:?}", join.addresses);
                self.join = Some(*join);
                line
            }
            DeviceEffect::TrustChanged => "trust changed".to_owned(),
            DeviceEffect::PublishBook => "book".to_owned(),
            DeviceEffect::Host(event) => match event {
                HostEvent::LinkDown(_) => "host: link down".to_owned(),
                HostEvent::AdvertsChanged => "host: advertise".to_owned(),
                other => format!("host: {other:?}"),
            },
            DeviceEffect::Requester(event) => match event {
                Event::LinkChanged(_) => "requester: link".to_owned(),
                Event::OffersChanged => "requester: offers".to_owned(),
                Event::Unpaired(_) => "requester: unpaired".to_owned(),
                other => format!("requester: {other:?}"),
            },
            DeviceEffect::Library(event) => match event {
                LibraryEvent::LinkChanged(_) => "library: link".to_owned(),
                LibraryEvent::Have(..) => "library: have".to_owned(),
                other => format!("library: {other:?}"),
            },
            DeviceEffect::Releases(_, releases) => format!("release {}", releases.serial),
            DeviceEffect::DropOutbox(_) => "drop the outbox".to_owned(),
            DeviceEffect::Note(subject, troubles) => {
                let told: Vec<_> = troubles.iter().map(|it| it.sentence.clone()).collect();
                format!("{subject}: {}", told.join(" "))
            }
            DeviceEffect::Show => "show".to_owned(),
            DeviceEffect::ShareAndAnswer(_) => "share".to_owned(),
            DeviceEffect::Stored(answer, durable) => {
                let _ = answer.send(durable);
                format!("stored: {durable}")
            }
            DeviceEffect::Answer(_, done) => match done {
                Ok(()) => "done".to_owned(),
                Err(error) => format!("refused: {}", error.code.name()),
            },
            DeviceEffect::AnswerCode(_, code) => {
                self.code = Some(code);
                "the code".to_owned()
            }
            DeviceEffect::AnswerJoin(_, error) => {
                self.refused = Some(error);
                "not joined".to_owned()
            }
        }
    }

    fn ask<T>(&mut self, ask: impl FnOnce(Answer<T>) -> DeviceCommand) -> Vec<String> {
        self.on(DeviceEvent::Asked(ask(oneshot::channel().0)))
    }

    fn set_trust(&mut self, device: &str, trust: Trust) -> Vec<String> {
        let device = device.to_owned();
        self.ask(|answer| DeviceCommand::SetTrust { device, trust, answer })
    }

    fn forget(&mut self, device: &str) -> Vec<String> {
        let device = device.to_owned();
        self.ask(|answer| DeviceCommand::Forget { device, answer })
    }

    fn join(&mut self, target: PairTarget, code: &str) -> Vec<String> {
        let code = Sensitive(code.to_owned());
        self.ask(|answer| DeviceCommand::Join { target, code, answer })
    }

    fn answer_help(&mut self, device: &str, help: Help) -> Vec<String> {
        let device = device.to_owned();
        self.ask(|answer| DeviceCommand::AnswerHelp { device, help, answer })
    }

    fn peer(&self, id: PeerId) -> &Peer {
        self.devices.peers().get(id).unwrap()
    }

    fn terms(&self, id: PeerId) -> HelpTerms {
        self.devices.own_terms(self.peer(id), SharingNow::Off, &self.settings)
    }

    fn unused(&self, offered: Offered) -> Option<UnusedReason> {
        self.devices.unused(self.peer(ATTIC), offered)
    }

    /// The other side of a pairing is proven.
    fn pair(&mut self, id: PeerId, name: &str) -> Vec<String> {
        self.on(DeviceEvent::Store(proven(id, name), oneshot::channel().0))
    }

    fn link(&mut self, peer: PeerId, name: &str) -> Vec<String> {
        let (name, app_version) = (name.to_owned(), "0.1.0".to_owned());
        let wake_from = vec![waking::cable(1)];
        let up = LinkUp { peer, listens_at: None, name, app_version, wake_from };
        self.on(DeviceEvent::LinkUp(up))
    }

    fn see(&mut self, peer: PeerId, pairing_port: Option<u16>) -> Vec<String> {
        let (tag, addresses) = (Tag::of(&peer), vec![at(2, 4000)]);
        let seen = Sighting::Seen { tag, name: None, protocol: 1, addresses, pairing_port };
        self.on(DeviceEvent::Sighted(seen))
    }

    fn open_window(&mut self, number: u64) -> Vec<String> {
        let code = Sensitive("123456".to_owned());
        let window = Window { number, code, port: 40_000, tries_left: 3, expires: 1_120 };
        self.on(DeviceEvent::WindowOpened(window, oneshot::channel().0))
    }

    fn may(&self, peer: PeerId, purpose: Purpose) -> bool {
        self.devices.gate().check(peer, purpose).is_ok()
    }
}

fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 168, 1, host)), port)
}

fn proven(id: PeerId, name: &str) -> PairedPeer {
    PairedPeer {
        id,
        name: DeviceName::sanitised(name),
        app_version: "0.1.0".to_owned(),
        addresses: vec![at(2, 4000)],
    }
}

/// What follows when the devices `named` are paired, or trusted differently.
fn after_a_change(named: &str) -> [String; 3] {
    ["trust changed".to_owned(), format!("connect [{named}]"), "host: advertise".to_owned()]
}

#[test]
fn a_code_is_shown_once_and_wrong_ones_are_counted() {
    let mut scene = Scene::new();
    assert_eq!(scene.ask(|answer| DeviceCommand::ShowCode { answer }), ["open a window"]);
    assert_eq!(scene.open_window(1), ["announce a window at 40000", "the code"]);
    let shown = scene.code.take().unwrap().unwrap();
    assert_eq!((shown.code.as_str(), shown.tries_left), ("123456", 3));
    assert!(shown.addresses.iter().all(|at| at.ends_with(":40000")), "{:?}", shown.addresses);
    // Whoever asks again is shown the same one.
    assert_eq!(scene.ask(|answer| DeviceCommand::ShowCode { answer }), ["the code"]);
    assert_eq!(scene.code.take().unwrap().unwrap(), shown);
    let wrong = |tries_left| PairingEvent::WrongCode { tries_left };
    assert_eq!(scene.on(DeviceEvent::Window(1, wrong(2))), [""; 0]);
    scene.ask(|answer| DeviceCommand::ShowCode { answer });
    assert_eq!(scene.code.take().unwrap().unwrap().tries_left, 2);
    // What is said of an earlier window closes nothing.
    assert_eq!(scene.on(DeviceEvent::Window(0, PairingEvent::Expired)), [""; 0]);
    let closed = scene.on(DeviceEvent::Window(1, PairingEvent::Burnt));
    assert_eq!(closed, ["close the window", "announce"]);
    assert_eq!(scene.ask(|answer| DeviceCommand::ShowCode { answer }), ["open a window"]);
}

#[test]
fn who_typed_the_code_is_known_each_time_also_of_a_device_that_was_paired_before() {
    let mut scene = Scene::new();
    let paired = |scene: &Scene| {
        let last = scene.devices.paired_by_code()?;
        Some((last.device.clone(), last.times))
    };
    for (number, outcome, expected) in [
        (1, PairingEvent::Burnt, None),
        (2, paired_as(ATTIC), Some((ATTIC.to_string(), 1))),
        (3, PairingEvent::Expired, Some((ATTIC.to_string(), 1))),
        (4, paired_as(ATTIC), Some((ATTIC.to_string(), 2))),
    ] {
        scene.ask(|answer| DeviceCommand::ShowCode { answer });
        scene.open_window(number);
        scene.on(DeviceEvent::Window(number, outcome));
        assert_eq!(paired(&scene), expected, "window {number}");
    }
}

fn paired_as(id: PeerId) -> PairingEvent {
    PairingEvent::Paired { peer: proven(id, "Attic"), confirmed: true }
}

#[test]
fn joining_finds_the_window_by_what_was_seen_or_by_a_typed_address() {
    let mut scene = Scene::new();
    let wrong = scene.join(PairTarget::Address("192.168.1.2".to_owned()), "12345");
    assert_eq!(wrong, ["not joined"]);
    assert_eq!(scene.refused.take().unwrap().code, ErrorCode::BadRequest);
    // Nothing was seen: the address is resolved by whoever carries it out.
    let target = || PairTarget::Address("192.168.1.2".to_owned());
    assert_eq!(scene.join(target(), "123456"), ["join at None"]);
    assert_eq!(scene.see(ATTIC, None), [""; 0], "a stranger is not dialled");
    assert_eq!(scene.join(target(), "123456"), ["join at None"], "it shows no code");
    scene.see(ATTIC, Some(41_000));
    assert_eq!(scene.join(target(), "123456"), ["join at Some([192.168.1.2:41000])"]);
    let tag = PairTarget::Seen(Tag::of(&ATTIC).to_string());
    assert_eq!(scene.join(tag, "123 456"), ["join at Some([192.168.1.2:41000])"]);
    let stored = scene.pair(ATTIC, "Attic");
    let [trust, connect, advertise] = after_a_change("Attic");
    let dial = "dial Attic at 1 addresses";
    assert_eq!(stored, [&*trust, &connect, dial, &advertise, "show", "stored: true"]);
    let kept = Peers::load(&scene.home).unwrap();
    assert_eq!(kept.get(ATTIC).map(|peer| peer.level), Some(TrustLevel::Guest));
}

#[test]
fn trust_acts_at_once_and_is_kept_when_a_device_is_paired_again() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    assert!(!scene.may(ATTIC, Purpose::Borrow));
    let mut set = after_a_change("Attic").to_vec();
    set.push("done".to_owned());
    assert_eq!(scene.set_trust("att", Trust::Trusted), set);
    assert!(scene.may(ATTIC, Purpose::Borrow));
    scene.pair(ATTIC, "Attic");
    assert!(scene.may(ATTIC, Purpose::Borrow), "a code typed again takes no trust away");
    scene.set_trust("Attic", Trust::Blocked);
    assert_eq!(scene.on(DeviceEvent::SettingsChanged), after_a_change(""));
    assert_eq!(scene.set_trust("nobody", Trust::Own), ["refused: not_found"]);
    scene.set_trust("Attic", Trust::Trusted);
    let forgotten = scene.forget("Attic");
    assert_eq!(forgotten[..2], ["requester: unpaired", "drop the outbox"]);
    assert_eq!(forgotten.last().unwrap(), "done");
    assert!(!scene.may(ATTIC, Purpose::Borrow));
    assert!(Peers::load(&scene.home).unwrap().list().is_empty());
}

#[test]
fn the_question_after_pairing_is_answered_once_for_this_side_alone() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    scene.link(ATTIC, "Attic");
    let (sharing, wake) = (SharingNow::Off, Vec::new());
    let theirs = HelpTerms { answered: false, helps: false, asks: false, sharing, wake };
    assert_eq!(scene.terms(ATTIC), theirs, "nothing is allowed before the answer");
    assert_eq!(scene.unused(Offered::Layers), Some(UnusedReason::Unanswered));
    for (help, [helps, asks], reason, last) in [
        (Help::OnlyThis, [true, false], Some(UnusedReason::OnlyHelped), "share"),
        (Help::EachOther, [true, true], None, "share"),
        (Help::Nothing, [false, false], Some(UnusedReason::NotAllowed), "done"),
    ] {
        let answered = scene.answer_help("attic", help);
        assert_eq!(answered[0], "trust changed", "{help:?}");
        assert_eq!(answered.last().unwrap(), last, "{help:?}");
        let (sharing, wake) = (SharingNow::Off, Vec::new());
        let expected = HelpTerms { answered: true, helps, asks, sharing, wake };
        assert_eq!(scene.terms(ATTIC), expected, "{help:?}");
        assert_eq!(scene.unused(Offered::Layers), reason, "{help:?}");
        assert!(!scene.may(ATTIC, Purpose::RemoteWhole), "words need more than that");
        let kept = Peers::load(&scene.home).unwrap();
        assert_eq!(kept.get(ATTIC).unwrap().help, scene.peer(ATTIC).help, "it is durable");
    }
    assert_eq!(scene.answer_help("nobody", Help::EachOther), ["refused: not_found"]);
    // A level that the owner chooses in the list is an answer too.
    scene.answer_help("attic", Help::OnlyThis);
    scene.set_trust("attic", Trust::Trusted);
    assert_eq!(scene.unused(Offered::Layers), None);
    // More trust than the answer needs stays.
    scene.set_trust("attic", Trust::Own);
    scene.answer_help("attic", Help::EachOther);
    assert_eq!(scene.peer(ATTIC).level, TrustLevel::Own);
}

#[test]
fn what_is_missing_is_said_of_the_computer_on_which_it_is_missing() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    scene.link(ATTIC, "Attic");
    scene.answer_help("Attic", Help::EachOther);
    assert_eq!(scene.unused(Offered::Nothing), Some(UnusedReason::NotSharing), "it said nothing");
    for (answered, helps, sharing, reason) in [
        (false, false, SharingNow::On, UnusedReason::UnansweredThere),
        (true, false, SharingNow::On, UnusedReason::NotAllowedThere),
        (true, true, SharingNow::Off, UnusedReason::SharingOff),
        (true, true, SharingNow::Paused, UnusedReason::SharingPaused),
        (true, true, SharingNow::On, UnusedReason::NotSharing),
    ] {
        let terms = HelpTerms { answered, helps, asks: true, sharing, wake: Vec::new() };
        scene.on(DeviceEvent::Said(ATTIC, Message::HelpTerms(terms)));
        assert_eq!(scene.unused(Offered::Nothing), Some(reason));
        assert_eq!(scene.unused(Offered::Layers), None, "what it offers says more than its words");
    }
    assert!(scene.may(ATTIC, Purpose::Borrow) && scene.may(ATTIC, Purpose::Lend));
    let level = scene.peer(ATTIC).level;
    assert_eq!(level, TrustLevel::Trusted, "no word of another device changes trust");
    assert_eq!(scene.unused(Offered::OtherModels), Some(UnusedReason::NoModel));
    assert_eq!(scene.unused(Offered::Lacking), Some(UnusedReason::LacksLayers));
    assert_eq!(scene.unused(Offered::Fetching), Some(UnusedReason::Fetching));
    for (code, reason) in [
        (ErrorCode::DiskFull, UnusedReason::DiskFull),
        (ErrorCode::FetchLimit, UnusedReason::FetchLimit),
        (ErrorCode::FetchFailed, UnusedReason::FetchFailed),
        (ErrorCode::BadModel, UnusedReason::BadModel),
    ] {
        assert_eq!(scene.unused(Offered::NotFetched(code)), Some(reason));
    }
    assert_eq!(scene.unused(Offered::Full), Some(UnusedReason::Busy));
    scene.on(DeviceEvent::LinkDown(ATTIC));
    assert_eq!(scene.unused(Offered::Layers), Some(UnusedReason::Away));
    assert_eq!(scene.devices.their_terms(ATTIC), None, "what it said ends with its link");
    scene.set_trust("Attic", Trust::Blocked);
    assert_eq!(scene.unused(Offered::Layers), Some(UnusedReason::Blocked));
}

#[test]
fn names_that_fit_two_devices_mean_neither() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Laptop");
    scene.pair(CELLAR, "Laptop 2");
    assert_eq!(scene.set_trust("lap", Trust::Own), ["refused: bad_request"]);
    assert_eq!(scene.set_trust("laptop", Trust::Own).last().unwrap(), "done");
    assert_eq!(scene.set_trust(&CELLAR.short(), Trust::Own).last().unwrap(), "done");
}

#[test]
fn a_device_that_forgot_this_one_is_told_of_once_until_it_takes_it_again() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    scene.pair(CELLAR, "Cellar");
    let attic = "Attic does not know this device any more: pair them again.";
    let cellar = "Cellar does not know this device any more: pair them again.";
    assert_eq!(scene.on(DeviceEvent::RefusedBy(ATTIC)), [format!("refused: {attic}")]);
    for _ in 0..228 {
        assert_eq!(scene.on(DeviceEvent::RefusedBy(ATTIC)), [""; 0]);
    }
    let both = scene.on(DeviceEvent::RefusedBy(CELLAR));
    assert_eq!(both, [format!("refused: {attic} {cellar}")]);
    let linked = scene.link(ATTIC, "Attic");
    assert!(linked.contains(&format!("refused: {cellar}")), "{linked:?}");
    let forgotten = scene.forget("Cellar");
    assert!(forgotten.contains(&"refused: ".to_owned()), "{forgotten:?}");
}

#[test]
fn what_is_wrong_with_one_device_stays_while_another_one_links() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    scene.pair(CELLAR, "Cellar");
    let mismatch = scene.on(DeviceEvent::VersionMismatch(ATTIC, None));
    assert!(mismatch[0].starts_with("version: Attic runs a version"), "{mismatch:?}");
    let at = |last: u8| SocketAddr::from(([192, 168, 1, last], 4588));
    let twin = scene.on(DeviceEvent::SameIdTwice { peer: CELLAR, kept: at(2), refused: at(3) });
    assert!(twin[0].starts_with("twin: Two computers"), "{twin:?}");
    let is_of = |line: &String, subject: &str| line.starts_with(subject);
    let other = scene.link(CELLAR, "Cellar");
    assert!(!other.iter().any(|line| is_of(line, "version")), "{other:?}");
    assert!(other.contains(&"twin: ".to_owned()), "its own link is new: {other:?}");
    scene.on(DeviceEvent::SameIdTwice { peer: CELLAR, kept: at(2), refused: at(3) });
    let down = scene.on(DeviceEvent::LinkDown(CELLAR));
    assert!(down.contains(&"twin: ".to_owned()), "{down:?}");
    let forgotten = scene.forget("Attic");
    assert!(forgotten.contains(&"version: ".to_owned()), "{forgotten:?}");
}

#[test]
fn a_link_of_a_device_that_was_just_unpaired_is_no_problem_of_the_list() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    scene.forget("Attic");
    assert_eq!(scene.link(ATTIC, "Attic"), [""; 0]);
    assert!(scene.devices.linked.is_empty());
}

#[tokio::test]
async fn an_address_without_a_port_and_a_name_that_nobody_has_are_told_apart() {
    let typed = |text: &str| PairTarget::Address(text.to_owned());
    for text in ["kitchen", "192.168.1.20", "192.168.1.20:", ":40123", "kitchen:port", "a:0", ""] {
        let refused = resolve(&typed(text)).await.unwrap_err();
        assert!(matches!(refused.wording, Some(Wording::NoAddress { .. })), "{text:?}");
    }
    // No resolver may answer for a name of this domain (RFC 6761).
    let refused = resolve(&typed("kitchen.invalid:40123")).await.unwrap_err();
    assert!(matches!(refused.wording, Some(Wording::NameNotFound { .. })), "{refused:?}");
    let found = resolve(&typed(" 192.168.1.20:40123 ")).await.unwrap();
    assert_eq!(found, [SocketAddr::from(([192, 168, 1, 20], 40_123))]);
}

#[test]
fn a_link_brings_a_new_name_and_what_was_offered_on_it_ends_with_it() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    let up = scene.link(ATTIC, "Study");
    let expected = ["peers: ", "peers: ", "book", "reached", "requester: link", "library: link"];
    assert_eq!(up, expected);
    assert_eq!(scene.devices.name_of(ATTIC), "Study");
    let hello = |name: &str| {
        DeviceEvent::Said(
            ATTIC,
            Message::Hello(nook_wire::Hello {
                protocol: nook_wire::ProtocolRange::SPOKEN,
                app_version: "0.1.0".to_owned(),
                device_name: name.to_owned(),
                listen_port: 4588,
            }),
        )
    };
    assert_eq!(scene.on(hello("Library")), [""; 0]);
    assert_eq!(scene.on(DeviceEvent::Tick), ["peers: ", "book"], "it was renamed meanwhile");
    assert_eq!(scene.devices.name_of(ATTIC), "Library");
    // One name after the other is not written one after the other.
    for number in 0..1_000 {
        assert_eq!(scene.on(hello(&format!("Attic {number}"))), [""; 0]);
        assert_eq!(scene.on(DeviceEvent::Tick), [""; 0]);
    }
    scene.seconds += NAMES_PAUSE.as_secs();
    assert_eq!(scene.on(DeviceEvent::Tick), ["peers: ", "book"]);
    assert_eq!(scene.devices.name_of(ATTIC), "Attic 999", "the newest");
    let offered = Advert {
        sharing: true,
        shards: Vec::new(),
        streams_free: 1,
        queue_depth: 0,
        memory_free_bytes: 1 << 30,
        fetch_bytes: 0,
    };
    let advert = || DeviceEvent::Said(ATTIC, Message::Advert(offered.clone()));
    assert_eq!(scene.on(advert()), ["requester: offers", "book"]);
    assert_eq!(scene.on(advert()), ["book"], "the same offer again is only fresher");
    assert_eq!(
        scene.on(DeviceEvent::Said(ATTIC, Message::Have(Have { models: vec![] }))),
        ["library: have"]
    );
    assert_eq!(scene.on(DeviceEvent::Tick), [""; 0]);
    scene.seconds += 3_600;
    assert_eq!(scene.on(DeviceEvent::Tick), ["book"], "an advert grows old");
    scene.on(advert());
    let down = scene.on(DeviceEvent::LinkDown(ATTIC));
    let expected =
        ["requester: link", "library: link", "host: link down", "requester: offers", "book"];
    assert_eq!(down, expected);
    assert!(scene.devices.heard().is_empty() && scene.devices.linked.is_empty());
}

#[test]
fn a_device_that_is_seen_elsewhere_is_dialled_there_and_one_that_left_is_not() {
    let mut scene = Scene::new();
    scene.pair(ATTIC, "Attic");
    assert_eq!(scene.see(ATTIC, None), ["dial Attic at 1 addresses"]);
    assert_eq!(scene.see(CELLAR, None), [""; 0]);
    assert_eq!(scene.devices.seen().len(), 2);
    let gone = DeviceEvent::Sighted(Sighting::Gone { tag: Tag::of(&ATTIC) });
    assert_eq!(scene.on(gone), ["dial Attic at 0 addresses"]);
    assert_eq!(scene.devices.seen().len(), 1);
}
