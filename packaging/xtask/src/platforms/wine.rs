//! wine, with a folder of its own for everything that Windows would remember.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::places::Places;
use crate::process::Program;

/// Where Debian puts wine's programs; other systems have them on the search path.
const DEBIAN_WINE: &str = "/usr/lib/wine";
/// The first start makes wine's own folder, which takes a while.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// wine 8 lacks this library, which Rust's standard library needs for random numbers. It stands in
/// for that one in tests only and is never shipped.
const BCRYPT_PRIMITIVES: &str = "\
/* Stands in for a library that wine 8 lacks; for tests only. */
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG count);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return SystemFunction036(bytes, (ULONG)count);
}
";

/// A made-up computer with Windows. Programs that still run on it end with it.
#[derive(Debug)]
pub(crate) struct Wine {
    home: PathBuf,
}

impl Wine {
    /// The one that earlier runs left in `folder` of the target folder, if they did.
    pub(crate) fn kept(places: &Places, folder: &str) -> Result<Self> {
        Ok(Self { home: places.made(folder)? })
    }

    /// A new one, of the version `windows` (`win10`), in `folder` of the target folder.
    pub(crate) fn fresh(places: &Places, folder: &str, windows: &str) -> Result<Self> {
        let wine = Self::kept(places, folder)?;
        wine.end();
        fs::remove_dir_all(&wine.home)?;
        fs::create_dir(&wine.home)?;
        wine.set_version(windows)?;
        let stand_in = wine.drive().join("windows/system32/bcryptprimitives.dll");
        make_bcrypt_primitives(&wine.home, &stand_in)?;
        Ok(wine)
    }

    /// Makes it call itself another version of Windows.
    pub(crate) fn set_version(&self, windows: &str) -> Result<()> {
        self.program("winecfg").args(["-v", windows]).within(ANSWER_LIMIT).run()
    }

    /// A program that runs on it. There is no display, so a window is an error, never a wait.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Program {
        self.tool("wine64").args([program])
    }

    /// Ends everything that still runs on it.
    pub(crate) fn end(&self) {
        // Fails when nothing runs.
        let _ = self.tool("wineserver").args(["-k"]).succeeds();
    }

    /// Waits until nothing runs on it any more.
    pub(crate) fn until_quiet(&self) -> Result<()> {
        self.tool("wineserver").args(["-w"]).within(ANSWER_LIMIT).run()
    }

    /// Its drive C.
    pub(crate) fn drive(&self) -> PathBuf {
        self.home.join("prefix/drive_c")
    }

    /// Folder of the one person that it knows.
    pub(crate) fn person(&self) -> Result<PathBuf> {
        let people = fs::read_dir(self.drive().join("users"))?.collect::<Result<Vec<_>, _>>()?;
        let mut people = people.into_iter().filter(|entry| entry.file_name() != "Public");
        Ok(people.next().context("wine knows nobody")?.path())
    }

    /// What a value of the registry holds; `None` where it or its key is not there.
    pub(crate) fn registry(&self, key: &str, value: &str) -> Option<String> {
        let said = self.program("reg").args(["query", key, "/v", value]).output_quietly()?;
        let line = said.lines().find(|line| line.trim_start().starts_with(value))?;
        line.split("    ").last().map(|held| held.trim().to_owned())
    }

    fn tool(&self, tool: &str) -> Program {
        let debian = Path::new(DEBIAN_WINE).join(tool);
        let tool = if debian.exists() { debian } else { tool.into() };
        Program::new(tool, &self.home)
            .env("WINEPREFIX", self.home.join("prefix"))
            .env("HOME", &self.home)
            .env("WINEDEBUG", "-all")
            .without("DISPLAY")
            .without("INGLENOOK_HOME")
    }
}

/// Compiles the stand-in in `folder` as `library`.
pub(crate) fn make_bcrypt_primitives(folder: &Path, library: &Path) -> Result<()> {
    let source = folder.join("bcryptprimitives.c");
    fs::write(&source, BCRYPT_PRIMITIVES)?;
    Program::new("x86_64-w64-mingw32-gcc", folder)
        .args(["-shared".as_ref(), "-o".as_ref(), library.as_os_str(), source.as_os_str()])
        .args(["-ladvapi32"])
        .run()
}
