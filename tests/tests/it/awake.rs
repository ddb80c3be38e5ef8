//! No computer falls asleep by itself in the middle of a reply, neither the one that asks nor the
//! one that helps; before and afterwards each may.
//!
//! Each has a bus of its own, with somebody who plays logind or a desktop (`SystemBus`).

use nook_testkit::{Desktop, Household, Locks, NodePlan, SystemBus, Wish, skip};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// Two nodes, each on a bus of its own; nothing where there is no bus to start.
struct Home {
    house: Household,
    asking: SystemBus,
    helping: SystemBus,
}

impl Home {
    async fn begin(test: &str) -> anyhow::Result<Option<Self>> {
        let (Some(mut asking), Some(mut helping)) = (bus(test), bus(test)) else {
            return Ok(None);
        };
        asking.begin().await?;
        helping.begin().await?;
        let plans = [
            NodePlan::new(ASKING).behind(asking.prefix()),
            NodePlan::new(HELPER).offering("1-4").behind(helping.prefix()),
        ];
        let house = Household::sharing(plans).await?;
        Ok(Some(Self { house, asking, helping }))
    }
}

fn bus(test: &str) -> Option<SystemBus> {
    SystemBus::new().inspect_err(|error| skip(test, &format!("{error:#}"))).ok()
}

fn is_held(locks: &Locks) -> bool {
    locks.held() == 1
}

fn is_free(locks: &Locks) -> bool {
    locks.held() == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn both_computers_are_awake_while_a_reply_is_made_and_may_sleep_before_and_after()
-> anyhow::Result<()> {
    let Some(Home { house, asking, helping }) = Home::begin("awake while needed").await? else {
        return Ok(());
    };
    let wish = Wish::text("Once upon a time", 60);
    // Brings the workers up.
    assert!(house.asking().answer(&wish).await?.uses(HELPER));
    // Sharing goes on, and a lock that only holds a sleep up is still there.
    helping.until("a sleep is watched for", is_held).await?;
    helping.idle_locks().until("the helper may sleep", is_free).await?;
    asking.idle_locks().until("the asking one may sleep", is_free).await?;

    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    helping.idle_locks().until("the helper stays awake", is_held).await?;
    asking.idle_locks().until("the asking one stays awake", is_held).await?;
    drop(held);
    assert!(reply.whole().await?.uses(HELPER));
    helping.idle_locks().until("the helper may sleep", is_free).await?;
    asking.idle_locks().until("the asking one may sleep", is_free).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_only_shares_never_holds_its_rest_off() -> anyhow::Result<()> {
    let Some(mut bus) = bus("a helper that only shares") else { return Ok(()) };
    bus.begin().await?;
    let helper = NodePlan::new(HELPER).offering("1-4").behind(bus.prefix());
    let house = Household::strangers([helper]).await?;
    house.node(0).share(true).await?;
    bus.until("a sleep is watched for", is_held).await?;
    // It sees an edit of its settings when it looks around, so this is more than one look.
    for name in ["Attic PC", "Cellar PC"] {
        house.node(0).edit_settings("device.name", name)?;
        house.node(0).until("another name", |view| view.me.name == name).await?;
    }
    assert_eq!(bus.idle_locks().now(), Locks::default());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn gnome_is_asked_before_logind_and_again_when_it_was_gone() -> anyhow::Result<()> {
    desktop_is_asked(Desktop::Gnome).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plasma_is_asked_before_logind_and_again_when_it_was_gone() -> anyhow::Result<()> {
    desktop_is_asked(Desktop::Plasma).await
}

async fn desktop_is_asked(desktop: Desktop) -> anyhow::Result<()> {
    let Some(mut bus) = bus("a desktop is asked") else { return Ok(()) };
    bus.begin().await?;
    bus.begin_desktop(desktop).await?;
    let asking = NodePlan::new(ASKING).behind(bus.session_prefix());
    let house = Household::strangers([asking]).await?;
    let wish = Wish::text("Once upon a time", 40).alone();
    house.asking().answer(&wish).await?;

    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    bus.desktop_locks().until("the desktop knows", is_held).await?;
    assert_eq!(bus.idle_locks().now(), Locks::default());
    bus.end_desktop().await?;
    bus.idle_locks().until("logind knows instead", is_held).await?;
    drop(held);
    reply.whole().await?;
    bus.idle_locks().until("it may sleep", is_free).await?;

    bus.begin_desktop(desktop).await?;
    let before = bus.desktop_locks().now().given;
    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    bus.desktop_locks().until("the desktop knows again", |locks| locks.given > before).await?;
    drop(held);
    reply.whole().await?;
    bus.desktop_locks().until("the desktop may sleep", is_free).await?;
    Ok(())
}
