//! The two HTTP clients of downloads: one for the world, one for this machine itself.
//!
//! TLS is rustls with ring, as everywhere here; who is trusted is the system's own list of
//! certificates, so a household with its own authority works as in its browsers. Proxies are those
//! that the environment names. Redirects are followed by hand (`redirects`).

use std::sync::Arc;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::FetchError;
use crate::limits::Pace;
use crate::source::is_this_machine;

/// The clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Absent with the reason on a system without certificates.
    web: Result<Client, String>,
    near: Result<Client, String>,
}

impl Clients {
    pub(crate) fn new(pace: &Pace) -> Self {
        let said = |error: rustls::Error| error.to_string();
        let web = versions().and_then(|builder| {
            let config = builder.with_platform_verifier().map_err(said)?.with_no_client_auth();
            build(base(pace), config)
        });
        // Nothing on this machine is reached through a proxy, or through TLS.
        let near = versions().and_then(|builder| {
            let config = builder.with_root_certificates(RootCertStore::empty());
            build(base(pace).no_proxy(), config.with_no_client_auth())
        });
        Self { web, near }
    }

    /// The client for `url`, which was checked.
    pub(crate) fn of(&self, url: &Url) -> Result<&Client, FetchError> {
        let is_near = url.scheme() == "http" && is_this_machine(url);
        let client = if is_near { &self.near } else { &self.web };
        client.as_ref().map_err(|reason| FetchError::Certificates { reason: reason.clone() })
    }
}

fn versions() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())
}

fn base(pace: &Pace) -> ClientBuilder {
    let mut always = HeaderMap::new();
    // Lengths and ranges speak of the bytes as they are.
    always.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Client::builder()
        .user_agent(format!("Inglenook/{}", nook_base::VERSION))
        .default_headers(always)
        .redirect(redirect::Policy::none())
        .referer(false)
        .http1_only()
        .connect_timeout(pace.connect)
}

fn build(builder: ClientBuilder, config: ClientConfig) -> Result<Client, String> {
    builder.tls_backend_preconfigured(config).build().map_err(|error| error.to_string())
}

/// What is wrong with the server's certificate, if that is why a request failed.
pub(crate) fn untrusted(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(wrong @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return Some(wrong.to_string());
        }
        // An error of input and output passes over what it holds when it is asked for its source.
        cause = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

/// What a failed request says, without the address: signed addresses are keys.
pub(crate) fn plain(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if std::ptr::addr_eq(std::ptr::from_ref(innermost), std::ptr::from_ref(error)) {
        return if error.is_timeout() { "no connection in time" } else { "no connection" }
            .to_owned();
    }
    innermost.to_string()
}
