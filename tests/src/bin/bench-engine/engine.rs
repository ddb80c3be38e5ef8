//! All that the bench knows of the engine: load a file whole, feed a session, read what it holds.
//!
//! The rest of the bench talks to [`Engine`] and [`Stream`] alone, so a changed model crate changes
//! this file and no other.

use std::path::Path;

use anyhow::Context as _;
use anyhow::ensure;
use nook_base::ModelPart;
use nook_model::{
    BatchPiece, Input, LoadOptions, LoadedModel, LogitRows, ModelFile, Output, Precision, Session,
};

/// A model with all its weights in memory.
#[derive(Debug)]
pub(crate) struct Engine {
    model: LoadedModel,
}

/// One sequence of positions.
#[derive(Debug)]
pub(crate) struct Stream {
    session: Session,
    /// Tokens that went in, which decides the next one.
    fed: u32,
}

impl Engine {
    /// Loads all of `file`.
    pub(crate) fn load(file: &Path, threads: usize) -> anyhow::Result<Self> {
        let file = ModelFile::open(file)?;
        let whole = ModelPart::whole(file.shape().layers);
        let mut model =
            LoadedModel::new(file, LoadOptions { threads, precision: Precision::Auto })?;
        model.hold(&whole)?;
        Ok(Self { model })
    }

    /// A stream with room for `positions`.
    pub(crate) fn stream(&self, positions: u32) -> anyhow::Result<Stream> {
        let whole = ModelPart::whole(self.model.file().shape().layers);
        Ok(Stream { session: self.model.session(whole, positions)?, fed: 0 })
    }

    /// Appends `count` tokens in one step and computes the logits of the last, as a reply needs
    /// them.
    pub(crate) fn feed(&self, stream: &mut Stream, count: u32) -> anyhow::Result<()> {
        let tokens: Vec<u32> = (0..count).map(|_| stream.next_token(self.vocabulary())).collect();
        let step = stream.session.step(&self.model, Input::Tokens(&tokens), LogitRows::Last);
        match step.context("a step failed")? {
            Output::Logits { rows: 1, .. } => Ok(()),
            other => anyhow::bail!("a step gave {other:?} instead of one row of logits"),
        }
    }

    /// Appends one token to each of `streams` in one pass, with the logits of each.
    pub(crate) fn feed_together(&self, streams: &mut [Stream]) -> anyhow::Result<()> {
        let vocabulary = self.vocabulary();
        let tokens: Vec<[u32; 1]> =
            streams.iter_mut().map(|stream| [stream.next_token(vocabulary)]).collect();
        let pieces = streams.iter_mut().zip(&tokens).map(|(stream, token)| BatchPiece {
            session: &mut stream.session,
            input: Input::Tokens(token),
            rows: LogitRows::Last,
        });
        let mut pieces: Vec<BatchPiece<'_>> = pieces.collect();
        let outputs = self.model.step_batch(&mut pieces, &|| false).context("a step failed")?;
        let whole = outputs.iter().all(|output| matches!(output, Output::Logits { rows: 1, .. }));
        ensure!(whole && outputs.len() == tokens.len(), "a step gave not one row for each stream");
        Ok(())
    }

    fn vocabulary(&self) -> u32 {
        self.model.file().shape().vocabulary
    }
}

impl Stream {
    /// Forgets all positions but the first `positions`.
    pub(crate) fn truncate(&mut self, positions: u32) -> anyhow::Result<()> {
        Ok(self.session.truncate(positions)?)
    }

    /// Bytes of its key-value cache.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.session.cache_bytes()
    }

    /// Any token will do: which rows of the embedding are read makes no difference worth telling.
    fn next_token(&mut self, vocabulary: u32) -> u32 {
        self.fed = self.fed.wrapping_add(1);
        self.fed.wrapping_mul(2_654_435_761) % vocabulary.max(1)
    }
}
