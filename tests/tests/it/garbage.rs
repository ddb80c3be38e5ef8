//! A helper whose answers cannot be right: the reply does not show it, and its owner is told.

use nook_api::views::{DeviceTrouble, HouseholdView, Trouble, TroubleView, WrongResult};
use nook_base::{ActivationDtype, LayerRange};
use nook_testkit::{Garbage, Household, Lender, NodePlan, Told, Wish};

const ASKING: &str = "Kitchen laptop";
const HONEST: &str = "Study PC";
const BROKEN: &str = "Attic PC";

/// Replies in which an honest helper may be late, on a machine that has much else to do.
const LATE_MAX: usize = 5;

fn wish() -> Wish {
    Wish::text("Once upon a time", 40).over(ActivationDtype::F32)
}

/// An honest helper, and one that answers what a test wants.
async fn house(honest: &str, broken: LayerRange) -> anyhow::Result<(Household, Lender)> {
    checking(honest, broken, 0).await
}

/// The same with so many spot checks in a thousand chunks.
async fn checking(
    honest: &str,
    broken: LayerRange,
    spot_checks: u32,
) -> anyhow::Result<(Household, Lender)> {
    let asking = NodePlan::new(ASKING)
        .with("distributed_inference.spot_checks_per_thousand", spot_checks.to_string());
    let plans = [asking, NodePlan::new(HONEST).offering(honest)];
    let house = Household::apart_with_test(plans).await?.all_share().await?;
    let asking = house.asking();
    let lender = Lender::start(BROKEN, asking, broken).await?;
    lender.until_compared().await?;
    Ok((house, lender))
}

/// Whether the broken helper's owner is told that what it sent is wrong in just this way.
fn is_suspected(problem: &TroubleView, expected: WrongResult) -> bool {
    matches!(&problem.trouble, Some(Trouble::Device {
        device,
        trouble: DeviceTrouble::Suspect { wrong, .. },
    }) if device == BROKEN && *wrong == expected)
}

/// Whether the reply was begun with this device, which was lost or late then.
fn was_left(told: &Told, device: &str) -> bool {
    told.lost.iter().chain(&told.late).any(|left| left == device)
}

#[tokio::test]
async fn t9_garbage_is_refused_computed_elsewhere_and_told() -> anyhow::Result<()> {
    let (house, lender) = house("1-2", LayerRange::with_len(3, 2)).await?;
    let asking = house.asking();
    let undisturbed = asking.answer(&wish().alone()).await?;
    let whole = asking.answer(&wish()).await?;
    assert!(whole.uses(BROKEN) && whole.ids == undisturbed.ids, "{whole:?}");
    let kinds = [
        (Garbage::NotANumber, WrongResult::NotFinite),
        (Garbage::Zero, WrongResult::ZeroRow),
        (Garbage::Copy, WrongResult::Copy),
        (Garbage::Thousandfold, WrongResult::MuchLarger),
        (Garbage::Subnormal, WrongResult::MuchSmaller),
    ];
    for (kind, expected) in kinds {
        lender.answer_with(Some(kind));
        let told = asking.answer(&wish()).await?;
        assert_eq!(told.ids, undisturbed.ids, "{kind:?}");
        // The honest one stays, unless this busy machine made it late: then it is told to be lost.
        assert!(!told.uses(BROKEN), "{kind:?} {told:?}");
        assert!(told.uses(HONEST) || was_left(&told, HONEST), "{told:?}");
        asking
            .until("its owner is told", |view| {
                view.problems.iter().any(|problem| {
                    problem.sentence.contains(BROKEN)
                        && problem.sentence.contains("cannot be right")
                })
            })
            .await?;
        let blamed = asking.view().await?.problems;
        assert!(blamed.iter().any(|problem| is_suspected(problem, expected)), "{blamed:?}");
        assert!(
            !blamed.iter().any(|problem| problem.sentence.contains(HONEST)),
            "{kind:?} {blamed:?}"
        );
        lender.answer_with(None);
        // The only holder is asked again all the same, and a whole reply clears its name. Where a
        // busy machine makes it late in one, the next one is as good.
        let mut again = asking.answer(&wish()).await?;
        for _ in 0..LATE_MAX {
            assert_eq!(again.ids, undisturbed.ids, "{kind:?}");
            if again.uses(BROKEN) {
                break;
            }
            assert!(was_left(&again, BROKEN), "it was not asked: {again:?}");
            again = asking.answer(&wish()).await?;
        }
        assert!(again.uses(BROKEN), "{kind:?} {again:?}");
        asking
            .until("it is forgiven", |view| {
                !view.problems.iter().any(|problem| problem.sentence.contains("cannot be right"))
            })
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_failed_twice_is_left_out_while_somebody_else_has_the_layers() -> anyhow::Result<()> {
    let (house, lender) = house("1-4", LayerRange::with_len(1, 4)).await?;
    let asking = house.asking();
    let undisturbed = asking.answer(&wish().alone()).await?;
    lender.answer_with(Some(Garbage::Zero));
    for _ in 0..2 {
        let told = asking.answer(&wish()).await?;
        assert_eq!(told.ids, undisturbed.ids);
        assert_eq!(told.failovers.len(), 1, "it was asked, and failed: {told:?}");
    }
    asking
        .until("its owner is told", |view| {
            view.problems.iter().any(|problem| problem.sentence.contains("left out of replies"))
        })
        .await?;
    let told = asking.answer(&wish()).await?;
    assert_eq!(told.devices(), [ASKING, HONEST, ASKING], "{told:?}");
    assert!(told.failovers.is_empty(), "it was not even asked: {told:?}");
    Ok(())
}

#[tokio::test]
async fn t9_other_layers_look_right_and_only_a_second_computation_finds_them() -> anyhow::Result<()>
{
    for spot_checks in [0, 1_000] {
        let (house, lender) = checking("1-2", LayerRange::with_len(3, 2), spot_checks).await?;
        let asking = house.asking();
        let undisturbed = asking.answer(&wish().alone()).await?;
        lender.answer_with(Some(Garbage::OtherLayers));
        let told = asking.answer(&wish()).await?;
        assert_eq!(told.ids == undisturbed.ids, spot_checks > 0, "{spot_checks}: {told:?}");
        assert_eq!(told.uses(BROKEN), spot_checks == 0, "{spot_checks}: {told:?}");
        if spot_checks > 0 {
            asking
                .until("its owner is told", |view| {
                    view.problems.iter().any(|problem| problem.sentence.contains(BROKEN))
                })
                .await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn t9_no_word_of_a_helper_that_is_contradicted_is_shown_where_the_first_ones_wait()
-> anyhow::Result<()> {
    for checked in [false, true] {
        let asking = NodePlan::new(ASKING)
            .with("distributed_inference.check_first_words", checked.to_string());
        let plans = [asking, NodePlan::new(HONEST).offering("1-2")];
        let house = Household::apart_with_test(plans).await?.all_share().await?;
        let asking = house.asking();
        let lender = Lender::start(BROKEN, asking, LayerRange::with_len(3, 2)).await?;
        lender.until_compared().await?;
        let undisturbed = asking.answer(&wish().alone()).await?;
        // The check of devices that are right costs a moment and changes nothing.
        let other = || Wish::text("The little fox went to", 12).over(ActivationDtype::F32);
        let honest = asking.answer(&other()).await?;
        assert_eq!(honest.ids, asking.answer(&other().alone()).await?.ids, "{honest:?}");
        lender.answer_with(Some(Garbage::OtherLayers));
        let told = asking.answer(&wish()).await?;
        assert_eq!(told.ids == undisturbed.ids, checked, "{told:?}");
        assert_eq!(told.uses(BROKEN), !checked, "{told:?}");
        if checked {
            assert!(was_left(&told, BROKEN), "{told:?}");
            let blamed = |problem: &TroubleView| problem.sentence.contains(BROKEN);
            asking.until("its owner is told", |view| view.problems.iter().any(blamed)).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn t9_a_helper_that_turns_wrong_within_a_reply_is_found_by_steps_that_are_drawn()
-> anyhow::Result<()> {
    // Each reply is drawn for itself; that so many are not drawn happens to nobody.
    const REPLIES_MAX: usize = 12;
    let (house, lender) = checking("1-2", LayerRange::with_len(3, 2), 1_000).await?;
    let asking = house.asking();
    // The worker that is held in the middle of a reply is there.
    asking.answer(&wish().alone()).await?;
    for number in 0..REPLIES_MAX {
        lender.answer_with(None);
        let prompt = format!("{number} times upon a time");
        let wish = Wish::text(&prompt, 100).over(ActivationDtype::F32);
        let (reply, held) = asking.held_reply(&wish, 10).await?;
        lender.answer_with(Some(Garbage::Nudged));
        drop(held);
        let told = reply.whole().await?;
        let blamed = |problem: &TroubleView| problem.sentence.contains(BROKEN);
        let is_told = |view: &HouseholdView| view.problems.iter().any(blamed);
        // On a busy machine it may also have been late.
        if was_left(&told, BROKEN) && asking.until("its owner is told", is_told).await.is_ok() {
            return Ok(());
        }
    }
    anyhow::bail!("nobody noticed")
}

#[tokio::test]
async fn t1_a_result_that_trickles_in_byte_by_byte_is_not_waited_for() -> anyhow::Result<()> {
    let (house, lender) = house("1-4", LayerRange::with_len(1, 4)).await?;
    let asking = house.asking();
    let undisturbed = asking.answer(&wish().alone()).await?;
    let (reply, held) = asking.held_reply(&wish(), 10).await?;
    assert!(reply.told().uses(BROKEN), "it has more streams to give");
    lender.answer_with(Some(Garbage::Trickle));
    drop(held);
    let told = reply.whole().await?;
    assert_eq!(told.ids, undisturbed.ids, "{told:?}");
    assert_eq!(told.devices(), [ASKING, HONEST, ASKING], "{told:?}");
    Ok(())
}
