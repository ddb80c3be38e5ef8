//! The attacks. Each gets what a helper received and says which token it takes each row for.

pub(crate) mod lens;
pub(crate) mod nearest;
pub(crate) mod probe;
pub(crate) mod replay;

use nalgebra::DMatrix;

/// The index of the largest number of each column.
fn largest_of_columns(scores: &DMatrix<f32>) -> Vec<usize> {
    scores.column_iter().map(|column| column.argmax().0).collect()
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
