//! The question after pairing, with the commands that people type: what each answer does on its own
//! side, and what either screen says of the other one.

use std::path::{Path, PathBuf};

use nook_api::views::{DeviceView, HouseholdView, UnusedReason};
use nook_testkit::{Household, NodePlan, Wish, commands};

const STUDY: &str = "Study PC";
const KITCHEN: &str = "Kitchen laptop";

/// A node as it is installed: the household's usual tests force pooling.
fn usual(name: &'static str) -> NodePlan {
    NodePlan::new(name).with("distributed_inference.pooling", "\"when_faster\"")
}

/// Pairs the nodes at both homes; nobody answers anything.
fn pair(showing: &Path, typing: &Path) -> anyhow::Result<()> {
    let (said, other) = commands::pair(showing, typing)?;
    assert!(said.contains("takes part in nothing yet"), "{said}");
    assert!(said.contains("nook devices allow"), "{said}");
    assert_eq!((&other["trust"], &other["asks_help"]), (&"guest".into(), &true.into()));
    Ok(())
}

/// `nook devices allow OTHER HELP` at `home`, and what it says.
async fn allow(home: &Path, other: &str, help: &str) -> anyhow::Result<String> {
    commands::run(home, &["devices", "allow", other, help]).await
}

fn of<'a>(view: &'a HouseholdView, name: &str) -> Option<&'a DeviceView> {
    view.devices.iter().find(|device| device.paired && device.name == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_are_asked_once_and_each_screen_says_what_is_missing() -> anyhow::Result<()> {
    let house = Household::strangers([usual(STUDY), usual(KITCHEN)]).await?;
    let (study, kitchen) = (house.node(0), house.node(1));
    let homes: Vec<PathBuf> = [study, kitchen].map(|node| node.home().to_owned()).into();
    let (first, second) = (homes[0].clone(), homes[1].clone());
    tokio::task::spawn_blocking(move || pair(&first, &second)).await??;
    for (node, other) in [(study, KITCHEN), (kitchen, STUDY)] {
        let asks = |view: &HouseholdView| {
            of(view, other).is_some_and(|device| {
                let theirs = device.their_terms;
                device.asks_help
                    && device.unused == Some(UnusedReason::Unanswered)
                    && theirs.is_some_and(|theirs| !theirs.answered && !theirs.helps)
            })
        };
        node.until("the question is open on both sides", asks).await?;
    }

    // One answer opens one side, and the other screen knows.
    let said = allow(&homes[1], "study", "each-other").await?;
    assert!(said.contains("can read everything you and the model write"), "{said}");
    let waits = |view: &HouseholdView| {
        let study = of(view, STUDY);
        view.sharing.on
            && study.is_some_and(|it| it.unused == Some(UnusedReason::UnansweredThere))
            && study.is_some_and(|it| !it.asks_help)
    };
    kitchen.until("the other answer is missing", waits).await?;
    let heard = |view: &HouseholdView| {
        let theirs = of(view, KITCHEN).and_then(|kitchen| kitchen.their_terms);
        !view.sharing.on && theirs.is_some_and(|it| it.answered && it.helps && it.asks)
    };
    study.until("the answer of the other side", heard).await?;

    allow(&homes[0], "kitchen", "each-other").await?;
    for (node, other) in [(study, KITCHEN), (kitchen, STUDY)] {
        let ready = |view: &HouseholdView| {
            view.sharing.on && of(view, other).is_some_and(|device| device.unused.is_none())
        };
        node.until("each can help the other", ready).await?;
    }

    // Switched off there, and said here.
    study.share(false).await?;
    let off = |view: &HouseholdView| {
        of(view, STUDY).is_some_and(|it| it.unused == Some(UnusedReason::SharingOff))
    };
    kitchen.until("sharing is off there", off).await?;
    study.share(true).await?;

    // The kitchen goes on to help and keeps its own questions to itself.
    allow(&homes[1], "study", "only-this").await?;
    let only_helps = |view: &HouseholdView| {
        of(view, STUDY).is_some_and(|it| it.unused == Some(UnusedReason::OnlyHelped))
    };
    kitchen.until("it helps only", only_helps).await?;
    let told = kitchen.answer(&Wish::text("Once", 4)).await?;
    assert!(!told.uses(STUDY), "{told:?}");
    let still_helped = |view: &HouseholdView| {
        of(view, KITCHEN).is_some_and(|it| {
            it.unused.is_none() && it.their_terms.is_some_and(|it| it.helps && !it.asks)
        })
    };
    study.until("the kitchen still helps", still_helped).await?;
    Ok(())
}
