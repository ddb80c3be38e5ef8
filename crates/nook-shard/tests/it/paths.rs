//! Where a model's file may lie.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use nook_base::{ActivationDtype, ErrorCode, FileStamp, LayerRange, ModelPart, NotedFile, PeerId};
use nook_model::{ModelFile, Presence};
use nook_shard::WorkerError;
use nook_wire::{Message, Open, WorkerMessage};

use crate::host::{Host, LAYERS, MODEL, Opening, Refused, bits};

/// Latin-1, as disks of older systems have it: no UTF-8.
const ODD: &[u8] = b"mod\xe8les \xff";

#[tokio::test]
async fn a_model_in_a_folder_whose_name_is_no_text_loads() {
    let odd = OsStr::from_bytes(ODD);
    assert_eq!(odd.to_str(), None);
    let host = Host::start_in(odd, "cpu", 1, 1 << 30).await.unwrap();
    assert_eq!(host.status().await.held, [LayerRange::all(LAYERS)]);
}

#[tokio::test]
async fn a_worker_that_began_with_a_part_goes_on_with_the_whole_that_came_elsewhere() {
    let host = Host::start_empty().await;
    let part = ModelPart::inner(LayerRange::with_len(0, 1));
    let whole = ModelFile::open(&host.file).unwrap();
    let partial = host.file.with_file_name("part.gguf");
    std::fs::copy(&host.file, &partial).unwrap();
    let mut presence = Presence::new(&whole.manifest().unwrap());
    for range in whole.ranges_of(&part) {
        presence.mark(range.number).unwrap();
    }
    presence.store(&partial).unwrap();

    host.worker.load(&partial, MODEL, part).await.unwrap();
    let rest = LayerRange::with_len(1, LAYERS - 1);
    let Err(Refused(_)) = host.open(Opening::of(1, rest)).await else { panic!("it lacks those") };
    host.load().await.unwrap();
    // What lies in a file that nobody lists any more is gone at some time.
    std::fs::remove_file(&partial).unwrap();
    for layers in [LayerRange::all(LAYERS), rest] {
        let mut talk = host.open(Opening::of(1, layers)).await.unwrap().seeded(3);
        assert_eq!(bits(&talk.walk(&[4]).await.unwrap()), bits(&host.alone(layers, 3, 4)));
    }
}

#[tokio::test]
async fn m6_a_worker_loads_nothing_of_a_file_that_somebody_wrote_to() {
    let host = Host::start_empty().await;
    let noted = || {
        let stamp = Some(FileStamp::of(&std::fs::metadata(&host.file).unwrap()));
        NotedFile { path: host.file.clone(), stamp }
    };
    let (first, rest) = (LayerRange::with_len(0, 1), LayerRange::with_len(1, LAYERS - 1));
    let (good, bytes) = (noted(), std::fs::read(&host.file).unwrap());
    host.worker.load(&good, MODEL, ModelPart::inner(first)).await.unwrap();
    // In its place, and by another file in its place: the worker has the first one open.
    for by_another in [false, true] {
        let modified = std::fs::metadata(&host.file).unwrap().modified().unwrap();
        let mut other = bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        if by_another {
            std::fs::remove_file(&host.file).unwrap();
        }
        std::fs::write(&host.file, &other).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&host.file).unwrap();
        file.set_modified(modified).unwrap();
        let refused = host.worker.load(&good, MODEL, ModelPart::inner(rest)).await;
        let Err(WorkerError::Refused { code, sentence }) = refused else { panic!("{refused:?}") };
        assert_eq!(code, ErrorCode::BadModel, "{sentence}");
        // A conversation names no file.
        let Err(Refused(code)) = host.open(Opening::of(1, rest)).await else { panic!("it opens") };
        assert_eq!(code, ErrorCode::BadModel);
        assert_eq!(host.status().await.held, [first]);
    }
    // Read again and found to be what it was.
    std::fs::write(&host.file, &bytes).unwrap();
    host.worker.load(&noted(), MODEL, ModelPart::inner(rest)).await.unwrap();
    let all = LayerRange::all(LAYERS);
    let mut talk = host.open(Opening::of(1, all)).await.unwrap().seeded(3);
    assert_eq!(bits(&talk.walk(&[4]).await.unwrap()), bits(&host.alone(all, 3, 4)));
}

#[tokio::test]
async fn a_device_that_is_refused_does_not_hear_where_the_file_lies() {
    let host = Host::start_empty().await;
    let (first, rest) = (LayerRange::with_len(0, 1), LayerRange::with_len(1, LAYERS - 1));
    let stamp = Some(FileStamp::of(&std::fs::metadata(&host.file).unwrap()));
    let noted = NotedFile { path: host.file.clone(), stamp };
    host.worker.load(&noted, MODEL, ModelPart::inner(first)).await.unwrap();
    let mut other = std::fs::read(&host.file).unwrap();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(&host.file, &other).unwrap();
    let mut call = host.worker.open_call_for(PeerId([1; 32])).await.unwrap();
    let open = Open {
        session: 1,
        model: MODEL,
        layers: rest,
        dtype: ActivationDtype::F32,
        positions_max: 8,
        resume: None,
    };
    call.send(Message::Open(open).into()).await.unwrap();
    let Ok(WorkerMessage::Peer(Message::Error(error))) = call.recv().await else {
        panic!("it opens");
    };
    assert_eq!(
        (error.code, &*error.sentence),
        (ErrorCode::BadModel, ErrorCode::BadModel.sentence())
    );
    // The owner does.
    let refused = host.worker.load(&noted, MODEL, ModelPart::inner(rest)).await;
    let Err(WorkerError::Refused { sentence, .. }) = refused else { panic!("{refused:?}") };
    assert!(sentence.contains("tiny.gguf"), "{sentence}");
}
