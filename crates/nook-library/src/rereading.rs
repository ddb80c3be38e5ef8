//! Reading a model file again whose stamp is another one: is it still the model that is listed?
//!
//! A file gets another stamp when somebody writes to it, and also when it is renamed, linked or
//! made readable for others. Only all of its bytes can tell which it was. That takes as long as the
//! disk does, so it is a job, one at a time; until it has ended the model is left out.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nook_base::{FileStamp, ModelDigest};
use nook_model::{Fault, Manifest, ModelError};
use nook_store::{FileState, stamp_before_digest};
use tokio_util::sync::CancellationToken;

use crate::reading::States;

/// How long a file rests that changed while it was read, or could not be read: somebody may still
/// be writing it.
pub(crate) const REREAD_AFTER: Duration = Duration::from_secs(10);

/// What is known of files that are to be read again.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    /// What the files of whole models were when the headers were read last.
    pub(crate) states: States,
    /// Whose file is being read.
    pub(crate) under_way: Option<ModelDigest>,
    /// Before this no file is read again.
    pub(crate) rests_until: Option<Instant>,
}

impl Rereading {
    /// Whether a look has seen another state of a file that is there than the last reading.
    pub(crate) fn is_news(&self, seen: &States) -> bool {
        let known = |model| self.states.get(model).copied().unwrap_or(FileState::Present);
        seen.iter().any(|(model, state)| *state != FileState::Missing && known(model) != *state)
    }
}

/// What came of reading a file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reread {
    /// It is the model that is listed, and had this stamp all the while.
    Same(FileStamp),
    /// It is another one, or none, and had this stamp all the while.
    Other(FileStamp),
    /// It changed meanwhile, or could not be read, or the node is leaving: why.
    Unread(String),
}

/// Reads all of the file at `path` unless `stop` says that nobody waits for it. Waits for the disk.
pub(crate) fn reread(path: &Path, model: ModelDigest, stop: &CancellationToken) -> Reread {
    let unread = |error: &dyn std::fmt::Display| Reread::Unread(error.to_string());
    let stamp = match stamp_before_digest(path) {
        Ok(stamp) => stamp,
        Err(error) => return unread(&error),
    };
    let read = Manifest::at_unless(path, &|| stop.is_cancelled());
    let now = std::fs::metadata(path).map(|facts| FileStamp::of(&facts));
    if now.as_ref().ok() != Some(&stamp) {
        return unread(&"it changed while it was read");
    }
    let may_pass = |error: &ModelError| {
        matches!(error.fault, Fault::Read { .. } | Fault::Changed | Fault::Stopped)
    };
    match read {
        Ok(manifest) if manifest.digest() == model => Reread::Same(stamp),
        Err(error) if may_pass(&error) => unread(&error),
        // What was listed had a header that could be understood.
        Ok(_) | Err(_) => Reread::Other(stamp),
    }
}

/// A file that is to be read again.
#[derive(Debug)]
pub struct RereadJob {
    pub(crate) model: ModelDigest,
    pub(crate) path: PathBuf,
    /// Ends it with the node.
    pub(crate) stop: CancellationToken,
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    const EMBER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");

    #[test]
    fn only_all_of_the_bytes_tell_what_a_touched_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let mut bytes = fs::read(EMBER).unwrap();
        let model = Manifest::at(Path::new(EMBER)).unwrap().digest();
        let going = CancellationToken::new();
        let stamp = || FileStamp::of(&fs::metadata(&path).unwrap());
        fs::write(&path, &bytes).unwrap();
        assert_eq!(reread(&path, model, &going), Reread::Same(stamp()));
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        for other in [&bytes[..], b"no model"] {
            fs::write(&path, other).unwrap();
            OpenOptions::new().write(true).open(&path).unwrap().set_modified(modified).unwrap();
            assert_eq!(reread(&path, model, &going), Reread::Other(stamp()), "{}", other.len());
        }
        fs::write(&path, &bytes).unwrap();
        going.cancel();
        assert!(matches!(reread(&path, model, &going), Reread::Unread(_)), "nobody waits");
        fs::remove_file(&path).unwrap();
        assert!(matches!(reread(&path, model, &going), Reread::Unread(_)), "it is gone");
    }
}
