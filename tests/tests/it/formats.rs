//! Activations in eight bits, between real nodes: the reply is that of its format whoever computes, and
//! a device that does not know the format is sent nothing of it.

use nook_base::{ActivationDtype, LayerRange};
use nook_testkit::{Household, Lender, NodePlan, Signal, Wish};
use nook_wire::Kind;

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const TOKENS: u32 = 64;

fn wish() -> Wish {
    Wish::text("Once upon a time there was a lamp", TOKENS).over(ActivationDtype::Q8)
}

#[tokio::test(flavor = "multi_thread")]
async fn over_eight_bits_a_takeover_by_this_device_changes_no_token() -> anyhow::Result<()> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let mut house = Household::sharing(plans).await?;
    let undisturbed = house.asking().answer(&wish()).await?;
    assert!(undisturbed.uses(HELPER) && undisturbed.ids.len() == TOKENS as usize);
    let (reply, held) = house.asking().held_reply(&wish(), 8).await?;
    assert!(reply.told().uses(HELPER), "{:?}", reply.told());
    house.node_mut(1).signal(Signal::Kill);
    drop(held);
    let told = reply.whole().await?;
    assert!(told.fell_back, "{told:?}");
    assert_eq!(told.ids, undisturbed.ids);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setting_counts_where_a_wish_names_no_format() -> anyhow::Result<()> {
    let asking = NodePlan::new(ASKING).with("distributed_inference.activation_dtype", "\"q8\"");
    let house = Household::strangers([asking]).await?;
    let lender = Lender::start(HELPER, house.asking(), LayerRange::with_len(1, 4)).await?;
    // Its version knows no eight bits, so by the setting alone nothing is asked of it.
    let told = house.asking().answer(&wish_of_the_house()).await?;
    assert!(told.fell_back && told.ids.len() == TOKENS as usize, "{told:?}");
    assert!(!lender.recorded().kinds().contains(&Kind::Open));
    let half = house.asking().answer(&wish().over(ActivationDtype::F16)).await?;
    assert!(half.uses(HELPER), "{half:?}");
    assert!(lender.recorded().kinds().contains(&Kind::Open));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_does_not_know_the_format_is_told_of_and_sent_no_frame_of_it()
-> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let lender = Lender::start(HELPER, house.asking(), LayerRange::with_len(1, 4)).await?;
    let told = house.asking().answer(&wish()).await?;
    assert!(told.fell_back && told.ids.len() == TOKENS as usize, "{told:?}");
    assert!(!lender.recorded().kinds().contains(&Kind::Open), "it was sent a broken frame");
    let log = house.asking().log();
    let named = "Study PC does not understand activations in q8";
    assert!(log.contains(named), "{log}");
    Ok(())
}

/// A wish that leaves the format to the house.
fn wish_of_the_house() -> Wish {
    Wish::text("Once upon a time there was a lamp", TOKENS).as_the_house_does()
}
