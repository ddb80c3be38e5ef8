//! The local OpenAI-compatible port: other programs use the house through it.
//!
//! ```text
//! TCP (server: limits, timers) → router → guard (Host, Origin, key, content type) → route
//!
//! route: models, embeddings, openapi, and through asking chat, completions, responses, anthropic
//!        and ollama; each reaches the NodeHandle through port, the state that all of them share
//! ```
//!
//! It is a front end: requests become [`nook_api::GenerateRequest`]s, reply events become JSON or
//! server-sent events. It listens on loopback, unless the owner has opened it to the network; it
//! always asks for the key, and refuses what a web page could send. Errors leave in the shape of
//! whoever's client asks (`dialect`), with the status that clients act on.

mod answer;
mod anthropic;
mod asking;
mod attended;
mod body;
mod caller;
mod chat;
mod completions;
mod connections;
mod content;
mod dialect;
mod embedding_queue;
mod embeddings;
mod error;
mod format;
mod guard;
mod happened;
mod messages;
mod models;
mod ollama;
mod openapi;
mod pace;
mod port;
mod preparing;
mod reading;
mod recorder;
mod report;
mod responses;
mod router;
mod sampling;
mod server;
mod shapes;
mod strangers;
mod stream;
mod thinking;
mod tools;
mod write_limit;

pub use port::Limits;
pub use server::{PortError, PortHandle, serve};

use std::net::SocketAddr;

use nook_api::views::{Trouble, TroubleView};
use nook_api::{NodeHandle, PortSettings};

/// Opens the port as the settings say, and tells the house how it stands. Never fails: a port that
/// another program holds is a problem to show, not a reason for the node to end.
pub async fn open(house: NodeHandle) {
    let settings = match house.port_settings().await {
        Ok(settings) => settings,
        Err(error) => {
            tracing::error!(%error, "the port's settings could not be read");
            return;
        }
    };
    let base_url = |address| format!("http://{}/v1", PortSettings::from_here(address));
    let closed = base_url(settings.address);
    let (on, base_url, problem) = if settings.on {
        match serve(house.clone(), &settings, Limits::USUAL, house.tasks()).await {
            Ok(handle) => {
                let shared = handle.localhost_taken().map(|it| shared(it, handle.address()));
                (true, base_url(handle.address()), shared)
            }
            Err(error) => (false, closed, Some(TroubleView::of_error(&error, trouble(&error)))),
        }
    } else {
        (false, closed, None)
    };
    if let Some(problem) = &problem {
        tracing::warn!("{}", problem.sentence);
    }
    // The house may be leaving already; then nobody asks how the port stands.
    let _ = house.set_port_state(on, base_url, problem).await;
}

/// The port is open, and some programs will take another one for it.
fn shared(address: SocketAddr, ours: SocketAddr) -> TroubleView {
    let sentence = format!(
        "Another program has {address}. Programs that are told to use `localhost` may reach it in place of \
         Inglenook, and show it the key and what you write: close it, or give your programs the address \
         {ours}, or set another one under [port] address in settings.toml."
    );
    TroubleView::new(sentence, Trouble::PortShared { address: address.to_string() })
}

/// The same for front ends that speak other languages than English.
fn trouble(error: &PortError) -> Trouble {
    match error {
        PortError::Bind { address, source } => {
            Trouble::PortTaken { address: address.to_string(), reason: source.to_string().into() }
        }
        PortError::NotLoopback { address } => {
            Trouble::PortNotLocal { address: address.to_string() }
        }
    }
}
