//! Whatever happens to a helper in the middle of a reply, the reply is the one that an undisturbed
//! household gives: no token lost, doubled or changed.

use std::future::Future;
use std::time::Duration;

use nook_testkit::{Household, NodePlan, Replying, Signal, Told, Wish};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

/// Tokens of a reply: many more than are said while something is done to a helper.
const TOKENS: u32 = 160;

/// When something is done.
const AFTER: usize = 10;

fn wish() -> Wish {
    Wish::text("Once upon a time", TOKENS)
}

/// Two helpers that share the middle between them.
async fn split() -> anyhow::Result<Household> {
    house("1-2", "3-4").await
}

/// Two helpers that both hold the whole middle.
async fn doubled() -> anyhow::Result<Household> {
    house("1-4", "1-4").await
}

async fn house(first: &str, second: &str) -> anyhow::Result<Household> {
    Household::sharing([
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering(first),
        NodePlan::new(SECOND).offering(second),
    ])
    .await
}

/// Asks, does something to the house after some tokens, and checks that the reply does not show it.
async fn check<'a, F>(
    house: &'a mut Household,
    fault: impl FnOnce(&'a mut Household) -> F,
) -> anyhow::Result<Told>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let mut reply = house.asking().reply(&wish()).await?;
    let route = reply.until(AFTER).await?;
    assert!(route.uses(FIRST), "{route:?}");
    fault(house).await?;
    finish(reply, &undisturbed).await
}

async fn finish(reply: Replying, undisturbed: &Told) -> anyhow::Result<Told> {
    let told = reply.whole().await?;
    assert_eq!(told.ids, undisturbed.ids, "{:?}", told.failovers);
    assert_eq!(told.text, undisturbed.text);
    assert_eq!(told.finish, undisturbed.finish);
    Ok(told)
}

/// Holds the reply between two tokens while something slow is done to a helper.
async fn between_tokens<F>(house: &mut Household, change: F) -> anyhow::Result<()>
where
    F: AsyncFnOnce(&mut Household) -> anyhow::Result<()>,
{
    house.node_mut(0).signal_workers(Signal::Stop);
    let changed = change(house).await;
    house.node_mut(0).signal_workers(Signal::Continue);
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_helper_killed_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| {
        house.node_mut(1).signal(Signal::Kill);
        Ok(())
    })
    .await?;
    assert!(!told.uses(FIRST) && told.uses(SECOND), "{told:?}");
    assert_eq!(told.failovers.len(), 1, "{told:?}");
    assert_eq!((&*told.failovers[0].from, &*told.failovers[0].to), (FIRST, ASKING));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_a_helper_frozen_for_ten_seconds_changes_nothing_and_comes_back() -> anyhow::Result<()> {
    let mut house = split().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let mut reply = house.asking().reply(&wish()).await?;
    reply.until(AFTER).await?;
    house.node_mut(1).signal(Signal::Stop);
    let frozen = tokio::time::sleep(Duration::from_secs(10));
    let told = finish(reply, &undisturbed).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    frozen.await;
    house.node_mut(1).signal(Signal::Continue);
    house.until_all_lend("ember").await?;
    let again = house.asking().answer(&wish()).await?;
    assert_eq!(again.ids, undisturbed.ids);
    assert!(again.uses(FIRST), "it helps again: {again:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_helper_whose_worker_alone_is_killed_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    check(&mut house, async |house| {
        assert_eq!(house.node_mut(1).signal_workers(Signal::Kill), 1);
        Ok(())
    })
    .await?;
    // Its node goes on, and starts another worker when it is asked again.
    house.until_all_lend("ember").await?;
    let again = house.asking().answer(&wish()).await?;
    assert!(again.uses(FIRST), "{again:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_another_helper_that_holds_the_layers_takes_over() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let mut reply = house.asking().reply(&wish()).await?;
    let uses_first = reply.until(AFTER).await?.uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let (lost, taken) = (house.node(active).name(), house.node(spare).name());
    house.node_mut(active).signal(Signal::Kill);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.devices(), [ASKING, taken, ASKING], "{told:?}");
    assert_eq!((&*told.failovers[0].from, &*told.failovers[0].to), (lost, taken));
    assert!(!told.fell_back, "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_a_helper_whose_worker_hangs_is_relieved_by_the_other() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let mut reply = house.asking().reply(&wish()).await?;
    let uses_first = reply.until(AFTER).await?.uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let taken = house.node(spare).name();
    // Its node lives and answers pings: only the step that never comes tells.
    house.node_mut(active).signal_workers(Signal::Stop);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.devices(), [ASKING, taken, ASKING], "{told:?}");
    // Told from the step that was not answered on, so not shorter than the shortest deadline.
    let [failover] = &told.failovers[..] else { panic!("{told:?}") };
    assert!(failover.pause_ms >= 500.0, "{failover:?}");
    assert!(!told.fell_back, "{told:?}");
    house.node_mut(active).signal_workers(Signal::Continue);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_when_both_helpers_die_this_device_computes_alone() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| {
        house.node_mut(1).signal(Signal::Kill);
        house.node_mut(2).signal(Signal::Kill);
        Ok(())
    })
    .await?;
    assert!(told.devices().iter().all(|device| *device == ASKING), "{told:?}");
    assert!(told.fell_back, "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_helper_killed_while_a_long_prompt_is_read_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let long = "Once upon a time there was a purple vampire called Bonny. ".repeat(24);
    let wish = Wish::text(&long, 40);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    assert!(undisturbed.prompt_ids.len() > 256, "several pieces of prefill");
    // A frozen worker answers no step: the kill comes while the prompt is under way.
    house.node_mut(1).signal_workers(Signal::Stop);
    let mut reply = house.asking().reply(&wish).await?;
    assert!(reply.until_started().await?.uses(FIRST));
    house.node_mut(1).signal(Signal::Kill);
    let told = finish(reply, &undisturbed).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_the_asking_device_that_dies_is_started_once_more() -> anyhow::Result<()> {
    let mut house = split().await?;
    check(&mut house, async |house| {
        assert_eq!(house.node_mut(0).signal_workers(Signal::Kill), 1);
        Ok(())
    })
    .await?;
    assert_eq!(house.asking().workers().len(), 1, "one worker again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_a_helper_that_stops_sharing_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| {
        between_tokens(house, async |house| house.node(1).share(false).await).await
    })
    .await?;
    assert!(!told.uses(FIRST), "{told:?}");
    assert_eq!(house.node(1).view().await?.sharing.streams, 0);
    // Drained, not broken off: nobody was booked as lost.
    assert!(!house.asking().log().contains("left out"), "{}", house.asking().log());
    // With the worker goes all the memory that it took.
    house.node(1).until_no_worker().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_leaves_in_order_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| {
        between_tokens(house, async |house| house.node_mut(1).leave().await).await
    })
    .await?;
    assert!(!told.uses(FIRST), "{told:?}");
    Ok(())
}
