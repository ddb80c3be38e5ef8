//! Where a model's file is, and what it was when all of it was digested.
//!
//! Everything that opens the file of a listed model does it through [`FilePlace::with`]. So nothing
//! is read of a file that is not the noted one any more: whoever opens it compares the stamp then
//! and behind each read (`ModelFile::open_noted`), in this process and in a worker.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nook_base::{FileStamp, NotedFile};
use tokio::sync::watch;

/// Longest wait for a file that the library itself is giving another place, on the same disk.
/// Beyond it whoever wants the file hears that it has changed.
const MOVE_LIMIT: Duration = Duration::from_secs(10);

/// Where a model's file is. Every copy of it knows when the file moves, and when it is noted anew.
#[derive(Debug, Clone)]
pub struct FilePlace(Arc<watch::Sender<Place>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    now: PathBuf,
    /// Where it is being moved to.
    next: Option<PathBuf>,
    /// What it was when all of it was digested; absent where each of its tensors is checked.
    stamp: Option<FileStamp>,
}

impl FilePlace {
    /// A file that lies at `now`, of which nothing is noted.
    pub fn new(now: PathBuf) -> Self {
        Self::noted(now, None)
    }

    /// A file that lies at `now` and had this stamp when all of it was digested.
    pub fn noted(now: PathBuf, stamp: Option<FileStamp>) -> Self {
        Self(Arc::new(watch::Sender::new(Place { now, next: None, stamp })))
    }

    /// Where it is listed to be.
    pub fn now(&self) -> PathBuf {
        self.0.borrow().now.clone()
    }

    /// What it was when all of it was digested.
    pub fn stamp(&self) -> Option<FileStamp> {
        self.0.borrow().stamp
    }

    /// What `load` makes of the file; asked once more where the file moved before it was opened, or
    /// while it was read.
    pub async fn with<T, E, L: Future<Output = Result<T, E>>>(
        &self,
        load: impl Fn(NotedFile) -> L,
    ) -> Result<T, E> {
        let found = self.find();
        let loaded = load(found.clone()).await;
        if loaded.is_ok() {
            return loaded;
        }
        self.settled().await;
        match self.find() {
            now if now != found => load(now).await,
            _ => loaded,
        }
    }

    /// Waits for a file that was noted and has left its place: what it is in the new one is known
    /// when the move is over.
    pub async fn settled(&self) {
        let has_left =
            |place: &Place| place.next.is_some() && place.stamp.is_some() && !place.now.is_file();
        if has_left(&self.0.borrow().clone()) {
            let mut told = self.0.subscribe();
            let is_over = told.wait_for(|place| place.next.is_none());
            // Then it is looked for all the same.
            let _ = tokio::time::timeout(MOVE_LIMIT, is_over).await;
        }
    }

    /// Where it is: while it moves, in one of two places. Looks at the disk only then, and holds
    /// nobody up.
    fn find(&self) -> NotedFile {
        let Place { now, next, stamp } = self.0.borrow().clone();
        let path = match next {
            Some(next) if !now.is_file() => next,
            _ => now,
        };
        NotedFile { path, stamp }
    }

    /// The list says that it is there, and what it was when all of it was digested.
    pub fn lies(&self, now: &Path, stamp: Option<FileStamp>) {
        self.0.send_if_modified(|place| {
            let next = place.next.clone().filter(|_| place.now == now);
            let listed = Place { now: now.to_owned(), next, stamp };
            let is_news = listed != *place;
            *place = listed;
            is_news
        });
    }

    /// It is being moved there.
    pub fn expect(&self, next: PathBuf) {
        self.0.send_modify(|place| place.next = Some(next));
    }

    /// It was moved there, and is this now.
    pub fn settle(&self, stamp: Option<FileStamp>) {
        self.0.send_modify(|place| {
            if let Some(next) = place.next.take() {
                place.now = next;
            }
            place.stamp = stamp;
        });
    }

    /// It was not moved.
    pub fn stay(&self) {
        self.0.send_modify(|place| place.next = None);
    }
}

impl PartialEq for FilePlace {
    fn eq(&self, other: &Self) -> bool {
        let is_listed = |place: &Self| (place.now(), place.stamp());
        Arc::ptr_eq(&self.0, &other.0) || is_listed(self) == is_listed(other)
    }
}

impl Eq for FilePlace {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    fn stamp(path: &Path) -> Option<FileStamp> {
        Some(FileStamp::of(&fs::metadata(path).unwrap()))
    }

    #[tokio::test]
    async fn a_file_that_moves_before_it_is_opened_is_opened_in_its_new_place() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, b"weights").unwrap();
        let place = FilePlace::new(old.clone());
        place.expect(new.clone());
        let read = async |file: NotedFile| {
            let _ = fs::rename(&old, &new);
            fs::read(file.path)
        };
        assert_eq!(place.with(read).await.unwrap(), b"weights");
        // What fails where the file still is fails once.
        place.settle(None);
        let tries = Cell::new(0);
        let fail = async |_: NotedFile| {
            tries.set(tries.get() + 1);
            Err::<(), _>("no model")
        };
        assert_eq!((place.with(fail).await, tries.get()), (Err("no model"), 1));
    }

    #[tokio::test]
    async fn whoever_wants_a_noted_file_that_has_left_hears_what_it_is_in_its_new_place() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, b"weights").unwrap();
        let place = FilePlace::noted(old.clone(), stamp(&old));
        place.expect(new.clone());
        fs::rename(&old, &new).unwrap();
        let asked = Cell::new(0);
        let open = async |file: NotedFile| {
            asked.set(asked.get() + 1);
            if asked.get() == 1 {
                // The move ends while somebody waits for it.
                place.settle(stamp(&file.path));
                return Err("another stamp");
            }
            if file.stamp == stamp(&file.path) { Ok(file.path) } else { Err("another stamp") }
        };
        assert_eq!(place.with(open).await, Ok(new));
    }
}
