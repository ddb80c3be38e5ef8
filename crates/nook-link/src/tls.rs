//! Mutual TLS 1.3 between devices, and who is at the other end of it.
//!
//! Two kinds of session, told apart by ALPN so that neither port can be used for the other's
//! purpose. *Pinned* sessions (the main port) finish only with a paired, unblocked key; the set of
//! those is read anew at every handshake. *Pairing* sessions (the temporary port) take any Ed25519
//! key, because the code decides there.
//!
//! What bites (each has a test): a verifier must itself check the handshake signature; resumption
//! would skip the verifier, so tickets and session stores are off on both sides and the pin is
//! looked at once more after the handshake; keys are compared by the hash of their
//! SubjectPublicKeyInfo; dates and names are ignored. [`authenticate`] is the only way to an
//! [`AuthenticatedPeer`].

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use nook_base::PeerId;
use nook_trust::DevicePublicKey;
use nook_trust::pairing::{EXPORTER_BYTES, EXPORTER_LABEL};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::{
    CertificateError, ClientConfig, ConnectionCommon, DigitallySignedStruct, DistinguishedName,
    HandshakeKind, OtherError, PeerIncompatible, ProtocolVersion, ServerConfig, SignatureScheme,
};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite;
use zeroize::Zeroizing;

use crate::Identity;

/// ALPN of links between paired devices.
const LINK_PROTOCOL: &[u8] = b"inglenook-link/1";

/// ALPN of pairing.
const PAIRING_PROTOCOL: &[u8] = b"inglenook-pair/1";

/// The keys that may connect: paired and not blocked. Live: a removed key fails its next handshake.
#[derive(Debug, Clone)]
pub(crate) struct Pins(watch::Receiver<Arc<HashSet<PeerId>>>);

/// A device that has proved by a TLS handshake that it holds the key of this id. Only
/// [`authenticate`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatedPeer {
    id: PeerId,
}

/// Why a finished handshake is not good enough, or a certificate is refused in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerRefused {
    /// Not a single Ed25519 certificate.
    #[error("the other side has no device certificate")]
    NotADevice,
    /// A device, but none that may connect.
    #[error("{found:?} is not paired with this device")]
    NotPaired {
        /// Who it is.
        found: PeerId,
    },
    /// A device, but not the one that was dialled.
    #[error("{found:?} answers where {expected:?} was dialled")]
    SomebodyElse {
        /// Who was dialled.
        expected: PeerId,
        /// Who answered.
        found: PeerId,
    },
    /// Not TLS 1.3, resumed, or for another purpose.
    #[error("the session is not of the kind that was asked for")]
    WrongSession,
}

/// Who may be at the other end.
#[derive(Debug, Clone)]
enum Rule {
    /// Any device: pairing.
    AnyDevice,
    /// Paired devices: the main port.
    Pinned(Pins),
    /// One paired device: a dialled link.
    One { expected: PeerId, pins: Pins },
}

impl Pins {
    pub(crate) fn new(pins: watch::Receiver<Arc<HashSet<PeerId>>>) -> Self {
        Self(pins)
    }

    pub(crate) fn hold(&self, peer: PeerId) -> bool {
        self.0.borrow().contains(&peer)
    }
}

impl AuthenticatedPeer {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }
}

/// For the main port.
pub(crate) fn link_acceptor(identity: &Identity, pins: Pins) -> tokio_rustls::TlsAcceptor {
    server_config(identity, Rule::Pinned(pins), LINK_PROTOCOL).into()
}

/// For dialling one paired device.
pub(crate) fn link_connector(
    identity: &Identity,
    expected: PeerId,
    pins: Pins,
) -> tokio_rustls::TlsConnector {
    client_config(identity, Rule::One { expected, pins }, LINK_PROTOCOL).into()
}

/// For the temporary port while a code is shown.
pub(crate) fn pairing_acceptor(identity: &Identity) -> tokio_rustls::TlsAcceptor {
    server_config(identity, Rule::AnyDevice, PAIRING_PROTOCOL).into()
}

/// For a device into which a code was typed.
pub(crate) fn pairing_connector(identity: &Identity) -> tokio_rustls::TlsConnector {
    client_config(identity, Rule::AnyDevice, PAIRING_PROTOCOL).into()
}

/// The name in the client's handshake. It is not sent (SNI is off) and not looked at.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("inglenook.invalid").expect("a constant that is a valid DNS name")
}

/// Who is at the other end of a finished handshake on the main port, checked against the pins of
/// this very moment.
pub(crate) fn authenticate<Data>(
    session: &ConnectionCommon<Data>,
    pins: &Pins,
) -> Result<AuthenticatedPeer, PeerRefused> {
    let id = identify(session, LINK_PROTOCOL)?;
    if pins.hold(id) {
        Ok(AuthenticatedPeer { id })
    } else {
        Err(PeerRefused::NotPaired { found: id })
    }
}

/// Who is at the other end of a pairing session, and the keying material that binds the code to it.
pub(crate) fn identify_for_pairing<Data>(
    session: &ConnectionCommon<Data>,
) -> Result<(PeerId, Zeroizing<[u8; EXPORTER_BYTES]>), PeerRefused> {
    let id = identify(session, PAIRING_PROTOCOL)?;
    let mut exporter = Zeroizing::new([0; EXPORTER_BYTES]);
    session
        .export_keying_material(exporter.as_mut_slice(), EXPORTER_LABEL, None)
        .map_err(|_| PeerRefused::WrongSession)?;
    Ok((id, exporter))
}

/// The refusal inside a failed handshake, if it was this side that refused.
pub(crate) fn refusal_in(error: &io::Error) -> Option<PeerRefused> {
    let rustls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match rustls {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            cause.downcast_ref().copied()
        }
        _ => None,
    }
}

/// Whether this side has failed a handshake because of who is at the other end, and who that says
/// to be; a connection that was only given up is no refusal.
pub(crate) fn refused_here(error: &io::Error) -> Option<Option<PeerId>> {
    let rustls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match (refusal_in(error), rustls) {
        (Some(PeerRefused::NotPaired { found }), _) => Some(Some(found)),
        (Some(_), _) | (None, rustls::Error::NoCertificatesPresented) => Some(None),
        (None, _) => None,
    }
}

/// Whether a failed upgrade means that the other side refuses this device's certificate.
pub(crate) fn is_refusal_by_peer(error: &tungstenite::Error) -> bool {
    let tungstenite::Error::Io(error) = error else {
        return false;
    };
    let rustls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(rustls, Some(rustls::Error::AlertReceived(_)))
}

fn identify<Data>(
    session: &ConnectionCommon<Data>,
    protocol: &[u8],
) -> Result<PeerId, PeerRefused> {
    let right_kind = session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        && session.alpn_protocol() == Some(protocol)
        && session.handshake_kind() != Some(HandshakeKind::Resumed);
    if !right_kind {
        return Err(PeerRefused::WrongSession);
    }
    match session.peer_certificates() {
        Some([certificate]) => peer_id(certificate),
        _ => Err(PeerRefused::NotADevice),
    }
}

fn peer_id(certificate: &CertificateDer<'_>) -> Result<PeerId, PeerRefused> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(|_| PeerRefused::NotADevice)?;
    DevicePublicKey::from_spki(&parsed.subject_public_key_info())
        .map(|key| key.peer_id())
        .map_err(|_| PeerRefused::NotADevice)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn server_config(identity: &Identity, rule: Rule, protocol: &[u8]) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring offers TLS 1.3")
        .with_client_cert_verifier(Arc::new(Verifier::new(rule)))
        .with_cert_resolver(identity.resolver());
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Arc::new(config)
}

fn client_config(identity: &Identity, rule: Rule, protocol: &[u8]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring offers TLS 1.3")
        .dangerous() // replaced by a stricter verifier: one exact key
        .with_custom_certificate_verifier(Arc::new(Verifier::new(rule)))
        .with_client_cert_resolver(identity.resolver());
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Arc::new(config)
}

/// Checks the certificate and the handshake signature of either side.
#[derive(Debug)]
struct Verifier {
    rule: Rule,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(rule: Rule) -> Self {
        Self { rule, provider: provider() }
    }

    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        self.judge(certificate, intermediates).map_err(|refused| {
            let cause = OtherError(Arc::new(refused));
            rustls::Error::InvalidCertificate(CertificateError::Other(cause))
        })
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), PeerRefused> {
        if !intermediates.is_empty() {
            return Err(PeerRefused::NotADevice);
        }
        let found = peer_id(certificate)?;
        match &self.rule {
            Rule::AnyDevice => Ok(()),
            Rule::One { expected, .. } if found != *expected => {
                Err(PeerRefused::SomebodyElse { expected: *expected, found })
            }
            Rule::One { pins, .. } | Rule::Pinned(pins) if pins.hold(found) => Ok(()),
            _ => Err(PeerRefused::NotPaired { found }),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if signature.scheme != SignatureScheme::ED25519 {
            return Err(PeerIncompatible::NoSignatureSchemesInCommon.into());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }
}

fn refuse_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity, intermediates).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity, intermediates).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
