//! What a helper is sent, what nodes log and what they write to disk tell nobody what was asked or
//! answered (I-2, I-3). Each search is first seen to find what it looks for.

use std::fs;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use nook_api::views::ChatRole;
use nook_base::{LayerRange, ModelPart, Sensitive};
use nook_model::{
    Input, LoadOptions, LoadedModel, LogitRows as Logits, ModelFile, Output, Precision,
};
use nook_testkit::{
    Household, Lender, NodePlan, Recorded, Secrets, Signal, Told, Wish, files_below, nook,
};
use nook_text::{EncodeOptions, Tokenizer};
use nook_wire::{CallId, Kind, LocalMessage, LogitRows, PrefixHash, WorkerMessage, encode};

const HELPER: &str = "Study PC";
const RECORDER: &str = "Attic PC";

/// Part of a prompt; it stands nowhere else.
const CANARY: &str = "the zephyrquill of Brambleworth and her seventeen copper marbles";

/// Everything that may come to a helper; pings, credit and the end of a call stay in the
/// connection.
const KINDS: [Kind; 8] = [
    Kind::Hello,
    Kind::Advert,
    Kind::HelpTerms,
    Kind::DeviceFacts,
    Kind::Open,
    Kind::Step,
    Kind::Chunk,
    Kind::Truncate,
];

/// A node that asks, one that helps, and a recorder that helps as well.
async fn house(level: &'static str) -> anyhow::Result<(Household, Lender)> {
    let house = Household::sharing([
        NodePlan::new("Kitchen laptop").logging(level),
        NodePlan::new(HELPER).offering("1-2").logging(level),
    ])
    .await?;
    let asking = house.asking();
    let lender = Lender::start(RECORDER, asking, LayerRange::with_len(3, 2)).await?;
    Ok((house, lender))
}

/// Asks for something long that holds the canary.
fn wish(tokens: u32) -> Wish {
    Wish::chat(&[(ChatRole::User, format!("Tell me a story about {CANARY}."))], tokens)
}

/// All that a reply says and is asked.
fn secrets_of(told: &Told) -> Secrets {
    let whole: Vec<u32> = told.prompt_ids.iter().chain(&told.ids).copied().collect();
    Secrets::new().text("the prompt", CANARY).text("the reply", &told.text).ids("the ids", &whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn i2_a_helper_is_sent_no_text_and_no_token_ids() -> anyhow::Result<()> {
    let (mut house, lender) = house("info").await?;
    let told = house.asking().answer(&wish(60)).await?;
    assert_eq!(told.devices(), ["Kitchen laptop", HELPER, RECORDER, "Kitchen laptop"]);
    let secrets = secrets_of(&told);
    // A second reply in which the other helper dies: what is replayed is looked through as well.
    let (reply, held) = house.asking().held_reply(&wish(60), 10).await?;
    house.node_mut(1).signal(Signal::Kill);
    drop(held);
    assert_eq!(reply.whole().await?.ids, told.ids);

    let recorded = lender.recorded();
    let steps = recorded.frames.iter().filter(|(kind, _)| *kind == Kind::Step).count();
    assert!(steps >= 2 * told.ids.len(), "{steps} steps came to the recorder");
    assert!(told.ids.len() > 30, "a reply of some length");
    for kind in recorded.kinds() {
        assert!(KINDS.contains(&kind), "a helper was sent {kind:?}");
    }
    assert_eq!(secrets.found_in(&recorded.capture()), [""; 0], "in what the helper was sent");
    see_it_found(&secrets, &told, &recorded);
    Ok(())
}

/// The same search finds ids in the frame that carries them to the node's own worker, and texts.
fn see_it_found(secrets: &Secrets, told: &Told, recorded: &Recorded) {
    let tokens = LocalMessage::Tokens {
        step: 0,
        position: 0,
        ids: Sensitive(told.prompt_ids.clone()),
        history_before: PrefixHash::default(),
        history_after: PrefixHash::default(),
        rows: LogitRows::Last,
    };
    let frame = encode(CallId::CONNECTION, 0, &WorkerMessage::from(tokens));
    for (leak, name) in [
        (frame, "the ids"),
        (Bytes::copy_from_slice(CANARY.as_bytes()), "the prompt"),
        (Bytes::copy_from_slice(told.text.as_bytes()), "the reply"),
    ] {
        let leaking = [recorded.capture(), leak.to_vec()].concat();
        let found = secrets.found_in(&leaking);
        assert!(found.iter().any(|what| what.starts_with(name)), "{name}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_nothing_of_a_reply_is_logged_or_kept_even_at_trace() -> anyhow::Result<()> {
    let (mut house, lender) = house("trace").await?;
    let told = house.asking().answer(&wish(40)).await?;
    assert!(told.uses(HELPER) && told.uses(RECORDER), "{told:?}");
    // Paths on which something goes wrong.
    let (reply, held) = house.asking().held_reply(&wish(40), 10).await?;
    house.node_mut(1).signal_workers(Signal::Kill);
    drop(held);
    assert_eq!(reply.whole().await?.ids, told.ids);
    let (reply, held) = house.asking().held_reply(&wish(40), 10).await?;
    house.node_mut(0).signal_workers(Signal::Kill);
    drop(held);
    assert_eq!(reply.whole().await?.ids, told.ids);
    let endless = CANARY.repeat(200);
    let refused = house.asking().reply(&Wish::text(&endless, 40)).await;
    assert!(refused.is_err(), "longer than the model's window");
    let refused = house.asking().reply(&wish(40).by("nobody")).await;
    assert!(refused.is_err(), "no such model");

    let mut secrets = secrets_of(&told);
    let recorded = lender.recorded();
    assert!(recorded.activations.len() >= 2 * told.ids.len(), "both ways of every step");
    assert!(told.ids.len() > 20, "a reply of some length");
    for chunk in recorded.activations.iter().take(60) {
        secrets = secrets.activation("an activation", chunk);
    }
    let files = files_below(house.folder())?;
    let logs: Vec<_> =
        files.iter().filter(|(path, _)| path.to_string_lossy().contains(".log")).collect();
    assert_eq!(logs.len(), 2);
    for (path, log) in logs {
        let text = String::from_utf8_lossy(log);
        assert!(text.contains("TRACE"), "{} was written at TRACE", path.display());
    }
    for (path, content) in &files {
        assert_eq!(secrets.found_in(content), [""; 0], "in {}", path.display());
    }
    // The same search of the same files finds a log that talks.
    let talking = house.folder().join("talking.log");
    fs::write(
        &talking,
        format!("TRACE step of {:?}: {:02x?}", told.ids, &recorded.activations[0][..]),
    )?;
    let found: Vec<_> = files_below(house.folder())?
        .iter()
        .flat_map(|(_, content)| secrets.found_in(content))
        .collect();
    assert!(found.iter().any(|what| what.contains("the ids, decimal")), "{found:?}");
    Ok(())
}

/// The built-in model, as every node has it.
const EMBER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/nook-store/ember/ember-q8_0.gguf");

/// The public text that a measurement attacks, and how many of its tokens.
const ATTACKED: &str = include_str!("../../../crates/nook-privacy/text/held-out.txt");
const ATTACKED_TOKENS: u32 = 16;

/// What a measurement of the model in `file` works with: the text, its ids, and the activations of
/// its first layer.
struct Attacked {
    ids: Vec<u32>,
    /// Numbers of one position after the other.
    activations: Vec<u8>,
}

impl Attacked {
    fn of(file: &Path) -> anyhow::Result<Self> {
        let file = ModelFile::open(file)?;
        let options = EncodeOptions { add_special: true, parse_special: false };
        let mut ids = Tokenizer::new(&file.vocabulary()?)?.encode(ATTACKED, options)?;
        ids.truncate(ATTACKED_TOKENS as usize);
        let mut model =
            LoadedModel::new(file, LoadOptions { threads: 2, precision: Precision::Auto })?;
        let part = ModelPart { layers: LayerRange::all(1), embedding: true, head: false };
        model.hold(&part)?;
        let output = model.session(part, ATTACKED_TOKENS)?.step(
            &model,
            Input::Tokens(&ids),
            Logits::None,
        )?;
        let Output::Hidden(rows) = output else { anyhow::bail!("logits of a part without a head") };
        Ok(Self { ids, activations: rows.iter().flat_map(|number| number.to_le_bytes()).collect() })
    }

    fn secrets(&self) -> Secrets {
        let text: String = ATTACKED.chars().take(400).collect();
        let secrets = Secrets::new().text("the text", &text).ids("the ids", &self.ids);
        let rows = self.activations.chunks_exact(self.activations.len() / self.ids.len());
        rows.fold(secrets, |secrets, row| secrets.activation("an activation", row))
    }
}

#[test]
fn f15_nothing_of_a_measurement_is_logged_or_kept_even_at_trace() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let settings = "[network]\nlisten_port = 0\nloopback = true\n";
    fs::write(home.path().join("settings.toml"), settings)?;
    let measure =
        ["privacy", "measure", "ember", "--tokens", "16", "--candidates", "96", "--noise"];
    let said = Command::new(nook()?)
        .arg("--home")
        .arg(home.path())
        .args(measure)
        .args(["--layers", "1", "--threads", "2"])
        .env("INGLENOOK_KEYRING", "off")
        .env("INGLENOOK_LOG", "trace")
        .output()?;
    let log = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{log}");
    assert!(log.contains("TRACE"), "it was written at TRACE: {log}");
    assert!(home.path().join("privacy.json").exists(), "the figures are kept");
    let attacked = Attacked::of(Path::new(EMBER))?;
    let secrets = attacked.secrets();
    for (what, said) in [("the log", &said.stderr), ("what is shown", &said.stdout)] {
        assert_eq!(secrets.found_in(said), [""; 0], "in {what}");
    }
    for (path, content) in files_below(home.path())? {
        assert_eq!(secrets.found_in(&content), [""; 0], "in {}", path.display());
    }
    // The same search finds a log that talks.
    let Attacked { ids, activations } = attacked;
    for (leak, name) in [
        (ATTACKED.as_bytes().to_vec(), "the text"),
        (format!("attacked {ids:?}").into_bytes(), "the ids, decimal"),
        (activations, "an activation, f32"),
    ] {
        let found = secrets.found_in(&[&said.stderr[..], &leak[..]].concat());
        assert!(found.iter().any(|what| what.starts_with(name)), "{name}: {found:?}");
    }
    Ok(())
}
