//! The list of models, renewed from where new versions come from.
//!
//! What was taken lies in one file with its signature and is checked again each time it is read: a
//! file that somebody has changed on the disk is none. Nothing needs it; where there is none, the
//! list that the program brought along serves.

use std::path::PathBuf;

use nook_fetch::{Catalogue, CatalogueError, FetchError};

use crate::catalogue::{CATALOGUE_FILE, CatalogueRefusal, signed_catalogue};
use crate::limits::{CATALOGUE_BYTES_MAX, SIGNATURE_BYTES_MAX};
use crate::manifest::SIGNATURE_END;
use crate::seen::SeenError;
use crate::signed_file::SignedFile;
use crate::source::{Claim, UpdateError, Updates};

const FILE: &str = "models.json";

impl Updates {
    /// The list of models that was taken last, checked as if it had come just now. Absent where
    /// there is none or it is not to be believed. Waits for the disk.
    #[must_use]
    pub fn held_catalogue(&self) -> Option<Catalogue> {
        self.held().unwrap_or_else(|reason| {
            tracing::warn!(file = %self.held_path().display(), reason, "no list of models is read");
            None
        })
    }

    /// Asks for the list of models, checks it, and keeps it for later starts. Absent where the
    /// server has none.
    pub async fn renew_catalogue(&self, claim: &Claim) -> Result<Option<Catalogue>, UpdateError> {
        let at = self.beside(CATALOGUE_FILE)?;
        let bytes = match self.document(&at, CATALOGUE_BYTES_MAX).await {
            // Not each server with new versions has one.
            Err(UpdateError::Fetch(FetchError::NotThere { .. })) => return Ok(None),
            bytes => bytes?,
        };
        let at = self.beside(&format!("{CATALOGUE_FILE}{SIGNATURE_END}"))?;
        let signature = self.document(&at, SIGNATURE_BYTES_MAX).await?;
        let (list, catalogue) = self.believed(&bytes, &signature)?;
        let seen = self.seen()?.models;
        let held = self.held().ok().flatten().map(|held| held.written());
        if held != Some(catalogue.written()) {
            let path = self.held_path();
            let written = SignedFile::write(&path, list.as_bytes(), &signature);
            written.map_err(|error| SeenError::file(&path, &error))?;
        }
        claim.note_models(catalogue.written().max(seen))?;
        Ok(Some(catalogue))
    }

    /// What the bytes say, if they are a list of models that may be taken.
    fn believed<'a>(
        &self,
        bytes: &'a [u8],
        signature: &[u8],
    ) -> Result<(&'a str, Catalogue), UpdateError> {
        let list = signed_catalogue(bytes, signature, self.keys())?;
        let malformed =
            |error: CatalogueError| CatalogueRefusal::Malformed { reason: error.to_string() };
        let catalogue = Catalogue::read(list).map_err(malformed)?;
        let seconds = self.seen()?.models.saturating_sub(catalogue.written());
        match seconds {
            0 => Ok((list, catalogue)),
            seconds => Err(CatalogueRefusal::Older { seconds }.into()),
        }
    }

    fn held_path(&self) -> PathBuf {
        self.folder().join(FILE)
    }

    /// What lies on the disk; in words why it is not believed.
    fn held(&self) -> Result<Option<Catalogue>, String> {
        let held = SignedFile::read(&self.held_path(), CATALOGUE_BYTES_MAX)?;
        let Some(held) = held else { return Ok(None) };
        let believed = self.believed(held.list.as_bytes(), held.signature.as_bytes());
        Ok(Some(believed.map_err(|error| error.to_string())?.1))
    }
}
