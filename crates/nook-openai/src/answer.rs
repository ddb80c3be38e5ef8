//! What an answer is known by, whatever form it leaves in.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What all parts of one answer have in common.
#[derive(Debug, Clone)]
pub(crate) struct AnswerHead {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// An id that no other answer has.
pub(crate) fn new_id(kind: &str) -> String {
    format!("{kind}{:016x}", rand::random::<u64>())
}

/// An id for a call: nine letters and digits, which also Mistral's templates accept back.
pub(crate) fn new_call_id() -> String {
    let letters = b"0123456789abcdefghijklmnopqrstuvwxyz";
    (0..9).map(|_| char::from(letters[rand::random_range(0..letters.len())])).collect()
}

/// Seconds since 1970 as RFC 3339 writes a time.
pub(crate) fn moment(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
