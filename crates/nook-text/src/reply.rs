//! One reply's way from token ids to shown text: decoding, then stop strings.
//!
//! The node pushes every sampled id and shows what comes back. End-of-turn tokens are the node's
//! business ([`Tokenizer::is_end_of_turn`]); they decode to nothing here.

use std::sync::Arc;

use crate::stop::StopStrings;
use crate::stream::{Opening, TextStream};
use crate::tokenizer::Tokenizer;

/// What one token gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Piece {
    /// Text to show now; often empty.
    pub text: String,
    /// The stop string that ended the reply, once.
    pub stopped: Option<String>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reply text stays out of logs (invariant I-3).
        let bytes = self.text.len();
        f.debug_struct("Piece")
            .field("bytes", &bytes)
            .field("stopped", &self.stopped.is_some())
            .finish()
    }
}

/// The text of one reply while it is made.
#[derive(Debug)]
pub struct ReplyText {
    stream: TextStream,
    stops: StopStrings,
}

impl ReplyText {
    /// A reply that ends at `stops`.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>, opening: Opening, stops: StopStrings) -> Self {
        Self { stream: TextStream::new(tokenizer, opening), stops }
    }

    /// The reply with some control tokens spelt out; see [`TextStream::spelling_out`].
    #[must_use]
    pub fn spelling_out(self, ids: Vec<u32>) -> Self {
        Self { stream: self.stream.spelling_out(ids), ..self }
    }

    /// Takes the next token.
    pub fn push(&mut self, id: u32) -> Piece {
        let outcome = self.stops.push(&self.stream.push(id));
        Piece { text: outcome.emit, stopped: outcome.stopped }
    }

    /// Ends the reply and returns what was held back. A stop string cannot end here, because it
    /// would have been found when its last byte came; only U+FFFD for a broken tail is new.
    #[must_use]
    pub fn finish(mut self) -> Piece {
        let outcome = self.stops.push(&self.stream.finish());
        Piece { text: outcome.emit + &self.stops.finish(), stopped: outcome.stopped }
    }
}
