//! Starts the house with front ends that it has beside the window: the local port and the owner's
//! control socket, through which `nook` in a terminal reaches this same node.

use std::io;

use nook_api::NodeHandle;
use nook_api::views::Wording;
use nook_node::{NodeOptions, StartError, WorkerCommand};

/// Why there is no house.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HouseStartError {
    /// The worker is this program started again, so its file must be known.
    #[error("this program's own file cannot be found: {0}")]
    OwnFile(#[source] io::Error),
    /// The node itself did not start.
    #[error(transparent)]
    Node(#[from] StartError),
}

impl HouseStartError {
    /// The same for the window's catalogues.
    pub(crate) fn wording(&self) -> Wording {
        match self {
            Self::OwnFile(_) => Wording::NotStarted { reason: self.to_string().into() },
            Self::Node(error) => error.wording(),
        }
    }
}

/// Starts everything. A door that does not open is a problem to show, not a reason to have no
/// house.
pub(crate) async fn start() -> Result<NodeHandle, HouseStartError> {
    let program = std::env::current_exe().map_err(HouseStartError::OwnFile)?;
    let worker = WorkerCommand { program, arguments: vec!["worker".into()] };
    let house = nook_node::start(NodeOptions { home: None, worker }).await?;
    let socket = nook_control::socket_name(house.runtime_folder());
    if let Err(error) = nook_control::serve(house.clone(), &socket, house.tasks()) {
        tracing::warn!(%error, "`nook` in a terminal cannot reach this node");
    }
    nook_openai::open(house.clone()).await;
    Ok(house)
}
