//! One link per pair of devices, kept up from either side.

use futures_util::StreamExt;
use nook_base::ErrorCode;
use nook_link::{LinkEvent, LoopbackPolicy};
use nook_mux::CloseReason;
use nook_wire::{Message, Outdated, ProtocolRange, VersionMismatch};
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::household::{Device, device, id, in_order, known, linked, setup};
use crate::raw;

#[tokio::test]
async fn two_paired_devices_come_to_one_link_whoever_knows_the_address() {
    let (smaller, larger) = in_order(1, 2);
    for (dials, listens) in [(smaller, larger), (larger, smaller)] {
        let (mut a, mut b, link_a, link_b) = linked(dials, listens).await;
        assert_eq!((link_a.peer(), link_b.peer()), (b.id, a.id));
        assert_eq!(link_a.hello().listen_port, b.address().port());
        assert_eq!(link_b.hello().listen_port, a.address().port());
        assert_eq!(link_a.listens_at(), Some(b.address()));
        assert_eq!(link_b.listens_at(), Some(a.address()));
        talk(&mut a, &mut b).await;
        talk(&mut b, &mut a).await;
    }
}

/// A message from `from` arrives at `to`, over the link that both hold.
async fn talk(from: &mut Device, to: &mut Device) {
    let link = from.links.link(to.id).expect("a link");
    let sentence = "leaving".to_owned();
    let message = Message::Draining { sentence };
    link.mux().send(message.clone()).await.unwrap();
    match to.next().await {
        LinkEvent::Control { peer, message: got } => assert_eq!((peer, got), (from.id, message)),
        other => panic!("expected a message, got {other:?}"),
    }
}

#[tokio::test]
async fn a_new_name_is_heard_on_new_links_and_on_one_that_stands() {
    for (renamed, other) in [(1, 2), (2, 1)] {
        let (mut a, mut b) = (device(renamed), device(other));
        a.links.set_name("Study");
        b.pair_blindly(a.id);
        a.pair(&b);
        a.up().await;
        let link = b.up().await;
        assert_eq!(link.hello().device_name, "Study");
        a.links.set_name("Attic");
        let again = Message::Hello(a.links.hello());
        a.links.link(b.id).expect("a link").mux().send(again).await.unwrap();
        match b.next().await {
            LinkEvent::Control { peer, message: Message::Hello(hello) } => {
                assert_eq!((peer, hello.device_name.as_str()), (a.id, "Attic"));
            }
            other => panic!("expected its name, got {other:?}"),
        }
    }
}

#[tokio::test]
async fn two_devices_that_dial_each_other_at_once_keep_exactly_one_link() {
    for round in 0..10 {
        let (mut a, mut b) = (device(1), device(2));
        a.pair(&b);
        b.pair(&a);
        a.links.network_changed();
        b.links.network_changed();
        let (link_a, link_b) = (a.up().await, b.up().await);
        let same = link_a.remote() == b.address() || link_b.remote() == a.address();
        assert!(same, "round {round}: two different connections");
        talk(&mut a, &mut b).await;
        talk(&mut b, &mut a).await;
        // A second connection would have ended one of the links; `talk` would have seen that.
        assert_eq!((a.links.all().len(), b.links.all().len()), (1, 1));
    }
}

#[tokio::test]
async fn many_addresses_of_one_device_lead_to_one_link() {
    let mut a = device(1);
    let mut b = device(2);
    let port = b.address().port();
    let everywhere: Vec<_> =
        (1..=6).map(|n| std::net::SocketAddr::from(([127, 0, 0, n], port))).collect();
    b.pair_blindly(a.id);
    a.links.set_peers(vec![known(b.id, &everywhere)]);
    a.links.sighted(b.id, everywhere.clone());
    a.links.sighted(b.id, everywhere);
    let (_, _) = (a.up().await, b.up().await);
    talk(&mut a, &mut b).await;
    talk(&mut b, &mut a).await;
}

#[tokio::test]
async fn a_link_cut_from_either_side_comes_back_though_only_one_can_dial() {
    let (mut a, mut b, ..) = linked(1, 2).await;
    for cut_by_dialler in [true, false] {
        let link = if cut_by_dialler { a.links.link(b.id) } else { b.links.link(a.id) };
        link.unwrap().mux().close(Some(ErrorCode::Draining));
        a.down().await;
        b.down().await;
        a.up().await;
        b.up().await;
    }
    talk(&mut a, &mut b).await;
}

#[tokio::test]
async fn the_side_that_was_dialled_finds_the_other_again() {
    let (a, mut b, ..) = linked(1, 2).await;
    let listen = a.address();
    let b_id = b.id;
    a.stop().await;
    b.down().await;
    // The first device comes back where it was and knows no address any more.
    let mut a = crate::household::Setup { listen, ..setup(1) }.start();
    a.pair_blindly(b_id);
    a.up().await;
    b.up().await;
    talk(&mut b, &mut a).await;
}

#[tokio::test]
async fn a_sighting_brings_an_unreachable_device_back_at_once() {
    let (mut a, mut b) = (device(1), device(2));
    a.pair_blindly(b.id);
    b.pair_blindly(a.id);
    a.links.sighted(b.id, vec![b.address()]);
    a.up().await;
    b.up().await;
}

#[tokio::test]
async fn d2_an_impostor_at_a_sighted_address_is_left_out_and_the_real_one_found() {
    let (mut a, mut b) = (device(1), device(2));
    let impostor = device(3);
    impostor.pair_blindly(a.id);
    a.pair_blindly(b.id);
    b.pair_blindly(a.id);
    a.links.sighted(b.id, vec![impostor.address(), b.address()]);
    let mut refused = None;
    loop {
        match a.next().await {
            LinkEvent::Up(link) => break assert_eq!(link.remote(), b.address()),
            LinkEvent::PinRefused { address, .. } => refused = Some(address),
            other => panic!("unexpected: {other:?}"),
        }
    }
    assert_eq!(refused, Some(impostor.address()));
    b.up().await;
}

#[tokio::test]
async fn d3_an_advertised_loopback_address_is_not_dialled_unless_the_household_says_so() {
    let mut careful =
        crate::household::Setup { loopback: LoopbackPolicy::Refuse, ..setup(1) }.start();
    let mut b = device(2);
    b.pair_blindly(careful.id);
    // Paired as well, and at an address that only discovery names.
    let hinted = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    hinted.set_nonblocking(true).unwrap();
    careful.links.set_peers(vec![known(id(3), &[])]);
    careful.links.sighted(id(3), vec![hinted.local_addr().unwrap()]);
    // A typed address is always dialled. The hint was in line before the outcome of that dial.
    careful.links.set_peers(vec![known(id(3), &[]), known(b.id, &[b.address()])]);
    assert_eq!(careful.up().await.peer(), b.id);
    b.up().await;
    let knocked = hinted.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(knocked, Err(std::io::ErrorKind::WouldBlock));
}

#[tokio::test]
async fn unpaired_devices_hear_nothing_of_each_other() {
    let (mut a, b) = (device(1), device(2));
    a.pair(&b); // one-sided: the other owner never agreed
    let event = a.next().await;
    assert!(matches!(event, LinkEvent::RefusedByPeer { peer } if peer == b.id), "{event:?}");
    assert!(b.links.all().is_empty());
}

#[tokio::test]
async fn f13_another_version_is_named_on_both_sides_and_no_link_stands() {
    let ours = ProtocolRange::SPOKEN;
    let fakes = [((0, 0), Outdated::Theirs), ((3, 3), Outdated::Ours), ((3, 4), Outdated::Ours)];
    // A device dials, and so does the fake: each side must say it whoever began.
    for ((theirs, outdated), we_dial) in
        fakes.into_iter().flat_map(|one| [(one, true), (one, false)])
    {
        let theirs = ProtocolRange::new(theirs.0, theirs.1).unwrap();
        let (mut us, mut fake) = (device(1), speaking(2, theirs));
        let (dialer, answerer) = if we_dial { (&us, &fake) } else { (&fake, &us) };
        answerer.pair_blindly(dialer.id);
        dialer.pair(answerer);
        let here = refused_version(&mut us).await;
        assert_eq!(here, VersionMismatch { ours, theirs });
        assert_eq!(here.outdated(), outdated);
        let told = here.to_string();
        let update = match outdated {
            Outdated::Ours => "update this computer",
            Outdated::Theirs => "update the other one",
        };
        assert!(told.contains(&format!("protocol {ours} and the other one {theirs}")), "{told}");
        assert!(told.ends_with(update), "{told}");
        // The fake knows just as well, from its own side.
        let there = refused_version(&mut fake).await;
        assert_eq!(there, VersionMismatch { ours: theirs, theirs: ours });
        assert_ne!(there.outdated(), outdated);
        assert!(us.links.all().is_empty() && fake.links.all().is_empty());
    }
}

#[tokio::test]
async fn f13_devices_of_different_age_speak_the_highest_version_that_both_know() {
    let range = |min, max| ProtocolRange::new(min, max).unwrap();
    for (ours, theirs, common) in [
        (ProtocolRange::SPOKEN, range(0, 1), 1),
        (ProtocolRange::SPOKEN, range(1, 1), 1),
        (ProtocolRange::SPOKEN, range(1, 2), 2),
        (ProtocolRange::SPOKEN, range(1, 3), 2),
        (range(1, 3), range(2, 5), 3),
        (range(0, 4), range(0, 2), 2),
    ] {
        let (mut a, mut b) = (speaking(1, ours), speaking(2, theirs));
        b.pair_blindly(a.id);
        a.pair(&b);
        let (link_a, link_b) = (a.up().await, b.up().await);
        assert_eq!((link_a.protocol(), link_b.protocol()), (common, common), "{ours} and {theirs}");
        assert_eq!((link_a.hello().protocol, link_b.hello().protocol), (theirs, ours));
        talk(&mut a, &mut b).await;
        talk(&mut b, &mut a).await;
    }
}

/// A device that claims to speak these versions.
fn speaking(seed: u8, protocol: ProtocolRange) -> Device {
    crate::household::Setup { protocol, ..setup(seed) }.start()
}

/// What the next event says about both sides' versions.
async fn refused_version(device: &mut Device) -> VersionMismatch {
    match device.next().await {
        LinkEvent::VersionMismatch { versions: Some(versions), .. } => versions,
        other => panic!("expected a refusal of the version, got {other:?}"),
    }
}

#[tokio::test]
async fn a_device_that_is_unpaired_and_paired_again_is_seen_down_before_it_is_up() {
    let (mut a, mut b, first, _) = linked(1, 2).await;
    // More than the node's events hold, so that the old link still has something to hand on.
    let from_b = b.links.link(a.id).unwrap();
    let sentence = String::new();
    let message = Message::Draining { sentence };
    for _ in 0..EVENTS_AT_LEAST {
        from_b.mux().send(message.clone()).await.unwrap();
        from_b.mux().round_trip().await.unwrap();
    }
    a.links.set_peers(Vec::new());
    first.mux().closed().await;
    b.down().await;
    a.pair(&b);
    b.up().await;
    // Both ends hold the new link by now: the answer comes from beyond HELLO.
    b.links.link(a.id).unwrap().mux().round_trip().await.unwrap();
    loop {
        match a.next().await {
            LinkEvent::Control { .. } => {}
            LinkEvent::Down { link, .. } => break assert_eq!(link, first.number()),
            other => panic!("expected the end of the first link, got {other:?}"),
        }
    }
    let second = a.up().await;
    let kept = a.links.link(b.id).map(|link| link.number());
    assert_eq!(kept, Some(second.number()));
}

/// More events than wait for a node that does not take any.
const EVENTS_AT_LEAST: usize = 258;

#[tokio::test]
async fn p15_a_copied_data_folder_does_not_push_the_first_device_out() {
    let (mut a, mut b, _, link_b) = linked(1, 2).await;
    // The same key from somewhere else. It says HELLO, the first link shows a sign of life, and the
    // second one is sent away.
    let mut copy = raw::greeted(1, &b).await;
    while let Some(Ok(_)) = copy.next().await {}
    talk(&mut a, &mut b).await;
    talk(&mut b, &mut a).await;
    let kept = b.links.link(a.id).map(|link| link.number());
    assert_eq!(kept, Some(link_b.number()));
}

#[tokio::test]
async fn a_link_that_died_unnoticed_gives_way_to_its_device() {
    let mut b = device(2);
    b.pair_blindly(id(1));
    // This connection becomes the link and then never answers: its machine was unplugged.
    let mut dead = raw::greeted(1, &b).await;
    let first = b.up().await;
    assert!(matches!(dead.next().await, Some(Ok(_))), "HELLO is answered");
    let mut alive = raw::greeted(1, &b).await;
    let answer = alive.next().await;
    assert!(matches!(answer, Some(Ok(Frame::Binary(_)))), "{answer:?}");
    b.down().await;
    assert!(b.up().await.number() > first.number());
}

#[tokio::test]
async fn stopping_a_device_ends_every_task_and_tells_the_other_side() {
    let (a, mut b, ..) = linked(1, 2).await;
    a.stop().await;
    let reason = b.down().await;
    assert!(
        matches!(reason, CloseReason::Remote { .. } | CloseReason::Eof | CloseReason::Io { .. }),
        "{reason:?}"
    );
    b.stop().await;
}
