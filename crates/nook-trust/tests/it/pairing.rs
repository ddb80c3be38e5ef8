//! Pairing in memory: every row of the list of hostile inputs that needs no socket.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_trust::pairing::{
    EXPORTER_BYTES, Exchange, Introduction, PairingChannel, PairingCode, PairingError, Progress,
    ProvenPeer, RefusalReason, Role, refusal,
};
use nook_trust::{DeviceKey, DeviceName, PeerId};
use proptest::prelude::*;
use zeroize::Zeroizing;

/// Position of the SPAKE2 message, counted from the end of an introduction.
const PAKE_BYTES: usize = 33;

struct Side {
    key: DeviceKey,
    name: &'static str,
    code: &'static str,
    exporter: u8,
}

fn device(name: &'static str, seed: u8, code: &'static str) -> Side {
    Side { key: DeviceKey::from_seed(&Zeroizing::new([seed; 32])), name, code, exporter: 7 }
}

fn introduction(name: &str) -> Introduction {
    Introduction {
        name: DeviceName::sanitised(name),
        app_version: "0.1.0".to_owned(),
        protocol: (1, 1),
        port: 4588,
    }
}

fn start(role: Role, side: &Side, peer: PeerId) -> (Exchange, Vec<u8>) {
    start_as(role, side, peer, introduction(side.name))
}

fn start_as(role: Role, side: &Side, peer: PeerId, own: Introduction) -> (Exchange, Vec<u8>) {
    let exporter = Zeroizing::new([side.exporter; EXPORTER_BYTES]);
    let channel = PairingChannel::new(side.key.peer_id(), peer, exporter).unwrap();
    let code = PairingCode::parse(side.code).unwrap();
    Exchange::start(role, &code, channel, own)
}

/// Both sides, introduced to each other; the bytes are the proof of the side that typed.
fn introduced(a: &Side, b: &Side) -> (Exchange, Exchange, Result<Vec<u8>, PairingError>) {
    let (mut shower, first) = start(Role::ShowCode, a, b.key.peer_id());
    let (mut typer, second) = start(Role::TypeCode, b, a.key.peer_id());
    assert_eq!(shower.receive(&second), Ok(Progress::Wait));
    let proof = typer.receive(&first).map(|progress| match progress {
        Progress::Send(proof) => proof,
        other => panic!("expected a proof, got {other:?}"),
    });
    (shower, typer, proof)
}

#[test]
fn the_same_code_over_the_same_channel_pairs_both() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427 901"));
    let (mut shower, mut typer, proof) = introduced(&a, &b);
    let laptop = ProvenPeer { id: b.key.peer_id(), introduction: introduction("laptop") };
    assert_eq!(shower.receive(&proof.unwrap()), Ok(Progress::Store(laptop)));
    let proof = shower.stored().unwrap();
    let desk = ProvenPeer { id: a.key.peer_id(), introduction: introduction("desk") };
    assert_eq!(typer.receive(&proof), Ok(Progress::Store(desk)));
    let stored = typer.stored().unwrap();
    assert_eq!(shower.receive(&stored), Ok(Progress::Finished));
}

#[test]
fn p1_another_code_fails_at_the_side_that_shows_it() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427902"));
    let (mut shower, _, proof) = introduced(&a, &b);
    assert_eq!(shower.receive(&proof.unwrap()), Err(PairingError::WrongCode));
    assert!(PairingError::WrongCode.is_attempt());
    assert_eq!(shower.stored(), Err(PairingError::OutOfTurn));
}

#[test]
fn one_exchange_takes_one_guess() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let (mut shower, _, proof) = introduced(&a, &b);
    let proof = proof.unwrap();
    let mut wrong = proof.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(shower.receive(&wrong), Err(PairingError::WrongCode));
    assert_eq!(shower.receive(&proof), Err(PairingError::OutOfTurn));
}

#[test]
fn p3_somebody_between_two_tls_sessions_fails_with_the_right_code() {
    let (mut a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    a.exporter = 8;
    // Relayed as they are, the messages belong to two channels.
    let (mut shower, mut typer, proof) = introduced(&a, &b);
    assert_eq!(shower.receive(&proof.unwrap()), Err(PairingError::WrongCode));
    assert_eq!(shower.stored(), Err(PairingError::OutOfTurn));
    // Whatever the middle makes up as the answer fails too.
    let forged = [&[2][..], &[0; 32]].concat();
    assert_eq!(typer.receive(&forged), Err(PairingError::WrongCode));
    assert_eq!(typer.stored(), Err(PairingError::OutOfTurn));
}

#[test]
fn p3_the_ids_of_the_tls_sessions_are_part_of_the_proof() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let middle = device("middle", 3, "000000").key.peer_id();
    let (mut shower, first) = start(Role::ShowCode, &a, middle);
    let (mut typer, second) = start(Role::TypeCode, &b, middle);
    assert_eq!(shower.receive(&second), Ok(Progress::Wait));
    let Ok(Progress::Send(proof)) = typer.receive(&first) else {
        panic!("the introduction is fine");
    };
    assert_eq!(shower.receive(&proof), Err(PairingError::WrongCode));
}

#[test]
fn p3_a_changed_name_or_version_breaks_the_proof() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    for (index, what) in [(3, "highest version"), (5, "port"), (8, "name")] {
        let (mut shower, first) = start(Role::ShowCode, &a, b.key.peer_id());
        let (mut typer, mut second) = start(Role::TypeCode, &b, a.key.peer_id());
        second[index] ^= 2;
        assert_eq!(shower.receive(&second), Ok(Progress::Wait), "{what}");
        let Ok(Progress::Send(proof)) = typer.receive(&first) else {
            panic!("the introduction is fine");
        };
        assert_eq!(shower.receive(&proof), Err(PairingError::WrongCode), "{what}");
    }
}

#[test]
fn p4_reflected_messages_are_refused() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    // The introduction comes straight back: its SPAKE2 message is of the wrong side.
    let (mut shower, first) = start(Role::ShowCode, &a, b.key.peer_id());
    assert_eq!(shower.receive(&first), Err(PairingError::PeerMisbehaved));
    // The side byte is repaired: the proof still cannot be made.
    let (mut shower, mut first) = start(Role::ShowCode, &a, b.key.peer_id());
    let side = first.len() - PAKE_BYTES;
    first[side] = b'B';
    assert_eq!(shower.receive(&first), Ok(Progress::Wait));
    let forged = [&[2][..], &[0; 32]].concat();
    assert_eq!(shower.receive(&forged), Err(PairingError::WrongCode));
    // The proof comes straight back.
    let (_, mut typer, proof) = introduced(&a, &b);
    assert_eq!(typer.receive(&proof.unwrap()), Err(PairingError::WrongCode));
}

#[test]
fn p4_wrong_lengths_are_refused_and_count_as_an_attempt() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let (_, whole) = start(Role::TypeCode, &b, a.key.peer_id());
    let huge = [whole.clone(), vec![0; 64 << 10]].concat();
    let longer = [whole.clone(), vec![0]].concat();
    let mut hostile = vec![Vec::new(), huge, longer];
    hostile.extend((1..whole.len()).map(|length| whole[..length].to_vec()));
    for bytes in hostile {
        let (mut shower, _) = start(Role::ShowCode, &a, b.key.peer_id());
        let error = shower.receive(&bytes).unwrap_err();
        assert_eq!(error, PairingError::PeerMisbehaved, "{}", bytes.len());
        assert!(error.is_attempt());
    }
    for length in [0, 31, 33] {
        let (mut shower, _, _) = introduced(&a, &b);
        let proof = [vec![2], vec![0; length]].concat();
        assert_eq!(shower.receive(&proof), Err(PairingError::PeerMisbehaved));
    }
}

#[test]
fn p4_points_that_no_honest_device_sends_are_refused() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut not_canonical = [0xff; 32]; // y = p + 1: the neutral point, written oddly
    not_canonical[0] = 0xee;
    not_canonical[31] = 0x7f;
    let order_two = {
        let mut y = [0xff; 32]; // y = -1
        y[0] = 0xec;
        y[31] = 0x7f;
        y
    };
    // One of the points of order eight.
    let order_eight = [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ];
    let no_point = [2; 32];
    for point in [[0; 32], neutral, not_canonical, order_two, order_eight, no_point, mixed_order()]
    {
        let (mut shower, _) = start(Role::ShowCode, &a, b.key.peer_id());
        let (_, mut bytes) = start(Role::TypeCode, &b, a.key.peer_id());
        let at = bytes.len() - 32;
        bytes[at..].copy_from_slice(&point);
        assert_eq!(shower.receive(&bytes), Err(PairingError::PeerMisbehaved), "{point:02x?}");
    }
}

/// The base point plus a point of order two: valid, canonical, not small, and still no honest one.
fn mixed_order() -> [u8; 32] {
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
    (ED25519_BASEPOINT_POINT + EIGHT_TORSION[4]).compress().to_bytes()
}

#[test]
fn p5_our_own_key_is_the_same_device() {
    let a = device("desk", 1, "427901");
    let exporter = Zeroizing::new([0; EXPORTER_BYTES]);
    let channel = PairingChannel::new(a.key.peer_id(), a.key.peer_id(), exporter);
    assert_eq!(channel.unwrap_err(), PairingError::SameDevice);
}

#[test]
fn p13_what_a_peer_adds_about_trust_is_ignored() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let (mut shower, first) = start(Role::ShowCode, &a, b.key.peer_id());
    let (mut typer, second) = start(Role::TypeCode, &b, a.key.peer_id());
    let extension = second.len() - PAKE_BYTES - 1;
    let mut asking = second.clone();
    asking[extension] = 9;
    asking.splice(extension + 1..=extension, *b"trust=own");
    // The message is well formed; its wish goes nowhere, as a proven peer has no place for it. (The
    // proof fails because the extension was added on the way, not by the device itself.)
    assert_eq!(shower.receive(&asking), Ok(Progress::Wait));
    let Ok(Progress::Send(proof)) = typer.receive(&first) else {
        panic!("the introduction is fine");
    };
    assert_eq!(shower.receive(&proof), Err(PairingError::WrongCode));
}

#[test]
fn f13_devices_without_a_common_version_say_so() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
    let newer = Introduction { protocol: (2, 3), ..introduction("laptop") };
    let (mut shower, _) = start(Role::ShowCode, &a, b.key.peer_id());
    let (_, second) = start_as(Role::TypeCode, &b, a.key.peer_id(), newer);
    assert_eq!(shower.receive(&second), Err(PairingError::VersionMismatch));
    let (mut shower, _) = start(Role::ShowCode, &a, b.key.peer_id());
    assert_eq!(shower.receive(&[1, 9, 0, 0, 1, 2, 3]), Err(PairingError::VersionMismatch));
}

#[test]
fn a_refusal_reaches_the_person_who_typed() {
    let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "000000"));
    let (_, mut typer, _) = introduced(&a, &b);
    let error = typer.receive(&refusal(RefusalReason::WrongCode, 2)).unwrap_err();
    assert_eq!(error.to_string(), "That was the wrong code; tries left: 2.");
    let told = |tries_left| {
        let reason = RefusalReason::WrongCode;
        PairingError::RefusedByPeer { reason, tries_left }.to_string()
    };
    assert_eq!(told(1), "That was the wrong code; tries left: 1.");
    assert_eq!(told(0), "That was the wrong code. Show a new one on the other device.");
}

#[test]
fn only_what_may_have_been_a_guess_counts_as_one() {
    let reason = RefusalReason::WrongCode;
    for (error, is_attempt) in [
        (PairingError::WrongCode, true),
        (PairingError::PeerMisbehaved, true),
        (PairingError::OutOfTurn, true),
        (PairingError::SameDevice, false),
        (PairingError::VersionMismatch, false),
        (PairingError::RefusedByPeer { reason, tries_left: 1 }, false),
    ] {
        assert_eq!(error.is_attempt(), is_attempt, "{error:?}");
    }
}

#[test]
fn codes_and_keys_do_not_show_in_debug_output() {
    let a = device("desk", 1, "427901");
    let (exchange, _) = start(Role::ShowCode, &a, PeerId([9; 32]));
    let shown = format!("{exchange:?} {:?}", PairingCode::parse("427901").unwrap());
    assert!(!shown.contains("427901"));
    assert!(shown.ends_with(" <sensitive>"), "{shown}");
    // The exporter is all sevens; the public message is chance, and may hold two of them.
    assert!(!shown.contains("7, 7, 7, 7, 7, 7"), "{shown}");
}

proptest! {
    // Each case is a handful of curve operations, slow in an unoptimised build.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_can_panic_an_exchange(first: Vec<u8>, second: Vec<u8>) {
        let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
        let (mut shower, _, _) = introduced(&a, &b);
        prop_assert!(shower.receive(&first).is_err());
        let (mut typer, _) = start(Role::TypeCode, &b, a.key.peer_id());
        let _ = typer.receive(&first);
        let _ = typer.receive(&second);
        prop_assert!(typer.stored().is_err());
    }

    #[test]
    fn a_damaged_introduction_never_pairs(index in 0usize..80, bit in 0u8..8) {
        let (a, b) = (device("desk", 1, "427901"), device("laptop", 2, "427901"));
        let (mut shower, first) = start(Role::ShowCode, &a, b.key.peer_id());
        let (mut typer, mut second) = start(Role::TypeCode, &b, a.key.peer_id());
        let index = index % second.len();
        second[index] ^= 1 << bit;
        if shower.receive(&second).is_ok() {
            let Ok(Progress::Send(proof)) = typer.receive(&first) else {
                panic!("the introduction is fine");
            };
            prop_assert_eq!(shower.receive(&proof), Err(PairingError::WrongCode));
        }
    }
}
