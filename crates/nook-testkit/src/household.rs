//! Several nodes that know each other.

use std::path::Path;

use anyhow::{Context as _, bail};
use nook_control::{Answer, DeviceTarget, Request};
use nook_node::views::{DeviceView, HouseView, Trust};

use crate::node::Node;
use crate::plan::NodePlan;

/// A household on this machine. Dropping it ends everything and removes the homes.
#[derive(Debug)]
pub struct Household {
    // Fields are dropped in this order: the nodes end before their homes go.
    nodes: Vec<Node>,
    folder: tempfile::TempDir,
}

impl Household {
    /// Starts the nodes; nobody knows anybody yet.
    pub async fn strangers(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-test-").tempdir()?;
        let mut house = Self { nodes: Vec::new(), folder };
        for plan in plans {
            house.add(plan).await?;
        }
        Ok(house)
    }

    /// Starts the nodes and pairs the first with each other one, which then shares.
    pub async fn paired(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        let house = Self::strangers(plans).await?;
        for helper in 1..house.nodes.len() {
            house.pair(0, helper, Trust::Trusted).await?;
            house.node(helper).share(true).await?;
        }
        Ok(house)
    }

    /// As [`Household::paired`], and every helper offers layers of the built-in model.
    pub async fn sharing(plans: impl IntoIterator<Item = NodePlan>) -> anyhow::Result<Self> {
        let house = Self::paired(plans).await?;
        house.until_all_lend("ember").await?;
        Ok(house)
    }

    /// One more node.
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

    /// A node, to do something to it.
    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
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
        let Answer::Pairing(window) = other.client().ask(Request::ShowCode).await? else {
            bail!("{} did not show a code", other.name());
        };
        let address = window.addresses.last().context("a code comes with an address")?;
        let target = DeviceTarget::Address(address.clone());
        one.do_this(Request::Join { target, code: window.code }).await?;
        // The side that showed the code has stored the other before the answer came.
        one.trust(other.name(), trust).await?;
        other.trust(one.name(), trust).await
    }

    /// Pairs two nodes that see each other by mDNS, and sets how far each trusts the other.
    pub async fn pair_seen(&self, one: usize, other: usize, trust: Trust) -> anyhow::Result<()> {
        let (one, other) = (self.node(one), self.node(other));
        let Answer::Pairing(window) = other.client().ask(Request::ShowCode).await? else {
            bail!("{} did not show a code", other.name());
        };
        let is_it = |device: &DeviceView| device.pairing && device.name == other.name();
        let what = format!("{} shows a code", other.name());
        let view = one.until(&what, |view| view.devices.iter().any(is_it)).await?;
        let seen = view.devices.into_iter().find(is_it).context("it was there just now")?;
        let target = DeviceTarget::Seen(seen.id);
        one.do_this(Request::Join { target, code: window.code }).await?;
        one.trust(other.name(), trust).await?;
        other.trust(one.name(), trust).await
    }

    /// Waits until every helper is connected and offers layers of `model`.
    pub async fn until_all_lend(&self, model: &str) -> anyhow::Result<HouseView> {
        let names: Vec<_> = self.nodes.iter().skip(1).map(Node::name).collect();
        let what = format!("{} lend {model}", names.join(", "));
        self.asking().until(&what, |view| names.iter().all(|name| lends(view, name, model))).await
    }
}

fn lends(view: &HouseView, name: &str, model: &str) -> bool {
    view.devices.iter().any(|device| {
        device.name == name
            && device.connected
            && device.lends.iter().any(|lend| lend.model == model)
    })
}
