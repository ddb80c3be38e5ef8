//! What was measured is still known after a restart, and nothing else is kept with it.

use std::fs;

use nook_node::views::{MeasuredView, PipelineView};
use nook_testkit::{Household, NodePlan, Wish};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const PROMPT: &str = "Once upon a time there was a lighthouse keeper who lived by the sea.";

/// What is known of the helper's speed and of the way to it.
fn known(view: &PipelineView) -> Option<&MeasuredView> {
    view.measured.iter().find(|of| {
        of.device == HELPER && of.decode_us_per_layer.is_some() && of.round_trip_ms.is_some()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn speeds_and_ways_survive_a_restart_and_go_with_the_pairing() -> anyhow::Result<()> {
    let mut house =
        Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")]).await?;
    let told = house.asking().answer(&Wish::text(PROMPT, 32)).await?;
    assert!(told.uses(HELPER), "{told:?}");
    let view = house.asking().until_pipeline("measured", |view| known(view).is_some()).await?;
    let before = known(&view).cloned().expect("it is measured");
    house.node_mut(0).leave().await?;

    let file = house.asking().home().join("measured.json");
    let text = fs::read_to_string(&file)?;
    for word in PROMPT.split(' ').chain([HELPER, ASKING]).filter(|word| word.len() > 4) {
        assert!(!text.contains(word), "`{word}` is in {text}");
    }
    house.node_mut(0).start_again().await?;
    let view = house.asking().pipeline().await?;
    let after = known(&view).cloned().expect("it is known before any reply");
    let close = |a: Option<f64>, b: Option<f64>| {
        a.zip(b).is_some_and(|(a, b)| (a - b).abs() <= 0.01 * b.abs().max(1.0))
    };
    assert!(close(after.decode_us_per_layer, before.decode_us_per_layer), "{before:?} {after:?}");
    assert!(close(after.round_trip_ms, before.round_trip_ms), "{before:?} {after:?}");

    // A damaged file keeps nobody from starting.
    house.node_mut(0).leave().await?;
    fs::write(&file, "{ \"version\": 1, \"speeds\": 7")?;
    house.node_mut(0).start_again().await?;
    assert!(known(&house.asking().pipeline().await?).is_none());
    house.until_all_lend("ember").await?;
    let again = house.asking().answer(&Wish::text(PROMPT, 32)).await?;
    assert_eq!(again.ids, told.ids);
    Ok(())
}
