//! System packages: what each purpose needs, what is missing, how it is installed.
//!
//! Debian and its children are installed for; Fedora and Arch get the command; other systems get
//! the list. On Debian the archives go into a private folder, because container images delete the
//! shared one at every `apt-get update`, also another process's, in the middle of an installation.

use anyhow::{Result, bail};

use crate::outside;
use crate::places::Places;
use crate::process::Program;
use crate::setup::Purpose;

/// How long another process may hold the package database, in seconds.
pub(crate) const APT_LOCK_SECONDS: &str = "DPkg::Lock::Timeout=600";

/// One thing that must be on the machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    purpose: Purpose,
    debian: &'static str,
    /// Empty where that family has it in another of its packages.
    fedora: &'static str,
    /// Empty where that family has it in another of its packages.
    arch: &'static str,
    probe: Probe,
}

/// How to see that a thing is there where packages have other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// A program on the search path.
    Program(&'static str),
    /// A library that pkg-config knows.
    Library(&'static str),
    /// Python can make environments.
    PythonEnvironments,
    /// A browser made of Chromium, or a system that offers none: then its stage says so.
    Browser,
    /// Nothing to look at; only a package list knows it.
    Unseen,
}

use Probe::{Browser, Library, Program as Command, PythonEnvironments, Unseen};

const fn want(purpose: Purpose, [debian, fedora, arch]: [&'static str; 3], probe: Probe) -> Wanted {
    Wanted { purpose, debian, fedora, arch, probe }
}

#[rustfmt::skip] // A table is read by column.
const TABLE: &[Wanted] = &[
    want(Purpose::House, ["build-essential", "gcc-c++", "base-devel"], Command("cc")),
    want(Purpose::House, ["pkg-config", "pkgconf-pkg-config", "pkgconf"], Command("pkg-config")),
    want(Purpose::Run, ["libwebkit2gtk-4.1-dev", "webkit2gtk4.1-devel", "webkit2gtk-4.1"], Library("webkit2gtk-4.1")),
    want(Purpose::Run, ["libayatana-appindicator3-dev", "libayatana-appindicator-gtk3-devel", "libayatana-appindicator"], Library("ayatana-appindicator3-0.1")),
    want(Purpose::Run, ["librsvg2-dev", "librsvg2-devel", "librsvg"], Library("librsvg-2.0")),
    want(Purpose::Run, ["libdbus-1-dev", "dbus-devel", "dbus"], Library("dbus-1")),
    want(Purpose::Test, ["python3", "python3", "python"], Command("python3")),
    want(Purpose::Test, ["python3-venv", "", ""], PythonEnvironments),
    want(Purpose::Test, ["xvfb", "xorg-x11-server-Xvfb", "xorg-server-xvfb"], Command("Xvfb")),
    want(Purpose::Test, ["dbus", "dbus-daemon", "dbus"], Command("dbus-run-session")),
    want(Purpose::Test, ["webkit2gtk-driver", "webkit2gtk4.1", ""], Command("WebKitWebDriver")),
    want(Purpose::Test, ["gnome-keyring", "gnome-keyring", "gnome-keyring"], Command("gnome-keyring-daemon")),
    want(Purpose::Test, ["openbox", "openbox", "openbox"], Command("openbox")),
    want(Purpose::Test, ["wmctrl", "wmctrl", "wmctrl"], Command("wmctrl")),
    want(Purpose::Test, ["xdotool", "xdotool", "xdotool"], Command("xdotool")),
    want(Purpose::Test, ["imagemagick", "ImageMagick", "imagemagick"], Command("import")),
    want(Purpose::Test, ["trayer", "trayer", "trayer"], Command("trayer")),
    want(Purpose::Test, ["fonts-dejavu-core", "dejavu-sans-fonts", "ttf-dejavu"], Unseen),
    want(Purpose::Test, ["chromium", "chromium", "chromium"], Browser),
    want(Purpose::Test, ["rpm", "", ""], Command("rpm")),
    want(Purpose::Test, ["desktop-file-utils", "desktop-file-utils", "desktop-file-utils"], Command("desktop-file-validate")),
    want(Purpose::Test, ["iproute2", "iproute", "iproute2"], Command("ip")),
    want(Purpose::Test, ["", "iproute-tc", ""], Command("tc")),
    want(Purpose::Test, ["libvulkan1", "vulkan-loader", "vulkan-icd-loader"], Unseen),
    want(Purpose::Test, ["mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-swrast"], Unseen),
    want(Purpose::Test, ["nsis", "mingw32-nsis", ""], Command("makensis")),
    want(Purpose::Platforms, ["gcc-mingw-w64-x86-64", "mingw64-gcc", "mingw-w64-gcc"], Command("x86_64-w64-mingw32-gcc")),
    want(Purpose::Platforms, ["wine64", "wine-core", "wine"], Command("wine64")),
];

/// What `purpose` needs, and everything that smaller purposes need.
pub(crate) fn wanted(purpose: Purpose) -> impl Iterator<Item = &'static Wanted> {
    TABLE.iter().filter(move |wanted| wanted.purpose <= purpose)
}

/// A family of Linux systems, by how it installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Debian, Ubuntu and their children: apt.
    Debian,
    /// Fedora and its children: dnf.
    Fedora,
    /// Arch and its children: pacman.
    Arch,
    /// Another Linux; its packages are not known here.
    Other,
}

impl Family {
    /// The family of this machine; `None` off Linux.
    pub(crate) fn of_this_machine() -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let known = [("apt-get", Self::Debian), ("dnf", Self::Fedora), ("pacman", Self::Arch)];
        let found = known.into_iter().find(|(tool, _)| outside::find_program(tool).is_some());
        Some(found.map_or(Self::Other, |(_, family)| family))
    }

    /// Those of `wanted` that are not on this machine.
    pub(crate) fn missing(
        self,
        places: &Places,
        wanted: impl Iterator<Item = &'static Wanted>,
    ) -> Vec<&'static Wanted> {
        wanted.filter(|wanted| !wanted.name(self).is_empty() && !self.has(places, wanted)).collect()
    }

    /// The command that a person types to install `names`.
    pub(crate) fn install_command(self, names: &[&str]) -> String {
        let names = names.join(" ");
        match self {
            Self::Debian => format!("sudo apt-get install --no-install-recommends {names}"),
            Self::Fedora => format!("sudo dnf install {names}"),
            Self::Arch => format!("sudo pacman -S --needed {names}"),
            Self::Other => format!("(this system's own way to install) {names}"),
        }
    }

    /// Installs `names`.
    pub(crate) fn install(self, places: &Places, names: &[&str]) -> Result<()> {
        if self != Self::Debian {
            bail!(
                "only apt is driven from here; install the packages and try again:\n  {}",
                self.install_command(names)
            );
        }
        apt(places).args(["-o", APT_LOCK_SECONDS, "update"]).run()?;
        apt(places)
            .args(["-y", "--no-install-recommends", "-o", APT_LOCK_SECONDS])
            .args(private_archives(places)?)
            .args(["-o", "Acquire::Retries=3", "install"])
            .args(names)
            .run()
    }

    /// Whether a thing is there, by whatever way it came; on Debian its package counts too.
    fn has(self, places: &Places, wanted: &Wanted) -> bool {
        let is_seen = match wanted.probe {
            Command(program) => outside::find_program(program).is_some(),
            Library(library) => {
                Program::new("pkg-config", &places.root).args(["--exists", library]).succeeds()
            }
            PythonEnvironments => can_make_environments(places),
            Browser => outside::find_browser().is_some() || !self.offers(places, wanted.debian),
            Unseen => self != Self::Debian,
        };
        is_seen || (self == Self::Debian && is_installed(places, wanted.debian))
    }
}

impl Family {
    /// Whether apt has the package; Ubuntu has no Chromium but a snap. Other families have what the
    /// table names.
    fn offers(self, places: &Places, package: &str) -> bool {
        self != Self::Debian
            || Program::new("apt-cache", &places.root)
                .args(["show", "--no-all-versions", package])
                .output_quietly()
                .is_some_and(|shown| !shown.is_empty())
    }
}

fn is_installed(places: &Places, package: &str) -> bool {
    Program::new("dpkg-query", &places.root)
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .output_quietly()
        .is_some_and(|status| status == "installed")
}

impl Wanted {
    /// What `family` calls it.
    pub(crate) fn name(&self, family: Family) -> &'static str {
        match family {
            Family::Debian | Family::Other => self.debian,
            Family::Fedora => self.fedora,
            Family::Arch => self.arch,
        }
    }
}

fn can_make_environments(places: &Places) -> bool {
    Program::new("python3", &places.root).args(["-c", "import venv, ensurepip"]).succeeds()
}

/// Options that keep what apt downloads in a folder of our own; why is said at the top.
pub(crate) fn private_archives(places: &Places) -> Result<[String; 2]> {
    let archives = places.made("apt-archives/partial")?.with_file_name("");
    Ok(["-o".to_owned(), format!("Dir::Cache::archives={}", archives.display())])
}

/// Whether [`apt`] works without asking anybody.
pub(crate) fn may_become_root(places: &Places) -> bool {
    is_root(places)
        || Program::new("sudo", &places.root).args(["--non-interactive", "true"]).succeeds()
}

fn is_root(places: &Places) -> bool {
    Program::new("id", &places.root)
        .args(["-u"])
        .output_quietly()
        .is_some_and(|id| id.trim() == "0")
}

/// apt-get as root, asking nothing. `sudo` drops the environment, so the variable goes through it.
pub(crate) fn apt(places: &Places) -> Program {
    let unattended = ["DEBIAN_FRONTEND=noninteractive", "apt-get"];
    if is_root(places) {
        Program::new("env", &places.root).args(unattended)
    } else {
        Program::new("sudo", &places.root).args(["env"]).args(unattended).with_keyboard()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_includes_the_smaller_ones() {
        let names = |purpose| wanted(purpose).map(|w| w.debian).collect::<Vec<_>>();
        assert!(names(Purpose::House).contains(&"build-essential"));
        assert!(!names(Purpose::House).contains(&"libwebkit2gtk-4.1-dev"));
        assert!(!names(Purpose::Run).contains(&"xvfb"));
        assert!(names(Purpose::Test).contains(&"xvfb"));
        assert!(!names(Purpose::Test).contains(&"wine64"));
        assert_eq!(names(Purpose::Platforms).len(), TABLE.len());
    }

    #[test]
    fn every_family_gets_a_command_with_its_own_names() {
        let library = TABLE.iter().find(|w| w.debian == "libwebkit2gtk-4.1-dev").unwrap();
        for (family, command) in [
            (Family::Debian, "apt-get install --no-install-recommends libwebkit2gtk-4.1-dev"),
            (Family::Fedora, "dnf install webkit2gtk4.1-devel"),
            (Family::Arch, "pacman -S --needed webkit2gtk-4.1"),
        ] {
            let shown = family.install_command(&[library.name(family)]);
            assert!(shown.contains(command), "{shown}");
        }
    }

    #[test]
    fn a_package_that_does_not_exist_is_missing() {
        const UNREAL: Wanted =
            want(Purpose::Run, ["no-such-package"; 3], Command("no-such-program"));
        let places = Places::find().unwrap();
        for family in [Family::Debian, Family::Fedora] {
            assert_eq!(family.missing(&places, [&UNREAL].into_iter()), [&UNREAL]);
        }
    }
}
