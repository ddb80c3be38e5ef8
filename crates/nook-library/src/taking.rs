//! Taking a model's bytes from other devices: who is asked, and what comes.
//!
//! A [`Taker`] is what `nook-fetch` brings a copy of a whole file with. It looks at the book of
//! those that give the model, asks one of them for the rest of the file, and hands out piece by
//! piece. A device that refuses, leaves, stands still or breaks the rules is asked again only when
//! no other is left. Where the last one has gone, a moment is waited for it: links bounce, and a
//! copy that ends reads all that is here again when it goes on. What lies here already of the model
//! is asked of nobody ([`crate::parts_here`]). [`Asking`] is the call with one device;
//! [`crate::taking_parts`] takes single ranges over it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nook_base::{ErrorCode, ModelDigest, PeerId};
use nook_fetch::{Bringer, CopyWish, Halt};
use nook_mux::{Call, CallError};
use nook_wire::{Document, Message, Piece, Want};
use tokio::sync::watch;
use tokio::time::timeout;

use nook_resources::traffic::Traffic;

use crate::copies::{Holder, Holders};
use crate::parts_here::PartsHere;
use crate::pieces::{PieceCall, next_piece};

/// Longest wait for a device that has the model, where none is linked. Beyond it the copy ends,
/// with what came, and begins again when one is back.
pub(crate) const HOLDER_WAIT: Duration = Duration::from_secs(10);

/// A call with the device that was chosen, for bytes of one model.
#[derive(Debug)]
pub(crate) struct Asking {
    model: ModelDigest,
    pub(crate) holders: watch::Receiver<Arc<Holders>>,
    traffic: Traffic,
    /// Who was chosen.
    pub(crate) chosen: Option<(PeerId, Holder)>,
    call: Option<Call<Message>>,
    /// What is still to come of what was asked for.
    due: Range<u64>,
    /// Devices that were no use since the last wait.
    failed: BTreeSet<PeerId>,
    /// Whether one of them serves others now.
    is_busy: bool,
    /// What was wrong with the last of them.
    last: String,
}

impl Asking {
    pub(crate) fn new(
        model: ModelDigest,
        holders: watch::Receiver<Arc<Holders>>,
        traffic: Traffic,
    ) -> Self {
        Self {
            model,
            holders,
            traffic,
            chosen: None,
            call: None,
            due: 0..0,
            failed: BTreeSet::new(),
            is_busy: false,
            last: String::new(),
        }
    }

    /// The model whose bytes are asked for.
    pub(crate) fn model(&self) -> ModelDigest {
        self.model
    }

    /// Whether a call is open, and all that was asked for on it has come.
    pub(crate) fn is_idle(&self) -> bool {
        self.call.is_some() && self.due.is_empty()
    }

    /// Whether bytes that were asked for are still to come.
    pub(crate) fn awaits(&self) -> bool {
        !self.due.is_empty()
    }

    /// Nothing is asked for for a while: whoever gives has others to serve.
    pub(crate) fn rest(&mut self) {
        self.call = None;
    }

    /// A call that is open was given up by whoever waited.
    pub(crate) fn give_up(&mut self) {
        if self.call.is_some() {
            self.fail("it stood still for too long");
        }
    }

    /// Whether `peer` was no use since the last wait.
    pub(crate) fn has_failed(&self, peer: PeerId) -> bool {
        self.failed.contains(&peer)
    }

    /// All devices were no use: whoever asks next waits a moment first.
    pub(crate) fn begin_anew(&mut self) -> Halt {
        self.failed.clear();
        let why = self.last.clone();
        match std::mem::take(&mut self.is_busy) {
            true => Halt::Busy { why },
            false => Halt::Later { why },
        }
    }

    /// The chosen device is no use now.
    pub(crate) fn fail(&mut self, why: impl Into<String>) -> Halt {
        self.call = None;
        self.due = 0..0;
        self.last = why.into();
        if let Some((peer, _)) = &self.chosen {
            tracing::info!(?peer, model = ?self.model, why = self.last, "it does not give on");
            self.failed.insert(*peer);
        }
        Halt::Another { why: self.last.clone() }
    }

    /// Asks the chosen device for bytes of `document`, on the open call where there is one.
    pub(crate) async fn ask(&mut self, document: Document, due: Range<u64>) -> Result<(), Halt> {
        let Some((_, holder)) = self.chosen.clone() else {
            return Err(self.fail("nobody was chosen"));
        };
        let mut call = match self.call.take() {
            Some(call) => call,
            None => match holder.giver.link.mux().open_call().await {
                Ok(call) => call,
                Err(_) => return Err(self.fail("its connection was lost")),
            },
        };
        let bytes = due.end.saturating_sub(due.start);
        let want = Want { model: self.model, document, from: due.start, bytes };
        if let Err(error) = call.send(Message::Want(want)).await {
            return Err(self.fail(ended(&error)));
        }
        tracing::debug!(
            peer = ?holder.giver.pass.peer(), model = ?self.model, ?document, from = due.start, bytes,
            "asked for bytes of a model"
        );
        self.due = due;
        self.call = Some(call);
        Ok(())
    }

    /// The next bytes of what was asked for, and the head that they came under; why there are none.
    pub(crate) async fn piece(&mut self) -> Result<(Piece, Bytes), String> {
        next_piece(self).await
    }

    /// Name of the device that was chosen, for people.
    pub(crate) fn device(&self) -> String {
        self.chosen.as_ref().map_or_else(String::new, |(_, holder)| holder.giver.name.clone())
    }

    /// Waits for devices that `have` it, a moment where there is none.
    pub(crate) async fn wait_for_holders(
        &mut self,
        have: impl Fn(PeerId, &Holder) -> bool,
    ) -> Option<Arc<Holders>> {
        let any = |holders: &Arc<Holders>| holders.iter().any(|(peer, it)| have(*peer, it));
        match timeout(HOLDER_WAIT, self.holders.wait_for(any)).await {
            Ok(Ok(holders)) => Some(holders.clone()),
            _ => None,
        }
    }
}

impl PieceCall for Asking {
    async fn receive(&mut self) -> Result<Message, String> {
        let (Some(call), Some((peer, _))) = (&mut self.call, &self.chosen) else {
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

    fn due(&mut self) -> &mut Range<u64> {
        &mut self.due
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// Brings the bytes of one model from the devices that have it.
#[derive(Debug)]
pub(crate) struct Taker {
    asking: Asking,
    /// Whom the owner wants to be asked first.
    first: Option<PeerId>,
    /// Length of the file at the device that was chosen.
    bytes: u64,
    /// Byte of the file that comes next.
    at: u64,
    /// What lies here already of the model.
    here: Option<PartsHere>,
    /// Where the first bytes were wanted from.
    began: Option<u64>,
    /// The devices that have brought anything, in order.
    brought: Vec<PeerId>,
}

impl Taker {
    pub(crate) fn new(
        model: ModelDigest,
        holders: watch::Receiver<Arc<Holders>>,
        first: Option<PeerId>,
        traffic: Traffic,
    ) -> Self {
        let asking = Asking::new(model, holders, traffic);
        Self { asking, first, bytes: 0, at: 0, here: None, began: None, brought: Vec::new() }
    }

    /// What lies here already is not asked for.
    pub(crate) fn with(self, here: Option<PartsHere>) -> Self {
        Self { here, ..self }
    }

    /// The device that has brought every single byte that did not lie here, if one has: only then
    /// is it known who is to blame for what is wrong with them.
    pub(crate) fn only_device(&self) -> Option<PeerId> {
        let first = *self.brought.first()?;
        let is_alone = self.brought.iter().all(|peer| *peer == first);
        (self.began == Some(0) && is_alone).then_some(first)
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
        let is_last = self.brought.last() == Some(&peer);
        (is_other, Some(peer) != self.first, !is_last, rtt)
    }

    /// A piece has come.
    fn note(&mut self, head: &Piece) {
        self.at = head.from.saturating_add(u64::from(head.bytes));
        if let Some((peer, _)) = &self.asking.chosen
            && self.brought.last() != Some(peer)
        {
            self.brought.push(*peer);
        }
    }

    /// Asks for what comes next, up to the next byte that lies here; for nothing where that is the
    /// next one.
    async fn ask_on(&mut self) -> Result<(), Halt> {
        let (at, end) = (self.at, self.bytes);
        if at >= end {
            // Whoever asks on behind the end is told so, instead of waiting for nothing.
            return Err(self.asking.fail("all of it was sent"));
        }
        let until = self.here.as_ref().map_or(end, |here| here.next_from(at, end));
        if at == until {
            return Ok(());
        }
        self.asking.ask(Document::File, at..until).await
    }
}

impl Bringer for Taker {
    type Bytes = Bytes;

    async fn choose(&mut self, wish: CopyWish) -> Result<u64, Halt> {
        // A call that is still open was given up.
        self.asking.give_up();
        let model = self.asking.model();
        let has = |_, holder: &Holder| holder.model(model).is_some();
        let Some(holders) = self.asking.wait_for_holders(has).await else {
            return Err(Halt::Nobody);
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
        having.retain(|(peer, ..)| !self.asking.has_failed(*peer));
        having.sort_by_key(|(peer, holder, bytes)| {
            self.rank(&wish, *peer, *bytes, holder.giver.link.rtt().unwrap_or(Duration::MAX))
        });
        let Some((peer, holder, bytes)) = having.into_iter().next() else {
            return Err(self.asking.begin_anew());
        };
        self.asking.chosen = Some((peer, holder));
        self.bytes = bytes;
        Ok(bytes)
    }

    async fn ask(&mut self, from: u64) -> Result<(), Halt> {
        if let Some((peer, _)) = &self.asking.chosen {
            tracing::info!(?peer, model = ?self.asking.model(), from, "copying a model");
        }
        self.at = from;
        self.began.get_or_insert(from);
        self.ask_on().await
    }

    async fn next(&mut self) -> Result<Bytes, Halt> {
        while !self.asking.awaits() {
            let end = self.bytes;
            if let Some(here) = &mut self.here
                && let Some(bytes) = here.read(self.at, end).await
            {
                self.asking.rest();
                self.at = self.at.saturating_add(bytes.len() as u64);
                return Ok(bytes);
            }
            self.ask_on().await?;
        }
        match self.asking.piece().await {
            Ok((head, bytes)) => {
                self.note(&head);
                Ok(bytes)
            }
            Err(why) => Err(self.asking.fail(why)),
        }
    }

    fn device(&self) -> String {
        self.asking.device()
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
