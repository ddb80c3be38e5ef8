//! One node of the household: a process of its own with its own home.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::NodeCalls as _;
use nook_base::{Backend, LayerRange, clock};
use nook_control::Client;
use tokio::process::{Child, Command};

/// Longest wait for a node to answer after it was started.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait for a node to leave in order before it is killed.
const LEAVE_LIMIT: Duration = Duration::from_secs(6);

/// How often a starting node is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A running node.
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    child: Child,
    /// The folder of its sockets, which a killed node leaves behind.
    runtime: PathBuf,
}

impl Member {
    /// Starts a node in a home of its own below `folder`.
    pub(crate) async fn start(
        folder: &Path,
        name: &'static str,
        (offers, backend): (Option<LayerRange>, Backend),
    ) -> anyhow::Result<Self> {
        let home = folder.join(name.replace(' ', "-").to_lowercase());
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("settings.toml"), settings(name, offers, backend))?;
        let log = std::fs::File::create(home.join("log.txt"))?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).args(["up", "--no-port"]);
        // The keychain holds one identity a user; these nodes are several, so each keeps a file.
        command.env("INGLENOOK_KEYRING", "off");
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        command.stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start a node")?;
        let runtime = nook_node::runtime_folder(Some(&home))?;
        let client = Client::new(nook_control::socket_name(&runtime));
        let end = clock::now() + START_LIMIT;
        while !client.is_running().await {
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(home.join("log.txt")).unwrap_or_default();
                bail!("the node {name} ended at its start ({status}):\n{log}");
            }
            if clock::now() >= end {
                bail!("the node {name} did not answer within {} s", START_LIMIT.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Self { name, client, child, runtime })
    }

    /// Ends the node at once, as a power cut would.
    pub(crate) fn kill(&self) {
        self.signal("KILL");
    }

    /// Stops the node without ending it, as a closed lid would.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// Leaves in order, or is killed.
    pub(crate) async fn leave(mut self) {
        // A frozen node neither answers nor leaves; waking one that was not frozen does nothing.
        self.signal("CONT");
        let asked = self.client.shut_down();
        // Whatever goes wrong here, the kill below comes.
        let _ = tokio::time::timeout(LEAVE_LIMIT, asked).await;
        let _ = tokio::time::timeout(LEAVE_LIMIT, self.child.wait()).await;
        let _ = self.child.kill().await;
        // Gone already when the node left in order.
        let _ = std::fs::remove_dir_all(&self.runtime);
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let Some(pid) = self.child.id() else { return };
        let status = std::process::Command::new("kill")
            .args([format!("-{name}"), pid.to_string()])
            .stderr(std::process::Stdio::null())
            .status();
        if let Err(error) = status {
            tracing::warn!(%error, "cannot signal {}", self.name);
        }
    }

    /// Windows has no signals: a kill ends the process, a freeze is not to be had.
    #[cfg(not(unix))]
    fn signal(&self, name: &str) {
        if name == "KILL"
            && let Some(pid) = self.child.id()
        {
            // What it says must not stand beside the answer on standard output.
            let status = std::process::Command::new("taskkill")
                .args(["/F", "/PID", &pid.to_string()])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status();
            if let Err(error) = status {
                tracing::warn!(%error, "cannot end {}", self.name);
            }
        }
    }
}

fn settings(name: &str, offers: Option<LayerRange>, backend: Backend) -> String {
    let offers = offers.map_or_else(String::new, |layers| {
        format!("[distributed_inference.host]\nlayers = \"{layers}\"\n\n")
    });
    // Who tries it out does so on battery too, and with the terminal in full screen.
    let pause = "[distributed_inference.host.pause]\non_battery = false\nin_full_screen = false\n";
    format!(
        "[device]\nname = \"{name}\"\n\n[network]\nlisten_port = 0\nloopback = true\n\n\
         [distributed_inference]\npooling = \"always\"\nbackend = \"{backend}\"\n\n{offers}{pause}"
    )
}
