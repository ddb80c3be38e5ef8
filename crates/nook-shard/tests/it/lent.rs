//! Layers that are loaded because another device asked for them, before any conversation.

use std::path::Path;

use nook_base::{ErrorCode, LayerRange, ModelPart, PeerId};
use nook_shard::WorkerError;
use nook_wire::{LocalMessage, Message, WorkerMessage};

use crate::host::{Host, LAYERS, MODEL, Opening, layers};

const GUEST: PeerId = PeerId([1; 32]);

/// The file is open since the start; the worker looks at no path again.
const FILE: &str = "open already";

/// A worker that knows the model and holds nothing of it, with `lendable` bytes for guests.
async fn empty(lendable: u64) -> Host {
    let host = Host::start(4, lendable).await;
    let mut call = host.worker.open_call().await.unwrap();
    call.send(LocalMessage::Unload.into()).await.unwrap();
    assert!(matches!(call.recv().await, Ok(WorkerMessage::Local(LocalMessage::Unloaded))));
    host
}

async fn load(host: &Host, part: LayerRange) -> Result<u64, ErrorCode> {
    match host.worker.load_for(GUEST, Path::new(FILE), MODEL, part).await {
        Ok(loaded) => Ok(loaded.weight_bytes),
        Err(WorkerError::Refused { code, .. }) => Err(code),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_loaded_for_a_guest_counts_as_lent_and_goes_alone() {
    let host = empty(1 << 30).await;
    let bytes = load(&host, layers(1, 2)).await.unwrap();
    let status = host.status().await;
    assert_eq!((status.held.clone(), status.lent_bytes), (vec![layers(1, 2)], bytes));
    // Nothing more for what is there.
    assert_eq!(load(&host, layers(1, 2)).await, Ok(bytes));
    // The owner needs one of them, which is its own from then on.
    let own = ModelPart::inner(layers(2, 1));
    host.worker.load(Path::new(FILE), MODEL, own).await.unwrap();
    assert_eq!(host.status().await.lent_bytes, bytes / 2);
    host.worker.release(LayerRange::all(LAYERS)).await.unwrap();
    let status = host.status().await;
    assert_eq!((status.held, status.lent_bytes), (vec![layers(2, 1)], 0));
    host.tasks.shut_down(std::time::Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_on_lending_holds_and_a_conversation_keeps_its_layers() {
    let host = empty(1 << 30).await;
    let one = load(&host, layers(0, 1)).await.unwrap();
    host.worker.release(layers(0, 1)).await.unwrap();
    let tight = empty(one * 2).await;
    assert_eq!(load(&tight, layers(0, 2)).await, Ok(one * 2));
    assert_eq!(load(&tight, layers(2, 1)).await, Err(ErrorCode::OutOfMemory));
    tight.worker.release(layers(0, 1)).await.unwrap();
    assert_eq!(load(&tight, layers(2, 1)).await, Ok(one * 2));

    assert!(load(&host, layers(0, 2)).await.is_ok());
    let talk = host.open(Opening::of(1, layers(0, 2))).await.unwrap();
    let refused = host.worker.release(layers(0, 2)).await;
    assert!(
        matches!(refused, Err(WorkerError::Refused { code: ErrorCode::Busy, .. })),
        "{refused:?}"
    );
    drop(talk);
    host.until("the end of the conversation", |status| status.sessions == 0).await;
    host.worker.release(layers(0, 2)).await.unwrap();
    assert!(host.status().await.held.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_conversation_brought_is_freed_like_what_was_asked_for() {
    let host = empty(1 << 30).await;
    drop(host.open(Opening::of(1, layers(1, 2))).await.unwrap());
    host.until("the end of the conversation", |status| status.sessions == 0).await;
    assert_eq!(host.status().await.held, [layers(1, 2)]);
    host.worker.release(LayerRange::all(LAYERS)).await.unwrap();
    let status = host.status().await;
    assert!(status.held.is_empty() && status.lent_bytes == 0, "{status:?}");
    // No message of a guest's own begins a call but OPEN.
    let mut call = host.worker.open_call_for(GUEST).await.unwrap();
    call.send(WorkerMessage::Peer(Message::Opened { position: 0 })).await.unwrap();
    assert!(matches!(call.recv().await, Ok(WorkerMessage::Peer(Message::Error(_)))));
}

/// Opens the whole model on `call`; the code where it is refused.
async fn open_whole(call: &mut nook_mux::Call<WorkerMessage>) -> Result<(), ErrorCode> {
    let opening = LocalMessage::OpenLocal {
        session: 1,
        part: ModelPart::whole(LAYERS),
        dtype: nook_base::ActivationDtype::F16,
        positions_max: 64,
        resume: None,
    };
    call.send(opening.into()).await.unwrap();
    match call.recv().await.unwrap() {
        WorkerMessage::Peer(Message::Opened { position: 0 }) => Ok(()),
        WorkerMessage::Peer(Message::Error(error)) => Err(error.code),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_request_of_a_guest_is_held_to_what_guests_may_take() {
    let host = empty(1 << 30).await;
    let mut call = host.worker.open_call_for(GUEST).await.unwrap();
    assert_eq!(open_whole(&mut call).await, Ok(()));
    let status = host.status().await;
    assert_eq!((status.sessions, status.guest_sessions), (1, 1));
    // Caches count as lent as well.
    assert!(status.lent_bytes >= status.weight_bytes && status.weight_bytes > 0, "{status:?}");
    drop(call);
    host.until("the end of the conversation", |status| status.sessions == 0).await;
    host.worker.release(LayerRange::all(LAYERS)).await.unwrap();
    let status = host.status().await;
    assert_eq!((status.held.len(), status.weight_bytes, status.lent_bytes), (0, 0, 0));

    // What guests may not take the owner still may.
    let tight = empty(1 << 10).await;
    let mut guest = tight.worker.open_call_for(GUEST).await.unwrap();
    assert_eq!(open_whole(&mut guest).await, Err(ErrorCode::OutOfMemory));
    let mut own = tight.worker.open_call().await.unwrap();
    assert_eq!(open_whole(&mut own).await, Ok(()));
    assert_eq!(tight.status().await.guest_sessions, 0);
}
