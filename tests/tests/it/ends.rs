//! A computer that gets only its own ends of a model, from another one that has all of it, and asks
//! it. Nothing is set; all of it is done with the commands that people type.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nook_api::views::{DownloadState, FitKind, HouseholdView};
use nook_testkit::installed::{
    MODEL, PartialFile, allow_each_other, import, lent, pair, received, recipe,
};
use nook_testkit::{Household, NodePlan, Signal, Wish, commands, files_below, installed, skip};

use crate::home::{LAPTOP, PC};
use crate::waking::{DISCARD, heard, magic};

/// The first computer has no model; the second has one, and each lets the other help.
async fn household() -> anyhow::Result<Household> {
    household_with(NodePlan::installed(PC)).await
}

async fn household_with(pc: NodePlan) -> anyhow::Result<Household> {
    let house = Household::apart([NodePlan::installed(LAPTOP), pc]).await?;
    let file = house.folder().join("household.gguf");
    recipe().write(&file)?;
    import(&house, 1, &file).await?;
    pair(&house, 0, 1).await?;
    allow_each_other(house.node(0), house.node(1)).await?;
    // Else the laptop might get layers for the PC's own questions.
    commands::run(house.asking().home(), &["share", "off"]).await?;
    house.asking().until("the PC gives it", |view| !view.in_house.is_empty()).await?;
    Ok(house)
}

/// The file of which only a part is here.
fn partial_file(home: &Path) -> anyhow::Result<PartialFile> {
    installed::partial_file(&home.join("models"))?.context("a file with holes")
}

fn is_listed(view: &HouseholdView) -> bool {
    view.models.iter().any(|model| model.name == MODEL) && view.downloads.is_empty()
}

fn models(words: &[&'static str]) -> Vec<&'static str> {
    [&["models"], words].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_has_only_its_ends_of_a_model_asks_it_all_the_same() -> anyhow::Result<()> {
    let mut house = household().await?;
    let laptop = house.asking().home().to_owned();
    let [in_house] = &house.asking().view().await?.in_house[..] else {
        anyhow::bail!("one model is in the house");
    };
    let all = in_house.file_bytes;
    assert!(in_house.ends_bytes < all, "{in_house:?}");
    let before = received(&house, 0)?;
    let said = commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    assert!(said.contains("is here"), "{said}");
    house.asking().until("its ends are listed", is_listed).await?;

    // Two layers of twelve at one end and one at the other, which came once.
    let PartialFile { length, taken, .. } = partial_file(&laptop)?;
    assert_eq!(length, all);
    assert!((length / 5..length * 2 / 5).contains(&taken), "{taken} of {length}");
    let came = received(&house, 0)? - before;
    assert!((taken * 9 / 10..taken * 11 / 10).contains(&came), "{came} for {taken}");
    let view = house.asking().view().await?;
    let listed = view.models.iter().find(|model| model.name == MODEL).context("it is listed")?;
    let ends = listed.ends_bytes.context("only its ends are here")?;
    assert!(ends < length / 2 && listed.fit.kind == FitKind::With, "{listed:?}");
    assert!(view.in_house.iter().all(|model| model.ends_here), "{:?}", view.in_house);

    // The PC computes what is between.
    let wish = Wish::text("Once upon a time", 12).by(MODEL);
    let alone = house.node(1).answer(&wish.clone().alone()).await?;
    house.asking().until("the PC lends", |view| lent(view, PC) > 9).await?;
    let told = house.asking().answer(&wish).await?;
    assert_eq!(told.devices(), [LAPTOP, PC, LAPTOP], "{told:?}");
    assert_eq!(told.ids, alone.ids);

    // What cannot be done is said with what to do.
    let sentence = refused(&house, &wish.clone().alone()).await?;
    assert!(sentence.contains("Only the ends of household are on this computer"), "{sentence}");

    // It waits for the PC in the middle of a reply as any asker does, and never stands in for it.
    let (mut reply, held) = house.asking().held_reply(&wish, 3).await?;
    house.node_mut(1).signal(Signal::Kill);
    house.node_mut(1).until_it_ended().await?;
    drop(held);
    assert_eq!(reply.until_awaited().await?.awaited, [PC]);
    let sentence = refused(&house, &wish).await?;
    assert!(sentence.contains(&format!("{PC} is not connected: start it")), "{sentence}");
    house.node_mut(1).start_again().await?;
    let told = reply.whole().await?;
    assert_eq!((told.ids, told.fell_back), (alone.ids, false));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_that_are_lost_come_again_all_may_come_behind_them_and_what_is_removed_leaves_nothing()
-> anyhow::Result<()> {
    let mut house = household().await?;
    let laptop = house.asking().home().to_owned();
    commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    let wish = Wish::text("Once upon a time", 6).by(MODEL);
    let alone = house.node(1).answer(&wish.clone().alone()).await?;

    // The files are lost while nobody looks; the list is not.
    house.node_mut(0).leave().await?;
    let folder = laptop.join("models").join("partial");
    fs::remove_dir_all(&folder)?;
    house.node_mut(0).start_again().await?;
    house.asking().until("they are here again", is_listed).await?;

    // More layers are to stay here.
    let before = partial_file(&laptop)?.taken;
    let more = ["settings", "set", "distributed_inference.local_prefix_layers", "3"];
    commands::run(&laptop, &more).await?;
    house.asking().until("the PC lends", |view| is_listed(view) && lent(view, PC) > 7).await?;
    let told = answered(&house, &wish).await?;
    assert_eq!(told, alone.ids);
    let after = partial_file(&laptop)?.taken;
    assert!(after > before, "{after} of {before}");

    // All of it comes in their place, under the same name.
    commands::run(&laptop, &models(&["copy", MODEL])).await?;
    let is_whole = |view: &HouseholdView| {
        view.models.iter().any(|model| model.name == MODEL && model.ends_bytes.is_none())
            && view.in_house.is_empty()
    };
    house.asking().until("all of it is here", is_whole).await?;
    assert_eq!(house.asking().answer(&wish.clone().alone()).await?.ids, alone.ids);

    // Again only the ends, and then nothing.
    commands::run(&laptop, &models(&["rm", MODEL])).await?;
    commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    commands::run(&laptop, &models(&["rm", MODEL])).await?;
    house
        .asking()
        .until("it is off the list", |view| view.models.iter().all(|model| model.name != MODEL))
        .await?;
    until_nothing_is_left(&folder).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_that_are_on_their_way_can_rest() -> anyhow::Result<()> {
    let house = household().await?;
    let laptop = house.asking().home().to_owned();
    // Nobody gives anything, so what is asked for waits.
    let give = |on: &'static str| ["settings", "set", "network.give_models", on];
    let begun = commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    assert!(begun.contains("is here"), "{begun}");
    commands::run(house.node(1).home(), &give("false")).await?;
    house.asking().until("nobody gives it", |view| view.in_house.is_empty()).await?;
    let more = ["settings", "set", "distributed_inference.local_suffix_layers", "3"];
    commands::run(&laptop, &more).await?;
    let state = |wanted: DownloadState| {
        move |view: &HouseholdView| view.downloads.iter().any(|it| it.state == wanted)
    };
    house.asking().until("it waits", state(DownloadState::Waiting)).await?;
    let wish = Wish::text("Once upon a time", 4).by(MODEL);
    let sentence = refused(&house, &wish).await?;
    assert!(sentence.contains("is still on its way"), "{sentence}");
    commands::run(&laptop, &models(&["pause", MODEL])).await?;
    house.asking().until("it rests", state(DownloadState::Paused)).await?;
    commands::run(house.node(1).home(), &give("true")).await?;
    house.asking().until("the PC gives it", |view| !view.in_house.is_empty()).await?;
    assert_eq!(house.asking().view().await?.downloads.len(), 1, "it rests all the same");
    commands::run(&laptop, &models(&["resume", MODEL])).await?;
    house.asking().until("it came", is_listed).await?;
    assert_eq!(answered(&house, &wish).await?.len(), 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_ends_comes_where_the_others_have_not_the_memory_for_the_rest()
-> anyhow::Result<()> {
    let few = NodePlan::installed(PC).with("distributed_inference.host.max_lent_memory_mb", "60");
    let house = household_with(few).await?;
    let laptop = house.asking().home().to_owned();
    let [in_house] = &house.asking().view().await?.in_house[..] else {
        anyhow::bail!("one model is in the house");
    };
    let ends = in_house.ends_bytes;
    commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    let wish = Wish::text("Once upon a time", 6).by(MODEL);
    // Asking makes it the model in use; until the layers are here it is refused.
    let mut told = house.asking().reply(&wish).await?.end().await?;
    for _ in 0..600 {
        if told.aborted.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        told = house.asking().reply(&wish).await?.end().await?;
    }
    assert!(told.uses(PC), "{told:?}");
    assert_eq!(told.ids, house.node(1).answer(&wish.clone().alone()).await?.ids);
    let PartialFile { length, taken, .. } = partial_file(&laptop)?;
    assert!(ends < taken && taken < length, "{ends}, {taken}, {length}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_wakes_the_computer_without_which_it_cannot_be_made() -> anyhow::Result<()> {
    let mut house = household_with(NodePlan::installed(PC)).await?;
    let laptop = house.asking().home().to_owned();
    commands::run(&laptop, &models(&["copy", MODEL, "--ends"])).await?;
    let set = |home: PathBuf, key: &'static str| async move {
        commands::run(&home, &["settings", "set", key, "true"]).await
    };
    set(house.node(1).home().to_owned(), "network.let_others_wake").await?;
    let wakeable = |view: &HouseholdView| view.devices.iter().any(|device| device.wakeable);
    house.asking().until("it can be woken", wakeable).await?;
    house.asking().until("the PC lends", |view| lent(view, PC) > 9).await?;
    house.node_mut(1).leave().await?;
    let is_away = |view: &HouseholdView| view.devices.iter().all(|device| !device.connected);
    house.asking().until("the PC sleeps", is_away).await?;
    let bridge = house.bridge().context("each has a computer of its own")?;
    let Ok(ears) = bridge.hear(1, DISCARD) else {
        skip("a reply wakes a computer", "no socket may be put into a namespace");
        return Ok(());
    };
    let mac = bridge.mac(1)?;

    // Not by itself until this computer's owner wants that.
    let wish = Wish::text("Once upon a time", 6).by(MODEL);
    let sentence = refused(&house, &wish).await?;
    assert!(sentence.contains(&format!("{PC} is not connected: start it")), "{sentence}");
    set(laptop, "network.wake_helpers").await?;
    let alone = house.asking().reply(&wish.clone().alone()).await?.end().await?;
    assert!(alone.aborted.is_some() && alone.awaited.is_empty(), "nobody helps there: {alone:?}");
    // Whoever stops waiting gives the place of the reply back.
    let mut left = house.asking().reply(&wish).await?;
    left.until_awaited().await?;
    drop(left);
    house.asking().until_vitals("no reply waits", |vitals| vitals.replies == 0).await?;
    let mut reply = house.asking().reply(&wish).await?;
    assert_eq!(reply.until_awaited().await?.awaited, [PC]);
    let packet = tokio::task::spawn_blocking(move || heard(&ears)).await??;
    assert_eq!(packet, magic(&mac)?);
    house.node_mut(1).start_again().await?;
    let told = reply.whole().await?;
    assert_eq!(told.devices(), [LAPTOP, PC, LAPTOP], "{told:?}");
    assert_eq!(told.ids, house.node(1).answer(&wish.alone()).await?.ids);
    Ok(())
}

/// Why a reply cannot be made.
async fn refused(house: &Household, wish: &Wish) -> anyhow::Result<String> {
    let refused = house.asking().reply(wish).await?.end().await?;
    Ok(refused.aborted.context("it cannot be made")?.1)
}

/// The tokens of a reply that the PC has a part in.
async fn answered(house: &Household, wish: &Wish) -> anyhow::Result<Vec<u32>> {
    let told = house.asking().answer(wish).await?;
    assert!(told.uses(PC), "{told:?}");
    Ok(told.ids)
}

/// Deleting is a job that nobody waits for.
async fn until_nothing_is_left(folder: &Path) -> anyhow::Result<()> {
    for _ in 0..600 {
        // Files go while they are counted, so they are not looked at.
        if fs::read_dir(folder)?.next().is_none() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("something is left: {:?}", files_below(folder)?)
}
