//! Nearest embedding: the token whose embedding points most nearly the same way.

use nalgebra::DMatrix;

use crate::attacks::{largest_of_columns, normalise_rows};
use crate::candidates::Candidates;

/// What each row of `received` is taken for.
pub(crate) fn guess(candidates: &Candidates, received: &DMatrix<f32>) -> Vec<u32> {
    let mut embeddings = candidates.embeddings.clone();
    normalise_rows(&mut embeddings);
    let scores = embeddings * received.transpose();
    largest_of_columns(&scores).into_iter().map(|index| candidates.ids[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_counts_and_not_the_length() {
        let embeddings = DMatrix::from_row_slice(3, 2, &[9.0, 0.0, 0.0, 1.0, 5.0, 5.0]);
        let candidates = Candidates { ids: vec![10, 20, 30], embeddings };
        let received = DMatrix::from_row_slice(3, 2, &[0.1, 4.0, 1.0, 0.9, 0.1, 0.0]);
        assert_eq!(guess(&candidates, &received), [20, 30, 10]);
    }
}
