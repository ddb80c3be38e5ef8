//! Where the steps of a guest's call come from: the guest itself, or one carrier that it has sent.
//!
//! One source and no other: a carrier is taken before the first step only, and once there is one, a
//! step from the guest itself is a broken rule. So nobody can put a step between those of another.

use nook_base::ErrorCode;
use nook_mux::{Call, CallError, CallReceiver};
use nook_wire::{Message, Ticket};
use tokio::sync::oneshot;

use crate::refusal::end_code;

/// The source of one call's steps.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Where a carrier would arrive; gone with the first step, or with the carrier.
    arrival: Option<oneshot::Receiver<Call<Message>>>,
    relay: Option<Call<Message>>,
    /// Whether there was a carrier.
    fed: bool,
    /// Whether a step has begun to come in.
    begun: bool,
}

/// What came in.
#[derive(Debug)]
pub(crate) enum Fed {
    /// For the worker.
    Message(Message),
    /// The guest wants its results to go on.
    Forward(Box<Ticket>),
    /// The carrier is gone; why.
    Ended(ErrorCode),
}

impl Feed {
    pub(crate) fn new(arrival: oneshot::Receiver<Call<Message>>) -> Self {
        Self { arrival: Some(arrival), relay: None, fed: false, begun: false }
    }

    /// The next thing that comes in; an error ends the guest's call. Dropped while it waits,
    /// nothing that came is lost.
    pub(crate) async fn next(
        &mut self,
        from_guest: &mut CallReceiver<Message>,
    ) -> Result<Fed, CallError> {
        loop {
            tokio::select! {
                biased;
                arrived = arrived(&mut self.arrival) => self.join(arrived).await,
                relayed = relayed(&mut self.relay) => return Ok(self.of_carrier(relayed)),
                message = from_guest.recv() => return self.of_guest(message?),
            }
        }
    }

    async fn join(&mut self, arrived: Option<Call<Message>>) {
        self.arrival = None;
        if let Some(mut call) = arrived {
            // A carrier that is gone again is noticed at the next look.
            let _ = call.send(Message::Onward { code: None }).await;
            (self.relay, self.fed) = (Some(call), true);
        }
    }

    fn of_carrier(&mut self, message: Result<Message, CallError>) -> Fed {
        let code = match message {
            Ok(message @ (Message::Step(_) | Message::Chunk(_))) => {
                self.begun = true;
                return Fed::Message(message);
            }
            Ok(_) => ErrorCode::BadRequest,
            Err(error) => end_code(&error),
        };
        self.relay = None;
        // One that has brought nothing has taken nothing: the guest may still send its steps
        // itself.
        self.fed = self.begun;
        Fed::Ended(code)
    }

    fn of_guest(&mut self, message: Message) -> Result<Fed, CallError> {
        let broken = Err(CallError::Closed { code: Some(ErrorCode::BadRequest) });
        match message {
            Message::Forward(_) if self.begun => broken,
            Message::Forward(ticket) => Ok(Fed::Forward(ticket)),
            // What it forgets, the carrier's host would not.
            Message::Step(_) | Message::Chunk(_) | Message::Truncate { .. } if self.fed => broken,
            message => {
                self.begun = true;
                self.arrival = None;
                Ok(Fed::Message(message))
            }
        }
    }
}

/// Waits for a carrier; `None` when there can be none any more.
async fn arrived(arrival: &mut Option<oneshot::Receiver<Call<Message>>>) -> Option<Call<Message>> {
    match arrival {
        Some(arrival) => arrival.await.ok(),
        None => std::future::pending().await,
    }
}

async fn relayed(relay: &mut Option<Call<Message>>) -> Result<Message, CallError> {
    match relay {
        Some(call) => call.recv().await,
        None => std::future::pending().await,
    }
}
