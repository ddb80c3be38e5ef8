//! A device that lends says how fast it is before anybody has asked it for anything.

use std::fs;

use nook_api::views::Trust;
use nook_link::LinkEvent;
use nook_testkit::{Device, Household, NodePlan, skip};
use nook_wire::{Message, OffloadOffer, ShardAdvert};

const LENDING: &str = "Study PC";

/// Whether a battery is drained here: then no device measures itself.
fn is_on_battery() -> bool {
    let Ok(supplies) = fs::read_dir("/sys/class/power_supply") else { return false };
    let states = supplies.flatten().map(|entry| fs::read_to_string(entry.path().join("status")));
    states.flatten().any(|state| state.trim() == "Discharging")
}

fn lending(name: &'static str) -> NodePlan {
    let plan = NodePlan::new(name).offering("1-4");
    plan.with("distributed_inference.host.serve_shards", "true")
}

/// The first advert that `device` hears of which `is_so`.
async fn heard(
    device: &mut Device,
    is_so: impl Fn(&ShardAdvert) -> bool,
) -> anyhow::Result<ShardAdvert> {
    loop {
        if let LinkEvent::Control { message: Message::Advert(advert), .. } =
            device.next_event().await?
            && let Some(shard) = advert.shards.into_iter().find(&is_so)
        {
            return Ok(shard);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lending_device_measures_itself_once_gives_the_memory_back_and_remembers()
-> anyhow::Result<()> {
    if is_on_battery() {
        skip("a_lending_device_measures_itself_once", "on battery");
        return Ok(());
    }
    let mut house = Household::strangers([lending(LENDING)]).await?;
    let mut device = Device::start("Kitchen laptop")?;
    device.pair_with(house.node(0), Trust::Trusted).await?;
    let is_measured = |shard: &ShardAdvert| {
        shard.decode_us_per_layer.is_some() && shard.prefill_us_per_layer_token.is_some()
    };
    let shard = heard(&mut device, is_measured).await?;
    assert!(shard.decode_us_per_layer > Some(0), "{shard:?}");
    // Nobody has asked for anything, and what it took for that is free again.
    let is_free = |vitals: &nook_api::Vitals| {
        vitals.workers.iter().all(|it| (it.weight_bytes, it.sessions, it.parked) == (0, 0, 0))
    };
    house.node(0).until_vitals("its memory is free", is_free).await?;
    // The next start knows it, and does not measure again.
    house.node_mut(0).leave().await?;
    assert!(fs::read_to_string(house.node(0).home().join("measured.json"))?.contains("decode"));
    house.node_mut(0).start_again().await?;
    let again = heard(&mut device, |_| true).await?;
    assert!(is_measured(&again), "{again:?}");
    assert!(house.node(0).workers().is_empty(), "no worker was started for that");
    Ok(())
}

/// The first offer to run a model whole that `device` hears of which `is_so`.
async fn heard_whole(
    device: &mut Device,
    is_so: impl Fn(&OffloadOffer) -> bool,
) -> anyhow::Result<OffloadOffer> {
    loop {
        if let LinkEvent::Control { message: Message::OffloadOffers(offers), .. } =
            device.next_event().await?
            && let Some(offer) = offers.offers.into_iter().find(&is_so)
        {
            return Ok(offer);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_the_same_person_says_what_whole_requests_take_before_anybody_has_asked()
-> anyhow::Result<()> {
    if is_on_battery() {
        skip("a_device_of_the_same_person_says_what_whole_requests_take", "on battery");
        return Ok(());
    }
    let plan = NodePlan::new(LENDING).with("distributed_inference.host.serve_shards", "true");
    let house = Household::strangers([plan]).await?;
    let mut device = Device::start("Kitchen laptop")?;
    device.pair_with(house.node(0), Trust::Own).await?;
    let offer = heard_whole(&mut device, |offer| offer.ends_us.is_some()).await?;
    assert!(offer.ends_us > Some(0), "{offer:?}");
    let is_free = |vitals: &nook_api::Vitals| {
        vitals.workers.iter().all(|it| (it.weight_bytes, it.sessions, it.parked) == (0, 0, 0))
    };
    house.node(0).until_vitals("its memory is free", is_free).await?;
    // What has been freed is not said to be in memory.
    heard_whole(&mut device, |offer| offer.ends_us.is_some() && !offer.ends_held).await?;
    // A device that comes later hears all of it at once, and how fast the model is read too.
    let mut late = Device::start("Attic PC")?;
    late.pair_with(house.node(0), Trust::Own).await?;
    let offer = heard_whole(&mut late, |_| true).await?;
    assert!(offer.ends_us.is_some() && offer.load_kb_per_s > Some(0), "{offer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_lends_nothing_measures_nothing() -> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new("Attic PC"), lending(LENDING)]).await?;
    // The one that lends is through with it, so the other one has had the time.
    let is_through = |view: &nook_api::views::PipelineView| {
        is_on_battery() || view.measured.iter().any(|of| of.decode_us_per_layer.is_some())
    };
    house.node(1).until_pipeline("it has measured itself", is_through).await?;
    assert!(house.node(0).workers().is_empty());
    assert!(house.node(0).pipeline().await?.measured.is_empty());
    Ok(())
}
