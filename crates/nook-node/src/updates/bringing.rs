//! Taking bytes of a release from devices of the house, over calls of their links.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use nook_fetch::{Bringer, CopyWish, Halt};
use nook_library::Giver;
use nook_mux::Call;
use nook_resources::traffic::Traffic;
use nook_update::Package;
use nook_wire::{Message, PieceAssembly, ReleaseDocument, Releases, WantRelease};

/// A call with one device, on which bytes of one document come.
#[derive(Debug)]
pub(super) struct Asking {
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
    /// Asks `giver` for these bytes of `document`.
    pub(super) async fn begin(
        giver: &Giver,
        document: ReleaseDocument,
        due: Range<u64>,
        traffic: Traffic,
    ) -> Result<Self, String> {
        let opened = giver.link.mux().open_call().await;
        let mut call = opened.map_err(|_| "its connection was lost".to_owned())?;
        let bytes = due.end.saturating_sub(due.start);
        let want = WantRelease { document, from: due.start, bytes };
        call.send(Message::WantRelease(want)).await.map_err(|error| error.to_string())?;
        Ok(Self { call, due, traffic })
    }

    /// The next bytes.
    pub(super) async fn piece(&mut self) -> Result<Bytes, String> {
        let Message::Piece(head) = self.receive().await? else { return Err(odd()) };
        let mut assembly =
            PieceAssembly::new(&head, &self.due).map_err(|wrong| wrong.to_string())?;
        loop {
            let Message::Chunk(chunk) = self.receive().await? else { return Err(odd()) };
            self.traffic.give_way(chunk.bytes.len()).await;
            if let Some(bytes) = assembly.take(chunk).map_err(|wrong| wrong.to_string())? {
                self.due.start = self.due.start.saturating_add(u64::from(head.bytes));
                return Ok(bytes);
            }
        }
    }

    async fn receive(&mut self) -> Result<Message, String> {
        match self.call.recv().await {
            Ok(Message::Error(error)) => Err(error.code.sentence().to_owned()),
            Ok(message) => Ok(message),
            Err(error) => Err(error.to_string()),
        }
    }

    /// All bytes of a document of `length` bytes. The length is bounded where it was heard.
    async fn whole(
        giver: &Giver,
        document: ReleaseDocument,
        length: u32,
        traffic: &Traffic,
    ) -> Result<Vec<u8>, String> {
        let due = 0..u64::from(length);
        let mut asking = Self::begin(giver, document, due, traffic.clone()).await?;
        let mut bytes = Vec::new();
        while !asking.due.is_empty() {
            bytes.extend_from_slice(&asking.piece().await?);
        }
        Ok(bytes)
    }
}

/// The list of versions that `giver` has, and its signature. Nothing is checked here.
pub(super) async fn list_of(
    giver: &Giver,
    said: &Releases,
    traffic: &Traffic,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    let list = Asking::whole(giver, ReleaseDocument::List, said.list_bytes, traffic).await?;
    let document = ReleaseDocument::Signature;
    let signature = Asking::whole(giver, document, said.signature_bytes, traffic).await?;
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
        let asking = Asking::begin(&giver, document, due, self.traffic.clone()).await;
        self.asking = Some(asking.map_err(|why| self.fail(why))?);
        Ok(())
    }

    async fn next(&mut self) -> Result<Bytes, Halt> {
        let Some(asking) = &mut self.asking else { return Err(Halt::Nobody) };
        let piece = asking.piece().await;
        piece.map_err(|why| self.fail(why))
    }

    fn device(&self) -> String {
        self.chosen.as_ref().map_or_else(String::new, |giver| giver.name.clone())
    }
}

fn odd() -> String {
    "it sent something else than was asked for".to_owned()
}
