//! What one hop costs beyond its computing.
//!
//! The whole real path of a decode step: requester, TLS WebSocket link, helper node, its worker
//! over the local socket, and back. The model is random, three layers of the wished width, of which
//! the helper lends the middle one; every row of the result comes from a real forward pass.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nook_base::tasks::Tasks;
use nook_base::{ActivationDtype, LayerRange, ModelDigest};
use nook_kernels::Format;
use nook_model::synthetic::{Mix, Recipe};
use nook_testkit::{Household, Node, NodePlan};
use serde::Serialize;

use super::pieces;
use super::requester::Requester;
use super::steps::{self, Course, Taken};
use crate::figures::Spread;
use crate::program::Effort;

/// Widths of the hidden state: that of Ember, and that of a model of a billion parameters.
const WIDTHS: [u32; 2] = [256, 2048];

/// One stretch of the path, measured.
#[derive(Debug, Clone, Serialize)]
pub struct HopRow {
    /// Which stretch.
    pub path: PathKind,
    /// Numbers in a row.
    pub hidden: u32,
    /// How they are written.
    pub dtype: ActivationDtype,
    /// What its steps took.
    #[serde(flatten)]
    pub taken: Taken,
}

/// Which stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Requester, link, node, worker, and back.
    Whole,
    /// Requester, worker, and back.
    Worker,
    /// Requester, link to a peer that echoes, and back.
    Link,
    /// The same bytes over plain TCP between two threads.
    Tcp,
}

/// Measures all stretches for every width and dtype.
pub async fn measure(effort: Effort, tasks: &Tasks) -> anyhow::Result<Vec<HopRow>> {
    let host = Host::start(tasks).await?;
    let mut rows = Vec::new();
    for width in WIDTHS {
        let (file, digest) = host.model(width).await?;
        for dtype in [ActivationDtype::F16, ActivationDtype::F32] {
            let course = course(effort, digest, width, dtype);
            let row = |path, taken| HopRow { path, hidden: width, dtype, taken };
            rows.push(host.whole(course).await?);
            rows.push(row(PathKind::Worker, pieces::worker(&file, course, tasks).await?));
            rows.push(row(PathKind::Link, pieces::link(course, tasks).await?));
            rows.push(row(PathKind::Tcp, plain(pieces::tcp(course).await?)));
        }
    }
    Ok(rows)
}

/// Measures the whole path at the width of a model of a billion parameters, in every format.
pub async fn whole(effort: Effort, tasks: &Tasks) -> anyhow::Result<Vec<HopRow>> {
    let host = Host::start(tasks).await?;
    let [_, width] = WIDTHS;
    let (_, digest) = host.model(width).await?;
    let mut rows = Vec::new();
    for dtype in ActivationDtype::ALL {
        rows.push(host.whole(course(effort, digest, width, dtype)).await?);
    }
    Ok(rows)
}

/// A node that lends, and a device in this process that it trusts.
struct Host {
    house: Household,
    requester: Requester,
    folder: tempfile::TempDir,
}

impl Host {
    async fn start(tasks: &Tasks) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-bench-").tempdir()?;
        let house = Household::strangers([NodePlan::new("Host").offering("1-1")]).await?;
        house.node(0).share(true).await?;
        let requester = Requester::paired_with(house.node(0), tasks).await?;
        Ok(Self { house, requester, folder })
    }

    /// A model of this width that the node has.
    async fn model(&self, width: u32) -> anyhow::Result<(PathBuf, ModelDigest)> {
        let file = model(self.folder.path(), width)?;
        let digest = import(self.house.node(0), &file, width).await?;
        Ok((file, digest))
    }

    async fn whole(&self, course: Course) -> anyhow::Result<HopRow> {
        let Course { hidden, dtype, .. } = course;
        let taken = steps::walk(self.requester.call().await?, course).await?;
        Ok(HopRow { path: PathKind::Whole, hidden, dtype, taken })
    }
}

/// At least a thousand counted steps in a full run.
fn course(effort: Effort, model: ModelDigest, hidden: u32, dtype: ActivationDtype) -> Course {
    let (warm_up, counted) = match effort {
        Effort::Quick => (10, 50),
        Effort::Full => (200, 2_000),
    };
    Course { model, layers: LayerRange::with_len(1, 1), hidden, dtype, warm_up, counted }
}

fn model(folder: &Path, width: u32) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("width-{width}.gguf"));
    let recipe = Recipe {
        layers: 3,
        hidden: width,
        heads: width / 64,
        kv_heads: width / 64,
        head_dim: 64,
        feed_forward: 256,
        context_length: 8192,
        mix: Mix::All(Format::Q8_0),
        ..Recipe::tiny(Format::Q8_0, u64::from(width))
    };
    recipe.write(&file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

async fn import(host: &Node, file: &Path, width: u32) -> anyhow::Result<ModelDigest> {
    let name = host.import(file, Some(&format!("width-{width}"))).await?;
    let view = host.view().await?;
    let model = view.models.iter().find(|model| model.name == name).context("it was imported")?;
    Ok(model.digest.parse()?)
}

/// A stretch on which nobody computes.
fn plain(round_trip: Spread) -> Taken {
    let compute_us = Spread::of(std::iter::repeat_n(0.0, round_trip.n));
    Taken { overhead_us: round_trip, overhead_and_queue_us: round_trip, compute_us }
}
