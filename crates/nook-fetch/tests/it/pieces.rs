//! Models in several files: each piece is taken as a file is, and all of them become one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nook_fetch::{
    DISK_RESERVE_BYTES, FetchError, Fetched, Fetcher, Folder, Hubs, Joining, Limits, Order, Phase,
    PieceData, Pin, Progress, Room,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::file_server::{Fault, Request, Served};
use crate::kit::{Desk, LIMITS, MEGABYTE, model, sha256};

const COUNT: usize = 3;
/// What stands first in a piece and does not come into the whole.
const OWN_BYTES: usize = 100;
const ZEROS: u64 = 7;
const COMMIT: &str = "0a1b";
const HEADER: &[u8] = b"GGUF and what all pieces say";

/// Joins as no real format does, so that only what is said here can be what happens.
fn join(pieces: &[PathBuf]) -> Result<Joining, String> {
    let data = pieces.iter().map(|path| {
        let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
        Ok(PieceData { from: OWN_BYTES as u64..bytes, zeros: ZEROS })
    });
    Ok(Joining { header: HEADER.to_vec(), data: data.collect::<Result<_, String>>()? })
}

fn refuse(_: &[PathBuf]) -> Result<Joining, String> {
    Err("they are of two models".to_owned())
}

/// A look at the disk's room stops the download once one file is gone and the other still there.
#[derive(Debug)]
struct Stopping {
    gone: PathBuf,
    here: PathBuf,
    stop: CancellationToken,
}

impl Room for Stopping {
    fn free(&self, _: &Path) -> std::io::Result<u64> {
        if self.here.exists() && !self.gone.exists() {
            self.stop.cancel();
        }
        Ok(u64::MAX)
    }
}

/// A server with the pieces of one model.
struct Cut {
    desk: Desk,
    pieces: Vec<Vec<u8>>,
    fetcher: Fetcher,
    folder: Folder,
}

impl Cut {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: Limits) -> Self {
        let desk = Desk::with(limits, None);
        let lengths = [3 * MEGABYTE + 5, 3 * MEGABYTE, MEGABYTE];
        let pieces: Vec<Vec<u8>> = (0..).zip(lengths).map(|(at, long)| model(long, at)).collect();
        let (fetcher, folder) = (desk.fetcher.clone().joining(join), desk.folder.clone());
        let cut = Self { desk, pieces, fetcher, folder };
        (0..COUNT).for_each(|at| cut.serve(at, None));
        cut
    }

    /// Lets the server have a piece, in the main branch and at its commit.
    fn serve(&self, at: usize, fault: Option<Fault>) {
        let served = self.desk.serve(&self.pieces[at]).with("X-Repo-Commit", COMMIT);
        self.desk.server.serve(&Self::path_in("main", at), served.clone());
        let failing = fault.into_iter().fold(served, Served::failing);
        self.desk.server.serve(&Self::path(at), failing);
    }

    /// Where a piece is asked for: the first one says of which commit it is.
    fn path(at: usize) -> String {
        Self::path_in(if at == 0 { "main" } else { COMMIT }, at)
    }

    fn path_in(revision: &str, at: usize) -> String {
        format!("/o/r/resolve/{revision}/{}", Self::name(at))
    }

    fn name(at: usize) -> String {
        format!("m-{:05}-of-{COUNT:05}.gguf", at + 1)
    }

    fn order() -> Order {
        let source = format!("hf:o/r/{}", Self::name(1)).parse().unwrap();
        Order { source, pin: Pin::default() }
    }

    /// What they become.
    fn whole(&self) -> Vec<u8> {
        let mut whole = HEADER.to_vec();
        for piece in &self.pieces {
            whole.extend(&piece[OWN_BYTES..]);
            whole.extend([0; ZEROS as usize]);
        }
        whole
    }

    async fn fetch(&self) -> Result<Fetched, FetchError> {
        self.fetch_until(&CancellationToken::new()).await
    }

    async fn fetch_until(&self, stop: &CancellationToken) -> Result<Fetched, FetchError> {
        self.fetcher.fetch(&self.folder, &Self::order(), stop, &self.desk.told).await
    }

    /// Fetches until `far` is told, and stops there.
    async fn fetch_until_told(&self, far: impl Fn(&Progress) -> bool) {
        let (stop, mut heard) = (CancellationToken::new(), self.desk.told.subscribe());
        let stopping = async {
            drop(heard.wait_for(|progress| far(progress)).await.unwrap());
            stop.cancel();
        };
        let (stopped, ()) = tokio::join!(self.fetch_until(&stop), stopping);
        assert_eq!(stopped.unwrap_err(), FetchError::Stopped);
    }

    /// Fetches, and is stopped when the first piece has become part of the whole.
    async fn fetch_until_the_first_is_joined(&self) {
        let key = Self::order().source.key();
        let first = self.folder.path().join(format!("{}.p1.gguf", key.as_str()));
        let next = self.folder.path().join(format!("{}.p2.gguf", key.as_str()));
        let stop = CancellationToken::new();
        let room = Arc::new(Stopping { gone: first, here: next, stop: stop.clone() });
        let hubs = Hubs::read(Some(&self.desk.server.address()), None).unwrap();
        let fetcher = Fetcher::new(hubs, LIMITS, room).joining(join);
        let told = &self.desk.told;
        let stopped = fetcher.fetch(&self.folder, &Self::order(), &stop, told).await;
        assert_eq!(stopped.unwrap_err(), FetchError::Stopped);
        assert_eq!(told.borrow().phase, Phase::Finishing);
    }

    /// How often the file itself was asked for, of each piece.
    fn asked(&self) -> [usize; COUNT] {
        let asked = self.desk.server.asked();
        let is_file_of = |at| move |it: &&Request| !it.only_head && it.path == Self::path(at);
        [0, 1, 2].map(|at| asked.iter().filter(is_file_of(at)).count())
    }

    fn bytes_here(&self) -> u64 {
        self.folder.bytes_of(&Self::order().source.key())
    }

    fn check_whole(&self, fetched: Fetched) {
        Desk::check_whole(&fetched, &self.whole());
        assert!(fetched.verified, "the server has named the digest of each piece");
        assert_eq!(fetched.commit.as_deref(), Some(COMMIT));
        // Nothing of the pieces is left.
        assert_eq!(self.bytes_here(), fetched.bytes);
        fetched.slot.discard().unwrap();
        assert_eq!(self.desk.files_here(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pieces_come_once_and_become_one_file() {
    let cut = Cut::new();
    let mut heard = cut.desk.told.subscribe();
    let all: u64 = cut.pieces.iter().map(|piece| piece.len() as u64).sum();
    let (told, mut most) = (watch::Sender::new(0u64), 0);
    let listening = async {
        while heard.changed().await.is_ok() {
            let progress = heard.borrow_and_update().clone();
            // Of the whole, never of one piece.
            let known = [None, Some(all), Some(cut.whole().len() as u64)];
            assert!(known.contains(&progress.bytes), "{progress:?}");
            most = most.max(progress.have);
            told.send_replace(most);
        }
    };
    let fetched = tokio::select! {
        fetched = cut.fetch() => fetched.unwrap(),
        () = listening => panic!("nobody tells any more"),
    };
    assert!(*told.borrow() > 2 * cut.pieces[0].len() as u64, "{}", *told.borrow());
    drop(fetched);
    // It was not taken away yet: nobody is asked for anything again.
    let fetched = cut.fetch().await.unwrap();
    assert_eq!(cut.asked(), [1, 1, 1]);
    cut.check_whole(fetched);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_that_breaks_off_goes_on_and_those_before_it_are_not_asked_for_again() {
    let cut = Cut::new();
    let far = MEGABYTE + 9;
    cut.serve(1, Some(Fault::StallAfter(far)));
    let there = (cut.pieces[0].len() + far) as u64;
    cut.fetch_until_told(|progress| progress.have >= there).await;
    assert_eq!(cut.bytes_here(), there);
    assert_eq!(cut.folder.keys(), [Cut::order().source.key()].into(), "all of it is one download");
    cut.check_whole(cut.fetch().await.unwrap());
    assert_eq!(cut.asked(), [1, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_that_was_stopped_goes_on_with_the_pieces_that_are_left() {
    let cut = Cut::new();
    cut.fetch_until_the_first_is_joined().await;
    let joined = HEADER.len() + cut.pieces[0].len() - OWN_BYTES + ZEROS as usize;
    let left = cut.pieces[1].len() + cut.pieces[2].len();
    assert_eq!(cut.bytes_here(), (joined + left) as u64);
    // The server is not needed any more.
    for at in 0..COUNT {
        cut.serve(at, Some(Fault::Status(404, Vec::new())));
    }
    cut.check_whole(cut.fetch().await.unwrap());
    assert_eq!(cut.asked(), [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_that_somebody_deleted_comes_again() {
    let cut = Cut::new();
    cut.fetch_until_the_first_is_joined().await;
    for entry in fs::read_dir(cut.folder.path()).unwrap().flatten() {
        if entry.file_name().to_str().unwrap().ends_with(".p3.gguf") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!(cut.fetch().await.unwrap_err(), FetchError::Lost);
    cut.check_whole(cut.fetch().await.unwrap());
    // The first two were joined already.
    assert_eq!(cut.asked(), [2, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pieces_are_of_the_commit_that_the_first_one_came_from() {
    let cut = Cut::new();
    // The publisher has put another version into the main branch meanwhile, of the same lengths.
    for at in 1..COUNT {
        let newer = model(cut.pieces[at].len(), 9);
        cut.desk.server.serve(&Cut::path_in("main", at), cut.desk.serve(&newer));
    }
    cut.check_whole(cut.fetch().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_no_length_is_asked_for_one_and_gives_all_the_same() {
    let cut = Cut::new();
    for at in 0..COUNT {
        let said = Served::file(cut.pieces[at].clone(), "\"1\"");
        let served = Served { no_length: true, ..said };
        cut.desk.server.serve(&Cut::path_in("main", at), served);
    }
    let fetched = cut.fetch().await.unwrap();
    Desk::check_whole(&fetched, &cut.whole());
    assert!(!fetched.verified, "nobody has named a digest");
    let asked = cut.desk.server.asked();
    assert_eq!(asked.iter().filter(|it| it.only_head).count(), 1, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_piece_is_named_and_the_others_stay() {
    let cut = Cut::new();
    let mut wrong = cut.pieces[1].clone();
    *wrong.last_mut().unwrap() ^= 1;
    let served = Served::file(wrong, "\"storage\"")
        .with("X-Linked-Etag", &format!("\"{}\"", sha256(&cut.pieces[1])))
        .with("X-Linked-Size", &cut.pieces[1].len().to_string());
    cut.desk.server.serve(&Cut::path(1), served);
    let error = cut.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    assert_eq!(cut.bytes_here(), cut.pieces[0].len() as u64);
    cut.serve(1, None);
    cut.check_whole(cut.fetch().await.unwrap());
    assert_eq!(cut.asked(), [1, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn room_for_all_pieces_and_the_largest_again_is_looked_for_before_the_first() {
    let cut = Cut::new();
    let all: u64 = cut.pieces.iter().map(|piece| piece.len() as u64).sum();
    let needed = all + cut.pieces[0].len() as u64;
    let free = needed + DISK_RESERVE_BYTES - 1;
    cut.desk.disk.free.store(free, Ordering::SeqCst);
    assert_eq!(cut.fetch().await.unwrap_err(), FetchError::NoRoom { needed, free });
    assert_eq!(cut.asked(), [0, 0, 0]);
    cut.desk.disk.free.store(free + 1, Ordering::SeqCst);
    cut.check_whole(cut.fetch().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_is_taken_of_any_model_is_refused_before_the_first_byte() {
    let cut = Cut::with(Limits { file_bytes_max: 5 * MEGABYTE as u64, ..LIMITS });
    let error = cut.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
    assert_eq!(cut.asked(), [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_make_no_model_say_why() {
    let mut cut = Cut::new();
    cut.fetcher = cut.desk.fetcher.clone().joining(refuse);
    let error = cut.fetch().await.unwrap_err();
    assert!(error.to_string().contains("they are of two models"), "{error}");
    // Whoever joins nothing does not begin either.
    cut.fetcher = cut.desk.fetcher.clone();
    let error = cut.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Pieces { .. }), "{error}");
}
