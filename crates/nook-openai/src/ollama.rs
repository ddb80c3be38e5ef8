//! `/api/*`: the form of Ollama's clients.
//!
//! `chat` and `generate` become the same request to the house as a chat completion ([`request`])
//! and are read by the same `Asked`; [`answering`] writes the reply, as lines of JSON or in one
//! piece. [`models`] tells of models, [`vectors`] makes embeddings, [`mod@pull`] begins a download.

mod answering;
mod models;
mod pull;
mod request;
mod vectors;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use nook_api::views::HouseholdView;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::port::Port;
use answering::Form;
pub(crate) use models::{NamedBody, Tags, running, show, tags};
pub(crate) use pull::{PullBody, pull};
pub(crate) use request::{ChatBody, GenerateBody};
pub(crate) use vectors::{EmbedBody, EmbedOneBody, OneVector, Vectors, embed, embed_one};

/// The version of Ollama whose form this is. Some clients refuse an older one than they know.
const SPOKEN_VERSION: &str = "0.13.0";

/// What a name is followed by where Ollama's clients mean the usual one of several.
const USUAL_TAG: &str = ":latest";

/// `GET /api/version`
pub(crate) async fn version() -> Json<Value> {
    Json(json!({"version": SPOKEN_VERSION}))
}

/// `POST /api/chat`
pub(crate) async fn chat(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let (sent, place): (ChatBody, _) = port.read_in_turn(body).await?;
    let understood = sent.understand(&port.house.now())?;
    answering::answer((&port, place), caller, understood, Form::Chat).await
}

/// `POST /api/generate`
pub(crate) async fn generate(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Response, ApiError> {
    let (sent, place): (GenerateBody, _) = port.read_in_turn(body).await?;
    let understood = sent.understand(&port.house.now())?;
    answering::answer((&port, place), caller, understood, Form::Generate).await
}

/// A model's name as sent, without the tag that stands for the usual one.
fn plain_name(sent: Option<String>, house: &HouseholdView) -> Option<String> {
    let sent = sent?;
    let is_known = house.models.iter().any(|model| model.name == sent);
    match sent.strip_suffix(USUAL_TAG) {
        Some(plain) if !is_known => Some(plain.to_owned()),
        _ => Some(sent),
    }
}
