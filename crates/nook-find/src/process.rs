//! Discovery in a process of its own, which can be ended from outside.
//!
//! ```text
//! node ──stdin──> advertise, withdraw, browse
//!      <─stdout── heard, closed, refused, alive
//! ```
//!
//! Anybody on a network can send any number of records of multicast DNS, and `mdns-sd` keeps all of
//! a message that holds no pointer to another service, in a cache without a cap; it reads a socket
//! until that is empty before it listens to anybody else. So it runs where all that it takes is free
//! again when it ends: `<this program> worker --discovery`. The process ends by itself in a flood
//! (`child`); the node ends one that grows past [`MEMORY_MAX`] or says nothing for [`SILENCE_MAX`].
//! Then nothing is looked for during a rest, which gets longer while floods follow one another.
//! Links that stand, and addresses that are remembered, do without discovery.
//! Why a process: docs/decisions/0054.

mod child;
mod floods;
mod frames;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_base::tasks::Tasks;
use nook_base::{clock, env};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use crate::discovery::{Advertisement, Discovery, FindError, Heard};
use crate::mdns::Interfaces;
use crate::tag::Tag;
pub use child::discovery_main;
use floods::Floods;
use frames::{Order, Report};

/// The argument behind `worker` that asks for such a process.
pub const DISCOVERY_FLAG: &str = "--discovery";

/// The arguments that follow it.
const ALL: &str = "all";
const LOOPBACK: &str = "loopback";

/// Exit status of a process that noticed a flood.
const FLOODED: u8 = 75;

/// Memory at which the process is ended, in bytes. It takes a tenth of it.
const MEMORY_MAX: u64 = 160 << 20;

/// How often its memory is looked at.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// A process that has said nothing for so long is ended. It speaks every two seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long a process that is told to leave may take. Its goodbye takes half a second at most.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// Events between the process and the finder; when full, the process waits, and in the end the
/// subscription closes.
const EVENTS_MAX: usize = 256;

/// Orders that wait for the process to read them. Each browse and each advert is one; the finder
/// gives few a minute.
const ORDERS_MAX: usize = 64;

/// How such a process is started, and watched.
#[derive(Debug, Clone)]
pub struct DiscoveryCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments before [`DISCOVERY_FLAG`], `["worker"]`.
    pub arguments: Vec<OsString>,
    /// Bytes that a process has in memory; `None` where the system does not say.
    pub memory_of: fn(u32) -> Option<u64>,
}

/// Discovery by multicast DNS in a process of its own.
#[derive(Debug)]
pub struct ProcessDiscovery {
    command: DiscoveryCommand,
    interfaces: Interfaces,
    tasks: Tasks,
    advertised: Option<(Tag, Advertisement)>,
    running: Option<Running>,
    floods: Floods,
    /// No process runs before then, and why.
    rests: Option<(Instant, String)>,
}

/// The node's end of a process. Dropping it lets the process leave.
#[derive(Debug)]
struct Running {
    orders: mpsc::Sender<Order>,
    ear: Arc<Mutex<Ear>>,
    /// Closed when the process has ended.
    ended: oneshot::Receiver<()>,
}

/// Where what a process says goes to. A lock is held for the length of one look or change.
#[derive(Debug, Default)]
struct Ear {
    listener: Option<mpsc::Sender<Heard>>,
    refused: Option<FindError>,
    /// Why it ended, in words; behind that nothing comes.
    end: Option<String>,
}

impl ProcessDiscovery {
    /// Discovery that starts its process when it is needed first.
    #[must_use]
    pub fn new(command: DiscoveryCommand, interfaces: Interfaces, tasks: &Tasks) -> Self {
        let (tasks, floods) = (tasks.clone(), Floods::default());
        Self { command, interfaces, tasks, advertised: None, running: None, floods, rests: None }
    }

    /// The process, started if need be and possible; `None` during a rest.
    fn running(&mut self) -> Result<Option<&Running>, FindError> {
        let now = clock::now();
        let said = self.running.as_ref().map(|running| {
            let mut ear = lock(&running.ear);
            (ear.end.take(), ear.refused.take())
        });
        let (ended, refused) = said.unwrap_or_default();
        if let Some(why) = ended {
            self.running = None;
            let (rest, is_first) = self.floods.rest_after(now);
            if is_first {
                tracing::warn!("{why}; looking for devices rests");
            }
            self.rests = Some((now + rest, why));
        }
        if let Some(error) = refused {
            return Err(error);
        }
        if self.rests.as_ref().is_some_and(|(until, _)| now < *until) {
            return Ok(None);
        }
        if self.running.is_none() {
            self.running = Some(self.start()?);
            self.rests = None;
            if let Some((tag, advertisement)) = self.advertised.clone() {
                self.order_advert(tag, advertisement)?;
            }
        }
        Ok(self.running.as_ref())
    }

    fn start(&self) -> Result<Running, FindError> {
        let interfaces = match self.interfaces {
            Interfaces::All => ALL,
            Interfaces::Loopback => LOOPBACK,
        };
        let failed = |error: io::Error| FindError::CannotStart { reason: error.to_string() };
        let mut child = tokio::process::Command::new(&self.command.program)
            .args(&self.command.arguments)
            .args([DISCOVERY_FLAG, interfaces])
            .env_clear()
            .envs(env::bare())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = child.stdout.take().ok_or_else(missing)?;
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let (over, ended) = oneshot::channel();
        let ear = Arc::<Mutex<Ear>>::default();
        let attended = attend(child, (to, from), inbox, Arc::clone(&ear), self.command.memory_of);
        // Not cancelled with the other tasks: it ends when the finder lets go of it, with a goodbye.
        self.tasks.spawn("discovery process", async move {
            attended.await;
            drop(over);
        });
        Ok(Running { orders, ear, ended })
    }

    /// Says what is wanted to the process that runs, if one does. Why that failed.
    fn order(&self, order: Order) -> Result<(), String> {
        let Some(running) = &self.running else { return Ok(()) };
        let told = running.orders.try_send(order);
        told.map_err(|_| "the process that does it does not listen".to_owned())
    }

    fn order_advert(&self, tag: Tag, advertisement: Advertisement) -> Result<(), FindError> {
        let told = self.order(Order::Advertise(tag, advertisement));
        told.map_err(|reason| FindError::CannotAdvertise { reason })
    }
}

impl Discovery for ProcessDiscovery {
    fn advertise(&mut self, tag: Tag, advertisement: &Advertisement) -> Result<(), FindError> {
        // Where none runs, the next one is told when it starts.
        self.advertised = Some((tag, advertisement.clone()));
        self.order_advert(tag, advertisement.clone())
    }

    fn withdraw(&mut self) {
        self.advertised = None;
        if let Err(reason) = self.order(Order::Withdraw) {
            tracing::debug!(reason, "the goodbye could not be said");
        }
    }

    fn browse(&mut self) -> Result<mpsc::Receiver<Heard>, FindError> {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let Some(running) = self.running()? else {
            let (until, why) = self.rests.clone().unwrap_or_else(|| (clock::now(), String::new()));
            let left = until.saturating_duration_since(clock::now());
            self.tasks.spawn_until_cancelled("mdns rest", floods::rest(left, why, sender));
            return Ok(receiver);
        };
        lock(&running.ear).listener = Some(sender);
        self.order(Order::Browse).map_err(|reason| FindError::CannotBrowse { reason })?;
        Ok(receiver)
    }

    fn leave(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let running = self.running.take();
        Box::pin(async move {
            if let Some(Running { orders, ended, .. }) = running {
                drop(orders);
                // It is killed when it does not end by itself, and closes this then. Past the limit
                // it is killed with the task that attends it.
                let _ = tokio::time::timeout(2 * LEAVE_LIMIT, ended).await;
            }
        })
    }
}

fn lock(ear: &Mutex<Ear>) -> MutexGuard<'_, Ear> {
    // A poisoned lock is harmless here: no change leaves it half done.
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attends a process to its end.
async fn attend(
    mut child: Child,
    (to, from): (ChildStdin, ChildStdout),
    orders: mpsc::Receiver<Order>,
    ear: Arc<Mutex<Ear>>,
    memory_of: fn(u32) -> Option<u64>,
) {
    let pid = child.id().unwrap_or_default();
    let (is_left, left) = oneshot::channel();
    let told = tokio::select! {
        told = listen(from, &ear) => told,
        () = say(to, orders, is_left) => None,
        () = linger(left) => Some("the process that looks for devices does not leave".to_owned()),
        () = too_large(pid, memory_of) => Some(FLOOD_WORDS.to_owned()),
    };
    let why = match told {
        Some(why) => why,
        // Its output has ended, and so will it.
        None => match tokio::time::timeout(LEAVE_LIMIT, child.wait()).await {
            Ok(status) => status.map_or_else(|error| error.to_string(), ending),
            Err(_) => "the process that looks for devices does not end".to_owned(),
        },
    };
    // Killing fails only when it has ended.
    let _ = child.kill().await;
    let mut ear = lock(&ear);
    ear.end = Some(why);
    // The finder notices, and browses anew.
    ear.listener = None;
}

const FLOOD_WORDS: &str = "the network is flooded with records of multicast DNS";

/// Why a process ended by itself. One that the system ended had taken more than it may have.
fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code != i32::from(FLOODED) => {
            format!("the process that looks for devices ended ({status})")
        }
        _ => FLOOD_WORDS.to_owned(),
    }
}

/// Writes orders until nobody gives any more, or they are not taken; then the process is told to
/// leave, by the end of its input, and `is_left` is dropped.
async fn say(mut to: ChildStdin, mut orders: mpsc::Receiver<Order>, is_left: oneshot::Sender<()>) {
    while let Some(order) = orders.recv().await {
        let Ok(frame) = frames::encode(&order) else { continue };
        let written = async {
            to.write_all(&frames::length_of(&frame)).await?;
            to.write_all(&frame).await?;
            to.flush().await
        };
        // Where it has ended, what it said last tells why.
        if !matches!(tokio::time::timeout(SILENCE_MAX, written).await, Ok(Ok(()))) {
            break;
        }
    }
    drop((to, is_left));
    std::future::pending().await
}

/// Ends so long after the process was told to leave.
async fn linger(left: oneshot::Receiver<()>) {
    let _ = left.await;
    tokio::time::sleep(LEAVE_LIMIT).await;
}

/// Passes on what the process says, until it ends. Why it is to be ended, where it does not.
async fn listen(mut from: ChildStdout, ear: &Mutex<Ear>) -> Option<String> {
    loop {
        let report = match tokio::time::timeout(SILENCE_MAX, read(&mut from)).await {
            Ok(Ok(report)) => report,
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return None,
            Ok(Err(error)) => {
                return Some(format!("the process that looks for devices said {error}"));
            }
            Err(_) => {
                return Some("the process that looks for devices does not answer".to_owned());
            }
        };
        match report {
            Report::Alive => {}
            Report::Heard(heard) => {
                let listener = lock(ear).listener.clone();
                // Nobody may listen any more.
                if let Some(listener) = listener {
                    let _ = listener.send(heard).await;
                }
            }
            Report::Closed => lock(ear).listener = None,
            Report::Refused(error) => {
                let mut ear = lock(ear);
                ear.refused = Some(error);
                ear.listener = None;
            }
        }
    }
}

async fn read(from: &mut ChildStdout) -> io::Result<Report> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix).await?;
    let mut frame = vec![0; frames::length(prefix)?];
    from.read_exact(&mut frame).await?;
    frames::decode(&frame)
}

/// Ends when the process takes more than [`MEMORY_MAX`]. Where the system limits it itself, it ends
/// before.
async fn too_large(pid: u32, memory_of: fn(u32) -> Option<u64>) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let taken = tokio::task::spawn_blocking(move || memory_of(pid)).await;
        if matches!(taken, Ok(Some(taken)) if taken > MEMORY_MAX) {
            return;
        }
    }
}
