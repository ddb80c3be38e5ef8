//! What the gate, names, keys, codes and windows promise.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashSet;
use std::time::Duration;

use nook_trust::pairing::code::CodeError;
use nook_trust::pairing::window::{WINDOW, WINDOWS_MAX, WINDOWS_PERIOD};
use nook_trust::pairing::{PairingCode, PairingWindows, WindowRefusal, WrongCode};
use nook_trust::purpose::{AdmissionPurpose, Borrow, CopyModels, Lend, RemoteWhole};
use nook_trust::{
    DeviceKey, DeviceName, DevicePublicKey, Gate, GatePolicy, KeyError, PeerId, Refusal, TrustLevel,
};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

fn peer(byte: u8) -> PeerId {
    PeerId([byte; 32])
}

fn everybody() -> Gate {
    let levels = TrustLevel::ALL.into_iter().zip(0u8..);
    Gate::new(GatePolicy::DEFAULT, levels.map(|(level, byte)| (peer(byte), level)))
}

#[test]
fn each_purpose_takes_its_level_and_no_less() {
    let gate = everybody();
    assert_eq!(let_in::<Lend>(&gate), [3, 4]);
    assert_eq!(let_in::<Borrow>(&gate), [3, 4]);
    assert_eq!(let_in::<CopyModels>(&gate), [3, 4]);
    assert_eq!(let_in::<RemoteWhole>(&gate), [4]);
}

/// Whom the gate lets in. A proof names its device, and asking without one gives the same answer.
fn let_in<P: AdmissionPurpose>(gate: &Gate) -> Vec<u8> {
    let admits = |byte: &u8| {
        let admitted = gate.admit::<P>(peer(*byte)).map(|admitted| admitted.peer());
        assert_eq!(admitted, gate.check(peer(*byte), P::PURPOSE).map(|()| peer(*byte)));
        admitted.is_ok()
    };
    (0..=5).filter(admits).collect()
}

#[test]
fn a_device_that_is_only_helped_sees_nothing_of_prompts_here() {
    let gate = everybody().helping_only([peer(4)]);
    assert_eq!(let_in::<Lend>(&gate), [3, 4]);
    assert_eq!(let_in::<CopyModels>(&gate), [3, 4]);
    assert_eq!(let_in::<Borrow>(&gate), [3]);
    assert_eq!(let_in::<RemoteWhole>(&gate), [0; 0]);
    let refused = gate.check(peer(4), nook_trust::Purpose::Borrow);
    assert_eq!(refused, Err(Refusal::OnlyHelped { peer: peer(4) }));
    // Being helped adds nothing to what a level allows.
    let gate = everybody().helping_only([peer(0), peer(2), peer(9)]);
    assert_eq!(let_in::<Lend>(&gate), [3, 4]);
}

#[test]
fn a_refusal_says_what_is_missing() {
    let gate = everybody();
    let refusal = |byte| gate.admit::<Lend>(peer(byte)).unwrap_err();
    assert_eq!(refusal(0), Refusal::Blocked { peer: peer(0) });
    assert_eq!(refusal(1), Refusal::NotPaired { peer: peer(1) });
    assert_eq!(refusal(9), Refusal::NotPaired { peer: peer(9) });
    let guest = Refusal::TooLittleTrust {
        peer: peer(2),
        has: TrustLevel::Guest,
        needs: TrustLevel::Trusted,
    };
    assert_eq!(refusal(2), guest);
}

#[test]
fn no_setting_opens_the_gate_to_strangers() {
    let open = GatePolicy {
        lend: TrustLevel::Blocked,
        borrow: TrustLevel::Unknown,
        ..GatePolicy::DEFAULT
    };
    let gate = Gate::new(open, [(peer(0), TrustLevel::Blocked)]);
    assert!(let_in::<Lend>(&gate).is_empty());
    assert!(let_in::<Borrow>(&gate).is_empty());
}

#[test]
fn no_setting_lets_words_go_to_another_persons_device() {
    for level in TrustLevel::ALL {
        let levels = TrustLevel::ALL.into_iter().zip(0u8..);
        let levels = levels.map(|(level, byte)| (peer(byte), level));
        let policy = GatePolicy { lend: level, borrow: level, copy: level };
        let gate = Gate::new(policy, levels);
        let refused = |byte| gate.admit::<RemoteWhole>(peer(byte)).is_err();
        assert!((0..=3).all(refused) && !refused(4), "{level}");
    }
}

#[test]
fn levels_are_ordered_and_survive_their_names() {
    assert!(TrustLevel::ALL.is_sorted());
    for level in TrustLevel::ALL {
        assert_eq!(level.name().parse(), Ok(level));
    }
    assert!("Own".parse::<TrustLevel>().is_err());
    let names = TrustLevel::ALL.map(TrustLevel::name);
    assert_eq!(names, ["blocked", "unknown", "guest", "trusted", "own"]);
    assert_eq!(TrustLevel::ALL.map(TrustLevel::may_connect), [false, false, true, true, true]);
}

#[test]
fn p12_hostile_names_become_harmless() {
    let check = |raw: &str, expected: &str| {
        assert_eq!(DeviceName::sanitised(raw).as_str(), expected, "{raw:?}");
    };
    check("Mum's PC", "Mum's PC");
    check("  two\n\tlines ", "two lines");
    check("evil\u{202e}gnp.exe", "evilgnp.exe");
    check("a\0b\u{7}c\u{1b}[31m", "abc[31m");
    check("in\u{200b}vis\u{feff}ible\u{2060}", "invisible");
    check("<b>bold</b>", "<b>bold</b>"); // text only: the window never reads it as markup
    check("👩\u{200d}👩\u{200d}👧", "👩👩👧");
    check("\u{e0041}\u{e007f}", "Unnamed device");
    check("", "Unnamed device");
    check(" \u{3000} ", "Unnamed device");
    check(&"x".repeat(10_000), &"x".repeat(40));
    check(&format!("a{}", "\u{301}".repeat(500)), "Unnamed device");
}

#[test]
fn names_read_from_a_file_are_sanitised_too() {
    let name = DeviceName::from("ok\u{202e}".to_owned());
    assert_eq!(String::from(name), "ok");
}

#[test]
fn keys_survive_being_stored() {
    let key = DeviceKey::generate().unwrap();
    let again = DeviceKey::from_pkcs8(&key.to_pkcs8().unwrap()).unwrap();
    assert_eq!(again.peer_id(), key.peer_id());
    assert_eq!(DeviceKey::from_seed(&key.to_seed()).peer_id(), key.peer_id());
    assert!(DeviceKey::from_pkcs8(b"nonsense").is_err());
    let public = DevicePublicKey::from_spki(&key.public().to_spki()).unwrap();
    assert_eq!(public.peer_id(), key.peer_id());
    assert_ne!(DeviceKey::generate().unwrap().peer_id(), key.peer_id(), "two keys, one id");
}

#[test]
fn signatures_belong_to_one_key_and_one_message() {
    let (key, other) = (DeviceKey::generate().unwrap(), DeviceKey::generate().unwrap());
    let signature = key.sign(b"ticket");
    assert!(key.public().verify(b"ticket", &signature).is_ok());
    assert!(key.public().verify(b"other", &signature).is_err());
    assert!(other.public().verify(b"ticket", &signature).is_err());
}

#[test]
fn only_the_one_form_of_an_ed25519_key_has_an_id() {
    let spki = DeviceKey::generate().unwrap().public().to_spki();
    let mut other_algorithm = spki;
    other_algorithm[8] = 0x71;
    for odd in [&spki[..43], &other_algorithm[..], &[spki.as_slice(), &[0]].concat(), b""] {
        assert_eq!(DevicePublicKey::from_spki(odd), Err(KeyError::NotEd25519));
    }
    let mut neutral = spki;
    neutral[12..].fill(0);
    neutral[12] = 1;
    assert_eq!(DevicePublicKey::from_spki(&neutral), Err(KeyError::Weak));
}

#[test]
fn the_debug_output_of_a_key_is_its_id() {
    let key = DeviceKey::generate().unwrap();
    assert_eq!(format!("{key:?}"), format!("DeviceKey({})", key.peer_id().short()));
}

#[test]
fn codes_are_six_digits_however_they_are_typed() {
    for typed in ["427901", " 427 901 ", "427-901", "4 2 7\u{2013}9 0 1", "427\u{a0}901"] {
        assert_eq!(PairingCode::parse(typed).unwrap().shown(), "427 901");
    }
    let error = |typed| PairingCode::parse(typed).unwrap_err();
    assert_eq!(error("42790"), CodeError::WrongLength { got: 5 });
    assert_eq!(error("4279011"), CodeError::WrongLength { got: 7 });
    assert_eq!(error(""), CodeError::WrongLength { got: 0 });
    assert_eq!(error("42790x"), CodeError::NotDigits);
    assert_eq!(error("٤٢٧٩٠١"), CodeError::NotDigits);
}

#[test]
fn drawn_codes_are_codes_and_use_every_digit_in_every_place() {
    let mut seen = [[false; 10]; 6];
    let mut different = HashSet::new();
    for _ in 0..2_000 {
        let shown = PairingCode::draw().shown();
        assert!(PairingCode::parse(&shown).is_ok());
        different.insert(shown.clone());
        let digits = shown.chars().filter_map(|c| c.to_digit(10));
        for (place, digit) in digits.enumerate() {
            seen[place][digit as usize] = true;
        }
    }
    assert_eq!(seen, [[true; 10]; 6]);
    // Of a million, two are the same among so many by chance; digits that hang together would be
    // the same far more often.
    assert!(different.len() > 1_950, "only {} of 2000", different.len());
}

#[test]
fn p1_the_third_wrong_code_burns_the_window() {
    let now = nook_base::clock::now();
    let mut windows = PairingWindows::new();
    windows.open(now).unwrap();
    assert_eq!(windows.wrong_code(now), WrongCode::TriesLeft(2));
    assert_eq!(windows.wrong_code(now), WrongCode::TriesLeft(1));
    assert_eq!(windows.wrong_code(now), WrongCode::Burnt);
    assert!(windows.check_open(now).is_err());
    assert_eq!(windows.wrong_code(now), WrongCode::Burnt);
}

#[test]
fn p2_a_window_closes_after_its_time_and_not_before() {
    let now = nook_base::clock::now();
    let mut windows = PairingWindows::new();
    assert_eq!(windows.open(now), Ok(now + WINDOW));
    assert_eq!(windows.open(now), Err(WindowRefusal::AlreadyOpen));
    assert!(windows.check_open(now + WINDOW - Duration::from_nanos(1)).is_ok());
    assert!(windows.check_open(now + WINDOW).is_err());
    assert!(windows.open(now + WINDOW).is_ok());
    windows.close();
    assert!(windows.check_open(now + WINDOW).is_err());
}

#[test]
fn a_sixth_window_in_an_hour_has_to_wait() {
    let now = nook_base::clock::now();
    let mut windows = PairingWindows::new();
    for minute in 0..WINDOWS_MAX as u32 {
        windows.open(now + Duration::from_secs(60) * minute).unwrap();
        windows.close();
    }
    let later = now + Duration::from_secs(600);
    let retry_in = WINDOWS_PERIOD - Duration::from_secs(600);
    assert_eq!(windows.open(later), Err(WindowRefusal::TooMany { retry_in }));
    assert!(windows.open(later + retry_in).is_ok());
}

proptest! {
    #[test]
    fn every_name_is_short_visible_and_stable(raw: String) {
        let name = DeviceName::sanitised(&raw);
        prop_assert!(!name.as_str().is_empty());
        prop_assert!(name.as_str().graphemes(true).count() <= 40);
        prop_assert!(name.as_str().len() <= 160);
        prop_assert!(!name.as_str().chars().any(char::is_control));
        prop_assert_eq!(DeviceName::sanitised(name.as_str()), name);
    }
}
