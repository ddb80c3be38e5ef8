//! Where the results of a guest's call go: home to the guest, or to the next host as its steps.
//!
//! A result that goes on is told to the guest with PASSED, without its rows. The marks of the
//! history, which a STEP carries and a RESULT does not, are those of the step that it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use nook_base::{ErrorCode, PeerId};
use nook_mux::{Call, CallError, CallSender};
use nook_wire::{Message, Passed, PrefixHash, ResultHead, StepHead};
use tokio::sync::watch;

use crate::refusal::end_code;
use nook_resources::adverts::{AdvertBook, barred};

/// Steps whose marks are remembered until their results are out. Credit lets fewer come in, so
/// whoever sends more breaks a rule, and its call ends.
pub(crate) const STEPS_NOTED_MAX: usize = 64;

/// What the guest is to be told, or the outlet to do, between two results.
#[derive(Debug)]
pub(crate) enum Notice {
    /// From now on results go there.
    Onward { call: Call<Message>, next: PeerId },
    /// There is no way from host to host, or no longer.
    Broken(ErrorCode),
}

/// The way of one call's results.
#[derive(Debug)]
pub(crate) struct Outlet {
    way: Way,
    book: watch::Receiver<Arc<AdvertBook>>,
    /// The result whose rows are going on now.
    going: Option<Passed>,
    /// Whether a piece of what the worker remembers is going home now.
    giving: bool,
    /// Results that have gone on.
    passed: u64,
    /// Results that have gone home.
    home: u64,
}

#[derive(Debug)]
enum Way {
    Home,
    On {
        call: Call<Message>,
        next: PeerId,
    },
    /// Nobody takes results any more. The guest was told, and begins again with another call.
    Nowhere,
}

/// The marks of the steps under way, in order.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    steps: VecDeque<(u64, PrefixHash, PrefixHash)>,
}

impl Noted {
    /// Whether there was room for it.
    pub(crate) fn note(&mut self, head: &StepHead) -> bool {
        let has_room = self.steps.len() < STEPS_NOTED_MAX;
        if has_room {
            self.steps.push_back((head.step, head.history_before, head.history_after));
        }
        has_room
    }

    /// The marks of the step that `result` answers: the oldest one.
    pub(crate) fn take(&mut self, step: u64) -> Option<(PrefixHash, PrefixHash)> {
        let (noted, before, after) = self.steps.pop_front()?;
        (noted == step).then_some((before, after))
    }
}

impl Outlet {
    pub(crate) fn new(book: watch::Receiver<Arc<AdvertBook>>) -> Self {
        Self { way: Way::Home, book, going: None, giving: false, passed: 0, home: 0 }
    }

    /// Whether results go to another host.
    #[cfg(test)]
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.way, Way::On { .. })
    }

    /// Waits until the way to the next host is over; for ever where there is none. Dropped while it
    /// waits, nothing is lost.
    pub(crate) async fn broken(&mut self) -> ErrorCode {
        let Way::On { call, next } = &mut self.way else {
            return std::future::pending().await;
        };
        let code = tokio::select! {
            message = call.recv() => match message {
                Ok(Message::Onward { code: Some(code) }) => code,
                Ok(Message::Error(error)) => error.code,
                Ok(_) => ErrorCode::BadRequest,
                Err(error) => end_code(&error),
            },
            () = barred(self.book.clone(), *next) => ErrorCode::TrustDenied,
        };
        self.way = Way::Nowhere;
        code
    }

    /// Does what was asked between two results, and tells the guest.
    pub(crate) async fn heed(
        &mut self,
        notice: Notice,
        to_guest: &mut CallSender<Message>,
    ) -> Result<(), CallError> {
        let code = match notice {
            Notice::Onward { call, next } => {
                tracing::info!(?next, "results go on to another host");
                self.way = Way::On { call, next };
                None
            }
            Notice::Broken(code) => Some(code),
        };
        to_guest.send(Message::Onward { code }).await
    }

    /// Sends a message of the worker on its way. `marks` are those of the step that a result
    /// answers.
    pub(crate) async fn deliver(
        &mut self,
        message: Message,
        marks: Option<(PrefixHash, PrefixHash)>,
        to_guest: &mut CallSender<Message>,
    ) -> Result<(), CallError> {
        let is_last = matches!(&message, Message::Chunk(chunk) if chunk.last);
        // What is remembered is for the guest alone, wherever results go.
        let is_given = self.giving || matches!(message, Message::KvCachePiece(_));
        self.giving = is_given && !is_last;
        let is_result = !is_given && matches!(message, Message::Result(_) | Message::Chunk(_));
        let onward = match (&mut self.way, message) {
            (Way::Home, message) => {
                self.home += u64::from(is_result && is_last);
                return to_guest.send(message).await;
            }
            (_, message) if !is_result => return to_guest.send(message).await,
            (Way::Nowhere, _) => return Ok(()),
            (Way::On { call, .. }, Message::Result(head)) => match marks {
                Some(marks) => {
                    let ResultHead { step, compute_us, queue_us, .. } = head;
                    self.going = Some(Passed { step, compute_us, queue_us });
                    call.send(Message::Step(step_of(&head, marks))).await
                }
                // A worker answers what it was asked, in order; it has lost count.
                None => return Err(CallError::Closed { code: Some(ErrorCode::WorkerCrashed) }),
            },
            (Way::On { call, .. }, message) => call.send(message).await,
        };
        if let Err(error) = onward {
            self.way = Way::Nowhere;
            self.going = None;
            return to_guest.send(Message::Onward { code: Some(end_code(&error)) }).await;
        }
        if is_last && let Some(passed) = self.going.take() {
            self.passed += 1;
            metrics::counter!("distributed_inference_forwarded_steps_total").increment(1);
            to_guest.send(Message::Passed(passed)).await?;
        }
        Ok(())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let (passed, home) = (self.passed, self.home);
        if passed > 0 {
            tracing::info!(passed, home, "results of a call went on to another host");
        }
    }
}

/// The step that the next host is given for a result of this one.
fn step_of(head: &ResultHead, (before, after): (PrefixHash, PrefixHash)) -> StepHead {
    StepHead {
        step: head.step,
        position: head.position,
        count: head.count,
        hidden: head.hidden,
        dtype: head.dtype,
        history_before: before,
        history_after: after,
        bulk: head.bulk,
    }
}
