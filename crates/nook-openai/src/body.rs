//! Reading a request's body: so much, within so long, as JSON of the expected shape.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// Largest body, in bytes: a long conversation as text. A larger one is answered 413.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;

/// Largest body of a request for vectors: programs that search documents send a thousand pieces of
/// them at once.
pub(crate) const VECTORS_BYTES_MAX: usize = 16 << 20;

/// So much of a body that is too large is still read, and dropped: a client that is cut off while
/// it sends never reads why. Beyond it, or when more is announced, the answer comes at once.
const SKIPPED_BYTES_MAX: usize = 32 << 20;

/// Reads all of `body` within `limit`, at most `most` bytes, and does not look at it.
pub(crate) async fn all(body: Body, limit: Duration, most: usize) -> Result<Vec<u8>, ApiError> {
    let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "The body did not come in time.");
    tokio::time::timeout(limit, collect(body, most)).await.map_err(late)?
}

async fn collect(body: Body, most: usize) -> Result<Vec<u8>, ApiError> {
    let announced = body.size_hint().lower();
    if announced > SKIPPED_BYTES_MAX as u64 {
        return Err(too_large(most));
    }
    let mut pieces = body.into_data_stream();
    let (mut bytes, mut total) = (Vec::new(), 0_usize);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, "The body ended early, or is framed wrongly.")
        })?;
        total = total.saturating_add(piece.len());
        if total > SKIPPED_BYTES_MAX {
            break;
        }
        if total > most {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(&piece);
        }
    }
    if total > most { Err(too_large(most)) } else { Ok(bytes) }
}

/// What the bytes of a body say. The error names the field, so that a person finds it in a long
/// request.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let not_json = |error| {
        let message = format!("The body is not JSON: {error}.");
        ApiError::new(StatusCode::BAD_REQUEST, message)
    };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        match (error.is_data(), path.as_str()) {
            (true, ".") => ApiError::new(
                StatusCode::BAD_REQUEST,
                format!("The body cannot be understood: {error}."),
            ),
            (true, _) => {
                let message = format!("{path} cannot be understood: {error}.");
                ApiError::bad(path, message)
            }
            (false, _) => not_json(error),
        }
    })?;
    json.end().map_err(not_json)?;
    Ok(value)
}

fn too_large(most: usize) -> ApiError {
    let message = format!("The body is larger than {} MiB.", most >> 20);
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}
