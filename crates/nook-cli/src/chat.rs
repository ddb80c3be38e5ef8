//! `nook chat`: a conversation in the terminal. It is not kept.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use nook_api::views::{ChatRole, ReplyEvent};
use nook_base::ThinkingChoice;
use nook_control::{ReplyRequest, RequestMessage};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::arguments::Chat;
use crate::connection::Connection;
use crate::{ask, generate, output};

/// Talks until the input ends.
pub(crate) async fn run(home: Option<PathBuf>, chat: Chat) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let outcome = talk(&connection, &chat).await;
    connection.close().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn talk(connection: &Connection, chat: &Chat) -> anyhow::Result<()> {
    let model = match &chat.model {
        Some(typed) => generate::model_name(&connection.client, typed).await?,
        None => {
            ask::view(&connection.client).await?.default_model.context("there is no model here")?
        }
    };
    let message = |role, text: &str| RequestMessage { role, text: text.to_owned() };
    let mut messages: Vec<_> =
        chat.system.iter().map(|text| message(ChatRole::System, text)).collect();
    output::note(format!("Talking with {model}. An empty line or Ctrl-D ends it."));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    loop {
        output::piece("> ");
        let Some(text) = lines.next_line().await?.filter(|text| !text.trim().is_empty()) else {
            output::line("");
            return Ok(());
        };
        messages.push(message(ChatRole::User, &text));
        let wish = ReplyRequest {
            model: model.clone(),
            text: None,
            messages: Some(messages.clone()),
            tokens_max: None,
            sampling: generate::sampling(&chat.choice),
            stop: Vec::new(),
            thinking: chat.think.map(ThinkingChoice::from),
            activation_dtype: None,
            this_device_only: chat.alone,
        };
        let (mut said, mut thinks) = (String::new(), false);
        let report = generate::stream(&connection.client, wish, |event, _| match event {
            ReplyEvent::TokenDelta { text, .. } => {
                said.push_str(text);
                output::piece(text);
            }
            // What it thinks is no part of the answer, and it may take minutes.
            ReplyEvent::ThoughtDelta { .. } if !thinks => {
                thinks = true;
                output::note("[thinking…]");
            }
            ReplyEvent::ShardFailover { failover, .. } => {
                output::note(format!("[{} left, {} took over]", failover.from, failover.to));
            }
            _ => {}
        })
        .await;
        output::line("");
        match report {
            Ok(report) => {
                output::note(format!("[{}]", report.footer()));
                messages.push(message(ChatRole::Assistant, &said));
            }
            // The conversation goes on without the message that could not be answered.
            Err(error) => {
                output::problem(&error);
                messages.pop();
            }
        }
    }
}
