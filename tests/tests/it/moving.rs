//! The folder of the models through a real node: moved with a download under way, away, and back.

#[cfg(unix)]
use std::io::{BufRead as _, BufReader, Write as _};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::{sync::mpsc, thread};

use anyhow::Context as _;
use nook_api::views::{DownloadAsk, DownloadState, FolderTrouble, HouseholdView, Trouble, Wording};
use nook_api::{Calls as _, NodeCalls as _, Request};
use nook_control::ClientError;
#[cfg(unix)]
use nook_testkit::interrupted;
use nook_testkit::{Fault, FileServer, Household, Node, NodePlan, Served, Signal, Wish, nook};

const NAME: &str = "amber";
const PATH: &str = "/models/amber.gguf";
const PROMPT: &str = "Once upon a time";
/// Less than the built-in model has.
const PIECE: usize = 1 << 20;
/// Says to a door that the test is over.
#[cfg(unix)]
const OVER: &str = "\"over\"\n";

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
        Ok(Self { house, server: FileServer::start()?, bytes })
    }

    /// With the model in the library.
    async fn stocked() -> anyhow::Result<Self> {
        let desk = Self::new().await?;
        desk.serve([]);
        desk.pull(NAME).await?;
        desk.until_here().await?;
        Ok(desk)
    }

    fn node(&self) -> &Node {
        self.house.asking()
    }

    fn serve(&self, faults: impl IntoIterator<Item = Fault>) {
        let served = Served::file(self.bytes.clone(), "\"1\"");
        self.server.serve(PATH, Served { faults: faults.into_iter().collect(), ..served });
    }

    async fn pull(&self, name: &str) -> anyhow::Result<()> {
        let source = format!("{}{PATH}", self.server.address());
        let name = Some(name.to_owned());
        self.node().client().pull(source, name).await?;
        Ok(())
    }

    async fn until_here(&self) -> anyhow::Result<()> {
        let is_here = |view: &HouseholdView| {
            view.downloads.is_empty() && view.models.iter().any(|it| it.owned && it.name == NAME)
        };
        self.node().until("the model is here", is_here).await?;
        Ok(())
    }

    async fn ask_move(&self, to: Option<&Path>) -> Result<(), ClientError> {
        self.node().client().move_models(to.map(Path::to_owned)).await
    }

    async fn move_to(&self, to: Option<&Path>) -> anyhow::Result<HouseholdView> {
        self.ask_move(to).await?;
        let view =
            self.node().until("it moved", |view| view.models_folder.moving.is_none()).await?;
        anyhow::ensure!(view.models_folder.problem.is_none(), "{:?}", view.models_folder.problem);
        Ok(view)
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let ember = self.node().answer(&Wish::text(PROMPT, 12)).await?;
        let amber = self.node().answer(&Wish::text(PROMPT, 12).by(NAME)).await?;
        anyhow::ensure!(amber.ids.len() == 12 && amber.ids == ember.ids, "another answer");
        Ok(())
    }

    fn usual(&self) -> PathBuf {
        self.node().home().join("models")
    }
}

fn trouble_of(error: &ClientError) -> Option<&FolderTrouble> {
    match error {
        ClientError::Refused(problem) => match &problem.wording {
            Some(Wording::ModelsFolder { trouble }) => Some(trouble),
            _ => None,
        },
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_move_while_one_is_loaded_and_one_is_on_its_way() -> anyhow::Result<()> {
    let mut desk = Desk::stocked().await?;
    desk.answers().await?;
    // A second file, of which a piece came.
    let path = "/models/late.gguf";
    let mut late = desk.bytes.clone();
    let end = late.len() - 1;
    late[end] ^= 1;
    let served = Served::file(late, "\"2\"").failing(Fault::StallAfter(PIECE));
    desk.server.serve(path, served);
    let source = format!("{}{path}", desk.server.address());
    desk.node().client().pull(source, None).await?;
    let came = |view: &HouseholdView| view.downloads.iter().any(|it| it.have_bytes == PIECE as u64);
    desk.node().until("a piece came", came).await?;

    let target = desk.house.folder().join("chosen");
    let view = desk.move_to(Some(&target)).await?;
    assert_eq!(view.models_folder.path, target.display().to_string());
    assert!(!view.models_folder.usual && view.models_folder.there);
    assert!(target.join("amber.gguf").exists() && !desk.usual().join("amber.gguf").exists());
    // The download goes on there, from where it was.
    desk.node().until("it came", |view| view.downloads.is_empty()).await?;
    let ranges: Vec<_> = desk.server.asked().iter().filter_map(|it| it.range.clone()).collect();
    assert!(ranges.contains(&format!("bytes={PIECE}-")), "{ranges:?}");
    assert!(target.join("late.gguf").exists());
    // The worker that holds the model goes on with it; a new one finds it in the new place.
    desk.answers().await?;
    assert!(desk.house.node_mut(0).signal_workers(Signal::Kill) > 0);
    desk.node().until_no_worker().await?;
    desk.answers().await?;

    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    let view = desk.node().view().await?;
    assert_eq!(view.models_folder.path, target.display().to_string());
    assert_eq!(view.problems, []);
    desk.answers().await?;
    let view = desk.move_to(None).await?;
    assert!(view.models_folder.usual && desk.usual().join("amber.gguf").exists());
    desk.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_is_refused_with_a_typed_reason() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let file = desk.house.folder().join("file");
    std::fs::write(&file, b"x")?;
    let shown = |path: &Path| path.display().to_string();
    let away = desk.house.folder().join("no/such");
    for (to, expected) in [
        (file.clone(), FolderTrouble::NotAFolder { folder: shown(&file) }),
        (away.clone(), FolderTrouble::NotThere { folder: shown(&away) }),
        (desk.usual(), FolderTrouble::AlreadyThere { folder: shown(&desk.usual()) }),
    ] {
        let refused = desk.ask_move(Some(&to)).await.unwrap_err();
        assert_eq!(trouble_of(&refused), Some(&expected), "{refused}");
    }
    let view = desk.node().view().await?;
    assert!(view.models_folder.usual && view.models_folder.moving.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn models_on_a_disk_that_is_away_are_missing_by_name_and_come_back_with_it()
-> anyhow::Result<()> {
    let mut desk = Desk::stocked().await?;
    let disk = desk.house.folder().join("disk");
    std::fs::create_dir(&disk)?;
    let target = disk.join("chosen");
    desk.move_to(Some(&target)).await?;
    desk.house.node_mut(0).leave().await?;
    let unplugged = desk.house.folder().join("unplugged");
    std::fs::rename(&disk, &unplugged)?;
    desk.house.node_mut(0).start_again().await?;
    let view = desk.node().view().await?;
    let folder = target.display().to_string();
    assert_eq!((view.models_folder.there, &view.models_folder.path), (false, &folder));
    assert_eq!(view.models_folder.missing, [NAME]);
    let away = Trouble::ModelsFolderAway { folder, models: 1 };
    assert!(
        view.problems.iter().any(|it| it.trouble.as_ref() == Some(&away)),
        "{:?}",
        view.problems
    );
    // Asked for, it says where it is looked for; the built-in model answers.
    let refused = desk.node().answer(&Wish::text(PROMPT, 4).by(NAME)).await.unwrap_err();
    assert!(format!("{refused:#}").contains("looked for in"), "{refused:#}");
    desk.node().answer(&Wish::text(PROMPT, 4)).await?;
    // A download waits; nothing is made in the place of the disk, and nothing that lies on it is
    // forgotten.
    desk.serve([]);
    desk.pull("again").await?;
    let waits =
        |view: &HouseholdView| view.downloads.iter().any(|it| it.state == DownloadState::Waiting);
    desk.node().until("it waits", waits).await?;
    let delete = Request::ChangeDownload { key: "again".to_owned(), ask: DownloadAsk::Delete };
    for removes in [delete, Request::RemoveModel { name: NAME.to_owned() }] {
        let refused = desk.node().client().call(removes).await.unwrap_err();
        let ClientError::Refused(problem) = &refused else { anyhow::bail!("{refused}") };
        let worded = Wording::Trouble { trouble: Box::new(away.clone()) };
        assert_eq!(problem.wording, Some(worded), "{refused}");
    }
    assert!(!disk.exists());

    std::fs::rename(&unplugged, &disk)?;
    let is_back = |view: &HouseholdView| {
        view.models_folder.there && view.models.iter().any(|it| it.name == NAME)
    };
    let view = desk.node().until("it is back", is_back).await?;
    assert!(view.models_folder.missing.is_empty());
    desk.answers().await?;
    // What waited went on: it is the same model, so it only leaves the list.
    desk.node().until("it came", |view| view.downloads.is_empty()).await?;

    // Pulled while the node runs, it is missing by name too; where the empty folder stays, that is
    // not the disk.
    std::fs::rename(&disk, &unplugged)?;
    std::fs::create_dir_all(&target)?;
    let is_away = |view: &HouseholdView| {
        !view.models_folder.there && view.models.iter().all(|it| it.name != NAME)
    };
    let view = desk.node().until("it is away again", is_away).await?;
    assert_eq!(view.models_folder.missing, [NAME]);
    let refused = desk.node().answer(&Wish::text(PROMPT, 4).by(NAME)).await.unwrap_err();
    assert!(format!("{refused:#}").contains("looked for in"), "{refused:#}");
    std::fs::remove_dir_all(&disk)?;
    std::fs::rename(&unplugged, &disk)?;
    desk.node().until("it is back again", is_back).await?;
    desk.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_whose_file_was_lost_is_fetched_again_under_its_name() -> anyhow::Result<()> {
    let mut desk = Desk::stocked().await?;
    let file = desk.usual().join("amber.gguf");
    for is_restarted in [false, true] {
        desk.answers().await?;
        std::fs::remove_file(&file)?;
        if is_restarted {
            desk.house.node_mut(0).leave().await?;
            desk.house.node_mut(0).start_again().await?;
            let view = desk.node().view().await?;
            assert_eq!(
                (&view.models_folder.missing[..], view.problems.len()),
                (&[NAME.to_owned()][..], 1)
            );
        }
        desk.pull(NAME).await?;
        desk.until_here().await?;
        let is_well = |view: &HouseholdView| {
            view.models_folder.missing.is_empty() && view.problems.is_empty()
        };
        desk.node().until("nothing is missed", is_well).await?;
        assert_eq!(std::fs::read(&file)?, desk.bytes);
        desk.house.node_mut(0).signal_workers(Signal::Kill);
        desk.node().until_no_worker().await?;
    }
    desk.answers().await?;
    // Or it leaves the list, and nobody speaks of it any more.
    std::fs::remove_file(&file)?;
    desk.house.node_mut(0).leave().await?;
    desk.house.node_mut(0).start_again().await?;
    desk.node().do_this(Request::RemoveModel { name: NAME.to_owned() }).await?;
    let is_well =
        |view: &HouseholdView| view.models_folder.missing.is_empty() && view.problems.is_empty();
    desk.node().until("nothing is missed", is_well).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_was_named_by_hand_can_be_chosen() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let target = desk.house.folder().join("by-hand");
    std::fs::create_dir(&target)?;
    desk.house.node_mut(0).leave().await?;
    let named = format!("\n[models]\nfolder = {:?}\n", target.display().to_string());
    let settings = desk.node().home().join("settings.toml");
    let mut text = std::fs::read_to_string(&settings)?;
    text.push_str(&named);
    std::fs::write(&settings, text)?;
    desk.house.node_mut(0).start_again().await?;
    assert!(!desk.node().view().await?.models_folder.there);
    desk.move_to(Some(&target)).await?;
    desk.node().until("it is there", |view| view.models_folder.there).await?;
    desk.serve([]);
    desk.pull(NAME).await?;
    desk.until_here().await?;
    assert!(target.join("amber.gguf").exists());
    desk.answers().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_was_deleted_and_pulled_again_answers_from_its_new_file() -> anyhow::Result<()>
{
    let mut desk = Desk::stocked().await?;
    desk.answers().await?;
    let file = desk.usual().join("amber.gguf");
    desk.node().do_this(Request::RemoveModel { name: NAME.to_owned() }).await?;
    assert!(!file.exists());
    // Somebody's file has the name by now, so the model's gets another one.
    std::fs::write(&file, b"notes")?;
    desk.pull(NAME).await?;
    desk.until_here().await?;
    assert_eq!(std::fs::read(desk.usual().join("amber-2.gguf"))?, desk.bytes);
    assert!(desk.house.node_mut(0).signal_workers(Signal::Kill) > 0);
    desk.node().until_no_worker().await?;
    desk.answers().await?;
    assert_eq!(std::fs::read(&file)?, b"notes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_says_where_models_are_and_moves_them() -> anyhow::Result<()> {
    let desk = Desk::stocked().await?;
    let home = desk.node().home().to_owned();
    let target = desk.house.folder().join("chosen");
    let program = nook()?;
    let run = move |words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).args(["models", "folder"]).args(words);
        command.env_remove("INGLENOOK_HOME").stdin(Stdio::null()).output()
    };
    let named = target.display().to_string();
    let ran = tokio::task::spawn_blocking(move || {
        Ok::<_, std::io::Error>((
            run(&["--json"])?,
            run(&[&named])?,
            run(&[&named])?,
            run(&["--usual", "--json"])?,
        ))
    });
    let (usual, moved, again, back) = ran.await??;
    let told = |output: &std::process::Output| -> anyhow::Result<serde_json::Value> {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(said.lines().last().context("it says something")?)
            .context(said.clone())
    };
    assert_eq!(told(&usual)?["usual"], true);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    assert_eq!(String::from_utf8_lossy(&moved.stdout).trim(), target.display().to_string());
    assert!(!again.status.success());
    let why = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(why.contains("already"), "{why}");
    assert!(back.status.success(), "{}", String::from_utf8_lossy(&back.stderr));
    assert_eq!(told(&back)?["usual"], true);
    assert!(desk.usual().join("amber.gguf").exists());
    Ok(())
}

/// The door of a node at which a wish to move is overtaken: it goes on to the node before the
/// second wish to stop, or when the test is over. All else goes on at once.
#[cfg(unix)]
fn door_that_overtakes(
    listener: &UnixListener,
    node: &str,
    holds: &mpsc::SyncSender<()>,
) -> std::io::Result<()> {
    let (mut held, mut stops) = (None, 0);
    for stream in listener.incoming() {
        let (mut asking, mut line) = (BufReader::new(stream?), String::new());
        if asking.read_line(&mut line)? == 0 {
            continue; // Only looked whether somebody is here.
        }
        if line.contains("\"move_models\"") {
            held = Some((asking, line));
            let _ = holds.send(());
            continue;
        }
        stops += u32::from(line.contains("\"stop_moving_models\""));
        if (stops == 2 || line == OVER)
            && let Some((asking, line)) = held.take()
        {
            pass_on(asking, &line, node)?;
        }
        if line == OVER {
            return Ok(());
        }
        pass_on(asking, &line, node)?;
    }
    Ok(())
}

#[cfg(unix)]
fn pass_on(mut asking: BufReader<UnixStream>, line: &str, node: &str) -> std::io::Result<()> {
    let mut to_node = UnixStream::connect(node)?;
    to_node.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(to_node).read_line(&mut answer)?;
    // Whoever asked may be gone; the node has heard it all the same.
    let _ = asking.get_mut().write_all(answer.as_bytes());
    Ok(())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_move_says_is_so_also_where_the_stop_overtook_it() -> anyhow::Result<()>
{
    let desk = Desk::stocked().await?;
    let home = desk.house.folder().join("overtaken");
    let runtime = nook_node::runtime_folder(Some(&home))?;
    let socket = nook_control::socket_name(&runtime);
    let node = nook_control::socket_name(desk.node().runtime());
    let listener = UnixListener::bind(&socket)?;
    let (holds, held) = mpsc::sync_channel(1);
    let door = thread::spawn(move || door_that_overtakes(&listener, &node, &holds));
    let target = desk.house.folder().join("chosen");
    let mut command = Command::new(nook()?);
    command.arg("--home").arg(&home).args(["models", "folder"]).arg(&target).stdin(Stdio::null());
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let output = interrupted(child, held).await?;
    UnixStream::connect(&socket)?.write_all(OVER.as_bytes())?;
    door.join().expect("it does not panic")?;
    let is_still = |view: &HouseholdView| view.models_folder.moving.is_none();
    let view = desk.node().until("nothing moves", is_still).await?;
    let is_there = view.models_folder.path == target.display().to_string();
    assert_eq!(output.status.success(), is_there, "{output:?}");
    std::fs::remove_dir_all(runtime)?;
    desk.answers().await
}
