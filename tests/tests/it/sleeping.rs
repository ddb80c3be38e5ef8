//! A helper whose computer is about to sleep leaves in order: the lid may be closed in the middle
//! of a reply.
//!
//! Its node hears of it over a real bus, from somebody who plays logind (`SystemBus`).

use std::time::Duration;

use nook_api::views::{HouseholdView, PauseReason, SharingState};
use nook_base::clock;
use nook_testkit::{Household, Locks, NodePlan, Signal, SystemBus, Wish, skip};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// After so long logind lets the machine sleep, whoever still holds a lock.
const LOGIND_WAITS: Duration = Duration::from_secs(5);

/// Two nodes, and the bus of the second; nothing where there is no bus to start.
struct Home {
    house: Household,
    bus: SystemBus,
}

impl Home {
    async fn begin(test: &str) -> anyhow::Result<Option<Self>> {
        let Some(mut bus) = bus(test) else { return Ok(None) };
        bus.begin().await?;
        let helper = NodePlan::new(HELPER).offering("1-4").behind(bus.prefix());
        let house = Household::sharing([NodePlan::new(ASKING), helper]).await?;
        bus.until("a lock is held", |locks| locks.held() == 1).await?;
        Ok(Some(Self { house, bus }))
    }
}

fn bus(test: &str) -> Option<SystemBus> {
    SystemBus::new().inspect_err(|error| skip(test, &format!("{error:#}"))).ok()
}

fn is_asleep(view: &HouseholdView) -> bool {
    view.sharing.paused.as_ref().is_some_and(|paused| paused.reason == PauseReason::Sleep)
}

fn nobody_lends(view: &HouseholdView) -> bool {
    view.devices.iter().all(|device| device.lends.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lid_closed_mid_reply_changes_nothing_and_the_machine_sleeps_when_no_stream_is_left()
-> anyhow::Result<()> {
    let Some(Home { mut house, bus }) = Home::begin("a lid closed mid-reply").await? else {
        return Ok(());
    };
    let wish = Wish::text("Once upon a time", 160);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish, 10).await?;
    assert!(reply.told().uses(HELPER), "{:?}", reply.told());

    bus.prepare_for_sleep(true).await?;
    loop {
        let locks = bus.locks();
        let view = house.node(1).view().await?;
        if view.sharing.guests.is_empty() && is_asleep(&view) {
            break;
        }
        // Looked at before the guests were, who only leave.
        assert_eq!(locks, Locks { given: 1, returned: 0 }, "{:?}", view.sharing);
    }
    bus.until("the machine may sleep", |locks| locks.held() == 0).await?;
    let sharing = house.node(1).view().await?.sharing;
    assert!(sharing.on && sharing.state == SharingState::Paused, "{sharing:?}");
    assert!(sharing.status_line.starts_with("Sharing paused while this computer sleeps"));
    // As it does now.
    house.node_mut(1).signal(Signal::Stop);
    house.asking().until("no offer", nobody_lends).await?;
    drop(held);
    let told = reply.whole().await?;
    told.assert_says(&undisturbed);
    assert!(!told.uses(HELPER), "{told:?}");
    // Drained, not broken off: nobody was booked as lost.
    let log = house.asking().log();
    assert!(told.lost.is_empty() && !log.contains("left out"), "{told:?}, {log}");

    house.node_mut(1).signal(Signal::Continue);
    house.node(1).until_no_worker().await?;
    bus.prepare_for_sleep(false).await?;
    house.until_all_lend("ember").await?;
    bus.until("a new lock", |locks| *locks == Locks { given: 2, returned: 1 }).await?;
    assert!(house.asking().answer(&wish).await?.uses(HELPER));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_never_ends_holds_no_sleep_up() -> anyhow::Result<()> {
    let Some(Home { mut house, bus }) = Home::begin("a step that never ends").await? else {
        return Ok(());
    };
    let wish = Wish::text("Once upon a time", 60);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    assert_eq!(house.node_mut(1).signal_workers(Signal::Stop), 1);
    drop(held);
    let begun = clock::now();
    bus.prepare_for_sleep(true).await?;
    bus.until("the machine may sleep", |locks| locks.held() == 0).await?;
    assert!(begun.elapsed() < LOGIND_WAITS, "{:?}", begun.elapsed());
    reply.whole().await?.assert_says(&undisturbed);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_does_not_share_holds_no_lock() -> anyhow::Result<()> {
    let Some(Home { house, bus }) = Home::begin("a device that does not share").await? else {
        return Ok(());
    };
    let helper = house.node(1);
    helper.share(false).await?;
    bus.until("no lock", |locks| locks.held() == 0).await?;
    // Switched off while it sleeps, it is on again afterwards as if it had never been off.
    helper.share(true).await?;
    bus.until("a lock", |locks| locks.held() == 1).await?;
    bus.prepare_for_sleep(true).await?;
    helper.until("the sleep", is_asleep).await?;
    helper.share(false).await?;
    bus.prepare_for_sleep(false).await?;
    bus.until("no lock", |locks| locks.held() == 0).await?;
    helper.share(true).await?;
    house.until_all_lend("ember").await?;
    bus.until("a lock", |locks| locks.held() == 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_comes_late_or_again_is_found_and_one_that_is_lost_ends_the_sleep()
-> anyhow::Result<()> {
    let Some(mut bus) = bus("a bus that comes late") else { return Ok(()) };
    let helper = NodePlan::new(HELPER).offering("1-4").behind(bus.prefix());
    let house = Household::sharing([NodePlan::new(ASKING), helper]).await?;
    bus.begin().await?;
    bus.until("a lock", |locks| locks.held() == 1).await?;
    bus.prepare_for_sleep(true).await?;
    house.asking().until("no offer", nobody_lends).await?;
    bus.end();
    house.until_all_lend("ember").await?;
    bus.begin().await?;
    bus.until("a new lock", |locks| *locks == Locks { given: 2, returned: 1 }).await?;
    Ok(())
}
