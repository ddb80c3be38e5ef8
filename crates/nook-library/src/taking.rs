//! Taking a model's bytes from other devices: who is asked, and what comes.
//!
//! A [`Taker`] is what `nook-fetch` brings a copy with. It looks at the book of those that give the
//! model, asks one of them for the rest of the file, and hands out piece by piece. A device that
//! refuses, leaves, stands still or breaks the rules is asked again only when no other is left.
//! Where the last one has gone, a moment is waited for it: links bounce, and a copy that ends reads
//! all that is here again when it goes on.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nook_base::{ErrorCode, ModelDigest, PeerId};
use nook_fetch::{Bringer, CopyWish, Halt};
use nook_mux::{Call, CallError};
use nook_wire::{Document, Message, Piece, PieceAssembly, Want};
use tokio::sync::watch;
use tokio::time::timeout;

use nook_resources::traffic::Traffic;

use crate::copies::{Holder, Holders};

/// Longest wait for a device that has the model, where none is linked. Beyond it the copy ends,
/// with what came, and begins again when one is back.
pub(crate) const HOLDER_WAIT: Duration = Duration::from_secs(10);

/// Brings the bytes of one model from the devices that have it.
#[derive(Debug)]
pub(crate) struct Taker {
    model: ModelDigest,
    holders: watch::Receiver<Arc<Holders>>,
    /// Whom the owner wants to be asked first.
    first: Option<PeerId>,
    traffic: Traffic,
    /// Who was chosen, and the length of the file there.
    chosen: Option<(PeerId, Holder, u64)>,
    call: Option<Call<Message>>,
    /// What is still to come of what was asked for.
    due: Range<u64>,
    /// Devices that were no use since the last wait.
    failed: BTreeSet<PeerId>,
    /// Whether one of them serves others now.
    is_busy: bool,
    /// What was wrong with the last of them.
    last: String,
    /// Where each device began that has brought anything.
    brought: Vec<(PeerId, u64)>,
}

impl Taker {
    pub(crate) fn new(
        model: ModelDigest,
        holders: watch::Receiver<Arc<Holders>>,
        first: Option<PeerId>,
        traffic: Traffic,
    ) -> Self {
        Self {
            model,
            holders,
            first,
            traffic,
            chosen: None,
            call: None,
            due: 0..0,
            failed: BTreeSet::new(),
            is_busy: false,
            last: String::new(),
            brought: Vec::new(),
        }
    }

    /// The device that has brought every single byte, if one has: only then is it known who is to
    /// blame for what is wrong with them.
    pub(crate) fn only_device(&self) -> Option<PeerId> {
        let (first, from) = *self.brought.first()?;
        let is_alone = self.brought.iter().all(|(peer, _)| *peer == first);
        (from == 0 && is_alone).then_some(first)
    }

    /// Who is asked first: the lowest. Only the file of which a part is here saves what is here;
    /// then the owner's choice counts, then who has brought the last bytes, and at last who answers
    /// first.
    pub(crate) fn rank(
        &self,
        wish: &CopyWish,
        peer: PeerId,
        bytes: u64,
        rtt: Duration,
    ) -> (bool, bool, bool, Duration) {
        let is_other = wish.length.is_some_and(|length| length != bytes);
        let is_last = self.brought.last().is_some_and(|(last, _)| *last == peer);
        (is_other, Some(peer) != self.first, !is_last, rtt)
    }

    /// The chosen device is no use now.
    fn fail(&mut self, why: impl Into<String>) -> Halt {
        self.call = None;
        if let Some((peer, ..)) = &self.chosen {
            self.failed.insert(*peer);
        }
        self.last = why.into();
        Halt::Another { why: self.last.clone() }
    }

    /// What comes next on the call; why nothing does.
    async fn receive(&mut self) -> Result<Message, String> {
        let (Some(call), Some((peer, ..))) = (&mut self.call, &self.chosen) else {
            return Err("nothing was asked for".to_owned());
        };
        let message = tokio::select! {
            biased;
            () = gone(self.holders.clone(), *peer, self.model) => {
                return Err("it is gone, gives this model no more, or is not trusted any more".to_owned());
            }
            message = call.recv() => message,
        };
        match message {
            Ok(Message::Error(error)) => {
                self.is_busy |= error.code == ErrorCode::Busy;
                Err(refusal(&error))
            }
            Ok(message) => Ok(message),
            Err(error) => Err(ended(&error)),
        }
    }

    async fn piece(&mut self) -> Result<Bytes, String> {
        let Message::Piece(head) = self.receive().await? else {
            return Err("it sent something else than was asked for".to_owned());
        };
        let assembly = PieceAssembly::new(&head, &self.due);
        let mut assembly = assembly.map_err(|wrong| wrong.to_string())?;
        loop {
            let Message::Chunk(chunk) = self.receive().await? else {
                return Err("it sent something else than was asked for".to_owned());
            };
            self.traffic.give_way(chunk.bytes.len()).await;
            if let Some(bytes) = assembly.take(chunk).map_err(|wrong| wrong.to_string())? {
                self.note(&head);
                return Ok(bytes);
            }
        }
    }

    /// A piece has come.
    fn note(&mut self, head: &Piece) {
        if let Some((peer, ..)) = &self.chosen
            && self.brought.last().is_none_or(|(last, _)| last != peer)
        {
            self.brought.push((*peer, head.from));
        }
        self.due.start = self.due.start.saturating_add(u64::from(head.bytes));
    }
}

impl Bringer for Taker {
    type Bytes = Bytes;

    async fn choose(&mut self, wish: CopyWish) -> Result<u64, Halt> {
        // A call that is still open was given up.
        if self.call.is_some() {
            self.fail("it stood still for too long");
        }
        let model = self.model;
        let any = |holders: &Arc<Holders>| holders.values().any(|it| it.model(model).is_some());
        let holders = match timeout(HOLDER_WAIT, self.holders.wait_for(any)).await {
            Ok(Ok(holders)) => holders.clone(),
            _ => return Err(Halt::Nobody),
        };
        let have = |(peer, holder): (&PeerId, &Holder)| {
            let bytes = holder.model(model)?.bytes;
            let will_do = wish.others_too || wish.length.is_none_or(|length| length == bytes);
            will_do.then(|| (*peer, holder.clone(), bytes))
        };
        let mut having: Vec<_> = holders.iter().filter_map(have).collect();
        if having.is_empty() {
            let why = "the devices that are here have another file of this model";
            return Err(Halt::Later { why: why.to_owned() });
        }
        if having.iter().any(|(.., bytes)| *bytes <= wish.most) {
            having.retain(|(.., bytes)| *bytes <= wish.most);
        }
        having.retain(|(peer, ..)| !self.failed.contains(peer));
        having.sort_by_key(|(peer, holder, bytes)| {
            self.rank(&wish, *peer, *bytes, holder.giver.link.rtt().unwrap_or(Duration::MAX))
        });
        if let Some(chosen) = having.into_iter().next() {
            let bytes = chosen.2;
            self.chosen = Some(chosen);
            return Ok(bytes);
        }
        self.failed.clear();
        let why = self.last.clone();
        Err(match std::mem::take(&mut self.is_busy) {
            true => Halt::Busy { why },
            false => Halt::Later { why },
        })
    }

    async fn ask(&mut self, from: u64) -> Result<(), Halt> {
        let Some((_, holder, bytes)) = self.chosen.clone() else {
            return Err(self.fail("nobody was chosen"));
        };
        let Ok(mut call) = holder.giver.link.mux().open_call().await else {
            return Err(self.fail("its connection was lost"));
        };
        let bytes = bytes.saturating_sub(from);
        let want = Want { model: self.model, document: Document::File, from, bytes };
        if let Err(error) = call.send(Message::Want(want)).await {
            return Err(self.fail(ended(&error)));
        }
        tracing::info!(peer = ?holder.giver.pass.peer(), model = ?self.model, from, "copying a model");
        self.due = from..from.saturating_add(bytes);
        self.call = Some(call);
        Ok(())
    }

    async fn next(&mut self) -> Result<Bytes, Halt> {
        match self.piece().await {
            Ok(bytes) => Ok(bytes),
            Err(why) => Err(self.fail(why)),
        }
    }

    fn device(&self) -> String {
        self.chosen.as_ref().map_or_else(String::new, |(_, holder, _)| holder.giver.name.clone())
    }
}

/// Waits until `peer` is nobody to copy from any more; for ever while it is.
async fn gone(mut holders: watch::Receiver<Arc<Holders>>, peer: PeerId, model: ModelDigest) {
    let lacks = |holders: &Arc<Holders>| {
        holders.get(&peer).is_none_or(|holder| holder.model(model).is_none())
    };
    if holders.wait_for(lacks).await.is_err() {
        // The house is leaving, and every task with it.
        std::future::pending::<()>().await;
    }
}

/// Why the other device refused. Its code, not its words: those are untrusted text.
fn refusal(error: &nook_wire::WireError) -> String {
    format!("it refused: {}", error.code.sentence())
}

fn ended(error: &CallError) -> String {
    match error {
        CallError::ConnectionLost { .. } => "its connection was lost".to_owned(),
        other => format!("it ended the copy: {}", other.code().sentence()),
    }
}

#[cfg(test)]
#[path = "taking_tests.rs"]
mod tests;
