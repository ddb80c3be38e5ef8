//! A package of an earlier version, to see that this one takes its place: while a node runs, with
//! what its owner has, and without what only the earlier one had.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::bundle::contents::fresh;
use crate::bundle::first_words;
use crate::places::Places;
use crate::process::Program;
use crate::running::{Holder, until_it_is_up};

/// Sorts before every version, and before what comes before one.
const VERSION: &str = "0.0.1";
/// A file that the earlier package has and this one has not.
const DROPPED: &str = "usr/share/doc/inglenook/dropped-since.txt";

/// What the owner of the earlier one calls the device.
const CALLED: &str = "Attic PC";

/// The package at `deb` as one of an earlier version.
pub(super) fn make(places: &Places, deb: &Path) -> Result<PathBuf> {
    let folder = fresh(&places.made("packages/earlier")?)?.to_owned();
    let (tree, earlier) = (folder.join("tree"), folder.join("earlier.deb"));
    let tool = || Program::new("dpkg-deb", &places.root);
    tool().args(["--raw-extract".as_ref(), deb.as_os_str(), tree.as_os_str()]).run()?;
    let control = tree.join("DEBIAN/control");
    let fields = fs::read_to_string(&control)?;
    let is_version = |line: &&str| line.starts_with("Version: ");
    let version = fields.lines().find(is_version).context("the .deb has no version")?;
    fs::write(&control, fields.replace(version, &format!("Version: {VERSION}")))?;
    let dropped = tree.join(DROPPED);
    fs::create_dir_all(dropped.parent().context("it lies in a folder")?)?;
    fs::write(dropped, "An earlier version had this.\n")?;
    // Packing takes longer than anything that is tested.
    tool()
        .args(["--root-owner-group", "-Znone", "--build"])
        .args([tree.as_os_str(), earlier.as_os_str()])
        .run()?;
    fs::remove_dir_all(&tree)?;
    Ok(earlier)
}

/// Somebody whose node runs while the package is replaced.
pub(super) struct Running {
    node: Holder,
    home: PathBuf,
}

impl Running {
    /// Starts the node of the earlier package, which answers.
    pub(super) fn start(places: &Places) -> Result<Self> {
        ensure!(Path::new("/").join(DROPPED).exists(), "the earlier package is not there");
        let home = fresh(&places.made("packages/upgraded")?)?.to_owned();
        first_words::wait(Path::new("/usr/bin/nook"), &home)?;
        let named = ["settings", "set", "device.name", CALLED];
        first_words::as_it_comes(Path::new("/usr/bin/nook"), &home).args(named).run()?;
        let up = first_words::as_it_comes(Path::new("/usr/bin/nook"), &home).args(["up"]);
        let mut node = Holder(up.piped()?);
        until_it_is_up(&mut node.0)?;
        Ok(Self { node, home })
    }

    /// The package was replaced: what only the earlier one had is gone, the node answers still, and
    /// so does one that is started then.
    pub(super) fn goes_on(mut self) -> Result<()> {
        ensure!(!Path::new("/").join(DROPPED).exists(), "what the earlier package had is left");
        first_words::wait(Path::new("/usr/bin/nook"), &self.home)
            .context("beside a node that ran while the package was replaced")?;
        let ended = self.node.0.try_wait()?;
        ensure!(ended.is_none(), "the node ended when the package was replaced: {ended:?}");
        drop(self.node);
        first_words::wait(Path::new("/usr/bin/nook"), &self.home)
            .context("as the first node of the later package")?;
        let asked = first_words::as_it_comes(Path::new("/usr/bin/nook"), &self.home);
        let name = asked.args(["settings", "get", "device.name"]).output()?;
        ensure!(name.trim() == CALLED, "what its owner had set is gone: it is called {name}");
        Ok(())
    }
}
