//! What is said on a connection that is tried, frame by frame, without a mux.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use nook_base::clock;
use nook_mux::ByteMeter;
use nook_wire::{CallId, Message, SeqCheck, SeqCounter, Trial, decode, encode_unsent};
use tokio::time::timeout;

use super::session::{LinkStream, Upgraded};
use crate::AuthenticatedPeer;
use crate::websocket::FrameSocket;

/// How long one answer may take, and each message of one.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A connection that is tried.
#[derive(Debug)]
pub(super) struct TrialSocket {
    pub(super) peer: AuthenticatedPeer,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) socket: FrameSocket<LinkStream>,
    pub(super) meter: ByteMeter,
    seq: SeqCounter,
    check: SeqCheck,
}

/// The other end hung up, was silent, or says what does not belong here.
#[derive(Debug)]
pub(super) struct Silent;

impl TrialSocket {
    pub(super) fn new(upgraded: Upgraded) -> Self {
        let Upgraded { peer, local, remote, socket, meter } = upgraded;
        let (seq, check) = (SeqCounter::default(), SeqCheck::default());
        Self { peer, local, remote, socket, meter, seq, check }
    }

    /// How long `bytes` take there and as many back.
    pub(super) async fn exchange(&mut self, bytes: u32) -> Result<Duration, Silent> {
        let begun: Instant = clock::now();
        let exchange = async {
            for trial in Trial::burst(bytes, bytes) {
                self.feed(&Message::Trial(trial)).await?;
            }
            self.flush().await?;
            let mut missing = bytes;
            while missing > 0 {
                match self.next().await? {
                    Message::Trial(Trial { padding, back: 0 }) if padding > 0 => {
                        missing = missing.checked_sub(padding).ok_or(Silent)?;
                    }
                    _ => return Err(Silent),
                }
            }
            Ok(())
        };
        timeout(ANSWER_MAX, exchange).await.map_err(|_| Silent)??;
        Ok(clock::now().saturating_duration_since(begun))
    }

    /// The next message, in time.
    pub(super) async fn next(&mut self) -> Result<Message, Silent> {
        let came = timeout(ANSWER_MAX, self.socket.next()).await;
        let Ok(Some(Ok(bytes))) = came else {
            return Err(Silent);
        };
        let frame = decode::<Message>(bytes).map_err(|_| Silent)?;
        if frame.call != CallId::CONNECTION {
            return Err(Silent);
        }
        self.check.accept(frame.seq).map_err(|_| Silent)?;
        Ok(frame.message)
    }

    pub(super) async fn send(&mut self, message: &Message) -> Result<(), Silent> {
        self.feed(message).await?;
        self.flush().await
    }

    pub(super) async fn feed(&mut self, message: &Message) -> Result<(), Silent> {
        let seq = self.seq.take().map_err(|_| Silent)?;
        let frame = encode_unsent(CallId::CONNECTION, message).with_seq(seq);
        self.socket.feed(frame).await.map_err(|_| Silent)
    }

    pub(super) async fn flush(&mut self) -> Result<(), Silent> {
        self.socket.flush().await.map_err(|_| Silent)
    }
}
