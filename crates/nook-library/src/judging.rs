//! What a file that came really is. Reads all of it, so it runs in a job.

use std::path::Path;

use nook_base::ModelDigest;
use nook_fetch::Slot;
use nook_model::{Fault, ModelError, ModelFile};
use nook_store::{Staged, Stager, Take};

/// A file that was downloaded and checked.
#[derive(Debug)]
pub struct Checked {
    pub(crate) key: String,
    /// Still held, so that nobody else writes the file.
    pub(crate) slot: Slot,
    pub(crate) staged: Result<Staged, Unfit>,
    /// Whether a digest vouches for the bytes: the publisher's, or that of the model that is
    /// copied.
    pub(crate) vouched: bool,
}

/// What is there is not the model that was asked for, or no model that can be used here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Its digest is another one: the device that brought it has not told the truth.
    Other,
    /// Why it cannot be used, though nobody may be to blame.
    NoModel(String),
    /// Why it could not be looked at: a fault of this device, which says nothing about the file.
    Unread(String),
}

/// What a file is: one look at all of it, also where this version cannot use the model.
pub(crate) fn judge(path: &Path, wanted: Option<ModelDigest>) -> Result<ModelDigest, Unfit> {
    let opened = ModelFile::open(path);
    let found = match (&opened, wanted) {
        (Ok(file), _) => file.digest(),
        (Err(_), Some(_)) => ModelFile::digest_at(path),
        (Err(error), None) => Err(error.clone()),
    };
    let may_pass = |error: &ModelError| matches!(error.fault, Fault::Read { .. } | Fault::Changed);
    let is_known = !found.as_ref().is_err_and(may_pass);
    if is_known && wanted.is_some_and(|wanted| found.as_ref() != Ok(&wanted)) {
        return Err(Unfit::Other);
    }
    opened.and(found).map_err(|error| match may_pass(&error) {
        true => Unfit::Unread(error.to_string()),
        false => Unfit::NoModel(error.to_string()),
    })
}

/// Is it a model, and the one that was `wanted`? Reads all of it.
pub(crate) fn check(
    stager: &Stager,
    path: &Path,
    wanted: Option<ModelDigest>,
) -> Result<Staged, Unfit> {
    let mut unfit = None;
    let staged = stager.stage(path, Take::Move, |path| {
        judge(path, wanted).map_err(|wrong| {
            let why = match &wrong {
                Unfit::Other => String::new(),
                Unfit::NoModel(why) | Unfit::Unread(why) => why.clone(),
            };
            unfit = Some(wrong);
            why
        })
    });
    staged.map_err(|error| match unfit {
        Some(Unfit::NoModel(_)) => Unfit::NoModel(error.to_string()),
        Some(wrong) => wrong,
        // The file could not be read or put away; of what is in it nothing was said.
        None => Unfit::Unread(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ember() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf"))
    }

    #[test]
    fn m1_what_came_is_the_model_that_was_meant_or_somebody_is_to_blame() {
        let digest = judge(ember(), None).unwrap();
        assert_eq!(judge(ember(), Some(digest)), Ok(digest));
        assert_eq!(judge(ember(), Some(ModelDigest([7; 32]))), Err(Unfit::Other));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        let good = std::fs::read(ember()).unwrap();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for wrong in [&flipped[..], &good[..good.len() / 2], b"GGUF", b""] {
            std::fs::write(&path, wrong).unwrap();
            assert_eq!(judge(&path, Some(digest)), Err(Unfit::Other), "{} bytes", wrong.len());
        }
        // Without a word of anybody about it there is nobody to blame.
        assert!(matches!(judge(&path, None), Err(Unfit::NoModel(_))));
    }

    #[test]
    fn a_file_that_cannot_be_read_says_nothing_about_who_brought_it() {
        let folder = tempfile::tempdir().unwrap();
        let away = folder.path().join("on a disk that was unplugged.gguf");
        for wanted in [None, Some(ModelDigest([7; 32]))] {
            assert!(matches!(judge(&away, wanted), Err(Unfit::Unread(_))), "{wanted:?}");
        }
    }

    #[test]
    fn a_model_that_this_version_does_not_understand_is_nobodys_lie() {
        let key = b"general.architecture";
        let mut other = std::fs::read(ember()).unwrap();
        let at = other.windows(key.len()).position(|it| it == key).unwrap();
        // Behind the key: the kind of the value, its length, its first letter.
        other[at + key.len() + 4 + 8] = b'~';
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        std::fs::write(&path, &other).unwrap();
        let digest = ModelFile::digest_at(&path).unwrap();
        assert!(matches!(judge(&path, Some(digest)), Err(Unfit::NoModel(_))));
    }
}
