//! `nook down`: the node that runs for this data folder leaves in order, in whichever program it is.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nook_api::NodeCalls as _;
use nook_control::ClientError;

use crate::arguments::Down;
use crate::connection::Connection;
use crate::output;

/// Longest wait for a node that was asked to leave: its own limits are shorter.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked whether it has gone.
const LOOK: Duration = Duration::from_millis(100);

/// Asks the node to leave and returns once it answers no more. Its process ends right after that.
pub(crate) async fn run(home: Option<PathBuf>, wish: Down) -> anyhow::Result<ExitCode> {
    let connection = Connection::running(home).await?;
    let again = match wish.say_again {
        true => connection.client.started_as().await.unwrap_or_default(),
        false => Vec::new(),
    };
    let left = async {
        // It may close the door before it has answered.
        if let Err(error @ ClientError::Refused(_)) = connection.client.shut_down().await {
            return Err(error);
        }
        while connection.client.is_running().await {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    };
    tokio::time::timeout(LEAVE_LIMIT, left).await.context(
        "a node still answers, or does not answer at all: the old one is stuck, or something has started a \
         new one. End it where it was started",
    )??;
    if !wish.say_again {
        output::line("The node has left.");
    } else if let Some(again) = in_one_line(&again) {
        output::line(again);
    }
    Ok(ExitCode::SUCCESS)
}

/// A program without its folder, and its words, as a command line. Whoever reads it knows the folder,
/// which may be another one by then. Absent where there is none, or where a word would not reach every
/// reader as it is: the wrong data folder is worse than none.
fn in_one_line(again: &[String]) -> Option<String> {
    let (program, words) = again.split_first()?;
    let name = Path::new(program).file_name()?.to_str()?;
    let mut line = Vec::new();
    for word in std::iter::once(name).chain(words.iter().map(String::as_str)) {
        // A backslash at the end would take the quote with it.
        let is_plain = word.chars().all(|c| c == ' ' || c.is_ascii_graphic() && c != '"');
        if !is_plain || word.ends_with('\\') {
            return None;
        }
        line.push(match word.contains(' ') || word.is_empty() {
            true => format!("\"{word}\""),
            false => word.to_owned(),
        });
    }
    Some(line.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_is_started_again_is_said_only_where_every_word_arrives() {
        let said = |words: &[&str]| {
            in_one_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(said(&["/opt/m\u{fc} y/bin/nook", "up"]).as_deref(), Some("nook up"));
        let home = said(&["/nook.exe", "--home", "C:\\a b", "up"]);
        assert_eq!(home.as_deref(), Some("nook.exe --home \"C:\\a b\" up"));
        for words in
            [&[][..], &["/nook", "--home", "/m\u{fc}ll"], &["/nook", "a\"b"], &["/nook", "\n"]]
        {
            assert_eq!(said(words), None, "{words:?}");
        }
        assert_eq!(said(&["/nook", "--home", "C:\\a b\\", "up"]), None, "it would end the quotes");
    }
}
