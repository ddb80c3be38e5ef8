//! Pieces of the path by themselves: what is left of a hop when the node, the worker, or everything
//! but the system is taken away.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use nook_base::tasks::Tasks;
use nook_base::{Backend, ModelPart, PeerId, clock};
use nook_link::{Identity, KnownPeer, LinkEvent, Links};
use nook_mux::Call;
use nook_shard::{Worker, WorkerCommand, WorkerLimits};
use nook_trust::DeviceKey;
use nook_wire::{Message, ResultHead};
use tokio::runtime::Runtime;

use super::requester::{Requester, link_config};
use super::steps::{self, Course, Taken};
use crate::figures::Spread;

/// What the worker may use; far more than the small models take.
const LIMITS: WorkerLimits = WorkerLimits {
    streams_max: 4,
    memory_bytes_max: 8 << 30,
    gpu_bytes_max: u64::MAX,
    idle: Duration::from_secs(600),
    backend: Backend::Native,
    falls_back: false,
};

/// The worker alone: its local socket, no link, no node between.
pub(crate) async fn worker(file: &Path, course: Course, tasks: &Tasks) -> anyhow::Result<Taken> {
    let folder = tempfile::Builder::new().prefix("nook-bench-").tempdir()?;
    let command = WorkerCommand {
        program: nook_testkit::nook()?.to_owned(),
        arguments: vec!["worker".into()],
    };
    let worker = Worker::start(&command, folder.path(), LIMITS, tasks).await?;
    worker.load(file, course.model, ModelPart::inner(course.layers)).await?;
    let taken = steps::walk(worker.open_call().await?, course).await;
    worker.stop().await;
    taken
}

/// The link alone: TLS, WebSocket and mux to a peer that computes nothing and sends each row back.
pub(crate) async fn link(course: Course, tasks: &Tasks) -> anyhow::Result<Taken> {
    let identity = Identity::new(DeviceKey::generate()?)?;
    let echo = Echo::start(identity.id())?;
    let host = KnownPeer { id: echo.id, addresses: vec![echo.address] };
    let requester = Requester::knowing(identity, host, tasks)?;
    steps::walk(requester.call().await?, course).await
}

/// The floor of this machine: the same bytes over TCP between two threads that only wait for them.
pub(crate) async fn tcp(course: Course) -> anyhow::Result<Spread> {
    let ping_pong = tokio::task::spawn_blocking(move || tcp_ping_pong(course));
    ping_pong.await.context("the TCP thread failed")?
}

/// A device in this process on threads of its own, as a peer would be.
struct Echo {
    id: PeerId,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Echo {
    fn start(requester: PeerId) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let inside = runtime.enter();
        let tasks = Tasks::new();
        let identity = Identity::new(DeviceKey::generate()?)?;
        let id = identity.id();
        let listen = vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)];
        let (links, mut events) = Links::start(link_config(identity, listen), &tasks)?;
        let address = links.local_addr().context("it listens")?;
        links.set_peers(vec![KnownPeer { id: requester, addresses: Vec::new() }]);
        let calls = tasks.clone();
        tasks.spawn("echo", async move {
            // Held here: links end with their last handle.
            let _links = links;
            while let Some(event) = events.recv().await {
                if let LinkEvent::IncomingCall { call, .. } = event {
                    calls.spawn("echo call", async move {
                        // The other side has left; nobody is to be told.
                        let _ = echo(call).await;
                    });
                }
            }
        });
        drop(inside);
        Ok(Self { id, address, runtime: Some(runtime) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not allowed on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

async fn echo(mut call: Call<Message>) -> anyhow::Result<()> {
    call.recv().await?;
    call.send(Message::Opened { position: 0 }).await?;
    while let Message::Step(head) = call.recv().await? {
        let rows = call.recv_activation(head.count, head.hidden, head.dtype).await?;
        let result = ResultHead {
            step: head.step,
            position: head.position,
            count: head.count,
            hidden: head.hidden,
            dtype: head.dtype,
            compute_us: 0,
            queue_us: 0,
            bulk: head.bulk,
        };
        call.send_tensor(Message::Result(result), rows.bytes().clone()).await?;
    }
    Ok(())
}

fn tcp_ping_pong(course: Course) -> anyhow::Result<Spread> {
    let bytes = nook_base::activation::byte_len(1, course.hidden, course.dtype)
        .context("a row of this width has a length")?;
    let rounds = course.warm_up + course.counted;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let other = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut row = vec![0; bytes];
        for _ in 0..rounds {
            stream.read_exact(&mut row)?;
            stream.write_all(&row)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut row = vec![0; bytes];
    let mut samples = Vec::new();
    for round in 0..rounds {
        let started = clock::now();
        stream.write_all(&row)?;
        stream.read_exact(&mut row)?;
        if round >= course.warm_up {
            samples.push(clock::now().duration_since(started).as_secs_f64() * 1e6);
        }
    }
    other.join().map_err(|_| anyhow::anyhow!("the other thread failed"))??;
    Ok(Spread::of(samples))
}
