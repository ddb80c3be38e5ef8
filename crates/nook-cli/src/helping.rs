//! The question of `nook pair`, *May these two computers help each other?*, and how it stands.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use nook_api::NodeCalls as _;
use nook_api::views::{DeviceView, Help};
use nook_control::Client;

use crate::arguments::{HelpChoice, TrustChoice};
use crate::ask::HONEST_SENTENCE;

/// Answers that were not understood before the question is left open.
const TRIES: usize = 3;

/// Asks whoever sits at the terminal; `None` where nobody does, or no answer is understood.
pub(crate) fn ask_terminal(name: &str) -> anyhow::Result<Option<Help>> {
    let (stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
    if !stdin.is_terminal() || !stdout.is_terminal() {
        return Ok(None);
    }
    writeln!(stdout, "May this computer and {name} help each other?\n{HONEST_SENTENCE}")?;
    for _ in 0..TRIES {
        write!(stdout, "e: each other, o: only this computer helps, n: nothing yet. Answer: ")?;
        stdout.flush()?;
        let mut line = String::new();
        if stdin.lock().read_line(&mut line)? == 0 {
            break;
        }
        if let Some(help) = understood(&line) {
            return Ok(Some(help));
        }
    }
    Ok(None)
}

/// A typed answer: its first letter, or all of it.
fn understood(line: &str) -> Option<Help> {
    let typed = line.trim().to_lowercase();
    let answers = [
        ("each other", Help::EachOther),
        ("only this computer helps", Help::OnlyThis),
        ("nothing yet", Help::Nothing),
    ];
    let fits = |words: &&(&str, Help)| !typed.is_empty() && words.0.starts_with(&typed);
    answers.iter().find(fits).map(|(_, help)| *help)
}

/// What `--trust` asks for: levels that let the two compute for each other switch sharing on, too.
pub(crate) async fn trust(client: &Client, device: &str, trust: TrustChoice) -> anyhow::Result<()> {
    let device = || device.to_owned();
    match trust {
        TrustChoice::Guest => client.answer_help(device(), Help::Nothing).await?,
        TrustChoice::Trusted => client.answer_help(device(), Help::EachOther).await?,
        TrustChoice::Own => {
            client.answer_help(device(), Help::EachOther).await?;
            client.set_trust(device(), trust.into()).await?;
        }
        TrustChoice::Blocked => client.set_trust(device(), trust.into()).await?,
    }
    Ok(())
}

/// How it stands between this device and another one, and what is missing.
pub(crate) fn lines(device: &DeviceView) -> Vec<String> {
    let DeviceView { name, short_id, .. } = device;
    let mut lines = Vec::new();
    if device.asks_help {
        lines.push(format!(
            "{name} takes part in nothing yet. May the two help each other? nook devices allow \
             {short_id} each-other"
        ));
        return lines;
    }
    match (&device.unused_because, device.connected) {
        (None, _) => lines.push(format!("{name} can help this computer.")),
        // The link is made anew after a pairing: that it is not there yet is no news.
        (Some(_), false) => {}
        (Some(why), true) => lines.push(format!("{name} does not help this computer yet. {why}")),
    }
    lines.push(HONEST_SENTENCE.to_owned());
    lines
}

impl From<HelpChoice> for Help {
    fn from(choice: HelpChoice) -> Self {
        match choice {
            HelpChoice::EachOther => Self::EachOther,
            HelpChoice::OnlyThis => Self::OnlyThis,
            HelpChoice::Nothing => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_letter_or_its_words_and_nothing_else() {
        for (typed, help) in [
            ("e", Some(Help::EachOther)),
            (" Each other\n", Some(Help::EachOther)),
            ("o\n", Some(Help::OnlyThis)),
            ("only this", Some(Help::OnlyThis)),
            ("N", Some(Help::Nothing)),
            ("", None),
            ("\n", None),
            ("y", None),
            ("each of them", None),
        ] {
            assert_eq!(understood(typed), help, "{typed:?}");
        }
    }
}
