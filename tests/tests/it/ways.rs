//! Two computers that are linked by a narrow way, and then by a cable too: the link takes the
//! cable by itself, under a reply that runs, and the narrow way once the cable is gone.

use std::cell::Cell;

use anyhow::Context as _;
use nook_api::views::{HouseholdView, PipelineView, Trust};
use nook_base::clock;
use nook_testkit::{Bridge, Household, NodePlan, Told, Wish, say, skip};

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";

/// What has to be so before anything happens to the network.
const APART: &str = "each has a machine of its own";

/// A weak Wi-Fi.
const NARROW_KBIT: u32 = 1_000;

/// Tokens of a reply.
const TOKENS: u32 = 120;

/// What the log says where a link has ended.
const ENDED: &str = "disconnected";

fn bridge(house: &Household) -> anyhow::Result<&Bridge> {
    house.bridge().context(APART)
}

/// Linked over the narrow way, with a second cable that is not plugged in; `None`, loudly, where
/// namespaces are not allowed.
async fn scene(test: &str) -> anyhow::Result<Option<Household>> {
    let plans = [NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")];
    let house = Household::apart(plans).await?;
    let Some(network) = house.bridge() else {
        skip(test, "no network namespaces");
        return Ok(None);
    };
    network.lay_second()?;
    for room in [0, 1] {
        network.narrow(room, NARROW_KBIT)?;
    }
    house.pair_seen(0, 1, Trust::Trusted).await?;
    house.node(1).share(true).await?;
    house.until_all_lend("ember").await?;
    Ok(Some(house))
}

/// The addresses of both rooms on the narrow way. Each has one of IPv6 too, and on the cable as well:
/// which of the cable's is found first is chance.
fn narrow_addresses(house: &Household) -> anyhow::Result<[Vec<String>; 2]> {
    let network = bridge(house)?;
    Ok([network.first_addresses(0)?, network.first_addresses(1)?])
}

/// Whether the link of this node goes by the cable and not to one of these addresses.
fn goes_by_cable(view: &HouseholdView, narrow: &[String]) -> Option<bool> {
    let mut ways = view.devices.iter().filter(|it| it.connected).filter_map(|it| it.way.as_ref());
    let way = ways.next()?;
    Some(!narrow.iter().any(|address| way.address.contains(address.as_str())))
}

/// What a large transfer reaches, as far as the next plan knows.
fn rate(view: &PipelineView) -> Option<u64> {
    let mut of_helper = view.measured.iter().filter(|measured| measured.device == HELPER);
    of_helper.find_map(|measured| measured.bandwidth_bytes_per_second)
}

fn links_ended(house: &Household) -> usize {
    house.nodes().iter().map(|node| node.log().matches(ENDED).count()).sum()
}

async fn helped(house: &Household, wish: &Wish, undisturbed: &Told) -> anyhow::Result<Told> {
    let told = house.asking().answer(wish).await?;
    told.assert_says(undisturbed);
    assert_eq!(told.devices(), [ASKING, HELPER, ASKING], "{told:?}");
    Ok(told)
}

#[tokio::test]
async fn a_link_takes_the_cable_under_a_reply_and_the_narrow_way_once_it_is_gone()
-> anyhow::Result<()> {
    let test = "a_link_takes_the_cable_under_a_reply_and_the_narrow_way_once_it_is_gone";
    let Some(house) = scene(test).await? else { return Ok(()) };
    let wish = Wish::text(&"Once upon a time there was a snail. ".repeat(12), TOKENS);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    let narrow = helped(&house, &wish, &undisturbed).await?;
    let ended = links_ended(&house);

    // Replies are at work while the link moves, with their calls open.
    let plugged = clock::now();
    for room in [0, 1] {
        bridge(&house)?.plug_second(room)?;
    }
    let moved = Cell::new(None);
    let [narrow_here, narrow_there] = narrow_addresses(&house)?;
    let lends = |view: &HouseholdView| view.devices.iter().any(|it| !it.lends.is_empty());
    let moves = async {
        let by_cable =
            |view: &HouseholdView| lends(view) && goes_by_cable(view, &narrow_there) == Some(true);
        house.asking().until("the link goes by the cable", by_cable).await?;
        moved.set(Some(plugged.elapsed()));
        let sees = |view: &HouseholdView| goes_by_cable(view, &narrow_here) == Some(true);
        house.node(1).until("the helper sees that too", sees).await
    };
    let replies = async {
        while moved.get().is_none() {
            let told = helped(&house, &wish, &undisturbed).await?;
            // A device may be late on a busy machine, which ends nothing.
            assert!(told.lost.is_empty() && told.failovers.is_empty(), "{told:?}");
        }
        Ok(())
    };
    tokio::try_join!(moves, replies)?;
    let moved = moved.get().context("it moved")?;
    assert_eq!(links_ended(&house), ended, "nobody was gone for a moment");
    // What is known of the way is of the cable, and before any reply went there.
    let cable = rate(&house.asking().pipeline().await?).context("it was measured")?;
    let most = u64::from(NARROW_KBIT) * 1000 / 8;
    assert!(cable > 2 * most, "{cable}");
    let wide = helped(&house, &wish, &undisturbed).await?;
    say(&format!(
        "{test}: {:.1} s from the cable to the move; {:.1} tokens/s before, {:.1} after; first \
         token after {:.0} ms, then {:.0} ms",
        moved.as_secs_f64(),
        narrow.tokens_per_second,
        wide.tokens_per_second,
        narrow.first_token_ms,
        wide.first_token_ms,
    ));

    // The cable is pulled under a reply.
    let (reply, held) = house.asking().held_reply(&wish, 10).await?;
    bridge(&house)?.unplug_second(1)?;
    drop(held);
    reply.whole().await?.assert_says(&undisturbed);
    let by_narrow =
        |view: &HouseholdView| lends(view) && goes_by_cable(view, &narrow_there) == Some(false);
    house.asking().until("the link goes the narrow way", by_narrow).await?;
    let known = rate(&house.asking().pipeline().await?);
    assert!(known.is_none_or(|known| known < cable), "the cable is forgotten: {known:?}");
    // It is used again once its failure is forgiven, which is not the matter here.
    house.asking().answer(&wish).await?.assert_says(&undisturbed);
    Ok(())
}
