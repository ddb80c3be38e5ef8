//! Paired devices and the port's key: what survives what.

use std::fs;
use std::net::SocketAddr;

use nook_base::{MacAddress, PeerId, WakeAddress};
use nook_store::{
    DocumentError, HelpAnswer, Home, HomeChoice, PEER_ADDRESSES_MAX, PEERS_MAX, Peer, Peers,
    PeersError, PortKey, PortKeyError,
};
use nook_trust::{DeviceName, TrustLevel};

fn open(folder: &tempfile::TempDir) -> Home {
    Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home")
}

fn id(number: u8) -> PeerId {
    PeerId([number; 32])
}

fn peer(number: u8) -> Peer {
    Peer {
        id: id(number),
        name: DeviceName::sanitised("Dad's PC"),
        level: TrustLevel::Guest,
        addresses: vec![at("192.168.1.5:4000")],
        paired_at: 1_800_000_000,
        last_seen: None,
        help: HelpAnswer::Open,
        wake: Vec::new(),
        woke_seconds: None,
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn what_is_paired_is_there_after_a_restart_with_its_level_and_order() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut peers = Peers::load(&home).unwrap();
    assert!(peers.list().is_empty());
    peers.add(peer(1)).unwrap();
    peers.add(peer(2)).unwrap();
    peers.set_level(id(2), TrustLevel::Own, HelpAnswer::OnlyThis).unwrap();
    peers.rename(id(1), DeviceName::sanitised("Desk")).unwrap();
    let again = Peers::load(&home).unwrap();
    assert_eq!(again.list(), peers.list());
    assert_eq!(
        again.levels().collect::<Vec<_>>(),
        [(id(1), TrustLevel::Guest), (id(2), TrustLevel::Own)]
    );
    let help = |peers: &Peers| peers.list().iter().map(|peer| peer.help).collect::<Vec<_>>();
    assert_eq!(help(&again), [HelpAnswer::Open, HelpAnswer::OnlyThis]);
    assert_eq!(again.only_helped().collect::<Vec<_>>(), [id(2)]);
    peers.remove(id(1)).unwrap();
    assert_eq!(peers.remove(id(1)), Err(PeersError::NotPaired { id: id(1) }));
    assert_eq!(Peers::load(&home).unwrap().list().len(), 1);
}

#[test]
fn pairing_again_keeps_addresses_and_takes_the_new_level() {
    let folder = tempfile::tempdir().unwrap();
    let mut peers = Peers::load(&open(&folder)).unwrap();
    peers.add(peer(1)).unwrap();
    let again =
        Peer { level: TrustLevel::Trusted, addresses: vec![at("10.0.0.1:4000")], ..peer(1) };
    peers.add(again).unwrap();
    let kept = peers.get(id(1)).unwrap();
    assert_eq!(kept.level, TrustLevel::Trusted);
    assert_eq!(kept.addresses, [at("10.0.0.1:4000"), at("192.168.1.5:4000")]);
}

#[test]
fn addresses_are_ordered_by_last_success_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut peers = Peers::load(&open(&folder)).unwrap();
    peers.add(peer(1)).unwrap();
    for n in 1..=20 {
        let address = at(&format!("192.168.1.{n}:4000"));
        peers.note_reached(id(1), Some(address), 1000 + n).unwrap();
    }
    let known = peers.get(id(1)).unwrap();
    assert_eq!(known.addresses.len(), PEER_ADDRESSES_MAX);
    assert_eq!(known.addresses[0], at("192.168.1.20:4000"));
    assert_eq!(known.last_seen, Some(1020));
}

#[test]
fn a_quiet_link_does_not_wear_out_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut peers = Peers::load(&home).unwrap();
    peers.add(peer(1)).unwrap();
    let address = Some(at("192.168.1.5:4000"));
    peers.note_reached(id(1), address, 1000).unwrap();
    let file = home.data().join("peers.json");
    fs::remove_file(&file).unwrap();
    peers.note_reached(id(1), address, 1059).unwrap();
    assert!(!file.exists(), "no news, no write");
    peers.note_reached(id(1), address, 1060).unwrap();
    assert!(file.exists());
    peers.note_reached(id(1), address, 10).unwrap();
    assert_eq!(peers.get(id(1)).unwrap().last_seen, Some(10), "clock set back");
}

#[test]
fn a_damaged_list_lets_nobody_in_and_is_left_as_it_is() {
    let good = r#"{"version":1,"peers":[{"id":"ID","name":"x","level":"own","addresses":[],"paired_at":1,"last_seen":null}]}"#
        .replace("ID", &id(1).to_string());
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let file = home.data().join("peers.json");
    fs::write(&file, &good).unwrap();
    let old = Peers::load(&home).unwrap();
    assert_eq!(old.list()[0].help, HelpAnswer::ByTrust, "who was trusted before is not asked");

    let twice = {
        let entry = &good[good.find("[{").unwrap() + 1..good.len() - 2];
        good.replace(entry, &format!("{entry},{entry}"))
    };
    let bad = [
        String::new(),
        "{}".to_owned(),
        "[]".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("own", "unknown"),
        good.replace("own", "emperor"),
        good.replace(&id(1).to_string(), "ABCD"),
        good.replace("\"addresses\":[]", "\"addresses\":[\"nowhere\"]"),
        twice,
    ];
    for text in bad {
        fs::write(&file, &text).unwrap();
        let error = Peers::load(&home).unwrap_err();
        assert!(
            matches!(error, PeersError::Document(DocumentError::Damaged { .. })),
            "{text}: {error}"
        );
        assert!(error.to_string().contains("no device is let in"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::write(&file, good.replace("\"version\":1", "\"version\":2")).unwrap();
    assert!(matches!(
        Peers::load(&home),
        Err(PeersError::Document(DocumentError::Newer { found: 2, known: 1, .. }))
    ));
}

#[test]
fn the_list_has_an_end_and_levels_make_sense() {
    let folder = tempfile::tempdir().unwrap();
    let mut peers = Peers::load(&open(&folder)).unwrap();
    let level = TrustLevel::Unknown;
    assert_eq!(peers.add(Peer { level, ..peer(1) }), Err(PeersError::NoSuchLevel { level }));
    for number in 0..=u8::try_from(PEERS_MAX).unwrap() {
        let added = peers.add(peer(number));
        assert_eq!(added.is_ok(), usize::from(number) < PEERS_MAX);
    }
    assert_eq!(peers.list().len(), PEERS_MAX);
}

#[cfg(unix)]
#[test]
fn m4_a_folder_that_cannot_be_written_leaves_the_old_list_in_force() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut peers = Peers::load(&home).unwrap();
    peers.add(peer(1)).unwrap();
    let set = |mode| fs::set_permissions(home.data(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o500);
    if fs::write(home.data().join("probe"), "x").is_ok() {
        // The superuser writes everywhere; block the name of the temporary file's target instead.
        set(0o700);
        fs::remove_file(home.data().join("peers.json")).unwrap();
        fs::create_dir_all(home.data().join("peers.json/in-the-way")).unwrap();
    }
    let refused = peers.set_level(id(1), TrustLevel::Own, HelpAnswer::ByTrust);
    set(0o700);
    assert!(matches!(refused, Err(PeersError::Save(_))), "{refused:?}");
    assert_eq!(peers.get(id(1)).unwrap().level, TrustLevel::Guest);
}

#[test]
fn the_ports_key_is_made_once_kept_private_and_never_shown_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let key = PortKey::load_or_create(&home).unwrap();
    assert_eq!(PortKey::load_or_create(&home).unwrap(), key);
    assert!(key.is(key.reveal()) && !key.is("") && !key.is("nook-x"));
    assert!(key.reveal().len() >= 48);
    assert!(!format!("{key:?}").contains(&key.reveal()[5..]));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(home.data().join("port.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let new = PortKey::replace(&home).unwrap();
    assert!(!new.is(key.reveal()) && PortKey::load_or_create(&home).unwrap() == new);
    let path = home.data().join("port.key");
    for rubbish in ["", "secret", "nook-", "nook-AAAA"] {
        fs::write(&path, rubbish).unwrap();
        let error = PortKey::load_or_create(&home).unwrap_err();
        assert_eq!(error, PortKeyError::Damaged { path: path.clone() });
    }
}

#[test]
fn how_a_device_is_woken_and_how_long_that_took_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut peers = Peers::load(&home).unwrap();
    peers.add(peer(1)).unwrap();
    let mac = MacAddress([2, 0x42, 0xac, 0x11, 0, 9]);
    let wake = vec![WakeAddress::new(mac, [192, 168, 1, 5].into(), 24).unwrap()];
    peers.note_wake(id(1), wake.clone()).unwrap();
    peers.note_woken(id(1), 22).unwrap();
    let kept = Peers::load(&home).unwrap();
    let kept = kept.get(id(1)).unwrap();
    assert_eq!((&kept.wake, kept.woke_seconds), (&wake, Some(22)));
    peers.note_wake(id(1), Vec::new()).unwrap();
    assert_eq!(Peers::load(&home).unwrap().get(id(1)).unwrap().wake, []);
    assert!(matches!(peers.note_wake(id(2), wake), Err(PeersError::NotPaired { .. })));
}
