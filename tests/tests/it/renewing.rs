//! The list of models, renewed by a node with its daily look for new versions.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use minisign::KeyPair;
use nook_api::NodeCalls as _;
use nook_api::views::{HouseholdView, SettingAsk};
use nook_testkit::{FileServer, Household, NodePlan, Served};
use nook_update::{
    CATALOGUE_FILE, CATALOGUE_KIND, FORMAT, KIND, MANIFEST_FILE, Manifest, SIGNATURE_END,
};

/// Longer than the node takes between two looks at what it has to do.
const SOME_TICKS: Duration = Duration::from_secs(3);

/// A server with a list of versions that names none newer, and with a list of models.
struct Maker {
    server: FileServer,
    key: KeyPair,
}

impl Maker {
    fn new() -> anyhow::Result<Self> {
        let maker =
            Self { server: FileServer::start()?, key: KeyPair::generate_unencrypted_keypair()? };
        let now = nook_base::clock::unix_seconds();
        let manifest = Manifest {
            kind: KIND.to_owned(),
            format: FORMAT,
            version: nook_base::VERSION.parse()?,
            serial: 2,
            released: now - 1000,
            expires: now + 100_000,
            notes: [].into(),
            packages: Vec::new(),
        };
        maker.serve(MANIFEST_FILE, KIND, &serde_json::to_vec(&manifest)?)?;
        Ok(maker)
    }

    fn serve(&self, file: &str, kind: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let signature = minisign::sign(None, &self.key.sk, bytes, Some(kind), None)?.to_bytes();
        self.server.serve(&format!("/{file}{SIGNATURE_END}"), Served::file(signature, "\"s\""));
        self.server.serve(&format!("/{file}"), Served::file(bytes.to_vec(), "\"f\""));
        Ok(())
    }

    /// Serves a list with one model that this program runs and one that it does not.
    fn serve_models(&self, written: &str) -> anyhow::Result<()> {
        let entry = |id: &str, architecture: &str, rank: u32| {
            format!(
                r#"
[[model]]
id = "{id}"
name = "Tiny"
licence = "MIT"
repository = "somebody/{id}"
file = "tiny.gguf"
architecture = "{architecture}"
quantisation = "Q8_0"
bytes = 1_000_000
billions = 0.1
languages = ["en"]
rank = {rank}
layers = 2
hidden = 64
kv_width = 64
vocabulary = 100
tied = true
about.en = "Small."
about.de = "Klein."
"#
            )
        };
        let head = format!("kind = \"{CATALOGUE_KIND}\"\nformat = 1\nwritten = {written}\n");
        let text = head + &entry("tiny", "llama", 1) + &entry("later", "qwen99", 2);
        self.serve(CATALOGUE_FILE, CATALOGUE_KIND, text.as_bytes())
    }

    /// A node that may ask the server by itself.
    fn plan(&self) -> NodePlan {
        let address = format!("{}/{MANIFEST_FILE}", self.server.address());
        let words: [OsString; 3] = [
            "env".into(),
            format!("INGLENOOK_UPDATES_URL={address}").into(),
            format!("INGLENOOK_UPDATES_KEY={}", self.key.pk.to_base64()).into(),
        ];
        NodePlan::new("Kitchen laptop").behind(words.into())
    }
}

fn is_built_in(view: &HouseholdView) -> bool {
    view.catalogue_edition.built_in && view.catalogue.iter().any(|entry| entry.id == "qwen3.5-4b")
}

/// Whether the list of the server is in use, without what this program does not run.
fn is_renewed(view: &HouseholdView) -> bool {
    let ids: Vec<&str> = view.catalogue.iter().map(|entry| entry.id.as_str()).collect();
    !view.catalogue_edition.built_in && ids == ["tiny"]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_models_is_renewed_with_the_look_for_versions_and_stays() -> anyhow::Result<()>
{
    let maker = Maker::new()?;
    maker.serve_models("2097-01-01T00:00:00Z")?;
    let plan = maker.plan().with("updates.new_versions", "\"off\"");
    let mut house = Household::strangers([plan]).await?;
    tokio::time::sleep(SOME_TICKS).await;
    assert!(is_built_in(&house.asking().view().await?));
    assert!(maker.server.asked().is_empty(), "nobody wants to know");
    let tell = SettingAsk::new("updates.new_versions", "tell");
    house.asking().client().change_setting(tell).await?;
    let view = house.asking().until("the newer list is in use", is_renewed).await?;
    assert!(view.catalogue[0].recommended, "{:?}", view.catalogue);
    // At the next start nobody is asked, and the list is there all the same.
    let asked = maker.server.asked().len();
    house.node_mut(0).leave().await?;
    house.node_mut(0).start_again().await?;
    assert!(is_renewed(&house.asking().view().await?));
    // Somebody changes it on the disk.
    house.node_mut(0).leave().await?;
    let file = house.node(0).home().join("updates/models.json");
    let held = fs::read_to_string(&file)?;
    fs::write(&file, held.replace("somebody", "nobody"))?;
    house.node_mut(0).start_again().await?;
    assert!(is_built_in(&house.asking().view().await?));
    assert_eq!(maker.server.asked().len(), asked);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_models_that_is_not_believed_leaves_the_one_before_and_is_told()
-> anyhow::Result<()> {
    let maker = Maker::new()?;
    maker.serve_models("2097-01-01T00:00:00Z")?;
    let at = format!("/{CATALOGUE_FILE}{SIGNATURE_END}");
    let thief = KeyPair::generate_unencrypted_keypair()?;
    let signature = minisign::sign(None, &thief.sk, &b"x"[..], Some(CATALOGUE_KIND), None)?;
    maker.server.serve(&at, Served::file(signature.to_bytes(), "\"t\""));
    let house = Household::strangers([maker.plan()]).await?;
    let is_told = |view: &HouseholdView| view.catalogue_edition.trouble.is_some();
    let view = house.asking().until("it is told", is_told).await?;
    let trouble = view.catalogue_edition.trouble.clone().unwrap_or_default();
    assert!(trouble.contains("does not know"), "{trouble}");
    assert!(is_built_in(&view) && view.updates.trouble.is_none(), "{:?}", view.updates);
    maker.serve_models("2097-01-01T00:00:00Z")?;
    house.asking().client().look_for_update().await?;
    let view = house.asking().until("the newer list is in use", is_renewed).await?;
    assert_eq!(view.catalogue_edition.trouble, None);
    Ok(())
}
