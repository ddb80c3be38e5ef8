//! What every node takes once nothing is asked of it: before the trouble, and after.
//!
//! A census waits until nothing is under way and until the workers have freed what they hold idle,
//! so that what is left is left over. Counts that are above those of an earlier census are waited
//! for too, because a link that was lost a moment ago still has its tasks; only what stays is a
//! leak.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nook_api::Vitals;
use nook_base::clock;
use nook_testkit::{Footprint, Node};
use serde::Serialize;

use crate::house::House;

/// Longest wait for a node to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// How often a node is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// All nodes, in the order of the house.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Census {
    pub(crate) nodes: Vec<Taken>,
}

/// What one node takes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Taken {
    pub(crate) name: &'static str,
    pub(crate) vitals: Vitals,
    /// The node's own process, and that of each of its workers.
    pub(crate) process: Footprint,
    pub(crate) workers: Vec<Footprint>,
    /// Sockets and temporary files of this node.
    pub(crate) files: usize,
    /// What had not come to rest.
    pub(crate) unrest: Vec<String>,
}

impl Census {
    /// Looks at all nodes. With an `earlier` census, waits for counts to come down to its.
    pub(crate) async fn take(house: &House, earlier: Option<&Self>) -> anyhow::Result<Self> {
        house.until_whole().await?;
        let end = clock::now() + REST_LIMIT;
        let mut nodes = Vec::new();
        for (at, node) in house.members().into_iter().enumerate() {
            let earlier = earlier.and_then(|census| census.nodes.get(at));
            nodes.push(at_rest(node, house.keeps(), earlier, end).await?);
        }
        Ok(Self { nodes })
    }
}

/// Looks at a node until it rests, or until `end`.
async fn at_rest(
    node: &Node,
    keeps: bool,
    earlier: Option<&Taken>,
    end: Instant,
) -> anyhow::Result<Taken> {
    loop {
        let taken = Taken::of(node, keeps, earlier).await?;
        if taken.unrest.is_empty() || clock::now() >= end {
            return Ok(taken);
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Taken {
    async fn of(node: &Node, keeps: bool, earlier: Option<&Self>) -> anyhow::Result<Self> {
        let vitals = node.vitals().await?;
        let process = Footprint::of(node.pid())
            .ok_or_else(|| anyhow::anyhow!("{} has no process to look at", node.name()))?;
        let workers: Vec<_> = node.workers().into_iter().filter_map(Footprint::of).collect();
        let mut taken = Self {
            name: node.name(),
            process,
            workers,
            files: entries(node.runtime()),
            vitals,
            unrest: Vec::new(),
        };
        taken.unrest = taken.unrest(keeps, earlier);
        Ok(taken)
    }

    /// What is under way although nothing is asked, and what is more than it was. A node that
    /// `keeps` what it may need again has that besides, and measures and places layers meanwhile.
    fn unrest(&self, keeps: bool, earlier: Option<&Self>) -> Vec<String> {
        let mut found = Vec::new();
        let mut none = |what: &str, count: u64| {
            if count > 0 {
                found.push(format!("{}: {count} {what}", self.name));
            }
        };
        none("replies under way", self.vitals.replies as u64);
        none("replies waiting", self.vitals.replies_waiting as u64);
        if keeps {
            return found;
        }
        none("streams lent", self.vitals.streams.into());
        for worker in &self.vitals.workers {
            none("conversations in a worker", worker.sessions.into());
            none("bytes of caches in a worker", worker.cache_bytes);
            none("conversations kept idle", worker.parked.into());
            none("bytes of weights kept idle", worker.weight_bytes);
        }
        let Some(earlier) = earlier else { return found };
        let mut same = |what: &str, now: usize, before: usize| {
            if now > before {
                found.push(format!("{}: {now} {what}, {before} before", self.name));
            }
        };
        same("tasks", self.vitals.tasks, earlier.vitals.tasks);
        same("open files", self.process.files, earlier.process.files);
        same("files left lying", self.files, earlier.files);
        same("workers", self.workers.len(), earlier.workers.len().max(1));
        let most = |taken: &Self| taken.workers.iter().map(|worker| worker.files).max();
        if let (Some(now), Some(before)) = (most(self), most(earlier)) {
            same("open files of a worker", now, before);
        }
        found
    }
}

/// Entries of a folder; one that is not there has none.
fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}
