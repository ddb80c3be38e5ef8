//! The next connection on any of several listeners, for ever.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// Pause after `accept` failed, which means that the process has no sockets left: trying at once
/// again would only burn a processor.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Several listeners as one.
#[derive(Debug)]
pub(crate) struct Accepting {
    listeners: Vec<TcpListener>,
    /// Where to look first next time, so that a busy listener starves no other.
    first: usize,
}

impl Accepting {
    pub(crate) fn new(listeners: Vec<TcpListener>) -> Self {
        Self { listeners, first: 0 }
    }

    /// The next connection and where it comes from. Failures are waited out. Safe to drop.
    pub(crate) async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let accepted = poll_fn(|cx| {
                for offset in 0..self.listeners.len() {
                    let index = (self.first + offset) % self.listeners.len();
                    let Some(listener) = self.listeners.get(index) else {
                        continue;
                    };
                    if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                        self.first = index + 1;
                        return Poll::Ready(accepted);
                    }
                }
                Poll::Pending
            });
            match accepted.await {
                Ok((stream, from)) => {
                    let ip = from.ip().to_canonical();
                    let mut from = from;
                    from.set_ip(ip);
                    return (stream, from);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    }
}
