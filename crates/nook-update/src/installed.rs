//! What kind of package the running program came from, by where it lies.

use std::path::{Path, PathBuf};

/// The script of the portable package lists there what it put where.
pub(crate) const LIST: &str = "share/doc/inglenook/installed.txt";

/// Debian's package manager has this file for each package that is installed.
const OF_DPKG: &str = "/var/lib/dpkg/info/inglenook.list";

/// The installer for Windows puts it beside the programs.
const UNINSTALLER: &str = "uninstall.exe";

/// Lies beside the programs in each package for Windows.
const READ_ME: &str = "READ ME.txt";

/// A kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    /// The archive with `install.sh`.
    Portable,
    /// For Debian and its children.
    Deb,
    /// For Fedora and its relatives.
    Rpm,
    /// The installer for Windows.
    Nsis,
    /// The archive for Windows.
    Zip,
    /// The disk image for macOS.
    Dmg,
}

/// Where the running program came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installed {
    /// The portable package, below this folder.
    Portable {
        /// The folder with `bin` and `share`.
        prefix: PathBuf,
    },
    /// A package that the system, or an installer, looks after.
    Managed(PackageKind),
    /// None: it was built here.
    Built,
}

impl PackageKind {
    /// The word for it in the name of a platform.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Deb => "deb",
            Self::Rpm => "rpm",
            Self::Nsis => "nsis",
            Self::Zip => "zip",
            Self::Dmg => "dmg",
        }
    }

    /// The platform of this computer with this kind of package: `linux-x86_64-portable`.
    #[must_use]
    pub fn platform(self) -> String {
        self.platform_of(std::env::consts::OS, std::env::consts::ARCH)
    }

    /// The platform of a computer with this `system` and `processor`, as Rust calls them, and this kind
    /// of package: `windows-x86_64-nsis`.
    #[must_use]
    pub fn platform_of(self, system: &str, processor: &str) -> String {
        format!("{system}-{processor}-{}", self.word())
    }
}

impl Installed {
    /// What the program at `program`, an absolute path, came from.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        let bin = program.parent().filter(|folder| folder.ends_with("bin"));
        let Some(prefix) = bin.and_then(Path::parent) else { return Self::elsewhere(program) };
        if prefix.join(LIST).is_file() {
            return Self::Portable { prefix: prefix.to_owned() };
        }
        Self::elsewhere(program)
    }

    fn elsewhere(program: &Path) -> Self {
        if cfg!(windows) {
            Self::on_windows(program)
        } else if cfg!(target_os = "macos") && program.starts_with("/Applications") {
            Self::Managed(PackageKind::Dmg)
        } else if cfg!(target_os = "linux") && program.starts_with("/usr/bin") {
            let is_deb = Path::new(OF_DPKG).is_file();
            Self::Managed(if is_deb { PackageKind::Deb } else { PackageKind::Rpm })
        } else {
            Self::Built
        }
    }

    /// There what lies beside a program tells: its owner may have chosen any folder.
    fn on_windows(program: &Path) -> Self {
        let has = |file| program.parent().is_some_and(|folder| folder.join(file).is_file());
        if has(UNINSTALLER) {
            Self::Managed(PackageKind::Nsis)
        } else if has(READ_ME) {
            Self::Managed(PackageKind::Zip)
        } else {
            Self::Built
        }
    }

    /// The kind of package, where it came from one.
    #[must_use]
    pub fn kind(&self) -> Option<PackageKind> {
        match self {
            Self::Portable { .. } => Some(PackageKind::Portable),
            Self::Managed(kind) => Some(*kind),
            Self::Built => None,
        }
    }

    /// How its owner installs the new version `file`, where this program does not do it.
    #[must_use]
    pub fn by_hand(&self, file: &str) -> String {
        match self {
            Self::Portable { .. } => "run `nook update --now`".to_owned(),
            Self::Managed(PackageKind::Deb) => {
                format!("download {file} and run `sudo apt install ./{file}`")
            }
            Self::Managed(PackageKind::Rpm) => {
                format!("download {file} and run `sudo dnf install ./{file}`")
            }
            Self::Managed(PackageKind::Zip) => {
                format!(
                    "download {file}, unpack it into another folder and drop the old folder on its Update.cmd"
                )
            }
            Self::Managed(_) => format!("download {file} and open it"),
            Self::Built => "take the new source and build it".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_program_lies_tells_what_it_came_from() {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("bin/nook");
        assert_eq!(Installed::of(&program), Installed::Built);
        std::fs::create_dir_all(home.path().join("share/doc/inglenook")).unwrap();
        std::fs::write(home.path().join(LIST), "bin/nook\n").unwrap();
        let prefix = home.path().to_owned();
        assert_eq!(Installed::of(&program), Installed::Portable { prefix });
        assert_eq!(Installed::of(&home.path().join("debug/nook")), Installed::Built);
        let platform = PackageKind::Zip.platform_of("windows", "x86_64");
        assert_eq!(platform, "windows-x86_64-zip");
        let platform = PackageKind::Portable.platform();
        assert!(platform.ends_with("-portable"), "{platform}");
    }

    #[test]
    fn on_windows_the_files_beside_a_program_tell_what_it_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nook.exe");
        assert_eq!(Installed::on_windows(&program), Installed::Built);
        std::fs::write(folder.path().join(READ_ME), "").unwrap();
        let archive = Installed::on_windows(&program);
        assert_eq!(archive, Installed::Managed(PackageKind::Zip));
        assert!(archive.by_hand("a.zip").contains("unpack"));
        std::fs::write(folder.path().join(UNINSTALLER), "").unwrap();
        assert_eq!(Installed::on_windows(&program), Installed::Managed(PackageKind::Nsis));
    }
}
