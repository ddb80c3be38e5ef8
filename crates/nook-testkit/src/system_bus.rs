//! A system bus of its own, and somebody on it who plays logind. For tests only.
//!
//! The bus is a real dbus-daemon, and over it goes what goes over the system's: calls, signals, and
//! the open files that are the locks. logind itself cannot run in a test: there is one for a
//! machine, root's, and what it does at the end is to put the machine to sleep. The same bus can be
//! the session's as well, with somebody who plays a desktop.

mod desktop;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;
use zbus::connection::Builder;
use zbus::fdo;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::OwnedFd;

pub use self::desktop::Desktop;
use self::desktop::Played;
use crate::node::leash;

/// Longest wait for locks to be as wanted; a node looks for a bus that was gone after some seconds.
const LOCKS_LIMIT: Duration = Duration::from_secs(60);

const PATH: &str = "/org/freedesktop/login1";

/// A bus and its logind, from [`SystemBus::begin`] until it is dropped or ends.
#[derive(Debug)]
pub struct SystemBus {
    running: Option<Running>,
    desktop: Option<Played>,
    locks: Counted,
    idle_locks: Counted,
    desktop_locks: Counted,
    folder: tempfile::TempDir,
}

/// How many locks of one kind there are.
#[derive(Debug, Clone, Default)]
pub struct Counted(watch::Sender<Locks>);

/// Locks that logind was asked for, over all that played it on this bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Locks {
    /// How many were given.
    pub given: u32,
    /// How many of them are not held any more.
    pub returned: u32,
}

#[derive(Debug)]
struct Running {
    logind: zbus::Connection,
    _bus: Daemon,
}

/// The process of the bus.
#[derive(Debug)]
struct Daemon(Child);

struct Login {
    locks: Counted,
    idle_locks: Counted,
}

impl SystemBus {
    /// A bus that does not run yet; the error says why this machine has none to start.
    pub fn new() -> anyhow::Result<Self> {
        let found = Command::new("dbus-daemon").arg("--version").stdout(Stdio::null()).status();
        found.context("no dbus-daemon")?;
        let folder = tempfile::Builder::new().prefix("nook-bus-").tempdir()?;
        let (locks, idle_locks, desktop_locks) = Default::default();
        Ok(Self { running: None, desktop: None, locks, idle_locks, desktop_locks, folder })
    }

    /// Words before a program that make this bus its system bus: see [`crate::NodePlan::behind`].
    #[must_use]
    pub fn prefix(&self) -> Vec<OsString> {
        vec!["env".into(), format!("DBUS_SYSTEM_BUS_ADDRESS={}", self.address()).into()]
    }

    /// The same, and it is the bus of the program's session as well.
    #[must_use]
    pub fn session_prefix(&self) -> Vec<OsString> {
        let mut words = self.prefix();
        words.push(format!("DBUS_SESSION_BUS_ADDRESS={}", self.address()).into());
        words
    }

    /// Starts bus and logind.
    pub async fn begin(&mut self) -> anyhow::Result<()> {
        let bus = Daemon::start(&self.address())?;
        let login = Login { locks: self.locks.clone(), idle_locks: self.idle_locks.clone() };
        let logind = Builder::address(self.address().as_str())?.serve_at(PATH, login)?;
        let logind = logind.name("org.freedesktop.login1")?.build().await?;
        self.running = Some(Running { logind, _bus: bus });
        Ok(())
    }

    /// Starts a desktop on the bus, which must run.
    pub async fn begin_desktop(&mut self, desktop: Desktop) -> anyhow::Result<()> {
        let begun = desktop.begin(&self.address(), self.desktop_locks.clone()).await?;
        self.desktop = Some(begun);
        Ok(())
    }

    /// Ends everything at once. The locks that were given are still held by whoever has them, but
    /// for those of a desktop, which end with the bus.
    pub fn end(&mut self) {
        (self.desktop, self.running) = (None, None);
    }

    /// Ends the desktop alone; its locks are void.
    pub async fn end_desktop(&mut self) -> anyhow::Result<()> {
        self.desktop.take().context("a desktop runs")?.end().await
    }

    /// Says that the machine is about to sleep, or has slept.
    pub async fn prepare_for_sleep(&self, start: bool) -> anyhow::Result<()> {
        let running = self.running.as_ref().context("logind runs")?;
        let emitter = SignalEmitter::new(&running.logind, PATH)?;
        Ok(Login::prepare_for_sleep(&emitter, start).await?)
    }

    /// The locks that hold a sleep up, as they are now.
    #[must_use]
    pub fn locks(&self) -> Locks {
        self.locks.now()
    }

    /// Waits until those are as wanted; fails with how they are.
    pub async fn until(&self, what: &str, holds: impl Fn(&Locks) -> bool) -> anyhow::Result<Locks> {
        self.locks.until(what, holds).await
    }

    /// The locks of logind for which the machine does not fall asleep by itself.
    #[must_use]
    pub fn idle_locks(&self) -> &Counted {
        &self.idle_locks
    }

    /// The same, of the desktop.
    #[must_use]
    pub fn desktop_locks(&self) -> &Counted {
        &self.desktop_locks
    }

    fn address(&self) -> String {
        let socket: PathBuf = self.folder.path().join("bus");
        format!("unix:path={}", socket.display())
    }
}

impl Counted {
    /// The locks as they are now.
    #[must_use]
    pub fn now(&self) -> Locks {
        *self.0.borrow()
    }

    /// Waits until the locks are as wanted; fails with how they are.
    pub async fn until(&self, what: &str, holds: impl Fn(&Locks) -> bool) -> anyhow::Result<Locks> {
        let mut locks = self.0.subscribe();
        let wanted = tokio::time::timeout(LOCKS_LIMIT, locks.wait_for(|locks| holds(locks)));
        let seen = wanted
            .await
            .with_context(|| format!("not so within {LOCKS_LIMIT:?}: {what}; {:?}", self.now()))?;
        Ok(*seen?)
    }

    fn give(&self) {
        self.0.send_modify(|locks| locks.given += 1);
    }

    fn take_back(&self) {
        self.0.send_modify(|locks| locks.returned += 1);
    }
}

impl Locks {
    /// How many are held.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.given - self.returned
    }
}

impl Daemon {
    fn start(address: &str) -> anyhow::Result<Self> {
        let mut words = leash().chain(["dbus-daemon".into()]);
        let mut command = Command::new(words.next().context("there is at least the program")?);
        // The configuration of a session lets everybody take every name.
        command.args(words).args(["--session", "--nofork", "--nopidfile", "--print-address"]);
        command.arg(format!("--address={address}")).stdin(Stdio::null()).stdout(Stdio::piped());
        // It complains of limits that it may not raise.
        command.stderr(Stdio::null());
        let mut daemon = Self(command.spawn()?);
        // It says where it is once it can be connected to.
        let says = daemon.0.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(says).read_line(&mut line)?;
        anyhow::ensure!(line.starts_with("unix:"), "dbus-daemon says {line:?}");
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Login {
    /// Gives one end of a pipe; the lock is held until no process has that any more.
    fn inhibit(&self, what: &str, who: &str, _why: &str, mode: &str) -> fdo::Result<OwnedFd> {
        let locks = match (what, who, mode) {
            ("sleep", "Inglenook", "delay") => self.locks.clone(),
            ("idle", "Inglenook", "block") => self.idle_locks.clone(),
            _ => return Err(fdo::Error::InvalidArgs(format!("{who} wants {what}, {mode}"))),
        };
        let failed = |error: std::io::Error| fdo::Error::IOError(error.to_string());
        let (ours, theirs) = std::io::pipe().map_err(failed)?;
        locks.give();
        std::thread::spawn(move || until_closed(ours, &locks));
        Ok(std::os::fd::OwnedFd::from(theirs).into())
    }

    #[zbus(signal)]
    async fn prepare_for_sleep(emitter: &SignalEmitter<'_>, start: bool) -> zbus::Result<()>;
}

fn until_closed(mut lock: PipeReader, locks: &Counted) {
    // Nothing is ever written; whatever ends the reading, nobody holds it any more.
    let _ = lock.read(&mut [0]);
    locks.take_back();
}
