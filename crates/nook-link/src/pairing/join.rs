//! The side into which the code is typed: one address, one guess.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nook_trust::pairing::{
    Exchange, Introduction, PairingChannel, PairingCode, PairingError, Progress, ProvenPeer,
    RefusalReason, Role, refusal,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::conversation::{Conversation, TalkError};
use super::{NotStored, PairedPeer, Pairing, StorePeer};
use crate::{socket, tls};

/// How long one address may take to answer a TCP connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// How long a TLS handshake may take.
const TLS_DEADLINE: Duration = Duration::from_secs(5);

/// Addresses of one device that are tried, in order; the rest is left.
const ADDRESSES_MAX: usize = 8;

/// How many messages an honest device sends before the end: its introduction and its proof.
const MESSAGES_MAX: usize = 2;

/// Why this device is not paired with the other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nobody takes connections at the address.
    #[error("no device answers at this address; is the code still shown there?")]
    Unreachable,
    /// Something answers, but it is no device that is pairing.
    #[error("what answers at this address is not showing a pairing code")]
    NotPairing,
    /// The connection broke in the middle.
    #[error("the connection to the other device was lost; try again")]
    Lost,
    /// The exchange failed.
    #[error("{error}")]
    Refused {
        /// Why.
        error: PairingError,
    },
    /// The right code, but this device could not store the other one; it is not paired here.
    #[error("the new device could not be saved on this one")]
    NotStored,
}

impl Pairing {
    /// Pairs with the device that shows `code` at one of `addresses` (temporary port included).
    ///
    /// Uses up one guess. When it returns the device, both sides have stored each other.
    pub async fn join(
        &self,
        addresses: &[SocketAddr],
        code: &PairingCode,
        introduction: Introduction,
        store: &StorePeer,
    ) -> Result<PairedPeer, JoinError> {
        let (stream, met_at) = connect(addresses).await?;
        socket::tune(&stream);
        let connector = tls::pairing_connector(&self.identity);
        let handshake = connector.connect(tls::server_name(), stream);
        let session = match timeout(TLS_DEADLINE, handshake).await {
            Ok(Ok(session)) => session,
            // Whoever speaks no TLS, or refuses this one, says so; a device that has too many
            // connections only hangs up.
            Ok(Err(error)) if is_hang_up(error.kind()) => return Err(JoinError::Lost),
            Ok(Err(_)) | Err(_) => return Err(JoinError::NotPairing),
        };
        let (peer, exporter) =
            tls::identify_for_pairing(session.get_ref().1).map_err(|_| JoinError::NotPairing)?;
        let channel = PairingChannel::new(self.identity.id(), peer, exporter)?;
        let (exchange, first) = Exchange::start(Role::TypeCode, code, channel, introduction);
        let mut conversation = Conversation::new(session);
        let outcome = async {
            conversation.send(&first).await?;
            talk(exchange, &mut conversation, met_at, store).await
        };
        let outcome = outcome.await;
        conversation.close().await;
        outcome
    }
}

async fn talk(
    mut exchange: Exchange,
    conversation: &mut Conversation<TlsStream<TcpStream>>,
    met_at: SocketAddr,
    store: &StorePeer,
) -> Result<PairedPeer, JoinError> {
    for heard in 0..MESSAGES_MAX {
        let message = conversation.receive().await.map_err(|error| match error {
            TalkError::Lost(kind) if heard == 0 && is_hang_up(kind) => JoinError::NotPairing,
            error => error.into(),
        })?;
        match exchange.receive(&message)? {
            Progress::Send(proof) => conversation.send(&proof).await?,
            Progress::Store(peer) => {
                return conclude(exchange, peer, conversation, met_at, store).await;
            }
            Progress::Wait | Progress::Finished => {}
        }
    }
    Err(PairingError::OutOfTurn.into())
}

/// Whether the other side has closed the connection. A port that takes TLS and hangs up before its
/// first message shows no code: its window has just ended.
fn is_hang_up(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// The other device has proved that it knows the code, and has stored this one.
async fn conclude(
    mut exchange: Exchange,
    peer: ProvenPeer,
    conversation: &mut Conversation<TlsStream<TcpStream>>,
    met_at: SocketAddr,
    store: &StorePeer,
) -> Result<PairedPeer, JoinError> {
    let peer = PairedPeer::new(peer, met_at);
    if let Err(NotStored) = store(peer.clone()).await {
        let _ = conversation.send(&refusal(RefusalReason::NotStored, 0)).await;
        return Err(JoinError::NotStored);
    }
    // Both are paired by now; that the other side may not hear of it changes nothing.
    if let Err(error) = conversation.send(&exchange.stored()?).await {
        tracing::info!(%error, "the other device did not hear that this one has stored it");
    }
    Ok(peer)
}

async fn connect(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), JoinError> {
    for address in addresses.iter().take(ADDRESSES_MAX) {
        match timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) => tracing::debug!(%address, %error, "no pairing port"),
            Err(_) => tracing::debug!(%address, "no answer"),
        }
    }
    Err(JoinError::Unreachable)
}

impl From<PairingError> for JoinError {
    fn from(error: PairingError) -> Self {
        Self::Refused { error }
    }
}

impl From<TalkError> for JoinError {
    fn from(error: TalkError) -> Self {
        match error {
            TalkError::TooLong(_) => PairingError::PeerMisbehaved.into(),
            TalkError::Lost(_) | TalkError::Silent => Self::Lost,
        }
    }
}
