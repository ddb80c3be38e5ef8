//! `nook update --now` on real processes: a portable package in a made-up home, a node that runs
//! from it and is paired, and a server with a newer version.
//!
//! The newer version is the same program with another number written over its own, so that it says
//! a version of its own without a second build. The packages hold what the script needs: `nook`, the
//! script and a unit.

mod house;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use minisign::KeyPair;
use nook_api::NodeCalls as _;
use nook_api::views::{HouseholdView, SettingAsk, Trust, UpdateTrouble, UpdateWay};
use nook_testkit::{FileServer, Household, Node, NodePlan, Served, Wish, nook};
use nook_update::{
    FORMAT, KIND, MANIFEST_FILE, Manifest, Package, PackageKind, SIGNATURE_END, SwapStage,
};

const NEWER: &str = "0.1.9";

/// A computer with the portable package, and whoever makes releases.
struct Scene {
    folder: tempfile::TempDir,
    server: FileServer,
    maker: KeyPair,
}

/// What lies on a server for a newer version.
struct Release {
    list: Vec<u8>,
    signature: Vec<u8>,
    package: Vec<u8>,
    /// Of the package, in hexadecimal.
    sha256: String,
}

impl Scene {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nook-update-").tempdir()?;
        let scene = Self {
            folder,
            server: FileServer::start()?,
            maker: KeyPair::generate_unencrypted_keypair()?,
        };
        let program = scene.folder.path().join("program");
        fs::copy(nook()?, &program)?;
        // Its symbols are most of an everyday build; where there is no `strip` it is only slower.
        let _ = Command::new("strip").arg(&program).status();
        let archive = scene.package("old", &fs::read(&program)?)?;
        done(Command::new("tar").arg("xf").arg(archive).arg("-C").arg(scene.folder.path()))?;
        scene.install(&scene.prefix())?;
        Ok(scene)
    }

    /// Installs the package below `prefix`.
    fn install(&self, prefix: &Path) -> anyhow::Result<()> {
        let script = self.folder.path().join("old/install.sh");
        done(Command::new("sh").arg(script).arg("--prefix").arg(prefix))
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("local")
    }

    fn program(&self) -> PathBuf {
        self.prefix().join("bin/nook")
    }

    /// The same program under the newer number.
    fn newer(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = fs::read(self.program())?;
        let (old, new) = (nook_base::VERSION.as_bytes(), NEWER.as_bytes());
        assert_eq!(old.len(), new.len(), "one number is written over the other");
        let places: Vec<usize> =
            (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at..at + new.len()].copy_from_slice(new));
        Ok(bytes)
    }

    /// An archive of a package whose program has these bytes.
    fn package(&self, name: &str, program: &[u8]) -> anyhow::Result<PathBuf> {
        use std::os::unix::fs::PermissionsExt as _;
        let content = self.folder.path().join(name);
        fs::create_dir_all(content.join("bin"))?;
        fs::create_dir_all(content.join("share/systemd/user"))?;
        fs::write(content.join("bin/nook"), program)?;
        fs::set_permissions(content.join("bin/nook"), fs::Permissions::from_mode(0o755))?;
        let of_linux = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/linux/");
        fs::copy(format!("{of_linux}install.sh"), content.join("install.sh"))?;
        let unit = "share/systemd/user/inglenook.service";
        fs::copy(format!("{of_linux}inglenook.service"), content.join(unit))?;
        let archive = self.folder.path().join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=ustar", "--use-compress-program=gzip -1", "--file"]);
        done(tar.arg(&archive).arg("-C").arg(self.folder.path()).arg(name))?;
        Ok(archive)
    }

    /// Offers a program as the newer version.
    fn offer(&self, program: &[u8]) -> anyhow::Result<()> {
        let release = self.release(program, &self.maker)?;
        let signed_at = format!("/{MANIFEST_FILE}{SIGNATURE_END}");
        self.server.serve(&signed_at, Served::file(release.signature, "\"s\""));
        self.server.serve(&format!("/{MANIFEST_FILE}"), Served::file(release.list, "\"m\""));
        self.server.serve("/new.tar.gz", Served::file(release.package, "\"p\""));
        Ok(())
    }

    /// A program as the newer version, in a list that `maker` signs.
    fn release(&self, program: &[u8], maker: &KeyPair) -> anyhow::Result<Release> {
        let archive = self.package("new", program)?;
        let said = Command::new("sha256sum").arg(&archive).output()?;
        let said = String::from_utf8(said.stdout)?;
        let sha256 = said.split_whitespace().next().context("a digest")?.to_owned();
        let package = fs::read(archive)?;
        let now = nook_base::clock::unix_seconds();
        let manifest = Manifest {
            kind: KIND.to_owned(),
            format: FORMAT,
            version: NEWER.parse()?,
            serial: 2,
            released: now - 1000,
            expires: now + 100_000,
            notes: [("en".to_owned(), "Another number.".to_owned())].into(),
            packages: vec![Package {
                platform: PackageKind::Portable.platform(),
                file: "new.tar.gz".to_owned(),
                bytes: package.len() as u64,
                sha256: sha256.clone(),
            }],
        };
        let list = serde_json::to_vec(&manifest)?;
        let signature = minisign::sign(None, &maker.sk, list.as_slice(), None, None)?.to_bytes();
        Ok(Release { list, signature, package, sha256 })
    }

    /// A node that runs from the installed package.
    fn plan(&self) -> NodePlan {
        let script = "while [ \"$1\" != --home ]; do shift; done; exec \"$0\" \"$@\"";
        let words: [OsString; 4] =
            ["sh".into(), "-c".into(), script.into(), self.program().into_os_string()];
        NodePlan::new("Kitchen laptop").behind(words.into())
    }

    /// The same, of a node that may ask the server by itself.
    fn plan_that_asks(&self) -> NodePlan {
        let address = format!("{}/{MANIFEST_FILE}", self.server.address());
        self.plan_of("Kitchen laptop", &self.prefix(), &address)
    }

    /// A node that runs from the package below `prefix` and may ask at `address`.
    fn plan_of(&self, name: &'static str, prefix: &Path, address: &str) -> NodePlan {
        let script = "while [ \"$1\" != --home ]; do shift; done; exec \"$0\" \"$@\"";
        let words: [OsString; 7] = [
            "env".into(),
            format!("INGLENOOK_UPDATES_URL={address}").into(),
            format!("INGLENOOK_UPDATES_KEY={}", self.maker.pk.to_base64()).into(),
            "sh".into(),
            "-c".into(),
            script.into(),
            prefix.join("bin/nook").into_os_string(),
        ];
        NodePlan::new(name).behind(words.into())
    }

    /// The command, run by the installed program for the node's home.
    fn update(&self, home: &Path, runtime: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.arg("--home").arg(home).arg("update").args(words);
        let address = format!("{}/{MANIFEST_FILE}", self.server.address());
        command.env("INGLENOOK_UPDATES_URL", address);
        command.env("INGLENOOK_UPDATES_KEY", self.maker.pk.to_base64());
        command.env("INGLENOOK_KEYRING", "off").env_remove("INGLENOOK_HOME");
        command.env_remove("DBUS_SESSION_BUS_ADDRESS");
        command.env("XDG_RUNTIME_DIR", runtime.parent().unwrap_or(runtime));
        command
    }

    /// What the command came to, for a node that runs.
    async fn updated(&self, node: &Node, words: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.update(node.home(), node.runtime(), words);
        Ok(tokio::task::spawn_blocking(move || command.output()).await??)
    }
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    anyhow::ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(())
}

/// How often the server was asked for the package.
fn downloads(scene: &Scene) -> usize {
    scene.server.asked().iter().filter(|asked| asked.path == "/new.tar.gz").count()
}

async fn version_of(node: &Node) -> anyhow::Result<String> {
    Ok(node.view().await?.me.app_version)
}

/// Reads what the command says until it names what it waits for.
async fn until_it_waits(child: &mut Child) -> anyhow::Result<()> {
    let said = BufReader::new(child.stderr.take().context("a pipe")?);
    let waits = tokio::task::spawn_blocking(move || {
        let mut lines = said.lines().map_while(Result::ok);
        lines.any(|line| line.contains("waiting for 1 reply on this computer"))
    });
    anyhow::ensure!(waits.await?, "it ended before it waited");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_use_becomes_the_new_version_and_its_reply_is_not_cut() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    let house = Household::strangers([scene.plan(), NodePlan::new("Study PC")]).await?;
    house.pair(0, 1, Trust::Trusted).await?;
    let node = house.asking();
    let check = scene.updated(node, &["--check"]).await?;
    assert!(!check.status.success(), "there is nothing yet: {check:?}");
    scene.offer(&scene.newer()?)?;
    let check = scene.updated(node, &["--check", "--json"]).await?;
    let found: serde_json::Value = serde_json::from_slice(&check.stdout)?;
    assert_eq!((found["newer"].as_str(), found["installed"].as_bool()), (Some(NEWER), Some(false)));
    assert_eq!(version_of(node).await?, nook_base::VERSION);

    let pid = node.pid();
    let mut reply = node.reply(&Wish::text("Once upon a time", 200).alone()).await?;
    reply.until(2).await?;
    // So slow that it is not over before the package has been fetched, checked and unpacked.
    let slow = node.throttle_all_workers(80);
    let mut command = scene.update(node.home(), node.runtime(), &["--now"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    until_it_waits(&mut child).await?;
    let so_far = reply.told().ids.len();
    reply.until(so_far + 1).await?;
    assert_eq!(version_of(node).await?, nook_base::VERSION, "a reply is under way");
    drop(slow);
    let told = reply.whole().await?;
    assert!(told.finish.is_some() && told.ids.len() > so_far, "{told:?}");
    let status = tokio::task::spawn_blocking(move || child.wait()).await??;
    assert!(status.success(), "{status}");

    assert_eq!(version_of(node).await?, NEWER);
    assert_eq!(node.pid(), pid, "whoever started it sees the same process");
    let name = "Study PC";
    let is_paired = |view: &HouseholdView| {
        view.devices.iter().any(|it| it.name == name && it.trust == Trust::Trusted && it.connected)
    };
    node.until("it is connected with the device it was paired with", is_paired).await?;
    let again = node.answer(&Wish::text("Once upon a time", 20).alone()).await?;
    assert!(again.finish.is_some(), "{again:?}");
    let check = scene.updated(node, &["--check"]).await?;
    let said = String::from_utf8(check.stdout)?;
    assert!(said.contains(&format!("{NEWER} is the newest version")), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_waited_long_enough_gives_up_in_order_and_goes_on_later()
-> anyhow::Result<()> {
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let house = Household::strangers([scene.plan()]).await?;
    let node = house.asking();
    let mut reply = node.reply(&Wish::text("Once upon a time", 200).alone()).await?;
    reply.until(2).await?;
    let slow = node.throttle_all_workers(80);
    let output = scene.updated(node, &["--now", "--wait", "0"]).await?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success(), "{said}");
    for part in ["still waits for 1 reply on this computer", "run `nook update --now` again"] {
        assert!(said.contains(part), "{said}");
    }
    let portable = nook_update::Portable::at(&scene.prefix());
    assert_eq!(portable.stage_of_swap()?, SwapStage::Prepared, "what lies ready stays");
    drop(slow);
    let told = reply.whole().await?;
    assert!(told.finish.is_some(), "{told:?}");
    // Nobody watches over it, so it does not start anew by itself either.
    tokio::time::sleep(SOME_TICKS).await;
    assert_eq!(version_of(node).await?, nook_base::VERSION);
    let asked = downloads(&scene);
    let output = scene.updated(node, &["--now", "--wait", "0"]).await?;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(version_of(node).await?, NEWER);
    assert_eq!(downloads(&scene), asked, "it was downloaded before");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_no_program_of_the_package_is_not_told_to_become_its_new_version()
-> anyhow::Result<()> {
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let house = Household::strangers([NodePlan::new("Kitchen laptop")]).await?;
    let node = house.asking();
    let output = scene.updated(node, &["--now"]).await?;
    let said = String::from_utf8(output.stderr)?;
    let built = nook()?.canonicalize()?;
    assert!(!output.status.success(), "{said}");
    for part in [&format!("the node that runs here is {}", built.display()), "end it first"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!((downloads(&scene), version_of(node).await?.as_str()), (0, nook_base::VERSION));
    let portable = nook_update::Portable::at(&scene.prefix());
    assert_eq!(portable.stage_of_swap()?, SwapStage::Nothing);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn u7_a_new_version_that_does_not_come_up_is_put_back_and_a_node_runs() -> anyhow::Result<()>
{
    let scene = Scene::new()?;
    let house = Household::strangers([scene.plan()]).await?;
    let node = house.asking();
    let id = node.view().await?.me.id;
    let before = fs::read(scene.program())?;
    // It says its version, and does nothing else.
    let broken = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo nook {NEWER} || exit 9\n");
    scene.offer(broken.as_bytes())?;
    let output = scene.updated(node, &["--now"]).await?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success() && said.contains("did not come up"), "{said}");
    assert!(fs::read(scene.program())? == before, "the old program is in place");
    let view = node.view().await?;
    assert_eq!((view.me.app_version.as_str(), view.me.id), (nook_base::VERSION, id));
    // Nobody started it but the command: it is not the test's own child.
    node.client().shut_down().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn u7_a_new_version_that_hangs_is_ended_and_put_back() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    let house = Household::strangers([scene.plan()]).await?;
    let node = house.asking();
    let before = fs::read(scene.program())?;
    let hangs = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo nook {NEWER} && exit\ntrap '' TERM\n\
         while :; do sleep 1; done\n"
    );
    scene.offer(hangs.as_bytes())?;
    let output = scene.updated(node, &["--now", "--patience", "2"]).await?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success() && said.contains("runs and does not answer"), "{said}");
    assert!(fs::read(scene.program())? == before, "the old program is in place");
    let view = node.view().await?;
    assert_eq!(view.me.app_version, nook_base::VERSION);
    node.client().shut_down().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_the_new_version_is_put_in_place_and_can_be_taken_back() -> anyhow::Result<()>
{
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let home = scene.folder.path().join("home");
    let runtime = nook_node::runtime_folder(Some(&home))?;
    let run = |words: &[&str]| -> anyhow::Result<String> {
        let output = scene.update(&home, &runtime, words).output()?;
        anyhow::ensure!(output.status.success(), "{words:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let said = run(&["--now"])?;
    assert!(said.contains(&format!("Version {NEWER} is in place")), "{said}");
    let version = Command::new(scene.program()).arg("--version").output()?;
    assert_eq!(String::from_utf8(version.stdout)?.trim(), format!("nook {NEWER}"));
    let said = run(&["--undo"])?;
    assert!(said.contains(&format!("Version {} is back", nook_base::VERSION)), "{said}");
    let version = Command::new(scene.program()).arg("--version").output()?;
    assert_eq!(String::from_utf8(version.stdout)?.trim(), format!("nook {}", nook_base::VERSION));
    Ok(())
}

/// Waits for a node that is away meanwhile because it starts anew.
async fn until_back(
    node: &Node,
    holds: impl Fn(&HouseholdView) -> bool,
) -> anyhow::Result<HouseholdView> {
    let end = nook_base::clock::now() + RESTART_LIMIT;
    loop {
        let view = node.view().await;
        match view {
            Ok(view) if holds(&view) => return Ok(view),
            seen => anyhow::ensure!(nook_base::clock::now() < end, "{seen:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Longest wait for a node that starts anew, on a machine with much else to do.
const RESTART_LIMIT: Duration = Duration::from_secs(600);

/// Longer than the node takes between two looks at what it has to do.
const SOME_TICKS: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn new_versions_are_looked_for_as_the_owner_chooses() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let plan = scene.plan_that_asks().with("updates.new_versions", "\"off\"");
    let house = Household::strangers([plan]).await?;
    let node = house.asking();
    let view = node.view().await?;
    assert!(view.updates.can_look && view.updates.newer.is_none(), "{:?}", view.updates);
    tokio::time::sleep(SOME_TICKS).await;
    assert!(scene.server.asked().is_empty(), "nobody wants to know");
    let tell = SettingAsk::new("updates.new_versions", "tell");
    node.client().change_setting(tell).await?;
    let is_told = |view: &HouseholdView| {
        view.updates.newer.as_ref().is_some_and(|newer| newer.version == NEWER)
    };
    node.until("the newer version is shown", is_told).await?;
    tokio::time::sleep(SOME_TICKS).await;
    let asked = scene.server.asked().len();
    assert_eq!(asked, 3, "the list and its signature and the list of models, once, and no package");
    assert_eq!(version_of(node).await?, nook_base::VERSION, "nobody wants it installed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_the_owner_takes_is_installed_by_the_node_itself() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    scene.offer(&scene.newer()?)?;
    let house = Household::strangers([scene.plan_that_asks()]).await?;
    let node = house.asking();
    let pid = node.pid();
    let is_told = |view: &HouseholdView| view.updates.newer.is_some();
    let view = node.until("the newer version is shown", is_told).await?;
    assert_eq!(view.updates.way, UpdateWay::Itself);
    node.client().install_update().await?;
    let is_new = |view: &HouseholdView| view.me.app_version == NEWER;
    let view = until_back(node, is_new).await?;
    assert!(view.updates.newer.is_none() && !view.updates.is_installing, "{:?}", view.updates);
    assert_eq!(node.pid(), pid);
    assert!(node.client().install_update().await.is_err(), "there is no newer one");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_come_up_is_not_installed_by_itself_again() -> anyhow::Result<()> {
    let scene = Scene::new()?;
    let broken = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo nook {NEWER} || exit 9\n");
    scene.offer(broken.as_bytes())?;
    let house = Household::strangers([scene.plan_that_asks()]).await?;
    let node = house.asking();
    let is_told = |view: &HouseholdView| view.updates.newer.is_some();
    node.until("the newer version is shown", is_told).await?;
    node.client().install_update().await?;
    let failed = UpdateTrouble::TakenBack { version: NEWER.to_owned() };
    let is_back = |view: &HouseholdView| view.updates.trouble.as_ref() == Some(&failed);
    let view = until_back(node, is_back).await?;
    assert_eq!(view.me.app_version, nook_base::VERSION);
    // The command started it, as the words of the first one said: it is not the test's own child.
    node.client().shut_down().await?;
    Ok(())
}
