//! The household of the soak: who asks, who lends, and who is left in peace.

use std::time::Duration;

use anyhow::bail;
use nook_api::views::{HouseholdView, Trust};
use nook_base::clock;
use nook_control::Client;
use nook_testkit::{CpuShare, Household, Node, NodePlan, Throttle};
use nook_tests::models;
use nook_tests::report::loud;

use crate::witness::Witness;

/// Nodes that ask.
const ASKING: [&str; 2] = ["Kitchen laptop", "Sofa tablet"];

/// Nodes that lend, and which layers of the built-in model.
const LENDING: [(&str, &str); 3] = [("Study PC", "1-2"), ("Attic PC", "3-4"), ("Den PC", "1-4")];

/// The node that answers alone and is never disturbed.
const REFERENCE: &str = "Porch laptop";

/// The model that everybody has.
const BUILT_IN: &str = "ember";

/// The larger one that only those have who ask, where nothing is set.
const LARGE: &str = "household";

/// What each device has of this machine's cores then, all together less than two: those that ask
/// so little that help pays. In a house nobody takes another's.
const CORES_ASKING: f64 = 0.15;
const CORES_LENDING: f64 = 0.4;
const CORES_REFERENCE: f64 = 0.3;

/// How much slower those that ask are made where cores cannot be shared out.
const SLOWER: u32 = 3;

/// Idle seconds after which a worker frees all it holds: so few that a census need not wait long.
const IDLE_SECONDS: &str = "3";

/// One thread for each worker, as five of them share this machine.
const ONE_THREAD: [&str; 2] = ["env", "INGLENOOK_THREADS=1"];

/// Longest wait for all to know and to lend again.
const WHOLE_LIMIT: Duration = Duration::from_secs(90);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The household.
pub(crate) struct House {
    nodes: Household,
    model: &'static str,
    /// What makes those slow that ask, where cores cannot be shared out.
    _slow: Vec<Throttle>,
    /// What each has of the machine; dropped after the nodes.
    shares: Vec<CpuShare>,
}

impl House {
    /// Starts the nodes, pairs those that ask with those that lend, and waits until all are
    /// offered.
    pub(crate) async fn start(as_installed: bool) -> anyhow::Result<Self> {
        let shares = if as_installed { shares() } else { Vec::new() };
        let nodes = Household::strangers(plans(as_installed, &shares)).await?;
        let mut house = Self { nodes, model: BUILT_IN, _slow: Vec::new(), shares };
        if as_installed {
            house.model = LARGE;
            let file = house.nodes.folder().join("household.gguf");
            models::household().write(&file)?;
            for at in (0..ASKING.len()).chain([house.reference_at()]) {
                house.nodes.node(at).import(&file, Some(LARGE)).await?;
            }
            if !house.has_shares() {
                let slow = |at| house.nodes.node(at).throttle_all_workers(SLOWER);
                house._slow = (0..ASKING.len()).map(slow).collect();
            }
        }
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
        self.nodes.node(self.reference_at()).client().clone()
    }

    fn reference_at(&self) -> usize {
        ASKING.len() + LENDING.len()
    }

    /// Whether nodes keep layers and conversations for longer than a census waits.
    pub(crate) fn keeps(&self) -> bool {
        self.model == LARGE
    }

    /// Whether each device has a share of the machine of its own, so that speeds say something.
    pub(crate) fn has_shares(&self) -> bool {
        !self.shares.is_empty()
    }

    /// What looks at the machine and at the share of each device.
    pub(crate) fn witness(&self) -> Witness {
        let name = |at| self.nodes.node(at).name().to_owned();
        let meter = |(at, share): (usize, &CpuShare)| (name(at), share.meter());
        Witness::of(self.shares.iter().enumerate().map(meter).collect())
    }

    /// The model that answers.
    pub(crate) fn model(&self) -> &'static str {
        self.model
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

/// One for each node, in order; none where this process may not share out cores.
fn shares() -> Vec<CpuShare> {
    let asking = [CORES_ASKING].repeat(ASKING.len());
    let lending = [CORES_LENDING].repeat(LENDING.len());
    let all = asking.into_iter().chain(lending).chain([CORES_REFERENCE]);
    all.map(CpuShare::of).collect::<Result<_, _>>().unwrap_or_else(|error| {
        loud(&format!("devices slow each other down: {error:#}"));
        Vec::new()
    })
}

fn plans(as_installed: bool, shares: &[CpuShare]) -> Vec<NodePlan> {
    let one_thread = || ONE_THREAD.map(Into::into).to_vec();
    let lending = LENDING.iter();
    if as_installed {
        let names = ASKING.into_iter().chain(lending.map(|(name, _)| *name)).chain([REFERENCE]);
        let plan = |(at, name)| {
            let mut prefix = shares.get(at).map(CpuShare::prefix).unwrap_or_default();
            prefix.extend(one_thread());
            NodePlan::installed(name).behind(prefix)
        };
        return names.enumerate().map(plan).collect();
    }
    let idle = "distributed_inference.host.shard_eviction_idle_seconds";
    let plan = |name| NodePlan::new(name).with(idle, IDLE_SECONDS).behind(one_thread());
    let lending = lending.map(|(name, layers)| plan(name).offering(layers));
    ASKING.into_iter().map(plan).chain(lending).chain([plan(REFERENCE)]).collect()
}

fn lends(view: &HouseholdView, name: &str) -> bool {
    view.devices.iter().any(|device| {
        device.name == name
            && device.connected
            && device.lends.iter().any(|lend| lend.model == BUILT_IN)
    })
}
