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
use crate::walk::Walk;

/// Tokens that are embedded at once.
const AT_ONCE: usize = 256;

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
}

/// The embeddings of `ids`, one a row.
pub(crate) fn embeddings(model: &LoadedModel, ids: &[u32]) -> Result<DMatrix<f32>, PrivacyError> {
    let embedding = ModelPart { layers: LayerRange::all(0), embedding: true, head: false };
    let at_once = AT_ONCE.min(model.file().shape().context_length as usize).max(1);
    let mut rows = Vec::new();
    for ids in ids.chunks(at_once) {
        let positions = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut walk = Walk::new(model, &[embedding], positions)?;
        rows.extend(walk.read(model, ids)?.into_iter().flatten());
    }
    Ok(DMatrix::from_row_slice(ids.len(), rows.len() / ids.len().max(1), &rows))
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
