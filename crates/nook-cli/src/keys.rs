//! `nook key`: the main key of the port, and keys of single programs.

use std::path::PathBuf;
use std::process::ExitCode;

use nook_api::NodeCalls as _;
use nook_base::Sensitive;
use nook_control::Client;

use crate::arguments::{KeyDeed, KeyWish};
use crate::ask;
use crate::connection::Connection;
use crate::output;

/// Does what was wished.
pub(crate) async fn run(home: Option<PathBuf>, wish: KeyWish) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(home).await?;
    let done = obey(&connection.client, &wish).await;
    connection.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn obey(client: &Client, wish: &KeyWish) -> anyhow::Result<()> {
    match &wish.deed {
        None => {
            tell(&client.port_key().await?, wish.json, None);
            Ok(())
        }
        Some(KeyDeed::Add { name }) => {
            tell(&client.add_port_key(name.clone()).await?, wish.json, Some(name));
            output::note("It is shown this once. Take it back with `nook key remove`.");
            Ok(())
        }
        Some(KeyDeed::Remove { name }) => {
            client.remove_port_key(name.clone()).await?;
            if wish.json {
                output::line(serde_json::json!({ "removed": name }).to_string());
            } else {
                output::line(format!("The key `{name}` opens nothing any more."));
            }
            Ok(())
        }
        Some(KeyDeed::List) => list(client, wish.json).await,
    }
}

/// Prints a key.
fn tell(key: &Sensitive<String>, json: bool, name: Option<&str>) {
    if json {
        output::line(serde_json::json!({ "name": name, "key": key.0 }).to_string());
    } else {
        output::line(&key.0);
    }
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let keys = ask::view(client).await?.port.keys;
    if json {
        output::line(serde_json::to_string(&keys)?);
    } else if keys.is_empty() {
        output::note("No program has a key of its own; `nook key add NAME` makes one.");
    }
    for key in keys.iter().filter(|_| !json) {
        output::line(&key.name);
    }
    Ok(())
}
