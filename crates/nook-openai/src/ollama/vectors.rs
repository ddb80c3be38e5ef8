//! Vectors in Ollama's form: `/api/embed`, and `/api/embeddings`, which came before it.

use axum::extract::State;
use axum::{Extension, Json};
use nook_api::EmbedInput;
use nook_base::{Sensitive, clock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plain_name;
use crate::caller::Caller;
use crate::embeddings::{check_dimensions, shortened, work_out};
use crate::error::ApiError;
use crate::port::Port;

/// A request for vectors, in Ollama's form. A text that is too long is refused, never cut.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaEmbedRequest")]
pub(crate) struct EmbedBody {
    model: Option<String>,
    input: SentInput,
    /// Keep only the first so many numbers, brought to length 1 again.
    dimensions: Option<usize>,
}

/// A request for one vector, in Ollama's older form.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "OllamaEmbeddingRequest")]
pub(crate) struct EmbedOneBody {
    model: Option<String>,
    prompt: String,
}

/// What vectors are wanted for.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
#[schemars(rename = "OllamaEmbedInput")]
enum SentInput {
    Text(String),
    Texts(Vec<String>),
}

/// The vectors.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OllamaEmbeddings")]
pub(crate) struct Vectors {
    model: String,
    /// One for each text, of length 1.
    embeddings: Vec<Vec<f32>>,
    /// In nanoseconds.
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: u32,
}

/// One vector.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OllamaEmbedding")]
pub(crate) struct OneVector {
    embedding: Vec<f32>,
}

/// `POST /api/embed`
pub(crate) async fn embed(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Json<Vectors>, ApiError> {
    let (sent, waiting) = port.read_for_vectors::<EmbedBody>(body).await?;
    let texts = match sent.input {
        SentInput::Text(text) => vec![text],
        SentInput::Texts(texts) => texts,
    };
    let inputs = texts.into_iter().map(|text| EmbedInput::Text(Sensitive(text))).collect();
    let model = plain_name(sent.model, &port.house.now());
    let begun = clock::now();
    let embedded = work_out(&port, waiting, caller, model, inputs).await?;
    let width = check_dimensions(&embedded, sent.dimensions)?;
    let embeddings = embedded.vectors.0.into_iter().map(|it| shortened(it, width)).collect();
    let took = u64::try_from(clock::now().duration_since(begun).as_nanos()).unwrap_or(u64::MAX);
    Ok(Json(Vectors {
        model: embedded.model,
        embeddings,
        total_duration: took,
        load_duration: 0,
        prompt_eval_count: embedded.tokens,
    }))
}

/// `POST /api/embeddings`
pub(crate) async fn embed_one(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Json<OneVector>, ApiError> {
    let (sent, waiting) = port.read_for_vectors::<EmbedOneBody>(body).await?;
    let model = plain_name(sent.model, &port.house.now());
    let inputs = vec![EmbedInput::Text(Sensitive(sent.prompt))];
    let embedded = work_out(&port, waiting, caller, model, inputs).await?;
    let embedding = embedded.vectors.0.into_iter().next().unwrap_or_default();
    Ok(Json(OneVector { embedding }))
}
