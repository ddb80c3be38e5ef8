//! Several nodes that know each other.

use std::path::Path;

use anyhow::Context as _;
use nook_api::views::{DeviceView, HouseholdView, Trust};
use nook_api::{NodeCalls as _, PairTarget};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::bridge::Bridge;
use crate::fixtures::say;
use crate::node::Node;
use crate::plan::NodePlan;

/// A household on this machine. Dropping it ends everything and removes the homes.
#[derive(Debug)]
pub struct Household {
    // Fields are dropped in this order: the nodes end before their network and their homes go.
    nodes: Vec<Node>,
    bridge: Option<Bridge>,
    folder: tempfile::TempDir,
}

impl Household {
    /// Starts the nodes; nobody knows anybody yet.
    pub async fn strangers(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        Self::start(plans, None).await
    }

    /// The same with each node on a machine of its own: a network namespace on a bridge. Where the
    /// system does not allow that, all are on this machine, and standard error says so.
    ///
    /// No socket of the test reaches them; for that there is [`Household::apart_with_test`].
    pub async fn apart(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        let plans: Vec<_> = plans.into_iter().collect();
        Self::on(Bridge::build(plans.len()), plans).await
    }

    /// The same, and the test is one more machine on that network until the household is dropped.
    /// Only its own thread is, so its runtime must have no others.
    pub async fn apart_with_test(
        plans: impl IntoIterator<Item = NodePlan>,
    ) -> anyhow::Result<Self> {
        let flavor = Handle::current().runtime_flavor();
        anyhow::ensure!(flavor == RuntimeFlavor::CurrentThread, "tasks have threads elsewhere");
        let plans: Vec<_> = plans.into_iter().collect();
        Self::on(Bridge::build(plans.len()).and_then(Bridge::visit), plans).await
    }

    /// Starts the nodes and pairs the first with each other one, which then shares.
    pub async fn paired(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        let house = Self::strangers(plans).await?;
        house.pair_all().await?;
        Ok(house)
    }

    /// As [`Household::paired`], and every helper offers layers of the built-in model.
    pub async fn sharing(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        Self::strangers(plans).await?.all_share().await
    }

    /// Makes of nodes that are strangers so far what [`Household::sharing`] is.
    pub async fn all_share(self) -> anyhow::Result<Self> {
        self.pair_all().await?;
        self.until_all_lend("ember").await?;
        Ok(self)
    }

    /// One more node on this machine.
    pub async fn add(&mut self, plan: NodePlan) -> anyhow::Result<()> {
        let node = Node::start(self.folder.path(), plan).await?;
        self.nodes.push(node);
        Ok(())
    }

    /// The node that asks.
    #[must_use]
    pub fn asking(&self) -> &Node {
        self.node(0)
    }

    /// A node, in the order in which they were started.
    #[must_use]
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// All nodes, in the order in which they were started.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node, to do something to it.
    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// What connects the nodes, where each has a machine of its own.
    #[must_use]
    pub fn bridge(&self) -> Option<&Bridge> {
        self.bridge.as_ref()
    }

    /// Where all homes and logs are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Imports a model file everywhere; its name.
    pub async fn import(&self, file: &Path, name: Option<&str>) -> anyhow::Result<String> {
        let mut known = None;
        for node in &self.nodes {
            known = Some(node.import(file, name).await?);
        }
        known.context("a household has nodes")
    }

    /// Pairs two nodes by a typed address and the code, and sets how far each trusts the other.
    pub async fn pair(&self, one: usize, other: usize, trust: Trust) -> anyhow::Result<()> {
        let (one, other) = (self.node(one), self.node(other));
        let window = other.client().show_code().await?;
        let address = window.addresses.last().context("a code comes with an address")?;
        let target = PairTarget::Address(address.clone());
        one.client().join(target, window.code.into()).await?;
        // The side that showed the code has stored the other before the answer came.
        one.trust(other.name(), trust).await?;
        other.trust(one.name(), trust).await
    }

    /// Pairs two nodes that see each other by mDNS, and sets how far each trusts the other.
    pub async fn pair_seen(&self, one: usize, other: usize, trust: Trust) -> anyhow::Result<()> {
        let (one, other) = (self.node(one), self.node(other));
        let window = other.client().show_code().await?;
        let is_it = |device: &DeviceView| device.pairing && device.name == other.name();
        let what = format!("{} shows a code", other.name());
        let view = one.until(&what, |view| view.devices.iter().any(is_it)).await?;
        let seen = view.devices.into_iter().find(is_it).context("it was there just now")?;
        let target = PairTarget::Seen(seen.id);
        one.client().join(target, window.code.into()).await?;
        one.trust(other.name(), trust).await?;
        other.trust(one.name(), trust).await
    }

    /// Waits until every helper is connected and offers layers of `model`.
    pub async fn until_all_lend(&self, model: &str) -> anyhow::Result<HouseholdView> {
        let names: Vec<_> = self.nodes.iter().skip(1).map(Node::name).collect();
        let what = format!("{} lend {model}", names.join(", "));
        self.asking().until(&what, |view| names.iter().all(|name| lends(view, name, model))).await
    }

    async fn on(bridge: anyhow::Result<Bridge>, plans: Vec<NodePlan>) -> anyhow::Result<Self> {
        let bridge = match bridge {
            Ok(bridge) => bridge,
            Err(why) => {
                on_loopback(&format!("{why:#}"));
                return Self::strangers(plans).await;
            }
        };
        let rooms = plans.into_iter().enumerate();
        let plans: anyhow::Result<Vec<_>> =
            rooms.map(|(room, plan)| plan.in_room(&bridge, room)).collect();
        Self::start(plans?, Some(bridge)).await
    }

    async fn start(
        plans: impl IntoIterator<Item = NodePlan>,
        bridge: Option<Bridge>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-test-").tempdir()?;
        let mut house = Self { nodes: Vec::new(), bridge, folder };
        for plan in plans {
            house.add(plan).await?;
        }
        Ok(house)
    }

    async fn pair_all(&self) -> anyhow::Result<()> {
        for helper in 1..self.nodes.len() {
            self.pair(0, helper, Trust::Trusted).await?;
            self.node(helper).share(true).await?;
        }
        Ok(())
    }
}

/// Says that the devices of a test, which were to be machines of their own, are all on this one.
fn on_loopback(because: &str) {
    // The harness names the thread of a test after it, but not where the test is alone in its
    // process.
    let named = nook_base::env::text("NEXTEST_TEST_NAME");
    let thread = std::thread::current();
    let test = named.as_deref().or(thread.name()).unwrap_or("a test");
    say(&format!("ON LOOPBACK ({because}): {test}"));
}

fn lends(view: &HouseholdView, name: &str, model: &str) -> bool {
    view.devices.iter().any(|device| {
        device.name == name
            && device.connected
            && device.lends.iter().any(|lend| lend.model == model)
    })
}
