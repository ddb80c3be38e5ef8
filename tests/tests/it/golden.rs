//! A device is compared with this one before it is relied on: known numbers through one of its
//! layers.

use nook_api::views::HouseholdView;
use nook_base::LayerRange;
use nook_testkit::{Garbage, Household, Lender, NodePlan, Wish};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// What the owner is told of a device whose layers give other numbers.
const TOLD: &str = "otherwise than this computer does";

fn is_told(view: &HouseholdView) -> bool {
    let told = |sentence: &str| sentence.contains(HELPER) && sentence.contains(TOLD);
    view.problems.iter().any(|problem| told(&problem.sentence))
}

/// A node that asks once, so that it looks at who could help, and whoever offers it layers.
async fn looked_at(garbage: Option<Garbage>) -> anyhow::Result<(Household, Lender)> {
    let pooling = "distributed_inference.pooling";
    let plan = NodePlan::new(ASKING).with(pooling, "\"when_faster\"");
    let house = Household::strangers([plan]).await?;
    let lender = Lender::start(HELPER, house.asking(), LayerRange::with_len(1, 4)).await?;
    lender.answer_with(garbage);
    // Nobody has measured it, so it has no part in this one.
    let told = house.asking().answer(&Wish::text("Once upon a time", 8)).await?;
    assert_eq!(told.devices(), [ASKING], "{told:?}");
    Ok((house, lender))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_computes_other_layers_is_found_before_it_has_a_part_in_a_reply()
-> anyhow::Result<()> {
    // Its answers have the right shape and size: no check of a single answer could tell.
    let (house, lender) = looked_at(Some(Garbage::OtherLayers)).await?;
    house.asking().until("its owner is told", is_told).await?;
    // Even where helpers are used whatever it costs, this one is not.
    house.asking().edit_settings("distributed_inference.pooling", "always")?;
    house
        .asking()
        .until_pipeline("the setting is read", |view| {
            view.pooling == nook_api::views::PoolingView::Always
        })
        .await?;
    let told = house.asking().answer(&Wish::text("Once upon a time", 8)).await?;
    assert_eq!(told.devices(), [ASKING], "{told:?}");
    drop(lender);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_helpers_are_always_used_they_are_compared_all_the_same() -> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let asking = house.asking();
    let lender = Lender::start(HELPER, asking, LayerRange::with_len(1, 4)).await?;
    lender.answer_with(Some(Garbage::OtherLayers));
    let wish = Wish::text("Once upon a time", 8);
    let reply = asking.reply(&wish).await?.end().await?;
    asking.until("its owner is told", is_told).await?;
    let after = asking.answer(&wish).await?;
    assert_eq!(after.devices(), [ASKING], "{after:?} after {reply:?}");
    assert_eq!(after.ids, asking.answer(&wish.alone()).await?.ids);
    drop(lender);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_contradicted_is_asked_nothing_until_it_has_been_compared() -> anyhow::Result<()> {
    let checks = "distributed_inference.spot_checks_per_thousand";
    let house = Household::strangers([NodePlan::new(ASKING).with(checks, "1000")]).await?;
    let asking = house.asking();
    let lender = Lender::start(HELPER, asking, LayerRange::with_len(1, 4)).await?;
    lender.until_compared().await?;
    let wish = Wish::text("Once upon a time", 24);
    let alone = asking.answer(&wish.clone().alone()).await?;
    let first = asking.answer(&wish).await?;
    assert!(first.uses(HELPER) && first.ids == alone.ids, "{first:?}");

    // From now on it answers what looks right, and only the spot check can tell.
    lender.answer_with(Some(Garbage::OtherLayers));
    let found = asking.answer(&wish).await?;
    assert_eq!(found.ids, alone.ids, "{found:?}");
    assert!(!found.failovers.is_empty(), "it was asked: {found:?}");
    let next = asking.answer(&wish).await?;
    assert_eq!(next.ids, alone.ids, "{next:?}");
    assert!(next.failovers.is_empty() && !next.uses(HELPER), "it was asked again: {next:?}");
    assert!(is_told(&asking.view().await?), "its owner knows");

    // Somebody has mended it, and nobody waits for a reply.
    lender.answer_with(None);
    asking.until("it has been compared", |view| !is_told(view)).await?;
    let again = asking.answer(&wish).await?;
    assert!(again.uses(HELPER) && again.ids == alone.ids, "{again:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_device_passes() -> anyhow::Result<()> {
    let (house, _lender) = looked_at(None).await?;
    let asking = house.asking();
    asking
        .until_pipeline("it is measured", |view| {
            view.measured.iter().any(|of| of.device == HELPER && of.decode_us_per_layer.is_some())
        })
        .await?;
    // The comparison is the last thing of its turn, and this device's own turn comes before.
    assert!(!is_told(&asking.view().await?));
    Ok(())
}
