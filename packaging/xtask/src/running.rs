//! Programs that run while something else is done.

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Longest wait for a node, under wine on a busy machine.
const UP_LIMIT: Duration = Duration::from_secs(120);

/// A program that is ended with this.
pub(crate) struct Holder(pub(crate) Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a node that was started with a pipe says that it is up.
pub(crate) fn until_it_is_up(node: &mut Child) -> Result<()> {
    let said = node.stdout.take().context("it was started with a pipe")?;
    let (tell, told) = mpsc::sync_channel(1);
    // It reads to the end: a node would end at the next line that nobody reads.
    std::thread::spawn(move || {
        let lines = BufReader::new(said).lines().map_while(Result::ok);
        for line in lines {
            if line.contains(" is up") {
                // Whoever waited may have had enough.
                let _ = tell.try_send(());
            }
        }
    });
    told.recv_timeout(UP_LIMIT).context("no node is up")
}
