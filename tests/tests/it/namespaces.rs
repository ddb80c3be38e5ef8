//! Three machines on a network of their own, which is all that they know of each other: nothing
//! else is on it, and there is no way out of it. What befalls a cable or an address is done to the
//! network itself.

use std::fs;

use anyhow::Context as _;
use nook_api::views::Trust;
use nook_testkit::{Bridge, Device, Household, NodePlan, Told, Wish, skip};

const NAMES: [&str; 3] = ["Kitchen laptop", "Study PC", "Attic PC"];

/// What has to be so before anything happens to the network.
const APART: &str = "each has a machine of its own";

/// Tokens of a reply.
const TOKENS: u32 = 120;

/// Three nodes in three namespaces that found each other by mDNS and paired by code; `None`,
/// loudly, where namespaces are not allowed.
async fn street(test: &str) -> anyhow::Result<Option<Household>> {
    let offers = ["0-5", "1-2", "3-4"];
    let plans = NAMES.into_iter().zip(offers);
    let plans = plans.map(|(name, layers)| NodePlan::new(name).offering(layers));
    let house = Household::apart(plans).await?;
    if house.bridge().is_none() {
        skip(test, "no network namespaces");
        return Ok(None);
    }
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
    Ok(Some(house))
}

/// A reply in whose middle something happens to the network equals an undisturbed one.
async fn check(
    house: &Household,
    fault: impl FnOnce(&Bridge) -> anyhow::Result<()>,
) -> anyhow::Result<Told> {
    let wish = Wish::text("Once upon a time", TOKENS);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish, 10).await?;
    let before = reply.told();
    assert!(before.uses(NAMES[1]) && before.uses(NAMES[2]), "{before:?}");
    fault(house.bridge().context(APART)?)?;
    drop(held);
    let told = reply.whole().await?;
    told.assert_says(&undisturbed);
    Ok(told)
}

/// The cable of a machine is good again: everybody helps.
async fn mends(house: &Household, room: usize) -> anyhow::Result<()> {
    house.bridge().context(APART)?.plug(room)?;
    house.until_all_lend("ember").await?;
    let told = check(house, |_| Ok(())).await?;
    assert_eq!(told.devices(), [NAMES[0], NAMES[1], NAMES[2], NAMES[0]], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn three_machines_find_each_other_pair_and_answer_like_one() -> anyhow::Result<()> {
    let test = "three_machines_find_each_other_pair_and_answer_like_one";
    let Some(house) = street(test).await? else { return Ok(()) };
    let told = check(&house, |_| Ok(())).await?;
    assert_eq!(told.devices(), [NAMES[0], NAMES[1], NAMES[2], NAMES[0]]);
    assert!(told.failovers.is_empty(), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn f3_a_pulled_cable_changes_nothing_and_mends() -> anyhow::Result<()> {
    let test = "f3_a_pulled_cable_changes_nothing_and_mends";
    let Some(house) = street(test).await? else { return Ok(()) };
    let told = check(&house, |bridge| bridge.unplug(1)).await?;
    assert!(!told.uses(NAMES[1]) && told.uses(NAMES[2]), "{told:?}");
    mends(&house, 1).await
}

#[tokio::test]
async fn f4_a_helper_that_hears_nothing_and_is_heard_changes_nothing_and_mends()
-> anyhow::Result<()> {
    let test = "f4_a_helper_that_hears_nothing_and_is_heard_changes_nothing_and_mends";
    let Some(house) = street(test).await? else { return Ok(()) };
    let told = check(&house, |bridge| bridge.deafen(1)).await?;
    assert!(!told.uses(NAMES[1]) && told.uses(NAMES[2]), "{told:?}");
    mends(&house, 1).await
}

#[tokio::test]
async fn f4_an_asking_machine_that_hears_nothing_and_is_heard_loses_nothing() -> anyhow::Result<()>
{
    let test = "f4_an_asking_machine_that_hears_nothing_and_is_heard_loses_nothing";
    let Some(house) = street(test).await? else { return Ok(()) };
    let told = check(&house, |bridge| bridge.deafen(0)).await?;
    assert!(told.devices().iter().all(|device| *device == NAMES[0]), "{told:?}");
    mends(&house, 0).await
}

#[tokio::test]
async fn f8_an_asking_machine_that_gets_another_address_loses_nothing() -> anyhow::Result<()> {
    let test = "f8_an_asking_machine_that_gets_another_address_loses_nothing";
    let Some(house) = street(test).await? else { return Ok(()) };
    check(&house, |bridge| bridge.readdress(0, 77)).await?;
    house.until_all_lend("ember").await?;
    let told = check(&house, |_| Ok(())).await?;
    assert_eq!(told.devices(), [NAMES[0], NAMES[1], NAMES[2], NAMES[0]], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_test_is_one_more_machine_on_the_network_until_the_household_is_dropped()
-> anyhow::Result<()> {
    let test = "a_test_is_one_more_machine_on_the_network_until_the_household_is_dropped";
    let network = || fs::read_link("/proc/thread-self/ns/net");
    let before = network()?;
    let house = Household::apart_with_test([NodePlan::new(NAMES[0])]).await?;
    if house.bridge().is_none() {
        skip(test, "no network namespaces");
        return Ok(());
    }
    assert_ne!(network()?, before);
    let mut device = Device::start(NAMES[1])?;
    device.pair_with(house.asking(), Trust::Trusted).await?;
    let is_here = |at: &String| at.starts_with("10.77.0.254:");
    house
        .asking()
        .until("where the test is", |view| {
            view.devices
                .iter()
                .any(|device| device.connected && device.addresses.iter().any(is_here))
        })
        .await?;
    drop((device, house));
    assert_eq!(network()?, before);
    Ok(())
}
