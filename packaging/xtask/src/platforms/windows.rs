//! Windows from Linux: mingw links, wine runs, and the answers must be those of this system.

use anyhow::{Context as _, Result, bail};

use crate::bundle::Profile;
use crate::bundle::windows::{TRIPLE, WindowsPackages, build as build_product, make};
use crate::launch::NOOK;
use crate::platforms::wine::{ANSWER_LIMIT, Wine, make_bcrypt_primitives};
use crate::platforms::{Attempt, Crossing, ensure_pages};
use crate::process::{Program, cargo};
use crate::say;

mod installed;

/// What is asked, of both systems. Scripts get temperature 0: the likeliest token, always.
const QUESTION: [&str; 7] =
    ["--model", "ember", "--prompt", "Once upon a time", "--max-tokens", "16", "--json"];

/// What `nook generate --json` or `nook house --json` said.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    ids: Vec<u64>,
    text: String,
    /// Devices that took part, in the order of the route.
    devices: Vec<String>,
}

/// Builds, runs under wine, packs, installs and removes.
pub(crate) fn attempts(crossing: &Crossing<'_>, attempts: &mut Vec<Attempt>) {
    let built = Attempt::of("Windows: `nook` and the tray app", true, || build(crossing));
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
        // Nothing that hung lives on.
        if let Ok(wine) = wine(crossing) {
            wine.end();
        }
    }
    if is_built && crossing.packages.is_empty() {
        let mut packages = None;
        let packed = || pack(crossing).map(|made| packages.insert(made).sizes())?;
        attempts.push(Attempt::of("Windows: installer and archive", true, packed));
        if let Some(packages) = packages {
            let proof = || {
                let here = on_this_system(crossing)?;
                installed::prove(crossing.places, &packages, &here)
            };
            attempts.push(Attempt::of("Windows: installed under wine", true, proof));
        }
    }
}

/// The packages, of unoptimised programs: what is tried is that they are whole and install.
fn pack(crossing: &Crossing<'_>) -> Result<WindowsPackages> {
    make(crossing.places, Profile::Debug, &crossing.target.join(TRIPLE).join("debug"))
}

/// The programs as they are packed, or only the packages that were asked for.
fn build(crossing: &Crossing<'_>) -> Result<String> {
    if crossing.packages.is_empty() {
        ensure_pages(crossing.places)?;
        build_product(crossing.places, Profile::Debug)?;
    } else {
        crossing.ensure_target(TRIPLE)?;
        let build = crossing.cargo().args(["build", "--target", TRIPLE]);
        build.args(crossing.selection()).run()?;
    }
    Ok(String::new())
}

/// Asks both systems the same and wants the same tokens.
fn answer(crossing: &Crossing<'_>) -> Result<String> {
    let library = crossing.target.join(TRIPLE).join("debug/bcryptprimitives.dll");
    make_bcrypt_primitives(&crossing.target, &library)?;
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
    let said = wine(crossing)?
        .program(program)
        .args([command])
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

/// Kept between runs: its first start takes a while.
fn wine(crossing: &Crossing<'_>) -> Result<Wine> {
    Wine::kept(crossing.places, "platforms/wine-home")
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
