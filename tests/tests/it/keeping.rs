//! What was measured is still known after a restart, and nothing else is kept with it.

use std::fs;

use nook_api::views::{MeasuredView, PipelineView};
use nook_testkit::{Household, NodePlan, Wish};
use serde_json::Value;

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
    house.asking().until_pipeline("measured", |view| known(view).is_some()).await?;
    house.node_mut(0).leave().await?;

    let file = house.asking().home().join("measured.json");
    let text = fs::read_to_string(&file)?;
    for word in PROMPT.split(' ').chain([HELPER, ASKING]).filter(|word| word.len() > 4) {
        assert!(!text.contains(word), "`{word}` is in {text}");
    }
    // Measuring went on until it left, so what the file says is what must be known.
    let kept: Value = serde_json::from_str(&text)?;
    let figure = |list: &str, name: &str, at: usize| {
        let mut entries = kept[list].as_array()?.iter();
        entries.find(|entry| entry["device"].is_string())?[name][at].as_f64()
    };
    house.node_mut(0).start_again().await?;
    let view = house.asking().pipeline().await?;
    let after = known(&view).cloned().expect("it is known before any reply");
    let is = |shown: Option<f64>, kept: Option<f64>, kept_in_one: f64| {
        let pair = shown.zip(kept.map(|kept| kept / kept_in_one));
        pair.is_some_and(|(shown, kept)| (shown - kept).abs() <= 0.01 * kept.max(1.0))
    };
    assert!(is(after.decode_us_per_layer, figure("speeds", "decode", 1), 1e3), "{text} {after:?}");
    assert!(is(after.round_trip_ms, figure("ways", "round_trip", 0), 1e6), "{text} {after:?}");

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
