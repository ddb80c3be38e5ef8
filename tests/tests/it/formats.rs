//! Activations in eight bits, between real nodes: the reply is that of its format whoever computes,
//! and a device that does not know the format is sent nothing of it.

use nook_base::{ActivationDtype, LayerRange};
use nook_testkit::{Household, Lender, NodePlan, Signal, Wish};

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
    for (wish, dtype) in [
        (wish_of_the_house(), ActivationDtype::Q8),
        (wish().over(ActivationDtype::F16), ActivationDtype::F16),
    ] {
        let told = house.asking().answer(&wish).await?;
        assert_eq!(told.ids.len(), TOKENS as usize, "{told:?}");
        assert_eq!(asked_for(&lender), Some(dtype), "{told:?}");
    }
    Ok(())
}

/// The format of activations in the newest OPEN that a device was sent.
fn asked_for(lender: &Lender) -> Option<ActivationDtype> {
    lender.recorded().opens.last().map(|open| open.dtype)
}

/// A wish that leaves the format to the house.
fn wish_of_the_house() -> Wish {
    Wish::text("Once upon a time there was a lamp", TOKENS).as_the_house_does()
}
