//! Whoever may not, and whatever cannot be right, gets a clear code: nothing is stored, nothing
//! crashes, and the node answers as before.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nook_api::views::Trust;
use nook_api::{NodeCalls as _, PairTarget, Request};
use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest, clock};
use nook_control::ClientError;
use nook_link::LinkEvent;
use nook_testkit::{Asked, Device, Household, Node, NodePlan, Told, Wish, files_below};
use nook_wire::Open;

const ASKING: &str = "Kitchen laptop";
const HELPER: &str = "Study PC";
const STRANGER: &str = "Visitor";

/// A revocation takes effect within 1 s; a busy test machine gets some more.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn alone_and_sharing() -> NodePlan {
    NodePlan::new(HELPER)
        .offering("1-4")
        .with("distributed_inference.host.serve_shards", "true")
        .with("distributed_inference.host.max_concurrent_streams", "2")
}

pub(crate) async fn digest(node: &Node) -> anyhow::Result<ModelDigest> {
    Ok(node.view().await?.models[0].digest.parse()?)
}

pub(crate) fn open(model: ModelDigest, start: u32, len: u32) -> Open {
    Open {
        session: 7,
        model,
        layers: LayerRange::with_len(start, len),
        dtype: ActivationDtype::F32,
        positions_max: 64,
        resume: None,
    }
}

/// The node still does its work.
async fn still_answers(node: &Node) -> anyhow::Result<()> {
    let told = node.answer(&Wish::text("Once", 4).alone()).await?;
    assert_eq!(told.ids.len(), 4);
    Ok(())
}

fn code_of<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> String {
    match outcome {
        Err(ClientError::Refused(problem)) => problem.code,
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_three_wrong_codes_close_the_window_and_store_nothing() -> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new(ASKING), NodePlan::new(HELPER)]).await?;
    let (asking, helper) = (house.asking(), house.node(1));
    let window = helper.client().show_code().await?;
    let address = window.addresses.last().cloned().unwrap_or_default();
    let digits: String = window.code.chars().filter(char::is_ascii_digit).collect();
    let right: u32 = digits.parse()?;
    let join = async |code: u32| {
        let target = PairTarget::Address(address.clone());
        let code = format!("{:06}", code % 1_000_000).into();
        asking.do_this(Request::Join { target, code }).await
    };
    for wrong in 1..=3 {
        assert_eq!(code_of(join(right + wrong).await), "trust_denied", "wrong code {wrong}");
        let is_counted = |left: u8| u32::from(left) == 3 - wrong;
        helper
            .until("the wrong code is counted", |view| {
                view.pairing.as_ref().is_none_or(|pairing| is_counted(pairing.tries_left))
            })
            .await?;
    }
    helper.until("the window is closed", |view| view.pairing.is_none()).await?;
    assert_eq!(code_of(join(right).await), "shard_unavailable", "the right code comes too late");
    for node in [asking, helper] {
        let view = node.view().await?;
        assert!(view.devices.iter().all(|device| !device.paired), "{:#?}", view.devices);
        still_answers(node).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_a_device_that_was_never_paired_gets_no_link() -> anyhow::Result<()> {
    let house = Household::strangers([alone_and_sharing()]).await?;
    let node = house.asking();
    let mut stranger = Device::start(STRANGER)?;
    let id = stranger.pretend_paired_with(node).await?;
    match stranger.next_event().await? {
        LinkEvent::RefusedByPeer { peer } => assert_eq!(peer, id),
        other => panic!("{other:?}"),
    }
    assert!(stranger.link(id).is_none());
    let view = node.view().await?;
    assert!(view.devices.iter().all(|device| device.name != STRANGER), "{:#?}", view.devices);
    still_answers(node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_and_the_offer_decide_what_a_paired_device_gets() -> anyhow::Result<()> {
    let house = Household::strangers([alone_and_sharing()]).await?;
    let node = house.asking();
    let model = digest(node).await?;
    let mut guest = Device::start(STRANGER)?;
    let peer = guest.pair_with(node, Trust::Guest).await?;
    let ask = async |open: Open| Ok::<_, anyhow::Error>(guest.ask_for(peer, open).await?.refused());

    assert_eq!(ask(open(model, 1, 2)).await?, Some(ErrorCode::TrustDenied), "a guest");
    node.trust(STRANGER, Trust::Trusted).await?;
    assert_eq!(ask(open(model, 1, 2)).await?, None, "a trusted device");
    let other = ModelDigest([9; 32]);
    assert_eq!(ask(open(other, 1, 2)).await?, Some(ErrorCode::WeightsMismatch), "another file");
    for (start, len) in [(0, 2), (4, 2), (1, 5), (5, 1), (2, 0), (900, 3)] {
        let refused = ask(open(model, start, len)).await?;
        assert_eq!(refused, Some(ErrorCode::ShardUnavailable), "{len} layers from {start}");
    }
    node.share(false).await?;
    let refused = ask(open(model, 1, 2)).await?;
    assert_eq!(refused, Some(ErrorCode::SwitchedOff), "sharing is off");
    still_answers(node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_exactly_as_many_streams_run_as_the_owner_allows() -> anyhow::Result<()> {
    let house = Household::strangers([alone_and_sharing()]).await?;
    let node = house.asking();
    let model = digest(node).await?;
    let mut device = Device::start(STRANGER)?;
    let peer = device.pair_with(node, Trust::Trusted).await?;
    let mut running = Vec::new();
    for _ in 0..2 {
        match device.ask_for(peer, open(model, 1, 4)).await? {
            Asked::Open(call) => running.push(call),
            Asked::Refused(code) => panic!("refused as {code}"),
        }
    }
    for _ in 0..3 {
        let more = device.ask_for(peer, open(model, 1, 4)).await?;
        assert_eq!(more.refused(), Some(ErrorCode::Busy));
    }
    node.until("both streams are counted", |view| view.sharing.streams == 2).await?;
    // A stream that ends, however it ends, makes room for exactly one other.
    drop(running.pop());
    node.until("one stream is left", |view| view.sharing.streams == 1).await?;
    let next = device.ask_for(peer, open(model, 1, 4)).await?;
    assert!(next.refused().is_none());
    let more = device.ask_for(peer, open(model, 1, 4)).await?;
    assert_eq!(more.refused(), Some(ErrorCode::Busy));
    drop((running, next));
    // A device that vanishes leaves nothing behind.
    drop(device);
    node.until("no stream is left", |view| view.sharing.streams == 0).await?;
    still_answers(node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn another_file_under_the_same_name_is_not_computed_with() -> anyhow::Result<()> {
    let house =
        Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")]).await?;
    let (asking, helper) = (house.asking(), house.node(1));
    let mut bytes = fs::read(built_in(asking)?)?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    asking.import(&write(&house, "ours.gguf", &bytes)?, Some("twin")).await?;
    bytes[last] ^= 3;
    helper.import(&write(&house, "theirs.gguf", &bytes)?, Some("twin")).await?;
    // Its offer of the other file has come when one of a model that is not here shows.
    asking
        .until("an offer of a file that is not here", |view| {
            let lends = view.devices.iter().flat_map(|device| &device.lends);
            lends.clone().count() == 2 && lends.into_iter().all(|lend| lend.model != "twin")
        })
        .await?;
    let told = asking.answer(&Wish::text("Once", 8).by("twin")).await?;
    assert_eq!(told.devices(), [ASKING], "nobody else has this file");
    assert!(asking.answer(&Wish::text("Once", 8)).await?.uses(HELPER));
    still_answers(helper).await
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_damaged_model_file_is_refused_and_nothing_is_stored() -> anyhow::Result<()> {
    let house = Household::strangers([NodePlan::new(ASKING)]).await?;
    let node = house.asking();
    let bytes = fs::read(built_in(node)?)?;
    let before = (node.view().await?.models, names_below(node)?);
    let half = bytes.len() / 2;
    for (what, damaged) in [
        ("empty", &bytes[..0]),
        ("no model", b"This is a letter, not a model.".as_slice()),
        ("cut in the header", &bytes[..1000]),
        ("cut in the middle", &bytes[..half]),
        ("cut by one byte", &bytes[..bytes.len() - 1]),
    ] {
        let file = write(&house, "damaged.gguf", damaged)?;
        let import = Request::ImportModel { file, name: Some("damaged".to_owned()) };
        assert_eq!(code_of(node.do_this(import).await), "bad_model", "{what}");
        let models: Vec<_> = node.view().await?.models;
        assert_eq!((&models, &names_below(node)?), (&before.0, &before.1), "{what}");
    }
    still_answers(node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_device_that_is_blocked_mid_reply_is_out_at_once() -> anyhow::Result<()> {
    check_revocation(Trust::Blocked, 0).await?;
    check_revocation(Trust::Blocked, 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn p16_a_device_that_is_trusted_less_mid_reply_is_out_at_once() -> anyhow::Result<()> {
    check_revocation(Trust::Guest, 0).await?;
    check_revocation(Trust::Guest, 1).await
}

/// Lowers the trust of one side in the other while a reply runs over the link.
async fn check_revocation(level: Trust, revoker: usize) -> anyhow::Result<()> {
    let house =
        Household::sharing([NodePlan::new(ASKING), NodePlan::new(HELPER).offering("1-4")]).await?;
    let wish = Wish::text("Once upon a time", 120);
    let undisturbed = house.asking().answer(&wish.clone().alone()).await?;
    let (reply, held) = house.asking().held_reply(&wish, 10).await?;
    assert!(reply.told().uses(HELPER), "{:?}", reply.told());
    let (who, whom) = [(ASKING, HELPER), (HELPER, ASKING)][revoker];
    house.node(revoker).trust(whom, level).await?;
    let end = clock::now() + REVOKED_WITHIN;
    let out = loop {
        let lender = house.node(1).view().await?;
        let linked = lender.devices.iter().any(|device| device.connected);
        if lender.sharing.streams == 0 && (linked == (level > Trust::Blocked)) {
            break true;
        }
        if clock::now() > end {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    drop(held);
    let told: Told = reply.whole().await?;
    assert!(out, "{who} made {whom} {level:?}: the stream goes on");
    assert_eq!(told.ids, undisturbed.ids);
    assert!(!told.uses(HELPER), "{told:?}");
    let later = house.asking().answer(&wish).await?;
    assert!(!later.uses(HELPER), "{later:?}");
    still_answers(house.node(1)).await
}

/// The file of the built-in model in a node's home.
fn built_in(node: &Node) -> anyhow::Result<PathBuf> {
    let files = files_below(node.home())?.into_iter().map(|(path, _)| path);
    let mut models = files.filter(|path| path.extension().is_some_and(|end| end == "gguf"));
    models.next().ok_or_else(|| anyhow::anyhow!("there is no built-in model in the home"))
}

fn names_below(node: &Node) -> anyhow::Result<Vec<PathBuf>> {
    let mut names: Vec<_> = files_below(node.home())?.into_iter().map(|(path, _)| path).collect();
    // SQLite comes and goes with files of its own.
    names.retain(|path| !path.to_string_lossy().contains("chats.db"));
    names.sort();
    Ok(names)
}

fn write(house: &Household, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let path = house.folder().join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}
