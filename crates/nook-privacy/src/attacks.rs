//! The attacks. Each gets what a helper received and says which token it takes each row for.

pub(crate) mod lens;
pub(crate) mod nearest;
pub(crate) mod probe;
pub(crate) mod replay;

use nalgebra::DMatrix;

use crate::budget::BLOCK_ROWS;
use crate::candidates::Candidates;

/// For each row of `asked` the candidate whose embedding, as `turn` makes it of some of them at a
/// time, has the largest product with it; the first of equals.
fn nearest_of(
    candidates: &Candidates,
    asked: &DMatrix<f32>,
    turn: &dyn Fn(&mut DMatrix<f32>),
) -> Vec<u32> {
    let asked = asked.transpose();
    let first = candidates.ids.first().copied().unwrap_or_default();
    let mut best = vec![(f32::NEG_INFINITY, first); asked.ncols()];
    for (block, ids) in candidates.ids.chunks(BLOCK_ROWS).enumerate() {
        let mut embeddings = candidates.embeddings.rows(block * BLOCK_ROWS, ids.len()).into_owned();
        turn(&mut embeddings);
        let scores = embeddings * &asked;
        for (best, column) in best.iter_mut().zip(scores.column_iter()) {
            for (score, id) in column.iter().zip(ids) {
                if *score > best.0 {
                    *best = (*score, *id);
                }
            }
        }
    }
    best.into_iter().map(|(_, id)| id).collect()
}

/// Makes each row as long as 1; a row of zeros stays.
fn normalise_rows(matrix: &mut DMatrix<f32>) {
    for mut row in matrix.row_iter_mut() {
        let length = row.norm();
        if length > 0.0 {
            row /= length;
        }
    }
}
