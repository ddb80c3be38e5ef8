//! A release of made-up packages: it is what it says, and whatever is changed behind the signature
//! is found.

use minisign::KeyPair;

use super::*;

const NOW: u64 = 1_790_000_000;

struct Made {
    _around: tempfile::TempDir,
    folder: PathBuf,
    keys: Keys,
    pair: KeyPair,
}

fn made() -> Made {
    let around = tempfile::tempdir().unwrap();
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let package = |name: &str| {
        let path = around.path().join(name);
        fs::write(&path, format!("the bytes of {name}")).unwrap();
        path
    };
    let version = Version::new(0, 2, 0);
    let release = Release {
        version: &version,
        notes: Some("New things.".to_owned()),
        now: NOW,
        valid_days: 2,
        packages: vec![
            (package("Inglenook_0.2.0_amd64.deb"), "linux-x86_64-deb".to_owned()),
            (package("inglenook-0.2.0-linux-x86_64.tar.gz"), "linux-x86_64-portable".to_owned()),
        ],
        models: b"kind = \"inglenook-catalogue\"\n".to_vec(),
        beside: [
            ("inglenook.cdx.json".to_owned(), b"{}".to_vec()),
            ("docs/decisions/one.html".to_owned(), b"<!doctype html>".to_vec()),
        ]
        .into(),
    };
    let folder = around.path().join("release");
    assemble(&release, &pair.sk, &folder).unwrap();
    let keys = Keys::read(&pair.pk.to_base64()).unwrap();
    Made { _around: around, folder, keys, pair }
}

#[test]
fn a_release_is_verified_with_the_code_of_the_updater() {
    let Made { folder, keys, .. } = &made();
    let lines = verify(folder, keys, NOW).unwrap();
    assert!(lines.len() == 2 && lines[1].contains("linux-x86_64-portable"), "{lines:?}");
    assert!(verify(folder, keys, NOW + 2 * DAY_SECONDS).is_err(), "its time is over");
    let other = KeyPair::generate_unencrypted_keypair().unwrap();
    assert!(verify(folder, &Keys::read(&other.pk.to_base64()).unwrap(), NOW).is_err());
    assert!(!is_built_in(folder, NOW).unwrap(), "no key of a release is built in");
    // What `sha256sum --check` reads.
    let sums = fs::read_to_string(folder.join(SUMS_FILE)).unwrap();
    assert!(sums.lines().all(|line| line.as_bytes()[64..66] == *b"  "), "{sums}");
}

#[test]
fn whatever_is_changed_in_a_release_is_found() {
    let names: Vec<String> = files(&made().folder).unwrap().into_keys().collect();
    assert_eq!(names.len(), 10, "{names:?}");
    for name in names {
        let Made { folder, keys, _around, .. } = &made();
        let path = folder.join(&name);
        let mut bytes = fs::read(&path).unwrap();
        // In a signature, past the first line, which is a comment that nobody signs.
        let at = if name.ends_with(SIGNATURE_END) { bytes.len() - 20 } else { bytes.len() / 2 };
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(verify(folder, keys, NOW).is_err(), "{name} was changed");
        fs::remove_file(&path).unwrap();
        assert!(verify(folder, keys, NOW).is_err(), "{name} is missing");
    }
    let Made { folder, keys, .. } = &made();
    fs::write(folder.join("more"), "x").unwrap();
    assert!(verify(folder, keys, NOW).is_err(), "a file that nobody has signed for");
}

#[test]
fn a_key_is_read_with_its_password_and_not_without() {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let text = pair.sk.to_box(None).unwrap().to_string();
    read_key(&text, None).unwrap();
    let (mut public, mut secret) = (Vec::new(), Vec::new());
    let password = Some("of a test".to_owned());
    KeyPair::generate_and_write_encrypted_keypair(&mut public, &mut secret, None, password.clone())
        .unwrap();
    let text = String::from_utf8(secret).unwrap();
    read_key(&text, password).unwrap();
    assert!(read_key(&text, None).is_err());
    assert!(read_key(&text, Some("another".to_owned())).is_err());
    assert!(read_key("no key", None).is_err());
}

#[test]
fn the_parts_list_names_what_is_installed_and_nothing_of_the_tests() {
    let places = Places::find().unwrap();
    let names = |also| -> Vec<String> {
        let list = sbom::of(&places, &Version::new(0, 2, 0), also).unwrap();
        let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
        let parts = list["components"].as_array().unwrap().iter();
        parts.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let only_windows = "webview2-com-sys".to_owned();
    assert!(names(Some(windows::TRIPLE)).contains(&only_windows));
    let names = names(None);
    assert!(!names.contains(&only_windows));
    for wanted in ["nook-cli", "inglenook", "rustls", "tauri", "minisign-verify"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is missing");
    }
    for odd in ["xtask", "nook-testkit", "proptest", "minisign"] {
        assert!(names.iter().all(|name| name != odd), "{odd} is not installed");
    }
}

#[test]
fn the_list_of_models_can_be_renewed_alone_and_no_file_of_a_release_passes_for_another() {
    let Made { folder, keys, pair, .. } = &made();
    let path = folder.join(CATALOGUE_FILE);
    sign(b"kind = \"inglenook-catalogue\" # newer\n", &pair.sk, &path, CATALOGUE_KIND, "").unwrap();
    verify(folder, keys, NOW).unwrap();
    let sums = fs::read_to_string(folder.join(SUMS_FILE)).unwrap();
    assert!(!sums.contains(CATALOGUE_FILE) && sums.contains("  docs/decisions/one.html\n"));
    let signed = |name: &str| {
        let signature = fs::read(folder.join(format!("{name}{SIGNATURE_END}"))).unwrap();
        (fs::read(folder.join(name)).unwrap(), signature)
    };
    for other in [MANIFEST_FILE, SUMS_FILE] {
        let (bytes, signature) = signed(other);
        keys.check(&bytes, &signature).unwrap();
        assert!(signed_catalogue(&bytes, &signature, keys).is_err(), "{other}");
    }
    let (bytes, signature) = signed(CATALOGUE_FILE);
    signed_catalogue(&bytes, &signature, keys).unwrap();
    assert!(read(&bytes, &signature, keys, NOW, 0).is_err());
}
