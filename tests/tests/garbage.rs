//! A helper whose answers cannot be right: the reply does not show it, and its owner is told.

use std::path::PathBuf;

use nook_base::{ActivationDtype, LayerRange, ModelDigest};
use nook_testkit::{Garbage, Household, Lender, Node, NodePlan, Wish, files_below};

const ASKING: &str = "Kitchen laptop";
const HONEST: &str = "Study PC";
const BROKEN: &str = "Attic PC";

fn wish() -> Wish {
    Wish::text("Once upon a time", 40).over(ActivationDtype::F32)
}

/// An honest helper, and one that answers what a test wants.
async fn house(honest: &str, broken: LayerRange) -> anyhow::Result<(Household, Lender)> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HONEST).offering(honest)];
    let house = Household::sharing(plans).await?;
    let asking = house.asking();
    let model: ModelDigest = asking.view().await?.models[0].digest.parse()?;
    let lender = Lender::start(BROKEN, asking, broken, &built_in(asking)?, model).await?;
    asking
        .until("the broken helper lends", |view| {
            view.devices.iter().any(|device| device.name == BROKEN && !device.lends.is_empty())
        })
        .await?;
    Ok((house, lender))
}

fn built_in(node: &Node) -> anyhow::Result<PathBuf> {
    let files = files_below(node.home())?.into_iter().map(|(path, _)| path);
    let mut models = files.filter(|path| path.extension().is_some_and(|end| end == "gguf"));
    models.next().ok_or_else(|| anyhow::anyhow!("there is no built-in model in the home"))
}

#[tokio::test(flavor = "multi_thread")]
async fn t9_garbage_is_refused_computed_elsewhere_and_told() -> anyhow::Result<()> {
    let (house, lender) = house("1-2", LayerRange::with_len(3, 2)).await?;
    let asking = house.asking();
    let undisturbed = asking.answer(&wish().alone()).await?;
    let whole = asking.answer(&wish()).await?;
    assert!(whole.uses(BROKEN) && whole.ids == undisturbed.ids, "{whole:?}");
    let kinds = [Garbage::NotANumber, Garbage::Zero, Garbage::Copy, Garbage::Thousandfold];
    for kind in kinds {
        lender.answer_with(Some(kind));
        let told = asking.answer(&wish()).await?;
        assert_eq!(told.ids, undisturbed.ids, "{kind:?}");
        assert_eq!(told.devices(), [ASKING, HONEST, ASKING, ASKING], "{kind:?}");
        asking
            .until("its owner is told", |view| {
                view.problems
                    .iter()
                    .any(|problem| problem.contains(BROKEN) && problem.contains("cannot be right"))
            })
            .await?;
        lender.answer_with(None);
        // The only holder is asked again all the same, and a whole reply clears its name.
        let again = asking.answer(&wish()).await?;
        assert!(again.uses(BROKEN) && again.ids == undisturbed.ids, "{kind:?} {again:?}");
        asking
            .until("it is forgiven", |view| {
                !view.problems.iter().any(|problem| problem.contains("cannot be right"))
            })
            .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
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
            view.problems.iter().any(|problem| problem.contains("left out of replies"))
        })
        .await?;
    let told = asking.answer(&wish()).await?;
    assert_eq!(told.devices(), [ASKING, HONEST, ASKING], "{told:?}");
    assert!(told.failovers.is_empty(), "it was not even asked: {told:?}");
    Ok(())
}
