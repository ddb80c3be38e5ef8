//! A whole request on another device of the same person: the same words, told once, whatever
//! happens to that device. Nothing of them goes to a device that is not own on both sides.

use nook_api::Vitals;
use nook_api::views::{ChatRole, HouseholdView, PipelineView, Trust};
use nook_base::limits::PREFILL_CHUNK_TOKENS;
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_link::LinkEvent;
use nook_mux::Call;
use nook_testkit::{
    Device, Household, Lender, Node, NodePlan, Replying, Secrets, Signal, Told, Wish,
};
use nook_wire::{
    IdsAssembly, KeptHistory, Kind, Message, OffloadFinish, OffloadKept, OffloadOffer,
    OffloadOffers, OffloadRequest, OffloadSampling, OffloadTokens, WireMessage as _, chunks_of,
    ids_for_own_device,
};

mod by_hand;

const ASKING: &str = "Kitchen laptop";
const FAST: &str = "Dad's PC";
const OTHER: &str = "Visitor";
const SETTING: &str = "distributed_inference.whole_on_own_devices";

/// Part of a prompt; it stands nowhere else.
const CANARY: &str = "the zephyrquill of Brambleworth and her seventeen copper marbles";

fn asking() -> NodePlan {
    NodePlan::new(ASKING).with(SETTING, "true")
}

fn wish(tokens: u32) -> Wish {
    Wish::chat(&[(ChatRole::User, format!("Tell me a story about {CANARY}."))], tokens)
}

fn takes_whole(view: &HouseholdView) -> bool {
    view.devices.iter().any(|device| device.name == FAST && device.takes_whole)
}

/// Two devices of one person, of which the second lends everything.
async fn own_house(asking: NodePlan, fast: NodePlan) -> anyhow::Result<Household> {
    let house = Household::apart_with_test([asking, fast]).await?.all_share().await?;
    house.asking().trust(FAST, Trust::Own).await?;
    house.node(1).trust(ASKING, Trust::Own).await?;
    Ok(house)
}

/// The same, once whole requests may go there.
async fn whole_house() -> anyhow::Result<Household> {
    let house = own_house(asking(), NodePlan::new(FAST)).await?;
    house.asking().until("whole requests may go there", takes_whole).await?;
    Ok(house)
}

/// Where the last reply was decided to be made.
fn is_whole(view: &PipelineView) -> bool {
    view.last.as_ref().is_some_and(|last| last.because.contains(FAST))
}

#[tokio::test]
async fn a_whole_reply_elsewhere_is_the_reply_of_this_device() -> anyhow::Result<()> {
    let house = whole_house().await?;
    let asking = house.asking();
    // Greedy, by chance from a seed, ended by a text, and of a prompt of several pieces.
    let long = format!("{CANARY} ").repeat(12);
    let cases = [
        wish(60),
        wish(40).drawn(7),
        wish(60).until("."),
        Wish::text(&long, 12),
        Wish::text("Once upon a time", 1),
    ];
    let mut elsewhere = Vec::new();
    for wish in &cases {
        let told = asking.answer(wish).await?;
        assert_eq!(told.devices(), [FAST], "{told:?}");
        assert!(told.failovers.is_empty() && told.lost.is_empty(), "{told:?}");
        let [part] = &told.timeline[..] else { panic!("{:?}", told.timeline) };
        let took = [part.prompt, part.reply].map(|of| of.compute_ms + of.queue_ms + of.network_ms);
        assert!(part.device == FAST && !part.local && part.layers == Some([0, 5]), "{part:?}");
        assert!(part.prompt.compute_ms > 0.0 && took[0] + took[1] <= told.total_ms, "{told:?}");
        assert_eq!(part.bytes_out, 4 * told.prompt_ids.len() as u64, "{part:?}");
        assert!(part.bytes_in >= 4 * told.ids.len() as u64, "{part:?}");
        elsewhere.push(told);
    }
    assert!(asking.workers().is_empty(), "this device has computed something");
    assert!(elsewhere[3].prompt_ids.len() > PREFILL_CHUNK_TOKENS as usize, "one piece only");
    let view = asking.until_pipeline("the decision is told", is_whole).await?;
    let last = view.last.expect("a reply was decided on");
    assert!(last.because.contains("It sees what is said"), "{last:?}");
    for (wish, whole) in cases.into_iter().zip(elsewhere) {
        let here = asking.answer(&wish.alone()).await?;
        assert_eq!((&here.ids, &here.text), (&whole.ids, &whole.text));
        assert_eq!(here.finish, whole.finish);
    }
    Ok(())
}

#[tokio::test]
async fn a_second_request_there_goes_on_and_says_the_same() -> anyhow::Result<()> {
    let house = whole_house().await?;
    let asking = house.asking();
    let first = asking.answer(&wish(20)).await?;
    let turns = [
        (ChatRole::User, format!("Tell me a story about {CANARY}.")),
        (ChatRole::Assistant, first.text.clone()),
        (ChatRole::User, "And then?".to_owned()),
    ];
    let second = Wish::chat(&turns, 20);
    let there = asking.answer(&second).await?;
    assert_eq!(there.devices(), [FAST], "{there:?}");
    assert!(there.resumed as usize >= first.prompt_ids.len(), "{there:?}");
    let anew = there.prompt_ids.len() - there.resumed as usize;
    assert_eq!(there.timeline[0].prompt.positions as usize, anew, "{there:?}");
    assert_eq!(there.ids, asking.answer(&second.alone()).await?.ids);
    Ok(())
}

#[tokio::test]
async fn a_reply_that_nobody_wants_ends_there_within_a_token() -> anyhow::Result<()> {
    let house = whole_house().await?;
    let mut reply = house.asking().reply(&wish(200)).await?;
    reply.until(3).await?;
    house.node(1).until("the stream is taken", |view| view.sharing.streams == 1).await?;
    drop(reply);
    house.node(1).until("the stream is free", |view| view.sharing.streams == 0).await?;
    // The device is as good as before.
    let told = house.asking().answer(&wish(5)).await?;
    assert_eq!((told.devices(), told.ids.len()), (vec![FAST], 5));
    Ok(())
}

/// Loses the device in the middle of a reply by `trouble`; the reply is as if undisturbed.
async fn check_loss(
    house: &mut Household,
    wish: &Wish,
    undisturbed: &Told,
    trouble: impl AsyncFnOnce(&mut Household) -> anyhow::Result<()>,
) -> anyhow::Result<Told> {
    let mut reply = house.asking().reply(wish).await?;
    let begun = reply.until(10).await?;
    assert_eq!(begun.devices(), [FAST], "{begun:?}");
    trouble(house).await?;
    let told = reply.whole().await?;
    assert_eq!((&told.ids, &told.text), (&undisturbed.ids, &undisturbed.text));
    assert_eq!(told.lost, [FAST]);
    assert_eq!(told.failovers.len(), 1, "{told:?}");
    let failover = &told.failovers[0];
    assert_eq!(failover.from, FAST);
    assert!((10..60).contains(&failover.after_tokens) && failover.pause_ms > 0.0, "{failover:?}");
    assert!(told.uses(ASKING), "{told:?}");
    let begun = &told.timeline[0];
    assert_eq!((begun.device.as_str(), begun.first_token), (FAST, 1), "{begun:?}");
    assert!(begun.last_token >= failover.after_tokens, "{begun:?} {failover:?}");
    assert!(told.timeline[1..].iter().all(|part| part.first_token > failover.after_tokens));
    Ok(told)
}

#[tokio::test]
async fn a_worker_that_breaks_down_loses_and_doubles_no_word() -> anyhow::Result<()> {
    let mut house = whole_house().await?;
    for wish in [wish(60), wish(60).drawn(3)] {
        let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
        assert!(undisturbed.ids.len() > 30, "a reply of some length");
        let kill_worker = async |house: &mut Household| {
            house.node_mut(1).signal_workers(Signal::Kill);
            Ok(())
        };
        check_loss(&mut house, &wish, &undisturbed, kill_worker).await?;
    }
    // A device that breaks down on what it accepts is not asked again for every reply.
    assert!(house.asking().answer(&wish(8)).await?.uses(ASKING));
    Ok(())
}

#[tokio::test]
async fn the_loss_of_the_device_loses_and_doubles_no_word() -> anyhow::Result<()> {
    let mut house = whole_house().await?;
    let undisturbed = house.asking().answer(&wish(60).alone()).await?;
    let pause = async |house: &mut Household| house.node(1).share(false).await;
    check_loss(&mut house, &wish(60), &undisturbed, pause).await?;
    house.node(1).share(true).await?;
    house.asking().until("it lends again", takes_whole).await?;
    let freeze = async |house: &mut Household| {
        house.node_mut(1).signal(Signal::Stop);
        Ok(())
    };
    check_loss(&mut house, &wish(60), &undisturbed, freeze).await?;
    house.node_mut(1).signal(Signal::Continue);
    house.asking().until("it lends again", takes_whole).await?;
    let kill = async |house: &mut Household| {
        house.node_mut(1).signal(Signal::Kill);
        Ok(())
    };
    check_loss(&mut house, &wish(60), &undisturbed, kill).await?;
    Ok(())
}

#[tokio::test]
async fn who_is_own_no_more_hears_nothing_more_on_either_side() -> anyhow::Result<()> {
    let mut house = whole_house().await?;
    let undisturbed = house.asking().answer(&wish(60).alone()).await?;
    // What was kept of an earlier request goes, though it may still help with layers.
    assert_eq!(house.asking().answer(&wish(8)).await?.devices(), [FAST]);
    until_kept(house.node(1), 1).await?;
    house.node(1).trust(ASKING, Trust::Trusted).await?;
    until_kept(house.node(1), 0).await?;
    house.node(1).trust(ASKING, Trust::Own).await?;
    house.asking().until("whole requests may go there", takes_whole).await?;
    let host_says_so =
        async |house: &mut Household| house.node(1).trust(ASKING, Trust::Trusted).await;
    let told = check_loss(&mut house, &wish(60), &undisturbed, host_says_so).await?;
    // It may still help with layers, whose numbers are no words.
    assert!(told.uses(ASKING));
    let asking = house.asking();
    asking.until("whole requests may not go there", |view| !takes_whole(view)).await?;
    assert_ne!(asking.answer(&wish(8)).await?.devices(), [FAST]);
    house.node(1).trust(ASKING, Trust::Own).await?;
    asking.until("whole requests may go there", takes_whole).await?;

    let asker_says_so =
        async |house: &mut Household| house.asking().trust(FAST, Trust::Trusted).await;
    check_loss(&mut house, &wish(60), &undisturbed, asker_says_so).await?;
    assert_ne!(house.asking().answer(&wish(8)).await?.devices(), [FAST]);
    Ok(())
}

#[tokio::test]
async fn only_the_owner_of_the_asking_device_lets_words_out() -> anyhow::Result<()> {
    let house = own_house(NodePlan::new(ASKING), NodePlan::new(FAST)).await?;
    let asking = house.asking();
    let here = asking.answer(&wish(8).alone()).await?;
    assert_eq!(here.devices(), [ASKING]);
    let divided = asking.answer(&wish(8)).await?;
    assert!(divided.uses(ASKING), "off by default: {divided:?}");
    asking.edit_settings(SETTING, true)?;
    asking.until("the setting is read", takes_whole).await?;
    assert_eq!(asking.answer(&wish(8)).await?.devices(), [FAST]);
    assert_eq!(asking.answer(&wish(8).alone()).await?.devices(), [ASKING], "kept on this computer");
    asking.edit_settings(SETTING, false)?;
    asking.until("the setting is read", |view| !takes_whole(view)).await?;
    assert!(asking.answer(&wish(8)).await?.uses(ASKING));
    Ok(())
}

#[tokio::test]
async fn a_device_that_is_busy_with_one_request_takes_no_second() -> anyhow::Result<()> {
    let limit = "distributed_inference.host.max_concurrent_streams";
    let house = own_house(asking(), NodePlan::new(FAST).with(limit, "1")).await?;
    let asking = house.asking();
    asking.until("whole requests may go there", takes_whole).await?;
    let mut first = asking.reply(&wish(200)).await?;
    first.until(2).await?;
    let second = asking.answer(&wish(8)).await?;
    assert!(second.uses(ASKING), "{second:?}");
    assert_eq!(first.whole().await?.devices(), [FAST]);
    Ok(())
}

/// Waits until so many conversations are kept there.
async fn until_kept(node: &Node, count: u16) -> anyhow::Result<()> {
    let is_so = |vitals: &Vitals| {
        let kept: u16 = vitals.workers.iter().map(|worker| worker.parked).sum();
        !vitals.workers.is_empty() && kept == count
    };
    node.until_vitals(&format!("{count} are kept"), is_so).await.map(|_| ())
}
