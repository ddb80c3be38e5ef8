//! Rows of a step, and what is wrong with them.

use std::ops::Range;

use nook_kernels::MatrixError;

/// A kernel refused its input: a mistake in this program, told rather than computed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Broken {
    pub(crate) reason: String,
}

/// Rows of one session among the rows of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Which of the sessions.
    pub(crate) lane: usize,
    /// Position of the first row.
    pub(crate) first: u32,
    /// Positions that the session may come to have: what some rotary scalings go by.
    pub(crate) window: u32,
    /// Which rows.
    pub(crate) rows: Range<usize>,
}

impl Broken {
    pub(crate) fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }
}

impl From<MatrixError> for Broken {
    fn from(error: MatrixError) -> Self {
        Self { reason: error.to_string() }
    }
}
