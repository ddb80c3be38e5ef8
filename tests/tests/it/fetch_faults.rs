//! What goes wrong while a helper gets its layers, on computers as they are installed: a full disk,
//! a cap, wrong bytes, a computer that leaves, and owners who say no in the middle.
//!
//! Each test slows the helper's cable until it is in the middle of its first layers, does one thing
//! there, and looks at what is left: which files and whose, what is lent, and what the owner is
//! told.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nook_api::Vitals;
use nook_api::views::{HouseholdView, UnusedReason};
use nook_base::{FileStamp, LayerRange, ModelPart};
use nook_model::ModelFile;
use nook_testkit::installed::{
    allow_each_other, device, household, import, lent, pair, partial_file, received, recipe,
};
use nook_testkit::{Bridge, Household, Node, NodePlan, Signal, Wish, commands, installed};

const LAPTOP: &str = "Old laptop";
const PC: &str = "Gaming PC";
const ATTIC: &str = "Attic";

/// The helper, whose cable is slow.
const HELPER: usize = 1;

/// How slow: a layer takes twenty seconds.
const SLOW_KBIT: u32 = 4_000;

/// How slow until it has begun: a cable as slow as the other is not worth it once it was measured,
/// and nothing is fetched.
const BEGINS_KBIT: u32 = 16_000;

/// The first layers that are fetched, to be measured with.
const FIRST: Range<u32> = 1..5;

/// The longest tensor of the model, with all that carries it over a cable.
const TENSOR_BYTES: u64 = 3_500_000;

/// One layer of the model.
const LAYER_BYTES: u64 = 11_000_000;

const FETCH_LAYERS: &str = "distributed_inference.host.fetch_layers";
const FETCH_CAP: &str = "distributed_inference.host.max_fetched_layers_mb";

fn first() -> LayerRange {
    LayerRange::with_len(FIRST.start, FIRST.end - FIRST.start)
}

fn bridge(house: &Household) -> anyhow::Result<&Bridge> {
    house.bridge().context("nodes in rooms of their own")
}

/// A laptop with the model and helpers without it, of which the first is allowed to help and in the
/// middle of getting its first layers.
async fn fetching(helpers: Vec<NodePlan>) -> anyhow::Result<(Household, PathBuf)> {
    let plans = [NodePlan::installed(LAPTOP)].into_iter().chain(helpers);
    let (house, file) = household(plans, recipe()).await?;
    until_fetching(&house).await?;
    Ok((house, file))
}

async fn until_fetching(house: &Household) -> anyhow::Result<()> {
    bridge(house)?.slow(HELPER, BEGINS_KBIT)?;
    allow_each_other(house.node(0), house.node(HELPER)).await?;
    until_come(house, 0).await?;
    bridge(house)?.slow(HELPER, SLOW_KBIT)?;
    until_come(house, 1).await
}

/// Waits until so much of the first layers has come.
async fn until_come(house: &Household, percent: u8) -> anyhow::Result<()> {
    let some = |view: &HouseholdView| {
        device(view, PC).is_some_and(|pc| pc.fetched_percent.is_some_and(|come| come >= percent))
    };
    house.asking().until("some of the layers have come", some).await?;
    Ok(())
}

fn helper_only() -> Vec<NodePlan> {
    vec![NodePlan::installed(PC)]
}

/// Waits until the laptop says this of the helper, in its list of devices as well.
async fn until_said(house: &Household, reason: UnusedReason) -> anyhow::Result<()> {
    let laptop = house.asking();
    let is_said =
        |view: &HouseholdView| device(view, PC).is_some_and(|pc| pc.unused == Some(reason));
    let view = laptop.until(&format!("{PC} is not used: {reason:?}"), is_said).await?;
    let why = device(&view, PC).and_then(|pc| pc.unused_because.clone()).context("a sentence")?;
    let listed = commands::run(laptop.home(), &["devices"]).await?;
    assert!(listed.contains(&why), "{listed}");
    assert_eq!(lent(&view, PC), 0, "{view:?}");
    Ok(())
}

/// Waits until the helper has no file of the model any more, nor anything else of the fetch, also
/// none that is deleted and still open, and holds no memory for it.
async fn until_nothing_is_left(helper: &Node) -> anyhow::Result<()> {
    let nothing = |_: &HouseholdView| {
        let files = nook_testkit::files_below(&helper.models().join("partial"));
        let left = files.unwrap_or_default().len() + helper.open_below("partial").len();
        left == 0
    };
    helper.until("nothing is left of the fetch", nothing).await?;
    // It may hold layers of the small model that both have.
    let is_free = |vitals: &Vitals| {
        vitals.streams == 0 && vitals.workers.iter().all(|worker| worker.weight_bytes < LAYER_BYTES)
    };
    helper.until_vitals("no memory is held for it", is_free).await?;
    Ok(())
}

/// Asserts that each tensor that the helper's record names is in its file, as it is in `whole`, and
/// that nothing lies beside the file that does not belong to it; the layers that are there.
fn assert_record_is_true(helper: &Node, whole: &Path) -> anyhow::Result<Vec<LayerRange>> {
    let partial = partial_file(&helper.models())?.context("a file with holes")?;
    let (part, whole) = (ModelFile::open(&partial.path)?, ModelFile::open(whole)?);
    let presence = part.presence().context("it has a record")?;
    for (number, tensor) in (0..).zip(whole.header().tensors()) {
        if presence.has(number) {
            let bytes = |file: &ModelFile| bytes_of(file.path(), tensor.start, tensor.bytes);
            assert!(bytes(&part)? == bytes(&whole)?, "tensor {number} is another one");
        }
    }
    let folder = partial.path.parent().context("it lies in a folder")?;
    for (path, _) in nook_testkit::files_below(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        assert!(!name.contains(".new-"), "{name} was left lying");
    }
    Ok(part.layers_present())
}

fn bytes_of(path: &Path, start: u64, count: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count)?];
    File::open(path)?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Waits until the first layers are complete on the helper's disk.
async fn until_complete(helper: &Node) -> anyhow::Result<()> {
    let complete = |_: &HouseholdView| {
        let file = partial_file(&helper.models()).ok().flatten();
        let file = file.and_then(|partial| ModelFile::open(&partial.path).ok());
        file.is_some_and(|file| file.layers_present().iter().any(|here| here.contains(first())))
    };
    helper.until("the first layers are here", complete).await?;
    Ok(())
}

/// The laptop answers, with nobody's help.
async fn answers_alone(house: &Household) -> anyhow::Result<()> {
    let wish = Wish::text("Once upon a time", 4).by(installed::MODEL);
    let told = house.asking().answer(&wish).await?;
    assert_eq!(told.devices(), [LAPTOP], "{told:?}");
    Ok(())
}

/// Turns a bit of a layer's last tensor around, as a disk does: the file looks as it did. The
/// number of the tensor.
fn damage(file: &Path, layer: u32) -> anyhow::Result<u32> {
    let model = ModelFile::open(file)?;
    let ranges = model.ranges_of(&ModelPart::inner(LayerRange::with_len(layer, 1)));
    let tensor = ranges.iter().max_by_key(|range| range.start).context("a layer has tensors")?;
    let at = tensor.start + tensor.bytes / 2;
    let modified = fs::metadata(file)?.modified()?;
    let open = OpenOptions::new().read(true).write(true).open(file)?;
    let mut byte = [0];
    open.read_exact_at(&mut byte, at)?;
    open.write_all_at(&[byte[0] ^ 1], at)?;
    open.set_modified(modified)?;
    Ok(tensor.number)
}

/// Damages layers of the asking computer's file so that nothing shows it: the list has the file's
/// new stamp, and the manifest was made before. For a change that shows, the file is not given at
/// all. The numbers of the damaged tensors.
async fn damage_unseen(
    house: &mut Household,
    file: &Path,
    layers: Range<u32>,
) -> anyhow::Result<Vec<u32>> {
    let manifest = ModelFile::open(file)?.manifest()?;
    house.node_mut(0).leave().await?;
    let damaged: anyhow::Result<Vec<u32>> = layers.map(|layer| damage(file, layer)).collect();
    let home = house.node(0).home();
    let manifests = home.join("models/manifests");
    fs::create_dir_all(&manifests)?;
    let kept = manifests.join(format!("{}.manifest", manifest.digest()));
    fs::write(kept, manifest.to_bytes())?;
    let list = home.join("models.json");
    let mut listed: serde_json::Value = serde_json::from_slice(&fs::read(&list)?)?;
    listed["models"][0]["stamp"] = serde_json::to_value(FileStamp::of(&fs::metadata(file)?))?;
    fs::write(&list, listed.to_string())?;
    house.node_mut(0).start_again().await?;
    damaged
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_in_the_middle_is_said_and_gets_its_room_back() -> anyhow::Result<()> {
    // A gigabyte is left free for other programs before a fetch begins.
    let disk = NodePlan::installed(PC).with_disk_for_models(2 << 30);
    let (house, _) = fetching(vec![disk]).await?;
    let pc = house.node(HELPER);
    pc.leave_room_for_models(2 << 20)?;
    bridge(&house)?.speed_up(HELPER)?;
    until_said(&house, UnusedReason::DiskFull).await?;
    assert!(pc.log().contains("the disk has not enough room for the layers"), "{}", pc.log());
    until_nothing_is_left(pc).await?;
    answers_alone(&house).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_that_is_lowered_in_the_middle_ends_the_fetch_and_holds_for_what_came()
-> anyhow::Result<()> {
    let (house, _) = fetching(helper_only()).await?;
    let pc = house.node(HELPER);
    // Two megabytes.
    until_come(&house, 5).await?;
    commands::run(pc.home(), &["settings", "set", FETCH_CAP, "1"]).await?;
    bridge(&house)?.speed_up(HELPER)?;
    until_said(&house, UnusedReason::FetchLimit).await?;
    until_nothing_is_left(pc).await?;
    answers_alone(&house).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_tensor_is_refused_and_taken_from_another_computer() -> anyhow::Result<()> {
    let plans = [LAPTOP, PC, ATTIC].map(NodePlan::installed);
    let (mut house, file) = household(plans, recipe()).await?;
    let whole = holds_the_model_too(&house, &file).await?;
    // The last layer of those that will be on their way.
    damage_unseen(&mut house, &file, FIRST.end - 1..FIRST.end).await?;
    until_fetching(&house).await?;
    let (pc, attic) = (house.node(HELPER), house.node(2));
    bridge(&house)?.speed_up(HELPER)?;
    until_complete(pc).await?;
    let here = assert_record_is_true(pc, &whole)?;
    assert!(here.iter().any(|here| here.contains(first())), "{here:?}");
    let log = pc.log();
    assert!(
        log.contains(&format!("what it sent is not what was asked for device=\"{LAPTOP}\"")),
        "{log}"
    );
    assert!(log.contains("nothing is copied from it any more"), "{log}");
    assert!(!log.contains(&format!("device=\"{}\"", attic.name())), "{log}");
    Ok(())
}

/// The third computer has the model, and gives it to the helper without asking for its help; where
/// its file is.
async fn holds_the_model_too(house: &Household, file: &Path) -> anyhow::Result<PathBuf> {
    let (pc, attic) = (house.node(HELPER), house.node(2));
    let copy = house.folder().join("attic.gguf");
    fs::copy(file, &copy)?;
    import(house, 2, &copy).await?;
    pair(house, 2, HELPER).await?;
    commands::run(attic.home(), &["devices", "allow", pc.name(), "only-this"]).await?;
    commands::run(pc.home(), &["devices", "allow", attic.name(), "each-other"]).await?;
    Ok(copy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_tensor_that_nobody_else_has_ends_the_fetch_and_it_is_said() -> anyhow::Result<()>
{
    let (mut house, file) = household([LAPTOP, PC].map(NodePlan::installed), recipe()).await?;
    let whole = house.folder().join("whole.gguf");
    fs::copy(&file, &whole)?;
    // Something of each layer, before any is on its way: none can be complete, and lent.
    let damaged = damage_unseen(&mut house, &file, FIRST).await?;
    let pc = house.node(HELPER);
    allow_each_other(house.node(0), pc).await?;
    until_said(&house, UnusedReason::BadModel).await?;
    assert!(assert_record_is_true(pc, &whole)?.is_empty());
    let partial = partial_file(&pc.models())?.context("the good tensors stay")?;
    let partial = ModelFile::open(&partial.path)?;
    let presence = partial.presence().context("it has a record")?;
    assert!(damaged.iter().all(|number| !presence.has(*number)));
    answers_alone(&house).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_whose_giver_leaves_ends_and_goes_on_where_it_was_once_it_is_back()
-> anyhow::Result<()> {
    let (mut house, file) = fetching(helper_only()).await?;
    house.node_mut(0).signal(Signal::Kill);
    house.node_mut(0).until_it_ended().await?;
    let pc = house.node(HELPER);
    let ended = |_: &HouseholdView| pc.log().contains("no device that gives this model is here");
    pc.until("the fetch has ended, and it is said", ended).await?;
    assert_record_is_true(pc, &file)?;
    bridge(&house)?.speed_up(HELPER)?;
    house.node_mut(0).start_again().await?;
    let pc = house.node(HELPER);
    until_complete(pc).await?;
    house.asking().until("they are lent", |view| lent(view, PC) >= 4).await?;
    assert_record_is_true(pc, &file)?;
    assert_fetched_once(&house)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_computer_takes_over_from_a_giver_that_leaves_in_the_middle() -> anyhow::Result<()>
{
    let plans = [LAPTOP, PC, ATTIC].map(NodePlan::installed);
    let (mut house, file) = household(plans, recipe()).await?;
    let whole = holds_the_model_too(&house, &file).await?;
    until_fetching(&house).await?;
    house.node_mut(0).signal(Signal::Kill);
    house.node_mut(0).until_it_ended().await?;
    bridge(&house)?.speed_up(HELPER)?;
    let pc = house.node(HELPER);
    until_complete(pc).await?;
    assert_record_is_true(pc, &whole)?;
    assert!(!pc.log().contains("layers did not come"), "{}", pc.log());
    assert_fetched_once(&house)
}

/// No tensor crossed the helper's cable twice, but the one that was cut off.
fn assert_fetched_once(house: &Household) -> anyhow::Result<()> {
    let taken = partial_file(&house.node(HELPER).models())?.context("a file with holes")?.taken;
    let came = received(house, HELPER)?;
    assert!(came < taken * 11 / 10 + TENSOR_BYTES, "{came} for {taken}");
    Ok(())
}

/// One of the two owners says no in the middle of the fetch.
async fn refuses(who: usize, words: &[&str], reason: UnusedReason) -> anyhow::Result<()> {
    let (house, _) = fetching(helper_only()).await?;
    commands::run(house.node(who).home(), words).await?;
    bridge(&house)?.speed_up(HELPER)?;
    until_said(&house, reason).await?;
    until_nothing_is_left(house.node(HELPER)).await?;
    answers_alone(&house).await
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_that_the_helper_withdraws_in_the_middle_leaves_nothing() -> anyhow::Result<()> {
    let words = ["devices", "trust", LAPTOP, "guest"];
    refuses(HELPER, &words, UnusedReason::NotAllowedThere).await
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_that_the_asking_computer_withdraws_in_the_middle_leaves_nothing()
-> anyhow::Result<()> {
    refuses(0, &["devices", "trust", PC, "guest"], UnusedReason::NotAllowed).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sharing_that_is_switched_off_in_the_middle_leaves_nothing() -> anyhow::Result<()> {
    refuses(HELPER, &["share", "off"], UnusedReason::SharingOff).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fetching_that_is_switched_off_in_the_middle_leaves_nothing() -> anyhow::Result<()> {
    refuses(HELPER, &["settings", "set", FETCH_LAYERS, "false"], UnusedReason::NoModel).await
}
