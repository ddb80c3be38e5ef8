//! `nook down`: the node that runs for this data folder leaves in order, in whichever program it is.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeCalls as _;
use nook_control::ClientError;

use crate::connection::Connection;
use crate::output;

/// Longest wait for a node that was asked to leave: its own limits are shorter.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked whether it has gone.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the node to leave and returns once it answers no more. Its process ends right after that.
pub(crate) async fn run(home: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let connection = Connection::running(home).await?;
    let left = async {
        // It may close the door before it has answered.
        if let Err(error @ ClientError::Refused(_)) = connection.client.shut_down().await {
            return Err(error);
        }
        while connection.client.is_running().await {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    tokio::time::timeout(LEAVE_LIMIT, left).await.context(
        "a node still answers, or does not answer at all: the old one is stuck, or something has started a \
         new one. End it where it was started",
    )??;
    output::line("The node has left.");
    Ok(ExitCode::SUCCESS)
}
