//! Devices are asked to hold the layers that the household lacks, decide by their own limits, and
//! let go of what nobody uses.

use std::collections::BTreeSet;
use std::time::Duration;

use nook_api::Vitals;
use nook_api::views::{PipelineView, ShareView, Trust};
use nook_base::{ErrorCode, LayerRange, ModelDigest, PeerId};
use nook_link::LinkEvent;
use nook_testkit::{Device, Household, Node, NodePlan, Wish};
use nook_wire::{Advert, Message, PlaceState, Placed, PlacementRequest};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";
const CAP: &str = "distributed_inference.host.max_lent_memory_mb";
const IDLE: &str = "distributed_inference.host.shard_eviction_idle_seconds";
const STREAMS: &str = "distributed_inference.host.max_concurrent_streams";

/// Room for half of the built-in model's layers with one conversation, in MB: the layers that each
/// helper offers by itself are the first ones.
const HALF: &str = "4";

/// Between two looks at a log.
const LOOK: Duration = Duration::from_millis(100);

fn helper(name: &'static str) -> NodePlan {
    NodePlan::new(name).with(CAP, HALF).with(STREAMS, "1")
}

/// Which layers `node` hears that each device lends.
async fn lent(node: &Node) -> anyhow::Result<Vec<(String, u32, u32)>> {
    let devices = node.view().await?.devices;
    let lends = devices.into_iter().flat_map(|device| {
        let name = device.name;
        device.lends.into_iter().map(move |it| (name.clone(), it.first_layer, it.last_layer))
    });
    Ok(lends.collect())
}

fn share<'a>(view: &'a PipelineView, of: &str) -> Option<&'a ShareView> {
    view.placement.iter().flat_map(|placement| &placement.shares).find(|it| it.device == of)
}

fn answer(view: &PipelineView, of: &str) -> String {
    share(view, of).and_then(|share| share.answer.clone()).unwrap_or_default()
}

/// Whether `of` has the layers that are wanted there. Without an answer it was not asked, because it
/// held them; while it computes a reply with the layers that it lends by itself, it refuses to hold
/// the same ones for longer.
fn has_layers(view: &PipelineView, of: &str) -> bool {
    let answer = share(view, of).map(|share| share.answer.as_deref());
    answer.is_some_and(|said| {
        said.is_none_or(|said| said == "in memory" || said.starts_with("refused (busy)"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_household_that_could_not_divide_the_model_asks_for_the_missing_layers()
-> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING), helper(FIRST), helper(SECOND)]).await?;
    let asking = house.asking();
    let offered = lent(asking).await?;
    assert!(offered.iter().all(|(_, first, last)| (*first, *last) == (0, 2)), "{offered:?}");

    // Nobody has the layers behind the first ones: a reply is made here, and shows what is missing.
    let alone = asking.answer(&Wish::text("Once upon a time", 24).alone()).await?;
    assert_eq!(alone.devices(), [ASKING], "{alone:?}");
    asking.answer(&Wish::text("Once upon a time", 24)).await?;

    let are_placed =
        |view: &PipelineView| [FIRST, SECOND].iter().all(|name| has_layers(view, name));
    let view = asking.until_pipeline("both hold what they were asked for", are_placed).await?;
    let shares: Vec<_> = [FIRST, SECOND]
        .iter()
        .filter_map(|name| share(&view, name))
        .map(|share| (share.first_layer, share.last_layer))
        .collect();
    assert!(shares.contains(&(1, 2)) && shares.contains(&(3, 4)), "{shares:?}");
    let covers =
        |first, last| move |(_, from, to): &(String, u32, u32)| *from <= first && last <= *to;
    asking
        .until("the layers are offered", |view| {
            let lends = view.devices.iter().flat_map(|device| &device.lends);
            let all: Vec<_> =
                lends.map(|it| (String::new(), it.first_layer, it.last_layer)).collect();
            all.iter().any(covers(1, 2)) && all.iter().any(covers(3, 4))
        })
        .await?;

    // No asking, no loading: both have a worker for it that no conversation has started.
    let pooled = asking.answer(&Wish::text("Once upon a time", 24)).await?;
    assert_eq!(pooled.ids, alone.ids);
    assert!(pooled.uses(FIRST) && pooled.uses(SECOND), "{pooled:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layers_that_an_owner_named_win_and_a_refusal_is_not_asked_again() -> anyhow::Result<()>
{
    let named = |name| NodePlan::new(name).offering("1-2");
    let house = Household::sharing([NodePlan::new(ASKING), named(FIRST), named(SECOND)]).await?;
    let asking = house.asking();
    asking.answer(&Wish::text("Once upon a time", 8)).await?;
    let refused = |view: &PipelineView| {
        let names = [FIRST, SECOND].into_iter();
        names.filter(|name| answer(view, name).starts_with("refused (shard_unavailable)")).count()
    };
    asking.until_pipeline("one was asked for the layers behind", |view| refused(view) == 1).await?;
    let offered = lent(asking).await?;
    assert!(offered.iter().all(|(_, first, last)| (*first, *last) == (1, 2)), "{offered:?}");
    // Which layers suit whom is a matter of measured speeds; nobody is asked for the same ones twice.
    let asked = || -> Vec<String> {
        let log = asking.log();
        let lines = log.lines().filter_map(|line| line.split_once("asking a device to hold "));
        lines.map(|(_, wish)| wish.to_owned()).collect()
    };
    // Looked at again and again, and nothing about the devices is new.
    for _ in 0..3 {
        asking.answer(&Wish::text("Once upon a time", 8)).await?;
        let helper = house.node(1);
        helper.until("it has been idle", |view| view.sharing.streams == 0).await?;
    }
    let (all, distinct) = (asked(), BTreeSet::from_iter(asked()));
    assert!(!all.is_empty() && all.len() == distinct.len(), "{all:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_placed_and_is_not_used_is_let_go() -> anyhow::Result<()> {
    let brief = |name| helper(name).with(IDLE, "3");
    let house = Household::sharing([NodePlan::new(ASKING), brief(FIRST), brief(SECOND)]).await?;
    let asking = house.asking();
    asking.answer(&Wish::text("Once upon a time", 8)).await?;
    let holding = |view: &PipelineView| {
        [FIRST, SECOND].into_iter().position(|name| answer(view, name) == "in memory")
    };
    let is_held = |view: &PipelineView| holding(view).is_some();
    let view = asking.until_pipeline("one holds what it was asked for", is_held).await?;
    let holder = holding(&view).unwrap_or_default();
    let name = [FIRST, SECOND][holder];
    asking.until_pipeline("it has let go", |view| answer(view, name) != "in memory").await?;
    // The asker may have wished for something else before: then that is let go in the end.
    let has_let_go = || house.node(1 + holder).log().contains("layers are not held any more");
    while !has_let_go() {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_stops_sharing_has_the_memory_back_and_is_not_asked() -> anyhow::Result<()> {
    let house = Household::sharing([NodePlan::new(ASKING), helper(FIRST), helper(SECOND)]).await?;
    let asking = house.asking();
    asking.answer(&Wish::text("Once upon a time", 8)).await?;
    let are_placed =
        |view: &PipelineView| [FIRST, SECOND].iter().all(|name| has_layers(view, name));
    asking.until_pipeline("both hold what they were asked for", are_placed).await?;
    let holds = |vitals: &Vitals| vitals.workers.iter().any(|worker| worker.weight_bytes > 0);
    house.node(1).until_vitals("it has them in memory", holds).await?;
    house.node(1).share(false).await?;
    house.node(1).until_no_worker().await?;
    Ok(())
}

/// The next message of the connection that `take` wants.
async fn next<T>(device: &mut Device, take: impl Fn(Message) -> Option<T>) -> anyhow::Result<T> {
    loop {
        if let LinkEvent::Control { message, .. } = device.next_event().await?
            && let Some(taken) = take(message)
        {
            return Ok(taken);
        }
    }
}

/// Asks for layers, and what becomes of that in the end.
async fn place(
    device: &mut Device,
    peer: PeerId,
    wish: PlacementRequest,
) -> anyhow::Result<PlaceState> {
    device.until_linked(peer).await?.mux().send(Message::Place(wish)).await?;
    next(device, |message| match message {
        Message::Placed(Placed { model, layers, state })
            if (model, layers) == (wish.model, wish.layers) =>
        {
            (!matches!(state, PlaceState::Loading { .. })).then_some(state)
        }
        _ => None,
    })
    .await
}

/// The next advert that looks as wanted.
async fn advert(device: &mut Device, holds: impl Fn(&Advert) -> bool) -> anyhow::Result<Advert> {
    next(device, |message| match message {
        Message::Advert(advert) if holds(&advert) => Some(advert),
        _ => None,
    })
    .await
}

async fn wish(node: &Node, start: u32, len: u32) -> anyhow::Result<PlacementRequest> {
    let model: ModelDigest = node.view().await?.models[0].digest.parse()?;
    Ok(PlacementRequest { model, layers: LayerRange::with_len(start, len) })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_limit_of_the_host_has_its_code_and_a_grant_is_in_the_adverts() -> anyhow::Result<()> {
    let house = Household::strangers([helper(FIRST)]).await?;
    let host = house.asking();
    let mut device = Device::start("Visitor")?;
    let peer = device.pair_with(host, Trust::Guest).await?;
    let refused = |code| PlaceState::Refused { code };
    let good = wish(host, 3, 2).await?;

    assert_eq!(place(&mut device, peer, good).await?, refused(ErrorCode::TrustDenied));
    host.trust("Visitor", Trust::Trusted).await?;
    let state = place(&mut device, peer, good).await?;
    assert_eq!(state, refused(ErrorCode::SwitchedOff), "sharing is off");
    host.share(true).await?;
    let unknown = PlacementRequest { model: ModelDigest([9; 32]), ..good };
    assert_eq!(place(&mut device, peer, unknown).await?, refused(ErrorCode::FetchFailed));
    let beyond = wish(host, 4, 9).await?;
    assert_eq!(place(&mut device, peer, beyond).await?, refused(ErrorCode::BadRequest));
    let large = wish(host, 1, 5).await?;
    assert_eq!(place(&mut device, peer, large).await?, refused(ErrorCode::OutOfMemory));
    assert!(host.workers().is_empty(), "whoever is refused costs nothing");

    assert_eq!(place(&mut device, peer, good).await?, PlaceState::Held);
    let held = |advert: &Advert| advert.shards.iter().any(|shard| shard.held.contains(good.layers));
    let said = advert(&mut device, held).await?;
    let shard = &said.shards[0];
    assert!(shard.layers.contains(good.layers), "{said:?}");
    assert_eq!(shard.decode_us_per_layer, None, "nobody has measured it");
    assert!(said.memory_free_bytes < 4 << 20, "what is lent is not free: {said:?}");
    // The same again is no work.
    assert_eq!(place(&mut device, peer, good).await?, PlaceState::Held);
    let soon = wish(host, 0, 1).await?;
    let state = place(&mut device, peer, soon).await?;
    // At once it would be too often; a slow machine has waited long enough meanwhile.
    assert!([refused(ErrorCode::RateLimited), PlaceState::Held].contains(&state), "{state:?}");

    host.trust("Visitor", Trust::Guest).await?;
    advert(&mut device, |advert| !advert.sharing).await?;
    let is_free = |log: String| log.contains("layers are not held any more");
    while !is_free(host.log()) {
        device.next_event().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_devices_ask_for_and_does_not_fit_goes_to_one_of_them() -> anyhow::Result<()> {
    let house = Household::strangers([helper(FIRST)]).await?;
    let host = house.asking();
    host.share(true).await?;
    let mut one = Device::start("Visitor")?;
    let mut two = Device::start("Neighbour")?;
    let (at_one, at_two) =
        (one.pair_with(host, Trust::Trusted).await?, two.pair_with(host, Trust::Trusted).await?);
    let (front, back) = (wish(host, 0, 2).await?, wish(host, 4, 2).await?);
    assert_eq!(place(&mut one, at_one, front).await?, PlaceState::Held);
    let code = ErrorCode::ShardUnavailable;
    assert_eq!(place(&mut two, at_two, back).await?, PlaceState::Refused { code });
    // What the first one gives back is the other's for the asking.
    let nothing = PlacementRequest { layers: LayerRange::with_len(0, 0), ..front };
    one.until_linked(at_one).await?.mux().send(Message::Place(nothing)).await?;
    advert(&mut one, |advert| advert.shards.iter().all(|shard| !shard.held.contains(front.layers)))
        .await?;
    assert_eq!(place(&mut two, at_two, back).await?, PlaceState::Held);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn adverts_say_how_fast_a_host_is_once_it_has_computed_for_somebody() -> anyhow::Result<()> {
    let house =
        Household::sharing([NodePlan::new(ASKING), NodePlan::new(FIRST).offering("1-4")]).await?;
    let mut device = Device::start("Visitor")?;
    device.pair_with(house.node(1), Trust::Trusted).await?;
    // Long enough for a whole chunk of prefill, warm: the first reply loads.
    let wish = Wish::text(&"Once upon a time there was a purple vampire. ".repeat(6), 40);
    for _ in 0..2 {
        assert!(house.asking().answer(&wish).await?.uses(FIRST));
    }
    // What it holds it asks its worker, which may be told a little later.
    let is_told = |advert: &Advert| {
        let mut shards = advert.shards.iter();
        let held = LayerRange::with_len(1, 4);
        shards.any(|it| it.held == held && it.decode_us_per_layer.is_some_and(|us| us > 0))
    };
    advert(&mut device, is_told).await?;
    Ok(())
}
