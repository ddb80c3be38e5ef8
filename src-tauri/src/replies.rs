//! Replies that are being made for the window: each streams into its channel until it ends, or
//! until the person stops it.
//!
//! A page that closes does not end a reply: it is finished and kept, as the person asked for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nook_api::views::{Problem, ReplyEvent};
use nook_api::{KeptReply, NodeError, NodeHandle, Turn, TurnView};
use nook_base::ErrorCode;
use tauri::ipc::Channel;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::coalesce::Coalescer;

/// Words are sent to the page about thirty times a second; more often nobody sees.
const SEND_PAUSE: Duration = Duration::from_millis(33);

/// Replies made for the window at once. One more is refused, as a person reads one at a time.
const REPLIES_MAX: usize = 8;

/// The replies under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replies {
    /// What stops each reply, by its message. Guards the map alone; held for single operations.
    stops: Arc<Mutex<HashMap<i64, oneshot::Sender<()>>>>,
}

impl Replies {
    /// Says something and starts to stream the reply.
    pub(crate) async fn say(
        &self,
        house: &NodeHandle,
        turn: Turn,
        events: Channel<ReplyEvent>,
    ) -> Result<TurnView, Problem> {
        if self.with_stops(|stops| stops.len()) >= REPLIES_MAX {
            return Err(ErrorCode::Busy).map_err(|code| NodeError::from(code).into());
        }
        let started = house.say(turn).await?;
        let view = TurnView::from(&started);
        let (stop, stopped) = oneshot::channel();
        self.with_stops(|stops| stops.insert(view.reply_message, stop));
        let replies = self.clone();
        house.tasks().spawn("window-reply", async move {
            stream(started.reply, &events, stopped).await;
            replies.with_stops(|stops| stops.remove(&view.reply_message));
        });
        Ok(view)
    }

    /// Whether any is under way.
    pub(crate) fn are_running(&self) -> bool {
        self.with_stops(|stops| !stops.is_empty())
    }

    /// Stops a reply. One that has ended already is left as it is.
    pub(crate) fn stop(&self, reply_message: i64) {
        if let Some(stop) = self.with_stops(|stops| stops.remove(&reply_message)) {
            // A receiver that is gone means that the reply has just ended, which is what was asked
            // for.
            let _ = stop.send(());
        }
    }

    fn with_stops<T>(&self, work: impl FnOnce(&mut HashMap<i64, oneshot::Sender<()>>) -> T) -> T {
        work(&mut self.stops.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Streams to the end of the reply. Leaving drops the reply, which stops it.
async fn stream(
    mut reply: KeptReply,
    page: &Channel<ReplyEvent>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut waiting = Coalescer::default();
    let mut send_at = Instant::from_std(nook_base::clock::now());
    let mut may_stop = true;
    loop {
        tokio::select! {
            biased;
            stop = &mut stopped, if may_stop => {
                if stop.is_ok() {
                    send(page, waiting.take(cancelled()));
                    return;
                }
                // The other end is kept until this function is over; without it nobody can stop it.
                may_stop = false;
            }
            () = sleep_until(send_at), if waiting.waits() => {
                send(page, waiting.flush());
                send_at = Instant::from_std(nook_base::clock::now()) + SEND_PAUSE;
            }
            piece = reply.events.recv() => {
                let Some(piece) = piece else {
                    send(page, waiting.flush());
                    return;
                };
                send(page, waiting.take(piece.event));
            }
        }
    }
}

fn cancelled() -> ReplyEvent {
    NodeError::from(ErrorCode::Cancelled).into()
}

fn send(page: &Channel<ReplyEvent>, events: impl IntoIterator<Item = ReplyEvent>) {
    for event in events {
        if let Err(error) = page.send(event) {
            // The page was closed or loaded anew; the reply is kept and shows when it is opened.
            tracing::debug!(%error, "a reply goes on without its page");
        }
    }
}
