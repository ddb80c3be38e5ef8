//! A helper that became slow, or hung for a moment, while another one is idle: the reply is the
//! same, and nobody waits longer than needed, in this reply and in the next.

use nook_testkit::{Household, Node, NodePlan, Signal, Wish};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

/// Tokens said before anything is done to a helper: its pace is known by then.
const AFTER: usize = 16;

fn wish() -> Wish {
    Wish::text("Once upon a time", 240)
}

/// Two helpers that both hold the whole middle.
async fn doubled() -> anyhow::Result<Household> {
    let plans = [
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering("1-4"),
        NodePlan::new(SECOND).offering("1-4"),
    ];
    Household::apart(plans).await?.all_share().await
}

/// Waits until the asking device hears, or does not hear, that the device called `name` lends.
async fn until_lends(asking: &Node, name: &str, lends: bool) -> anyhow::Result<()> {
    asking
        .until("what it lends", |view| {
            view.devices
                .iter()
                .any(|device| device.name == name && lends != device.lends.is_empty())
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_a_helper_that_became_slow_is_left_for_one_that_is_known_to_be_faster()
-> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    // Each makes a reply, so that both are measured.
    for (busy, idle) in [(1, 2), (2, 1)] {
        let name = house.node(idle).name();
        house.node(idle).share(false).await?;
        until_lends(house.asking(), name, false).await?;
        let told = house.asking().answer(&wish()).await?;
        assert!(told.uses(house.node(busy).name()), "{told:?}");
        house.node(idle).share(true).await?;
        until_lends(house.asking(), name, true).await?;
    }
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    let uses_first = reply.told().uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let (slow, fast) = (house.node(active).name(), house.node(spare).name());
    // A step of so small a model is so short that on a fast machine twenty times as long would not
    // pay for a replay.
    let _throttle = house.node_mut(active).throttle_workers(60);
    drop(held);
    let told = reply.whole().await?;
    assert_eq!(told.ids, undisturbed.ids);
    assert!(!told.uses(slow), "{told:?}");
    assert!(told.uses(fast) || told.fell_back, "{told:?}");
    // Where one step of it takes longer than a step may, it counts as lost as well: how long that is
    // hangs on how fast this machine is. That slow is not lost is tested without a clock in
    // `nook-pipeline`.
    assert!(told.lost.iter().all(|lost| lost == slow), "{told:?}");
    assert_eq!(told.failovers.first().map(|it| it.from.as_str()), Some(slow), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_hung_is_not_the_first_choice_of_the_next_reply() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    let uses_first = reply.told().uses(FIRST);
    let active = if uses_first { 1 } else { 2 };
    let name = house.node(active).name();
    house.node_mut(active).signal_workers(Signal::Stop);
    drop(held);
    let told = reply.whole().await?;
    assert_eq!(told.ids, undisturbed.ids);
    assert!(!told.uses(name), "{told:?}");
    house.node_mut(active).signal_workers(Signal::Continue);
    // It answers again and offers what it did; one failure alone does not leave it out.
    until_lends(house.asking(), name, true).await?;
    let again = house.asking().answer(&wish()).await?;
    assert_eq!(again.ids, undisturbed.ids);
    assert!(!again.uses(name), "{again:?}");
    // Where nobody else is there, it is asked all the same.
    let other = house.node(3 - active);
    other.share(false).await?;
    until_lends(house.asking(), other.name(), false).await?;
    let only = house.asking().answer(&wish()).await?;
    assert!(only.uses(name), "{only:?}");
    Ok(())
}
