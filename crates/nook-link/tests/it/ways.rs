//! A link goes on over a better way, with what runs on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use nook_link::LinkEvent;
use nook_mux::Call;
use nook_wire::{CallId, Message, Move, TRIAL_BACK_MAX, Trial, decode, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::household::{Device, device, in_order, known, linked};
use crate::raw;

/// How much later everything arrives that goes through the slow way, in each direction.
const DELAY: Duration = Duration::from_millis(10);

/// A slow way to an address: everything is held back for a while. Dropping it cuts the way.
struct SlowWay {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl SlowWay {
    async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut carried = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(target).await.unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                carried.spawn(carry(near_in, far_out));
                carried.spawn(carry(far_in, near_out));
            }
        });
        Self { address, _tasks: tasks }
    }
}

async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        tokio::time::sleep(DELAY).await;
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// Two devices that are linked by a slow way, the first of which dials first.
async fn slowly_linked() -> (Device, Device, SlowWay) {
    let (first, second) = in_order(1, 2);
    let (mut a, mut b) = (device(first), device(second));
    let slow = SlowWay::to(b.address()).await;
    b.pair_blindly(a.id);
    a.links.set_peers(vec![known(b.id, &[slow.address])]);
    assert_eq!(a.up().await.remote(), slow.address);
    b.up().await;
    (a, b, slow)
}

async fn called(a: &Device, b: &mut Device) -> (Call<Message>, Call<Message>) {
    let mut caller = a.links.link(b.id).expect("a link").mux().open_call().await.unwrap();
    let want = Message::Want(nook_wire::Want {
        model: nook_base::ModelDigest([3; 32]),
        document: nook_wire::Document::File,
        from: 0,
        bytes: 1,
    });
    caller.send(want.clone()).await.unwrap();
    let mut callee = match b.next().await {
        LinkEvent::IncomingCall { call, .. } => call,
        other => panic!("expected a call, got {other:?}"),
    };
    assert_eq!(callee.recv().await, Ok(want));
    (caller, callee)
}

/// Numbers go to and fro on a call until told; how many.
async fn count(
    mut caller: Call<Message>,
    mut callee: Call<Message>,
    mut enough: tokio::sync::oneshot::Receiver<()>,
) -> u32 {
    let echo = tokio::runtime::Handle::current().spawn(async move {
        while let Ok(message) = callee.recv().await {
            if callee.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut position = 0;
    while enough.try_recv().is_err() {
        let message = Message::Truncate { position };
        caller.send(message.clone()).await.expect("the call lives");
        assert_eq!(caller.recv().await, Ok(message), "nothing is lost, doubled or overtaken");
        position += 1;
    }
    drop(caller);
    echo.await.unwrap();
    position
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_goes_on_over_a_better_way_under_its_open_calls() {
    let (mut a, mut b, slow) = slowly_linked().await;
    let (caller, callee) = called(&a, &mut b).await;
    let (enough, told) = tokio::sync::oneshot::channel();
    let counting = tokio::runtime::Handle::current().spawn(count(caller, callee, told));
    let before = (a.links.link(b.id).unwrap().number(), b.links.link(a.id).unwrap().number());
    a.links.sighted(b.id, vec![b.address()]);
    let (moved_a, moved_b) = (moved(&mut a).await, moved(&mut b).await);
    assert_eq!((moved_a.0.number(), moved_b.0.number()), before, "the same links");
    assert_eq!(moved_a.0.remote(), b.address());
    assert_eq!(moved_a.0.listens_at(), Some(b.address()));
    assert_eq!(moved_b.0.listens_at(), Some(a.address()));
    assert_eq!(a.links.link(b.id).unwrap().remote(), b.address());
    assert_eq!(moved_a.1, moved_b.1, "both know what was measured");
    assert!(moved_a.1.expect("it was").round_trip_us > 0);
    // Nothing of it goes the old way any more.
    drop(slow);
    a.links.link(b.id).unwrap().mux().round_trip().await.unwrap();
    enough.send(()).unwrap();
    assert!(counting.await.unwrap() > 0);
    let quiet = [a.events.try_recv().is_err(), b.events.try_recv().is_err()];
    assert_eq!(quiet, [true, true], "nobody was gone");
}

async fn moved(device: &mut Device) -> (nook_link::Link, Option<nook_wire::WayFigures>) {
    match device.next().await {
        LinkEvent::Moved { link, found } => (link, found),
        other => panic!("expected a move, got {other:?}"),
    }
}

type Raw = WebSocketStream<TlsStream<TcpStream>>;

/// A connection with the key of `seed` on which nothing was said.
async fn trial(seed: u8, device: &Device) -> Raw {
    let mut stream = raw::connect(raw::honest(seed), device.address()).await.unwrap();
    let answer = raw::upgrade(&mut stream, "/inglenook/1", "").await;
    assert!(answer.starts_with("HTTP/1.1 101"));
    WebSocketStream::from_raw_socket(stream, Role::Client, None).await
}

async fn say(socket: &mut Raw, seq: u32, message: &Message) -> bool {
    let frame = encode(CallId::CONNECTION, seq, message).to_vec();
    socket.send(Frame::binary(frame)).await.is_ok()
}

/// The next message; `None`: hung up.
async fn hear(socket: &mut Raw) -> Option<Message> {
    loop {
        match socket.next().await? {
            Ok(Frame::Binary(bytes)) => return decode(bytes).ok().map(|frame| frame.message),
            Ok(Frame::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

#[tokio::test]
async fn a_trial_is_answered_by_as_much_as_it_asks() {
    let (a, _b, ..) = linked(1, 2).await;
    let mut socket = trial(2, &a).await;
    assert!(say(&mut socket, 0, &Message::Trial(Trial { padding: 5, back: 0 })).await);
    assert!(say(&mut socket, 1, &Message::Trial(Trial { padding: 0, back: 70_000 })).await);
    let mut came = 0;
    while came < 70_000 {
        match hear(&mut socket).await {
            Some(Message::Trial(Trial { padding, back: 0 })) => came += padding,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(came, 70_000);
    assert_eq!(a.links.all().len(), 1, "it is no link");
}

#[tokio::test]
async fn t4_a_trial_is_bounded_and_nothing_else_belongs_in_it() {
    let (a, _b, ..) = linked(1, 2).await;
    let most = Message::Trial(Trial { padding: 0, back: TRIAL_BACK_MAX });
    let mut socket = trial(2, &a).await;
    let mut answered = 0_u64;
    for seq in 0..1_000 {
        if !say(&mut socket, seq, &most).await {
            break;
        }
        let mut came = 0;
        while came < TRIAL_BACK_MAX
            && let Some(Message::Trial(Trial { padding, .. })) = hear(&mut socket).await
        {
            came += padding;
        }
        answered += u64::from(came);
        if came < TRIAL_BACK_MAX {
            break;
        }
    }
    assert!(answered <= 4 << 20, "{answered}");
    let small = Message::Trial(Trial { padding: 1, back: 1 });
    let hello = raw::hello(1);
    for wrong in [
        Frame::binary(hello),
        Frame::binary(encode(CallId::CONNECTION, 7, &small).to_vec()),
        Frame::binary(encode(CallId::CONNECTION, 1, &Message::Ping { nonce: 1 }).to_vec()),
        Frame::binary(vec![1]),
    ] {
        let mut socket = trial(2, &a).await;
        assert!(say(&mut socket, 0, &small).await);
        assert!(hear(&mut socket).await.is_some());
        socket.send(wrong.clone()).await.unwrap();
        assert_eq!(hear(&mut socket).await, None, "{wrong:?}");
    }
    assert_eq!(a.links.all().len(), 1);
}

#[tokio::test]
async fn d6_a_copied_key_takes_no_link_over() {
    let (mut a, b, ..) = linked(1, 2).await;
    let mut socket = trial(2, &a).await;
    let small = Message::Trial(Trial { padding: 1, back: 1 });
    assert!(say(&mut socket, 0, &small).await);
    assert!(hear(&mut socket).await.is_some());
    let offer = Message::Move(Move { nonce: 77, found: None });
    assert!(say(&mut socket, 1, &offer).await);
    // It may wait there. The link goes on only where its own other end says so, on the link.
    assert_eq!(hear(&mut socket).await, Some(offer));
    a.links.link(b.id).unwrap().mux().round_trip().await.unwrap();
    b.links.link(a.id).unwrap().mux().round_trip().await.unwrap();
    assert_eq!(hear(&mut socket).await, None, "it waits in vain");
    assert!(a.links.link(b.id).is_some());
    a.links.link(b.id).unwrap().mux().round_trip().await.unwrap();
    assert!(a.events.try_recv().is_err());
}

#[tokio::test]
async fn a_trial_on_a_link_ends_it() {
    let (a, mut b, ..) = linked(1, 2).await;
    let message = Message::Trial(Trial { padding: 1, back: 1 });
    a.links.link(b.id).unwrap().mux().send(message).await.unwrap();
    let reason = nook_mux::CloseReason::Local { code: Some(nook_base::ErrorCode::BadRequest) };
    assert_eq!(b.down().await, reason);
}
