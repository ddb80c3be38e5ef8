//! Models in several files: what `nook-fetch`, which knows no GGUF, and an import need to know of
//! them. Waits for the disk.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use nook_fetch::{
    DISK_RESERVE_BYTES, Joining, PIECES_MAX, PieceData, PieceName, Room as _, SystemRoom,
};
use nook_model::gguf::Joined;
use nook_store::{ImportError, Staged, Stager, Take};

use crate::reading::digest_of;

/// How the pieces of a model become one file.
pub(crate) fn join(pieces: &[PathBuf]) -> Result<Joining, String> {
    let Joined { header, data } = Joined::plan(pieces).map_err(|error| error.to_string())?;
    let data = data.into_iter().map(|data| PieceData { from: data.from, zeros: data.zeros });
    Ok(Joining { header, data: data.collect() })
}

/// Gets a file of a person's ready where it is; of a model in several files, which are never
/// computed with, one file is made in the library's folder.
pub(crate) fn stage_import(stager: &Stager, file: &Path) -> Result<Staged, ImportError> {
    let name = file.file_name().and_then(|name| name.to_str()).and_then(PieceName::read);
    let Some(name) = name.filter(|name| name.count() <= PIECES_MAX) else {
        return stager.stage(file, Take::InPlace, digest_of);
    };
    let beside = |name: String| file.with_file_name(name);
    let pieces: Vec<PathBuf> = (1..=name.count()).map(|number| beside(name.of(number))).collect();
    let joined = Joined::plan(&pieces).map_err(|error| ImportError::BadModel {
        path: file.to_owned(),
        reason: error.to_string(),
    })?;
    let write = |at: &Path, to: &mut File| write(&joined, &pieces, at, to);
    stager.stage_made(&beside(name.whole()), write, digest_of)
}

fn write(joined: &Joined, pieces: &[PathBuf], at: &Path, to: &mut File) -> io::Result<()> {
    let folder = at.parent().unwrap_or(at);
    let needed = joined.bytes().saturating_add(DISK_RESERVE_BYTES);
    // Where the system does not say, a full disk is noticed when it is full.
    if SystemRoom.free(folder).is_ok_and(|free| free < needed) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    to.write_all(&joined.header)?;
    for (data, path) in joined.data.iter().zip(pieces) {
        let mut piece = File::open(path)?;
        piece.seek(SeekFrom::Start(data.from.start))?;
        let long = data.from.end.saturating_sub(data.from.start);
        // A piece that became shorter is noticed by the digest: the file would be too short.
        io::copy(&mut piece.take(long), to)?;
        io::copy(&mut io::repeat(0).take(data.zeros), to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nook_model::ModelFile;
    use nook_model::synthetic::cut;
    use nook_store::{Home, HomeChoice, Library};

    use super::*;

    fn ember() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf"))
    }

    /// A folder with Ember in three pieces, and the piece with this number.
    fn pieces(folder: &Path, number: usize) -> PathBuf {
        let at = |number: usize| folder.join(format!("ember-{number:05}-of-00003.gguf"));
        let cut = cut(&fs::read(ember()).unwrap(), 3, false);
        (1..).zip(cut).for_each(|(number, bytes)| fs::write(at(number), bytes).unwrap());
        at(number)
    }

    fn library() -> (tempfile::TempDir, Library) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(&HomeChoice::At(folder.path().join("home"))).unwrap();
        let library = Library::open(&home, None, 0, digest_of).unwrap();
        (folder, library)
    }

    #[test]
    fn pieces_are_imported_as_the_model_that_was_cut_whichever_is_named() {
        let (_home, library) = library();
        let files = || fs::read_dir(library.folder()).unwrap().count();
        let before = files();
        for number in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let file = pieces(folder.path(), number);
            let staged = stage_import(&library.stager(), &file).unwrap();
            assert_eq!(staged.digest(), ModelFile::digest_at(ember()).unwrap());
            assert_eq!(staged.bytes(), fs::metadata(ember()).unwrap().len());
            assert_eq!(staged.source().file_name().unwrap(), "ember.gguf");
        }
        assert_eq!(files(), before, "what nobody adopts is deleted");
    }

    #[test]
    fn a_piece_that_is_not_there_is_named_and_one_of_another_model_too() {
        let (_home, library) = library();
        let folder = tempfile::tempdir().unwrap();
        let file = pieces(folder.path(), 1);
        let second = folder.path().join("ember-00002-of-00003.gguf");
        for other in [None, Some(ember())] {
            fs::remove_file(&second).unwrap();
            other.map(|other| fs::copy(other, &second).unwrap());
            let error = stage_import(&library.stager(), &file).unwrap_err().to_string();
            assert!(error.contains("ember-00002-of-00003.gguf"), "{error}");
            fs::write(&second, b"").unwrap();
        }
    }
}
