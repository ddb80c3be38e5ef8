//! A model from a device of the house: the same bytes, whatever happens on the way, and nothing for
//! whom it is not meant.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeCalls as _;
use nook_api::views::{CopyExtent, DownloadAsk, DownloadState, DownloadView, HouseholdView, Trust};
use nook_base::{ErrorCode, ModelDigest, PeerId, clock};
use nook_link::LinkEvent;
use nook_model::ModelFile;
use nook_mux::Call;
use nook_testkit::{Device, Household, Node, NodePlan, Wish, nook};
use nook_wire::{
    Chunk, Document, Have, HaveModel, Message, PIECE_BYTES_MAX, Piece, Want, WireError,
};

const ASKING: &str = "Kitchen laptop";
const GIVER: &str = "Dad's PC";
const OTHER: &str = "Visitor";
const NAME: &str = "amber";
const PROMPT: &str = "Once upon a time";
const PIECE: u64 = PIECE_BYTES_MAX as u64;

/// A revocation takes effect within 1 s; a busy test machine gets some more.
const REVOKED_WITHIN: Duration = Duration::from_secs(5);

/// Behind the weights of the model that is copied: more than travels before anybody takes a byte.
/// Nothing of it counts for the model.
const PADDING: usize = 8 << 20;

/// Most looks at a folder that becomes empty.
const LOOKS_MAX: u32 = 20_000;

/// Nodes of which the second has a model of its own: the built-in one under another name, so with
/// the same answers.
struct Desk {
    house: Household,
    file: PathBuf,
    bytes: Vec<u8>,
    /// Where the weights end.
    weights_end: usize,
    digest: ModelDigest,
}

impl Desk {
    /// Nobody knows anybody yet.
    async fn new() -> anyhow::Result<Self> {
        let plan =
            |name| NodePlan::new(name).logging("info,nook_library=debug,nook_resources=debug");
        let plans = [plan(ASKING), plan(GIVER)];
        let house = Household::strangers(plans).await?;
        let mut bytes = house.asking().renamed_built_in().await?;
        let weights_end = bytes.len();
        bytes.resize(weights_end + PADDING, 7);
        let file = house.folder().join("amber.gguf");
        std::fs::write(&file, &bytes)?;
        let digest = ModelFile::digest_at(&file)?;
        house.node(1).import(&file, Some(NAME)).await?;
        Ok(Self { house, file, bytes, weights_end, digest })
    }

    /// And the first has heard of it.
    async fn paired() -> anyhow::Result<Self> {
        let desk = Self::new().await?;
        desk.house.pair(0, 1, Trust::Trusted).await?;
        desk.until_offered(GIVER).await?;
        Ok(desk)
    }

    fn asking(&self) -> &Node {
        self.house.asking()
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    async fn until_offered(&self, device: &str) -> anyhow::Result<HouseholdView> {
        let has = |view: &HouseholdView| {
            let mut models = view.in_house.iter();
            models.any(|it| it.name == NAME && it.devices.iter().any(|name| name == device))
        };
        self.asking().until(&format!("{device} gives {NAME}"), has).await
    }

    async fn copy(&self) -> anyhow::Result<DownloadView> {
        self.copy_of(self.digest).await
    }

    async fn copy_of(&self, model: ModelDigest) -> anyhow::Result<DownloadView> {
        Ok(self.asking().client().copy_model(model.to_string(), None, CopyExtent::Whole).await?)
    }

    /// Waits for the model, whole and with nothing left of its way; it says what it says there.
    async fn until_here(&self) -> anyhow::Result<()> {
        let is_here = |view: &HouseholdView| {
            let listed = view.models.iter().any(|it| it.name == NAME && it.owned);
            listed && view.downloads.is_empty() && view.in_house.is_empty()
        };
        let view = self.asking().until("the model is here", is_here).await?;
        let copied = view.models.iter().find(|it| it.name == NAME).context("it was there")?;
        assert_eq!(copied.digest, self.digest.to_string());
        let file = self.asking().home().join("models/amber.gguf");
        assert!(std::fs::read(file)? == self.bytes, "other bytes");
        assert_eq!(self.litter(), Vec::<String>::new());
        Ok(())
    }

    /// The giver comes, and is asked for what is behind the first piece.
    async fn until_the_rest_is_here(&self) -> anyhow::Result<()> {
        self.house.pair(0, 1, Trust::Trusted).await?;
        self.until_here().await?;
        let log = self.house.node(1).log();
        assert!(log.contains(&format!("from={PIECE}")), "it was asked for the rest:\n{log}");
        Ok(())
    }

    async fn until_state(
        &self,
        what: &str,
        is_so: impl Fn(&DownloadView) -> bool,
    ) -> anyhow::Result<DownloadView> {
        let view = self.asking().until(what, |view| view.downloads.iter().any(&is_so)).await?;
        view.downloads.into_iter().find(is_so).context("it was there")
    }

    /// Names of what lies in the folder of downloads.
    fn litter(&self) -> Vec<String> {
        let folder = self.asking().home().join("models/downloads");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    async fn until_no_litter(&self) -> anyhow::Result<()> {
        for _ in 0..LOOKS_MAX {
            if self.litter().is_empty() {
                return Ok(());
            }
            self.asking().view().await?;
        }
        anyhow::bail!("still there: {:?}", self.litter())
    }

    /// A device that both sides trust and that says it gives the model.
    async fn false_giver(&self) -> anyhow::Result<(Device, PeerId)> {
        // Names come as a device likes them, and stay words.
        let name = "../../amber.gguf".to_owned();
        let model = HaveModel { model: self.digest, bytes: self.length(), layers: 6, name };
        self.giver_of(OTHER, model).await
    }

    /// A copy that has begun with such a device: it, the call on which it was asked, and for what.
    async fn begun(&self) -> anyhow::Result<(Device, Call<Message>, Want)> {
        let (mut device, _) = self.false_giver().await?;
        self.copy().await?;
        let (call, first) = asked(&mut device).await?;
        Ok((device, call, first))
    }

    /// Sends the first piece, and waits until it is kept.
    async fn bring_a_piece(&self, call: &mut Call<Message>) -> anyhow::Result<()> {
        send(call, 0, &self.bytes[..PIECE as usize]).await?;
        self.until_state("a piece came", |it| it.have_bytes == PIECE).await?;
        Ok(())
    }

    /// A device that both sides trust and that says it gives this.
    async fn giver_of(
        &self,
        device: &'static str,
        model: HaveModel,
    ) -> anyhow::Result<(Device, PeerId)> {
        let digest = model.model.to_string();
        let mut giver = Device::start(device)?;
        let peer = giver.pair_with(self.asking(), Trust::Trusted).await?;
        let link = giver.until_linked(peer).await?;
        link.mux().send(Message::Have(Have { models: vec![model] })).await?;
        let has = |view: &HouseholdView| {
            let mut models = view.in_house.iter();
            models.any(|it| it.digest == digest && it.devices.iter().any(|name| name == device))
        };
        self.asking().until(&format!("{device} gives it"), has).await?;
        Ok((giver, peer))
    }
}

/// The call on which a device is asked for a range, and the range.
async fn asked(device: &mut Device) -> anyhow::Result<(Call<Message>, Want)> {
    loop {
        if let LinkEvent::IncomingCall { mut call, .. } = device.next_event().await? {
            match call.recv().await? {
                Message::Want(want) => return Ok((call, want)),
                other => anyhow::bail!("{other:?} begins a call"),
            }
        }
    }
}

/// Sends `bytes` as those from `from` on.
async fn send(call: &mut Call<Message>, mut from: u64, bytes: &[u8]) -> anyhow::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES_MAX as usize) {
        let head = Piece { from, bytes: u32::try_from(piece.len())? };
        call.send_tensor(Message::Piece(head), piece.to_vec().into()).await?;
        from += piece.len() as u64;
    }
    Ok(())
}

/// Says that this device serves others.
async fn refuse_as_busy(call: &mut Call<Message>) -> anyhow::Result<()> {
    let busy = WireError { code: ErrorCode::Busy, sentence: "Not even now.".to_owned() };
    Ok(call.send(Message::Error(busy)).await?)
}

/// Whether it says that it waits for a device which serves others.
fn says_busy(download: &DownloadView) -> bool {
    let busy = ErrorCode::Busy.sentence().trim_end_matches('.');
    download.problem.as_ref().is_some_and(|why| why.sentence.contains(busy))
}

/// Asks for a range as a device of the test; the code of the refusal, or the call.
async fn want(
    device: &Device,
    peer: PeerId,
    want: Want,
) -> anyhow::Result<Result<Call<Message>, ErrorCode>> {
    let mut call = device.until_linked(peer).await?.mux().open_call().await?;
    call.send(Message::Want(want)).await?;
    match call.recv().await? {
        Message::Error(error) => Ok(Err(error.code)),
        Message::Piece(_) => Ok(Ok(call)),
        other => anyhow::bail!("{other:?} to a WANT"),
    }
}

/// What a device hears next of what is given to it.
async fn hears(device: &mut Device) -> anyhow::Result<Vec<ModelDigest>> {
    loop {
        if let LinkEvent::Control { message: Message::Have(have), .. } = device.next_event().await?
        {
            return Ok(have.models.iter().map(|it| it.model).collect());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_between_two_nodes_is_the_same_file_and_answers() -> anyhow::Result<()> {
    let desk = Desk::paired().await?;
    let before = desk.asking().view().await?;
    let [offered] = &before.in_house[..] else { panic!("{:?}", before.in_house) };
    assert_eq!((offered.file_bytes, offered.copy.as_deref()), (desk.length(), None));
    let begun = desk.copy().await?;
    assert!(begun.copied && begun.name == NAME, "{begun:?}");
    desk.until_here().await?;
    let ember = desk.asking().answer(&Wish::text(PROMPT, 24).alone()).await?;
    let amber = desk.asking().answer(&Wish::text(PROMPT, 24).alone().by(NAME)).await?;
    assert_eq!((amber.ids.len(), &amber.ids), (24, &ember.ids));
    // It is here, and nothing more is to be copied.
    let again = desk.copy().await.expect_err("it is here").to_string();
    assert!(again.contains("here already"), "{again}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_goes_on_from_another_device_when_the_first_is_lost() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (device, mut call, first) = desk.begun().await?;
    assert_eq!((first.model, first.from, first.bytes), (desk.digest, 0, desk.length()));
    desk.bring_a_piece(&mut call).await?;
    // It is gone like a device that was switched off: everybody who has the model is.
    drop((call, device));
    let waits = |it: &DownloadView| it.state == DownloadState::Waiting && it.problem.is_some();
    let waiting = desk.until_state("it waits for somebody", waits).await?;
    assert_eq!(waiting.have_bytes, PIECE);
    let why = waiting.problem.context("it says why")?;
    assert!(why.sentence.contains("goes on when one is back"), "{}", why.sentence);
    // Another one comes, and nobody has to say anything.
    desk.until_the_rest_is_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_here_outlive_a_device_that_says_another_length() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (device, mut call, _) = desk.begun().await?;
    desk.bring_a_piece(&mut call).await?;
    let bytes = desk.length() + 1;
    let other = HaveModel { model: desk.digest, bytes, layers: 6, name: NAME.to_owned() };
    let (_other, _) = desk.giver_of("Attic", other).await?;
    drop((call, device));
    let says = |it: &DownloadView| {
        it.problem.as_ref().is_some_and(|why| why.sentence.contains("another file of this model"))
    };
    let waiting = desk.until_state("it waits for the same file", says).await?;
    assert_eq!(waiting.have_bytes, PIECE);
    desk.until_the_rest_is_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_device_says_that_gives_nothing_now_is_what_the_owner_reads() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (_device, mut call, _) = desk.begun().await?;
    refuse_as_busy(&mut call).await?;
    let waiting = desk.until_state("it says why", says_busy).await?;
    assert!(!waiting.problem.context("it says why")?.sentence.contains("Not even now"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_wait_for_busy_devices_hold_up_no_other() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let mut busy = Vec::new();
    // As many as load at once.
    for (device, name, number) in [(OTHER, "opal", 1), ("Attic", "jade", 2)] {
        let (model, name) = (ModelDigest([number; 32]), name.to_owned());
        let other = HaveModel { model, bytes: PIECE, layers: 6, name };
        let (mut giver, _) = desk.giver_of(device, other).await?;
        desk.copy_of(model).await?;
        let (mut call, _) = asked(&mut giver).await?;
        refuse_as_busy(&mut call).await?;
        busy.push((giver, call));
    }
    desk.house.pair(0, 1, Trust::Trusted).await?;
    desk.until_offered(GIVER).await?;
    desk.copy().await?;
    let waits = |it: &DownloadView| it.state == DownloadState::Connecting && says_busy(it);
    let is_here = |view: &HouseholdView| {
        let is_listed = view.models.iter().any(|it| it.name == NAME && it.owned);
        is_listed && view.downloads.len() == 2 && view.downloads.iter().all(waits)
    };
    desk.asking().until("the model is here, and the others wait", is_here).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_was_read_again_is_given_from_the_file_that_is_there_now() -> anyhow::Result<()>
{
    let desk = Desk::paired().await?;
    // The same bytes, but not the file that is held open: nothing is given of one that has changed.
    std::fs::write(&desk.file, &desk.bytes)?;
    desk.house.node(1).import(&desk.file, Some(NAME)).await?;
    desk.copy().await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_cannot_be_used_yet_stays_and_nobody_is_asked_for_it_again()
-> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let key = b"general.architecture";
    let at = desk.bytes.windows(key.len()).position(|it| it == key).context("it has one")?;
    // Behind the key: the kind of the value, its length, its first letter.
    desk.bytes[at + key.len() + 4 + 8] = b'~';
    let file = desk.house.folder().join("later.gguf");
    std::fs::write(&file, &desk.bytes)?;
    desk.digest = ModelFile::digest_at(&file)?;
    let (device, mut call, _) = desk.begun().await?;
    send(&mut call, 0, &desk.bytes).await?;
    let is_unusable = |it: &DownloadView| {
        let why = it.problem.as_ref().map(|why| why.sentence.as_str()).unwrap_or_default();
        it.state == DownloadState::Failed && why.contains("not supported")
    };
    let failed = desk.until_state("it cannot be used", is_unusable).await?;
    let why = failed.problem.context("it says why")?.sentence;
    assert!(!why.contains("deleted"), "{why}");
    assert_eq!(failed.have_bytes, desk.length());
    // Those who have it leave, and the program starts again.
    drop((call, device));
    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    desk.until_state("it rests", |it| it.state == DownloadState::Paused).await?;
    desk.asking().client().change_download(failed.key, DownloadAsk::Resume).await?;
    desk.until_state("it was looked at again", is_unusable).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_survives_a_restart_and_goes_on_by_itself() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let (device, mut call, _) = desk.begun().await?;
    desk.bring_a_piece(&mut call).await?;
    desk.house.node_mut(0).leave().await?;
    drop((call, device));
    desk.house.node_mut(0).start_again().await?;
    let kept = desk.until_state("it is in the list", |it| it.have_bytes == PIECE).await?;
    assert!(kept.copied && kept.name == NAME, "{kept:?}");
    desk.house.pair(0, 1, Trust::Trusted).await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_leave_nothing_and_are_said_and_nothing_more_is_taken_from_there()
-> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (_device, mut call, _) = desk.begun().await?;
    let mut wrong = desk.bytes.clone();
    wrong[desk.weights_end - 1] ^= 1;
    send(&mut call, 0, &wrong).await?;
    let failed = desk.until_state("it has failed", |it| it.state == DownloadState::Failed).await?;
    let why = failed.problem.context("it says why")?.sentence;
    assert!(why.contains(OTHER) && why.contains("not the model"), "{why}");
    desk.until_no_litter().await?;
    let view = desk.asking().view().await?;
    assert_eq!(view.models.len(), 1, "{:?}", view.models);
    assert!(view.in_house.is_empty(), "{:?}", view.in_house);
    // An honest device has it too: the same wish ends well.
    desk.house.pair(0, 1, Trust::Trusted).await?;
    desk.until_offered(GIVER).await?;
    desk.copy().await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_were_not_asked_for_are_not_taken() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (mut device, _) = desk.false_giver().await?;
    desk.copy().await?;
    for (from, bytes) in [(PIECE, 1), (0, u32::MAX), (u64::MAX, 1)] {
        // It is asked again each time, after a pause: nobody else has the model.
        let (mut call, first) = asked(&mut device).await?;
        assert_eq!(first.from, 0, "nothing of that was kept");
        call.send(Message::Piece(Piece { from, bytes })).await?;
        let chunk = Chunk { offset: 0, bytes: vec![1].into(), last: true };
        let _ = call.send(Message::Chunk(chunk)).await;
        call.ended().await;
    }
    let (mut call, _) = asked(&mut device).await?;
    send(&mut call, 0, &desk.bytes).await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_and_the_owners_switch_decide_who_is_given_models() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let node = desk.house.node(1);
    let mut guest = Device::start(OTHER)?;
    let peer = guest.pair_with(node, Trust::Guest).await?;
    let all = Want { model: desk.digest, document: Document::File, from: 0, bytes: desk.length() };
    let ask = async |device: &Device, wanted: Want| {
        Ok::<_, anyhow::Error>(want(device, peer, wanted).await?.err())
    };
    assert_eq!(ask(&guest, all).await?, Some(ErrorCode::TrustDenied), "a guest");
    node.trust(OTHER, Trust::Trusted).await?;
    assert_eq!(hears(&mut guest).await?, [desk.digest], "and not the built-in one");
    assert_eq!(ask(&guest, all).await?, None, "a trusted device");
    let (_, ember) = node.built_in().await?;
    let others = [ModelDigest([9; 32]), ember];
    for model in others {
        let other = Want { model, ..all };
        assert_eq!(ask(&guest, other).await?, Some(ErrorCode::NotFound), "{model:?}");
    }
    let last = u64::MAX;
    for (from, bytes) in [(0, 0), (all.bytes, 1), (0, all.bytes + 1), (last, 1), (1, last)] {
        let range = Want { from, bytes, ..all };
        assert_eq!(ask(&guest, range).await?, Some(ErrorCode::BadRequest), "{bytes} at {from}");
    }
    node.edit_settings("network.give_models", false)?;
    assert_eq!(hears(&mut guest).await?, []);
    assert_eq!(ask(&guest, all).await?, Some(ErrorCode::SwitchedOff), "switched off");
    node.edit_settings("network.give_models", true)?;
    assert_eq!(hears(&mut guest).await?, [desk.digest]);
    node.trust(OTHER, Trust::Guest).await?;
    assert_eq!(hears(&mut guest).await?, [], "a guest hears of nothing");
    assert_eq!(ask(&guest, all).await?, Some(ErrorCode::TrustDenied), "a guest again");
    node.edit_settings("gate.copy", "guest")?;
    assert_eq!(hears(&mut guest).await?, [desk.digest], "a guest is enough now");
    assert_eq!(ask(&guest, all).await?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_ends_at_once_when_trust_falls_on_either_side() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let node = desk.house.node(1);
    let mut taker = Device::start(OTHER)?;
    let peer = taker.pair_with(node, Trust::Trusted).await?;
    assert_eq!(hears(&mut taker).await?, [desk.digest]);
    let all = Want { model: desk.digest, document: Document::File, from: 0, bytes: desk.length() };
    // It takes one piece's head and no chunk, so the file cannot be through.
    let call = want(&taker, peer, all).await?.expect("it is given");
    let begun = clock::now();
    node.trust(OTHER, Trust::Guest).await?;
    assert_eq!(call.ended().await.code(), ErrorCode::TrustDenied);
    assert!(begun.elapsed() < REVOKED_WITHIN, "{:?}", begun.elapsed());

    // The taker's own trust ends it too.
    let (_device, mut call, _) = desk.begun().await?;
    desk.bring_a_piece(&mut call).await?;
    let begun = clock::now();
    desk.asking().trust(OTHER, Trust::Guest).await?;
    call.ended().await;
    assert!(begun.elapsed() < REVOKED_WITHIN, "{:?}", begun.elapsed());
    desk.until_state("it waits", |it| it.state == DownloadState::Waiting).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_during_a_copy_is_the_reply_of_an_undisturbed_house() -> anyhow::Result<()> {
    let desk = Desk::paired().await?;
    desk.house.node(1).share(true).await?;
    desk.house.until_all_lend("ember").await?;
    let wish = Wish::text(PROMPT, 160);
    let undisturbed = desk.asking().answer(&wish).await?;
    let mut reply = desk.asking().reply(&wish).await?;
    reply.until(3).await?;
    desk.copy().await?;
    // While words come, the file comes too, but slowly.
    let comes = |view: &HouseholdView| {
        let is_here = view.models.iter().any(|it| it.name == NAME);
        is_here || view.downloads.iter().any(|it| it.have_bytes > 0)
    };
    desk.asking().until("it comes", comes).await?;
    let told = reply.whole().await?;
    for node in [desk.asking(), desk.house.node(1)] {
        let log = node.log();
        assert!(log.contains("a piece of a file gives way"), "{} gave no way:\n{log}", node.name());
    }
    assert_eq!(told.ids, undisturbed.ids);
    assert!(told.failovers.is_empty() && told.lost.is_empty(), "{told:?}");
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_and_copies() -> anyhow::Result<()> {
    let desk = Desk::paired().await?;
    let (program, home) = (nook()?, desk.asking().home().to_owned());
    let run = move |words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).arg("models").args(words).stdin(Stdio::null());
        command.env("INGLENOOK_KEYRING", "off").env_remove("INGLENOOK_HOME").output()
    };
    let ran = tokio::task::spawn_blocking(move || {
        let listed = run(&["copy", "--json"])?;
        let table = run(&[])?;
        let unknown = run(&["copy", "opal"])?;
        let nobody = run(&["copy", NAME, "--from", "Attic"])?;
        let copied = run(&["copy", NAME, "--from", GIVER, "--json"])?;
        Ok::<_, std::io::Error>((listed, table, unknown, nobody, copied, run(&["copy"])?))
    });
    let (listed, table, unknown, nobody, copied, after) = ran.await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let models: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout)?;
    assert_eq!(models.len(), 1, "{models:?}");
    assert_eq!(models[0]["digest"], desk.digest.to_string());
    assert_eq!(models[0]["devices"][0], GIVER);
    let table = text(&table.stdout);
    assert!(table.contains("IN THIS HOUSE") && table.contains(GIVER), "{table}");
    assert!(!unknown.status.success() && text(&unknown.stderr).contains("opal"), "{unknown:?}");
    assert!(!nobody.status.success() && text(&nobody.stderr).contains("Attic"), "{nobody:?}");
    let said = text(&copied.stdout);
    assert!(copied.status.success(), "{said}{}", text(&copied.stderr));
    let last = said.lines().last().context("it says something")?;
    let last: serde_json::Value = serde_json::from_str(last)?;
    assert_eq!((&last["name"], &last["owned"]), (&NAME.into(), &true.into()), "{said}");
    assert!(text(&after.stdout).contains("No device"), "{after:?}");
    assert!(desk.file.exists());
    desk.until_here().await
}
