//! What a copy of a whole model does not ask for: what lies here of it already.
//!
//! A device that has taken some layers of a model keeps them in a partial file, which is laid out
//! like the whole one. Where its owner copies the model later, header and tensors of that file are
//! handed out from the disk, so that nothing crosses the house's link twice. Each is held against
//! the manifest right before it is handed out: what the disk has spoilt meanwhile is asked for.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use nook_model::{Manifest, ModelFile};
use tokio::task::spawn_blocking;

use crate::partial::PartialPlace;

/// Most bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Longest gap between two neighbouring tensors that counts as padding. Padding is zeros (GGUF
/// specification), as are the gaps of a partial file; no alignment in use is longer.
const PADDING_BYTES_MAX: u64 = 4096;

/// The header and the tensors of one model that are here, in file order.
#[derive(Debug)]
pub(crate) struct PartsHere {
    file: ModelFile,
    manifest: Arc<Manifest>,
    pieces: Vec<PieceHere>,
}

/// The header, or one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PieceHere {
    of: Of,
    /// Its bytes in the file.
    range: Range<u64>,
    /// Where what follows begins, padding passed over.
    reach: u64,
    /// Whether it was held against the manifest.
    proven: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Header,
    Tensor(u32),
}

impl PartsHere {
    /// What is at `place`, if anything can be used. Waits for the disk.
    pub(crate) fn look(place: &PartialPlace) -> Option<Self> {
        let (manifest, presence) = place.kept()?;
        let file = ModelFile::open(&place.path()).ok()?;
        let pieces = pieces(&file, |number| presence.has(number));
        Some(Self { file, manifest: Arc::new(manifest), pieces })
    }

    /// Where the next piece begins that is here, from byte `at` on, or `end`: up to there is to be
    /// asked for. `at` itself where that is here.
    pub(crate) fn next_from(&self, at: u64, end: u64) -> u64 {
        let next = self.pieces.iter().find(|piece| piece.reach > at);
        next.map_or(end, |piece| piece.range.start.clamp(at, end))
    }

    /// Bytes from `at` on and before `end`, at least one; nothing where they are to be asked for.
    pub(crate) async fn read(&mut self, at: u64, end: u64) -> Option<Bytes> {
        let place = self.pieces.iter().position(|it| it.range.start <= at && at < it.reach)?;
        let piece = self.pieces.get_mut(place)?;
        let (file, manifest) = (self.file.clone(), self.manifest.clone());
        let (mut read, until) = (piece.clone(), piece.reach.min(end));
        let visit = spawn_blocking(move || {
            read.proven = read.proven || read.is_true(&file, &manifest);
            let count = until.saturating_sub(at).min(READ_BYTES);
            let count = usize::try_from(count).ok().filter(|count| read.proven && *count > 0)?;
            file.bytes_at(at, count).ok()
        });
        match visit.await.ok().flatten() {
            Some(bytes) => {
                piece.proven = true;
                Some(bytes.into())
            }
            None => {
                tracing::warn!(of = ?piece.of, "a part of a model that lies here is asked for again");
                self.pieces.remove(place);
                None
            }
        }
    }
}

impl PieceHere {
    /// Whether the manifest says so of its bytes. Waits for the disk.
    fn is_true(&self, file: &ModelFile, manifest: &Manifest) -> bool {
        match self.of {
            // The place of a partial file was looked at with its header.
            Of::Header => true,
            Of::Tensor(number) => {
                let Ok(mut check) = manifest.tensor_check(number) else { return false };
                let mut at = self.range.start;
                while at < self.range.end {
                    let count = self.range.end.saturating_sub(at).min(READ_BYTES);
                    let Ok(bytes) = file.bytes_at(at, usize::try_from(count).unwrap_or(0)) else {
                        return false;
                    };
                    check.update(&bytes);
                    at = at.saturating_add(count);
                }
                check.finish().is_ok()
            }
        }
    }
}

/// Header and tensors of `file` that are here.
fn pieces(file: &ModelFile, is_here: impl Fn(u32) -> bool) -> Vec<PieceHere> {
    let start = file.header().data_start();
    let header = PieceHere { of: Of::Header, range: 0..start, reach: start, proven: false };
    let mut pieces = vec![header];
    let tensors = file.header().tensors();
    for (number, tensor) in (0..).zip(tensors).filter(|(number, _)| is_here(*number)) {
        let end = tensor.start.saturating_add(tensor.bytes);
        let next = number as usize + 1;
        let follows = tensors.get(next).filter(|_| is_here(number + 1)).map(|next| next.start);
        let is_padding = |next: &u64| (end..=end.saturating_add(PADDING_BYTES_MAX)).contains(next);
        let reach = follows.filter(is_padding).unwrap_or(end);
        let range = tensor.start..end;
        pieces.push(PieceHere { of: Of::Tensor(number), range, reach, proven: false });
    }
    pieces
}
