//! A TLS client of one's own, for what an honest device would never do.

use std::sync::Arc;

use futures_util::SinkExt;
use nook_trust::DeviceKey;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const LINK_ALPN: &[u8] = b"inglenook-link/1";
const PAIRING_ALPN: &[u8] = b"inglenook-pair/1";

/// An X.509 certificate for `key`, changed by `change`, and a signer for it.
pub(crate) fn certified(
    key: &rcgen::KeyPair,
    change: impl FnOnce(&mut rcgen::CertificateParams),
) -> CertifiedKey {
    let mut parameters = rcgen::CertificateParams::default();
    change(&mut parameters);
    let certificate = parameters.self_signed(key).unwrap().der().clone();
    CertifiedKey::new(vec![certificate], signer(key))
}

pub(crate) fn signer(key: &rcgen::KeyPair) -> Arc<dyn rustls::sign::SigningKey> {
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ring::sign::any_supported_type(&der).unwrap()
}

pub(crate) fn ed25519(key: &DeviceKey) -> rcgen::KeyPair {
    let pkcs8 = key.to_pkcs8().unwrap();
    let der = PrivatePkcs8KeyDer::from(pkcs8.to_vec());
    rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ED25519).unwrap()
}

/// A client that takes any server and shows `certified`.
pub(crate) fn client(certified: CertifiedKey) -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_client_cert_resolver(resolver);
    config.alpn_protocols = vec![LINK_ALPN.to_vec()];
    Arc::new(config)
}

/// The client that `seed`'s device would be.
pub(crate) fn honest(seed: u8) -> Arc<ClientConfig> {
    let key = ed25519(&super::household::key(seed));
    client(certified(&key, |_| {}))
}

/// The client of `seed`'s device for a pairing port.
pub(crate) fn pairing_client(seed: u8) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&honest(seed));
    config.alpn_protocols = vec![PAIRING_ALPN.to_vec()];
    Arc::new(config)
}

/// A server that takes any client, with the key of `seed`'s device.
pub(crate) fn pairing_server(seed: u8) -> tokio_rustls::TlsAcceptor {
    let certified = certified(&ed25519(&super::household::key(seed)), |_| {});
    let mut config = rustls::ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(AnyClient))
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![PAIRING_ALPN.to_vec()];
    Arc::new(config).into()
}

pub(crate) async fn connect(
    config: Arc<ClientConfig>,
    address: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("inglenook.invalid").unwrap();
    tokio_rustls::TlsConnector::from(config).connect(name, stream).await
}

/// The answer to an upgrade request with `extra` headers to `path`; empty when the server hung up.
///
/// In TLS 1.3 a client learns only now whether its certificate was taken.
pub(crate) async fn upgrade(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    path: &str,
    extra: &str,
) -> String {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extra}\r\n"
    );
    if stream.write_all(request.as_bytes()).await.is_err() {
        return String::new();
    }
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => answer.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether the device at `address` lets `config` in.
pub(crate) async fn is_let_in(config: Arc<ClientConfig>, address: SocketAddr) -> bool {
    let Ok(mut stream) = connect(config, address).await else {
        return false;
    };
    let answer = upgrade(&mut stream, "/inglenook/1", "").await;
    answer.starts_with("HTTP/1.1 101")
}

/// A connection of `seed`'s device to `device` on which HELLO has been said.
pub(crate) async fn greeted(
    seed: u8,
    device: &super::household::Device,
) -> WebSocketStream<TlsStream<TcpStream>> {
    let mut stream = connect(honest(seed), device.address()).await.unwrap();
    let answer = upgrade(&mut stream, "/inglenook/1", "").await;
    assert!(answer.starts_with("HTTP/1.1 101"));
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    socket.send(Message::binary(hello(0))).await.unwrap();
    socket
}

/// A HELLO frame with the number `seq`.
pub(crate) fn hello(seq: u32) -> Vec<u8> {
    let hello = nook_wire::Message::Hello(nook_wire::Hello {
        protocol: nook_wire::ProtocolRange::SPOKEN,
        app_version: String::new(),
        device_name: String::new(),
        listen_port: 0,
    });
    nook_wire::encode(nook_wire::CallId::CONNECTION, seq, &hello).to_vec()
}

pub(crate) fn certificate_of(identity: &rcgen::KeyPair) -> CertificateDer<'static> {
    certified(identity, |_| {}).cert.remove(0)
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

#[derive(Debug)]
struct AnyClient;

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
