//! What is given, to whom, and how a call ends, over real calls and with the built-in model's file.

use std::time::Duration;

use nook_base::limits::CHUNK_BYTES;
use nook_base::tasks::Tasks;
use nook_base::{FileStamp, NotedFile, PeerId};
use nook_model::{Manifest, ModelFile};
use nook_mux::CallError;
use nook_mux::testing::call;
use nook_resources::file_place::FilePlace;
use nook_store::AuditList;
use nook_trust::{Gate, GatePolicy, TrustLevel};
use nook_wire::{PieceAssembly, ReleaseDocument};
use tokio_util::sync::CancellationToken;

use super::*;

const PEER: PeerId = PeerId([7; 32]);
const MODEL: ModelDigest = ModelDigest([1; 32]);

/// Behind the model's weights: more than travels before anybody takes a byte.
const PADDING: usize = 4 << 20;

/// A giver of one model. Its digest is not that of the file, unless it is [true](Giver::truthful):
/// only manifests need it.
struct Giver {
    model: ModelDigest,
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    giving: Giving,
    pass: CopyPass,
    audit: Audit,
    tasks: Tasks,
}

impl Giver {
    fn new() -> Self {
        Self::of(|_| MODEL)
    }

    fn truthful() -> Self {
        Self::of(|file| file.digest().unwrap())
    }

    fn of(model: impl FnOnce(&ModelFile) -> ModelDigest) -> Self {
        let ember = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
        let mut bytes = std::fs::read(ember).unwrap();
        bytes.resize(bytes.len() + PADDING, 7);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("amber.gguf");
        std::fs::write(&path, &bytes).unwrap();
        let stamp = Some(FileStamp::of(&std::fs::metadata(&path).unwrap()));
        let noted = NotedFile { path: path.clone(), stamp };
        let file = ModelFile::open_noted(&noted).unwrap();
        let model = model(&file);
        let place = FilePlace::noted(path, stamp);
        let one = Given { model, name: "amber".to_owned(), layers: 6, file, place };
        let giving = Giving::new(Traffic::default());
        giving.give(Arc::new(vec![one]));
        let gate = Gate::new(GatePolicy::DEFAULT, [(PEER, TrustLevel::Trusted)]);
        let pass = CopyPass { pass: gate.admit(PEER).unwrap(), revoked: CancellationToken::new() };
        let audit = Audit::new(AuditList::default(), watch::channel(Arc::default()).1);
        Self { model, folder, bytes, giving, pass, audit, tasks: Tasks::new() }
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The model's file is another one from now on; what keeps it.
    fn reopens(&self, bytes: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("elsewhere.gguf");
        std::fs::write(&path, bytes).unwrap();
        let before = self.giving.given.borrow()[0].clone();
        let after = Given { file: ModelFile::open(&path).unwrap(), ..before };
        self.giving.give(Arc::new(vec![after]));
        folder
    }

    /// A call that asks for this, and what keeps it.
    async fn asks(&self, want: Want) -> (Call<Message>, Box<dyn std::any::Any>) {
        self.asked(Asked::Model(want)).await
    }

    async fn asked(&self, want: Asked) -> (Call<Message>, Box<dyn std::any::Any>) {
        let (near, far, kept) = call::<Message>(&self.tasks).await;
        let (pass, giving, audit) = (self.pass.clone(), self.giving.clone(), self.audit.clone());
        let giving = async move { give((PEER, Ok(pass)), (&giving, &audit), want, far).await };
        self.tasks.spawn("give", giving);
        (near, kept)
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

fn want(from: u64, bytes: u64) -> Want {
    Want { model: MODEL, document: Document::File, from, bytes }
}

/// The bytes of a range, as far as they are asked for.
async fn take(call: &mut Call<Message>, from: u64, bytes: u64) -> Vec<u8> {
    let (mut due, mut all) = (from..from + bytes, Vec::new());
    while due.start < due.end {
        let Ok(Message::Piece(head)) = call.recv().await else { panic!("no piece") };
        let mut assembly = PieceAssembly::new(&head, &due).unwrap();
        loop {
            let Ok(Message::Chunk(chunk)) = call.recv().await else { panic!("no chunk") };
            assert!(chunk.bytes.len() <= CHUNK_BYTES);
            if let Some(bytes) = assembly.take(chunk).unwrap() {
                all.extend_from_slice(&bytes);
                break;
            }
        }
        due.start += u64::from(head.bytes);
    }
    all
}

/// The code with which a call is refused, whatever came before.
async fn refusal(call: &mut Call<Message>) -> ErrorCode {
    loop {
        match call.recv().await {
            Ok(Message::Error(error)) => return error.code,
            Ok(Message::Piece(_) | Message::Chunk(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn ranges_come_as_the_file_has_them_one_after_the_other() {
    let giver = Giver::new();
    let (file, long) = (&giver.bytes, giver.length());
    let (mut call, _kept) = giver.asks(want(0, long)).await;
    assert!(take(&mut call, 0, long).await == *file, "the whole");
    for (from, bytes) in [(long - 1, 1), (5, 2 << 20), (0, 1)] {
        call.send(Message::Want(want(from, bytes))).await.unwrap();
        let part = take(&mut call, from, bytes).await;
        assert!(part == file[from as usize..(from + bytes) as usize], "{bytes} at {from}");
    }
}

#[tokio::test]
async fn the_next_range_is_asked_for_while_the_giver_still_lets_a_reply_go_first() {
    let giver = Giver::new();
    // It waits behind each chunk, the last as well, when the taker has all and asks on.
    giver.giving.traffic.set(true);
    let chunk = CHUNK_BYTES as u64;
    let (mut call, _kept) = giver.asks(want(0, chunk)).await;
    for from in [0, chunk, 5] {
        let part = take(&mut call, from, chunk).await;
        assert!(part == giver.bytes[from as usize..(from + chunk) as usize], "from {from}");
        let next = if from == 0 { chunk } else { 5 };
        call.send(Message::Want(want(next, chunk))).await.unwrap();
    }
}

#[tokio::test]
async fn ranges_that_are_none_and_models_that_are_not_given_are_refused_by_name() {
    let giver = Giver::new();
    let long = giver.length();
    for (from, bytes) in
        [(0, 0), (long, 0), (long, 1), (0, long + 1), (long - 1, 2), (u64::MAX, 1), (1, u64::MAX)]
    {
        let (mut call, _kept) = giver.asks(want(from, bytes)).await;
        assert_eq!(refusal(&mut call).await, ErrorCode::BadRequest, "{bytes} at {from}");
        let closed = call.recv().await;
        assert_eq!(closed, Err(CallError::Closed { code: Some(ErrorCode::BadRequest) }));
    }
    let other = Want { model: ModelDigest([2; 32]), ..want(0, 1) };
    let (mut call, _kept) = giver.asks(other).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound);
    // Not a question about a range.
    let (mut call, _kept) = giver.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    call.send(Message::Piece(Piece { from: 0, bytes: 1 })).await.unwrap();
    assert_eq!(refusal(&mut call).await, ErrorCode::BadRequest);
}

#[tokio::test]
async fn what_is_under_way_ends_when_trust_falls_or_the_model_is_given_no_more() {
    // Nobody takes a chunk, so each of these has just begun, or waits until somebody does.
    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(want(0, giver.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    giver.pass.revoked.cancel();
    assert_eq!(refusal(&mut call).await, ErrorCode::TrustDenied);

    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    call.send(Message::Want(want(0, giver.length()))).await.unwrap();
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    giver.giving.give(Arc::default());
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_file_that_was_opened_again_is_read_and_the_one_from_before_is_let_go() {
    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(want(0, giver.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    let mut moved = giver.bytes.clone();
    *moved.last_mut().unwrap() = 9;
    let _elsewhere = giver.reopens(&moved);
    let mut last = 0;
    // Where the last chunk ends, so does the file.
    let mut left = giver.bytes.len();
    while left > 0 {
        match call.recv().await {
            Ok(Message::Piece(_)) => {}
            Ok(Message::Chunk(chunk)) => {
                left -= chunk.bytes.len();
                last = *chunk.bytes.last().unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(last, 9);
}

#[tokio::test]
async fn a_file_of_another_length_in_its_place_is_not_gone_on_with() {
    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(want(0, giver.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    let mut longer = giver.bytes.clone();
    longer.push(9);
    let _elsewhere = giver.reopens(&longer);
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
}

#[cfg(unix)]
#[tokio::test]
async fn m6_a_file_that_somebody_wrote_to_is_not_given_whatever_its_time_says() {
    let giver = Giver::truthful();
    let (mut call, _kept) = giver.asks(Want { model: giver.model, ..want(0, 4) }).await;
    assert_eq!(take(&mut call, 0, 4).await, b"GGUF");
    let path = giver.giving.given.borrow()[0].place.now();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, [&giver.bytes[..giver.bytes.len() - 1], b"x"].concat()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    call.send(Message::Want(Want { model: giver.model, ..want(0, 4) })).await.unwrap();
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
    let (mut call, _kept) = giver.asks(giver.wants_manifest(0, 16)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_this_device_moves_is_asked_for_again_shortly() {
    let giver = Giver::truthful();
    let place = giver.giving.given.borrow()[0].place.clone();
    let (old, new) = (place.now(), giver.folder.path().join("new.gguf"));
    place.expect(new.clone());
    std::fs::rename(&old, &new).unwrap();
    let (mut call, _kept) = giver.asks(Want { model: giver.model, ..want(0, 4) }).await;
    place.settle(Some(FileStamp::of(&std::fs::metadata(&new).unwrap())));
    assert_eq!(refusal(&mut call).await, ErrorCode::Busy);
}

#[tokio::test]
async fn one_copy_too_many_is_refused_as_busy_and_a_place_is_free_again_behind_each() {
    let giver = Giver::new();
    let mut taking = Vec::new();
    for _ in 0..COPIES_MAX {
        let (mut call, kept) = giver.asks(want(0, 1)).await;
        take(&mut call, 0, 1).await;
        taking.push((call, kept));
    }
    let (mut call, _kept) = giver.asks(want(0, 1)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::Busy);
    let (call, _kept) = taking.remove(0);
    call.close(None);
    let freed = giver.giving.permits.acquire();
    assert!(tokio::time::timeout(Duration::from_secs(60), freed).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_taker_that_asks_for_nothing_more_gives_its_place_back_after_the_limit() {
    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    let told = tokio::time::timeout(Duration::from_secs(3600), refusal(&mut call)).await;
    assert_eq!(told, Ok(ErrorCode::PipelineStalled));
    assert_eq!(giver.giving.permits.available_permits(), COPIES_MAX);
}

impl Giver {
    fn wants_manifest(&self, from: u64, bytes: u64) -> Want {
        Want { model: self.model, document: Document::Manifest, from, bytes }
    }

    /// The manifest, as a device gets it that does not know its length.
    async fn manifest(&self) -> Vec<u8> {
        let prefix = Manifest::PREFIX_BYTES as u64;
        let (mut call, _kept) = self.asks(self.wants_manifest(0, prefix)).await;
        let mut all = take(&mut call, 0, prefix).await;
        let rest = Manifest::length_of(&all).unwrap() as u64 - prefix;
        call.send(Message::Want(self.wants_manifest(prefix, rest))).await.unwrap();
        all.extend(take(&mut call, prefix, rest).await);
        all
    }
}

#[tokio::test]
async fn a_manifest_proves_the_model_and_its_ranges_are_those_of_the_document() {
    let giver = Giver::truthful();
    let bytes = giver.manifest().await;
    let manifest = Manifest::from_bytes_of(&bytes, giver.model).unwrap();
    assert_eq!(manifest.file_bytes(), giver.length());
    let long = bytes.len() as u64;
    for (from, count) in [(0, 0), (long, 1), (0, long + 1), (u64::MAX, 1), (1, u64::MAX)] {
        let (mut call, _kept) = giver.asks(giver.wants_manifest(from, count)).await;
        assert_eq!(refusal(&mut call).await, ErrorCode::BadRequest, "{count} at {from}");
    }
    // File and manifest may be asked for on one call.
    let (mut call, _kept) = giver.asks(giver.wants_manifest(5, 7)).await;
    assert_eq!(take(&mut call, 5, 7).await, bytes[5..12]);
    call.send(Message::Want(Want { model: giver.model, ..want(0, 4) })).await.unwrap();
    assert_eq!(take(&mut call, 0, 4).await, b"GGUF");
}

#[tokio::test]
async fn no_manifest_is_given_of_a_file_that_is_not_the_model_or_that_is_not_given() {
    let giver = Giver::new();
    let (mut call, _kept) = giver.asks(giver.wants_manifest(0, 16)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
    let other = Want { model: ModelDigest([2; 32]), ..giver.wants_manifest(0, 16) };
    let (mut call, _kept) = giver.asks(other).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound);
    let giver = Giver::truthful();
    giver.pass.revoked.cancel();
    let (mut call, _kept) = giver.asks(giver.wants_manifest(0, 16)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::TrustDenied);
}

#[tokio::test]
async fn a_manifest_is_kept_for_the_next_start_and_a_damaged_one_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("manifests");
    let keeping = |giver: Giver| {
        let giving = giver.giving.clone().keeping_manifests_in(folder.clone());
        // Before anything was asked for, so nothing is in memory.
        (giver, giving)
    };
    let (mut giver, giving) = keeping(Giver::truthful());
    giver.giving = giving;
    let kept = folder.join(format!("{}.manifest", giver.model));
    let other = folder.join(format!("{}.manifest", ModelDigest([9; 32])));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&other, b"of a model that is given no more").unwrap();
    let bytes = giver.manifest().await;
    assert!(!other.exists());
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    std::fs::write(&kept, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(giver.manifest().await, bytes, "from memory");
    let (mut giver, giving) = keeping(Giver::truthful());
    giver.giving = giving;
    assert_eq!(giver.manifest().await, bytes);
    assert_eq!(std::fs::read(&kept).unwrap(), bytes, "made again");
}

#[tokio::test]
async fn of_a_release_its_list_and_its_packages_are_given_and_nothing_else() {
    let giver = Giver::new();
    let release = |document, from, bytes| Asked::Release(WantRelease { document, from, bytes });
    let (mut call, _kept) = giver.asked(release(ReleaseDocument::List, 0, 1)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound, "there is none");

    let path = giver.folder.path().join("amber.gguf");
    let package = GivenPackage { sha256: [5; 32], path: path.clone(), bytes: giver.length() };
    let given = GivenRelease {
        serial: 3,
        list: Bytes::from_static(b"the list"),
        signature: Bytes::from_static(b"signed"),
        packages: vec![package],
    };
    let told = given.told();
    assert_eq!((told.serial, told.list_bytes, told.signature_bytes), (3, 8, 6));
    assert_eq!(told.packages, [[5; 32]]);
    giver.giving.give_release(Arc::new(given));
    let (mut call, _kept) = giver.asked(release(ReleaseDocument::List, 0, 8)).await;
    assert_eq!(take(&mut call, 0, 8).await, b"the list");
    let next = WantRelease { document: ReleaseDocument::Signature, from: 2, bytes: 4 };
    call.send(Message::WantRelease(next)).await.unwrap();
    assert_eq!(take(&mut call, 2, 4).await, b"gned");
    let whole =
        WantRelease { document: ReleaseDocument::Package([5; 32]), from: 0, bytes: giver.length() };
    call.send(Message::WantRelease(whole)).await.unwrap();
    assert!(take(&mut call, 0, giver.length()).await == giver.bytes);

    for (document, from, bytes, code) in [
        (ReleaseDocument::Package([6; 32]), 0, 1, ErrorCode::NotFound),
        (ReleaseDocument::List, 0, 9, ErrorCode::BadRequest),
        (ReleaseDocument::Package([5; 32]), giver.length(), 1, ErrorCode::BadRequest),
        (ReleaseDocument::Signature, u64::MAX, 1, ErrorCode::BadRequest),
    ] {
        let (mut call, _kept) = giver.asked(release(document, from, bytes)).await;
        assert_eq!(refusal(&mut call).await, code, "{document:?}");
    }
    // The file is gone, as after another version was downloaded.
    std::fs::remove_file(path).unwrap();
    let (mut call, _kept) = giver.asked(release(ReleaseDocument::Package([5; 32]), 0, 9)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
}
