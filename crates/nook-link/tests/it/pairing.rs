//! Pairing on real sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use nook_base::tasks::Tasks;
use nook_link::Pairing;
use nook_link::pairing::{
    JoinError, NotStored, OfferConfig, OfferError, PairedPeer, PairingEvent, PairingOffer,
    StorePeer,
};
use nook_trust::DeviceName;
use nook_trust::pairing::pake::Spake2Ed25519;
use nook_trust::pairing::{
    EXPORTER_BYTES, EXPORTER_LABEL, Exchange, Introduction, PairingChannel, PairingCode,
    PairingError, Progress, RefusalReason, Role, WindowRefusal, refusal,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use crate::household::{device, id, identity, known};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What a device has stored.
type Stored = Arc<Mutex<Vec<PairedPeer>>>;

struct Side {
    pairing: Pairing,
    stored: Stored,
    store: StorePeer,
    tasks: Tasks,
}

fn introduction(name: &str, port: u16) -> Introduction {
    Introduction {
        name: DeviceName::sanitised(name),
        app_version: "0.1.0".to_owned(),
        protocol: (1, 1),
        port,
    }
}

fn side(seed: u8) -> Side {
    let stored = Stored::default();
    let kept = stored.clone();
    let store: StorePeer = Arc::new(move |peer| {
        kept.lock().unwrap().push(peer);
        Box::pin(std::future::ready(Ok(())))
    });
    Side { pairing: Pairing::new(identity(seed)), stored, store, tasks: Tasks::new() }
}

impl Side {
    fn offer(&self) -> Result<(PairingOffer, mpsc::Receiver<PairingEvent>), OfferError> {
        self.offer_with(self.store.clone())
    }

    fn offer_with(
        &self,
        store: StorePeer,
    ) -> Result<(PairingOffer, mpsc::Receiver<PairingEvent>), OfferError> {
        let config = OfferConfig {
            listen: vec![LOCALHOST],
            port: 0,
            introduction: introduction("desk", 4001),
        };
        self.pairing.offer(config, store, &self.tasks)
    }

    async fn join(&self, port: u16, code: &PairingCode) -> Result<PairedPeer, JoinError> {
        let addresses = [SocketAddr::new(LOCALHOST, port)];
        let own = introduction("laptop", 4002);
        self.pairing.join(&addresses, code, own, &self.store).await
    }

    fn stored(&self) -> usize {
        self.stored.lock().unwrap().len()
    }
}

/// A code that is certainly not `code`.
fn other_than(code: &PairingCode) -> PairingCode {
    let mut digits: Vec<char> = code.shown().chars().collect();
    digits[0] = if digits[0] == '0' { '1' } else { '0' };
    PairingCode::parse(&String::from_iter(digits)).unwrap()
}

#[tokio::test]
async fn the_right_code_pairs_both_and_each_is_stored_before_success_is_shown() {
    let (a, b) = (side(1), side(2));
    let (offer, mut events) = a.offer().unwrap();
    let desk = b.join(offer.port, &offer.code).await.unwrap();
    assert_eq!((desk.id, desk.name.as_str()), (id(1), "desk"));
    assert_eq!(desk.addresses, [SocketAddr::new(LOCALHOST, 4001)]);
    assert_eq!((a.stored(), b.stored()), (1, 1));
    let Some(PairingEvent::Paired { peer, confirmed }) = events.recv().await else {
        panic!("success was due");
    };
    assert!(confirmed);
    assert_eq!((peer.id, peer.name.as_str()), (id(2), "laptop"));
    assert_eq!(peer.addresses, [SocketAddr::new(LOCALHOST, 4002)]);
    assert_eq!(events.recv().await, None);
    assert!(refused(offer.port).await, "the window is closed");
}

/// Whether nobody serves the port any more.
async fn refused(port: u16) -> bool {
    match TcpStream::connect((LOCALHOST, port)).await {
        Ok(mut stream) => matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)),
        Err(_) => true,
    }
}

#[tokio::test]
async fn p1_p2_three_wrong_codes_burn_the_window_and_the_right_one_comes_too_late() {
    let (a, b) = (side(1), side(2));
    let (offer, mut events) = a.offer().unwrap();
    let wrong = other_than(&offer.code);
    for left in [2, 1, 0] {
        let error = b.join(offer.port, &wrong).await.unwrap_err();
        let refused =
            PairingError::RefusedByPeer { reason: RefusalReason::WrongCode, tries_left: left };
        assert_eq!(error, JoinError::Refused { error: refused });
        let expected = match left {
            0 => PairingEvent::Burnt,
            tries_left => PairingEvent::WrongCode { tries_left },
        };
        assert_eq!(events.recv().await, Some(expected));
    }
    assert_eq!(b.join(offer.port, &offer.code).await, Err(JoinError::Unreachable));
    assert_eq!((a.stored(), b.stored()), (0, 0));
}

#[tokio::test]
async fn a_wrong_code_and_then_the_right_one_pairs() {
    let (a, b) = (side(1), side(2));
    let (offer, mut events) = a.offer().unwrap();
    b.join(offer.port, &other_than(&offer.code)).await.unwrap_err();
    b.join(offer.port, &offer.code).await.unwrap();
    assert_eq!(events.recv().await, Some(PairingEvent::WrongCode { tries_left: 2 }));
    assert!(matches!(events.recv().await, Some(PairingEvent::Paired { .. })));
}

#[tokio::test]
async fn guessers_side_by_side_get_three_guesses_together() {
    let a = side(1);
    let (offer, mut events) = a.offer().unwrap();
    let wrong = other_than(&offer.code);
    let guessers: Vec<Side> = (10..14).map(side).collect();
    let guesses = guessers.iter().map(|side| side.join(offer.port, &wrong));
    let outcomes = futures_util::future::join_all(guesses).await;
    assert!(outcomes.iter().all(Result::is_err));
    for expected in [
        PairingEvent::WrongCode { tries_left: 2 },
        PairingEvent::WrongCode { tries_left: 1 },
        PairingEvent::Burnt,
    ] {
        assert_eq!(events.recv().await, Some(expected));
    }
    assert_eq!(events.recv().await, None);
}

#[tokio::test]
async fn p1_a_right_proof_that_comes_after_the_third_wrong_one_is_worthless() {
    let a = side(1);
    let (offer, mut events) = a.offer().unwrap();
    // This device has introduced itself and holds back its proof.
    let target = SocketAddr::new(LOCALHOST, offer.port);
    let client = crate::raw::pairing_client(2);
    let mut session = crate::raw::connect(client, target).await.unwrap();
    let mut exporter = Zeroizing::new([0; EXPORTER_BYTES]);
    session
        .get_ref()
        .1
        .export_keying_material(exporter.as_mut_slice(), EXPORTER_LABEL, None)
        .unwrap();
    let channel = PairingChannel::new(id(2), id(1), exporter).unwrap();
    let own = introduction("laptop", 0);
    let (mut exchange, first) =
        Exchange::<Spake2Ed25519>::start(Role::TypeCode, &offer.code, channel, own);
    send(&mut session, &first).await;
    let theirs = receive(&mut session).await;
    let Ok(Progress::Send(proof)) = exchange.receive(&theirs) else {
        panic!("a proof was due");
    };
    let wrong = other_than(&offer.code);
    for seed in 10..13 {
        side(seed).join(offer.port, &wrong).await.unwrap_err();
        events.recv().await.unwrap();
    }
    send(&mut session, &proof).await;
    let answer = receive(&mut session).await;
    assert_eq!(
        exchange.receive(&answer),
        Err(PairingError::RefusedByPeer { reason: RefusalReason::NotPairing, tries_left: 0 })
    );
    assert_eq!((a.stored(), events.recv().await), (0, None));
}

async fn send(session: &mut (impl AsyncWrite + Unpin), message: &[u8]) {
    session.write_u16(message.len() as u16).await.unwrap();
    session.write_all(message).await.unwrap();
    session.flush().await.unwrap();
}

async fn receive(session: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut message = vec![0; session.read_u16().await.unwrap().into()];
    session.read_exact(&mut message).await.unwrap();
    message
}

#[tokio::test(start_paused = true)]
async fn p2_the_port_closes_when_the_time_is_over() {
    let a = side(1);
    let (offer, mut events) = a.offer().unwrap();
    assert_eq!(events.recv().await, Some(PairingEvent::Expired));
    assert!(refused(offer.port).await);
}

#[tokio::test]
async fn cancelling_closes_the_port_and_another_window_can_be_opened() {
    let a = side(1);
    let (offer, mut events) = a.offer().unwrap();
    let refusal = WindowRefusal::AlreadyOpen;
    assert!(matches!(a.offer(), Err(OfferError::Refused { refusal: got }) if got == refusal));
    let port = offer.port;
    drop(offer);
    assert_eq!(events.recv().await, Some(PairingEvent::Cancelled));
    assert!(refused(port).await);
    assert!(a.offer().is_ok());
}

#[tokio::test]
async fn p5_the_same_device_is_named_and_costs_no_try() {
    let (a, copy) = (side(1), side(1));
    let (offer, mut events) = a.offer().unwrap();
    let same = JoinError::Refused { error: PairingError::SameDevice };
    assert_eq!(copy.join(offer.port, &offer.code).await, Err(same));
    side(2).join(offer.port, &offer.code).await.unwrap();
    assert!(matches!(events.recv().await, Some(PairingEvent::Paired { .. })));
}

#[tokio::test]
async fn p11_what_could_not_be_stored_is_not_paired_anywhere() {
    let (a, b) = (side(1), side(2));
    let full: StorePeer = Arc::new(|_| Box::pin(std::future::ready(Err(NotStored))));
    let (offer, mut events) = a.offer_with(full).unwrap();
    let error = b.join(offer.port, &offer.code).await.unwrap_err();
    let refused = PairingError::RefusedByPeer { reason: RefusalReason::NotStored, tries_left: 0 };
    assert_eq!(error, JoinError::Refused { error: refused });
    assert_eq!(events.recv().await, Some(PairingEvent::NotStored));
    assert_eq!(b.stored(), 0);
}

#[tokio::test]
async fn p11_when_only_the_other_side_fails_to_store_it_says_so() {
    let (a, mut b) = (side(1), side(2));
    b.store = Arc::new(|_| Box::pin(std::future::ready(Err(NotStored))));
    let (offer, mut events) = a.offer().unwrap();
    assert_eq!(b.join(offer.port, &offer.code).await, Err(JoinError::NotStored));
    assert!(matches!(events.recv().await, Some(PairingEvent::Paired { confirmed: false, .. })));
    // Pairing again mends it.
    let (offer, _events) = a.offer().unwrap();
    side(2).join(offer.port, &offer.code).await.unwrap();
}

#[tokio::test]
async fn p3_somebody_in_the_middle_fails_although_the_right_code_was_typed() {
    let (a, b) = (side(1), side(2));
    let (offer, mut events) = a.offer().unwrap();
    let middle = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let port = middle.local_addr().unwrap().port();
    let target = SocketAddr::new(LOCALHOST, offer.port);
    let relay = async {
        let (stream, _) = middle.accept().await.unwrap();
        let mut left = crate::raw::pairing_server(9).accept(stream).await.unwrap();
        let mut right = crate::raw::connect(crate::raw::pairing_client(9), target).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut left, &mut right).await;
    };
    let (joined, ()) = tokio::join!(b.join(port, &offer.code), relay);
    let refused = PairingError::RefusedByPeer { reason: RefusalReason::WrongCode, tries_left: 2 };
    assert_eq!(joined, Err(JoinError::Refused { error: refused }));
    assert_eq!(events.recv().await, Some(PairingEvent::WrongCode { tries_left: 2 }));
    assert_eq!((a.stored(), b.stored()), (0, 0));
}

#[tokio::test]
async fn a_main_port_does_not_pair_and_a_pairing_port_does_not_link() {
    let (a, b) = (side(1), side(2));
    let linked = device(1);
    let code = PairingCode::draw();
    assert_eq!(b.join(linked.address().port(), &code).await, Err(JoinError::NotPairing));
    let (offer, _events) = a.offer().unwrap();
    let pairing_port = SocketAddr::new(LOCALHOST, offer.port);
    assert!(!crate::raw::is_let_in(crate::raw::honest(2), pairing_port).await);
}

#[tokio::test]
async fn who_hangs_up_before_a_word_shows_no_code_and_who_does_it_later_was_lost() {
    for (words, expected) in [(0, JoinError::NotPairing), (1, JoinError::Lost)] {
        let listener = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let code = PairingCode::draw();
        let shower = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut session = crate::raw::pairing_server(9).accept(stream).await.unwrap();
            let guess = receive(&mut session).await;
            if words > 0 {
                let (_, shared) = session.get_ref();
                let mut exporter = Zeroizing::new([0; EXPORTER_BYTES]);
                let room = exporter.as_mut_slice();
                shared.export_keying_material(room, EXPORTER_LABEL, None).unwrap();
                let channel = PairingChannel::new(id(9), id(2), exporter).unwrap();
                let own = introduction("desk", 4001);
                let (mut exchange, hello) =
                    Exchange::<Spake2Ed25519>::start(Role::ShowCode, &code, channel, own);
                drop(exchange.receive(&guess).unwrap());
                send(&mut session, &hello).await;
            }
            session.shutdown().await.unwrap();
        };
        let guesser = side(2);
        let (joined, ()) = tokio::join!(guesser.join(port, &code), shower);
        assert_eq!(joined, Err(expected));
    }
}

#[tokio::test]
async fn a_paired_couple_can_link_with_what_pairing_told_them() {
    let (mut desk, mut laptop) = (device(1), device(2));
    let (a, b) = (side(1), side(2));
    let config = OfferConfig {
        listen: vec![LOCALHOST],
        port: 0,
        introduction: introduction("desk", desk.address().port()),
    };
    let (offer, mut events) = a.pairing.offer(config, a.store.clone(), &a.tasks).unwrap();
    let met = b.join(offer.port, &offer.code).await.unwrap();
    let Some(PairingEvent::Paired { peer, .. }) = events.recv().await else {
        panic!("success was due");
    };
    desk.links.set_peers(vec![known(peer.id, &[])]);
    laptop.links.set_peers(vec![known(met.id, &met.addresses)]);
    desk.up().await;
    laptop.up().await;
}

#[tokio::test]
async fn p17_silent_connections_do_not_keep_the_owners_device_out() {
    let (a, b) = (side(1), side(2));
    let (offer, mut events) = a.offer().unwrap();
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect((LOCALHOST, offer.port)).await.unwrap());
    }
    assert_eq!(b.join(offer.port, &offer.code).await.unwrap().id, id(1));
    assert!(matches!(events.recv().await, Some(PairingEvent::Paired { .. })));
    drop(silent);
}

#[tokio::test]
async fn p17_who_gives_way_is_told_so_and_nothing_else() {
    let (a, b) = (side(1), side(2));
    let (offer, _events) = a.offer().unwrap();
    // As far as the introduction, then too slow.
    let target = SocketAddr::new(LOCALHOST, offer.port);
    let client = crate::raw::pairing_client(3);
    let mut slow = crate::raw::connect(client, target).await.unwrap();
    receive(&mut slow).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(target).await.unwrap());
    }
    let busy = refusal(RefusalReason::Busy, 0);
    assert_eq!(receive(&mut slow).await, busy);
    drop(silent);
    // One that is closed before it is greeted cannot be told.
    let listener = tokio::net::TcpListener::bind((LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hangs_up = async { drop(listener.accept().await.unwrap()) };
    let (joined, ()) = tokio::join!(b.join(port, &offer.code), hangs_up);
    assert_eq!(joined, Err(JoinError::Lost));
}
