//! The node's end of the control socket.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use interprocess::local_socket::tokio::{Listener, Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use nook_base::ErrorCode;
use nook_base::tasks::Tasks;
use nook_node::{House, HouseError, PairTarget, PauseFor, Sharing};
use tokio::sync::Semaphore;
use tokio_util::codec::{Framed, LinesCodec};

use crate::protocol::{Answer, DeviceTarget, Ids, Key, Line, Request};
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
pub fn serve(house: House, socket: &str, tasks: &Tasks) -> Result<(), ControlError> {
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

async fn accept(house: House, listener: Listener, tasks: Tasks) {
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

async fn attend(house: House, stream: Stream) {
    let mut wire = Framed::new(stream, codec());
    let request = match tokio::time::timeout(REQUEST_LIMIT, wire.next()).await {
        Ok(Some(Ok(line))) => serde_json::from_str::<Request>(&line)
            .map_err(|error| misunderstood(&error.to_string())),
        Ok(Some(Err(error))) => Err(misunderstood(&error.to_string())),
        // Nobody asked anything: a caller that only looked whether somebody listens, or a dead one.
        Ok(None) | Err(_) => return,
    };
    let outcome = match request {
        Ok(Request::Generate(wish)) => generate(&house, wish, &mut wire).await,
        Ok(Request::ShutDown) => {
            // The answer goes first: leaving ends this task too.
            send(&mut wire, &Line::Answer(Answer::Done)).await;
            return house.shut_down().await;
        }
        Ok(request) => answer(&house, request).await.map(Some),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(Some(answer)) => send(&mut wire, &Line::Answer(answer)).await,
        Ok(None) => true,
        Err(error) => send(&mut wire, &Line::Problem(error.into())).await,
    };
}

fn misunderstood(why: &str) -> HouseError {
    HouseError::new(
        ErrorCode::BadRequest,
        format!("This node does not understand the request: {why}."),
    )
}

async fn answer(house: &House, request: Request) -> Result<Answer, HouseError> {
    let done = |()| Answer::Done;
    match request {
        Request::View => Ok(Answer::View(Box::new((*house.now()).clone()))),
        Request::SetSharing { on } => {
            let sharing = if on { Sharing::On } else { Sharing::Off };
            house.set_sharing(sharing).await.map(done)
        }
        Request::PauseSharing { until_tomorrow } => {
            let span = if until_tomorrow { PauseFor::UntilTomorrow } else { PauseFor::Hour };
            house.pause_sharing(span).await.map(done)
        }
        Request::ResumeSharing => house.resume_sharing().await.map(done),
        Request::FreeMemory => house.free_memory().await.map(done),
        Request::ShowCode => house.show_code().await.map(Answer::Pairing),
        Request::CancelPairing => house.cancel_pairing().await.map(done),
        Request::Join { target, code } => {
            let target = match target {
                DeviceTarget::Seen(id) => PairTarget::Seen(id),
                DeviceTarget::Address(address) => PairTarget::Address(address),
            };
            house.join(target, code).await.map(Answer::Device)
        }
        Request::SetTrust { device, trust } => house.set_trust(device, trust).await.map(done),
        Request::Forget { device } => house.forget(device).await.map(done),
        Request::ImportModel { file, name } => {
            house.import_model(file, name).await.map(Answer::Model)
        }
        Request::RemoveModel { name } => house.remove_model(name).await.map(done),
        Request::Pull { source, name } => house.pull(source, name).await.map(Answer::Download),
        Request::Copy { model, from } => house.copy_model(model, from).await.map(Answer::Download),
        Request::Download { key, ask } => house.change_download(key, ask).await.map(done),
        Request::MoveModels { to } => house.move_models(to.map(|folder| folder.0)).await.map(done),
        Request::StopMovingModels => house.stop_moving_models().await.map(done),
        Request::FoundModels => house.found_models().await.map(Answer::Found),
        Request::Doctor => house.doctor().await.map(Answer::Findings),
        Request::Pipeline => house.pipeline().await.map(|view| Answer::Pipeline(Box::new(view))),
        Request::Vitals => house.vitals().await.map(Answer::Vitals),
        Request::PortKey => {
            house.port_settings().await.map(|port| Answer::PortKey(Key(port.key.0)))
        }
        Request::AddPortKey { name } => {
            house.add_port_key(name).await.map(|key| Answer::PortKey(Key(key.0)))
        }
        Request::ChangeSetting { setting } => house.change_setting(setting).await.map(done),
        Request::RemovePortKey { name } => house.remove_port_key(name).await.map(done),
        Request::Generate(_) | Request::ShutDown => unreachable!("attend answers these itself"),
    }
}

/// Streams a reply. Whoever closes the connection stops it: the reply is dropped here.
async fn generate(
    house: &House,
    wish: crate::protocol::GenerateWish,
    wire: &mut Wire,
) -> Result<Option<Answer>, HouseError> {
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
