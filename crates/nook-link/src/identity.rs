//! This device's certificate: a self-signed X.509 around its Ed25519 key.
//!
//! The certificate is only an envelope that TLS understands. Nobody reads its name or its dates
//! (the clocks in a house are wrong); what counts is the hash of the key in it. The secret is never
//! copied into the TLS library: [`nook_trust::DeviceKey`] signs.

use std::fmt;
use std::sync::Arc;

use nook_base::PeerId;
use nook_trust::DeviceKey;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

/// The name in every certificate: the same for all, so that it tells nothing.
const COMMON_NAME: &str = "inglenook";

/// The key of this device with its certificate, ready for TLS. Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    id: PeerId,
    certified: Arc<CertifiedKey>,
}

/// The certificate could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this device's certificate could not be made: {cause}")]
pub struct IdentityError {
    cause: rcgen::Error,
}

impl Identity {
    /// Makes the certificate of `key`.
    pub fn new(key: DeviceKey) -> Result<Self, IdentityError> {
        let certificate = certificate(&key).map_err(|cause| IdentityError { cause })?;
        let id = key.peer_id();
        let signing = Arc::new(TlsKey(Arc::new(key)));
        Ok(Self { id, certified: Arc::new(CertifiedKey::new(vec![certificate], signing)) })
    }

    /// This device's id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// For both ends of TLS: this one certificate, whatever is asked for.
    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.certified.clone()))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.id)
    }
}

fn certificate(key: &DeviceKey) -> Result<CertificateDer<'static>, rcgen::Error> {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, COMMON_NAME);
    let subject = Subject { key, public: *key.public().as_bytes() };
    Ok(parameters.self_signed(&subject)?.der().clone())
}

/// The key as `rcgen` wants to see it.
struct Subject<'a> {
    key: &'a DeviceKey,
    public: [u8; 32],
}

impl rcgen::PublicKeyData for Subject<'_> {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl rcgen::SigningKey for Subject<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.key.sign(message).to_vec())
    }
}

/// The key as `rustls` wants to see it: signs with Ed25519 or not at all.
#[derive(Debug, Clone)]
struct TlsKey(Arc<DeviceKey>);

impl SigningKey for TlsKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered
            .contains(&SignatureScheme::ED25519)
            .then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for TlsKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(self.0.sign(message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}
