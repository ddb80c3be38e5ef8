//! From the loss of a helper in the middle of a reply to the next token, a hot spare beside it.

use std::path::Path;

use nook_tests::models::{self, Files};
use nook_tests::program::Effort;
use nook_tests::report;
use nook_tests::walk::kill::{KillRow, Loss, Victims, household};

use crate::rows::Row;

/// What a kill may cost beyond computing the history again, in milliseconds; see the design.
const KILLED_MS: f64 = 300.0;

/// What it may cost when the helper falls silent instead; see the design.
const FROZEN_MS: f64 = 2_000.0;

/// Measures kills and freezes.
pub(crate) async fn measure(effort: Effort, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let (title, file, kills, freezes) = match effort {
        Effort::Quick => ("Ember", None, 1, 1),
        Effort::Full => {
            let model = models::one(effort, "llama-1b-q8_0")?;
            let file = Files::in_folder(folder.to_owned()).ensure(model)?;
            (model.title, Some(file), 30, 10)
        }
    };
    let file = file.as_deref();
    let mut rows = Vec::new();
    for (loss, rounds, word) in [(Loss::Killed, kills, "killed"), (Loss::Frozen, freezes, "frozen")]
    {
        let victims = Victims { file, helpers: 2, rounds, loss };
        let measured = household(&format!("{title}, helper {word}"), victims).await?;
        report::loud(&format!("{measured:?}"));
        rows.extend(told(&measured, loss));
    }
    Ok(rows)
}

/// Kill by kill: the replay is what whoever took over says that it computed.
const BEYOND: &str = "p95 of what came on top of its replay";

fn told(measured: &KillRow, loss: Loss) -> Vec<Row> {
    let KillRow { what, rounds, to_next_token_ms: next, replay_ms, by_a_helper, .. } = measured;
    let beyond = measured.beyond_replay_ms;
    let name = |more: &str| format!("{what} mid-reply, {rounds} times, to the next token, {more}");
    let mut rows = vec![
        Row::plain(name("p50"), next.median, "ms"),
        Row::plain(name("p95"), next.p95, "ms"),
        Row::plain(name("taken over by the spare"), *by_a_helper as f64, "times"),
        Row::plain(name("of that, computing the history again"), replay_ms.median, "ms"),
    ];
    rows.push(match loss {
        Loss::Killed => Row::at_most(name(BEYOND), beyond.p95, "ms", KILLED_MS),
        Loss::Frozen => Row::at_most(name("p95, in all"), next.p95, "ms", FROZEN_MS),
    });
    rows
}
