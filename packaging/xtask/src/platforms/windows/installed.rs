//! The installer under wine, as one person's computer sees it: installed without a question, asked,
//! upgraded to programs of another version while a node runs, moved, started without WebView2, removed
//! with and without what is kept.
//!
//! What wine cannot tell: how Windows' own firewall, its warnings about unsigned programs and a real
//! WebView2 behave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use super::{Answer, QUESTION, read_answer};
use crate::bundle::windows::{WindowsPackages, make_next};
use crate::outside;
use crate::places::Places;
use crate::platforms::wine::{ANSWER_LIMIT, Wine};
use crate::process::Program;
use crate::running::{Holder, until_it_is_up};

/// wine's folder for this, below the target folder.
const FOLDER: &str = "platforms/wine-installed";

const UNINSTALL_KEY: &str = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\Inglenook";
const LOGIN_KEY: &str = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Run";
const LOGIN_CHOICE_KEY: &str =
    r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run";
const NAME: &str = "Inglenook";
/// The words of a node without a window.
const NODE: [&str; 2] = ["up", "--no-port"];
/// Where wine keeps what Windows keeps in its Credential Manager.
const CREDENTIAL_KEY: &str = r"HKCU\Software\Wine\Credential Manager\Generic: device key.Inglenook";

/// How often something is looked at that takes a moment.
const LOOK: Duration = Duration::from_millis(100);

/// What the installer ends with when it has changed nothing.
const NOT_DONE: Option<i32> = Some(2);

/// A computer with Windows on which the program is installed.
struct Computer {
    wine: Wine,
    /// Where the program goes.
    folder: PathBuf,
    /// Where what is kept goes.
    data: PathBuf,
    shortcut: PathBuf,
}

/// Does all of it. `here`: what the programs of this system say to the question.
pub(super) fn prove(places: &Places, packages: &WindowsPackages, here: &Answer) -> Result<String> {
    let (next, version) = make_next(places, packages)?;
    let version = version.to_string();
    let mut computer = Computer::new(places)?;
    computer.is_refused_by_an_old_windows(packages)?;

    computer.install(packages.installer.as_os_str(), &[])?;
    computer.holds_the_program(packages, &crate::bundle::portable::version(places)?)?;
    ensure!(!computer.starts_at_login(), "nobody asked for a start at login");
    computer.answers(here)?;
    computer.says_what_is_missing()?;

    let kept = computer.keeps_something()?;
    computer.install(packages.installer.as_os_str(), &["/AUTOSTART"])?;
    ensure!(computer.starts_at_login(), "/AUTOSTART was asked for");
    ensure!(computer.digests()? == kept, "installing it again changed what the program keeps");
    computer.is_upgraded_under_a_node(&next, &version)?;
    computer.holds_the_program(&next, &version)?;
    computer.answers(here)?;
    computer.leaves_alone_what_runs(packages)?;
    computer.holds_the_program(&next, &version)?;
    computer.moves_and_comes_back(&next, &version)?;

    computer.is_removed(packages)?;
    computer.updates_an_archive(packages, &next)?;
    let sizes = packages.sizes()?;
    Ok(format!("answered token for token, upgraded and moved under a node, removed; {sizes}"))
}

impl Computer {
    fn new(places: &Places) -> Result<Self> {
        let wine = Wine::fresh(places, FOLDER, "win10")?;
        let (local, roaming) = {
            let application = wine.person()?.join("AppData");
            (application.join("Local"), application.join("Roaming"))
        };
        Ok(Self {
            folder: local.join("Programs").join(NAME),
            data: local.join("inglenook/data"),
            shortcut: roaming.join("Microsoft/Windows/Start Menu/Programs/Inglenook.lnk"),
            wine,
        })
    }

    fn nook(&self) -> Program {
        self.wine.program(self.folder.join("nook.exe")).within(ANSWER_LIMIT)
    }

    fn install(&self, installer: &std::ffi::OsStr, words: &[&str]) -> Result<()> {
        self.wine.program(installer).args(["/S"]).args(words).within(ANSWER_LIMIT).run()
    }

    fn starts_at_login(&self) -> bool {
        let held = self.wine.registry(LOGIN_KEY, NAME);
        held.is_some_and(|held| held.ends_with(r#"\Inglenook\inglenook.exe" --hidden"#))
    }

    fn is_refused_by_an_old_windows(&self, packages: &WindowsPackages) -> Result<()> {
        self.wine.set_version("win7")?;
        let setup = self.wine.program(&packages.installer).args(["/S"]).within(ANSWER_LIMIT);
        ensure!(setup.exit_code()? == NOT_DONE, "Windows 7 was not refused");
        ensure!(!self.folder.exists(), "something was installed on Windows 7");
        self.wine.set_version("win10")
    }

    /// Every file, the entry in the start menu, and the entry among installed programs.
    fn holds_the_program(&self, packages: &WindowsPackages, version: &str) -> Result<()> {
        let mut wanted = names_in(&packages.content)?;
        wanted.push("uninstall.exe".to_owned());
        wanted.sort();
        let found = names_in(&self.folder)?;
        ensure!(found == wanted, "{found:?} are installed, not {wanted:?}");
        for name in names_in(&packages.content)? {
            let same =
                fs::read(packages.content.join(&name))? == fs::read(self.folder.join(&name))?;
            ensure!(same, "{name} is not what was packed");
        }
        ensure!(self.shortcut.is_file(), "there is no entry in the start menu");
        let shown = self.wine.registry(UNINSTALL_KEY, "DisplayVersion");
        ensure!(shown.as_deref() == Some(version), "the list of programs says {shown:?}");
        Ok(())
    }

    fn answers(&self, here: &Answer) -> Result<()> {
        let said = self.nook().args(["--version"]).output()?;
        ensure!(said.starts_with("nook "), "`nook --version` says {said}");
        // It may find a problem, which is no fault of the installation; a panic has another code.
        let code = self.nook().args(["doctor"]).exit_code()?;
        ensure!(matches!(code, Some(0 | 1)), "`nook doctor` ended with {code:?}");
        let answer = read_answer(&self.nook().args(["generate"]).args(QUESTION).output()?)?;
        ensure!(
            answer.ids == here.ids,
            "installed it said {:?}, here {:?}",
            answer.text,
            here.text
        );
        Ok(())
    }

    /// wine has no WebView2.
    fn says_what_is_missing(&self) -> Result<()> {
        let app = self.wine.program(self.folder.join("inglenook.exe")).within(ANSWER_LIMIT);
        let code = app.exit_code()?;
        ensure!(code == Some(1), "without WebView2 the tray app ended with {code:?}");
        let log = fs::read_to_string(self.data.join("inglenook.log"))?;
        ensure!(log.contains("has no Microsoft Edge WebView2"), "its log does not say why: {log}");
        ensure!(!log.contains("panicked"), "it panicked: {log}");
        Ok(())
    }

    /// Leaves settings and a file of a model; gives what the data folder holds then.
    fn keeps_something(&self) -> Result<Vec<(String, String)>> {
        self.nook().args(["settings", "set", "device.name", "Attic PC"]).run()?;
        fs::write(self.data.join("models/of-a-person.gguf"), "theirs")?;
        self.digests()
    }

    /// Name and digest of each file in the data folder, but of logs and of what says who runs.
    fn digests(&self) -> Result<Vec<(String, String)>> {
        let mut digests = Vec::new();
        for name in names_in(&self.data)? {
            let path = self.data.join(&name);
            if path.is_file() && name != "lock" && !name.contains(".log") {
                let digest = Sha256::digest(fs::read(&path)?);
                digests.push((name, format!("{digest:x?}")));
            }
        }
        let names: Vec<_> = digests.iter().map(|(name, _)| name.as_str()).collect();
        for wanted in ["chats.db", "identity.pub", "settings.toml"] {
            ensure!(names.contains(&wanted), "there is no {wanted} among {names:?}");
        }
        Ok(digests)
    }

    /// A node runs in a terminal. The installer asks it to leave, which it does in order, and starts the
    /// one of the new version as that one was started.
    fn is_upgraded_under_a_node(&self, next: &WindowsPackages, version: &str) -> Result<()> {
        self.under_a_node(|| self.install(next.installer.as_os_str(), &[]))?;
        let said = self.nook().args(["--version"]).output()?;
        ensure!(said.trim() == format!("nook {version}"), "after the upgrade it says {said}");
        ensure!(self.starts_at_login(), "an upgrade without a word forgot the start at login");
        let name = self.nook().args(["settings", "get", "device.name"]).output()?;
        ensure!(name.trim() == "Attic PC", "after the upgrade the device is called {name}");
        self.runs_again()
    }

    /// What cannot be replaced is left as it was, and what left for it runs again.
    fn leaves_alone_what_runs(&self, older: &WindowsPackages) -> Result<()> {
        let _held = self.holds_open("nook.exe")?;
        self.under_a_node(|| {
            let setup = self.wine.program(&older.installer).args(["/S"]).within(ANSWER_LIMIT);
            ensure!(setup.exit_code()? == NOT_DONE, "a program that runs was written over");
            Ok(())
        })?;
        self.runs_again()
    }

    /// To another folder and back, while a node runs. A person has switched the start at login off in
    /// the Task Manager, which Windows keeps beside the start itself.
    fn moves_and_comes_back(&mut self, packages: &WindowsPackages, version: &str) -> Result<()> {
        let off = "030000000000000000000000";
        let words = ["add", LOGIN_CHOICE_KEY, "/v", NAME, "/t", "REG_BINARY", "/d", off, "/f"];
        self.wine.program("reg").args(words).run()?;
        let home = self.folder.clone();
        let elsewhere = self.wine.drive().join("elsewhere").join(NAME);
        for (from, to) in [(&home, &elsewhere), (&elsewhere, &home)] {
            let below = to.strip_prefix(self.wine.drive())?.to_string_lossy().replace('/', "\\");
            let folder = format!("/D=C:\\{below}");
            self.under_a_node(|| self.install(packages.installer.as_os_str(), &[&folder]))?;
            self.folder.clone_from(to);
            self.holds_the_program(packages, version)?;
            ensure!(!from.exists(), "{:?} stay in the folder before", names_in(from)?);
            let login = self.wine.registry(LOGIN_KEY, NAME).unwrap_or_default();
            ensure!(login == format!("\"C:\\{below}\\inglenook.exe\" --hidden"), "it is {login}");
            let choice = self.wine.registry(LOGIN_CHOICE_KEY, NAME);
            ensure!(choice.as_deref() == Some(off), "the choice for the login is {choice:?}");
            self.runs_again()?;
        }
        Ok(())
    }

    /// A folder that was unpacked becomes the new version under a node, with the file that lies in the
    /// archive for that.
    fn updates_an_archive(
        &mut self,
        packages: &WindowsPackages,
        next: &WindowsPackages,
    ) -> Result<()> {
        let [old, new] = ["unpacked", "new"].map(|name| self.wine.drive().join(name));
        for (archive, folder) in [(&packages.archive, &old), (&next.archive, &new)] {
            zip::ZipArchive::new(fs::File::open(archive)?)?.extract(folder)?;
        }
        self.folder = old.join(NAME);
        let update = || {
            let words = ["/c", r"C:\new\Inglenook\Update.cmd", r"C:\unpacked\Inglenook"];
            let code = self.wine.program("cmd").args(words).within(ANSWER_LIMIT).exit_code()?;
            ensure!(code == Some(0), "the update of a folder ended with {code:?}");
            Ok(())
        };
        self.under_a_node(update)?;
        self.runs_again()?;
        let found = names_in(&self.folder)?;
        ensure!(found == names_in(&new.join(NAME))?, "{found:?} lie there");
        for name in found {
            let same = fs::read(self.folder.join(&name))? == fs::read(new.join(NAME).join(&name))?;
            ensure!(same, "{name} is not that of the new version");
        }
        Ok(())
    }

    /// A node runs in a terminal and has left in order behind `deed`.
    fn under_a_node(&self, deed: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut node = self.nook().args(NODE).piped()?;
        let outcome =
            until_it_is_up(&mut node).and_then(|()| deed()).and_then(|()| until_it_ends(&mut node));
        // Dead already where all went well.
        let _ = node.kill();
        outcome
    }

    /// The node that the installer has started again, as it was; it ends here.
    fn runs_again(&self) -> Result<()> {
        let asked = outside::now();
        let wanted = ["nook.exe"].into_iter().chain(NODE).collect::<Vec<_>>().join(" ");
        loop {
            // It fails while no node answers.
            let down = self.nook().args(["down", "--say-again"]).output_quietly();
            match down.as_deref().map(str::trim) {
                Some(said) if said == wanted => return Ok(()),
                Some(said) => bail!("what was started again is {said:?}, not {wanted:?}"),
                None if asked.elapsed() > ANSWER_LIMIT => bail!("the node was not started again"),
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// A program that neither is a node nor leaves, such as one that waits for a person to type.
    fn holds_open(&self, program: &str) -> Result<Holder> {
        let words = ["up", "--no-port", "--home", r"C:\elsewhere"];
        let mut child = self.wine.program(self.folder.join(program)).args(words).piped()?;
        until_it_is_up(&mut child)?;
        Ok(Holder(child))
    }

    fn is_removed(&self, packages: &WindowsPackages) -> Result<()> {
        let secret = || self.wine.registry(CREDENTIAL_KEY, "Password");
        ensure!(secret().is_some(), "the key of this device is not where this test looks for it");
        let (theirs, deeper) = (self.folder.join("mine.txt"), self.folder.join("new"));
        fs::write(&theirs, "of somebody")?;
        fs::create_dir(&deeper)?;
        fs::write(deeper.join("mine.txt"), "of somebody")?;
        self.remove(&[])?;
        let left = names_in(&self.folder)?;
        ensure!(left == ["mine.txt", "new"], "{left:?} stay");
        ensure!(deeper.join("mine.txt").is_file(), "a folder of somebody was emptied");
        ensure!(!self.shortcut.exists(), "its entry in the start menu stays");
        ensure!(!self.starts_at_login(), "its start at login stays");
        ensure!(self.wine.registry(UNINSTALL_KEY, "DisplayVersion").is_none(), "it stays listed");
        self.digests().context("removing the program took what it keeps")?;
        ensure!(self.data.join("models/of-a-person.gguf").is_file() && secret().is_some());

        fs::remove_file(theirs)?;
        fs::remove_dir_all(deeper)?;
        self.install(packages.installer.as_os_str(), &[])?;
        let elsewhere = self.wine.drive().join("models");
        fs::create_dir(&elsewhere)?;
        fs::write(elsewhere.join("large.gguf"), "theirs")?;
        #[cfg(unix)]
        std::os::unix::fs::symlink(&elsewhere, self.data.join("models/elsewhere"))?;
        self.remove(&["/REMOVE-DATA"])?;
        ensure!(!self.folder.exists(), "{:?} stays", names_in(&self.folder)?);
        ensure!(elsewhere.join("large.gguf").is_file(), "what a link leads to was deleted");
        ensure!(secret().is_none(), "the key of this device stays");
        let left = files_below(&self.data)?;
        ensure!(left.is_empty(), "{left:?} stay");
        Ok(())
    }

    /// The uninstaller goes on as a copy of itself, from elsewhere.
    fn remove(&self, words: &[&str]) -> Result<()> {
        let uninstaller = self.wine.program(self.folder.join("uninstall.exe"));
        uninstaller.args(["/S"]).args(words).within(ANSWER_LIMIT).run()?;
        self.wine.until_quiet()
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        self.wine.end();
    }
}

fn until_it_ends(node: &mut Child) -> Result<()> {
    let asked = outside::now();
    loop {
        if let Some(status) = node.try_wait()? {
            ensure!(status.success(), "the node that was to leave ended with {status}");
            return Ok(());
        }
        ensure!(asked.elapsed() < ANSWER_LIMIT, "the node goes on after the upgrade");
        std::thread::sleep(LOOK);
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Every file below `folder`; what a link leads to is not below it.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(files_below(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(found)
}
