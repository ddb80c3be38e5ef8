//! Who gets through the main port's handshake.

use nook_link::{LinkEvent, WhyTurnedAway};
use nook_mux::CloseReason;
use nook_wire::{Message, Open};
use rustls::HandshakeKind;
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::household::{device, id, key, known, linked};
use crate::raw;

/// A device that is paired with that of seed 2, and with nobody else.
fn paired_with_two() -> crate::household::Device {
    let device = device(1);
    device.pair_blindly(id(2));
    device
}

#[tokio::test]
async fn p6_only_the_paired_key_gets_through() {
    let a = paired_with_two();
    assert!(raw::is_let_in(raw::honest(2), a.address()).await);
    assert!(!raw::is_let_in(raw::honest(3), a.address()).await, "another key");
    assert!(!raw::is_let_in(raw::honest(1), a.address()).await, "P5: our own key");
    let p256 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let p256 = raw::client(raw::certified(&p256, |_| {}));
    assert!(!raw::is_let_in(p256, a.address()).await, "P-256");
    // The owner's list has them as one address and a number; whoever came in is not among them.
    let mut times = 0;
    while times < 3 {
        for away in a.links.take_turned_away() {
            assert_eq!(away.from, Some(a.address().ip()), "{away:?}");
            assert_eq!(away.why, WhyTurnedAway::NotPaired);
            times += away.times;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(times, 3);
}

#[tokio::test]
async fn p6_no_certificate_does_not_get_through() {
    let a = paired_with_two();
    let honest = raw::honest(2);
    let mut nobody = rustls::ClientConfig::clone(&honest);
    nobody.client_auth_cert_resolver = rustls::ClientConfig::builder_with_provider(
        rustls::crypto::ring::default_provider().into(),
    )
    .with_protocol_versions(&[&rustls::version::TLS13])
    .unwrap()
    .with_root_certificates(rustls::RootCertStore::empty())
    .with_no_client_auth()
    .client_auth_cert_resolver;
    assert!(!raw::is_let_in(nobody.into(), a.address()).await);
}

#[tokio::test]
async fn p7_the_right_certificate_without_its_key_does_not_get_through() {
    let a = paired_with_two();
    let (two, mallory) = (raw::ed25519(&key(2)), raw::ed25519(&key(9)));
    let stolen = CertifiedKey::new(vec![raw::certificate_of(&two)], raw::signer(&mallory));
    assert!(!raw::is_let_in(raw::client(stolen), a.address()).await);
}

#[tokio::test]
async fn p8_a_chain_is_refused_even_with_the_right_leaf() {
    let a = paired_with_two();
    let (two, other) = (raw::ed25519(&key(2)), raw::ed25519(&key(9)));
    let chain = vec![raw::certificate_of(&two), raw::certificate_of(&other)];
    let chained = CertifiedKey::new(chain, raw::signer(&two));
    assert!(!raw::is_let_in(raw::client(chained), a.address()).await);
}

#[tokio::test]
async fn p8_nothing_is_resumed_and_a_revoked_device_stays_out() {
    let a = paired_with_two();
    // This client keeps every ticket it gets and would gladly use it.
    let client = raw::honest(2);
    for _ in 0..2 {
        let mut stream = raw::connect(client.clone(), a.address()).await.unwrap();
        let answer = raw::upgrade(&mut stream, "/inglenook/1", "").await;
        assert!(answer.starts_with("HTTP/1.1 101"));
        let session = stream.get_ref().1;
        assert_eq!(session.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(session.tls13_tickets_received(), 0);
    }
    a.links.set_peers(Vec::new());
    assert!(!raw::is_let_in(client, a.address()).await);
}

#[tokio::test]
async fn p8_tls_12_is_answered_by_an_alert() {
    let a = paired_with_two();
    let mut stream = TcpStream::connect(a.address()).await.unwrap();
    stream.write_all(&tls12_hello()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(answer.first(), Some(&0x15), "an alert record: {answer:02x?}");
}

/// A ClientHello of 2008: no `supported_versions`, so TLS 1.2 at best.
fn tls12_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.push(0); // no session
    body.extend([0, 2, 0xc0, 0x2b]); // ECDHE-ECDSA-AES128-GCM
    body.extend([1, 0]); // no compression
    body.extend([0, 22]); // extensions
    body.extend([0, 10, 0, 4, 0, 2, 0, 29]); // groups: X25519
    body.extend([0, 13, 0, 6, 0, 4, 4, 3, 8, 7]); // signatures: ECDSA, Ed25519
    body.extend([0, 23, 0, 0]); // extended master secret
    let mut record = vec![0x16, 3, 1, 0, body.len() as u8 + 4];
    record.extend([1, 0, 0, body.len() as u8]);
    record.extend(body);
    record
}

#[tokio::test]
async fn p9_dates_do_not_matter() {
    let a = paired_with_two();
    let two = raw::ed25519(&key(2));
    for (from, to) in [(1990, 1991), (2090, 2091)] {
        let certified = raw::certified(&two, |parameters| {
            parameters.not_before = rcgen::date_time_ymd(from, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(to, 1, 1);
        });
        assert!(raw::is_let_in(raw::client(certified), a.address()).await, "{from}");
    }
}

#[tokio::test]
async fn p10_revoking_ends_the_link_and_its_calls_and_later_dials() {
    let (mut a, mut b, _, link_b) = linked(1, 2).await;
    let mut call = link_b.mux().open_call().await.unwrap();
    call.send(open()).await.unwrap();
    let LinkEvent::IncomingCall { call: mut served, .. } = a.next().await else {
        panic!("a call was due");
    };
    served.recv().await.unwrap();
    a.links.set_peers(Vec::new());
    assert!(call.recv().await.is_err());
    assert!(served.recv().await.is_err());
    assert!(matches!(a.down().await, CloseReason::Local { .. }));
    assert!(matches!(b.down().await, CloseReason::Remote { .. }));
    assert!(a.links.link(b.id).is_none());
    b.links.network_changed();
    b.links.set_peers(vec![known(a.id, &[a.address()])]);
    let told = b.next().await;
    assert!(matches!(told, LinkEvent::RefusedByPeer { peer } if peer == a.id), "{told:?}");
}

fn open() -> Message {
    Message::Open(Open {
        session: 1,
        model: nook_base::ModelDigest([1; 32]),
        layers: nook_base::LayerRange::new(1, 2).unwrap(),
        dtype: nook_base::ActivationDtype::F16,
        positions_max: 16,
        resume: None,
    })
}
