//! Lists that are signed with keys made here, and what is done to them on the way.

use minisign::KeyPair;

use super::*;

const NOW: u64 = 1_790_000_000;
const DAY: u64 = 86_400;

/// Whoever makes releases.
struct Maker(KeyPair);

impl Maker {
    fn new() -> Self {
        Self(KeyPair::generate_unencrypted_keypair().unwrap())
    }

    fn keys(&self) -> Keys {
        Keys::read(&self.0.pk.to_base64()).unwrap()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        minisign::sign(None, &self.0.sk, bytes, None, None).unwrap().to_bytes()
    }
}

fn manifest() -> Manifest {
    let package = |platform: &str, file: &str| Package {
        platform: platform.to_owned(),
        file: file.to_owned(),
        bytes: 1000,
        sha256: "0a".repeat(32),
    };
    Manifest {
        kind: KIND.to_owned(),
        format: FORMAT,
        version: Version::new(0, 2, 0),
        serial: 7,
        released: NOW - DAY,
        expires: NOW + DAY,
        notes: [("en".to_owned(), "New:\nthings".to_owned())].into(),
        packages: vec![
            package("linux-x86_64-portable", "inglenook-0.2.0.tar.gz"),
            package("windows-x86_64-nsis", "Inglenook-0.2.0.exe"),
        ],
    }
}

fn bytes(manifest: &Manifest) -> Vec<u8> {
    serde_json::to_vec(manifest).unwrap()
}

/// What is read of bytes that the maker has signed.
fn signed(bytes: &[u8]) -> Result<Manifest, Refusal> {
    let maker = Maker::new();
    read(bytes, &maker.sign(bytes), &maker.keys(), NOW, 0)
}

#[track_caller]
fn check_malformed(change: impl FnOnce(&mut Manifest)) {
    let mut manifest = manifest();
    change(&mut manifest);
    let outcome = signed(&bytes(&manifest));
    assert!(matches!(outcome, Err(Refusal::Malformed { .. })), "{outcome:?}");
}

#[test]
fn what_was_signed_is_read_as_it_was_written() {
    assert_eq!(signed(&bytes(&manifest())).unwrap(), manifest());
    let two = format!("{},{}", Maker::new().0.pk.to_base64(), Maker::new().0.pk.to_base64());
    assert!(!Keys::read(&two).unwrap().is_empty());
    assert!(Keys::read("not-a-key").is_err());
}

#[test]
fn u1_a_list_of_another_key_or_changed_bytes_is_refused() {
    let (maker, thief) = (Maker::new(), Maker::new());
    let bytes = bytes(&manifest());
    let by = |signature: &[u8], bytes: &[u8]| read(bytes, signature, &maker.keys(), NOW, 0);
    assert_eq!(by(&thief.sign(&bytes), &bytes), Err(Refusal::WrongKey));
    let good = maker.sign(&bytes);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(by(&good, &changed), Err(Refusal::Changed), "at {at}");
    }
    for longer in [[bytes.as_slice(), b" "].concat(), bytes[..bytes.len() - 1].to_vec(), vec![]] {
        assert_eq!(by(&good, &longer), Err(Refusal::Changed));
    }
    // The thief's signature under the number of the maker's key.
    let lines = |signature: &[u8]| {
        let text = String::from_utf8(signature.to_vec()).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let decode = |text: &str| data_encoding::BASE64.decode(text.as_bytes()).unwrap();
    let (mut forged, good_lines) = (lines(&thief.sign(&bytes)), lines(&good));
    let mut raw = decode(&forged[1]);
    raw[2..10].copy_from_slice(&decode(&good_lines[1])[2..10]);
    forged[1] = data_encoding::BASE64.encode(&raw);
    assert_eq!(by(forged.join("\n").as_bytes(), &bytes), Err(Refusal::Changed));
    for odd in [b"".as_slice(), b"\xff\xfe", b"untrusted comment: x\nAAAA\n"] {
        assert_eq!(by(odd, &bytes), Err(Refusal::NoSignature));
    }
    let none = Keys::read("").unwrap();
    assert_eq!(read(&bytes, &good, &none, NOW, 0), Err(Refusal::NoKey));
    assert!(Keys::built_in().unwrap().is_empty(), "no release has been made");
}

#[test]
fn u2_an_older_list_than_was_seen_is_refused() {
    let maker = Maker::new();
    let bytes = bytes(&manifest());
    let signature = maker.sign(&bytes);
    let seen = |highest| read(&bytes, &signature, &maker.keys(), NOW, highest);
    assert!(seen(6).is_ok() && seen(7).is_ok());
    assert_eq!(seen(8), Err(Refusal::Older { found: 7, seen: 8 }));
}

#[test]
fn u2_a_list_whose_time_is_over_is_refused() {
    let maker = Maker::new();
    let bytes = bytes(&manifest());
    let signature = maker.sign(&bytes);
    let at = |now| read(&bytes, &signature, &maker.keys(), now, 0);
    assert!(at(NOW + DAY - 1).is_ok());
    assert_eq!(at(NOW + DAY), Err(Refusal::Expired { days: 2 }));
}

#[test]
fn u3_an_older_version_and_a_package_for_another_platform_are_refused() {
    let manifest = manifest();
    let offer = |running: &str, platform: &str| manifest.offer(&running.parse().unwrap(), platform);
    let good = offer("0.1.0", "linux-x86_64-portable").unwrap().unwrap();
    assert_eq!(good.package.file, "inglenook-0.2.0.tar.gz");
    assert_eq!(offer("0.2.0-rc.1", "windows-x86_64-nsis").unwrap().unwrap().version.minor, 2);
    assert_eq!(offer("0.2.0", "linux-x86_64-portable"), Ok(None));
    assert_eq!(offer("0.2.0+here", "linux-x86_64-portable"), Ok(None));
    for newer in ["0.2.1", "1.0.0", "0.3.0-rc.1"] {
        let outcome = offer(newer, "linux-x86_64-portable");
        assert!(matches!(outcome, Err(Refusal::Downgrade { .. })), "{outcome:?}");
    }
    let outcome = offer("0.1.0", "linux-aarch64-portable");
    assert!(matches!(outcome, Err(Refusal::NoPackage { .. })), "{outcome:?}");
}

#[test]
fn u1_a_list_of_impossible_form_is_refused_though_it_is_signed() {
    let long = vec![b' '; MANIFEST_BYTES_MAX + 1];
    assert!(matches!(signed(&long), Err(Refusal::TooLarge { .. })));
    for odd in ["", "{}", "[]", "null", "{\"kind\":\"inglenook-update\"}", "\u{0}"] {
        assert!(matches!(signed(odd.as_bytes()), Err(Refusal::Malformed { .. })), "{odd}");
    }
    check_malformed(|it| it.kind = "inglenook-catalogue".to_owned());
    check_malformed(|it| it.serial = 0);
    check_malformed(|it| it.expires = it.released);
    check_malformed(|it| it.packages[0].bytes = 0);
    check_malformed(|it| it.packages[0].bytes = PACKAGE_BYTES_MAX + 1);
    check_malformed(|it| it.packages[0].sha256 = "0A".repeat(32));
    check_malformed(|it| it.packages[1].platform = it.packages[0].platform.clone());
    check_malformed(|it| it.packages = vec![it.packages[0].clone(); PACKAGES_MAX + 1]);
    check_malformed(|it| drop(it.notes.insert("de".to_owned(), "\u{1b}[31m".to_owned())));
    check_malformed(|it| drop(it.notes.insert("de".to_owned(), "x".repeat(NOTES_BYTES_MAX + 1))));
    for file in ["../x", "/x", "a/b", "", ".x", "https://b.example/x", "a b", "a\\b", "x?y"] {
        check_malformed(|it| it.packages[0].file = file.to_owned());
    }
    let mut newer = manifest();
    newer.format = FORMAT + 1;
    assert!(matches!(signed(&bytes(&newer)), Err(Refusal::NewerFormat { .. })));
}

#[test]
fn every_refusal_says_what_to_do() {
    for refusal in [
        Refusal::NoKey,
        Refusal::NoSignature,
        Refusal::WrongKey,
        Refusal::Changed,
        Refusal::Older { found: 1, seen: 2 },
        Refusal::Expired { days: 3 },
    ] {
        let sentence = refusal.to_string();
        let acts = ["Get", "Try again", "install", "Check"];
        assert!(acts.iter().any(|act| sentence.contains(act)), "{sentence}");
    }
}
