//! The figures of how much a helper could read, as they are on the disk.

use nook_store::{FileError, Home, PrivacyFile, PrivacyList};

/// What was measured of each model, and the file that keeps it.
#[derive(Debug)]
pub(crate) struct KeptPrivacy {
    file: PrivacyFile,
    pub(crate) list: PrivacyList,
    /// Why earlier ones are lost.
    pub(crate) problem: Option<String>,
}

impl KeptPrivacy {
    /// Reads them. Waits for the disk.
    pub(crate) fn read(home: &Home) -> Self {
        let file = PrivacyFile::of(home);
        let (list, problem) = match file.load() {
            Ok(list) => (list, None),
            Err(error) => {
                // It is measured anew, and the file is written again.
                tracing::warn!(%error, "what was measured of what helpers could read is lost");
                (PrivacyList::default(), Some(error.to_string()))
            }
        };
        Self { file, list, problem }
    }

    /// Puts `list` in the place of what is kept, on the disk first.
    pub(crate) fn replace(&mut self, list: PrivacyList) -> Result<(), FileError> {
        if list != self.list {
            self.file.save(&list)?;
            (self.list, self.problem) = (list, None);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nook_base::{ActivationDtype, ModelDigest, PrivacyFigures};
    use nook_store::{HomeChoice, KeptFigures};

    use super::*;

    fn kept(number: u8) -> KeptFigures {
        let figures = PrivacyFigures {
            measured_at: 1,
            tokens: 64,
            candidates: 2048,
            layers_before: 1,
            format: ActivationDtype::F16,
            nearest: 0.125,
            probe: 0.5,
            lens: 0.0,
            replay: 1.0,
            next: 0.25,
        };
        KeptFigures { model: ModelDigest([number; 32]), figures }
    }

    #[test]
    fn nothing_is_forgotten_that_the_disk_still_has() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        let mut privacy = KeptPrivacy::read(&home);
        let both = PrivacyList::of(vec![kept(1), kept(2)]);
        privacy.replace(both.clone()).unwrap();
        assert_eq!(KeptPrivacy::read(&home).list, both);
        // A disk that takes nothing more: there is a folder in the place of the file.
        let path = home.data().join("privacy.json");
        fs::rename(&path, home.data().join("aside")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("in-the-way"), "").unwrap();
        let one = both.without(|model| model == kept(1).model);
        assert!(privacy.replace(one.clone()).is_err());
        assert_eq!(privacy.list, both);
        fs::remove_dir_all(&path).unwrap();
        privacy.replace(one.clone()).unwrap();
        assert_eq!((&privacy.list, &KeptPrivacy::read(&home).list), (&one, &one));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_and_stands_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        fs::write(home.data().join("privacy.json"), "not ours").unwrap();
        let mut privacy = KeptPrivacy::read(&home);
        assert_eq!(privacy.list, PrivacyList::default());
        let problem = privacy.problem.clone().unwrap_or_default();
        assert!(problem.contains("privacy.json is damaged"), "{problem}");
        privacy.replace(PrivacyList::of(vec![kept(1)])).unwrap();
        assert_eq!(privacy.problem, None);
        assert_eq!(KeptPrivacy::read(&home).list.models(), [kept(1)]);
    }
}
