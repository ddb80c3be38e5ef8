//! Taking bytes of a release from devices of the house, over calls of their links.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use nook_fetch::{Bringer, CopyWish, Halt};
use nook_library::{Giver, PieceCall, next_piece};
use nook_mux::Call;
use nook_resources::traffic::Traffic;
use nook_update::Package;
use nook_wire::{Message, ReleaseDocument, Releases, WantRelease};

/// A call with one device, on which bytes of documents come, one after the other.
#[derive(Debug)]
struct Asking {
    call: Call<Message>,
    /// What is still to come of what was asked for.
    due: Range<u64>,
    traffic: Traffic,
}

/// Brings one package from the devices that have it, one after the other.
#[derive(Debug)]
pub(super) struct FromHouse {
    package: Package,
    sha256: [u8; 32],
    givers: VecDeque<Giver>,
    chosen: Option<Giver>,
    asking: Option<Asking>,
    traffic: Traffic,
}

impl Asking {
    /// Opens a call with `giver`, on which nothing is asked for yet.
    async fn of(giver: &Giver, traffic: Traffic) -> Result<Self, String> {
        let opened = giver.link.mux().open_call().await;
        let call = opened.map_err(|_| "its connection was lost".to_owned())?;
        Ok(Self { call, due: 0..0, traffic })
    }

    /// Asks for these bytes of `document`, once all that was asked for before has come.
    async fn ask(&mut self, document: ReleaseDocument, due: Range<u64>) -> Result<(), String> {
        let bytes = due.end.saturating_sub(due.start);
        let want = WantRelease { document, from: due.start, bytes };
        let asked = self.call.send(Message::WantRelease(want)).await;
        self.due = due;
        asked.map_err(|error| error.to_string())
    }

    /// All bytes of a document of `length` bytes. The length is bounded where it was heard.
    async fn whole(&mut self, document: ReleaseDocument, length: u32) -> Result<Vec<u8>, String> {
        self.ask(document, 0..u64::from(length)).await?;
        let mut bytes = Vec::new();
        while !self.due.is_empty() {
            bytes.extend_from_slice(&next_piece(self).await?.1);
        }
        Ok(bytes)
    }
}

impl PieceCall for Asking {
    async fn receive(&mut self) -> Result<Message, String> {
        match self.call.recv().await {
            Ok(Message::Error(error)) => Err(error.code.sentence().to_owned()),
            Ok(message) => Ok(message),
            Err(error) => Err(error.to_string()),
        }
    }

    fn due(&mut self) -> &mut Range<u64> {
        &mut self.due
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// The list of versions that `giver` has, and its signature. Nothing is checked here.
pub(super) async fn list_of(
    giver: &Giver,
    said: &Releases,
    traffic: Traffic,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut asking = Asking::of(giver, traffic).await?;
    let list = asking.whole(ReleaseDocument::List, said.list_bytes).await?;
    let signature = asking.whole(ReleaseDocument::Signature, said.signature_bytes).await?;
    Ok((list, signature))
}

impl FromHouse {
    /// Takes `package`, which has this digest, from one of `givers`.
    pub(super) fn new(
        package: Package,
        sha256: [u8; 32],
        givers: Vec<Giver>,
        traffic: Traffic,
    ) -> Self {
        let givers = givers.into();
        Self { package, sha256, givers, chosen: None, asking: None, traffic }
    }

    fn fail(&mut self, why: String) -> Halt {
        tracing::info!(device = self.device(), why, "it gives no package");
        (self.chosen, self.asking) = (None, None);
        Halt::Another { why }
    }
}

impl Bringer for FromHouse {
    type Bytes = Bytes;

    async fn choose(&mut self, _: CopyWish) -> Result<u64, Halt> {
        // Each is asked once: the internet has it too.
        self.chosen = Some(self.givers.pop_front().ok_or(Halt::Nobody)?);
        Ok(self.package.bytes)
    }

    async fn ask(&mut self, from: u64) -> Result<(), Halt> {
        let Some(giver) = self.chosen.clone() else { return Err(Halt::Nobody) };
        let due = from..self.package.bytes;
        let document = ReleaseDocument::Package(self.sha256);
        let asking = async {
            let mut asking = Asking::of(&giver, self.traffic.clone()).await?;
            asking.ask(document, due).await.map(|()| asking)
        };
        let asking = asking.await;
        self.asking = Some(asking.map_err(|why| self.fail(why))?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Bytes, Halt> {
        let Some(asking) = &mut self.asking else { return Err(Halt::Nobody) };
        let piece = next_piece(asking).await;
        piece.map(|(_, bytes)| bytes).map_err(|why| self.fail(why))
    }

    fn device(&self) -> String {
        self.chosen.as_ref().map_or_else(String::new, |giver| giver.name.clone())
    }
}
