//! What an owner sees of the help that this device gives: who is helped now, and how much it was.

use nook_api::views::HouseholdView;
use nook_testkit::{Household, NodePlan, Wish};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

fn guests(view: &HouseholdView) -> Vec<(&str, u16)> {
    view.sharing.guests.iter().map(|guest| (guest.device.as_str(), guest.streams)).collect()
}

fn lent(view: &HouseholdView) -> u64 {
    view.sharing.lent_days.iter().map(|day| day.tokens).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_sees_who_is_helped_now_and_how_much_it_was_also_after_a_restart()
-> anyhow::Result<()> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let mut house = Household::sharing(plans).await?;
    // The first reply loads the workers; the second one is held in its middle.
    let first = house.asking().answer(&Wish::text("Once upon a time", 8)).await?;
    assert!(first.uses(HELPER), "{first:?}");
    let wish = Wish::text("The little fox went to the old mill and", 64);
    let (reply, standstill) = house.asking().held_reply(&wish, 4).await?;
    let helper = house.node(1);
    helper.until("a guest", |view| guests(view) == [(ASKING, 1)]).await?;
    assert!(guests(&house.asking().view().await?).is_empty(), "who asks helps nobody");
    drop(standstill);
    let told = reply.whole().await?;
    assert!(told.uses(HELPER), "{told:?}");
    helper.until("nobody", |view| guests(view).is_empty()).await?;

    // Each prompt once, but for what was kept of it, and each token but the last went through
    // there.
    let least = [&first, &told]
        .map(|told| (told.prompt_ids.len() + told.ids.len() - 1) as u64 - u64::from(told.resumed));
    let least = least.iter().sum::<u64>();
    let view = helper.until("what was lent", |view| lent(view) >= least).await?;
    assert!(view.sharing.lent_days.len() <= 2, "one evening: {:?}", view.sharing.lent_days);
    let before = lent(&view);
    assert_eq!(lent(&house.asking().view().await?), 0);

    house.node_mut(1).leave().await?;
    house.node_mut(1).start_again().await?;
    let after = house.node(1).until("what was lent before", |view| lent(view) >= before).await?;
    assert!(guests(&after).is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_paired_devices_show_the_same_safety_number_and_what_is_held() -> anyhow::Result<()> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let house = Household::sharing(plans).await?;
    let number = |view: &HouseholdView| view.devices[0].safety_number.clone();
    let (here, there) = (house.asking().view().await?, house.node(1).view().await?);
    let shown = number(&here).expect("a paired device has one");
    assert_eq!(number(&there), Some(shown.clone()));
    assert_eq!(shown.bytes().filter(u8::is_ascii_digit).count(), 40, "{shown}");

    house.asking().answer(&Wish::text("Once upon a time", 8)).await?;
    let holds = |view: &HouseholdView| {
        view.devices[0].lends.iter().any(|lend| lend.model == "ember" && lend.held == Some([1, 4]))
    };
    house.asking().until("the layers in its memory", holds).await?;
    Ok(())
}
