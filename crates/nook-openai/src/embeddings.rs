//! `POST /v1/embeddings`: vectors from the hidden states of the local model.
//!
//! How they come about, and what they are worth, is said in `nook-requester`, at the top of
//! `machine/embed.rs`. One request is worked on at a time, because a long list of texts would hold
//! up replies; a few wait.

use axum::extract::State;
use axum::{Extension, Json};
use data_encoding::BASE64;
use nook_api::views::PortRequestKind;
use nook_api::{EmbedInput, EmbedRequest, Embedded};
use nook_base::Sensitive;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::asking::refused;
use crate::caller::Caller;
use crate::embedding_queue::Waiting;
use crate::error::ApiError;
use crate::port::Port;
use crate::report::Report;
use crate::sampling::model_name;
use crate::shapes::{Embedding, EmbeddingUsage, Embeddings, Vector};

/// A request for vectors. Fields that are not listed are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "EmbeddingRequest")]
pub(crate) struct Body {
    /// See chat completions.
    model: Option<String>,
    input: SentInput,
    encoding_format: Option<Encoding>,
    /// Keep only the first so many numbers, brought to length 1 again.
    dimensions: Option<usize>,
}

/// What vectors are wanted for.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string, token ids, or an array of either")]
enum SentInput {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// How vectors are written.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Float,
    /// Of little-endian 32-bit floats.
    Base64,
}

/// Works out vectors.
pub(crate) async fn embed(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    body: axum::body::Body,
) -> Result<Json<Embeddings>, ApiError> {
    let (sent, waiting) = port.read_for_vectors::<Body>(body).await?;
    let embedded = work_out(&port, waiting, caller, sent.model, sent.input.inputs()).await?;
    let encoding = sent.encoding_format.unwrap_or(Encoding::Float);
    answer(embedded, sent.dimensions, encoding).map(Json)
}

/// Waits for its turn and works vectors out, whatever form they leave in.
pub(crate) async fn work_out(
    port: &Port,
    waiting: Waiting,
    caller: Caller,
    model: Option<String>,
    inputs: Vec<EmbedInput>,
) -> Result<Embedded, ApiError> {
    let model = model_name(model, &port.house.now())?;
    // Filed when it is dropped, too: the client may leave while this waits.
    let (kind, asked) = (PortRequestKind::Embeddings, model.clone());
    let mut report = Report::new(kind, port.house.clone(), caller, asked);
    let _turn = waiting.turn().await?;
    let request = EmbedRequest { model, inputs };
    let embedded = port.house.embed(request).await.map_err(|error| {
        let error = refused(port, error);
        report.refused(error.listed());
        error
    })?;
    report.embedded(&embedded);
    Ok(embedded)
}

impl SentInput {
    fn inputs(self) -> Vec<EmbedInput> {
        let text = |text| EmbedInput::Text(Sensitive(text));
        let tokens = |ids| EmbedInput::Tokens(Sensitive(ids));
        match self {
            Self::Text(one) => vec![text(one)],
            Self::Texts(several) => several.into_iter().map(text).collect(),
            Self::Tokens(one) => vec![tokens(one)],
            Self::TokenLists(several) => several.into_iter().map(tokens).collect(),
        }
    }
}

fn answer(
    embedded: Embedded,
    dimensions: Option<usize>,
    encoding: Encoding,
) -> Result<Embeddings, ApiError> {
    let width = check_dimensions(&embedded, dimensions)?;
    let one = |(index, vector): (usize, Vec<f32>)| {
        let vector = shortened(vector, width);
        let embedding = match encoding {
            Encoding::Float => Vector::Numbers(vector),
            Encoding::Base64 => {
                let bytes: Vec<u8> =
                    vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                Vector::Base64(BASE64.encode(&bytes))
            }
        };
        Embedding { object: "embedding", index, embedding }
    };
    let tokens = embedded.tokens;
    Ok(Embeddings {
        object: "list",
        data: embedded.vectors.0.into_iter().enumerate().map(one).collect(),
        model: embedded.model,
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    })
}

/// How many numbers of each vector are wanted.
pub(crate) fn check_dimensions(
    embedded: &Embedded,
    wanted: Option<usize>,
) -> Result<usize, ApiError> {
    let width = embedded.vectors.first().map_or(0, Vec::len);
    match wanted {
        Some(0) => Err(ApiError::bad("dimensions", "dimensions must be at least 1.")),
        Some(wanted) if wanted > width => {
            let message = format!("{} has {width} dimensions, not more.", embedded.model);
            Err(ApiError::bad("dimensions", message))
        }
        wanted => Ok(wanted.unwrap_or(width)),
    }
}

/// The first `width` numbers, at length 1.
pub(crate) fn shortened(mut vector: Vec<f32>, width: usize) -> Vec<f32> {
    if width >= vector.len() {
        return vector;
    }
    vector.truncate(width);
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number /= length);
    }
    vector
}
