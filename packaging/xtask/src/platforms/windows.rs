//! Windows from Linux: mingw links, wine runs, and the answers must be those of this system.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::launch::NOOK;
use crate::platforms::{Attempt, Crossing, ensure_pages};
use crate::process::{Program, cargo};
use crate::say;

const TRIPLE: &str = "x86_64-pc-windows-gnu";
/// Where Debian puts wine's programs; other systems have them on the search path.
const DEBIAN_WINE: &str = "/usr/lib/wine";
/// The first start makes wine's own folder, which takes a while.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// What is asked, of both systems. Scripts get temperature 0: the likeliest token, always.
const QUESTION: [&str; 7] =
    ["--model", "ember", "--prompt", "Once upon a time", "--max-tokens", "16", "--json"];

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

/// What `nook generate --json` or `nook house --json` said.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    ids: Vec<u64>,
    text: String,
    /// Devices that took part, in the order of the route.
    devices: Vec<String>,
}

/// Builds, runs under wine, and builds the tray app.
pub(crate) fn attempts(crossing: &Crossing<'_>, attempts: &mut Vec<Attempt>) {
    let built = Attempt::of("Windows: everything but the tray app", true, || build(crossing));
    let is_built = built.outcome.is_ok();
    attempts.push(built);
    if is_built && crossing.has_nook() {
        let answered = Attempt::of("Windows: `nook` answers under wine", true, || answer(crossing));
        let has_answered = answered.outcome.is_ok();
        attempts.push(answered);
        if has_answered {
            // A report only: what wine makes of multicast differs between machines.
            let what = "Windows: a household under wine";
            attempts.push(Attempt::of(what, false, || household(crossing)));
        }
        // Nothing that hung lives on; fails when nothing lives.
        let _ = wine(crossing, "wineserver").map(|server| server.args(["-k"]).succeeds());
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

/// Asks both systems the same and wants the same tokens.
fn answer(crossing: &Crossing<'_>) -> Result<String> {
    make_bcrypt_primitives(crossing)?;
    say::line("wine prepares its folder at the first start; be patient");
    let answer = under_wine(crossing, "generate")?;
    let here = on_this_system(crossing)?;
    if answer.ids != here.ids {
        bail!("under wine it said {:?}, here {:?}", answer.text, here.text);
    }
    Ok(format!("token for token as here: {}", answer.text.trim()))
}

/// Three nodes that find each other, pair and answer together.
fn household(crossing: &Crossing<'_>) -> Result<String> {
    let together = under_wine(crossing, "house")?;
    let here = on_this_system(crossing)?;
    if together.ids != here.ids {
        bail!("under wine they said {:?}, alone it is {:?}", together.text, here.text);
    }
    Ok(format!("token for token as here, by {}", together.devices.join(" → ")))
}

/// What the cross-built program says.
fn under_wine(crossing: &Crossing<'_>, command: &str) -> Result<Answer> {
    let program = crossing.target.join(TRIPLE).join("debug/nook.exe");
    let said = wine(crossing, "wine64")?
        .args([program.as_os_str(), command.as_ref()])
        .args(QUESTION)
        .within(ANSWER_LIMIT)
        .output()?;
    read_answer(&said)
}

/// What the program built for this system says, from a home of its own.
fn on_this_system(crossing: &Crossing<'_>) -> Result<Answer> {
    let places = crossing.places;
    cargo(&places.root).args(["build", "--package", "nook-cli"]).run()?;
    let home = places.made("platforms/home")?;
    let said = Program::new(places.target.join("debug").join(NOOK), &places.root)
        .args(["--home".as_ref(), home.as_os_str(), "generate".as_ref()])
        .args(QUESTION)
        .env("INGLENOOK_KEYRING", "off")
        .within(ANSWER_LIMIT)
        .output()?;
    read_answer(&said)
}

/// One of wine's programs, with a folder of its own for everything that Windows would remember.
fn wine(crossing: &Crossing<'_>, tool: &str) -> Result<Program> {
    let debian = Path::new(DEBIAN_WINE).join(tool);
    let tool = if debian.exists() { debian } else { tool.into() };
    let home = crossing.places.made("platforms/wine-home")?;
    Ok(Program::new(tool, &home)
        .env("WINEPREFIX", home.join("prefix"))
        .env("HOME", &home)
        .env("WINEDEBUG", "-all"))
}

fn read_answer(said: &str) -> Result<Answer> {
    let answer: serde_json::Value = serde_json::from_str(said.trim())
        .context("`nook --json` wrote something else than JSON")?;
    let ids = answer["ids"].as_array().context("the answer has no `ids`")?;
    let text = answer["text"].as_str().context("the answer has no `text`")?;
    if ids.is_empty() || text.trim().is_empty() {
        bail!("the answer is empty");
    }
    let legs = answer["route"].as_array().context("the answer has no `route`")?;
    let device = |leg: &serde_json::Value| leg["device"].as_str().unwrap_or("?").to_owned();
    Ok(Answer {
        ids: ids.iter().filter_map(serde_json::Value::as_u64).collect(),
        text: text.to_owned(),
        devices: legs.iter().map(device).collect(),
    })
}

fn make_bcrypt_primitives(crossing: &Crossing<'_>) -> Result<()> {
    let source = crossing.target.join("bcryptprimitives.c");
    let library = crossing.target.join(TRIPLE).join("debug/bcryptprimitives.dll");
    std::fs::write(&source, BCRYPT_PRIMITIVES)?;
    Program::new("x86_64-w64-mingw32-gcc", &crossing.target)
        .args(["-shared".as_ref(), "-o".as_ref(), library.as_os_str(), source.as_os_str()])
        .args(["-ladvapi32"])
        .run()
}

fn tray_app(crossing: &Crossing<'_>) -> Result<String> {
    ensure_pages(crossing.places)?;
    crossing.cargo().args(["build", "--target", TRIPLE, "--package", "inglenook"]).run()?;
    Ok("built; not started (wine has no WebView2), not packaged".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str = r#"{"ids": [1, 2], "text": " a girl", "route": [{"device": "vm"}]}"#;

    #[test]
    fn an_answer_must_hold_tokens_text_and_route() {
        let answer = read_answer(&format!("{FINE}\r\n")).unwrap();
        assert_eq!((answer.ids, &*answer.text), (vec![1, 2], " a girl"));
        assert_eq!(answer.devices, ["vm"]);
        let route = r#""route": []"#;
        for bad in [r#""ids": [], "text": "a""#, r#""ids": [1], "text": " ""#, r#""text": "a""#] {
            assert!(read_answer(&format!("{{{bad}, {route}}}")).is_err(), "{bad}");
        }
        assert!(read_answer(r#"{"ids": [1], "text": "a"}"#).is_err());
        assert!(read_answer("").is_err());
    }

    #[test]
    fn nothing_else_may_stand_beside_the_answer() {
        assert!(read_answer(&format!("a process was ended\r\n{FINE}")).is_err());
    }
}
