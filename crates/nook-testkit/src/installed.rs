//! Computers as they are installed: nothing is set, they are paired and allowed with the commands
//! that people type, and the first one alone has the model. What others have of it, they got by
//! themselves.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nook_api::views::{DeviceView, HouseholdView};
use nook_kernels::Format;
use nook_model::synthetic::Recipe;

use crate::commands;
use crate::household::Household;
use crate::node::Node;
use crate::plan::NodePlan;
use crate::secrets::files_below;

/// What the model is called in such a household.
pub const MODEL: &str = "household";

/// A file of which only a part is here.
#[derive(Debug, Clone)]
pub struct PartialFile {
    /// The file.
    pub path: PathBuf,
    /// How long it is.
    pub length: u64,
    /// What it takes on the disk.
    pub taken: u64,
}

/// A model of 12 layers, of which each takes some milliseconds; 140 MB.
#[must_use]
pub fn recipe() -> Recipe {
    Recipe {
        layers: 12,
        hidden: 1024,
        heads: 16,
        kv_heads: 4,
        head_dim: 64,
        feed_forward: 2816,
        context_length: 2048,
        ..Recipe::tiny(Format::Q8_0, 18)
    }
}

/// Nodes in rooms of their own, each paired with the first by the usual commands. That one has the
/// model; its file.
pub async fn household(
    plans: impl IntoIterator<Item = NodePlan>,
    recipe: Recipe,
) -> anyhow::Result<(Household, PathBuf)> {
    let plans: Vec<NodePlan> = plans.into_iter().collect();
    let helpers = 1..plans.len();
    let house = Household::apart(plans).await?;
    let file = house.folder().join("household.gguf");
    recipe.write(&file)?;
    import(&house, 0, &file).await?;
    for helper in helpers {
        pair(&house, 0, helper).await?;
    }
    Ok((house, file))
}

/// One node types the code that the other shows.
pub async fn pair(house: &Household, typing: usize, showing: usize) -> anyhow::Result<()> {
    let [showing, typing] = [showing, typing].map(|node| house.node(node).home().to_owned());
    tokio::task::spawn_blocking(move || commands::pair(&showing, &typing)).await??;
    Ok(())
}

/// Adds a file as the model of a node.
pub async fn import(house: &Household, node: usize, file: &Path) -> anyhow::Result<()> {
    let path = file.to_str().context("a path of plain letters")?;
    commands::run(house.node(node).home(), &["models", "import", path, "--name", MODEL]).await?;
    Ok(())
}

/// Both owners answer that their computers may help each other.
pub async fn allow_each_other(one: &Node, other: &Node) -> anyhow::Result<()> {
    commands::run(one.home(), &["devices", "allow", other.name(), "each-other"]).await?;
    commands::run(other.home(), &["devices", "allow", one.name(), "each-other"]).await?;
    Ok(())
}

/// A paired device, as another one shows it.
#[must_use]
pub fn device<'a>(view: &'a HouseholdView, name: &str) -> Option<&'a DeviceView> {
    view.devices.iter().find(|device| device.paired && device.name == name)
}

/// Layers of the model that a device offers.
#[must_use]
pub fn lent(view: &HouseholdView, name: &str) -> u32 {
    let lends = device(view, name).into_iter().flat_map(|device| &device.lends);
    let of_it = lends.filter(|lend| lend.model == MODEL);
    of_it.map(|lend| lend.last_layer + 1 - lend.first_layer).sum()
}

/// The file below `models` of which only a part is here.
pub fn partial_file(models: &Path) -> anyhow::Result<Option<PartialFile>> {
    let folder = models.join("partial");
    let files = if folder.is_dir() { files_below(&folder)? } else { Vec::new() };
    let file = files.into_iter().find(|(path, _)| path.extension().is_some_and(|it| it == "gguf"));
    let Some((path, _)) = file else { return Ok(None) };
    let found = fs::metadata(&path)?;
    Ok(Some(PartialFile { path, length: found.len(), taken: found.blocks() * 512 }))
}

/// What has come over the cable of a node.
pub fn received(house: &Household, node: usize) -> anyhow::Result<u64> {
    house.bridge().context("nodes in rooms of their own")?.received(node)
}
