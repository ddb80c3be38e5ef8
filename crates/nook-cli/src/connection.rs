//! The way to a node: the one that runs for this home, or one started for this command.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeHandle;
use nook_control::Client;
use nook_node::NodeOptions;

use crate::endings::Failure;

/// Longest that leaving may take once the command is done.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// A way to a node, and the node itself when this command started it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    own: Option<NodeHandle>,
}

impl Connection {
    /// Connects to the running node of `home`, or starts one that lives as long as this command.
    pub(crate) async fn open(home: Option<PathBuf>) -> anyhow::Result<Self> {
        let client = client(home.as_ref())?;
        if client.is_running().await {
            return Ok(Self { client, own: None });
        }
        let house = start(home).await?;
        let socket = nook_control::socket_name(house.runtime_folder());
        nook_control::serve(house.clone(), &socket, house.tasks())?;
        Ok(Self { client: Client::new(socket), own: Some(house) })
    }

    /// Connects to the running node of `home`; fails with what to do when none runs.
    pub(crate) async fn running(home: Option<PathBuf>) -> anyhow::Result<Self> {
        let client = client(home.as_ref())?;
        anyhow::ensure!(client.is_running().await, Failure::NoNode);
        Ok(Self { client, own: None })
    }

    /// Whether the node was started by this command.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Leaves in order: a node started here ends.
    pub(crate) async fn close(self) {
        if let Some(house) = self.own {
            // Past the limit the process ends anyway, and the workers with it.
            let _ = tokio::time::timeout(LEAVE_LIMIT, house.shut_down()).await;
        }
    }
}

/// Starts a node in this process.
pub(crate) async fn start(home: Option<PathBuf>) -> anyhow::Result<NodeHandle> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let worker = nook_node::WorkerCommand { program, arguments: vec!["worker".into()] };
    Ok(nook_node::start(NodeOptions { home, worker }).await?)
}

/// A client of the node of `home`, which may not be running.
pub(crate) fn client(home: Option<&PathBuf>) -> anyhow::Result<Client> {
    let runtime = nook_node::runtime_folder(home.map(PathBuf::as_path))?;
    Ok(Client::new(nook_control::socket_name(&runtime)))
}
