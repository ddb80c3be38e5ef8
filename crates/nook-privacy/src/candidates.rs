//! The tokens among which an attack looks for the right one, with their embeddings.
//!
//! All of a small vocabulary; of a large one the tokens of the attacked text, what the model itself
//! would have said there, and others by chance. The right one is always among them: whoever attacks
//! in earnest tries all, which costs time and nothing else.

use nalgebra::DMatrix;
use nook_base::{LayerRange, ModelPart};
use nook_model::LoadedModel;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::PrivacyError;
use crate::budget::BLOCK_ROWS;
use crate::walk::Walk;

const SEED: u64 = 0x6361_6e64;

/// Tokens with their embeddings.
pub(crate) struct Candidates {
    /// Ascending.
    pub(crate) ids: Vec<u32>,
    /// Their embeddings, one a row: what goes into the first layer.
    pub(crate) embeddings: DMatrix<f32>,
}

impl Candidates {
    /// At least `wanted` of them, as far as there are so many: `right` and some of `likely` in any
    /// case.
    pub(crate) fn choose(
        model: &LoadedModel,
        wanted: usize,
        right: &[u32],
        likely: &[u32],
    ) -> Result<Self, PrivacyError> {
        let ids = chosen(model.file().shape().vocabulary, wanted, right, likely);
        let embeddings = embeddings(model, &ids)?;
        Ok(Self { ids, embeddings })
    }

    /// The tokens alone.
    pub(crate) fn into_ids(self) -> Vec<u32> {
        self.ids
    }
}

/// The embeddings of `ids`, one a row.
fn embeddings(model: &LoadedModel, ids: &[u32]) -> Result<DMatrix<f32>, PrivacyError> {
    let part = ModelPart { layers: LayerRange::all(0), embedding: true, head: false };
    let shape = model.file().shape();
    let at_once = BLOCK_ROWS.min(shape.context_length as usize).max(1);
    let mut embeddings = DMatrix::zeros(ids.len(), shape.row as usize);
    for (block, ids) in ids.chunks(at_once).enumerate() {
        let mut walk = Walk::new(vec![ids]);
        let rows = walk.through(model, part)?.chunks_exact(embeddings.ncols().max(1));
        for (at, row) in (block * at_once..).zip(rows) {
            embeddings.row_mut(at).copy_from_slice(row);
        }
    }
    Ok(embeddings)
}

fn chosen(vocabulary: u32, wanted: usize, right: &[u32], likely: &[u32]) -> Vec<u32> {
    if vocabulary as usize <= wanted {
        return (0..vocabulary).collect();
    }
    let mut ids: Vec<u32> = right.to_vec();
    ids.sort_unstable();
    ids.dedup();
    for id in likely {
        if ids.len() < wanted && !ids.contains(id) {
            ids.push(*id);
        }
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let others = index::sample(&mut random, vocabulary as usize, wanted.min(vocabulary as usize));
    for id in others {
        let id = u32::try_from(id).unwrap_or(0);
        if ids.len() < wanted && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_vocabularies_are_tried_whole_and_of_large_ones_the_right_tokens_first() {
        assert_eq!(chosen(4, 4, &[3], &[]), [0, 1, 2, 3]);
        assert_eq!(chosen(1000, 3, &[700, 5, 700], &[9, 8]), [5, 9, 700]);
        assert_eq!(chosen(1000, 2, &[7, 5, 6], &[9]), [5, 6, 7]);
        let many = chosen(1000, 100, &[700], &[9]);
        assert_eq!(many.len(), 100);
        assert!(many.contains(&700) && many.contains(&9) && many.is_sorted());
    }
}
