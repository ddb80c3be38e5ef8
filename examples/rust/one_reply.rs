//! One reply from a node inside this program: starts it in a temporary home, lists its models, lets
//! the built-in one continue a sentence, and shuts the node down.
//!
//! `cargo run -p nook-tests --example one_reply`. With the name of a home (a folder) as its
//! argument it uses that one instead, with its models, devices and settings.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it speaks to whoever starts it")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use nook_api::views::ReplyEvent;
use nook_api::{GenerateRequest, NodeHandle, Prompt, Reach, SamplingParameters};
use nook_base::Sensitive;
use nook_node::{NodeOptions, WorkerCommand};

/// A node in a temporary home looks for no other device, and keeps its key in a file.
const SETTINGS: &str = "[device]\nkeyring = \"off\"\n[distributed_inference]\nenabled = false\n";

fn main() -> ExitCode {
    let mut words = std::env::args_os().peekable();
    words.next();
    // A model lies in a worker process, which is this very program started again.
    if words.peek().is_some_and(|word| word == OsStr::new("worker")) {
        return nook_node::worker_main(&words.skip(1).collect::<Vec<_>>());
    }
    match run(words.next().map(PathBuf::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(home: Option<PathBuf>) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir()?;
    let home = match home {
        Some(home) => home,
        None => {
            std::fs::write(temporary.path().join("settings.toml"), SETTINGS)?;
            temporary.path().to_owned()
        }
    };
    let program = std::env::current_exe().context("this program's own file cannot be found")?;
    let worker = WorkerCommand { program, arguments: vec!["worker".into()] };
    let node = nook_node::start(NodeOptions { home: Some(home), worker }).await?;
    let outcome = reply(&node).await;
    // Also after an error: models leave the memory, and the home is free for the next start.
    node.shut_down().await;
    outcome
}

async fn reply(node: &NodeHandle) -> anyhow::Result<()> {
    let view = node.now();
    for model in &view.models {
        println!("model: {} ({} layers)", model.name, model.layers);
    }
    let request = GenerateRequest {
        model: view.default_model.clone().context("there is no model here")?,
        prompt: Prompt::Text(Sensitive("Once upon a time".to_owned())),
        tokens_max: Some(40),
        sampling: SamplingParameters::GREEDY.into(),
        stop: Vec::new(),
        thinking: nook_api::Thinking::AsUsual,
        activation_dtype: None,
        reach: Reach::House,
    };
    let mut reply = node.generate(request).await?;
    while let Some(piece) = reply.events.recv().await {
        match piece.event {
            ReplyEvent::TokenDelta { text, .. } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            ReplyEvent::Done { summary } => {
                println!(
                    "\n{} tokens, {:.1} a second",
                    summary.completion_tokens, summary.tokens_per_second
                );
                return Ok(());
            }
            ReplyEvent::PipelineAborted { sentence, .. } => bail!(sentence),
            _ => {}
        }
    }
    bail!("the reply ended without an end")
}
