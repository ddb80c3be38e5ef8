//! Moving the library's own files, and unfinished downloads, to another folder.
//!
//! ```text
//! plan_move → prepare: checks, writes down what moves → run: brings every file over
//!           → the caller changes the setting `models.folder` → moved → settle: removes what was copied
//! ```
//!
//! The setting is what counts. A crash at any moment leaves each file whole in the old folder, in
//! the new one, or in both: on one disk a file is renamed; to another disk it is copied beside its
//! place, flushed, measured and given its name, and the original stays until the setting is
//! changed. [`recover_move`] finishes at the next start what was changed, and takes back what was
//! not.
//!
//! A folder that was chosen carries a small file, so that the empty folder on which a disk is to
//! appear is not taken for it, and two installations do not share one. Ember stays with the home:
//! it has to answer also when the disk of the others is away.

mod files;
mod stamps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use files::{check_room, copy, file_bytes, is_one_disk, make_folder, succeeded};
use serde::{Deserialize, Serialize};
use stamps::Noted;

use super::{FOLDER, Library};

use crate::durable::{self, Deed, FileError};
use crate::home::Home;
use crate::json;

pub use stamps::Stamps;

/// The folder of unfinished downloads, in that of the models.
pub(super) const DOWNLOADS: &str = "downloads";

/// What stays free on the disk that the models move to: a full disk breaks other programs.
pub const MOVE_RESERVE_BYTES: u64 = 1 << 30;

const NOTE_FILE: &str = "models-move.json";
pub(super) const MARK_FILE: &str = ".inglenook-models";
const VERSION: u64 = 1;

/// Models that do not move. Everything is where it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// Not a path from the root of a disk.
    #[error("name the whole path of the folder, not {}", folder.display())]
    NotWhole {
        /// What was named.
        folder: PathBuf,
    },
    /// A path that the settings, which are text, cannot hold.
    #[error("the path {} holds signs that are no text; choose another folder", folder.display())]
    NotText {
        /// The folder.
        folder: PathBuf,
    },
    /// Neither the folder nor the one that it would lie in is there.
    #[error("{} is not there; plug in its disk, or make the folder first", folder.display())]
    NotThere {
        /// The folder.
        folder: PathBuf,
    },
    /// Something else than a folder.
    #[error("{} is no folder", folder.display())]
    NotAFolder {
        /// What was named.
        folder: PathBuf,
    },
    /// The models are there.
    #[error("the models are in {} already", folder.display())]
    AlreadyThere {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder inside the one that moves, or among the program's own files.
    #[error("{} lies among Inglenook's own files; choose a folder elsewhere", folder.display())]
    Inside {
        /// The folder.
        folder: PathBuf,
    },
    /// Another installation keeps its models there.
    #[error("another Inglenook keeps its models in {}; choose another folder", folder.display())]
    OfAnother {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of the same name lies there, and nothing is written over.
    #[error("{} lies there already; move it away, or choose another folder", file.display())]
    InTheWay {
        /// The file.
        file: PathBuf,
    },
    /// The disk has not enough room.
    #[error(
        "the disk has not enough room: {needed} bytes move, {free} are free, and {MOVE_RESERVE_BYTES} stay free"
    )]
    NoRoom {
        /// Bytes that would move.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The copy of a file is not as long as the file.
    #[error("{} changed while it was copied", file.display())]
    Changed {
        /// The file.
        file: PathBuf,
    },
    /// The owner wanted it no more.
    #[error("the move was stopped")]
    Stopped,
    /// A file or folder that the system refuses.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A move that was not looked at yet.
#[derive(Debug, Clone)]
pub struct MovePlan {
    home: Home,
    from: Option<PathBuf>,
    to: Option<PathBuf>,
    models: Vec<String>,
    noted: Noted,
}

/// A move that can be made, and was written down.
#[derive(Debug)]
pub struct ModelsMove {
    note_path: PathBuf,
    note: Note,
    from: PathBuf,
    to: PathBuf,
    /// Whether both folders are on one disk.
    renames: bool,
    noted: Noted,
}

/// What moves from where to where; kept while it does. Absent folders are the usual one.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u64,
    from: Option<String>,
    to: Option<String>,
    /// Whether the new folder was made, or marked, for this move.
    made: bool,
    marked: bool,
    files: Vec<NotedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NotedFile {
    /// Below the folder, with `/`.
    name: String,
    bytes: u64,
}

/// Says of a folder whose it is.
#[derive(Serialize, Deserialize)]
struct Mark {
    version: u64,
    about: String,
    home: String,
}

impl Library {
    /// What it takes to move everything to the folder `to`, or back to the usual one. Looks at
    /// nothing.
    #[must_use]
    pub fn plan_move(&self, home: &Home, to: Option<&Path>) -> MovePlan {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        MovePlan {
            home: home.clone(),
            from: self.chosen.clone(),
            to: to.map(Path::to_owned),
            models: self.own_files().filter_map(|model| name(&model.path)).collect(),
            noted: Noted::of(
                self.own_files().filter_map(|model| Some((name(&model.path)?, model.stamp?))),
            ),
        }
    }
}

impl MovePlan {
    /// The folder that everything is to be in.
    #[must_use]
    pub fn to(&self) -> PathBuf {
        folder_of(&self.home, self.to.as_deref())
    }

    /// Looks whether it can be made, and writes down that it begins. `free` says how many bytes may
    /// still be written to the disk of a folder. Waits for the disk.
    ///
    /// A folder that is not there is made where the one is that it lies in.
    pub fn prepare(self, free: impl Fn(&Path) -> io::Result<u64>) -> Result<ModelsMove, MoveError> {
        // What an earlier one left, because a disk was away, comes first.
        recover_move(&self.home, self.from.as_deref());
        let from = folder_of(&self.home, self.from.as_deref());
        let to = folder_of(&self.home, self.to.as_deref());
        let is_usual = same(&to, &folder_of(&self.home, None));
        let setting = if is_usual { None } else { Some(text(&to)?) };
        let made = self.check_target(&from, &to, is_usual)?;
        let prepared = self.note(&from, &to, setting, made, free);
        if prepared.is_err() && made {
            // Made a moment ago, and only if nothing is in it.
            let _ = fs::remove_dir(&to);
        }
        prepared
    }

    /// Whether the folder can be the new one; says whether it was made for this.
    fn check_target(&self, from: &Path, to: &Path, is_usual: bool) -> Result<bool, MoveError> {
        let folder = to.to_owned();
        if !to.is_absolute() {
            return Err(MoveError::NotWhole { folder });
        }
        let made = match fs::metadata(to) {
            Ok(found) if !found.is_dir() => return Err(MoveError::NotAFolder { folder }),
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !to.parent().is_some_and(Path::is_dir) {
                    return Err(MoveError::NotThere { folder });
                }
                self.check_outside(from, to, is_usual)?;
                make_folder(to)?;
                true
            }
            Err(error) => return Err(FileError::new(to, Deed::Read, &error).into()),
        };
        let outside = self.check_outside(from, to, is_usual);
        if outside.is_err() && made {
            let _ = fs::remove_dir(to);
        }
        outside.map(|()| made)
    }

    fn check_outside(&self, from: &Path, to: &Path, is_usual: bool) -> Result<(), MoveError> {
        let folder = to.to_owned();
        // Of a folder that is still to be made, the place where it will lie counts.
        let real = fs::canonicalize(to).or_else(|error| match (to.parent(), to.file_name()) {
            (Some(parent), Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
            _ => Err(error),
        });
        let real = real.map_err(|error| FileError::new(to, Deed::Read, &error))?;
        let from = fs::canonicalize(from).unwrap_or_else(|_| from.to_owned());
        if real == from {
            return self.check_markable(to, is_usual);
        }
        let among_ours = real.starts_with(self.home.data()) || real.starts_with(&from);
        if among_ours && !is_usual {
            return Err(MoveError::Inside { folder });
        }
        Ok(())
    }

    /// Whether the folder that the models are in already is to be marked as theirs: it was named by
    /// hand in the settings, or lost its mark. An empty one where there should be models is that of
    /// a disk which is away.
    fn check_markable(&self, to: &Path, is_usual: bool) -> Result<(), MoveError> {
        let folder = to.to_owned();
        if is_usual || is_marked(to) {
            return Err(MoveError::AlreadyThere { folder });
        }
        let is_there = |name: &String| file_bytes(&to.join(name)).is_some();
        match self.models.is_empty() || self.models.iter().any(is_there) {
            true => Ok(()),
            false => Err(MoveError::NotThere { folder }),
        }
    }

    /// Writes the move down, once nothing is in its way.
    fn note(
        &self,
        from: &Path,
        to: &Path,
        setting: Option<String>,
        made: bool,
        free: impl Fn(&Path) -> io::Result<u64>,
    ) -> Result<ModelsMove, MoveError> {
        let marked = setting.is_some() && !is_marked_by(&self.home, to)?;
        // Where it is the same folder, it is only marked.
        let files = if same(from, to) { Vec::new() } else { self.files(from)? };
        let taken = |file: &NotedFile| fs::symlink_metadata(to.join(&file.name)).is_ok();
        if let Some(file) = files.iter().find(|file| taken(file)) {
            return Err(MoveError::InTheWay { file: to.join(&file.name) });
        }
        let from_setting = self.from.as_deref().map(text).transpose()?;
        let note = Note { version: VERSION, from: from_setting, to: setting, made, marked, files };
        let note_path = note_path(&self.home);
        json::save(&note_path, &note)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        let mut noted =
            ModelsMove { note_path, note, from, to, renames: false, noted: self.noted.clone() };
        // From here on whatever is made is taken back, now or by the next start.
        match noted.get_ready(&self.home, free) {
            Ok(()) => Ok(noted),
            Err(error) => {
                noted.undo();
                Err(error)
            }
        }
    }

    /// What moves: the models' files that are there, and everything of unfinished downloads.
    fn files(&self, from: &Path) -> Result<Vec<NotedFile>, MoveError> {
        let mut names: BTreeSet<String> = self.models.iter().cloned().collect();
        let downloads = from.join(DOWNLOADS);
        match fs::read_dir(&downloads) {
            Ok(entries) => {
                let found = entries.flatten().filter_map(|it| it.file_name().into_string().ok());
                names.extend(found.map(|name| format!("{DOWNLOADS}/{name}")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError::new(&downloads, Deed::Read, &error).into()),
        }
        let long = |name: &str| file_bytes(&from.join(name));
        Ok(names
            .into_iter()
            .filter_map(|name| Some(NotedFile { bytes: long(&name)?, name }))
            .collect())
    }
}

impl ModelsMove {
    /// What the setting `models.folder` has to say once [`ModelsMove::run`] has returned; absent:
    /// the usual folder.
    #[must_use]
    pub fn setting(&self) -> Option<&str> {
        self.note.to.as_deref()
    }

    /// Whether the files only get other names, because both folders are on one disk.
    #[must_use]
    pub fn renames(&self) -> bool {
        self.renames
    }

    /// What the models' files are where they lie now, by their names: of those that were what was
    /// noted of them before they got there.
    #[must_use]
    pub fn stamps(&self) -> Stamps {
        self.noted.now()
    }

    /// How much there is to move.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.note.files.iter().map(|file| file.bytes).sum()
    }

    /// Brings every file over; `told` hears how many bytes are. Ends early when `stop` says so, or
    /// at the first file that cannot be brought; then everything is taken back. Waits for the disk.
    pub fn run(&self, stop: &dyn Fn() -> bool, told: &mut dyn FnMut(u64)) -> Result<(), MoveError> {
        let brought = self.bring_all(stop, told);
        if brought.is_err() {
            self.undo();
        }
        brought
    }

    /// Takes back what was brought: the setting could not be changed, or the move was stopped.
    pub fn undo(&self) {
        let mut whole = true;
        for file in &self.note.files {
            let (from, to) = (self.from.join(&file.name), self.to.join(&file.name));
            whole &= match (file_bytes(&from), file_bytes(&to)) {
                (None, Some(_)) => succeeded(self.noted.rename(&file.name, &to, &from), &to),
                (Some(_), Some(_)) => {
                    self.noted.stays(&file.name);
                    succeeded(fs::remove_file(&to), &to)
                }
                (Some(_), None) => true,
                // Perhaps their disk is away: they are looked for again.
                (None, None) => false,
            };
        }
        self.flush(&self.from);
        // Gone with its disk is a folder that was there before, and one that was made where nothing
        // is around it any more: what was brought lies there still.
        let has_room_around = self.to.parent().is_some_and(Path::is_dir);
        whole &= self.to.is_dir() || (self.note.made && has_room_around);
        self.sweep_target();
        if self.note.marked {
            let _ = fs::remove_file(self.to.join(MARK_FILE));
        }
        // Folders go only when nothing is in them.
        let _ = fs::remove_dir(self.to.join(DOWNLOADS));
        if self.note.made {
            let _ = fs::remove_dir(&self.to);
        }
        self.close(whole);
    }

    /// Removes what was copied from its old place; the setting is changed. Waits for the disk.
    pub fn settle(&self) {
        let mut whole = true;
        for file in &self.note.files {
            let (from, to) = (self.from.join(&file.name), self.to.join(&file.name));
            // Only what is in its new place as whole as it was; else its disk may be away.
            whole &= match (file_bytes(&from), file_bytes(&to)) {
                (None, _) => true,
                (Some(_), Some(bytes)) if bytes == file.bytes => {
                    succeeded(fs::remove_file(&from), &from)
                }
                (Some(_), _) => false,
            };
        }
        let _ = fs::remove_dir(self.from.join(DOWNLOADS));
        if self.note.from.is_some() && !same(&self.from, &self.to) {
            let _ = fs::remove_file(self.from.join(MARK_FILE));
        }
        self.flush(&self.from);
        self.close(whole);
    }

    /// Marks the new folder, which shows whether it can be written, and looks whether all has room.
    fn get_ready(
        &mut self,
        home: &Home,
        free: impl Fn(&Path) -> io::Result<u64>,
    ) -> Result<(), MoveError> {
        if self.note.marked {
            mark(home, &self.to)?;
        }
        self.renames = is_one_disk(&self.from, &self.to);
        if self.renames || self.bytes() == 0 {
            return Ok(());
        }
        check_room(&self.to, self.bytes(), free)
    }

    fn bring_all(
        &self,
        stop: &dyn Fn() -> bool,
        told: &mut dyn FnMut(u64),
    ) -> Result<(), MoveError> {
        let is_download = |file: &NotedFile| file.name.starts_with(DOWNLOADS);
        if self.note.files.iter().any(is_download) {
            make_folder(&self.to.join(DOWNLOADS))?;
        }
        let mut done = 0;
        told(done);
        for file in &self.note.files {
            if stop() {
                return Err(MoveError::Stopped);
            }
            self.bring(file, stop, &mut |bytes| told(done + bytes))?;
            done += file.bytes;
            told(done);
        }
        self.flush(&self.to);
        Ok(())
    }

    fn bring(
        &self,
        file: &NotedFile,
        stop: &dyn Fn() -> bool,
        told: &mut dyn FnMut(u64),
    ) -> Result<(), MoveError> {
        let (from, to) = (self.from.join(&file.name), self.to.join(&file.name));
        if self.renames {
            match self.noted.rename(&file.name, &from, &to) {
                Ok(()) => return Ok(()),
                // A folder of another disk may be mounted among those of one.
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
                Err(error) => return Err(FileError::new(&to, Deed::Write, &error).into()),
            }
        }
        let copying = || copy(&from, &to, file.bytes, stop, told);
        self.noted.copy(&file.name, &from, &to, copying)
    }

    /// Makes renames durable. A system that cannot say so has done what it can.
    fn flush(&self, folder: &Path) {
        for folder in [folder.to_owned(), folder.join(DOWNLOADS)] {
            if folder.is_dir() {
                succeeded(durable::flush_folder_of(&folder.join(MARK_FILE)), &folder);
            }
        }
    }

    /// Takes away what interrupted copies left in the new folder, where the user may have files
    /// too.
    fn sweep_target(&self) {
        let names = self.note.files.iter().map(|file| file.name.as_str());
        let (mut models, mut downloads) = (vec![MARK_FILE], Vec::new());
        for name in names {
            match name.strip_prefix(DOWNLOADS).and_then(|name| name.strip_prefix('/')) {
                Some(download) => downloads.push(download),
                None => models.push(name),
            }
        }
        durable::sweep_of(&self.to.join(DOWNLOADS), &downloads);
        durable::sweep_of(&self.to, &models);
    }

    /// The move is over, unless something is left for the next start.
    fn close(&self, whole: bool) {
        if whole && let Err(error) = durable::remove(&self.note_path) {
            tracing::warn!(%error, "the next start looks at a move that is over");
        }
    }
}

/// Finishes a move that a crash interrupted after its setting was changed, or takes it back.
/// `chosen`: what the setting says now. For the start, before the library is opened; waits for the
/// disk.
pub fn recover_move(home: &Home, chosen: Option<&Path>) {
    let note_path = note_path(home);
    let note: Note = match json::load(&note_path, VERSION) {
        Ok(Some(note)) => note,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, "a move of the models cannot be finished or taken back");
            return;
        }
    };
    let chosen = chosen.filter(|chosen| !same(chosen, &folder_of(home, None)));
    let named = |text: &Option<String>| text.as_deref().map(PathBuf::from);
    let (noted_from, noted_to) = (named(&note.from), named(&note.to));
    let (from, to) = (folder_of(home, noted_from.as_deref()), folder_of(home, noted_to.as_deref()));
    let noted = Noted::default();
    let interrupted = ModelsMove { note_path, note, from, to, renames: false, noted };
    if chosen == noted_to.as_deref() {
        tracing::info!("a move of the models is finished");
        interrupted.settle();
    } else if chosen == noted_from.as_deref() {
        tracing::info!("a move of the models that was interrupted is taken back");
        interrupted.undo();
    } else {
        tracing::warn!(
            "the models moved, and the settings now name a third folder; all stays as it is"
        );
    }
}

/// Whether a folder was chosen for models and is the one that was.
pub(super) fn is_marked(folder: &Path) -> bool {
    file_bytes(&folder.join(MARK_FILE)).is_some()
}

/// Marks a folder as that of this home's models.
pub(super) fn mark(home: &Home, folder: &Path) -> Result<(), FileError> {
    let about = "Inglenook keeps its models in this folder.".to_owned();
    let mark = Mark { version: VERSION, about, home: home.tag().to_owned() };
    json::save(&folder.join(MARK_FILE), &mark)
}

/// Whether a folder is this home's already; another one's is refused.
fn is_marked_by(home: &Home, folder: &Path) -> Result<bool, MoveError> {
    // What cannot be understood marks nothing, and is replaced.
    let known: Option<Mark> = json::load(&folder.join(MARK_FILE), VERSION).unwrap_or_default();
    match known {
        Some(mark) if mark.home != home.tag() => {
            Err(MoveError::OfAnother { folder: folder.to_owned() })
        }
        known => Ok(known.is_some()),
    }
}

fn note_path(home: &Home) -> PathBuf {
    home.file(NOTE_FILE)
}

fn folder_of(home: &Home, chosen: Option<&Path>) -> PathBuf {
    chosen.map_or_else(|| home.file(FOLDER), Path::to_owned)
}

pub(super) fn same(one: &Path, other: &Path) -> bool {
    one == other
        || fs::canonicalize(one).ok().zip(fs::canonicalize(other).ok()).is_some_and(|(a, b)| a == b)
}

fn text(folder: &Path) -> Result<String, MoveError> {
    let text = folder.to_str().map(str::to_owned);
    text.ok_or_else(|| MoveError::NotText { folder: folder.to_owned() })
}
