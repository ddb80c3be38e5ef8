//! The other end of a trial: what comes before HELLO is answered, within bounds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use nook_mux::Mover;
use nook_wire::{Header, Kind, Message, Move, Trial};
use tokio::time::timeout;

use crate::links::exchange::{Silent, TrialSocket};
use crate::links::greet::{Greeter, HELLO_DEADLINE};
use crate::links::input::{Input, Offered, Passage};
use crate::links::session::{LinkStream, Upgraded};
use crate::websocket::FrameSocket;

/// Most bytes that one connection may have sent and returned: a few bursts.
const BYTES_MAX: u64 = 4 << 20;

/// How long one may be tried.
const SERVED_MAX: Duration = Duration::from_secs(60);

/// Waits for the first message. A connection that says HELLO comes back as if nothing had been
/// read; one that is tried is served to its end.
pub(in crate::links) async fn serve(greeter: &Greeter, mut upgraded: Upgraded) -> Option<Upgraded> {
    let first = timeout(HELLO_DEADLINE, upgraded.socket.next()).await.ok()??.ok()?;
    let is_trial = Header::parse(&first).is_ok_and(|header| header.kind == Kind::Trial);
    upgraded.socket.unread(first);
    if !is_trial {
        return Some(upgraded);
    }
    // The actor is gone only when everything is being shut down.
    let _ = greeter.inputs.send(Input::Knocked { peer: upgraded.peer.id() }).await;
    let mut trial = TrialSocket::new(upgraded);
    match timeout(SERVED_MAX, answer(&mut trial)).await {
        Ok(Ok(offer)) => {
            let offered = Input::Offered(Box::new(Offered { trial, offer }));
            let _ = greeter.inputs.send(offered).await;
        }
        Ok(Err(Silent)) | Err(_) => tracing::trace!(peer = ?trial.peer, "a trial is over"),
    }
    None
}

/// Answers until the other side asks to go on here, or does something else.
async fn answer(trial: &mut TrialSocket) -> Result<Move, Silent> {
    let mut bytes = 0;
    loop {
        match trial.next().await? {
            Message::Trial(Trial { padding, back }) => {
                bytes += u64::from(padding) + u64::from(back) + 1;
                if bytes > BYTES_MAX {
                    return Err(Silent);
                }
                for part in Trial::burst(back, 0) {
                    trial.feed(&Message::Trial(part)).await?;
                }
                trial.flush().await?;
            }
            Message::Move(offer) if offer.nonce != 0 => return Ok(offer),
            _ => return Err(Silent),
        }
    }
}

/// Goes on over a connection that was offered for the link of that number.
pub(in crate::links) async fn follow(
    greeter: Arc<Greeter>,
    (number, listen_port): (u64, u16),
    mover: Mover<FrameSocket<LinkStream>>,
    Offered { mut trial, offer }: Offered,
) {
    let peer = trial.peer.id();
    let passage = Passage::of(&trial, listen_port, offer.found);
    // Before the other side hears of it: its MOVE may be quicker than the stream.
    mover.expect(offer.nonce);
    let agreed = Message::Move(Move { nonce: offer.nonce, found: None });
    let moved = match trial.send(&agreed).await {
        Ok(()) => mover.follow(trial.socket, &trial.meter, offer.nonce).await.is_ok(),
        Err(Silent) => false,
    };
    let input = if moved {
        Input::Moved { peer, number, passage }
    } else {
        Input::NotMoved { peer, number }
    };
    let _ = greeter.inputs.send(input).await;
}
