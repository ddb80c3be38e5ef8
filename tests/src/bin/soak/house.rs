//! The household of the soak: who asks, who lends, and who is left in peace.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::bail;
use nook_api::views::{HouseholdView, Trust};
use nook_base::clock;
use nook_control::Client;
use nook_testkit::{Household, Node, NodePlan};

/// Nodes that ask.
const ASKING: [&str; 2] = ["Kitchen laptop", "Sofa tablet"];

/// Nodes that lend, and which layers of the built-in model.
const LENDING: [(&str, &str); 3] = [("Study PC", "1-2"), ("Attic PC", "3-4"), ("Den PC", "1-4")];

/// The node that answers alone and is never disturbed.
const REFERENCE: &str = "Porch laptop";

/// The model that everybody has.
const MODEL: &str = "ember";

/// Idle seconds after which a worker frees all it holds: so few that a census need not wait long.
const IDLE_SECONDS: &str = "3";

/// One thread for each worker, as five of them share this machine.
const ENVIRONMENT: [&str; 1] = ["INGLENOOK_THREADS=1"];

/// Longest wait for all to know and to lend again.
const WHOLE_LIMIT: Duration = Duration::from_secs(90);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The household.
pub(crate) struct House {
    nodes: Household,
}

impl House {
    /// Starts the nodes, pairs those that ask with those that lend, and waits until all are
    /// offered.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let plans = plans();
        let house = Self { nodes: Household::strangers(plans).await? };
        for host in house.hosts() {
            for asking in 0..ASKING.len() {
                house.nodes.pair(asking, host, Trust::Trusted).await?;
            }
            house.nodes.node(host).share(true).await?;
        }
        house.until_whole().await?;
        Ok(house)
    }

    /// The doors of the nodes that ask.
    pub(crate) fn asking(&self) -> Vec<Client> {
        (0..ASKING.len()).map(|at| self.nodes.node(at).client().clone()).collect()
    }

    /// The door of the node that answers alone.
    pub(crate) fn reference(&self) -> Client {
        self.nodes.node(ASKING.len() + LENDING.len()).client().clone()
    }

    /// Numbers of the nodes that lend.
    pub(crate) fn hosts(&self) -> std::ops::Range<usize> {
        ASKING.len()..ASKING.len() + LENDING.len()
    }

    /// Whether a lending node's process is to live through everything, so that it can be seen to
    /// grow.
    pub(crate) fn is_to_stay(&self, host: usize) -> bool {
        host == ASKING.len()
    }

    /// All that is looked at: those that ask and those that lend.
    pub(crate) fn members(&self) -> Vec<&Node> {
        (0..ASKING.len() + LENDING.len()).map(|at| self.nodes.node(at)).collect()
    }

    /// A node, to do something to it.
    pub(crate) fn node_mut(&mut self, at: usize) -> &mut Node {
        self.nodes.node_mut(at)
    }

    /// Waits until every asking node is connected with every lending one and sees its offer.
    pub(crate) async fn until_whole(&self) -> anyhow::Result<()> {
        let end = clock::now() + WHOLE_LIMIT;
        for at in 0..ASKING.len() {
            let node = self.nodes.node(at);
            loop {
                let view = node.view().await?;
                let missing: Vec<_> =
                    LENDING.iter().map(|(name, _)| *name).filter(|it| !lends(&view, it)).collect();
                if missing.is_empty() {
                    break;
                }
                if clock::now() >= end {
                    bail!("{} sees no offer of {}", node.name(), missing.join(", "));
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Lines of the logs that tell of a panic: there must be none.
    pub(crate) fn panics(&self) -> Vec<String> {
        let told = |node: &Node| {
            let log = node.log();
            let lines = log.lines().filter(|line| line.contains("panicked at"));
            lines.map(|line| format!("{}: {line}", node.name())).collect::<Vec<_>>()
        };
        self.members().into_iter().flat_map(told).collect()
    }
}

fn plans() -> Vec<NodePlan> {
    let lending = LENDING.iter().map(|(name, layers)| plan(name).offering(layers));
    ASKING.into_iter().map(plan).chain(lending).chain([plan(REFERENCE)]).collect()
}

fn plan(name: &'static str) -> NodePlan {
    let idle = "distributed_inference.host.shard_eviction_idle_seconds";
    let prefix = ["env"].iter().chain(&ENVIRONMENT).map(OsString::from).collect();
    NodePlan::new(name).with(idle, IDLE_SECONDS).behind(prefix)
}

fn lends(view: &HouseholdView, name: &str) -> bool {
    view.devices.iter().any(|device| {
        device.name == name
            && device.connected
            && device.lends.iter().any(|lend| lend.model == MODEL)
    })
}
