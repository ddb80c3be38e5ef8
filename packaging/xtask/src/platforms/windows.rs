//! Windows from Linux: Debian's mingw links, wine runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::platforms::{Attempt, Crossing, ensure_pages};
use crate::process::Program;
use crate::say;

const TRIPLE: &str = "x86_64-pc-windows-gnu";
/// Where Debian puts wine; other systems have it on the search path.
const DEBIAN_WINE: &str = "/usr/lib/wine/wine64";
/// The first start makes wine's own folder, which takes a while.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// How many tokens the answer has.
const ANSWER_TOKENS: &str = "16";

/// Wine 8 lacks this library, which Rust's standard library needs for random numbers. It lies
/// beside the program in this test only and is never shipped.
const BCRYPT_PRIMITIVES: &str = "\
/* Stands in for a library that wine 8 lacks; for tests only. */
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG count);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return SystemFunction036(bytes, (ULONG)count);
}
";

/// Builds, runs under wine, and checks the tray app.
pub(crate) fn attempts(crossing: &Crossing<'_>, attempts: &mut Vec<Attempt>) {
    let built = Attempt::of("Windows: everything but the tray app", true, || build(crossing));
    let is_built = built.outcome.is_ok();
    attempts.push(built);
    if is_built && crossing.has_nook() {
        attempts.push(Attempt::of("Windows: `nook` answers under wine", true, || answer(crossing)));
    }
    if crossing.packages.is_empty() {
        attempts.push(Attempt::of("Windows: the tray app", false, || tray_app(crossing)));
    }
}

fn build(crossing: &Crossing<'_>) -> Result<String> {
    crossing.ensure_target(TRIPLE)?;
    crossing.cargo().args(["build", "--target", TRIPLE]).args(crossing.selection()).run()?;
    Ok(String::new())
}

fn answer(crossing: &Crossing<'_>) -> Result<String> {
    let folder = crossing.target.join(TRIPLE).join("debug");
    make_bcrypt_primitives(crossing, &folder)?;
    let wine = if Path::new(DEBIAN_WINE).exists() { DEBIAN_WINE } else { "wine64" };
    let wine_home = crossing.places.made("platforms/wine-home")?;
    say::line("wine prepares its folder at the first start; be patient");
    let said = Program::new(wine, &folder)
        .args([folder.join("nook.exe").as_os_str()])
        .args(["generate", "--model", "ember", "--prompt", "Once upon a time"])
        .args(["--max-tokens", ANSWER_TOKENS, "--temperature", "0", "--json"])
        .env("WINEPREFIX", wine_home.join("prefix"))
        .env("HOME", &wine_home)
        .env("WINEDEBUG", "-all")
        .within(ANSWER_LIMIT)
        .output()?;
    let answer = read_answer(&said)?;
    Ok(format!("it said: {answer}"))
}

fn read_answer(said: &str) -> Result<String> {
    let at = said.find('{').context("`nook.exe generate --json` wrote no object")?;
    let answer: serde_json::Value = serde_json::from_str(said[at..].trim())?;
    let ids = answer["ids"].as_array().context("the answer has no `ids`")?;
    let text = answer["text"].as_str().context("the answer has no `text`")?;
    if ids.is_empty() || text.trim().is_empty() {
        bail!("the answer is empty");
    }
    Ok(text.trim().to_owned())
}

fn make_bcrypt_primitives(crossing: &Crossing<'_>, beside: &Path) -> Result<PathBuf> {
    let source = crossing.target.join("bcryptprimitives.c");
    let library = beside.join("bcryptprimitives.dll");
    std::fs::write(&source, BCRYPT_PRIMITIVES)?;
    Program::new("x86_64-w64-mingw32-gcc", &crossing.target)
        .args(["-shared".as_ref(), "-o".as_ref(), library.as_os_str(), source.as_os_str()])
        .args(["-ladvapi32"])
        .run()?;
    Ok(library)
}

fn tray_app(crossing: &Crossing<'_>) -> Result<String> {
    ensure_pages(crossing.places)?;
    crossing.cargo().args(["check", "--target", TRIPLE, "--package", "inglenook"]).run()?;
    Ok("compiles; packaging and a real desktop are not tried".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_hold_tokens_and_text() {
        let fine = "starting\r\n{\"ids\": [1, 2], \"text\": \" a girl\"}\r\n";
        assert_eq!(read_answer(fine).unwrap(), "a girl");
        for bad in ["", "{}", "{\"ids\": [], \"text\": \"\"}", "{\"ids\": [1], \"text\": \" \"}"] {
            assert!(read_answer(bad).is_err(), "{bad}");
        }
    }
}
