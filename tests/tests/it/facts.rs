//! What a household knows of its devices: what each is, what each brings, and how much it helped.

use std::time::Duration;

use nook_api::NodeCalls as _;
use nook_api::Request;
use nook_api::views::{
    CatalogueView, DeviceKind, DeviceView, FactsView, FitKind, HouseholdView, SettingAsk, Trust,
};
use nook_link::LinkEvent;
use nook_testkit::{Device, Household, Node, NodePlan, Wish};
use nook_wire::{DeviceFacts, Message, ProtocolRange};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// Only what hangs takes this long.
const LIMIT: Duration = Duration::from_secs(240);

fn device<'a>(view: &'a HouseholdView, name: &str) -> Option<&'a DeviceView> {
    view.devices.iter().find(|device| device.name == name)
}

fn facts(view: &HouseholdView, name: &str) -> FactsView {
    device(view, name).map(|device| device.facts.clone()).unwrap_or_default()
}

async fn say_kind(node: &Node, kind: &str) -> anyhow::Result<()> {
    let setting = SettingAsk::new("device.kind", kind);
    Ok(node.do_this(Request::ChangeSetting { setting }).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_device_shows_what_it_is_and_a_guest_only_its_kind() -> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER)]).await?;
    let (asking, helper) = (house.asking(), house.node(1));
    say_kind(helper, "tower").await?;
    let own = helper
        .until("its kind", |view| view.me.facts.kind == Some(DeviceKind::Tower))
        .await?
        .me
        .facts;
    assert!(own.memory_bytes.is_some() && own.processor.is_some(), "{own:?}");
    let is_told = |view: &HouseholdView| {
        let told = facts(view, HELPER);
        (told.kind, told.memory_bytes) == (own.kind, own.memory_bytes)
    };
    asking.until("what the helper is", is_told).await?;
    // The helper's owner makes the other one a guest: it is told less, at once.
    helper.trust(ASKING, Trust::Guest).await?;
    let kind = FactsView { kind: Some(DeviceKind::Tower), ..FactsView::default() };
    asking.until("the kind alone", |view| facts(view, HELPER) == kind).await?;
    say_kind(helper, "laptop").await?;
    let kind = FactsView { kind: Some(DeviceKind::Laptop), ..FactsView::default() };
    asking.until("another kind", |view| facts(view, HELPER) == kind).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_the_protocol_before_is_told_nothing_that_it_does_not_know()
-> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING)]).await?;
    let node = house.asking();
    let mut old = Device::speaking("Old PC", ProtocolRange::only(1))?;
    let mut new = Device::start("New PC")?;
    let at_old = old.pair_with(node, Trust::Trusted).await?;
    let at_new = new.pair_with(node, Trust::Trusted).await?;
    let protocol = |device: &Device, peer| device.link(peer).map(|link| link.protocol());
    assert_eq!((protocol(&old, at_old), protocol(&new, at_new)), (Some(1), Some(2)));
    say_kind(node, "mini").await?;
    let told = loop {
        if let LinkEvent::Control { message: Message::DeviceFacts(facts), .. } =
            new.next_event().await?
            && facts.form.is_some()
        {
            break facts;
        }
    };
    assert_ne!(*told, DeviceFacts::default());
    // What was to be said to the other one was posted in the same moment; a question goes behind it.
    let link = old.until_linked(at_old).await?;
    link.mux().round_trip().await?;
    node.trust("Old PC", Trust::Guest).await?;
    loop {
        // Its link stands, and all that it hears is of its own version.
        match old.next_event().await? {
            LinkEvent::Control { message: Message::DeviceFacts(_), .. } => {
                anyhow::bail!("a device of the protocol before was told facts")
            }
            LinkEvent::Control { message: Message::HelpTerms(terms), .. } if !terms.helps => break,
            LinkEvent::Down { reason, .. } => anyhow::bail!("the link ended: {reason}"),
            _ => {}
        }
    }
    Ok(())
}

fn helped(view: &HouseholdView) -> u64 {
    let days = device(view, HELPER).into_iter().flat_map(|device| &device.helped_days);
    days.map(|day| day.tokens).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_helper_computed_for_this_device_is_counted_here_and_kept() -> anyhow::Result<()> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let mut house = Household::sharing(plans).await?;
    assert_eq!(helped(&house.asking().view().await?), 0);
    let told = house.asking().answer(&Wish::text("Once upon a time", 8)).await?;
    assert!(told.uses(HELPER), "{told:?}");
    let least = (told.prompt_ids.len() + told.ids.len() - 1) as u64;
    let view = house.asking().until("what was helped", |view| helped(view) >= least).await?;
    assert!(device(&view, HELPER).is_some_and(|helper| helper.helped_days.len() <= 2));
    let before = helped(&view);
    assert!(before < 3 * least, "{before} of at least {least}: the prompt once, and each token");
    // Nothing was asked of the one that asks.
    let there = house.node(1).view().await?;
    assert!(device(&there, ASKING).is_some_and(|asking| asking.helped_days.is_empty()));

    house.node_mut(0).leave().await?;
    house.node_mut(0).start_again().await?;
    house.asking().until("what was helped before", |view| helped(view) == before).await?;
    // What is not paired is not remembered.
    let id = device(&house.asking().view().await?, HELPER).unwrap().id.clone();
    house.asking().client().forget(id).await?;
    house.asking().until("nobody", |view| view.devices.iter().all(|one| !one.paired)).await?;
    assert_eq!(helped(&house.asking().view().await?), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_helper_brings_is_found_once_it_was_measured() -> anyhow::Result<()> {
    let asking = NodePlan::new(ASKING).with("distributed_inference.pooling", "\"when_faster\"");
    let house = Household::sharing([asking, NodePlan::new(HELPER).offering("1-4")]).await?;
    let asking = house.asking();
    assert!(asking.pipeline().await?.gains.is_empty(), "nothing was asked yet");
    asking.answer(&Wish::text("Once upon a time", 8)).await?;
    let found = async {
        loop {
            let gains = asking.pipeline().await?.gains;
            match gains.into_iter().find(|gain| gain.device == HELPER) {
                Some(gain) => return anyhow::Ok(gain),
                None => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let gain = tokio::time::timeout(LIMIT, found).await??;
    assert!(gain.with_it > 0.0 && gain.without_it.is_some_and(|alone| alone > 0.0), "{gain:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_download_a_fresh_computer_says_how_fast_a_model_would_be() -> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING)]).await?;
    let speed = |view: &HouseholdView, id: &str| {
        let entry = view.catalogue.iter().find(|entry| entry.id == id);
        entry.and_then(|entry| entry.fit.tokens_per_second)
    };
    // Once nothing has gone on for a while.
    let told = |view: &HouseholdView| speed(view, "smollm2-360m").is_some();
    let view = house.asking().until("how fast a model would be", told).await?;
    let (small, larger) = (speed(&view, "smollm2-360m"), speed(&view, "qwen3.5-2b"));
    assert!(small > larger && larger > Some(0.0), "{small:?} {larger:?}");
    let nowhere = |entry: &CatalogueView| entry.fit.kind == FitKind::Nowhere;
    let mut told_of_nowhere = view.catalogue.iter().filter(|entry| nowhere(entry));
    assert!(told_of_nowhere.all(|entry| entry.fit.tokens_per_second.is_none()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_only_together_has_a_speed_once_both_computers_have_measured_themselves()
-> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER)]).await?;
    // Which entries those are depends on the machine under test; each that fits anywhere is told.
    let is_told = |entry: &CatalogueView| {
        entry.fit.kind == FitKind::Nowhere || entry.fit.tokens_per_second.is_some()
    };
    let lends = |view: &HouseholdView| device(view, HELPER).is_some_and(|it| it.connected);
    let told = |view: &HouseholdView| lends(view) && view.catalogue.iter().all(is_told);
    house.asking().until("every speed", told).await?;
    Ok(())
}
