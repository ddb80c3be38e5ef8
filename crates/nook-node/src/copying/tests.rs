//! What is given, to whom, and how a call ends, over real calls and with the built-in model's file.

use std::time::Duration;

use nook_base::limits::CHUNK_BYTES;
use nook_base::tasks::Tasks;
use nook_fetch::{Bringer as _, CopyWish, Halt};
use nook_mux::{Call, CallError};
use nook_trust::{Gate, GatePolicy, TrustLevel};
use nook_wire::{Piece, PieceAssembly, Want};

use super::taking::Taker;
use super::*;
use nook_mux::testing::call;

const PEER: PeerId = PeerId([7; 32]);
const MODEL: ModelDigest = ModelDigest([1; 32]);

/// Behind the model's weights: more than travels before anybody takes a byte.
const PADDING: usize = 4 << 20;

/// A desk that gives one model.
struct Desk {
    _folder: tempfile::TempDir,
    bytes: Vec<u8>,
    given: watch::Sender<Arc<Vec<Given>>>,
    copier: Copier,
    tasks: Tasks,
}

impl Desk {
    fn new() -> Self {
        let ember = concat!(env!("CARGO_MANIFEST_DIR"), "/../nook-store/ember/ember-q8_0.gguf");
        let mut bytes = std::fs::read(ember).unwrap();
        bytes.resize(bytes.len() + PADDING, 7);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("amber.gguf");
        std::fs::write(&path, &bytes).unwrap();
        let file = ModelFile::open(&path).unwrap();
        let one = Given { model: MODEL, name: "amber".to_owned(), layers: 6, file };
        let given = watch::channel(Arc::new(vec![one])).0;
        let gate = Gate::new(GatePolicy::DEFAULT, [(PEER, TrustLevel::Trusted)]);
        let copier = Copier {
            pass: gate.admit(PEER, Purpose::Copy).unwrap(),
            revoked: CancellationToken::new(),
            given: given.subscribe(),
            seats: Arc::new(Semaphore::new(GIVEN_MAX)),
            traffic: Traffic::default(),
        };
        Self { _folder: folder, bytes, given, copier, tasks: Tasks::new() }
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The model's file is another one from now on; what keeps it.
    fn reopens(&self, bytes: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("elsewhere.gguf");
        std::fs::write(&path, bytes).unwrap();
        let before = self.given.borrow()[0].clone();
        let after = Given { file: ModelFile::open(&path).unwrap(), ..before };
        self.given.send_replace(Arc::new(vec![after]));
        folder
    }

    /// A call that asks for this, and what keeps it.
    async fn asks(&self, want: Want) -> (Call<Message>, Box<dyn std::any::Any>) {
        let (near, far, kept) = call::<Message>(&self.tasks).await;
        let copier = self.copier.clone();
        self.tasks.spawn("give", giving::give(Ok(copier), want, far));
        (near, kept)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

fn want(from: u64, bytes: u64) -> Want {
    Want { model: MODEL, from, bytes }
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
    let desk = Desk::new();
    let (file, long) = (&desk.bytes, desk.length());
    let (mut call, _kept) = desk.asks(want(0, long)).await;
    assert!(take(&mut call, 0, long).await == *file, "the whole");
    for (from, bytes) in [(long - 1, 1), (5, 2 << 20), (0, 1)] {
        call.send(Message::Want(want(from, bytes))).await.unwrap();
        let part = take(&mut call, from, bytes).await;
        assert!(part == file[from as usize..(from + bytes) as usize], "{bytes} at {from}");
    }
}

#[tokio::test]
async fn ranges_that_are_none_and_models_that_are_not_given_are_refused_by_name() {
    let desk = Desk::new();
    let long = desk.length();
    for (from, bytes) in
        [(0, 0), (long, 0), (long, 1), (0, long + 1), (long - 1, 2), (u64::MAX, 1), (1, u64::MAX)]
    {
        let (mut call, _kept) = desk.asks(want(from, bytes)).await;
        assert_eq!(refusal(&mut call).await, ErrorCode::BadRequest, "{bytes} at {from}");
        let closed = call.recv().await;
        assert_eq!(closed, Err(CallError::Closed { code: Some(ErrorCode::BadRequest) }));
    }
    let other = Want { model: ModelDigest([2; 32]), ..want(0, 1) };
    let (mut call, _kept) = desk.asks(other).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound);
    // Not a question about a range.
    let (mut call, _kept) = desk.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    call.send(Message::Piece(Piece { from: 0, bytes: 1 })).await.unwrap();
    assert_eq!(refusal(&mut call).await, ErrorCode::BadRequest);
}

#[tokio::test]
async fn what_is_under_way_ends_when_trust_falls_or_the_model_is_given_no_more() {
    // Nobody takes a chunk, so each of these has just begun, or waits until somebody does.
    let desk = Desk::new();
    let (mut call, _kept) = desk.asks(want(0, desk.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    desk.copier.revoked.cancel();
    assert_eq!(refusal(&mut call).await, ErrorCode::TrustDenied);

    let desk = Desk::new();
    let (mut call, _kept) = desk.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    call.send(Message::Want(want(0, desk.length()))).await.unwrap();
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    desk.given.send_replace(Arc::default());
    assert_eq!(refusal(&mut call).await, ErrorCode::NotFound);
}

#[tokio::test]
async fn a_file_that_was_opened_again_is_read_and_the_one_from_before_is_let_go() {
    let desk = Desk::new();
    let (mut call, _kept) = desk.asks(want(0, desk.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    let mut moved = desk.bytes.clone();
    *moved.last_mut().unwrap() = 9;
    let _elsewhere = desk.reopens(&moved);
    let mut last = 0;
    // Where the last chunk ends, so does the file.
    let mut left = desk.bytes.len();
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
    let desk = Desk::new();
    let (mut call, _kept) = desk.asks(want(0, desk.length())).await;
    let Ok(Message::Piece(_)) = call.recv().await else { panic!("it has not begun") };
    let mut longer = desk.bytes.clone();
    longer.push(9);
    let _elsewhere = desk.reopens(&longer);
    assert_eq!(refusal(&mut call).await, ErrorCode::BadModel);
}

#[tokio::test]
async fn one_copy_too_many_is_refused_as_busy_and_a_place_is_free_again_behind_each() {
    let desk = Desk::new();
    let mut taking = Vec::new();
    for _ in 0..GIVEN_MAX {
        let (mut call, kept) = desk.asks(want(0, 1)).await;
        take(&mut call, 0, 1).await;
        taking.push((call, kept));
    }
    let (mut call, _kept) = desk.asks(want(0, 1)).await;
    assert_eq!(refusal(&mut call).await, ErrorCode::Busy);
    let (call, _kept) = taking.remove(0);
    call.close(None);
    let freed = desk.copier.seats.acquire();
    assert!(tokio::time::timeout(Duration::from_secs(60), freed).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_taker_that_asks_for_nothing_more_gives_its_place_back_after_the_limit() {
    let desk = Desk::new();
    let (mut call, _kept) = desk.asks(want(0, 1)).await;
    take(&mut call, 0, 1).await;
    let told = tokio::time::timeout(Duration::from_secs(3600), refusal(&mut call)).await;
    assert_eq!(told, Ok(ErrorCode::PipelineStalled));
    assert_eq!(desk.copier.seats.available_permits(), GIVEN_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_copy_waits_a_moment_for_a_device_that_has_gone_and_not_for_ever() {
    let holders = watch::channel(Arc::<Holders>::default()).0;
    let mut taker = Taker::new(MODEL, holders.subscribe(), None, Traffic::default());
    let wish = CopyWish { length: None, others_too: false, most: u64::MAX };
    let begun = tokio::time::Instant::now();
    assert_eq!(taker.choose(wish).await, Err(Halt::Nobody));
    assert_eq!(begun.elapsed().as_secs(), taking::HOLDER_WAIT.as_secs());
}

#[test]
fn the_file_of_which_a_part_is_here_comes_before_a_device_that_is_quicker() {
    let holders = watch::channel(Arc::<Holders>::default()).0;
    let other = PeerId([8; 32]);
    let taker = Taker::new(MODEL, holders.subscribe(), Some(other), Traffic::default());
    let wish = CopyWish { length: Some(9), others_too: true, most: u64::MAX };
    let (slow, quick) = (Duration::from_millis(90), Duration::from_millis(1));
    assert!(taker.rank(&wish, PEER, 9, slow) < taker.rank(&wish, other, 10, quick));
    // Of the same file the owner's choice comes first, and then who is quicker.
    assert!(taker.rank(&wish, other, 9, slow) < taker.rank(&wish, PEER, 9, quick));
    assert!(taker.rank(&wish, PEER, 9, quick) < taker.rank(&wish, PEER, 9, slow));
    let wish = CopyWish { length: None, ..wish };
    assert!(taker.rank(&wish, other, 10, slow) < taker.rank(&wish, PEER, 9, quick));
}

#[test]
fn of_what_a_device_says_only_what_can_be_is_believed() {
    let have = |number, bytes, name: &str| HaveModel {
        model: ModelDigest([number; 32]),
        bytes,
        layers: 6,
        name: name.to_owned(),
    };
    let models = vec![
        have(1, 9, "../../etc/passwd"),
        have(1, 8, "twice"),
        have(2, 0, "nothing"),
        have(3, u64::MAX, "everything"),
        have(4, FILE_BYTES_MAX, "qwen3-4b"),
    ];
    let believed = believable(Have { models });
    let shown: Vec<_> = believed.iter().map(|it| (it.bytes, it.name.as_str())).collect();
    assert_eq!(shown, [(9, "etc-passwd"), (FILE_BYTES_MAX, "qwen3-4b")]);
}
