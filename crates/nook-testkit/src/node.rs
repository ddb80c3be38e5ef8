//! One node: a process of its own with its own home, and its owner's door to it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::views::{HouseholdView, PipelineView, Trust};
use nook_api::{Calls as _, NodeCalls as _, Request, Sharing, Vitals};
use nook_base::{ModelDigest, clock};
use nook_control::{Client, ClientError};

use crate::plan::NodePlan;
use crate::process::{Signal, Throttle, children, lives, signal, starve};
use crate::program::nook;
use crate::secrets::files_below;

/// Longest wait for anything that a node is to show; a busy machine of two cores needs a part of
/// it.
const STATE_LIMIT: Duration = Duration::from_secs(180);

/// Longest wait for a node to end in order.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A running node. Dropping it ends the process and its workers at once.
#[derive(Debug)]
pub struct Node {
    plan: NodePlan,
    home: PathBuf,
    runtime: PathBuf,
    client: Client,
    child: Child,
    /// Workers that were seen, which a frozen node could not take with it.
    workers_seen: Vec<u32>,
    starts: u32,
}

impl Node {
    /// Starts a node with a home of its own below `folder`, and waits until it answers.
    pub(crate) async fn start(folder: &Path, plan: NodePlan) -> anyhow::Result<Self> {
        let home = folder.join(plan.name.replace(' ', "-").to_lowercase());
        fs::create_dir_all(&home)?;
        fs::create_dir_all(folder.join("temp"))?;
        fs::write(home.join("settings.toml"), plan.file())?;
        let runtime = nook_node::runtime_folder(Some(&home))?;
        let client = Client::new(nook_control::socket_name(&runtime));
        let child = spawn(&plan, &home, &runtime, 1)?;
        let mut node =
            Self { plan, home, runtime, client, child, workers_seen: Vec::new(), starts: 1 };
        node.until_it_answers().await?;
        Ok(node)
    }

    /// What its owner calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.plan.name
    }

    /// Its data folder.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Its folder of models, as its own process sees it: what only that process has mounted there
    /// is seen, too.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        let home = self.home.strip_prefix("/").unwrap_or(&self.home);
        let seen = root.join(home).join("models");
        // One that has ended sees nothing.
        if seen.is_dir() { seen } else { self.home.join("models") }
    }

    /// The disk of its own that [`NodePlan::with_disk_for_models`] gave it has only so many bytes
    /// left from now on.
    pub fn leave_room_for_models(&self, bytes: u64) -> anyhow::Result<()> {
        let folder = self.home.join("models");
        let words = ["df", "--output=used", "--block-size=1"];
        let said = self.beside_it(words.into_iter().map(OsStr::new).chain([folder.as_os_str()]))?;
        let used = said.lines().nth(1).context("df says what is used")?;
        let size = format!("remount,size={}", used.trim().parse::<u64>()? + bytes);
        let words = [OsStr::new("mount"), OsStr::new("-o"), OsStr::new(&size)];
        self.beside_it(words.into_iter().chain([folder.as_os_str()]))?;
        Ok(())
    }

    /// Runs a program that sees the disks that its process sees; what it printed.
    fn beside_it<'a>(&self, words: impl Iterator<Item = &'a OsStr>) -> anyhow::Result<String> {
        let pid = self.child.id().to_string();
        let words: Vec<&OsStr> = words.collect();
        let run = |more: &[&str]| {
            let mut command = Command::new("nsenter");
            command.args(["--target", &pid, "--mount"]).args(more).args(&words).output()
        };
        let mut ran = run(&[])?;
        if !ran.status.success() {
            // It lives in a user namespace then, as its network does.
            ran = run(&["--user", "--preserve-credentials"])?;
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        anyhow::ensure!(ran.status.success(), "{words:?}: {}", said.trim());
        Ok(String::from_utf8(ran.stdout)?)
    }

    /// Files below `folder`, by the end of their names, that its processes have open, those that
    /// are deleted included.
    #[must_use]
    pub fn open_below(&self, folder: &str) -> Vec<PathBuf> {
        let processes = [vec![self.child.id()], self.workers()].concat();
        let opened =
            processes.into_iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
        let files = opened.flatten().flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let below = format!("/{folder}/");
        files.filter(|file| file.to_string_lossy().contains(&below)).collect()
    }

    /// Where its sockets lie.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its owner's door.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where it takes links, from this machine or at the bridge.
    pub async fn listens_at(&self) -> anyhow::Result<SocketAddr> {
        Ok((self.plan.address, self.view().await?.me.listen_port).into())
    }

    /// The file of its built-in model, and its digest.
    pub async fn built_in(&self) -> anyhow::Result<(PathBuf, ModelDigest)> {
        let model = self.view().await?.models.into_iter().next().context("it has a model")?;
        let mut files = files_below(self.home())?.into_iter().map(|(path, _)| path);
        let file = files.find(|path| path.extension().is_some_and(|end| end == "gguf"));
        Ok((file.context("the built-in model lies in the home")?, model.digest.parse()?))
    }

    /// The bytes of the built-in model under another name, which makes it another model with the
    /// same answers.
    pub async fn renamed_built_in(&self) -> anyhow::Result<Vec<u8>> {
        let (file, _) = self.built_in().await?;
        let mut bytes = fs::read(file)?;
        let key = b"general.name";
        let at = bytes.windows(key.len()).position(|it| it == key).context("it has a name")?;
        // Behind the key: the kind of the value, its length, its first letter.
        let letter = bytes.get_mut(at + key.len() + 4 + 8).context("its name has a letter")?;
        *letter = b'A';
        Ok(bytes)
    }

    /// Everything that it and its workers have logged, over all starts.
    #[must_use]
    pub fn log(&self) -> String {
        let logs = (1..=self.starts).map(|start| self.home.with_extension(format!("log{start}")));
        logs.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    /// The house as it sees it.
    pub async fn view(&self) -> anyhow::Result<HouseholdView> {
        Ok(self.client.view().await?)
    }

    /// How it divides replies.
    pub async fn pipeline(&self) -> anyhow::Result<PipelineView> {
        Ok(self.client.pipeline().await?)
    }

    /// What is under way there, counted.
    pub async fn vitals(&self) -> anyhow::Result<Vitals> {
        Ok(self.client.vitals().await?)
    }

    /// Waits until how it divides replies looks as wanted; fails with what it looks like.
    pub async fn until_pipeline(
        &self,
        what: &str,
        holds: impl Fn(&PipelineView) -> bool,
    ) -> anyhow::Result<PipelineView> {
        let end = clock::now() + STATE_LIMIT;
        loop {
            let view = self.pipeline().await?;
            if holds(&view) {
                return Ok(view);
            }
            if clock::now() >= end {
                bail!("{}: not so within {STATE_LIMIT:?}: {what}; {view:#?}", self.name());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until what is under way there looks as wanted; fails with what it looks like.
    pub async fn until_vitals(
        &self,
        what: &str,
        holds: impl Fn(&Vitals) -> bool,
    ) -> anyhow::Result<Vitals> {
        let end = clock::now() + STATE_LIMIT;
        loop {
            let vitals = self.vitals().await?;
            if holds(&vitals) {
                return Ok(vitals);
            }
            if clock::now() >= end {
                bail!("{}: not so within {STATE_LIMIT:?}: {what}; {vitals:#?}", self.name());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks for anything that is answered with `Done`.
    pub async fn do_this(&self, request: Request) -> Result<(), ClientError> {
        self.client.call(request).await.map(|_| ())
    }

    /// Waits until the house looks as wanted; fails with what it looks like.
    pub async fn until(
        &self,
        what: &str,
        holds: impl Fn(&HouseholdView) -> bool,
    ) -> anyhow::Result<HouseholdView> {
        let end = clock::now() + STATE_LIMIT;
        loop {
            let view = self.view().await?;
            if holds(&view) {
                return Ok(view);
            }
            if clock::now() >= end {
                bail!("{}: not so within {STATE_LIMIT:?}: {what}; {view:#?}", self.name());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sets how far it trusts the device called `other`.
    pub async fn trust(&self, other: &str, trust: Trust) -> anyhow::Result<()> {
        let device = other.to_owned();
        Ok(self.client.set_trust(device, trust).await?)
    }

    /// Starts or stops sharing.
    pub async fn share(&self, on: bool) -> anyhow::Result<()> {
        Ok(self.client.set_sharing(if on { Sharing::On } else { Sharing::Off }).await?)
    }

    /// Adds a model file; its name there.
    pub async fn import(&self, file: &Path, name: Option<&str>) -> anyhow::Result<String> {
        let name = name.map(str::to_owned);
        Ok(self.client.import_model(file.to_owned(), name).await?.name)
    }

    /// Changes a key of `settings.toml` behind the node's back, as an owner with an editor would.
    pub fn edit_settings(
        &self,
        key: &str,
        value: impl Into<toml_edit::Value>,
    ) -> anyhow::Result<()> {
        let path = self.home.join("settings.toml");
        let mut document: toml_edit::DocumentMut = fs::read_to_string(&path)?.parse()?;
        let mut place = document.as_item_mut();
        for part in key.split('.') {
            place = &mut place[part];
        }
        *place = toml_edit::value(value);
        let draft = path.with_extension("draft");
        fs::write(&draft, document.to_string())?;
        Ok(fs::rename(draft, path)?)
    }

    /// Its worker processes.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        children(self.child.id()).into_iter().filter(|pid| is_worker(*pid)).collect()
    }

    /// Its process that looks for devices, if one runs.
    #[must_use]
    pub fn discovery(&self) -> Option<u32> {
        children(self.child.id()).into_iter().find(|pid| lives(*pid) && has(*pid, b"--discovery"))
    }

    /// Waits until it has no worker process any more, and so none of their memory, and knows it.
    pub async fn until_no_worker(&self) -> anyhow::Result<()> {
        let end = clock::now() + STATE_LIMIT;
        while !self.workers().is_empty() || !self.vitals().await?.workers.is_empty() {
            if clock::now() >= end {
                bail!("{}: a worker is still there after {STATE_LIMIT:?}", self.name());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Sends a signal to the node process; its workers are told nothing.
    pub fn signal(&mut self, kind: Signal) {
        self.remember_workers();
        signal(self.child.id(), kind);
    }

    /// Sends a signal to its workers; how many there were.
    pub fn signal_workers(&mut self, kind: Signal) -> usize {
        self.remember_workers();
        let workers = self.workers();
        workers.iter().for_each(|pid| signal(*pid, kind));
        workers.len()
    }

    /// The system gives its workers no more memory from now on.
    pub fn starve_workers(&mut self) -> anyhow::Result<()> {
        self.remember_workers();
        self.workers().into_iter().try_for_each(starve)
    }

    /// Makes its workers about `factor` times slower, until what is returned is dropped.
    #[must_use]
    pub fn throttle_workers(&mut self, factor: u32) -> Throttle {
        self.remember_workers();
        Throttle::start(self.workers(), factor)
    }

    /// The same for those that it starts from now on, too: as on a slow machine.
    #[must_use]
    pub fn throttle_all_workers(&self, factor: u32) -> Throttle {
        Throttle::of_children(self.child.id(), factor)
    }

    /// Asks it to leave in order, and waits for its end.
    pub async fn leave(&mut self) -> anyhow::Result<()> {
        // The node may close the door before it has answered.
        let _ = self.client.shut_down().await;
        self.until_it_ended().await
    }

    /// Waits until its process has ended.
    pub async fn until_it_ended(&mut self) -> anyhow::Result<()> {
        let end = clock::now() + LEAVE_LIMIT;
        while self.child.try_wait()?.is_none() {
            if clock::now() >= end {
                bail!("{} did not end within {LEAVE_LIMIT:?}", self.name());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Starts it again on the same home after its process has ended.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.starts += 1;
        self.child = spawn(&self.plan, &self.home, &self.runtime, self.starts)?;
        self.until_it_answers().await
    }

    /// Whether its process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    async fn until_it_answers(&mut self) -> anyhow::Result<()> {
        let end = clock::now() + STATE_LIMIT;
        while !self.client.is_running().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("the node {} ended at its start ({status}):\n{}", self.name(), self.log());
            }
            if clock::now() >= end {
                bail!("the node {} did not answer:\n{}", self.name(), self.log());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn remember_workers(&mut self) {
        let workers = self.workers();
        self.workers_seen.extend(workers);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.remember_workers();
        // A child that has ended and was waited for has no process to signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let orphans = self.workers_seen.iter().filter(|pid| is_worker(**pid));
        orphans.for_each(|pid| signal(*pid, Signal::Kill));
        // What a killed node leaves behind; gone already when it left in order.
        let _ = fs::remove_dir_all(&self.runtime);
    }
}

/// Process numbers come back, and a node has processes for what strangers wrote and for discovery
/// as well.
fn is_worker(pid: u32) -> bool {
    lives(pid) && has(pid, b"worker") && !has(pid, b"--sandbox") && !has(pid, b"--discovery")
}

/// Whether a process was started with the word `wanted`.
fn has(pid: u32, wanted: &[u8]) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == wanted)
}

/// Words that make a program end with the test program, should that be killed; none where the
/// system has no such tool.
pub(crate) fn leash() -> impl Iterator<Item = OsString> {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    let is_there = IS_THERE.get_or_init(|| {
        let look = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status();
        cfg!(target_os = "linux") && look.is_ok_and(|status| status.success())
    });
    let words: &[&str] = if *is_there { &["setpriv", "--pdeathsig", "KILL"] } else { &[] };
    words.iter().map(OsString::from)
}

fn spawn(plan: &NodePlan, home: &Path, runtime: &Path, start: u32) -> anyhow::Result<Child> {
    let log = fs::File::create(home.with_extension(format!("log{start}")))?;
    let mut words = plan.prefix.iter().cloned().chain(leash()).chain([nook()?.into()]);
    let mut command = Command::new(words.next().context("there is at least the program")?);
    command.args(words).arg("--home").arg(home).arg("up");
    if !plan.port {
        command.arg("--no-port");
    }
    // The keychain holds one identity a user; these nodes are several, so each keeps a file.
    command.env("INGLENOOK_KEYRING", "off").env("INGLENOOK_LOG", plan.log);
    command.env_remove("INGLENOOK_HOME").env("NO_COLOR", "1");
    // The desktop of whoever runs the tests is not asked to stay awake.
    command.env_remove("DBUS_SESSION_BUS_ADDRESS");
    // Temporary files of the node can be looked through; sockets stay where the owner looks for
    // them.
    let temp = home.parent().context("a home lies in the household's folder")?.join("temp");
    command.env("TMPDIR", temp);
    command.env("XDG_RUNTIME_DIR", runtime.parent().context("sockets lie in a folder")?);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().with_context(|| format!("cannot start the node {}", plan.name))
}
