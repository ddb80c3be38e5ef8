//! Whatever happens to a helper in the middle of a reply, the reply is the one that an undisturbed
//! household gives: no token lost, doubled or changed.

use std::future::Future;
use std::time::Duration;

use nook_base::LayerRange;
use nook_testkit::{
    Device, Garbage, Household, Lender, NodePlan, Replying, Signal, Throttle, Told, Wish,
};
use nook_wire::Kind;

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

/// Tokens of a reply: many more than are said before something is done to a helper.
const TOKENS: u32 = 160;

/// When something is done.
const AFTER: usize = 10;

/// Repeated, a prompt that is read in several pieces.
const LONG: &str = "Once upon a time there was a purple vampire called Bonny. ";

/// Bytes for the built-in model's middle layers and a little more.
const SMALL: u64 = 3 << 20;

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
    let plans = [
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering(first),
        NodePlan::new(SECOND).offering(second),
    ];
    Household::apart(plans).await?.all_share().await
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
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    assert!(reply.told().uses(FIRST), "{:?}", reply.told());
    fault(house).await?;
    drop(held);
    finish(reply, &undisturbed).await
}

async fn finish(reply: Replying, undisturbed: &Told) -> anyhow::Result<Told> {
    let told = reply.whole().await?;
    told.assert_says(undisturbed);
    Ok(told)
}

#[tokio::test]
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

#[tokio::test]
async fn f2_a_helper_frozen_for_thirty_seconds_changes_nothing_and_comes_back() -> anyhow::Result<()>
{
    let mut house = split().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    house.node_mut(1).signal(Signal::Stop);
    house.node_mut(1).signal_workers(Signal::Stop);
    drop(held);
    let frozen = tokio::time::sleep(Duration::from_secs(30));
    let told = finish(reply, &undisturbed).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    frozen.await;
    house.node_mut(1).signal_workers(Signal::Continue);
    house.node_mut(1).signal(Signal::Continue);
    house.until_all_lend("ember").await?;
    let again = house.asking().answer(&wish()).await?;
    assert_eq!(again.ids, undisturbed.ids);
    assert!(again.uses(FIRST), "it helps again: {again:?}");
    Ok(())
}

#[tokio::test]
async fn f8_an_asking_device_that_slept_mid_reply_says_the_same_and_connects_again()
-> anyhow::Result<()> {
    let mut house = split().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    house.node_mut(0).signal_workers(Signal::Stop);
    house.node_mut(0).signal(Signal::Stop);
    drop(held);
    // The helpers hang up after a second; what is answered meanwhile waits in the sockets.
    tokio::time::sleep(Duration::from_secs(8)).await;
    house.node_mut(0).signal_workers(Signal::Continue);
    house.node_mut(0).signal(Signal::Continue);
    finish(reply, &undisturbed).await?;
    house.until_all_lend("ember").await?;
    assert!(house.asking().log().contains("this computer was asleep"), "it was noticed");
    let again = house.asking().answer(&wish()).await?;
    assert_eq!(again.ids, undisturbed.ids);
    assert!(again.uses(FIRST) && again.uses(SECOND), "both help again: {again:?}");
    Ok(())
}

#[tokio::test]
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

#[tokio::test]
async fn f1_another_helper_that_holds_the_layers_takes_over() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    let uses_first = reply.told().uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let (lost, taken) = (house.node(active).name(), house.node(spare).name());
    house.node_mut(active).signal(Signal::Kill);
    drop(held);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.devices(), [ASKING, taken, ASKING], "{told:?}");
    assert_eq!((&*told.failovers[0].from, &*told.failovers[0].to), (lost, taken));
    assert!(!told.fell_back, "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f2_a_helper_whose_worker_hangs_is_relieved_by_the_other() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (mut reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    let uses_first = reply.told().uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let taken = house.node(spare).name();
    // Its node lives and answers pings: only the step that never comes tells.
    house.node_mut(active).signal_workers(Signal::Stop);
    drop(held);
    reply.until_lost().await?;
    // Awake again, it answers a step that nobody waits for any more, over a link that stands.
    house.node_mut(active).signal_workers(Signal::Continue);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.devices(), [ASKING, taken, ASKING], "{told:?}");
    // Told from the step that was not answered on, so not shorter than the shortest deadline.
    let [failover] = &told.failovers[..] else { panic!("{told:?}") };
    assert!(failover.pause_ms >= 500.0, "{failover:?}");
    assert!(!told.fell_back, "{told:?}");
    let again = house.asking().answer(&wish()).await?;
    assert_eq!(again.ids, undisturbed.ids);
    let both = |view: &nook_api::views::HouseholdView| {
        view.devices.iter().filter(|device| device.paired && device.connected).count() == 2
    };
    house.asking().until("both links stand", both).await?;
    Ok(())
}

#[tokio::test]
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

#[tokio::test]
async fn f1_a_helper_killed_while_a_long_prompt_is_read_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let wish = Wish::text(&LONG.repeat(24), 40);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    assert!(undisturbed.prompt_ids.len() > 256, "several pieces of prefill");
    let whole = house.asking().answer(&wish).await?;
    assert!(whole.uses(FIRST) && whole.ids == undisturbed.ids, "it has a worker now: {whole:?}");
    // So slow that the kill comes while the prompt is under way.
    let _slow = house.node_mut(1).throttle_workers(40);
    let mut reply = house.asking().reply(&wish).await?;
    house.node(1).until("it takes part", |view| view.sharing.streams == 1).await?;
    assert!(reply.until_started().await?.uses(FIRST));
    house.node_mut(1).signal(Signal::Kill);
    let told = finish(reply, &undisturbed).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f2_whom_a_reply_waits_for_is_said_before_anybody_gives_it_up() -> anyhow::Result<()> {
    let mut house = split().await?;
    let first = house.asking().answer(&Wish::text(&LONG.repeat(23), 40)).await?;
    assert!(first.uses(FIRST), "it has a worker now: {first:?}");
    let wish = Wish::text(&format!("One day. {}", LONG.repeat(24)), 40);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    // So slow that it is held while the prompt is under way.
    let slow = house.node_mut(1).throttle_workers(40);
    let mut reply = house.asking().reply(&wish).await?;
    house.node(1).until("it takes part", |view| view.sharing.streams == 1).await?;
    let held = slow.stand_still();
    assert_eq!(reply.until_late().await?.late, [FIRST]);
    drop(held);
    let told = finish(reply, &undisturbed).await?;
    assert!(told.predicted.is_some_and(|it| it.alone.is_some()), "{told:?}");
    // A missed deadline is told in the same words; it comes some seconds later.
    let log = house.asking().log();
    assert!(log.contains("a reply waits, and would be further without others"), "{log}");
    Ok(())
}

#[tokio::test]
async fn f1_a_helper_killed_before_it_has_answered_to_open_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let undisturbed = house.asking().answer(&wish()).await?;
    assert!(undisturbed.uses(FIRST), "it has a worker now: {undisturbed:?}");
    // A frozen worker takes no call, so OPEN stays without an answer.
    assert_eq!(house.node_mut(1).signal_workers(Signal::Stop), 1);
    let mut reply = house.asking().reply(&wish()).await?;
    assert!(reply.until_started().await?.uses(FIRST));
    house.node_mut(1).signal(Signal::Kill);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.lost, [FIRST], "{told:?}");
    assert_eq!(told.devices(), [ASKING, ASKING, SECOND, ASKING], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f1_a_helper_killed_while_it_replays_for_another_changes_nothing() -> anyhow::Result<()> {
    let mut house = doubled().await?;
    let long = Wish::text(&LONG.repeat(24), 40);
    let undisturbed = house.asking().answer(&long.clone().alone()).await?;
    let (mut reply, held) = house.asking().held_reply(&long, AFTER).await?;
    let uses_first = reply.told().uses(FIRST);
    let (active, spare) = if uses_first { (1, 2) } else { (2, 1) };
    let (lost, taken) = (house.node(active).name(), house.node(spare).name());
    // Slow, so that it is not through when it dies.
    let slow = Throttle::start(vec![house.node(spare).pid()], 16);
    house.node_mut(active).signal(Signal::Kill);
    drop(held);
    reply.until_lost().await?;
    // It has all of a long history to compute again, and has not even a worker yet.
    house.node_mut(spare).signal(Signal::Kill);
    drop(slow);
    let told = finish(reply, &undisturbed).await?;
    assert_eq!(told.lost, [lost, taken], "{told:?}");
    assert!(told.devices().iter().all(|device| *device == ASKING), "{told:?}");
    assert!(told.failovers.iter().all(|one| one.to == ASKING), "it had not finished: {told:?}");
    Ok(())
}

#[tokio::test]
async fn f1_a_helper_that_is_gone_between_a_prompt_and_its_answer_changes_nothing()
-> anyhow::Result<()> {
    let house = Household::apart_with_test([NodePlan::new(ASKING)]).await?;
    let asking = house.asking();
    let wish = Wish::text(&LONG.repeat(24), 24);
    let undisturbed = asking.answer(&wish.clone().alone()).await?;
    let helper = Lender::start(FIRST, asking, LayerRange::with_len(1, 4)).await?;
    helper.until_compared().await?;
    helper.forget();
    helper.answer_with(Some(Garbage::Trickle));
    let reply = asking.reply(&wish).await?;
    helper.until_sent(Kind::Chunk).await?;
    drop(helper);
    let told = finish(reply, &undisturbed).await?;
    assert!(told.fell_back && !told.uses(FIRST), "{told:?}");
    assert_eq!(told.lost, [FIRST], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f6_the_only_holder_dies_and_nobody_may_stand_in() -> anyhow::Result<()> {
    let plans = [
        NodePlan::new(ASKING).with("distributed_inference.fallback_to_local", "false"),
        NodePlan::new(FIRST).offering("1-4"),
    ];
    let mut house = Household::apart(plans).await?.all_share().await?;
    let undisturbed = house.asking().answer(&wish()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    assert!(reply.told().uses(FIRST), "{:?}", reply.told());
    house.node_mut(1).signal(Signal::Kill);
    drop(held);
    let told = reply.end().await?;
    let (code, sentence) = told.aborted.as_ref().expect("a clear end");
    assert_eq!(code, "shard_unavailable", "{sentence}");
    assert_eq!(told.finish, None, "a cut reply is no finished one");
    assert!(told.ids.len() >= AFTER && told.ids.len() < undisturbed.ids.len(), "{told:?}");
    assert!(undisturbed.ids.starts_with(&told.ids) && undisturbed.text.starts_with(&told.text));
    Ok(())
}

#[tokio::test]
async fn f9_a_worker_without_memory_for_a_conversation_refuses_it_and_it_goes_on_elsewhere()
-> anyhow::Result<()> {
    let house = Household::apart_with_test([NodePlan::new(ASKING)]).await?;
    let asking = house.asking();
    // Enough for its layers and a short conversation.
    let layers = LayerRange::with_len(1, 4);
    let _small = Lender::play(Device::start(FIRST)?, asking, layers, SMALL).await?;
    let short = Wish::text("Once upon a time", 8);
    let told = asking.answer(&short).await?;
    assert_eq!(told.devices(), [ASKING, FIRST, ASKING], "{told:?}");
    let long = Wish::text(&LONG.repeat(24), 40);
    let undisturbed = asking.answer(&long.clone().alone()).await?;
    let told = asking.answer(&long).await?;
    assert_eq!(told.ids, undisturbed.ids);
    assert!(!told.uses(FIRST) && told.fell_back, "{told:?}");
    assert!(told.lost.is_empty(), "a refusal is no fault: {told:?}");
    Ok(())
}

#[tokio::test]
async fn f9_a_worker_that_runs_out_of_memory_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let long = Wish::text(&LONG.repeat(24), 40);
    let undisturbed_long = house.asking().answer(&long.clone().alone()).await?;
    let undisturbed = house.asking().answer(&wish().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish(), AFTER).await?;
    assert!(reply.told().uses(FIRST), "{:?}", reply.told());
    house.node_mut(1).starve_workers()?;
    drop(held);
    // A second conversation, for which there is no memory.
    let (first, second) = tokio::join!(finish(reply, &undisturbed), house.asking().answer(&long));
    let (first, second) = (first?, second?);
    second.assert_says(&undisturbed_long);
    assert!(house.node(1).log().contains("memory allocation of"), "it ended for another reason");
    assert!(first.lost.contains(&FIRST.to_owned()) && !first.uses(FIRST), "{first:?}");
    Ok(())
}

#[tokio::test]
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

#[tokio::test]
async fn f12_a_helper_that_stops_sharing_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| house.node(1).share(false).await).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    house.node(1).until("no guest is left", |view| view.sharing.guests.is_empty()).await?;
    // Drained, not broken off: nobody was booked as lost.
    assert!(!house.asking().log().contains("left out"), "{}", house.asking().log());
    // With the worker goes all the memory that it took.
    house.node(1).until_no_worker().await?;
    Ok(())
}

#[tokio::test]
async fn a_helper_that_leaves_in_order_mid_reply_changes_nothing() -> anyhow::Result<()> {
    let mut house = split().await?;
    let told = check(&mut house, async |house| house.node_mut(1).leave().await).await?;
    assert!(!told.uses(FIRST), "{told:?}");
    Ok(())
}
