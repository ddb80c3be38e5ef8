//! Control bodies: postcard, read to their last byte.

use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::kind::Kind;

/// Appends a control body.
pub(crate) fn write_body<T: Serialize>(value: &T, out: &mut BytesMut) {
    // The bytes go through a small buffer: an `Extend<u8>` takes its target by value.
    let body = postcard::to_stdvec(value)
        .expect("message types have known lengths, the only thing postcard can refuse");
    out.extend_from_slice(&body);
}

/// Reads a control body to its last byte.
pub(crate) fn read_body<T: DeserializeOwned>(kind: Kind, body: &[u8]) -> Result<T, DecodeError> {
    let (value, rest) =
        postcard::take_from_bytes(body).map_err(|_| DecodeError::BadBody { kind })?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(DecodeError::TrailingBytes { kind, count: rest.len() })
    }
}
