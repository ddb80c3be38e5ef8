//! From pausing, as the tray does, until the memory of what was lent is free: the worker process,
//! which holds all of it, has ended. A reply runs on the helper meanwhile, and goes on elsewhere.

use std::path::Path;

use anyhow::Context as _;
use nook_base::clock;
use nook_testkit::{Household, NodePlan, Wish};
use nook_tests::figures::Spread;
use nook_tests::models::{self, Files};
use nook_tests::program::Effort;
use nook_tests::resident::Resident;

use crate::rows::Row;

/// What it may take, in milliseconds; see the design.
const PAUSE_MS: f64 = 2_000.0;

/// Tokens of the reply that is under way.
const REPLY: u32 = 64;

/// Measures it.
pub(crate) async fn measure(effort: Effort, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let (file, middle, rounds) = match effort {
        Effort::Quick => (None, "1-4", 1),
        Effort::Full => {
            let model = models::one(effort, "llama-1b-q8_0")?;
            (Some(Files::in_folder(folder.to_owned()).ensure(model)?), "1-14", 7)
        }
    };
    let house = Household::paired([
        NodePlan::new("Kitchen laptop"),
        NodePlan::new("Study PC").offering(middle),
    ])
    .await?;
    let model = match &file {
        Some(file) => house.import(file, Some("random")).await?,
        None => "ember".to_owned(),
    };
    let helper = house.node(1);
    let (mut took, mut resident) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        helper.share(true).await?;
        house.until_all_lend(&model).await?;
        let wish = Wish::text(&format!("{round} lamps stood in the window"), REPLY).by(&model);
        let mut reply = house.asking().reply(&wish).await?;
        let told = reply.until(4).await?;
        anyhow::ensure!(told.uses("Study PC"), "the reply ran on {:?}", told.devices());
        let workers = helper.workers();
        let bytes: u64 = workers.iter().filter_map(|pid| Resident::of(*pid)).map(|r| r.now).sum();
        let paused = clock::now();
        helper.share(false).await?;
        helper.until_no_worker().await?;
        took.push(clock::now().duration_since(paused).as_secs_f64() * 1e3);
        anyhow::ensure!(!workers.is_empty(), "the helper had no worker to free");
        resident.push(bytes as f64 / 1e6);
        reply.whole().await.context("the reply that was under way")?;
    }
    let (took, resident) = (Spread::of(took), Spread::of(resident));
    let name = |what| format!("pause from the tray to device memory free, {what}");
    Ok(vec![
        Row::plain(name("memory that the worker had"), resident.median, "MB"),
        Row::plain(name("median"), took.median, "ms"),
        Row::at_most(name("longest"), took.max, "ms", PAUSE_MS),
    ])
}
