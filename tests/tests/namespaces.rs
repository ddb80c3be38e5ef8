//! Three machines on a network of their own: three network namespaces on a bridge, nothing else on
//! it, and no way out of it.

use std::future::Future;
use std::time::Duration;

use nook_node::views::Trust;
use nook_testkit::{Bridge, Household, NodePlan, Signal, Told, Wish, skip};

const NAMES: [&str; 3] = ["Kitchen laptop", "Study PC", "Attic PC"];

/// Tokens of a reply.
const TOKENS: u32 = 120;

/// The network, and the household on it. The household ends first.
struct Street {
    house: Household,
    bridge: Bridge,
}

/// Three nodes in three namespaces that found each other by mDNS and paired by code; `None`, loudly,
/// where namespaces are not allowed.
async fn street(test: &str) -> anyhow::Result<Option<Street>> {
    let bridge = match Bridge::build(NAMES.len()) {
        Ok(bridge) => bridge,
        Err(why) => {
            skip(test, &format!("no network namespaces: {why:#}"));
            return Ok(None);
        }
    };
    let offers = ["0-5", "1-2", "3-4"];
    let plan = |room: usize| {
        NodePlan::new(NAMES[room])
            .offering(offers[room])
            .with("network.loopback", "false")
            .behind(bridge.enter(room))
    };
    let house = Household::strangers((0..NAMES.len()).map(plan)).await?;
    for helper in 1..NAMES.len() {
        house.pair_seen(0, helper, Trust::Trusted).await?;
        house.node(helper).share(true).await?;
    }
    house.until_all_lend("ember").await?;
    for device in house.asking().view().await?.devices {
        let inside =
            device.addresses.iter().all(|at| at.contains("10.77.0.") || at.contains("fe80"));
        assert!(inside, "{device:#?}");
    }
    Ok(Some(Street { house, bridge }))
}

/// A reply in whose middle something happens equals an undisturbed one.
async fn check<F>(street: &mut Street, fault: F) -> anyhow::Result<Told>
where
    F: AsyncFnOnce(&mut Street) -> anyhow::Result<()>,
{
    let wish = Wish::text("Once upon a time", TOKENS);
    let undisturbed = street.house.asking().answer(&wish.clone().alone()).await?;
    let (reply, held) = street.house.asking().held_reply(&wish, 10).await?;
    let before = reply.told();
    assert!(before.uses(NAMES[1]) && before.uses(NAMES[2]), "{before:?}");
    fault(street).await?;
    drop(held);
    let told = reply.whole().await?;
    assert_eq!(told.ids, undisturbed.ids, "{told:?}");
    assert_eq!(told.text, undisturbed.text);
    Ok(told)
}

#[tokio::test(flavor = "multi_thread")]
async fn three_machines_find_each_other_pair_and_answer_like_one() -> anyhow::Result<()> {
    let test = "three_machines_find_each_other_pair_and_answer_like_one";
    let Some(mut street) = street(test).await? else { return Ok(()) };
    let told = check(&mut street, async |_| Ok(())).await?;
    assert_eq!(told.devices(), [NAMES[0], NAMES[1], NAMES[2], NAMES[0]]);
    assert!(told.failovers.is_empty(), "{told:?}");
    let told = check(&mut street, async |street| {
        street.house.node_mut(1).signal(Signal::Kill);
        Ok(())
    })
    .await?;
    assert!(!told.uses(NAMES[1]) && told.uses(NAMES[2]), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_a_machine_that_is_frozen_for_ten_seconds_changes_nothing() -> anyhow::Result<()> {
    let test = "f2_a_machine_that_is_frozen_for_ten_seconds_changes_nothing";
    let Some(mut street) = street(test).await? else { return Ok(()) };
    let mut awake: Option<std::pin::Pin<Box<dyn Future<Output = ()>>>> = None;
    let told = check(&mut street, async |street| {
        street.house.node_mut(1).signal(Signal::Stop);
        awake = Some(Box::pin(tokio::time::sleep(Duration::from_secs(10))));
        Ok(())
    })
    .await?;
    assert!(!told.uses(NAMES[1]), "{told:?}");
    if let Some(awake) = awake {
        awake.await;
    }
    street.house.node_mut(1).signal(Signal::Continue);
    street.house.until_all_lend("ember").await?;
    let told = check(&mut street, async |_| Ok(())).await?;
    assert!(told.uses(NAMES[1]), "it helps again: {told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_pulled_cable_changes_nothing_and_mends() -> anyhow::Result<()> {
    let test = "f3_a_pulled_cable_changes_nothing_and_mends";
    let Some(mut street) = street(test).await? else { return Ok(()) };
    let told = check(&mut street, async |street| street.bridge.unplug(1)).await?;
    assert!(!told.uses(NAMES[1]) && told.uses(NAMES[2]), "{told:?}");
    street.bridge.plug(1)?;
    street.house.until_all_lend("ember").await?;
    let told = check(&mut street, async |_| Ok(())).await?;
    assert!(told.uses(NAMES[1]), "it helps again: {told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f8_an_asking_machine_that_gets_another_address_loses_nothing() -> anyhow::Result<()> {
    let test = "f8_an_asking_machine_that_gets_another_address_loses_nothing";
    let Some(mut street) = street(test).await? else { return Ok(()) };
    check(&mut street, async |street| street.bridge.readdress(0, 77)).await?;
    street.house.until_all_lend("ember").await?;
    let told = check(&mut street, async |_| Ok(())).await?;
    assert_eq!(told.devices(), [NAMES[0], NAMES[1], NAMES[2], NAMES[0]], "{told:?}");
    Ok(())
}
