//! A model on two one-thread workers against one: decode speed, and the first token of a long
//! prompt.

use std::path::Path;

use nook_model::ModelFile;
use nook_tests::figures::Spread;
use nook_tests::models::{self, Files};
use nook_tests::program::Effort;
use nook_tests::report;
use nook_tests::walk::split::Halves;

use crate::rows::Row;

/// What decode should keep of the undivided speed; see the design.
const DECODE_AGAINST_ONE: f64 = 0.97;

/// How much faster a long prompt should be read; see the design.
const PREFILL_AGAINST_ONE: f64 = 1.8;

/// Tokens of the long prompt.
const PROMPT: usize = 1_024;

/// Measures decode.
pub(crate) async fn decode(effort: Effort, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let (title, halves) = halves(effort, folder).await?;
    let split = halves.decode(effort, title).await?;
    let speed = |who: &str, speed: Spread| {
        Row::plain(format!("{title}, decode, {who}"), speed.median, "tokens/s")
    };
    let name = format!("two one-thread workers on loopback, decode, against one ({title})");
    Ok(vec![
        speed("one one-thread worker", split.undivided_tokens_per_second),
        speed("two of them", split.split_tokens_per_second),
        Row::at_least(name, split.ratio, "x", DECODE_AGAINST_ONE),
    ])
}

/// Measures a long prompt.
pub(crate) async fn prefill(effort: Effort, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let (tokens, rounds) = match effort {
        Effort::Quick => (96, 1),
        Effort::Full => (PROMPT, 5),
    };
    let (title, halves) = halves(effort, folder).await?;
    let prefill = halves.prefill(tokens, rounds).await?;
    report::loud(&format!("{title}: {prefill:?}"));
    let first = |who: &str, took: Spread| {
        Row::plain(format!("{title}, first token of a long prompt, {who}"), took.median, "ms")
    };
    let name = format!(
        "pipelined prefill of {tokens} tokens over two one-core workers, against one ({title})"
    );
    Ok(vec![
        Row::plain("tokens of the long prompt", prefill.prompt_tokens.median, "tokens"),
        first("one one-thread worker", prefill.undivided_ms),
        first("two of them", prefill.split_ms),
        Row::plain(
            format!("{title}, two prompts on both undivided, at once, against one after the other"),
            prefill.both_at_once,
            "x",
        ),
        Row::at_least(name, prefill.ratio, "x", PREFILL_AGAINST_ONE),
    ])
}

async fn halves(effort: Effort, folder: &Path) -> anyhow::Result<(&'static str, Halves)> {
    let model = models::one(effort, "llama-1b-q8_0")?;
    let file = Files::in_folder(folder.to_owned()).ensure(model)?;
    let layers = ModelFile::open(&file)?.shape().layers;
    Ok((model.title, Halves::start(&file, layers).await?))
}
