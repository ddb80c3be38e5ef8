//! Frames over a plain byte stream.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use nook_mux::framed;
use nook_wire::{CallId, Chunk, EncodedFrame, FrameParts, Message, encode_unsent};
use tokio::io::AsyncWriteExt;

fn frames() -> Vec<Bytes> {
    in_parts().map(FrameParts::into_bytes).collect()
}

/// The same, as a connection writes them.
fn in_parts() -> impl Iterator<Item = FrameParts> {
    let numbered = |frame: EncodedFrame| frame.with_seq(0);
    let sizes = [1, 15, 16, 17, 300 << 10, 4, 1 << 20];
    let ping = encode_unsent(CallId::CONNECTION, &Message::Ping { nonce: 1 });
    let chunks = sizes.into_iter().map(|size| {
        let bytes = vec![size as u8; size].into();
        encode_unsent(CallId(1), &Message::Chunk(Chunk { offset: 0, bytes, last: false }))
    });
    std::iter::once(ping).chain(chunks).map(numbered)
}

#[tokio::test]
async fn frames_arrive_whole_however_the_stream_is_cut() {
    for (pipe_bytes, write_bytes) in [(1, 1 << 20), (64 << 10, 7), (1 << 22, 1 << 22), (5000, 999)]
    {
        let (mut far, near) = tokio::io::duplex(pipe_bytes);
        let all: Vec<u8> = frames().concat();
        let all = if pipe_bytes == 1 { all[..3000].to_vec() } else { all };
        let complete = pipe_bytes != 1;
        let write = async move {
            for piece in all.chunks(write_bytes) {
                far.write_all(piece).await.unwrap();
            }
        };
        let read = async {
            let mut near = framed(near);
            let mut got = Vec::new();
            while let Some(Ok(frame)) = near.next().await {
                got.push(frame);
            }
            got
        };
        let ((), got) = tokio::join!(write, read);
        if complete {
            assert!(got == frames(), "pipe of {pipe_bytes}");
        } else {
            assert_eq!(got, frames()[..5]);
        }
    }
}

#[tokio::test]
async fn what_is_written_on_one_end_is_read_on_the_other() {
    let (left, right) = tokio::io::duplex(1000);
    let (mut left, mut right) = (framed(left), framed(right));
    let write = async {
        for frame in in_parts() {
            left.feed(frame).await.unwrap();
        }
        left.close().await.unwrap();
    };
    let read = async {
        let mut got = Vec::new();
        while let Some(frame) = right.next().await {
            got.push(frame.unwrap());
        }
        got
    };
    let ((), got) = tokio::join!(write, read);
    assert!(got == frames());
}

#[tokio::test]
async fn an_end_between_frames_is_an_end_and_inside_one_an_error() {
    let whole = frames().remove(2);
    for cut in [0, 3, 16, whole.len() - 1, whole.len()] {
        let (mut far, near) = tokio::io::duplex(1000);
        let mut near = framed(near);
        far.write_all(&whole[..cut]).await.unwrap();
        drop(far);
        if cut == whole.len() {
            assert_eq!(near.next().await.unwrap().unwrap(), whole);
        } else if cut > 0 {
            let error = near.next().await.unwrap().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        }
        assert!(near.next().await.is_none());
    }
}

#[tokio::test]
async fn a_refused_header_is_handed_on_alone_and_nothing_after_it() {
    let (mut far, near) = tokio::io::duplex(1000);
    let mut near = framed(near);
    let mut bad = frames().remove(0).to_vec();
    bad[12] = 0xff;
    far.write_all(&bad).await.unwrap();
    far.write_all(&frames()[0]).await.unwrap();
    assert_eq!(near.next().await.unwrap().unwrap(), bad[..16]);
    drop(far);
    assert!(near.next().await.is_none());
}
