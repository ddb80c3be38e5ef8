//! Sharing that is held back: for everybody else it is off, for its owner it is paused and says
//! why.

use nook_api::views::{HouseholdView, PauseReason, SharingState};
use nook_api::{NodeCalls as _, PauseFor};
use nook_testkit::{Household, NodePlan, Wish};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const QUIET: &str = "distributed_inference.host.pause.quiet_hours";

async fn household() -> anyhow::Result<Household> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    Household::apart(plans).await?.all_share().await
}

fn reason(view: &HouseholdView) -> Option<PauseReason> {
    view.sharing.paused.as_ref().map(|paused| paused.reason)
}

fn nobody_lends(view: &HouseholdView) -> bool {
    view.devices.iter().all(|device| device.lends.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn quiet_hours_hold_back_and_give_memory_back_until_they_are_over() -> anyhow::Result<()> {
    let house = household().await?;
    let (asking, helper) = (house.asking(), house.node(1));
    let told = asking.answer(&Wish::text("Once upon a time", 8)).await?;
    assert!(told.uses(HELPER), "{told:?}");
    assert_eq!(helper.workers().len(), 1);

    helper.edit_settings(QUIET, "00:00-24:00")?;
    helper.until("the pause", |view| reason(view) == Some(PauseReason::QuietHours)).await?;
    let view = helper.view().await?;
    assert!(view.sharing.on, "the owner's choice stands");
    assert_eq!(view.sharing.state, SharingState::Paused);
    assert!(view.sharing.status_line.starts_with("Sharing paused in quiet hours"), "{view:?}");
    asking.until("no offer", nobody_lends).await?;
    helper.until_no_worker().await?;
    let told = asking.answer(&Wish::text("Once upon a time", 8)).await?;
    assert_eq!(told.devices(), [ASKING], "{told:?}");

    helper.edit_settings(QUIET, "")?;
    asking.until("an offer", |view| !nobody_lends(view)).await?;
    assert_eq!(reason(&helper.view().await?), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owners_pause_outlives_a_restart_and_ends_when_told() -> anyhow::Result<()> {
    let mut house = household().await?;
    house.node(1).client().pause_sharing(PauseFor::UntilTomorrow).await?;
    house.asking().until("no offer", nobody_lends).await?;
    let helper = house.node_mut(1);
    helper.leave().await?;
    helper.start_again().await?;
    let (asking, helper) = (house.asking(), house.node(1));
    let view = helper.view().await?;
    assert_eq!(reason(&view), Some(PauseReason::Owner));
    assert!(view.sharing.paused.is_some_and(|paused| paused.until.is_some()));

    helper.client().resume_sharing().await?;
    asking.until("an offer", |view| !nobody_lends(view)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_given_back_at_once_and_not_taken_again_by_the_next_reply() -> anyhow::Result<()>
{
    let house = household().await?;
    let (asking, helper) = (house.asking(), house.node(1));
    assert!(asking.answer(&Wish::text("Once upon a time", 8)).await?.uses(HELPER));
    helper.client().free_memory().await?;
    helper.until_no_worker().await?;
    assert_eq!(reason(&helper.view().await?), Some(PauseReason::Owner));
    asking.until("no offer", nobody_lends).await?;

    // On the asking device, which does not share, nothing is paused; its own model goes too.
    asking.client().free_memory().await?;
    asking.until_no_worker().await?;
    assert_eq!(reason(&asking.view().await?), None);
    assert_eq!(asking.answer(&Wish::text("Once", 4)).await?.devices(), [ASKING]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_others_keep_busy_pauses_and_says_why_until_the_owner_does_not_mind()
-> anyhow::Result<()> {
    const BUSY: &str = "distributed_inference.host.pause.when_busy_percent";
    let house = household().await?;
    let (asking, helper) = (house.asking(), house.node(1));
    asking.until("an offer", |view| !nobody_lends(view)).await?;
    // To the node this test is another program: one that computes.
    let work = Work::begin();
    helper.edit_settings(BUSY, 1)?;
    let view = helper.until("the pause", |view| reason(view) == Some(PauseReason::Busy)).await?;
    assert!(view.sharing.on, "the owner's choice stands");
    assert_eq!(view.sharing.state, SharingState::Paused);
    let line = view.sharing.status_line;
    assert!(line.starts_with("Sharing paused while other programs are busy"), "{line}");
    asking.until("no offer", nobody_lends).await?;
    let told = asking.answer(&Wish::text("Once upon a time", 4)).await?;
    assert_eq!(told.devices(), [ASKING], "{told:?}");

    helper.edit_settings(BUSY, 0)?;
    asking.until("an offer", |view| !nobody_lends(view)).await?;
    assert_eq!(reason(&helper.view().await?), None);
    drop(work);
    Ok(())
}

/// A thread that computes without rest until this is dropped.
struct Work(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Work {
    fn begin() -> Self {
        let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let over = ends.clone();
        std::thread::spawn(move || {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self(ends)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
