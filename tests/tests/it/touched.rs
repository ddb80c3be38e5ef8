//! A model file that is replaced behind the node's back, with nothing to show for it but what the
//! file system notes: while the node runs and between two starts, in its place and by another file.

use std::fs::{self, File};
use std::path::Path;

use nook_api::views::{HouseholdView, Trouble};
use nook_testkit::{Household, Node, NodePlan, Told, Wish};

const NAME: &str = "amber";
const PROMPT: &str = "Once upon a time";

async fn answer(node: &Node) -> anyhow::Result<Told> {
    node.answer(&Wish::text(PROMPT, 12).by(NAME)).await
}

/// Replaces a file by one of the same length and with the same time of modification.
fn replace(path: &Path, bytes: &[u8], by_another: bool) -> anyhow::Result<()> {
    let facts = fs::metadata(path)?;
    anyhow::ensure!(facts.len() == bytes.len() as u64, "another length");
    let written = if by_another { path.with_extension("new") } else { path.to_owned() };
    fs::write(&written, bytes)?;
    File::options().write(true).open(&written)?.set_modified(facts.modified()?)?;
    if by_another {
        fs::rename(&written, path)?;
    }
    Ok(())
}

fn is_changed(view: &HouseholdView) -> bool {
    let told = view.problems.iter().filter_map(|problem| problem.trouble.as_ref());
    let mut changed = told.filter(|it| matches!(it, Trouble::ModelFileChanged { .. }));
    changed.next().is_some() && view.models.iter().all(|model| model.name != NAME)
}

fn is_back(view: &HouseholdView) -> bool {
    view.problems.is_empty() && view.models.iter().any(|model| model.name == NAME)
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_a_model_file_that_was_replaced_is_not_served_until_it_is_what_it_was()
-> anyhow::Result<()> {
    let mut house = Household::strangers([NodePlan::new("Kitchen laptop")]).await?;
    let bytes = house.asking().renamed_built_in().await?;
    let file = house.folder().join("amber.gguf");
    fs::write(&file, &bytes)?;
    house.asking().import(&file, Some(NAME)).await?;
    let good = answer(house.asking()).await?;
    // Weights of the last tensor, so that header and vocabulary are those of the model.
    let mut other = bytes.clone();
    other.iter_mut().rev().take(1 << 16).for_each(|byte| *byte ^= 1);
    for (is_restarted, by_another) in [(false, false), (false, true), (true, false), (true, true)] {
        let case = format!("restarted: {is_restarted}, by another file: {by_another}");
        if is_restarted {
            house.node_mut(0).leave().await?;
        }
        replace(&file, &other, by_another)?;
        if is_restarted {
            house.node_mut(0).start_again().await?;
        }
        // At once, whether or not the worker has all layers in memory and the file open.
        let told = answer(house.asking()).await;
        assert!(told.is_err(), "{case}: {told:?}");
        house.asking().until(&format!("it is said, {case}"), is_changed).await?;
        let refused = format!("{:#}", answer(house.asking()).await.unwrap_err());
        assert!(refused.contains("import it again"), "{case}: {refused}");

        replace(&file, &bytes, by_another)?;
        house.asking().until(&format!("it is back, {case}"), is_back).await?;
        assert_eq!(answer(house.asking()).await?.ids, good.ids, "{case}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_a_model_file_that_was_only_touched_is_read_again_and_served() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let house = Household::strangers([NodePlan::new("Kitchen laptop")]).await?;
    let node = house.asking();
    let file = house.folder().join("amber.gguf");
    fs::write(&file, node.renamed_built_in().await?)?;
    node.import(&file, Some(NAME)).await?;
    let good = answer(node).await?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let is_read = |view: &HouseholdView| {
        node.log().contains("its file was touched and is read again") && is_back(view)
    };
    node.until("it is read again and back", is_read).await?;
    assert_eq!(answer(node).await?.ids, good.ids);
    Ok(())
}
