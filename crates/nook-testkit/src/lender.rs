//! A helper that computes like any other and keeps everything that it is sent; or one that answers
//! garbage, where a test wants that.
//!
//! Between devices no frame can be read on its way: they are encrypted. So the recorder is one end:
//! a [`Device`] that is really paired, lends layers through a real worker process, and writes down
//! each message as the frame that it was. What the connection itself says (pings, credit, close)
//! carries numbers only and stays below.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nook_api::views::{DeviceView, Trust};
use nook_base::{Backend, ErrorCode, LayerRange, ModelDigest, ModelPart, PeerId, clock};
use nook_link::{Link, LinkEvent};
use nook_mux::{Call, CallError, CallSender};
use nook_node::WorkerCommand;
use nook_shard::{Worker, WorkerLimits};
use nook_wire::{
    Advert, CallId, Chunk, Kind, Message, Open, ShardAdvert, WireMessage, WorkerMessage, encode,
};

use crate::device::Device;
use crate::node::Node;
use crate::program::nook;

/// Bytes for layers and KV caches where a test does not care.
const MEMORY_USUAL: u64 = 1 << 30;

/// Longest wait for a message.
const SENT_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// How long [`Garbage::Trickle`] waits before each byte.
const TRICKLE: Duration = Duration::from_millis(100);

/// A recording helper. Dropping it ends its worker.
#[derive(Debug)]
pub struct Lender {
    recorded: Arc<Mutex<Recorded>>,
    garbage: Arc<Mutex<Option<Garbage>>>,
    _folder: tempfile::TempDir,
    tasks: nook_base::tasks::Tasks,
}

/// What a helper was sent, and what it answered.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Every message from the other device, as the frame that carried it.
    pub frames: Vec<(Kind, Bytes)>,
    /// What the calls were opened with.
    pub opens: Vec<Open>,
    /// The chunks of activations, both ways.
    pub activations: Vec<Bytes>,
    /// Calls that were served to their end.
    pub calls_ended: u32,
}

/// What a helper may answer instead of what it computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// NaN everywhere.
    NotANumber,
    /// Nothing but zeros.
    Zero,
    /// What it was sent.
    Copy,
    /// Everything a thousand times too large.
    Thousandfold,
    /// Numbers so small that processors take a slow way with them.
    Subnormal,
    /// What the layers before its own make of it; in calls that begin from now on.
    OtherLayers,
    /// Everything a hundredth too large: it looks right.
    Nudged,
    /// What it computed, a byte at a time, slower than anybody waits.
    Trickle,
}

/// What every call is served with.
#[derive(Debug, Clone)]
struct Desk {
    model: ModelDigest,
    file: PathBuf,
    worker: Worker,
    recorded: Arc<Mutex<Recorded>>,
    garbage: Arc<Mutex<Option<Garbage>>>,
}

impl Lender {
    /// Pairs with `node`, is trusted by it, and lends `layers` of its built-in model from now on.
    pub async fn start(
        name: &'static str,
        node: &Node,
        layers: LayerRange,
    ) -> anyhow::Result<Self> {
        Self::play(Device::start(name)?, node, layers, MEMORY_USUAL).await
    }

    /// The same for a device that was made otherwise, with so many bytes for layers and KV caches.
    pub async fn play(
        mut device: Device,
        node: &Node,
        layers: LayerRange,
        memory_bytes_max: u64,
    ) -> anyhow::Result<Self> {
        let model = node.built_in().await?;
        let peer = device.pair_with(node, Trust::Trusted).await?;
        let name = device.name();
        let lender = Self::lend(device, peer, model, (layers, memory_bytes_max)).await?;
        let is_it = |device: &DeviceView| device.name == name && !device.lends.is_empty();
        node.until(&format!("{name} lends"), |view| view.devices.iter().any(is_it)).await?;
        Ok(lender)
    }

    /// Lends layers of the model in `file` to `peer`, with which `device` is paired, from now on.
    pub async fn lend(
        device: Device,
        peer: PeerId,
        (file, model): (PathBuf, ModelDigest),
        (layers, memory_bytes_max): (LayerRange, u64),
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-lend-").tempdir()?;
        let tasks = device.tasks().clone();
        let command =
            WorkerCommand { program: nook()?.to_owned(), arguments: vec!["worker".into()] };
        let limits = WorkerLimits {
            streams_max: 8,
            memory_bytes_max,
            gpu_bytes_max: u64::MAX,
            idle: Duration::from_secs(600),
            backend: Backend::Native,
            falls_back: false,
        };
        let worker = Worker::start(&command, folder.path(), limits, &tasks).await?;
        let recorded = Arc::<Mutex<Recorded>>::default();
        let garbage = Arc::<Mutex<Option<Garbage>>>::default();
        let desk = Desk {
            model,
            file,
            worker,
            recorded: Arc::clone(&recorded),
            garbage: Arc::clone(&garbage),
        };
        tasks.spawn_until_cancelled("lender", attend(device, peer, layers, desk));
        Ok(Self { recorded, garbage, _folder: folder, tasks })
    }

    /// What it answers from now on, in f32; `None`: what it computes.
    pub fn answer_with(&self, garbage: Option<Garbage>) {
        *self.garbage.lock().unwrap_or_else(PoisonError::into_inner) = garbage;
    }

    /// Waits until it was sent a message of that kind.
    pub async fn until_sent(&self, kind: Kind) -> anyhow::Result<()> {
        let end = clock::now() + SENT_LIMIT;
        while !self.recorded().kinds().contains(&kind) {
            anyhow::ensure!(clock::now() < end, "no {kind:?} came within {SENT_LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until the other device has compared what this one computes with its own, which it
    /// does once nobody has asked anything for a moment: what is answered later is not found wrong
    /// before a reply depends on it. To be called before the first reply.
    pub async fn until_compared(&self) -> anyhow::Result<()> {
        let end = clock::now() + SENT_LIMIT;
        while self.recorded().calls_ended == 0 {
            anyhow::ensure!(clock::now() < end, "nothing was compared within {SENT_LIMIT:?}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Begins the record anew.
    pub fn forget(&self) {
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Recorded::default();
    }

    /// Everything so far.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

impl Recorded {
    /// All frames, one after the other.
    #[must_use]
    pub fn capture(&self) -> Vec<u8> {
        self.frames.iter().flat_map(|(_, frame)| frame.iter().copied()).collect()
    }

    /// The kinds of message that came, each once.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for (kind, _) in &self.frames {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        kinds
    }
}

async fn attend(mut device: Device, peer: PeerId, layers: LayerRange, desk: Desk) {
    let group = device.tasks().clone();
    if let Some(link) = device.link(peer) {
        greet(&link, layers, &desk).await;
    }
    while let Some(event) = device.any_event().await {
        match event {
            LinkEvent::Up(link) => greet(&link, layers, &desk).await,
            LinkEvent::Control { message, .. } => desk.keep(&message),
            LinkEvent::IncomingCall { call, .. } => {
                let desk = desk.clone();
                group.spawn_until_cancelled("lend", async move { desk.serve(call).await });
            }
            _ => {}
        }
    }
}

async fn greet(link: &Link, layers: LayerRange, desk: &Desk) {
    desk.keep(&Message::Hello(link.hello().clone()));
    let shard = ShardAdvert {
        model: desk.model,
        layers,
        held: layers,
        decode_us_per_layer: None,
        prefill_us_per_layer_token: None,
    };
    let advert = Advert {
        sharing: true,
        shards: vec![shard],
        streams_free: 8,
        queue_depth: 0,
        memory_free_bytes: MEMORY_USUAL,
        fetch_bytes: 0,
    };
    // A link that ends just now comes up again and is greeted again.
    let _ = link.mux().send(Message::Advert(advert)).await;
}

impl Desk {
    fn keep(&self, message: &Message) {
        let frame = encode(CallId::CONNECTION, 0, message);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.frames.push((message.kind(), frame));
        match message {
            Message::Chunk(chunk) => recorded.activations.push(chunk.bytes.clone()),
            Message::Open(open) => recorded.opens.push(open.clone()),
            _ => {}
        }
    }

    fn keep_answer(&self, message: &Message) {
        if let Message::Chunk(chunk) = message {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            recorded.activations.push(chunk.bytes.clone());
        }
    }

    fn garbage(&self) -> Option<Garbage> {
        *self.garbage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens with the layers before those that were asked for, where that is wanted.
    fn misplace(&self, message: Message) -> Message {
        match message {
            Message::Open(open) if self.garbage() == Some(Garbage::OtherLayers) => {
                let start = open.layers.start().saturating_sub(1);
                let layers = LayerRange::with_len(start, open.layers.len());
                Message::Open(Open { layers, ..open })
            }
            other => other,
        }
    }

    fn spoil(&self, answer: &mut Bytes, input: Option<Bytes>) {
        let Some(garbage) = self.garbage() else { return };
        let change = |number: f32| match garbage {
            Garbage::NotANumber => f32::NAN,
            Garbage::Zero => 0.0,
            Garbage::Thousandfold => number * 1_000.0,
            Garbage::Subnormal => f32::MIN_POSITIVE / 8.0,
            Garbage::Nudged => number * 1.01,
            Garbage::Copy | Garbage::OtherLayers | Garbage::Trickle => number,
        };
        let source = match garbage {
            Garbage::Copy => input.unwrap_or_default(),
            _ => answer.clone(),
        };
        let (numbers, _) = source.as_chunks::<4>();
        let changed = numbers.iter().map(|bytes| change(f32::from_le_bytes(*bytes)));
        *answer = changed.flat_map(f32::to_le_bytes).collect();
    }

    /// Passes a call on to the worker; an end of either is the end of both.
    async fn serve(&self, call: Call<Message>) {
        let part = ModelPart::inner(LayerRange::with_len(0, 0));
        let loaded = self.worker.load(&self.file, self.model, part).await;
        let (Ok(_), Ok(worker)) = (loaded, self.worker.open_call().await) else {
            return;
        };
        let (to_guest, mut from_guest) = call.split();
        let to_guest = tokio::sync::Mutex::new(to_guest);
        let (mut to_worker, mut from_worker) = worker.split();
        let inputs = Mutex::new(VecDeque::new());
        let inward = async {
            while let Ok(message) = from_guest.recv().await {
                self.keep(&message);
                if let Message::Forward(_) = message {
                    // It has no link to any device but the one that asks.
                    let code = Some(ErrorCode::ShardUnavailable);
                    if to_guest.lock().await.send(Message::Onward { code }).await.is_err() {
                        return;
                    }
                    continue;
                }
                if let Message::Chunk(chunk) = &message {
                    let mut inputs = inputs.lock().unwrap_or_else(PoisonError::into_inner);
                    inputs.push_back(chunk.bytes.clone());
                }
                if to_worker.send(WorkerMessage::from_peer(self.misplace(message))).await.is_err() {
                    return;
                }
            }
        };
        let outward = async {
            while let Ok(message) = from_worker.recv().await {
                let Ok(mut message) = message.into_peer() else { return };
                if let Message::Chunk(chunk) = &mut message {
                    // Rows have one width throughout, so answers come in the pieces of their
                    // inputs.
                    let input = inputs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    self.spoil(&mut chunk.bytes, input);
                }
                self.keep_answer(&message);
                let mut to_guest = to_guest.lock().await;
                let sent = match message {
                    Message::Chunk(chunk) if self.garbage() == Some(Garbage::Trickle) => {
                        trickle(&mut to_guest, chunk).await
                    }
                    other => to_guest.send(other).await,
                };
                if sent.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = inward => {}
            () = outward => {}
        }
        to_guest.into_inner().close(None);
        to_worker.close(None);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.calls_ended = recorded.calls_ended.saturating_add(1);
    }
}

async fn trickle(to_guest: &mut CallSender<Message>, chunk: Chunk) -> Result<(), CallError> {
    let count = chunk.bytes.len();
    for place in 0..count {
        tokio::time::sleep(TRICKLE).await;
        let byte = Chunk {
            offset: chunk.offset + place as u64,
            bytes: chunk.bytes.slice(place..=place),
            last: chunk.last && place + 1 == count,
        };
        to_guest.send(Message::Chunk(byte)).await?;
    }
    Ok(())
}
