//! Models from the network through a real node: loaded, checked, listed, answering.

#[cfg(unix)]
use std::io::{BufRead as _, BufReader, Write as _};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::{sync::mpsc, thread};

use anyhow::Context as _;
use nook_api::views::{DownloadAsk, DownloadState, DownloadView, HouseholdView};
use nook_api::{NodeCalls as _, Request};
use nook_model::synthetic::cut;
#[cfg(unix)]
use nook_testkit::interrupted;
use nook_testkit::{Fault, FileServer, Household, Node, NodePlan, Served, Wish, nook};
use sha2::{Digest as _, Sha256};

const NAME: &str = "amber";
const PATH: &str = "/models/amber.gguf";
const PROMPT: &str = "Once upon a time";
/// Most looks at a folder that becomes empty.
const LOOKS_MAX: u32 = 20_000;
/// Less than the built-in model has.
const PIECE: usize = 1 << 20;

struct Desk {
    house: Household,
    server: FileServer,
    /// A model of its own: the built-in one under another name, so with the same answers.
    bytes: Vec<u8>,
}

impl Desk {
    async fn new() -> anyhow::Result<Self> {
        let house = Household::strangers([NodePlan::new("Kitchen laptop")]).await?;
        let bytes = house.asking().renamed_built_in().await?;
        assert!(bytes.len() > 2 * PIECE, "{} bytes", bytes.len());
        Ok(Self { house, server: FileServer::start()?, bytes })
    }

    fn node(&self) -> &Node {
        self.house.asking()
    }

    fn served(&self) -> Served {
        Served::file(self.bytes.clone(), "\"1\"")
    }

    async fn pull(&self) -> anyhow::Result<DownloadView> {
        let source = format!("{}{PATH}", self.server.address());
        let name = Some(NAME.to_owned());
        Ok(self.node().client().pull(source, name).await?)
    }

    /// Asks for it again, which is refused where it has come meanwhile: its name is taken then.
    async fn pull_again(&self) -> anyhow::Result<()> {
        match self.pull().await {
            Err(_) if is_here(&self.node().view().await?) => Ok(()),
            pulled => pulled.map(drop),
        }
    }

    async fn change(&self, ask: DownloadAsk) -> anyhow::Result<()> {
        Ok(self.node().client().change_download(NAME.to_owned(), ask).await?)
    }

    async fn until_state(&self, wanted: DownloadState) -> anyhow::Result<DownloadView> {
        let is_so = |it: &DownloadView| it.state == wanted;
        let view = self
            .node()
            .until(&format!("{wanted:?}"), |view| view.downloads.iter().any(is_so))
            .await?;
        Ok(view.downloads.into_iter().find(is_so).expect("it was there"))
    }

    async fn until_here(&self) -> anyhow::Result<()> {
        self.node().until("the model is here", is_here).await?;
        Ok(())
    }

    /// Waits until nothing lies in the folder of downloads.
    async fn until_no_litter(&self) -> anyhow::Result<()> {
        // The node says nothing of files that no download has: each look is a question to it, which
        // takes its time.
        for _ in 0..LOOKS_MAX {
            if self.litter().is_empty() {
                return Ok(());
            }
            self.node().view().await?;
        }
        anyhow::bail!("still there: {:?}", self.litter())
    }

    /// Names of what lies in the folder of downloads.
    fn litter(&self) -> Vec<String> {
        let folder = self.node().home().join("models/downloads");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Whether the model has joined the library, and no download is left.
fn is_here(view: &HouseholdView) -> bool {
    view.models.iter().any(|it| it.name == NAME && it.owned) && view.downloads.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_pulled_joins_the_library_and_answers() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    desk.server.serve(PATH, desk.served().failing(Fault::CutAfter(PIECE)));
    let begun = desk.pull().await?;
    assert_eq!((begun.name.as_str(), begun.file.as_str()), (NAME, "amber.gguf"));
    desk.until_here().await?;
    assert_eq!(desk.server.asked()[1].range.as_deref(), Some(format!("bytes={PIECE}-").as_str()));
    assert_eq!(desk.litter(), Vec::<String>::new());

    let ember = desk.node().answer(&Wish::text(PROMPT, 24)).await?;
    let amber = desk.node().answer(&Wish::text(PROMPT, 24).by(NAME)).await?;
    assert_eq!((amber.ids.len(), &amber.ids), (24, &ember.ids));
    // It is deleted with its file.
    let file = desk.node().home().join("models/amber.gguf");
    assert!(file.exists());
    desk.node().do_this(Request::RemoveModel { name: NAME.to_owned() }).await?;
    assert!(!file.exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_in_several_files_becomes_one_also_over_a_restart() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let pieces = cut(&desk.bytes, 3, false);
    let path = |number: usize| format!("/models/{NAME}-{number:05}-of-00003.gguf");
    for (number, bytes) in (1..).zip(&pieces) {
        let served = Served::file(bytes.clone(), "\"1\"");
        let stalls = (number == 2).then_some(Fault::StallAfter(1000));
        let served = stalls.into_iter().fold(served, Served::failing);
        desk.server.serve(&path(number), served);
    }
    let source = format!("{}{}", desk.server.address(), path(2));
    let begun = desk.node().client().pull(source, None).await?;
    assert_eq!((begun.name.as_str(), begun.file.as_str()), (NAME, "amber-00001-of-00003.gguf"));
    let (all, came) = (pieces.iter().map(Vec::len).sum::<usize>(), pieces[0].len() + 1000);
    let is_there =
        |it: &DownloadView| it.have_bytes == came as u64 && it.file_bytes == Some(all as u64);
    desk.node().until("a piece and some", |view| view.downloads.iter().any(is_there)).await?;
    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    desk.until_here().await?;
    let asked = desk.server.asked();
    let of = |number| asked.iter().filter(|it| !it.only_head && it.path == path(number)).count();
    assert_eq!([1, 2, 3].map(of), [1, 2, 1]);
    assert_eq!(desk.litter(), Vec::<String>::new());
    // Byte for byte the file that was cut.
    let file = desk.node().home().join("models/amber.gguf");
    assert!(std::fs::read(&file)? == desk.bytes);
    let ember = desk.node().answer(&Wish::text(PROMPT, 24)).await?;
    let amber = desk.node().answer(&Wish::text(PROMPT, 24).by(NAME)).await?;
    assert_eq!((amber.ids.len(), &amber.ids), (24, &ember.ids));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_outlives_its_node_and_goes_on_where_it_was() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    desk.server.serve(PATH, desk.served().failing(Fault::StallAfter(PIECE)));
    desk.pull().await?;
    let piece = PIECE as u64;
    let came = |it: &DownloadView| it.have_bytes == piece && it.state == DownloadState::Loading;
    desk.node().until("a piece came", |view| view.downloads.iter().any(came)).await?;
    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    desk.until_here().await?;
    let asked = desk.server.asked();
    assert_eq!(asked[1].range.as_deref(), Some(format!("bytes={PIECE}-").as_str()), "{asked:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_rests_goes_on_and_is_deleted_as_its_owner_says() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let stalling = desk.served().failing(Fault::StallAfter(PIECE)).failing(Fault::StallAfter(0));
    desk.server.serve(PATH, stalling);
    desk.pull().await?;
    desk.until_state(DownloadState::Loading).await?;
    desk.node().until("a piece came", |view| view.downloads[0].have_bytes > 0).await?;
    desk.change(DownloadAsk::Pause).await?;
    let paused = desk.until_state(DownloadState::Paused).await?;
    assert_eq!(paused.have_bytes, PIECE as u64);
    // Rest is kept over a restart: nothing is asked for.
    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    desk.until_state(DownloadState::Paused).await?;
    assert_eq!(desk.server.asked().len(), 1);
    desk.change(DownloadAsk::Resume).await?;
    desk.until_state(DownloadState::Loading).await?;
    desk.change(DownloadAsk::Cancel).await?;
    let cancelled = desk.until_state(DownloadState::Cancelled).await?;
    assert_eq!(cancelled.have_bytes, PIECE as u64, "what came is kept");
    desk.change(DownloadAsk::Delete).await?;
    desk.node().until("it is gone", |view| view.downloads.is_empty()).await?;
    desk.until_no_litter().await?;
    // And from the beginning once more.
    desk.pull().await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_and_asked_for_again_at_once_comes() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    for round in 1..=8 {
        // With nothing under way any more, and files of its own on the disk.
        desk.server.serve(PATH, Served::default().failing(Fault::Status(404, Vec::new())));
        desk.pull().await?;
        let failed = desk.until_state(DownloadState::Failed).await?;
        let problem = failed.problem.context("it says why")?.sentence;
        assert!(problem.contains("no such file"), "round {round}: {problem}");
        let stalls = (0..9).map(|_| Fault::StallAfter(PIECE)).collect();
        desk.server.serve(PATH, Served { faults: stalls, ..desk.served() });
        // Some of these wishes come when it was just deleted, and is being deleted still.
        tokio::try_join!(
            desk.change(DownloadAsk::Delete),
            desk.pull_again(),
            desk.pull_again(),
            desk.pull_again(),
            desk.pull_again(),
        )?;
        desk.pull_again().await?;
        let now = desk
            .node()
            .until("it loads, is here, or has failed", |view| {
                let over = [DownloadState::Loading, DownloadState::Failed];
                is_here(view) || view.downloads.iter().any(|it| over.contains(&it.state))
            })
            .await?;
        assert!(now.downloads.iter().all(|it| it.problem.is_none()), "round {round}");
        if is_here(&now) {
            // Every stall brings a piece, so it may have come before anybody looked.
            return Ok(());
        }
        desk.change(DownloadAsk::Delete).await?;
    }
    desk.server.serve(PATH, desk.served());
    desk.pull().await?;
    desk.until_here().await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_no_download_asks_for_are_deleted_at_the_next_start() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    desk.server.serve(PATH, desk.served().failing(Fault::StallAfter(PIECE)));
    desk.pull().await?;
    desk.node().until("a piece came", |view| view.downloads[0].have_bytes > 0).await?;
    desk.change(DownloadAsk::Pause).await?;
    desk.until_state(DownloadState::Paused).await?;
    desk.house.node_mut(0).leave().await?;
    let mut wanted = desk.litter();
    // What a node leaves that is killed while it deletes, and a file of the owner's.
    let folder = desk.node().home().join("models/downloads");
    for kind in ["partial", "json", "gguf", "lock"] {
        std::fs::write(folder.join(format!("gone-0123456789ab.{kind}")), b"left")?;
    }
    std::fs::write(folder.join("mine.gguf"), b"mine")?;
    desk.house.node_mut(0).start_again().await?;
    wanted.push("mine.gguf".to_owned());
    wanted.sort();
    for _ in 0..LOOKS_MAX {
        if desk.litter().len() == wanted.len() {
            break;
        }
        desk.node().view().await?;
    }
    let mut left = desk.litter();
    left.sort();
    assert_eq!(left, wanted);
    let paused = desk.until_state(DownloadState::Paused).await?;
    assert_eq!(paused.have_bytes, PIECE as u64);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_model_or_no_source_is_refused_in_words() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let noise: Vec<u8> = b"GGUF".iter().copied().chain((0..5000).map(|it| it as u8)).collect();
    desk.server.serve(PATH, Served::file(noise, "\"1\""));
    desk.pull().await?;
    let failed = desk.until_state(DownloadState::Failed).await?;
    let problem = failed.problem.map(|problem| problem.sentence).unwrap_or_default();
    assert!(problem.contains("no model that can be used"), "{problem}");
    assert!(desk.litter().is_empty(), "nothing vouches for it: {:?}", desk.litter());
    // The list of models is what it was.
    assert_eq!(desk.node().view().await?.models.len(), 1);

    let ask = async |source: &str, name: Option<&str>| {
        let (source, name) = (source.to_owned(), name.map(str::to_owned));
        let refused = desk.node().client().pull(source, name).await;
        refused.expect_err("it names nothing").to_string()
    };
    let unknown = ask("gpt-9", None).await;
    assert!(unknown.contains("qwen3.5-4b") && unknown.contains("hf:"), "{unknown}");
    assert!(ask("http://example.org/m.gguf", None).await.contains("https"));
    assert!(ask("https://example.org/m.gguf", Some("ember")).await.contains("ember"));
    assert!(ask("https://example.org/m.gguf", Some("../up")).await.contains("letters"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_loads_by_itself_and_tells_programs_how_far_it_is() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let digest: String = Sha256::digest(&desk.bytes).iter().map(|it| format!("{it:02x}")).collect();
    // As the hub answers: the origin names length, digest and commit, and sends on to its storage.
    let storage = format!("{}/blob?sig=1", desk.server.address());
    let origin = Served::redirect(&storage)
        .with("X-Linked-Etag", &format!("\"{digest}\""))
        .with("X-Linked-Size", &desk.bytes.len().to_string())
        .with("X-Repo-Commit", "0a1b2c");
    desk.server.serve("/o/r/resolve/main/amber.gguf", origin);
    desk.server.serve("/blob?sig=1", desk.served().failing(Fault::CutAfter(PIECE)));

    let home = desk.house.folder().join("alone");
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join("settings.toml"), "[network]\nlisten_port = 0\nloopback = true\n")?;
    let file = desk.house.folder().join("amber.gguf");
    std::fs::write(&file, &desk.bytes)?;
    let program = nook()?;
    let run = move |words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).arg("models").args(words).stdin(Stdio::null());
        command.env("INGLENOOK_KEYRING", "off").env("HF_ENDPOINT", desk.server.address());
        command.env_remove("INGLENOOK_HOME").output()
    };
    let ran = tokio::task::spawn_blocking(move || {
        let pulled = run(&["pull", "hf:o/r/amber.gguf", "--json"])?;
        let listed = run(&["--json"])?;
        let gone = run(&["pull", "hf:o/r/gone.gguf"])?;
        let objects = [
            run(&["pause", "gone", "--json"])?,
            run(&["cancel", "gone", "--json"])?,
            run(&["rm", "gone", "--json"])?,
            run(&["rm", "amb", "--json"])?,
            run(&["import", "--json", &file.display().to_string()])?,
        ];
        Ok::<_, std::io::Error>((pulled, listed, gone, objects, run(&["rm", "amber"])?))
    });
    let (pulled, listed, gone, objects, removed) = ran.await??;
    let said = String::from_utf8_lossy(&pulled.stdout).into_owned();
    assert!(pulled.status.success(), "{said}{}", String::from_utf8_lossy(&pulled.stderr));
    let lines: Vec<serde_json::Value> =
        said.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (last, steps) = lines.split_last().expect("it says something");
    assert_eq!((&last["name"], &last["owned"]), (&"amber".into(), &true.into()), "{said}");
    assert!(!steps.is_empty() && steps.iter().all(|step| step["key"].is_string()), "{said}");

    let listed: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout)?;
    let names: Vec<_> = listed.iter().map(|model| model["name"].clone()).collect();
    assert_eq!(names, ["ember", "amber"]);
    assert!(!gone.status.success());
    let why = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(why.contains("no such file"), "{why}");
    let objects: Vec<serde_json::Value> = objects
        .iter()
        .map(|it| serde_json::from_slice(&it.stdout).with_context(|| format!("{it:?}")))
        .collect::<Result<_, _>>()?;
    assert_eq!((&objects[0]["name"], &objects[0]["state"]), (&"gone".into(), &"paused".into()));
    assert_eq!(objects[1]["state"], "cancelled");
    let removed_is = |what: &str, kind: &str| serde_json::json!({ "removed": what, "kind": kind });
    assert_eq!(objects[2..4], [removed_is("gone", "download"), removed_is("amber", "model")]);
    assert_eq!((&objects[4]["name"], &objects[4]["owned"]), (&"amber".into(), &false.into()));
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    assert!(removed.stdout.is_empty(), "{removed:?}");
    Ok(())
}

/// The door of a node that closes in the middle: what is asked goes on to the node until the second
/// wish for the view, which is never answered.
#[cfg(unix)]
fn door_that_hangs(
    listener: &UnixListener,
    node: &str,
    hangs: &mpsc::SyncSender<()>,
    over: &mpsc::Receiver<()>,
) -> std::io::Result<()> {
    let mut views = 0;
    for stream in listener.incoming() {
        let (mut asking, mut line) = (BufReader::new(stream?), String::new());
        if asking.read_line(&mut line)? == 0 {
            continue; // Only looked whether somebody is here.
        }
        views += u32::from(line.contains("\"view\""));
        if views == 2 {
            // The connection stays open until the test is over.
            let _ = hangs.send(());
            let _ = over.recv();
            return Ok(());
        }
        let mut to_node = UnixStream::connect(node)?;
        to_node.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(to_node).read_line(&mut answer)?;
        asking.get_mut().write_all(answer.as_bytes())?;
    }
    Ok(())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_a_search_finds_can_be_pulled() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let pieces = cut(&desk.bytes, 2, true);
    // As the hub writes its answers, with fields that nothing here reads.
    let found = r#"[{"_id":"6710","id":"o/amber-GGUF","likes":12,"private":false,"downloads":34567,
        "tags":["gguf","text-generation"],"pipeline_tag":"text-generation","library_name":null,
        "createdAt":"2026-10-17T00:00:00.000Z","modelId":"o/amber-GGUF"},{"id":"not a place"}]"#;
    let piece = |number: usize| format!("q8/amber-{number:05}-of-00002.gguf");
    let large = |path: &str, bytes: usize| {
        format!(
            r#"{{"type":"file","oid":"0a1b","size":{bytes},"path":"{path}",
            "lfs":{{"oid":"2c3d","size":{bytes},"pointerSize":135}},"xetHash":"4e5f"}}"#
        )
    };
    let tree = format!(
        r#"[{{"type":"directory","oid":"1","size":0,"path":"q8"}},
        {{"type":"file","oid":"2","size":900,"path":"README.md"}},{},{},{}]"#,
        large("mmproj-amber.gguf", 5000),
        large(&piece(1), pieces[0].len()),
        large(&piece(2), pieces[1].len()),
    );
    let json = |text: &str| Served::file(text.as_bytes().to_vec(), "\"1\"");
    let words = "/api/models?search=amber+ale&filter=gguf&sort=downloads&direction=-1&limit=20";
    desk.server.serve(words, json(found));
    desk.server.serve("/api/models/o/amber-GGUF/tree/main?recursive=true", json(&tree));
    for (number, bytes) in (1..).zip(pieces) {
        let path = format!("/o/amber-GGUF/resolve/main/{}", piece(number));
        desk.server.serve(&path, Served::file(bytes, "\"1\""));
    }
    let home = desk.house.folder().join("alone");
    std::fs::create_dir_all(&home)?;
    std::fs::write(home.join("settings.toml"), "[network]\nlisten_port = 0\nloopback = true\n")?;
    let (program, address) = (nook()?, desk.server.address());
    let run = move |words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).arg("models").args(words).stdin(Stdio::null());
        command.env("INGLENOOK_KEYRING", "off").env("HF_ENDPOINT", &address);
        command.env_remove("INGLENOOK_HOME").output()
    };
    let source = "hf:o/amber-GGUF/q8/amber-00001-of-00002.gguf";
    let ran = tokio::task::spawn_blocking(move || {
        let found = run(&["search", "amber", "ale"])?;
        let listed = run(&["search", "o/amber-GGUF"])?;
        let unknown = run(&["search", "o/unknown"])?;
        Ok::<_, std::io::Error>([found, listed, unknown, run(&["pull", source])?])
    });
    let [found, listed, unknown, pulled] = ran.await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let found = text(&found.stdout);
    assert!(found.contains("o/amber-GGUF  34567") && !found.contains("not a place"), "{found}");
    let listed = text(&listed.stdout);
    assert!(listed.contains(source) && !listed.contains("mmproj"), "{listed}");
    let why = text(&unknown.stderr);
    assert!(!unknown.status.success() && why.contains("no such repository"), "{why}");
    assert!(pulled.status.success(), "{}", text(&pulled.stderr));
    let said = text(&pulled.stdout);
    assert!(said.contains("amber is here"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_pull_ends_also_while_it_waits_for_the_node() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    desk.server.serve(PATH, desk.served().failing(Fault::StallAfter(PIECE)));
    let home = desk.house.folder().join("hanging");
    let runtime = nook_node::runtime_folder(Some(&home))?;
    let socket = nook_control::socket_name(&runtime);
    let node = nook_control::socket_name(desk.node().runtime());
    let listener = UnixListener::bind(socket)?;
    let ((hangs, hung), (done, over)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
    let door = thread::spawn(move || door_that_hangs(&listener, &node, &hangs, &over));
    let source = format!("{}{PATH}", desk.server.address());
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(&home).args(["models", "pull", &source]).stdin(Stdio::null());
    let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let output = interrupted(child, hung).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("goes on in the running node"), "{said}");
    done.send(())?;
    door.join().expect("it does not panic")?;
    std::fs::remove_dir_all(runtime)?;
    Ok(())
}
