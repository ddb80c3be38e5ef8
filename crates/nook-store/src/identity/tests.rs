//! Every state that keyring, secret file and id file can be in, and what comes of it.

use std::cell::RefCell;

use super::*;
use crate::home::HomeChoice;

/// A keyring whose behaviour the test picks.
#[derive(Default)]
struct FakeKeyring {
    secret: RefCell<Option<String>>,
    trouble: Option<KeyringTrouble>,
    forgets: bool,
    refuses_writes: bool,
}

impl SecretStore for FakeKeyring {
    fn read(&self) -> Result<Option<Zeroizing<String>>, KeyringTrouble> {
        match &self.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => Ok(self.secret.borrow().clone().map(Zeroizing::new)),
        }
    }

    fn write(&self, secret: &str) -> Result<(), KeyringTrouble> {
        if self.refuses_writes {
            return Err(KeyringTrouble::Locked);
        }
        if !self.forgets {
            *self.secret.borrow_mut() = Some(secret.to_owned());
        }
        Ok(())
    }
}

struct Household {
    _folder: tempfile::TempDir,
    home: Home,
}

impl Household {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home");
        Self { _folder: folder, home }
    }

    fn start(&self, keyring: Option<&FakeKeyring>) -> Result<(DeviceKey, Where), IdentityError> {
        Files::of(&self.home).load_or_mint(keyring.map(|k| k as &dyn SecretStore))
    }

    fn has(&self, file: &str) -> bool {
        self.home.file(file).exists()
    }
}

fn locked() -> FakeKeyring {
    FakeKeyring { trouble: Some(KeyringTrouble::Locked), ..FakeKeyring::default() }
}

#[test]
fn the_first_start_mints_into_the_keyring_and_later_ones_find_it() {
    let (house, keyring) = (Household::new(), FakeKeyring::default());
    let (key, place) = house.start(Some(&keyring)).unwrap();
    assert_eq!(place, Where::Keyring);
    assert!(!house.has(SECRET_FILE) && house.has(PUBLIC_FILE));
    let (again, place) = house.start(Some(&keyring)).unwrap();
    assert_eq!((again.peer_id(), place), (key.peer_id(), Where::Keyring));
}

#[test]
fn without_a_working_keyring_the_key_is_kept_in_a_private_file_with_the_reason() {
    let broken = [
        (locked(), KeyringTrouble::Locked),
        (FakeKeyring { forgets: true, ..FakeKeyring::default() }, KeyringTrouble::Forgets),
        (FakeKeyring { refuses_writes: true, ..FakeKeyring::default() }, KeyringTrouble::Locked),
    ];
    for (keyring, trouble) in broken {
        let house = Household::new();
        let (key, place) = house.start(Some(&keyring)).unwrap();
        let path = house.home.file(SECRET_FILE);
        let why = WhyFile::KeyringFailed(trouble);
        assert_eq!(place, Where::File { path, why });
        // The keyring works later: the file still is the identity.
        let (again, place) = house.start(Some(&FakeKeyring::default())).unwrap();
        assert_eq!(again.peer_id(), key.peer_id());
        assert!(matches!(place, Where::File { why: WhyFile::FoundThere, .. }));
    }
}

#[test]
fn p14_a_keyring_that_fails_later_is_a_message_and_never_a_second_identity() {
    let (house, keyring) = (Household::new(), FakeKeyring::default());
    let (key, _) = house.start(Some(&keyring)).unwrap();
    let id = key.peer_id();

    for trouble in [
        KeyringTrouble::Locked,
        KeyringTrouble::Silent,
        KeyringTrouble::Absent { reason: "no bus".to_owned() },
    ] {
        let failing = FakeKeyring { trouble: Some(trouble.clone()), ..FakeKeyring::default() };
        let error = house.start(Some(&failing)).unwrap_err();
        assert_eq!(error, IdentityError::KeyringUnavailable { id, trouble });
    }
    let emptied = FakeKeyring::default();
    assert!(matches!(
        house.start(Some(&emptied)),
        Err(IdentityError::SecretMissing { id: named, .. }) if named == id
    ));
    assert!(matches!(
        house.start(None),
        Err(IdentityError::KeyringSwitchedOff { id: named, .. }) if named == id
    ));
    assert!(!house.has(SECRET_FILE), "nothing was minted");
    assert_eq!(emptied.secret.take(), None, "nothing was minted");
    assert_eq!(house.start(Some(&keyring)).unwrap().0.peer_id(), id);
}

#[test]
fn another_devices_key_is_named_and_not_taken() {
    let (house, keyring) = (Household::new(), FakeKeyring::default());
    let (mine, _) = house.start(Some(&keyring)).unwrap();
    let other = DeviceKey::generate().unwrap();
    *keyring.secret.borrow_mut() = Some(encoded(&other).to_string());
    let error = house.start(Some(&keyring)).unwrap_err();
    let IdentityError::WrongKey { id, found, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((*id, *found), (mine.peer_id(), other.peer_id()));
}

#[test]
fn a_start_killed_between_secret_and_id_is_completed_by_the_next() {
    let house = Household::new();
    let keyring = FakeKeyring::default();
    let (key, _) = house.start(Some(&keyring)).unwrap();
    std::fs::remove_file(house.home.file(PUBLIC_FILE)).unwrap();
    assert_eq!(house.start(Some(&keyring)).unwrap().0.peer_id(), key.peer_id());
    assert!(house.has(PUBLIC_FILE));

    let house = Household::new();
    let (key, place) = house.start(None).unwrap();
    assert!(matches!(place, Where::File { why: WhyFile::SwitchedOff, .. }));
    std::fs::remove_file(house.home.file(PUBLIC_FILE)).unwrap();
    assert_eq!(house.start(None).unwrap().0.peer_id(), key.peer_id());
}

#[test]
fn broken_files_are_named_and_left_alone() {
    let house = Household::new();
    house.start(None).unwrap();
    let secret = house.home.file(SECRET_FILE);
    for rubbish in [&b""[..], b"abcd", b"\xff\xfe", &[b'0'; 66]] {
        std::fs::write(&secret, rubbish).unwrap();
        let found_in = secret.display().to_string();
        assert_eq!(house.start(None).unwrap_err(), IdentityError::BrokenSecret { found_in });
        assert_eq!(std::fs::read(&secret).unwrap(), rubbish);
    }
    let path = house.home.file(PUBLIC_FILE);
    std::fs::write(&path, "nonsense").unwrap();
    assert_eq!(
        house.start(Some(&FakeKeyring::default())).unwrap_err(),
        IdentityError::BrokenPublicId { path }
    );
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_could_read_is_closed_again() {
    use std::os::unix::fs::PermissionsExt;
    let house = Household::new();
    house.start(None).unwrap();
    let path = house.home.file(SECRET_FILE);
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    house.start(None).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn no_secret_is_in_any_debug_output() {
    let house = Household::new();
    let outcome = house.start(None).unwrap();
    let seed = encoded(&outcome.0);
    assert!(!format!("{outcome:?}").contains(seed.as_str()));
}
