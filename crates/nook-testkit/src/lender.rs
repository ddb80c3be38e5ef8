//! A helper that computes like any other and keeps everything that it is sent; or one that answers
//! garbage, where a test wants that.
//!
//! Between devices no frame can be read on its way: they are encrypted. So the recorder is one end:
//! a [`Device`] that is really paired, lends layers through a real worker process, and writes down
//! each message as the frame that it was. What the connection itself says (pings, credit, close)
//! carries numbers only and stays below.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nook_base::{LayerRange, ModelDigest, ModelPart, PeerId};
use nook_link::{Link, LinkEvent};
use nook_mux::Call;
use nook_node::WorkerCommand;
use nook_node::views::Trust;
use nook_shard::{Worker, WorkerLimits};
use nook_wire::{Advert, CallId, Kind, Message, ShardAdvert, WireMessage, WorkerMessage, encode};

use crate::device::Device;
use crate::node::Node;
use crate::program::nook;

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
    /// The chunks of activations, both ways.
    pub activations: Vec<Bytes>,
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
        file: &Path,
        model: ModelDigest,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-lend-").tempdir()?;
        let mut device = Device::start(name)?;
        let tasks = device.tasks().clone();
        let command =
            WorkerCommand { program: nook()?.to_owned(), arguments: vec!["worker".into()] };
        let limits = WorkerLimits {
            streams_max: 8,
            memory_bytes_max: 1 << 30,
            idle: Duration::from_secs(600),
        };
        let worker = Worker::start(&command, folder.path(), limits, &tasks).await?;
        let recorded = Arc::<Mutex<Recorded>>::default();
        let garbage = Arc::<Mutex<Option<Garbage>>>::default();
        let desk = Desk {
            model,
            file: file.to_owned(),
            worker,
            recorded: Arc::clone(&recorded),
            garbage: Arc::clone(&garbage),
        };
        let peer = device.pair_with(node, Trust::Trusted).await?;
        tasks.spawn_until_cancelled("lender", attend(device, peer, layers, desk));
        Ok(Self { recorded, garbage, _folder: folder, tasks })
    }

    /// What it answers from now on, in f32; `None`: what it computes.
    pub fn answer_with(&self, garbage: Option<Garbage>) {
        *self.garbage.lock().unwrap_or_else(PoisonError::into_inner) = garbage;
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
        memory_free_bytes: 1 << 30,
    };
    // A link that ends just now comes up again and is greeted again.
    let _ = link.mux().send(Message::Advert(advert)).await;
}

impl Desk {
    fn keep(&self, message: &Message) {
        let frame = encode(CallId::CONNECTION, 0, message);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.frames.push((message.kind(), frame));
        if let Message::Chunk(chunk) = message {
            recorded.activations.push(chunk.bytes.clone());
        }
    }

    fn keep_answer(&self, message: &Message) {
        if let Message::Chunk(chunk) = message {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            recorded.activations.push(chunk.bytes.clone());
        }
    }

    fn spoil(&self, answer: &mut Bytes, input: Option<Bytes>) {
        let garbage = *self.garbage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(garbage) = garbage else { return };
        let change = |number: f32| match garbage {
            Garbage::NotANumber => f32::NAN,
            Garbage::Zero => 0.0,
            Garbage::Thousandfold => number * 1_000.0,
            Garbage::Copy => number,
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
        let (mut to_guest, mut from_guest) = call.split();
        let (mut to_worker, mut from_worker) = worker.split();
        let inputs = Mutex::new(VecDeque::new());
        let inward = async {
            while let Ok(message) = from_guest.recv().await {
                self.keep(&message);
                if let Message::Chunk(chunk) = &message {
                    let mut inputs = inputs.lock().unwrap_or_else(PoisonError::into_inner);
                    inputs.push_back(chunk.bytes.clone());
                }
                if to_worker.send(WorkerMessage::from_peer(message)).await.is_err() {
                    return;
                }
            }
        };
        let outward = async {
            while let Ok(message) = from_worker.recv().await {
                let Ok(mut message) = message.into_peer() else { return };
                if let Message::Chunk(chunk) = &mut message {
                    // Rows have one width throughout, so answers come in the pieces of their inputs.
                    let input = inputs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    self.spoil(&mut chunk.bytes, input);
                }
                self.keep_answer(&message);
                if to_guest.send(message).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = inward => {}
            () = outward => {}
        }
        to_guest.close(None);
        to_worker.close(None);
    }
}
