//! Starts the house with front ends that it has beside the window: the local port and the owner's
//! control socket, through which `nook` in a terminal reaches this same node.

use nook_api::NodeHandle;
use nook_node::{NodeOptions, StartError, WorkerCommand};
use nook_update::RunningProgram;

use crate::start_again;

/// Starts everything. A door that does not open is a problem to show, not a reason to have no
/// house.
pub(crate) async fn start(own: &RunningProgram) -> Result<NodeHandle, StartError> {
    let worker = WorkerCommand { program: own.file().to_owned(), arguments: vec!["worker".into()] };
    let house = nook_node::start(NodeOptions { home: None, worker }).await?;
    let socket = nook_control::socket_name(house.runtime_folder());
    if let Err(error) = nook_control::serve(house.clone(), &socket, house.tasks()) {
        tracing::warn!(%error, "`nook` in a terminal cannot reach this node");
    }
    nook_openai::open(house.clone()).await;
    // Elsewhere a window system does not outlive that, and a second program would find this one.
    let again = start_again::in_the_tray(own);
    match cfg!(target_os = "linux") {
        true => house.restart().can_be_ordered(again),
        false => house.restart().was_started_as(again),
    }
    Ok(house)
}
