//! A helper that sleeps is woken over its network card, if its owner lets others do that.
//!
//! Each computer is a network namespace. Nothing can sleep there: the helper's node ends, and the
//! test hears in its place what would wake the computer.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::Context as _;
use nook_api::views::{HouseholdView, Trust};
use nook_testkit::{Household, NodePlan, commands, skip};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// Six bytes 0xff and sixteen times the hardware address.
const PACKET_BYTES: usize = 102;

/// The port of a magic packet.
pub(crate) const DISCARD: u16 = 9;

/// Longest wait for it.
const HEARD_LIMIT: Duration = Duration::from_secs(60);

/// Two paired computers; nothing, loudly, where there are no namespaces.
async fn home(test: &str, helper: NodePlan) -> anyhow::Result<Option<Household>> {
    let asking = NodePlan::new(ASKING).logging("trace");
    let house = Household::apart([asking, helper.logging("trace")]).await?;
    if house.bridge().is_none() {
        skip(test, "no network namespaces");
        return Ok(None);
    }
    house.pair_seen(0, 1, Trust::Trusted).await?;
    Ok(Some(house))
}

async fn falls_asleep(house: &mut Household) -> anyhow::Result<()> {
    house.node_mut(1).leave().await?;
    let is_away = |view: &HouseholdView| view.devices.iter().all(|device| !device.connected);
    house.asking().until("the helper sleeps", is_away).await?;
    Ok(())
}

fn can_be_woken(view: &HouseholdView) -> bool {
    view.devices.iter().any(|device| device.wakeable)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_helper_that_allows_it_is_called_and_waited_for() -> anyhow::Result<()> {
    let test = "a sleeping helper is called";
    let helper = NodePlan::new(HELPER).with("network.let_others_wake", "true");
    let Some(mut house) = home(test, helper).await? else { return Ok(()) };
    house.asking().until("it can be woken", can_be_woken).await?;
    falls_asleep(&mut house).await?;
    let bridge = house.bridge().context("each has a computer of its own")?;
    let Ok(ears) = bridge.hear(1, DISCARD) else {
        skip(test, "no socket may be put into a namespace");
        return Ok(());
    };
    let mac = bridge.mac(1)?;

    let mut wake = commands::command(house.asking().home(), &["devices", "wake", HELPER])?;
    let command = tokio::task::spawn_blocking(move || wake.output());
    let packet = tokio::task::spawn_blocking(move || heard(&ears)).await??;
    assert_eq!(packet, magic(&mac)?);
    let waking = |view: &HouseholdView| view.devices.iter().any(|device| device.waking);
    house.asking().until("it is being woken", waking).await?;
    assert!(!command.is_finished());

    house.node_mut(1).start_again().await?;
    let ended = command.await??;
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.starts_with("Study PC is awake. It took "), "{ended:?}");
    let view = house.asking().view().await?;
    let device = view.devices.iter().find(|device| device.name == HELPER);
    assert!(device.is_some_and(|it| it.woke_seconds.is_some() && !it.waking), "{device:?}");
    let again = commands::run(house.asking().home(), &["devices", "wake", "study"]).await?;
    assert_eq!(again, "Study PC is awake already.\n");

    // It is kept for a start of the asking computer, and forgotten when the owner says so.
    house.node_mut(0).leave().await?;
    house.node_mut(0).start_again().await?;
    house.asking().until("it can be woken", can_be_woken).await?;
    house.node(1).edit_settings("network.let_others_wake", false)?;
    house.asking().until("it cannot be woken", |view| !can_be_woken(view)).await?;
    for node in house.nodes() {
        assert!(!node.log().to_lowercase().contains(&mac), "{} logs {mac}", node.name());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_never_allowed_it_is_not_called() -> anyhow::Result<()> {
    let test = "a helper that never allowed it";
    let Some(mut house) = home(test, NodePlan::new(HELPER)).await? else { return Ok(()) };
    let knows = |view: &HouseholdView| view.devices.iter().any(|it| it.their_terms.is_some());
    house.asking().until("what the helper's owner allows", knows).await?;
    assert!(!can_be_woken(&house.asking().view().await?));
    falls_asleep(&mut house).await?;
    let refused = commands::run(house.asking().home(), &["devices", "wake", HELPER]).await;
    let refused = format!("{:#}", refused.expect_err("it is refused"));
    assert!(refused.contains("Study PC has not said how it can be woken."), "{refused}");
    Ok(())
}

/// The first thing that comes.
pub(crate) fn heard(ears: &UdpSocket) -> anyhow::Result<Vec<u8>> {
    ears.set_read_timeout(Some(HEARD_LIMIT))?;
    let mut packet = vec![0; 2 * PACKET_BYTES];
    let bytes = ears.recv(&mut packet).context("no magic packet came")?;
    packet.truncate(bytes);
    Ok(packet)
}

/// What wakes the card with this address.
pub(crate) fn magic(mac: &str) -> anyhow::Result<Vec<u8>> {
    let mac: Result<Vec<u8>, _> = mac.split(':').map(|it| u8::from_str_radix(it, 16)).collect();
    let packet = [vec![0xff; 6], mac?.repeat(16)].concat();
    anyhow::ensure!(packet.len() == PACKET_BYTES);
    Ok(packet)
}
