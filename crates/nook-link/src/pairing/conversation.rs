//! One pairing session: messages with a two-byte length over TLS, each with a deadline.

use std::io;
use std::time::Duration;

use nook_trust::pairing::MESSAGE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long one message may take. The code has been typed before the session begins, so nothing
/// here waits for a person.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(5);

/// Sends and takes whole pairing messages over a stream.
#[derive(Debug)]
pub(super) struct Conversation<S> {
    stream: S,
}

/// Why no message came or went.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    #[error("the other device fell silent")]
    Silent,
    #[error("the connection ended: {0}")]
    Lost(io::ErrorKind),
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream }
    }

    /// Sends one message. Own messages are short by construction.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), TalkError> {
        let length = u16::try_from(message.len()).map_err(|_| TalkError::TooLong(message.len()))?;
        let framed = [&length.to_be_bytes(), message].concat();
        within(async {
            self.stream.write_all(&framed).await?;
            self.stream.flush().await
        })
        .await
    }

    /// The next message. A longer one than any honest device sends is refused unread; so is its
    /// session, since the rest of it would have to be read to find the next.
    pub(super) async fn receive(&mut self) -> Result<Vec<u8>, TalkError> {
        let length = usize::from(within(self.stream.read_u16()).await?);
        if length > MESSAGE_BYTES_MAX {
            return Err(TalkError::TooLong(length));
        }
        let mut message = vec![0; length];
        within(self.stream.read_exact(&mut message)).await?;
        Ok(message)
    }

    /// Ends the session politely, so that the last message is read before the end is noticed.
    pub(super) async fn close(mut self) {
        // A failure means that the other side is gone already.
        let _ = within(self.stream.shutdown()).await;
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> Result<T, TalkError> {
    match timeout(MESSAGE_DEADLINE, work).await {
        Ok(outcome) => outcome.map_err(|error| TalkError::Lost(error.kind())),
        Err(_) => Err(TalkError::Silent),
    }
}
