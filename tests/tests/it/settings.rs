//! Settings that show only in a whole node: each is changed, and the node then does something else.
//!
//! `crates/nook-store/tests/behaviour.rs` has the list of all settings with their tests.

use std::net::TcpListener;
use std::process::{Command, Output};

use nook_api::views::{HouseholdView, PauseReason, SettingAsk, SettingData, Trust};
use nook_api::{NodeCalls as _, PairTarget, Request, Vitals};
use nook_base::{ActivationDtype, ErrorCode, LayerRange};
use nook_testkit::{Device, Garbage, Household, Lender, Node, NodePlan, Told, Wish, nook};
use nook_wire::Open;
use serde_json::Value;

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

/// Where a node without a keychain keeps its key.
const SECRET: &str = "identity.key";

/// Changes a setting through the owner's door.
async fn set(node: &Node, key: &str, value: impl Into<SettingData>) -> anyhow::Result<()> {
    Ok(node.do_this(Request::ChangeSetting { setting: SettingAsk::new(key, value) }).await?)
}

/// `nook settings` with the home of `node`.
fn settings(node: &Node, words: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(node.home()).arg("settings").args(words);
    Ok(command.env_remove("INGLENOOK_HOME").output()?)
}

fn nobody_lends(view: &HouseholdView) -> bool {
    view.devices.iter().all(|device| device.lends.is_empty())
}

async fn story(node: &Node) -> anyhow::Result<Told> {
    node.answer(&Wish::text("Once upon a time", 8)).await
}

/// Two helpers that share the middle of the built-in model between them.
async fn three() -> anyhow::Result<Household> {
    Household::sharing([
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering("1-2"),
        NodePlan::new(SECOND).offering("3-4"),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_a_new_name_is_heard_by_the_other_devices() -> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new(ASKING), NodePlan::new(FIRST)]).await?;
    let (asking, other) = (house.asking(), house.node(1));
    assert_eq!(other.view().await?.me.name, FIRST);
    set(other, "device.name", "Winter garden").await?;
    let window = other.client().show_code().await?;
    let address = window.addresses.last().cloned().unwrap_or_default();
    let target = PairTarget::Address(address);
    let paired = asking.client().join(target, window.code.into()).await?;
    assert_eq!(paired.name, "Winter garden");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_does_not_work_with_others_neither_shares_nor_asks() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.enabled";
    let house = three().await?;
    let asking = house.asking();
    assert!(story(asking).await?.uses(FIRST));
    set(asking, KEY, false).await?;
    assert_eq!(story(asking).await?.devices(), [ASKING]);
    set(asking, KEY, true).await?;
    assert!(story(asking).await?.uses(FIRST));
    let lends = |view: &HouseholdView, name: &str| {
        view.devices.iter().any(|device| device.name == name && !device.lends.is_empty())
    };
    set(house.node(1), KEY, false).await?;
    asking.until("no offer of the first", |view| !lends(view, FIRST)).await?;
    assert!(lends(&asking.view().await?, SECOND));
    set(house.node(1), KEY, true).await?;
    asking.until("an offer of the first", |view| lends(view, FIRST)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_has_no_more_computers_than_the_owner_allows() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.max_shards_per_request";
    let house = three().await?;
    let asking = house.asking();
    assert_eq!(story(asking).await?.devices(), [ASKING, FIRST, SECOND, ASKING]);
    set(asking, KEY, 1).await?;
    assert_eq!(story(asking).await?.devices(), [ASKING]);
    set(asking, KEY, 2).await?;
    assert_eq!(story(asking).await?.devices(), [ASKING, FIRST, SECOND, ASKING]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_requests_leave_only_for_the_models_that_are_named() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.whole_models";
    let asks = NodePlan::new(ASKING).with("distributed_inference.whole_on_own_devices", "true");
    let house = Household::sharing([asks, NodePlan::new(FIRST)]).await?;
    let asking = house.asking();
    asking.trust(FIRST, Trust::Own).await?;
    house.node(1).trust(ASKING, Trust::Own).await?;
    let takes = |view: &HouseholdView| view.devices.iter().any(|device| device.takes_whole);
    asking.until("whole requests may go there", takes).await?;
    assert_eq!(story(asking).await?.devices(), [FIRST], "no model is named");
    let kept = |count: u16| {
        move |vitals: &Vitals| vitals.workers.iter().map(|it| it.parked).sum::<u16>() == count
    };
    house.node(1).until_vitals("the request is kept", kept(1)).await?;
    set(asking, KEY, SettingData::Texts(vec!["another".to_owned()])).await?;
    house.node(1).until_vitals("what was kept of it goes", kept(0)).await?;
    let here = story(asking).await?;
    assert_eq!(here.devices().first(), Some(&ASKING), "{here:?}");
    set(asking, KEY, SettingData::Texts(vec!["another".to_owned(), "Ember".to_owned()])).await?;
    assert_eq!(story(asking).await?.devices(), [FIRST]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_layers_that_are_named_are_offered() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.host.layers";
    let house = three().await?;
    let asking = house.asking();
    assert_eq!(story(asking).await?.devices(), [ASKING, FIRST, SECOND, ASKING]);
    set(house.node(1), KEY, "1-4").await?;
    let offers = |view: &HouseholdView, first: u32, last: u32| {
        let lends = view.devices.iter().filter(|it| it.name == FIRST).flat_map(|it| &it.lends);
        lends.into_iter().any(|lend| (lend.first_layer, lend.last_layer) == (first, last))
    };
    asking.until("it offers all of the middle", |view| offers(view, 1, 4)).await?;
    assert_eq!(story(asking).await?.devices(), [ASKING, FIRST, ASKING]);
    set(house.node(1), KEY, "3-3").await?;
    asking.until("it offers one layer", |view| offers(view, 3, 3)).await?;
    assert_eq!(story(asking).await?.devices(), [ASKING], "nobody offers the layers 1 and 2");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_compute_on_prompts_is_decided_by_least_trust() -> anyhow::Result<()> {
    const KEY: &str = "gate.borrow";
    let house = three().await?;
    let asking = house.asking();
    assert!(story(asking).await?.uses(FIRST));
    set(asking, KEY, "own").await?;
    assert_eq!(
        story(asking).await?.devices(),
        [ASKING],
        "both are trusted, and that is too little"
    );
    for helper in [FIRST, SECOND] {
        asking.trust(helper, Trust::Guest).await?;
    }
    set(asking, KEY, "guest").await?;
    asking.until("both lend again", |view| !nobody_lends(view)).await?;
    assert!(story(asking).await?.uses(FIRST), "a guest is enough now");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_layers_are_lent_to_is_decided_by_least_trust() -> anyhow::Result<()> {
    const KEY: &str = "gate.lend";
    let plan = NodePlan::new(FIRST).offering("1-4");
    let house =
        Household::strangers([plan.with("distributed_inference.host.serve_shards", "true")])
            .await?;
    let node = house.asking();
    let (_, model) = node.built_in().await?;
    let mut device = Device::start("Visitor")?;
    let peer = device.pair_with(node, Trust::Guest).await?;
    let open = Open {
        session: 7,
        model,
        layers: LayerRange::with_len(1, 2),
        dtype: ActivationDtype::F32,
        positions_max: 64,
        resume: None,
    };
    for (least, refused) in [
        ("trusted", Some(ErrorCode::TrustDenied)),
        ("guest", None),
        ("own", Some(ErrorCode::TrustDenied)),
    ] {
        set(node, KEY, least).await?;
        assert_eq!(device.ask_for(peer, open.clone()).await?.refused(), refused, "{least}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_as_many_failures_as_allowed_this_computer_is_preferred() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.fallback_to_local_after_failures";
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let asking = house.asking();
    let mut lenders = Vec::new();
    for name in [FIRST, SECOND, "Cellar PC"] {
        lenders.push(Lender::start(name, asking, LayerRange::with_len(1, 4)).await?);
    }
    // Whoever is found wrong before has no part in the reply, and so cannot fail in it.
    for lender in &lenders {
        lender.until_compared().await?;
        lender.answer_with(Some(Garbage::NotANumber));
    }
    let wish = Wish::text("Once upon a time", 8).over(ActivationDtype::F32);
    set(asking, KEY, 1).await?;
    let told = asking.answer(&wish).await?;
    assert!(told.fell_back && told.lost.len() == 2, "the third is not asked: {told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_listens_at_the_port_that_is_set_and_at_any_free_one_otherwise() -> anyhow::Result<()>
{
    const KEY: &str = "network.listen_port";
    let free = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut house =
        Household::strangers([NodePlan::new(ASKING).with(KEY, free.to_string())]).await?;
    assert_eq!(house.asking().view().await?.me.listen_port, free);
    set(house.asking(), KEY, 0).await?;
    assert_eq!(house.asking().view().await?.me.listen_port, free, "from the next start");
    house.node_mut(0).leave().await?;
    let _taken = TcpListener::bind(("0.0.0.0", free))?;
    house.node_mut(0).start_again().await?;
    assert_ne!(house.asking().view().await?.me.listen_port, free);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_addresses_count_only_where_the_household_is_on_one_machine() -> anyhow::Result<()>
{
    const KEY: &str = "network.loopback";
    let shown = async |loopback: &str| {
        let house = Household::strangers([NodePlan::new(ASKING).with(KEY, loopback)]).await?;
        anyhow::Ok(house.asking().client().show_code().await?.addresses)
    };
    let is_here = |address: &String| address.starts_with("127.");
    assert!(shown("true").await?.iter().any(is_here));
    let without = shown("false").await?;
    // Where this machine has no other address, this one is better than none.
    assert!(!without.iter().any(is_here) || without.len() == 1, "{without:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keychain_is_asked_only_where_it_may_be() -> anyhow::Result<()> {
    const KEY: &str = "device.keyring";
    let mut house = Household::strangers([NodePlan::new(ASKING)]).await?;
    house.node_mut(0).leave().await?;
    // The key of this device is lost, so that a start tells where it has looked for it.
    std::fs::remove_file(house.node(0).home().join(SECRET))?;
    for (choice, told) in [
        ("off", "the keyring is switched off"),
        ("system", "is in the system's keyring, and no keyring answers here"),
    ] {
        assert!(settings(house.node(0), &["set", KEY, choice])?.status.success());
        let mut start = Command::new(nook()?);
        start.arg("--home").arg(house.node(0).home()).args(["up", "--no-port"]);
        // No program answers there, so that nobody's own keychain is touched.
        start.env_remove("INGLENOOK_KEYRING");
        start.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
        let said = start.output()?;
        let sentence = String::from_utf8_lossy(&said.stderr);
        assert!(!said.status.success() && sentence.contains(told), "{choice}: {sentence}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_of_a_silent_device_are_forgotten_after_four_silences() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.shard_health_timeout_seconds";
    let house = Household::strangers([NodePlan::new(ASKING).with(KEY, "8")]).await?;
    let asking = house.asking();
    let _silent = Lender::start(FIRST, asking, LayerRange::with_len(1, 4)).await?;
    asking.until("its offer is forgotten", nobody_lends).await?;
    assert!(asking.view().await?.devices.iter().any(|device| device.connected));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sharing_pauses_until_the_moment_that_is_set() -> anyhow::Result<()> {
    const KEY: &str = "distributed_inference.host.pause.until";
    let house = three().await?;
    let (asking, helper) = (house.asking(), house.node(1));
    let reason = async || {
        let view = helper.view().await?;
        anyhow::Ok(view.sharing.paused.map(|pause| pause.reason))
    };
    set(helper, KEY, 1).await?;
    assert_eq!(reason().await?, None, "that moment is over");
    set(helper, KEY, 4_000_000_000).await?;
    assert_eq!(reason().await?, Some(PauseReason::Owner));
    asking
        .until("no offer of it", |view| view.devices.iter().any(|it| it.lends.is_empty()))
        .await?;
    set(helper, KEY, SettingData::Absent).await?;
    assert_eq!(reason().await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_changes_a_running_node_at_once_and_a_file_without_one()
-> anyhow::Result<()> {
    const STREAMS: &str = "distributed_inference.host.max_concurrent_streams";
    let mut house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let said = settings(house.asking(), &["set", STREAMS, "3", "--json"])?;
    assert!(said.status.success(), "{said:?}");
    let line: Value = serde_json::from_slice(&said.stdout)?;
    assert_eq!((&line["value"], &line["default"]), (&3.into(), &4.into()), "{line}");
    // No look at the file lies between: the node itself has answered.
    assert_eq!(house.asking().view().await?.settings.values[STREAMS], 3.into());
    let refused = settings(house.asking(), &["set", STREAMS, "65"])?;
    let sentence = String::from_utf8(refused.stderr)?;
    assert!(!refused.status.success() && sentence.contains("from 1 to 64"), "{sentence}");
    let listed = settings(house.asking(), &["list", "--changed", "--json"])?;
    let lines: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
    assert!(lines.iter().any(|line| line["key"] == STREAMS), "{lines:?}");

    house.node_mut(0).leave().await?;
    let said = settings(house.asking(), &["set", STREAMS, "--default"])?;
    assert!(said.status.success(), "{said:?}");
    let got = settings(house.asking(), &["get", STREAMS])?;
    assert_eq!(String::from_utf8(got.stdout)?, "4\n");
    house.node_mut(0).start_again().await?;
    assert_eq!(house.asking().view().await?.settings.values[STREAMS], 4.into());
    Ok(())
}
