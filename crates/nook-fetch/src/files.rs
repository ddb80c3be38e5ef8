//! Files that are no models: packages of which length and digest are known, and small documents.
//!
//! The same clients, limits and redirects as for models; what differs is that nothing is believed
//! that a server says of the file. A [`FileOrder`] names length and digest, so a server can refuse,
//! stall or break off, but not put another file in its place. A document is taken into memory within
//! a length and a time, and judged by whoever asked.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::{Response, Url};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::{plain, untrusted};
use crate::error::FetchError;
use crate::fetching::{Desk, Fetched, Fetcher};
use crate::folder::{FileKey, Folder, file_of};
use crate::limits::REDIRECTS_MAX;
use crate::part::is_whole;
use crate::progress::Progress;
use crate::redirects::follow;
use crate::run::{Shape, is_redirect};
use crate::source::check_url;

/// Where something may be fetched from: https, or http on this machine itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(Url);

/// A text that is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is no address to fetch from: {why}")]
pub struct AddressError {
    shown: String,
    why: String,
}

/// A file that is to be fetched, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOrder {
    /// Where it is.
    pub address: Address,
    /// Its length.
    pub bytes: u64,
    /// Its digest, hexadecimal in small letters.
    pub sha256: String,
}

impl Address {
    /// An address that was checked already.
    pub(crate) fn of(url: Url) -> Self {
        Self(url)
    }

    /// The address of `file`, a plain name, in the folder of this one.
    pub fn beside(&self, file: &str) -> Result<Self, AddressError> {
        let refused = |why: &str| AddressError { shown: shown(file), why: why.to_owned() };
        if file.is_empty() || file.starts_with('.') || file.contains(['/', '\\', '?', '#', ':']) {
            return Err(refused("it is no plain name of a file"));
        }
        let url = self.0.join(file).map_err(|error| refused(&error.to_string()))?;
        check_url(&url).map_err(refused)?;
        Ok(Self(url))
    }

    /// The server, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The last part of its path.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.path().rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let refused = |why: &str| AddressError { shown: shown(text), why: why.to_owned() };
        let url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
        check_url(&url).map_err(refused)?;
        Ok(Self(url))
    }
}

impl FileOrder {
    /// Its place in a folder, and how it is written there. Another digest is another file, also at
    /// the same address.
    pub(crate) fn place(&self) -> (FileKey, String) {
        let text = format!("{} {}", self.address, self.sha256);
        (FileKey::of(self.address.file_name(), &text), text)
    }
}

impl Folder {
    /// Where the file of `order` lies, if all of it is here. Waits for the disk.
    #[must_use]
    pub fn whole_file(&self, order: &FileOrder) -> Option<PathBuf> {
        let (key, text) = order.place();
        let file = |kind| file_of(self.path(), &key, kind);
        is_whole(&file("json"), &file("gguf"), &text).then(|| file("gguf"))
    }

    /// Deletes everything but the file of `order`, and what others write just now. Waits for the
    /// disk.
    pub fn keep_only(&self, order: Option<&FileOrder>) -> Result<(), FetchError> {
        let kept = order.map(|order| order.place().0);
        for key in self.keys() {
            if Some(&key) == kept.as_ref() {
                continue;
            }
            match self.discard(&key) {
                Ok(()) | Err(FetchError::Busy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Fetcher {
    /// Fetches `order` into `folder`, going on where an earlier run ended. `told` hears how far it
    /// is.
    ///
    /// Ends early with what stands in [`FetchError`], or with [`FetchError::Stopped`] once `stop`
    /// is cancelled; what was loaded then stays, unless the error says otherwise.
    pub async fn fetch_file(
        &self,
        folder: &Folder,
        order: &FileOrder,
        stop: &CancellationToken,
        told: &watch::Sender<Progress>,
    ) -> Result<Fetched, FetchError> {
        let Address(url) = &order.address;
        let (key, text) = order.place();
        let shape = Shape::of_bytes(order.bytes);
        let desk = Desk { folder, name: (&key, &text), shape, stop, told };
        let expected = Some(order.sha256.as_str());
        let fetched = self.at(desk, None, url, expected, self.limits.pace.tries_max).await;
        fetched.map_err(|ended| ended.error)
    }

    /// Takes a document into memory, at most `bytes_max` bytes of it and for at most `limit`.
    pub async fn fetch_document(
        &self,
        address: &Address,
        bytes_max: usize,
        limit: Duration,
    ) -> Result<Vec<u8>, FetchError> {
        let taken = tokio::time::timeout(limit, self.document_of(address, bytes_max)).await;
        taken.unwrap_or_else(|_| {
            let last = format!("it did not come within {} seconds", limit.as_secs_f32());
            Err(FetchError::GaveUp { host: address.host().to_owned(), tries: 1, last })
        })
    }

    async fn document_of(
        &self,
        address: &Address,
        bytes_max: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let host = || address.host().to_owned();
        let failed = |last| FetchError::GaveUp { host: host(), tries: 1, last };
        let mut response = self.answer_of(address).await?;
        let status = response.status().as_u16();
        match status {
            200 => {}
            404 | 410 => return Err(FetchError::NotThere { host: host(), status }),
            401 | 403 | 451 => return Err(FetchError::Refused { host: host(), status }),
            _ => return Err(FetchError::Unexpected { host: host(), status }),
        }
        let most = bytes_max as u64;
        let is_too_large = |bytes: u64| match bytes > most {
            true => Err(FetchError::TooLarge { bytes, most }),
            false => Ok(()),
        };
        is_too_large(response.content_length().unwrap_or_default())?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(plain(&error)))? {
            is_too_large((bytes.len() as u64).saturating_add(chunk.len() as u64))?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// The answer, wherever the server sends the question.
    async fn answer_of(&self, address: &Address) -> Result<Response, FetchError> {
        let host = || address.host().to_owned();
        let mut url = address.0.clone();
        for _ in 0..=REDIRECTS_MAX {
            let sent = self.clients.of(&url)?.get(url.clone()).send().await;
            let response = sent.map_err(|error| match untrusted(&error) {
                Some(reason) => FetchError::Untrusted { host: host(), reason },
                None => FetchError::GaveUp { host: host(), tries: 1, last: plain(&error) },
            })?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let refused = |why: String| FetchError::Redirect { host: host(), why };
            let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
            let location = location.ok_or_else(|| refused("to no address".to_owned()))?;
            url = follow(&url, location).map_err(refused)?;
        }
        let why = format!("more than {REDIRECTS_MAX} times");
        Err(FetchError::Redirect { host: host(), why })
    }
}

/// What came from outside goes into a sentence without control characters, and cut.
fn shown(text: &str) -> String {
    text.chars().take(120).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_another_is_a_plain_name_and_nothing_else() {
        let address: Address = "https://a.example/releases/manifest.json?x=1".parse().unwrap();
        let beside = address.beside("inglenook-0.2.0.tar.gz").unwrap();
        assert_eq!(beside.to_string(), "https://a.example/releases/inglenook-0.2.0.tar.gz");
        assert_eq!(beside.file_name(), "inglenook-0.2.0.tar.gz");
        for odd in [
            "",
            "..",
            ".x",
            "../x",
            "/x",
            "//b.example/x",
            "https://b.example/x",
            "a?b",
            "a#b",
            "a\\b",
        ] {
            assert!(address.beside(odd).is_err(), "{odd}");
        }
        for odd in ["http://a.example/x", "file:///x", "https://u:p@a.example", "x"] {
            assert!(odd.parse::<Address>().is_err(), "{odd}");
        }
    }
}
