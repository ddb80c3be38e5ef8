//! A helper that leaves in order gives what it remembers to whoever takes its layers, and the reply
//! is the one of an undisturbed household.

use nook_api::views::ChatRole;
use nook_testkit::{Household, NodePlan, Told, Wish};

const ASKING: &str = "Kitchen laptop";
const FIRST: &str = "Study PC";
const SECOND: &str = "Attic PC";

const TOKENS: u32 = 60;

/// What the log says once another device goes on with it.
const MOVED: &str = "positions goes on elsewhere";

/// What became of a second turn.
struct Moved {
    /// What was said.
    told: Told,
    /// What should have been.
    undisturbed: Told,
    /// The helper that left, by its place.
    leaving: usize,
}

/// A first turn, and the second, in which one of `helpers` that takes part in it stops sharing: the
/// first of them that does.
///
/// After a resume no activations of the first turn are here any more, so that computing the layers
/// again would begin at the token ids: moving is always chosen.
async fn second_turn(house: &Household, helpers: &[usize]) -> anyhow::Result<Moved> {
    let long = "Tell me a story about a lighthouse and a snail that climbs it. ".repeat(10);
    let mut messages = vec![(ChatRole::User, long)];
    let first = house.asking().answer(&Wish::chat(&messages, TOKENS)).await?;
    messages.push((ChatRole::Assistant, first.text));
    messages.push((ChatRole::User, "And then?".to_owned()));
    let wish = Wish::chat(&messages, TOKENS);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    // Held between two tokens while the owner of the helper changes the setting.
    let (reply, held) = house.asking().held_reply(&wish, 5).await?;
    let takes_part = |helper: &&usize| reply.told().uses(house.node(**helper).name());
    let leaving = *helpers.iter().find(takes_part).expect("a helper takes part");
    house.node(leaving).share(false).await?;
    drop(held);
    Ok(Moved { told: reply.whole().await?, undisturbed, leaving })
}

fn assert_same(told: &Told, undisturbed: &Told) {
    told.assert_says(undisturbed);
    assert!(told.resumed > 0 && told.lost.is_empty(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_helper_goes_on_with_what_the_leaving_one_remembers() -> anyhow::Result<()> {
    let plans = [
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering("1-4"),
        NodePlan::new(SECOND).offering("1-4"),
    ];
    let house = Household::apart(plans).await?.all_share().await?;
    let Moved { told, undisturbed, leaving } = second_turn(&house, &[1, 2]).await?;
    let staying = 3 - leaving;
    assert_same(&told, &undisturbed);
    assert_eq!(told.devices(), [ASKING, house.node(staying).name(), ASKING], "{told:?}");
    let log = house.asking().log();
    assert!(log.contains(MOVED), "{log}");
    // It has the memory back all the same.
    house.node(leaving).until_no_worker().await
}

#[tokio::test(flavor = "multi_thread")]
async fn this_device_goes_on_with_what_the_leaving_helper_remembers() -> anyhow::Result<()> {
    let plans = [
        NodePlan::new(ASKING),
        NodePlan::new(FIRST).offering("1-2"),
        NodePlan::new(SECOND).offering("3-4"),
    ];
    let house = Household::apart(plans).await?.all_share().await?;
    let Moved { told, undisturbed, .. } = second_turn(&house, &[1]).await?;
    assert_same(&told, &undisturbed);
    assert!(told.fell_back && told.uses(SECOND) && !told.uses(FIRST), "{told:?}");
    let log = house.asking().log();
    assert!(log.contains(MOVED), "{log}");
    house.node(1).until_no_worker().await
}
