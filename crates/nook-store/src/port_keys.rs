//! All keys that open the local port: the main one, and named ones for single programs.
//!
//! A named key is told once, when it is made; `port-keys.json` holds what it hashes to, so neither
//! this program nor whoever reads the file can tell it again. It can be taken back alone, and what
//! is shown of requests says which program asked. The main key (`PortKey`) stays readable to its
//! owner.

use std::sync::Arc;

use nook_base::Sensitive;
use serde::{Deserialize, Serialize};

use crate::durable::FileError;
use crate::home::Home;
use crate::json::{self, DocumentError};
use crate::port_key::{PortKey, PortKeyError};

const FILE: &str = "port-keys.json";
const VERSION: u64 = 1;

/// Most named keys; a further one is refused until one is removed.
pub const PORT_KEYS_MAX: usize = 32;

/// Longest name of a key, in characters; a longer one is refused.
pub const PORT_KEY_NAME_CHARS_MAX: usize = 40;

/// The keys of one home. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PortKeys {
    main: PortKey,
    named: Arc<[NamedPortKey]>,
}

/// A key that one program has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedPortKey {
    /// What its owner calls it; unique without regard to case.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub added: u64,
    /// BLAKE3 of the key in hex. The key has 256 random bits: nothing finds it from this.
    digest: String,
}

/// Whose key was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortKeyHolder {
    /// The main key.
    Main,
    /// The named key with this name.
    Named(String),
}

/// The named keys cannot be used or changed. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortKeysError {
    /// The main key.
    #[error(transparent)]
    Main(#[from] PortKeyError),
    /// The list of named ones.
    #[error("the named keys of the port cannot be used: {0}")]
    Document(#[from] DocumentError),
    /// The change could not be saved.
    #[error("the keys of the port were not changed: {0}")]
    Save(#[from] FileError),
    /// The name cannot be used.
    #[error(
        "a key needs a name of at most {PORT_KEY_NAME_CHARS_MAX} characters, without line breaks"
    )]
    BadName,
    /// Another key has the name.
    #[error("another key is called `{name}`; remove that one first, or choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The list is full.
    #[error("there are {PORT_KEYS_MAX} named keys already; remove one first")]
    Full,
    /// No such key.
    #[error("no key is called `{name}`")]
    NoSuchKey {
        /// The name.
        name: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u64,
    keys: Vec<NamedPortKey>,
}

impl PortKeys {
    /// The keys of `home`; the main one is made at its first start.
    pub fn load_or_create(home: &Home) -> Result<Self, PortKeysError> {
        let main = PortKey::load_or_create(home)?;
        let path = home.file(FILE);
        let document: Option<Document> = json::load(&path, VERSION)?;
        let named = document.map(|document| document.keys).unwrap_or_default();
        if named.len() > PORT_KEYS_MAX {
            let reason = format!("{} keys, at most {PORT_KEYS_MAX} are possible", named.len());
            return Err(json::damaged(&path, reason).into());
        }
        for (place, key) in named.iter().enumerate() {
            let is_again =
                named.iter().take(place).any(|other| is_same_name(&other.name, &key.name));
            let is_digest = blake3::Hash::from_hex(&key.digest).is_ok();
            let is_name = checked(&key.name).is_ok_and(|name| name == key.name);
            if !is_name || is_again || !is_digest {
                let reason = format!("the key number {} is none", place + 1);
                return Err(json::damaged(&path, reason).into());
            }
        }
        Ok(Self { main, named: named.into() })
    }

    /// The main key.
    #[must_use]
    pub fn main(&self) -> &PortKey {
        &self.main
    }

    /// The named keys, oldest first.
    #[must_use]
    pub fn named(&self) -> &[NamedPortKey] {
        &self.named
    }

    /// Makes a new main key; programs that hold the old one are locked out from then on.
    pub fn replace_main(&mut self, home: &Home) -> Result<(), PortKeysError> {
        self.main = PortKey::replace(home)?;
        Ok(())
    }

    /// Makes a key called `name` and tells it, which nothing can do again.
    pub fn add(
        &mut self,
        home: &Home,
        name: &str,
        now: u64,
    ) -> Result<Sensitive<String>, PortKeysError> {
        let name = checked(name)?;
        if self.place_of(name).is_some() {
            return Err(PortKeysError::NameTaken { name: name.to_owned() });
        }
        if self.named.len() >= PORT_KEYS_MAX {
            return Err(PortKeysError::Full);
        }
        let fresh = PortKey::mint()?;
        let digest = blake3::hash(fresh.reveal().as_bytes()).to_hex().to_string();
        let mut keys = self.named.to_vec();
        keys.push(NamedPortKey { name: name.to_owned(), added: now, digest });
        self.save(home, keys)?;
        Ok(Sensitive(fresh.reveal().to_owned()))
    }

    /// Takes a named key back: from now on it opens nothing.
    pub fn remove(&mut self, home: &Home, name: &str) -> Result<(), PortKeysError> {
        let place = self.place_of(name.trim());
        let place = place.ok_or_else(|| PortKeysError::NoSuchKey { name: name.to_owned() })?;
        let mut keys = self.named.to_vec();
        keys.remove(place);
        self.save(home, keys)
    }

    /// Whose key `presented` is, if it is one; in a time that tells nothing about how much of it is
    /// right.
    #[must_use]
    pub fn holder(&self, presented: &str) -> Option<PortKeyHolder> {
        if self.main.is(presented) {
            return Some(PortKeyHolder::Main);
        }
        let sent = blake3::hash(presented.as_bytes());
        let named = self.named.iter().find(|key| {
            // Comparing two hashes takes the same time wherever they differ.
            blake3::Hash::from_hex(&key.digest).is_ok_and(|known| known == sent)
        })?;
        Some(PortKeyHolder::Named(named.name.clone()))
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        self.named.iter().position(|key| is_same_name(&key.name, name))
    }

    fn save(&mut self, home: &Home, keys: Vec<NamedPortKey>) -> Result<(), PortKeysError> {
        let document = Document { version: VERSION, keys };
        json::save(&home.file(FILE), &document)?;
        self.named = document.keys.into();
        Ok(())
    }
}

fn is_same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

fn checked(name: &str) -> Result<&str, PortKeysError> {
    let name = name.trim();
    let is_plain = !name.is_empty()
        && name.chars().count() <= PORT_KEY_NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    is_plain.then_some(name).ok_or(PortKeysError::BadName)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::HomeChoice;

    fn home() -> (Home, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap(), folder)
    }

    #[test]
    fn a_named_key_opens_until_it_is_taken_back_and_is_nowhere_on_the_disk() {
        let (home, _folder) = home();
        let mut keys = PortKeys::load_or_create(&home).unwrap();
        let zed = keys.add(&home, " Zed ", 7).unwrap();
        let other = keys.add(&home, "Open WebUI", 8).unwrap();
        let again = PortKeys::load_or_create(&home).unwrap();
        assert_eq!(again.holder(&zed), Some(PortKeyHolder::Named("Zed".to_owned())));
        assert_eq!(again.holder(again.main().reveal()), Some(PortKeyHolder::Main));
        assert_eq!(again.holder("nook-"), None);
        let text = std::fs::read_to_string(home.file(FILE)).unwrap();
        assert!(!text.contains(zed.as_str()) && !format!("{keys:?}").contains(zed.as_str()));
        keys.remove(&home, "zed").unwrap();
        assert_eq!(keys.holder(&zed), None);
        let again = PortKeys::load_or_create(&home).unwrap();
        assert_eq!((again.holder(&zed), again.named().len()), (None, 1));
        assert!(again.holder(&other).is_some());
    }

    #[test]
    fn names_that_cannot_be_told_apart_or_shown_are_refused() {
        let (home, _folder) = home();
        let mut keys = PortKeys::load_or_create(&home).unwrap();
        keys.add(&home, "Zed", 7).unwrap();
        let taken = keys.add(&home, "ZED", 7).unwrap_err();
        assert_eq!(taken, PortKeysError::NameTaken { name: "ZED".to_owned() });
        for bad in ["", "  ", "two\nlines", &"n".repeat(PORT_KEY_NAME_CHARS_MAX + 1)] {
            assert_eq!(keys.add(&home, bad, 7).unwrap_err(), PortKeysError::BadName, "{bad:?}");
        }
        let missing = keys.remove(&home, "Jan").unwrap_err();
        assert_eq!(missing, PortKeysError::NoSuchKey { name: "Jan".to_owned() });
        for number in 1..PORT_KEYS_MAX {
            keys.add(&home, &number.to_string(), 7).unwrap();
        }
        assert_eq!(keys.add(&home, "one more", 7).unwrap_err(), PortKeysError::Full);
    }

    #[test]
    fn a_damaged_list_is_said_and_not_taken_for_an_empty_one() {
        let (home, _folder) = home();
        let hash = "0".repeat(64);
        for bad in [
            r#"{"version":1,"keys":7}"#.to_owned(),
            r#"{"version":1,"keys":[{"name":"Zed","added":1,"digest":"short"}]}"#.to_owned(),
            format!(r#"{{"version":1,"keys":[{{"name":" Zed","added":1,"digest":"{hash}"}}]}}"#),
        ] {
            std::fs::write(home.file(FILE), &bad).unwrap();
            let error = PortKeys::load_or_create(&home).unwrap_err();
            assert!(matches!(error, PortKeysError::Document(_)), "{bad}: {error}");
        }
    }
}
