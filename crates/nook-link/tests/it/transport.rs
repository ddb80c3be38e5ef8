//! What a socket can do wrong.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::household::{Device, device, id, setup};
use crate::raw;

fn victim() -> Device {
    let device = device(1);
    device.pair_blindly(id(2));
    device
}

/// Reads until the other side has closed the connection.
async fn drained(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn t1_silence_and_trickles_end_at_the_deadline() {
    let a = victim();
    let mut silent = TcpStream::connect(a.address()).await.unwrap();
    let mut half = TcpStream::connect(a.address()).await.unwrap();
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    // Past TLS, the upgrade has the same deadline.
    let mut trickle = raw::connect(raw::honest(2), a.address()).await.unwrap();
    trickle.write_all(b"GET /ingle").await.unwrap();
    // Past the upgrade, HELLO has one.
    let mut mute = raw::connect(raw::honest(2), a.address()).await.unwrap();
    let answer = raw::upgrade(&mut mute, "/inglenook/1", "").await;
    assert!(answer.starts_with("HTTP/1.1 101"));
    // From here on the clock leaps to the next deadline whenever nothing moves.
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    drained(&mut silent).await;
    drained(&mut half).await;
    drained(&mut trickle).await;
    drained(&mut mute).await;
    // Five seconds, on the clock that leaps; the rest is what refused connections may linger.
    assert!(before.elapsed() <= Duration::from_secs(6), "{:?}", before.elapsed());
}

#[tokio::test]
async fn t2_the_fifth_stranger_from_one_address_is_closed_at_once_and_slots_come_back() {
    let careful =
        crate::household::Setup { loopback: nook_link::LoopbackPolicy::Refuse, ..setup(1) };
    let a = careful.start();
    a.pair_blindly(id(2));
    let mut crowd = Vec::new();
    for _ in 0..4 {
        crowd.push(TcpStream::connect(a.address()).await.unwrap());
    }
    let mut fifth = TcpStream::connect(a.address()).await.unwrap();
    drained(&mut fifth).await; // long before any deadline
    drop(crowd);
    while !raw::is_let_in(raw::honest(2), a.address()).await {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn h6_browsers_and_other_paths_are_refused() {
    let a = victim();
    for (path, extra, expected) in [
        ("/inglenook/1", "", "HTTP/1.1 101"),
        ("/inglenook/1", "Origin: https://evil.example\r\n", "HTTP/1.1 403"),
        ("/inglenook/1", "Origin: null\r\n", "HTTP/1.1 403"),
        ("/", "", "HTTP/1.1 404"),
        ("/inglenook/2", "", "HTTP/1.1 404"),
    ] {
        let mut stream = raw::connect(raw::honest(2), a.address()).await.unwrap();
        let answer = raw::upgrade(&mut stream, path, extra).await;
        assert!(answer.starts_with(expected), "{path} {extra}: {answer}");
    }
}

/// A WebSocket of the paired device, as far as the upgrade.
async fn upgraded(a: &Device) -> TlsStream<TcpStream> {
    let mut stream = raw::connect(raw::honest(2), a.address()).await.unwrap();
    let answer = raw::upgrade(&mut stream, "/inglenook/1", "").await;
    assert!(answer.starts_with("HTTP/1.1 101"));
    stream
}

/// The close code that the other side ends with after `bytes`.
async fn close_code_after(bytes: &[u8]) -> Option<CloseCode> {
    let a = victim();
    let mut stream = upgraded(&a).await;
    stream.write_all(bytes).await.unwrap();
    closing(stream).await
}

async fn closing(stream: TlsStream<TcpStream>) -> Option<CloseCode> {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(Error::Io(_))) | None => return None,
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn t3_a_huge_frame_is_refused_unread() {
    let mask = [0; 4];
    for length in [(1u64 << 63) - 1, 16 << 20, (4 << 20) + 17] {
        let header = [&[0x82, 0xff][..], &length.to_be_bytes(), &mask].concat();
        assert_eq!(close_code_after(&header).await, Some(CloseCode::Size), "{length}");
    }
}

#[tokio::test]
async fn t4_what_no_device_sends_ends_the_connection_with_the_reason() {
    let text = [0x81, 0x80, 0, 0, 0, 0];
    assert_eq!(close_code_after(&text).await, Some(CloseCode::Unsupported));
    let unmasked = [0x82, 0x01, 0];
    assert_eq!(close_code_after(&unmasked).await, Some(CloseCode::Protocol));
    let reserved = [0xf2, 0x80, 0, 0, 0, 0];
    assert_eq!(close_code_after(&reserved).await, Some(CloseCode::Protocol));
    let flood = [0x89, 0x80, 0, 0, 0, 0].repeat(1000);
    assert_eq!(close_code_after(&flood).await, Some(CloseCode::Policy));
}

#[tokio::test]
async fn t4_fragments_without_end_stay_within_the_cap() {
    let a = victim();
    let mut stream = upgraded(&a).await;
    let first = [&[0x02, 0xff][..], &65_536u64.to_be_bytes(), &[0; 4], &[0; 65_536]].concat();
    let more = [&[0x00, 0xff][..], &65_536u64.to_be_bytes(), &[0; 4], &[0; 65_536]].concat();
    let mut sent = stream.write_all(&first).await;
    for _ in 0..70 {
        if sent.is_ok() {
            sent = stream.write_all(&more).await;
        }
    }
    assert!(matches!(closing(stream).await, Some(CloseCode::Size) | None));
}

#[tokio::test]
async fn t14_pieces_of_nothing_and_pongs_that_nobody_asked_for_end_the_connection() {
    let pongs = [0x8a, 0x80, 0, 0, 0, 0].repeat(1000);
    assert_eq!(close_code_after(&pongs).await, Some(CloseCode::Policy));
    // On a link that stands: before HELLO a deadline ends it anyway.
    let a = victim();
    let mut stream = raw::greeted(2, &a).await.into_inner();
    let mut sent = stream.write_all(&[0x02, 0x80, 0, 0, 0, 0]).await;
    let pieces = [0x00, 0x80, 0, 0, 0, 0].repeat(10_000);
    for _ in 0..400 {
        if sent.is_ok() {
            sent = stream.write_all(&pieces).await;
        }
    }
    assert!(sent.is_err(), "24 million bytes without a message");
}

#[tokio::test]
async fn t6_t8_frames_that_are_not_hello_first_or_make_no_sense_end_the_connection() {
    let a = victim();
    let ping = nook_wire::Message::Draining { sentence: String::new() };
    let other_first = nook_wire::encode(nook_wire::CallId::CONNECTION, 0, &ping).to_vec();
    let gap = [raw::hello(0), raw::hello(7)];
    for frames in [vec![other_first], vec![vec![0xff; 16]], vec![vec![1]], gap.to_vec()] {
        let stream = upgraded(&a).await;
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        for frame in frames {
            socket.send(Message::binary(frame)).await.unwrap();
        }
        while let Some(Ok(_)) = socket.next().await {}
    }
}

/// As many connections as have a slot, those for known addresses too.
#[cfg(target_os = "linux")]
const CROWD: usize = 32;

/// Addresses of this machine that only Linux has without being told so.
#[cfg(target_os = "linux")]
const FORGED: [[u8; 4]; 8] = [
    [127, 0, 0, 2],
    [127, 0, 0, 3],
    [127, 0, 0, 4],
    [127, 0, 0, 5],
    [127, 0, 0, 6],
    [127, 0, 0, 7],
    [127, 0, 0, 8],
    [127, 0, 0, 9],
];

#[cfg(target_os = "linux")]
#[tokio::test]
async fn d7_a_forged_tag_takes_no_slots_from_the_device_that_it_names() {
    let a = victim();
    // Anybody can say so.
    a.links.sighted(id(2), FORGED.map(|ip| (ip, 4588).into()).into());
    let mut crowd = Vec::new();
    for round in 0..5 {
        crowd.clear();
        for from in FORGED.into_iter().cycle().take(CROWD) {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            crowd.push(socket.connect(a.address()).await.unwrap());
        }
        assert!(raw::is_let_in(raw::honest(2), a.address()).await, "round {round}");
    }
}
