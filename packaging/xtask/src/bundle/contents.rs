//! What a package holds beside the tray app, its desktop entry and its icons, which the bundler
//! adds.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::bundle::notices;
use crate::launch::NOOK;
use crate::places::Places;
use crate::process::Program;

/// Completion scripts: the shell, its file here, and where both kinds of packages put it.
const COMPLETIONS: [(&str, &str, &str, &str); 3] = [
    ("bash", "nook.bash", "bash-completion/completions/nook", "bash-completion/completions/nook"),
    ("zsh", "_nook", "zsh/vendor-completions/_nook", "zsh/site-functions/_nook"),
    (
        "fish",
        "nook.fish",
        "fish/vendor_completions.d/nook.fish",
        "fish/vendor_completions.d/nook.fish",
    ),
];
/// Folder of licences and notices in a package.
const DOCUMENTS: &str = "/usr/share/doc/inglenook";
/// Files of the repository, and where they go.
const KEPT: [(&str, &str); 6] = [
    ("packaging/linux/house.inglenook.Inglenook.metainfo.xml", "/usr/share/metainfo"),
    ("packaging/linux/inglenook.service", "/usr/share/systemd/user"),
    ("packaging/linux/copyright", DOCUMENTS),
    ("LICENSE-APACHE", DOCUMENTS),
    ("LICENSE-MIT", DOCUMENTS),
    ("icons/source/app.svg", "/usr/share/icons/hicolor/scalable/apps"),
];

/// A file and where a package puts it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PackedFile {
    /// From the root of the system that installs it.
    pub(crate) path: String,
    /// Where it is now.
    pub(crate) source: PathBuf,
}

/// Files by the kind of package.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// In both.
    pub(crate) both: Vec<PackedFile>,
    /// In the .deb alone.
    pub(crate) deb: Vec<PackedFile>,
    /// In the .rpm alone.
    pub(crate) rpm: Vec<PackedFile>,
}

/// `folder`, with nothing in it.
pub(crate) fn fresh(folder: &Path) -> Result<&Path> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    Ok(folder)
}

/// Makes completions, manual pages and notices in `folder`, and says where everything goes. `nook`
/// is the program that is packed, and describes itself.
pub(crate) fn lay_out(places: &Places, folder: &Path, nook: &Path) -> Result<Contents> {
    let mut contents = Contents::default();
    let packed = |path: String, source: PathBuf| PackedFile { path, source };
    contents.both.push(packed(format!("/usr/bin/{NOOK}"), nook.to_owned()));
    for (shell, name, in_deb, in_rpm) in COMPLETIONS {
        let script = Program::new(nook, folder).args(["completions", shell]).output()?;
        let source = folder.join(name);
        std::fs::write(&source, script)?;
        contents.deb.push(packed(format!("/usr/share/{in_deb}"), source.clone()));
        contents.rpm.push(packed(format!("/usr/share/{in_rpm}"), source));
    }
    for page in manual(places, folder, nook)? {
        contents.both.push(packed(format!("/usr/share/man/man1/{}", name_of(&page)?), page));
    }
    for (file, into) in KEPT {
        let source = places.root.join(file);
        let name =
            if into.contains("/icons/") { "inglenook.svg".to_owned() } else { name_of(&source)? };
        contents.both.push(packed(format!("{into}/{name}"), source));
    }
    let notices_file = folder.join("third-party-licences.txt");
    std::fs::write(&notices_file, notices::text(places, None)?)?;
    let notices_file = compressed(notices_file)?;
    contents.both.push(packed(format!("{DOCUMENTS}/{}", name_of(&notices_file)?), notices_file));
    Ok(contents)
}

/// The pages of both programs, compressed as systems want them.
fn manual(places: &Places, folder: &Path, nook: &Path) -> Result<Vec<PathBuf>> {
    let pages = folder.join("man");
    std::fs::create_dir(&pages)?;
    Program::new(nook, folder).args(["manual".as_ref(), pages.as_os_str()]).run()?;
    let own = "inglenook.1";
    std::fs::copy(places.root.join("packaging/linux").join(own), pages.join(own))?;
    let mut made = Vec::new();
    for page in std::fs::read_dir(&pages)?.collect::<Result<Vec<_>, _>>()? {
        made.push(compressed(page.path())?);
    }
    made.sort();
    Ok(made)
}

/// Puts `file.gz` in the place of `file`, without name and time, so that it is always the same.
fn compressed(file: PathBuf) -> Result<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let gzip = Program::new("gzip", folder).args(["-9", "--no-name", "--force"]).args([&file]);
    if !gzip.succeeds() {
        bail!("gzip cannot compress {}", file.display());
    }
    Ok(PathBuf::from(format!("{}.gz", file.display())))
}

fn name_of(file: &Path) -> Result<String> {
    let name = file.file_name().with_context(|| format!("{} has no name", file.display()))?;
    Ok(name.to_string_lossy().into_owned())
}
