//! Nearest embedding: the token whose embedding points most nearly the same way.

use nalgebra::DMatrix;

use crate::attacks::{nearest_of, normalise_rows};
use crate::candidates::Candidates;

/// What each row of `received` is taken for.
pub(crate) fn guess(candidates: &Candidates, received: &DMatrix<f32>) -> Vec<u32> {
    nearest_of(candidates, received, &normalise_rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::BLOCK_ROWS;

    #[test]
    fn among_more_than_are_turned_at_once_the_first_of_the_nearest_is_taken() {
        let count = BLOCK_ROWS * 2 + 3;
        // All point the same way but for two, which point another way, one in each block.
        let (early, late) = (BLOCK_ROWS - 1, BLOCK_ROWS + 5);
        let embeddings = DMatrix::from_fn(count, 2, |row, column| {
            f32::from(u8::from((row == early || row == late) == (column == 1)))
        });
        let ids: Vec<u32> = (100..).take(count).collect();
        let candidates = Candidates { ids, embeddings };
        let received = DMatrix::from_row_slice(2, 2, &[0.1, 4.0, 4.0, 0.1]);
        assert_eq!(guess(&candidates, &received), [100 + early as u32, 100]);
        let last = DMatrix::from_row_slice(1, 2, &[-1.0, 0.5]);
        assert_eq!(guess(&candidates, &last), [100 + early as u32]);
    }

    #[test]
    fn the_direction_counts_and_not_the_length() {
        let embeddings = DMatrix::from_row_slice(3, 2, &[9.0, 0.0, 0.0, 1.0, 5.0, 5.0]);
        let candidates = Candidates { ids: vec![10, 20, 30], embeddings };
        let received = DMatrix::from_row_slice(3, 2, &[0.1, 4.0, 1.0, 0.9, 0.1, 0.0]);
        assert_eq!(guess(&candidates, &received), [20, 30, 10]);
    }
}
