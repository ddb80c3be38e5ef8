//! The node's end of the control socket.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use interprocess::local_socket::tokio::{Listener, Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use nook_api::{FrontEnd, NodeError, NodeHandle, Request, Response};
use nook_base::ErrorCode;
use nook_base::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio_util::codec::{Framed, LinesCodec};

use crate::protocol::{Ask, Ids, Line, ReplyRequest};
use crate::socket::codec;

/// Connections served at once; the next one waits in the system's queue.
const CONNECTIONS_MAX: usize = 32;

/// Longest wait for a request on a new connection.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Pause after a failed accept, so that a lasting failure does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why the socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the control socket {socket}: {source}")]
pub struct ControlError {
    /// Name of the socket.
    pub socket: String,
    /// What the system said.
    pub source: std::io::Error,
}

type Wire = Framed<Stream, LinesCodec>;

/// Serves `house` at `socket` until `tasks` is cancelled.
///
/// The caller holds the lock of the home, so a file left by a dead node is replaced.
pub fn serve(house: NodeHandle, socket: &str, tasks: &Tasks) -> Result<(), ControlError> {
    let failed = |source| ControlError { socket: socket.to_owned(), source };
    if cfg!(unix) {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    let name = socket.to_fs_name::<GenericFilePath>().map_err(failed)?;
    let listener = ListenerOptions::new().name(name).create_tokio().map_err(failed)?;
    let accepting = accept(house, listener, tasks.clone());
    tasks.spawn_until_cancelled("control", accepting);
    Ok(())
}

async fn accept(house: NodeHandle, listener: Listener, tasks: Tasks) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(seat) = seats.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok(stream) => {
                let house = house.clone();
                tasks.spawn_until_cancelled("control-request", async move {
                    attend(house, stream).await;
                    drop(seat);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket could not accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn attend(house: NodeHandle, stream: Stream) {
    let mut wire = Framed::new(stream, codec());
    let ask = match tokio::time::timeout(REQUEST_LIMIT, wire.next()).await {
        Ok(Some(Ok(line))) => {
            serde_json::from_str::<Ask>(&line).map_err(|error| misunderstood(&error.to_string()))
        }
        Ok(Some(Err(error))) => Err(misunderstood(&error.to_string())),
        // Nobody asked anything: a caller that only looked whether somebody listens, or a dead one.
        Ok(None) | Err(_) => return,
    };
    let outcome = match ask {
        Ok(Ask::Generate(wish)) => generate(&house, wish, &mut wire).await,
        Ok(Ask::Call(Request::ShutDown {})) => {
            // The answer goes first: leaving ends this task too.
            send(&mut wire, &Line::Response(Box::new(Response::ShutDown(())))).await;
            return house.shut_down().await;
        }
        Ok(Ask::Call(request)) => house.call(FrontEnd::Control, request).await.map(Some),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Some(response)) => send(&mut wire, &Line::Response(Box::new(response))).await,
        Ok(None) => true,
        Err(error) => send(&mut wire, &Line::Problem(error.into())).await,
    };
}

fn misunderstood(why: &str) -> NodeError {
    NodeError::new(
        ErrorCode::BadRequest,
        format!("This node does not understand the request: {why}."),
    )
}

/// Streams a reply. Whoever closes the connection stops it: the reply is dropped here.
async fn generate(
    house: &NodeHandle,
    wish: ReplyRequest,
    wire: &mut Wire,
) -> Result<Option<Response>, NodeError> {
    if wish.text.is_some() == wish.messages.is_some() {
        return Err(misunderstood("a reply continues either a text or messages"));
    }
    // The client says nothing after its request: a line or an end is its leaving, also while the
    // reply waits for its turn.
    let mut reply = tokio::select! {
        reply = house.generate(wish.into()) => reply?,
        _ = wire.next() => return Ok(None),
    };
    let prompt = Line::Prompt { ids: Ids(reply.prompt_ids.0.clone()) };
    let mut listening = send(wire, &prompt).await;
    while listening {
        tokio::select! {
            piece = reply.events.recv() => {
                let Some(piece) = piece else { break };
                let line = Line::Event { event: piece.event, ids: Ids(piece.ids.0) };
                listening = send(wire, &line).await;
            }
            _ = wire.next() => listening = false,
        }
    }
    Ok(None)
}

/// Sends a line; whether the other side still listens.
async fn send(wire: &mut Wire, line: &Line) -> bool {
    match serde_json::to_string(line) {
        Ok(text) => wire.send(text).await.is_ok(),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            false
        }
    }
}
