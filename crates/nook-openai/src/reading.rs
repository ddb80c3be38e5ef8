//! Whose turn it is to be read as JSON.
//!
//! Reading a body of two megabytes takes many times as long as sending it. So large ones are read
//! one at a time, on a thread that holds up no other request, whoever sends them.

use std::sync::Arc;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::body;
use crate::error::ApiError;

/// Bodies up to this size, in bytes, are read at once: nearly all that programs send.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// The turn of all large bodies. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Reading(Arc<Semaphore>);

impl Reading {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// What the bytes of a body say, as [`body::parse`].
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(
        &self,
        bytes: Vec<u8>,
    ) -> Result<T, ApiError> {
        if bytes.len() <= SMALL_BYTES_MAX {
            return body::parse(&bytes);
        }
        let turn = self.0.clone().acquire_owned().await;
        // Held until it was read: a client that leaves does not let the next one in any sooner.
        let read = move || {
            let _turn = turn;
            body::parse(&bytes)
        };
        match spawn_blocking(read).await {
            Ok(read) => read,
            Err(_) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Err(ApiError::new(status, "The body could not be read."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: usize) -> Vec<u8> {
        let texts = vec!["a".repeat(1_000); bytes / 1_000 + 1];
        serde_json::to_vec(&texts).unwrap()
    }

    #[tokio::test]
    async fn a_large_body_waits_for_the_one_before_it_and_a_small_one_for_nobody() {
        let reading = Reading::new();
        let before = reading.0.clone().acquire_owned().await.unwrap();
        let (large, small) = (texts(SMALL_BYTES_MAX), texts(0));
        let waits = reading.parse::<Vec<String>>(large);
        tokio::pin!(waits);
        assert!(futures_util::poll!(waits.as_mut()).is_pending());
        assert_eq!(reading.parse::<Vec<String>>(small).await.unwrap().len(), 1);
        drop(before);
        assert_eq!(waits.await.unwrap().len(), SMALL_BYTES_MAX / 1_000 + 1);
    }

    #[tokio::test]
    async fn what_is_wrong_in_a_large_body_is_said_as_in_a_small_one() {
        let mut bytes = texts(SMALL_BYTES_MAX);
        bytes.pop();
        let error = Reading::new().parse::<Vec<String>>(bytes).await.unwrap_err();
        assert!(format!("{error:?}").contains("is not JSON"), "{error:?}");
    }
}
