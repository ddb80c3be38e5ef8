//! `POST /api/pull`: a download, told while it goes on.
//!
//! The node downloads through the same door as for its owner, and goes on when the client leaves.
//! A program may have what the catalogue and Hugging Face have; whole addresses are for the owner,
//! because this computer can reach servers that the program perhaps cannot.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nook_api::views::{DownloadAsk, DownloadState, DownloadView, HouseholdView};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::plain_name;
use crate::error::ApiError;
use crate::models::find;
use crate::port::Port;
use crate::stream::{Line, Outgoing, send_lines};

/// How Ollama's clients name a file of Hugging Face.
const HUB_NAMES: [&str; 2] = ["hf.co/", "huggingface.co/"];

/// A request for a model. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaPullRequest")]
pub(crate) struct PullBody {
    /// An id of the catalogue, or `hf.co/owner/repository/file.gguf`.
    model: Option<String>,
    /// The older name of `model`.
    name: Option<String>,
    /// Tell how far it is; absent: yes.
    stream: Option<bool>,
}

/// Downloads a model, or says that it is here.
pub(crate) async fn pull(
    State(port): State<Port>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let sent: PullBody = port.read(body).await?;
    let view = port.house.now();
    let wanted = plain_name(sent.model.or(sent.name), &view).unwrap_or_default();
    let is_it = |it: &&DownloadView| it.key == wanted || it.name.eq_ignore_ascii_case(&wanted);
    let pulling = match (find(&view, &wanted), view.downloads.iter().find(is_it)) {
        (Ok(_), _) => Pulling { is_here: true, ..Pulling::of(&port, String::new(), String::new()) },
        (Err(_), Some(known)) => {
            go_on(&port, known).await?;
            Pulling::of(&port, known.key.clone(), known.name.clone())
        }
        (Err(_), None) => {
            let begun = port.house.pull(source(&wanted)?, None).await?;
            Pulling::of(&port, begun.key, begun.name)
        }
    };
    if sent.stream.unwrap_or(true) { Ok(send_lines(pulling)) } else { whole(pulling).await }
}

/// A download that rests goes on when it is asked for again.
async fn go_on(port: &Port, known: &DownloadView) -> Result<(), ApiError> {
    match known.state {
        DownloadState::Paused | DownloadState::Cancelled | DownloadState::Failed => {
            Ok(port.house.change_download(known.key.clone(), DownloadAsk::Resume).await?)
        }
        _ => Ok(()),
    }
}

/// What the house is asked for.
fn source(wanted: &str) -> Result<String, ApiError> {
    if wanted.is_empty() {
        return Err(ApiError::bad("model", "model is missing."));
    }
    if wanted.contains("://") {
        let message = "Through the port come models of the catalogue and of Hugging Face \
                       (hf.co/owner/repository/file.gguf); addresses only with `nook models pull`.";
        return Err(ApiError::bad("model", message));
    }
    let of_hub = HUB_NAMES.iter().find_map(|name| wanted.strip_prefix(name));
    Ok(of_hub.map_or_else(|| wanted.to_owned(), |path| format!("hf:{path}")))
}

/// A download that is being watched.
struct Pulling {
    key: String,
    /// What the model will be called.
    name: String,
    view: watch::Receiver<Arc<HouseholdView>>,
    /// The last line.
    told: Value,
    /// There was nothing to download.
    is_here: bool,
}

/// How a download stands.
#[derive(Debug, PartialEq)]
enum Stand {
    GoesOn(Value),
    Here,
    Failed(String),
}

/// Waits for the end. The download goes on where the client leaves.
async fn whole(mut pulling: Pulling) -> Result<Response, ApiError> {
    loop {
        match pulling.next().await {
            Stand::GoesOn(_) => {}
            Stand::Here => return Ok(Json(json!({"status": "success"})).into_response()),
            Stand::Failed(why) => {
                return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, why));
            }
        }
    }
}

impl Pulling {
    fn of(port: &Port, key: String, name: String) -> Self {
        Self { key, name, view: port.house.view(), told: Value::Null, is_here: false }
    }

    /// Waits for something that was not told yet.
    async fn next(&mut self) -> Stand {
        if self.is_here {
            return Stand::Here;
        }
        loop {
            let now = stand(&self.view.borrow_and_update().clone(), &self.key, &self.name);
            match now {
                Stand::GoesOn(line) if line == self.told => {}
                Stand::GoesOn(line) => {
                    self.told = line.clone();
                    return Stand::GoesOn(line);
                }
                ended => return ended,
            }
            if self.view.changed().await.is_err() {
                return Stand::Failed("Inglenook is shutting down.".to_owned());
            }
        }
    }
}

impl Outgoing for Pulling {
    type Piece = Line;

    async fn take_next(&mut self, ready: &mut VecDeque<Line>) -> bool {
        let (line, more) = match self.next().await {
            Stand::GoesOn(line) => (line, true),
            Stand::Here => (json!({"status": "success"}), false),
            Stand::Failed(why) => (json!({"error": why}), false),
        };
        ready.push_back(Line(line.to_string()));
        more
    }
}

/// How the download with this key stands.
fn stand(view: &HouseholdView, key: &str, name: &str) -> Stand {
    let Some(download) = view.downloads.iter().find(|download| download.key == key) else {
        let is_here = view.models.iter().any(|model| model.name == name);
        return match is_here {
            true => Stand::Here,
            false => Stand::Failed(format!("The download of {name} was deleted.")),
        };
    };
    let problem = || download.problem.as_ref().map(|problem| problem.sentence.clone());
    match download.state {
        DownloadState::Waiting | DownloadState::Connecting => {
            Stand::GoesOn(json!({"status": "pulling manifest"}))
        }
        DownloadState::Loading => {
            let mut line = json!({
                "status": format!("pulling {}", download.file),
                "digest": key,
                "completed": download.have_bytes,
            });
            if let Some(total) = download.file_bytes {
                line["total"] = total.into();
            }
            Stand::GoesOn(line)
        }
        DownloadState::Checking => Stand::GoesOn(json!({"status": "verifying sha256 digest"})),
        DownloadState::Paused => Stand::Failed(format!("The download of {name} was paused.")),
        DownloadState::Cancelled => Stand::Failed(format!("The download of {name} was cancelled.")),
        DownloadState::Failed => {
            Stand::Failed(problem().unwrap_or_else(|| format!("{name} cannot be downloaded.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_what_the_catalogue_and_the_hub_have_and_no_address() {
        for (wanted, asked) in [
            ("qwen3-4b", Some("qwen3-4b")),
            ("hf.co/a/b/c.gguf", Some("hf:a/b/c.gguf")),
            ("huggingface.co/a/b/c.gguf", Some("hf:a/b/c.gguf")),
            ("hf:a/b/c.gguf", Some("hf:a/b/c.gguf")),
            ("http://127.0.0.1:8080/c.gguf", None),
            ("", None),
        ] {
            assert_eq!(source(wanted).ok().as_deref(), asked, "{wanted}");
        }
    }
}
