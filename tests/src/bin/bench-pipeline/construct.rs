//! How long it takes until a reply through helpers that hold their layers already says something.
//!
//! Told from outside, from asking to the first token of a prompt of a few tokens: an upper bound of
//! the construction, since template, first step and sampler are in it.

use nook_testkit::{Household, NodePlan, Wish};
use nook_tests::figures::Spread;
use nook_tests::program::Effort;

use crate::rows::Row;

/// What it may take; see the design.
const CONSTRUCTION_MS: f64 = 50.0;

/// Measures with the built-in model and two helpers.
pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Vec<Row>> {
    let rounds = match effort {
        Effort::Quick => 3,
        Effort::Full => 60,
    };
    let house = Household::sharing([
        NodePlan::new("Kitchen laptop"),
        NodePlan::new("Study PC").offering("1-2"),
        NodePlan::new("Attic PC").offering("3-4"),
    ])
    .await?;
    // Layers are loaded before anything counts.
    house.asking().answer(&Wish::text("Once upon a time", 4)).await?;
    let mut took = Vec::new();
    for round in 0..rounds {
        let told = house.asking().answer(&Wish::text(&format!("{round} lamps"), 2)).await?;
        anyhow::ensure!(
            told.uses("Study PC") && told.uses("Attic PC") && told.failovers.is_empty(),
            "the reply ran on {:?}",
            told.devices()
        );
        took.push(told.first_token_ms);
    }
    let took = Spread::of(took);
    let name = |what| format!("construction to first byte, layers already held (Ember), {what}");
    Ok(vec![
        Row::plain(name("median"), took.median, "ms"),
        Row::at_most(name("p95"), took.p95, "ms", CONSTRUCTION_MS),
    ])
}
