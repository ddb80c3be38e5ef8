//! Two computers as they are installed: nothing is set, they are paired and allowed with the
//! commands that people type, and only one of them has the model. The other gets its part of it by
//! itself, and what follows is answered together.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nook_api::views::{
    HappenedView, HouseholdView, PastReplyView, PipelineView, ReplyEndView, UnusedReason,
};
use nook_model::synthetic::Recipe;
use nook_testkit::installed::{
    MODEL, allow_each_other, device, household, import, lent, pair, partial_file, received, recipe,
};
use nook_testkit::{FileServer, Household, NodePlan, Served, Signal, Told, Wish, commands, skip};

pub(crate) const LAPTOP: &str = "Old laptop";
pub(crate) const PC: &str = "Gaming PC";
const ATTIC: &str = "Attic";

/// What the system lets a process of the laptop have: three layers of [`large_recipe`] and what a
/// node takes besides.
const LAPTOP_BYTES: u64 = 192 << 20;

/// The usual one with layers of 23 MB, each of them with 1 kB of cache a position; 275 MB.
fn large_recipe() -> Recipe {
    Recipe { feed_forward: 6144, ..recipe() }
}

/// The laptop, whose processes may have so little memory that it can make no reply alone.
fn small_laptop() -> NodePlan {
    let limit = format!("--data={LAPTOP_BYTES}");
    NodePlan::installed(LAPTOP).behind(vec!["prlimit".into(), limit.into()])
}

/// A computer that lends memory for five layers of [`large_recipe`] with their caches.
fn small_helper(name: &'static str) -> NodePlan {
    NodePlan::installed(name).with("distributed_inference.host.max_lent_memory_mb", "165")
}

/// Whether others lend all layers but the first, the last and two more beside them, for which
/// [`LAPTOP_BYTES`] suffice.
fn covers_the_middle(view: &HouseholdView) -> bool {
    let lends = view.devices.iter().flat_map(|device| &device.lends);
    let ranges: Vec<_> = lends
        .filter(|lend| lend.model == MODEL)
        .map(|lend| lend.first_layer..=lend.last_layer)
        .collect();
    let missing: Vec<u32> =
        (1..11).filter(|layer| !ranges.iter().any(|range| range.contains(layer))).collect();
    missing.len() <= 2 && missing.iter().all(|layer| !(3..9).contains(layer))
}

/// What a computer with plenty of memory answers alone.
async fn undisturbed(house: &mut Household, file: &Path, wish: &Wish) -> anyhow::Result<Told> {
    house.add(NodePlan::installed("Computer with plenty of memory")).await?;
    let node = house.nodes().len() - 1;
    import(house, node, file).await?;
    house.node(node).answer(&wish.clone().alone()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_without_the_model_gets_its_part_by_itself_and_the_first_reply_is_pooled()
-> anyhow::Result<()> {
    let plans = [small_laptop(), NodePlan::installed(PC)];
    let (mut house, file) = household(plans, large_recipe()).await?;
    let wish = Wish::text("Once upon a time", 12).by(MODEL);
    let whole = undisturbed(&mut house, &file, &wish).await?;
    let before = received(&house, 1)?;
    allow_each_other(house.node(0), house.node(1)).await?;
    let laptop = house.asking();
    let ready = |view: &HouseholdView| {
        lent(view, PC) > 4 && device(view, PC).is_some_and(|pc| pc.unused.is_none())
    };
    laptop.until("the PC has its part", ready).await?;
    let told = laptop.answer(&wish).await?;
    assert_eq!(told.devices(), [LAPTOP, PC, LAPTOP], "{told:?}");
    assert_eq!(told.ids, whole.ids);

    // Only what it computes lies there, and it is no model of its owner's list.
    let length = fs::metadata(&file)?.len();
    let partial = partial_file(&house.node(1).models())?.context("a file with holes")?;
    let taken = partial.taken;
    assert_eq!(partial.length, length);
    assert!(taken < length, "{taken} of {length}");
    // Each byte of it has crossed the cable once: the few layers that were measured are among it.
    let came = received(&house, 1)? - before;
    assert!((taken * 9 / 10..taken * 11 / 10).contains(&came), "{came} for {taken}");
    let listed = house.node(1).view().await?.models;
    assert!(listed.iter().all(|model| model.name != MODEL), "{listed:?}");
    Ok(())
}

/// The disk counts in blocks, and what carries bytes has a size too.
fn about(counted: u64, bytes: u64) -> bool {
    (bytes * 9 / 10..bytes * 11 / 10).contains(&counted)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_from_the_internet_comes_once_and_crosses_the_house_once_for_each_holder()
-> anyhow::Result<()> {
    let test = "what_comes_from_the_internet_comes_once_and_crosses_the_house_once_for_each_holder";
    let house = Household::apart([LAPTOP, PC, ATTIC].map(NodePlan::installed)).await?;
    let Some(bridge) = house.bridge() else {
        skip(test, "no network namespaces");
        return Ok(());
    };
    // What a computer finds on its own loopback stands for the internet: no cable leads there.
    let Ok(listener) = bridge.listen(0) else {
        skip(test, "no socket may be put into a namespace");
        return Ok(());
    };
    let internet = FileServer::start_at(listener)?;
    let file = house.folder().join("household.gguf");
    recipe().write(&file)?;
    let length = fs::metadata(&file)?.len();
    internet.serve("/household.gguf", Served::file(fs::read(&file)?, "\"1\""));
    let source = format!("{}/household.gguf", internet.address());
    let before = [1, 2].map(|node| received(&house, node));
    let laptop = house.asking();
    commands::run(laptop.home(), &["models", "pull", &source, "--name", MODEL]).await?;

    // One helper gets its part by itself. Another owner, who lends nothing, wants all of it.
    pair(&house, 0, 1).await?;
    allow_each_other(laptop, house.node(1)).await?;
    laptop.until("it lends its part", |view| lent(view, PC) > 2).await?;
    let attic = house.node(2);
    pair(&house, 0, 2).await?;
    for (one, other) in [(laptop, ATTIC), (attic, LAPTOP)] {
        commands::run(one.home(), &["devices", "trust", other, "trusted"]).await?;
    }
    attic.until("the laptop gives it", |view| !view.in_house.is_empty()).await?;
    commands::run(attic.home(), &["models", "copy", MODEL]).await?;
    let is_whole = |view: &HouseholdView| {
        view.models.iter().any(|model| model.name == MODEL && model.ends_bytes.is_none())
            && view.downloads.is_empty()
    };
    attic.until("all of it is there", is_whole).await?;

    assert_eq!(internet.sent(), length, "{:?}", internet.asked());
    let [pc, attic] = before;
    let taken = partial_file(&house.node(1).models())?.context("a file with holes")?.taken;
    let came = received(&house, 1)? - pc?;
    assert!(about(came, taken), "{came} for {taken}");
    let came = received(&house, 2)? - attic?;
    assert!(about(came, length), "{came} for {length}");

    // The helper's owner wants all of it now: its part does not cross the cable again.
    let pc = (house.node(1), received(&house, 1)?);
    pc.0.until("somebody gives it", |view| !view.in_house.is_empty()).await?;
    commands::run(pc.0.home(), &["models", "copy", MODEL]).await?;
    pc.0.until("all of it is there", is_whole).await?;
    let came = received(&house, 1)? - pc.1;
    assert!(about(came, length - taken), "{came} for {}", length - taken);
    assert_eq!(internet.sent(), length, "{:?}", internet.asked());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn three_computers_of_which_no_two_suffice_answer_together_and_the_reply_waits_for_one_of_them()
-> anyhow::Result<()> {
    let plans = [small_laptop(), small_helper(PC), small_helper(ATTIC)];
    let (mut house, file) = household(plans, large_recipe()).await?;
    let wish = Wish::text("Once upon a time", 16).by(MODEL);
    let whole = undisturbed(&mut house, &file, &wish).await?;

    // Nobody helps yet: what is missing is said, and nothing is loaded for it.
    let refused = house.asking().reply(&wish).await?.end().await?;
    let (code, sentence) = refused.aborted.context("no memory for it")?;
    assert_eq!(code, "shard_unavailable");
    assert!(sentence.contains(&format!("{PC} may not help")), "{sentence}");

    allow_each_other(house.node(0), house.node(1)).await?;
    allow_each_other(house.node(0), house.node(2)).await?;
    house.asking().until("all layers between are lent", covers_the_middle).await?;
    let told = house.asking().answer(&wish).await?;
    assert_eq!(told.ids, whole.ids);
    assert!(told.uses(PC) && told.uses(ATTIC), "{told:?}");
    assert_eq!(told.devices().first(), Some(&LAPTOP));

    // One of them restarts in the middle of a reply.
    let (mut reply, held) = house.asking().held_reply(&wish, 3).await?;
    house.node_mut(2).signal(Signal::Kill);
    house.node_mut(2).until_it_ended().await?;
    drop(held);
    assert_eq!(reply.until_awaited().await?.awaited, [ATTIC]);

    // Meanwhile others are told what is missing, and nothing is spoilt by asking.
    let refused = house.asking().reply(&wish).await?.end().await?;
    let (_, sentence) = refused.aborted.context("half of the layers are away")?;
    assert!(sentence.contains(&format!("{ATTIC} is not connected")), "{sentence}");

    house.node_mut(2).start_again().await?;
    let told = reply.whole().await?;
    assert_eq!(told.ids, whole.ids, "{told:?}");
    assert!(!told.fell_back, "{told:?}");

    // The list of past replies tells it, newest first; those that were refused are among them.
    let waited = HappenedView::Awaited { device: ATTIC.to_owned() };
    let is_it = |reply: &PastReplyView| {
        reply.happened.contains(&waited) && matches!(reply.end, ReplyEndView::Done { .. })
    };
    let listed = |view: &PipelineView| view.past.iter().any(is_it);
    let view = house.asking().until_pipeline("the wait is remembered", listed).await?;
    let refused = ReplyEndView::Aborted { code: "shard_unavailable".to_owned() };
    assert!(view.past.iter().any(|reply| reply.end == refused), "{view:#?}");
    let said = commands::run(house.asking().home(), &["doctor", "pipeline"]).await?;
    assert!(said.contains(&format!("{ATTIC} was lost")), "{said}");
    assert!(said.contains(&format!("waited for {ATTIC}")), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_gets_a_few_layers_and_is_measured_before_anybody_asks() -> anyhow::Result<()> {
    let plans = [NodePlan::installed(LAPTOP), NodePlan::installed(PC)];
    let (house, _) = household(plans, recipe()).await?;
    allow_each_other(house.node(0), house.node(1)).await?;
    let laptop = house.asking();
    laptop.until("the PC has a few layers", |view| lent(view, PC) >= 2).await?;
    let both = |view: &PipelineView| {
        let is_measured = |name| {
            let mut of_it = view.measured.iter().filter(|of| of.device == name);
            of_it.any(|of| of.model == MODEL && of.decode_us_per_layer.is_some())
        };
        view.last.is_none() && is_measured(LAPTOP) && is_measured(PC)
    };
    laptop.until_pipeline("both are measured, and nobody has asked", both).await?;
    // Which way is faster is this machine's affair; that both say the same is not.
    let wish = Wish::text("Once upon a time", 8).by(MODEL);
    let told = laptop.answer(&wish).await?;
    assert_eq!(told.ids, laptop.answer(&wish.clone().alone()).await?.ids);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn five_computers_of_unequal_speed_with_unequal_models_answer_as_one() -> anyhow::Result<()> {
    let names = [LAPTOP, PC, ATTIC, "Study PC", "Tablet"];
    let (house, file) = household(names.map(NodePlan::installed), recipe()).await?;
    let laptop = house.asking();
    let _slow = laptop.throttle_all_workers(3);
    // One helper has the whole model, two have nothing of it, and the tablet's owner said nothing.
    import(&house, 2, &file).await?;
    for helper in 1..=3 {
        allow_each_other(laptop, house.node(helper)).await?;
    }
    let all = |view: &PipelineView| {
        names[..4].iter().all(|name| {
            let mut of_it = view.measured.iter().filter(|of| of.device == *name);
            of_it.any(|of| of.model == MODEL && of.decode_us_per_layer.is_some())
        })
    };
    laptop.until_pipeline("all but the tablet are measured, and nobody has asked", all).await?;
    let wish = Wish::text("Once upon a time", 8).by(MODEL);
    let told = laptop.answer(&wish).await?;
    assert!(!told.uses("Tablet"), "{told:?}");
    assert_eq!(told.ids, laptop.answer(&wish.clone().alone()).await?.ids);
    for (node, name) in names.iter().enumerate().skip(1) {
        let fetches = [1, 3].contains(&node);
        assert_eq!(partial_file(&house.node(node).models())?.is_some(), fetches, "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_wants_nothing_fetched_is_asked_for_nothing_and_it_is_said()
-> anyhow::Result<()> {
    let plans = [NodePlan::installed(LAPTOP), NodePlan::installed(PC)];
    let (house, _) = household(plans, recipe()).await?;
    let (laptop, pc) = (house.asking(), house.node(1));
    let off = ["settings", "set", "distributed_inference.host.fetch_layers", "false"];
    commands::run(pc.home(), &off).await?;
    allow_each_other(house.node(0), house.node(1)).await?;
    let said = |view: &HouseholdView| {
        device(view, PC).is_some_and(|it| it.unused == Some(UnusedReason::NoModel))
    };
    laptop.until("it fetches nothing", said).await?;
    assert!(partial_file(&pc.models())?.is_none(), "nothing was fetched");
    let wish = Wish::text("Once upon a time", 4).by(MODEL);
    assert_eq!(laptop.answer(&wish).await?.ids, laptop.answer(&wish.clone().alone()).await?.ids);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_fetched_stays_below_the_owners_cap_and_it_is_said() -> anyhow::Result<()> {
    let plans = [NodePlan::installed(LAPTOP), NodePlan::installed(PC)];
    let (house, _) = household(plans, recipe()).await?;
    let (laptop, pc) = (house.asking(), house.node(1));
    // No layer fits.
    let cap = ["settings", "set", "distributed_inference.host.max_fetched_layers_mb", "10"];
    commands::run(pc.home(), &cap).await?;
    allow_each_other(house.node(0), house.node(1)).await?;
    let said = |view: &HouseholdView| {
        device(view, PC).is_some_and(|it| it.unused == Some(UnusedReason::FetchLimit))
    };
    laptop.until("the cap is told", said).await?;
    assert!(partial_file(&pc.models())?.is_none(), "nothing was fetched");
    // Four layers fit, and not five.
    let cap = ["settings", "set", "distributed_inference.host.max_fetched_layers_mb", "60"];
    commands::run(pc.home(), &cap).await?;
    laptop.until("a few layers come", |view| lent(view, PC) > 0).await?;
    let wish = Wish::text("Once upon a time", 4).by(MODEL);
    assert_eq!(laptop.answer(&wish).await?.ids, laptop.answer(&wish.clone().alone()).await?.ids);
    let partial = partial_file(&pc.models())?.context("a file with holes")?;
    assert!(partial.taken <= 60_000_000, "{partial:?}");
    Ok(())
}
