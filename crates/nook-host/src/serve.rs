//! Serving a call of another device: from its OPEN to the end of the call.
//!
//! The gate has let the device in before anything here runs: [`serve`] takes the proof. The
//! messages of the call are then passed between the device and our worker as they are (`proxy`).
//! What the worker says in its own vocabulary never passes.

mod meter;

use std::time::Duration;

use nook_base::{ErrorCode, LayerRange, ModelPart, PeerId, clock};
use nook_mux::Call;
use nook_store::{AuditAsked, AuditSubject, AuditWhy};
use nook_trust::purpose::Lend;
use nook_trust::{Admitted, Ticket};
use nook_wire::{Message, OffloadRequest, Open, ResultHead, WireError, WireMessage, WorkerMessage};
use tokio_util::sync::CancellationToken;

use self::meter::Meter;
use super::audit::{Line, Moment, subject, why};
use super::chain::{self, Chains};
use super::events::HostEvent;
use super::giving::{self, Asked};
use super::lent::Lent;
use super::offload;
use super::proxy::{self, Ends};
use super::refusal::{error, opening, refuse, withheld, worker_error};
use super::streams::{Activity, MadeRoom};
use super::terms::{Guest, Stream, Terms};
use super::tools::Tools;
use super::usage::Presence;

/// Longest wait for a stream that ends for another one: it leaves in order.
const GIVE_WAY_LIMIT: Duration = proxy::DRAIN_LIMIT.saturating_mul(4);

/// Serves one call of an admitted device.
pub(crate) async fn serve(guest: Guest, mut call: Call<Message>, terms: Terms, tools: &Tools) {
    let Guest { admitted, own, copies } = guest;
    let peer = admitted.peer();
    let mut line = None;
    let outcome = tokio::select! {
        biased;
        () = terms.revoked.cancelled() => Err(error(ErrorCode::TrustDenied, "")),
        () = terms.until.cancelled() => Err(error(ErrorCode::Draining, "")),
        outcome = open(&admitted, &mut call, (&terms, tools), &mut line) => outcome,
    };
    match outcome {
        Ok(Begun::Stream { worker, open, meter, until, activity, _stream }) => {
            let Tools { me, events, book, .. } = tools.clone();
            let chains = Chains::new(me, events, book, terms.named.clone());
            let (member, arrival) = chains.member(&admitted, open);
            let ends = Ends { member, arrival, activity };
            let tokens = (&until, &terms.revoked);
            let seen = |head: &ResultHead| {
                meter.see(head);
                line.iter().for_each(|line| line.computed(head.count));
            };
            let why = proxy::pass(call, worker, ends, tokens, seen).await;
            if let Some(line) = line {
                line.end(Moment::read(), why);
            }
        }
        Ok(Begun::Relay(ticket)) => {
            chain::present(peer, ticket, call, &tools.events).await;
        }
        Ok(Begun::Whole(ask)) => match own {
            Some(own) => offload::host(own, &ask, call, (&terms, tools)).await,
            None => {
                tracing::info!(?peer, "a whole request was refused: that device is not own here");
                let asked = subject(AuditAsked::Whole, ask.model, None, None);
                let unix = clock::unix_seconds();
                tools.audit.refuse(unix, peer, asked, AuditWhy::TooLittleTrust);
                refuse(call, error(ErrorCode::TrustDenied, "")).await;
            }
        },
        Ok(Begun::Copy(want)) => {
            giving::give((peer, copies), (&tools.giving, &tools.audit), want, call).await;
        }
        Ok(Begun::Nothing) => {}
        Err(error) => {
            tracing::info!(?peer, code = %error.code, "a call was refused");
            note_refusal(peer, line, tools, &error);
            refuse(call, error).await;
        }
    }
}

/// A call was refused; without a `line` nothing was asked for on it that this device knows.
fn note_refusal(peer: PeerId, line: Option<Line>, tools: &Tools, error: &WireError) {
    let at = Moment::read();
    match line {
        Some(line) => line.fail(at, why(error.code)),
        None => {
            let asked = AuditSubject { asked: AuditAsked::Compute, model: None, layers: None };
            tools.audit.refuse(at.unix, peer, asked, why(error.code));
        }
    }
}

/// What a call of an admitted device begins with.
enum Begun {
    /// A stream of its own.
    Stream {
        worker: Call<WorkerMessage>,
        open: Open,
        meter: Box<Meter>,
        /// Also cancelled when this stream alone gives way to another one.
        until: CancellationToken,
        activity: Activity,
        _stream: (Stream, Presence),
    },
    /// Steps of another device's stream; the gate is asked about that one.
    Relay(Box<Ticket>),
    /// A whole request, of which no id has come yet.
    Whole(Box<OffloadRequest>),
    /// A file, which another gate decides on.
    Copy(Asked),
    /// The other side has left.
    Nothing,
}

/// Reads OPEN and finds a worker that holds the layers; what is asked is noted as `line`.
async fn open(
    admitted: &Admitted<Lend>,
    call: &mut Call<Message>,
    (terms, tools): (&Terms, &Tools),
    line: &mut Option<Line>,
) -> Result<Begun, WireError> {
    let Some(message) = opening(call).await? else {
        return Ok(Begun::Nothing);
    };
    if let Some(want) = Asked::of(&message) {
        return Ok(Begun::Copy(want));
    }
    let open = match message {
        Message::Open(open) => open,
        Message::Relay(ticket) => return Ok(Begun::Relay(ticket)),
        Message::OffloadRequest(ask) => return Ok(Begun::Whole(ask)),
        _ => return Err(error(ErrorCode::BadRequest, "a call begins with OPEN")),
    };
    let name = terms.lent.iter().find(|lent| lent.model == open.model).map(|lent| &*lent.name);
    let asked = subject(AuditAsked::Compute, open.model, name, Some(open.layers));
    *line = Some(tools.audit.begin(Moment::read(), admitted.peer(), asked));
    let lent = find(&terms.lent, &open)?;
    // The stream is taken before the layers are loaded: whoever is over the limit costs nothing.
    let (permit, made_room) = permit(admitted.peer(), terms).await?;
    // Told once it counts. A full queue loses the note; the advert is repeated anyway.
    let _ = tools.events.try_send(HostEvent::StreamChanged);
    let until = terms.until.child_token();
    let activity = terms.usage.streams().begin(admitted.peer(), until.clone());
    drop(made_room);
    let stream = (permit, terms.usage.enter(admitted.peer()));
    tracing::info!(
        peer = ?admitted.peer(),
        model = ?open.model,
        layers = %open.layers,
        "lending layers"
    );
    terms.served.note(lent.model);
    let worker = tools
        .workers
        .get(lent.model, &lent.name)
        .await
        .map_err(|problem| withheld(problem.code, &problem.sentence))?;
    // Only the file is named here: the worker loads the layers at OPEN, under the guests' cap.
    let part = ModelPart::inner(LayerRange::with_len(open.layers.start(), 0));
    lent.path
        .with(async |file| worker.load(&file, lent.model, part).await)
        .await
        .map_err(worker_error)?;
    // Under the name that the gate has proved, so that what is kept for it is kept for nobody else.
    let peer = admitted.peer();
    let mut worker_call = worker.open_call_for(peer).await.map_err(worker_error)?;
    let usage = (peer, terms.usage.clone());
    let meter = Meter::new(usage, open.model, open.layers, tools.events.clone());
    let meter = Box::new(meter);
    let opening = WorkerMessage::from_peer(Message::Open(open.clone()));
    worker_call.send(opening).await.map_err(|_| error(ErrorCode::WorkerCrashed, ""))?;
    Ok(Begun::Stream { worker: worker_call, open, meter, until, activity, _stream: stream })
}

/// A free stream. Where there is none, and the device has none, one that does nothing ends for it;
/// that is to be known until the new one has begun.
async fn permit(peer: PeerId, terms: &Terms) -> Result<(Stream, Option<MadeRoom>), WireError> {
    if let Some(stream) = terms.try_stream() {
        return Ok((stream, None));
    }
    let busy = || error(ErrorCode::Busy, ErrorCode::Busy.sentence());
    let made_room = terms.usage.streams().make_room(peer, clock::now()).ok_or_else(busy)?;
    tracing::info!(?peer, "a stream that does nothing gives way to another device");
    let freed = tokio::time::timeout(GIVE_WAY_LIMIT, terms.stream()).await;
    freed.ok().flatten().map(|stream| (stream, Some(made_room))).ok_or_else(busy)
}

fn find<'a>(lent: &'a [Lent], open: &Open) -> Result<&'a Lent, WireError> {
    let same = lent.iter().find(|lent| lent.model == open.model).ok_or_else(|| {
        error(
            ErrorCode::WeightsMismatch,
            &format!("this device does not lend the model with digest {}", open.model.short()),
        )
    })?;
    if open.layers.is_empty() || !same.layers.contains(open.layers) {
        return Err(error(
            ErrorCode::ShardUnavailable,
            &format!("asked for layers {}, this device lends {}", open.layers, same.layers),
        ));
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use nook_base::{ActivationDtype, ModelDigest};

    use super::*;
    use nook_resources::file_place::FilePlace;

    fn wish(model: u8, start: u32, len: u32) -> Open {
        Open {
            session: 1,
            model: ModelDigest([model; 32]),
            layers: LayerRange::with_len(start, len),
            dtype: ActivationDtype::F32,
            positions_max: 16,
            resume: None,
        }
    }

    fn lent() -> Vec<Lent> {
        vec![Lent {
            model: ModelDigest([1; 32]),
            name: "ember".to_owned(),
            path: FilePlace::new(std::path::PathBuf::new()),
            layers: LayerRange::with_len(1, 4),
        }]
    }

    #[test]
    fn another_file_is_a_mismatch_and_other_layers_are_unavailable() {
        let code = |open: &Open| find(&lent(), open).map(|_| ()).map_err(|error| error.code);
        assert_eq!(code(&wish(1, 1, 4)), Ok(()));
        assert_eq!(code(&wish(2, 1, 4)), Err(ErrorCode::WeightsMismatch));
        assert_eq!(code(&wish(1, 0, 2)), Err(ErrorCode::ShardUnavailable));
        assert_eq!(code(&wish(1, 4, 2)), Err(ErrorCode::ShardUnavailable));
        assert_eq!(code(&wish(1, 2, 0)), Err(ErrorCode::ShardUnavailable));
    }
}
