//! Ridge probe: a linear map from activations to embeddings, learnt on another text, and then the
//! nearest embedding to what it gives.
//!
//! The map is the closed form of ridge regression: in the form that grows with the width of the
//! model, or in the one that grows with the number of examples (Saunders, Gammerman and Vovk 1998,
//! "Ridge Regression Learning Algorithm in Dual Variables"), whichever is less. Both give the same.

use nalgebra::{Cholesky, DMatrix, Dyn, RowDVector};

use crate::attacks::{nearest_of, normalise_rows};
use crate::candidates::Candidates;

/// How much the map is held back from following single examples, as a part of the mean squared
/// length of an example.
const RIDGE: f64 = 1e-3;

/// A probe that has learnt.
pub(crate) struct Probe {
    means: RowDVector<f32>,
    deviations: RowDVector<f32>,
    target_mean: RowDVector<f32>,
    form: Form,
    /// Of the products of the examples with each other, or of their numbers with each other.
    factor: Cholesky<f64, Dyn>,
    /// What is mixed by the solution: a row for each example, or for each number of one.
    targets: DMatrix<f32>,
}

/// Which products are solved with.
enum Form {
    /// Those of the numbers of an activation.
    Numbers,
    /// Those of the examples, one a row, each number less its mean and over its deviation.
    Examples(DMatrix<f32>),
}

impl Probe {
    /// Learns to give the rows of `embeddings` for those of `activations`. `None` where the numbers
    /// are not finite.
    pub(crate) fn learn(activations: DMatrix<f32>, mut embeddings: DMatrix<f32>) -> Option<Self> {
        let means = activations.row_mean();
        let deviations = activations.row_variance().map(|variance| variance.sqrt().max(1e-12));
        let mut examples = activations;
        standardise(&mut examples, &means, &deviations);
        normalise_rows(&mut embeddings);
        let target_mean = embeddings.row_mean();
        for mut row in embeddings.row_iter_mut() {
            row -= &target_mean;
        }
        let squares: f64 = examples.iter().map(|number| f64::from(number * number)).sum();
        let ridge = RIDGE * squares / examples.nrows().max(1) as f64 + f64::MIN_POSITIVE;
        let (form, products, targets) = if examples.ncols() <= examples.nrows() {
            let turned = examples.transpose();
            (Form::Numbers, &turned * &examples, turned * embeddings)
        } else {
            let products = &examples * examples.transpose();
            (Form::Examples(examples), products, embeddings)
        };
        let mut products = products.map(f64::from);
        for at in 0..products.nrows() {
            products[(at, at)] += ridge;
        }
        let factor = Cholesky::new(products)?;
        Some(Self { means, deviations, target_mean, form, factor, targets })
    }

    /// What each row of `received` is taken for.
    pub(crate) fn guess(&self, candidates: &Candidates, received: &DMatrix<f32>) -> Vec<u32> {
        let mut received = received.clone();
        standardise(&mut received, &self.means, &self.deviations);
        let asked = match &self.form {
            Form::Numbers => received.transpose(),
            Form::Examples(examples) => examples * received.transpose(),
        };
        let weights = self.factor.solve(&asked.map(f64::from)).map(|weight| weight as f32);
        let given = weights.transpose() * &self.targets; // (rows, width of an embedding)
        nearest_of(candidates, &given, &|embeddings| {
            normalise_rows(embeddings);
            for mut row in embeddings.row_iter_mut() {
                row -= &self.target_mean;
            }
            normalise_rows(embeddings);
        })
    }
}

fn standardise(rows: &mut DMatrix<f32>, means: &RowDVector<f32>, deviations: &RowDVector<f32>) {
    for mut row in rows.row_iter_mut() {
        row -= means;
        row.component_div_assign(deviations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some matrix with numbers that look random.
    fn matrix(rows: usize, columns: usize, salt: u32) -> DMatrix<f32> {
        DMatrix::from_fn(rows, columns, |row, column| {
            let mixed =
                (row as u32 * 7919 + column as u32 * 104_729 + salt).wrapping_mul(2_654_435_761);
            mixed as f32 / u32::MAX as f32 - 0.5
        })
    }

    #[test]
    fn what_is_a_linear_map_of_embeddings_is_read_back() {
        let (tokens, width) = (40, 12);
        let candidates = Candidates {
            ids: (0..tokens).collect(),
            embeddings: matrix(tokens as usize, width, 1),
        };
        let map = matrix(width, 20, 2);
        let activations = &candidates.embeddings * &map;
        let learnt = activations.rows(0, 30).into_owned();
        let targets = candidates.embeddings.rows(0, 30).into_owned();
        let probe = Probe::learn(learnt, targets).unwrap();
        // Also for those that it has not seen.
        let guesses = probe.guess(&candidates, &activations);
        let right = guesses.iter().zip(&candidates.ids).filter(|(a, b)| a == b).count();
        assert!(right >= 38, "{right} of 40");
    }

    #[test]
    fn few_examples_of_wide_activations_are_learnt_from_as_well() {
        let candidates = Candidates { ids: (0..20).collect(), embeddings: matrix(20, 12, 1) };
        let activations = &candidates.embeddings * matrix(12, 60, 2);
        let probe = Probe::learn(activations.clone(), candidates.embeddings.clone()).unwrap();
        assert!(matches!(probe.form, Form::Examples(_)));
        assert_eq!(probe.guess(&candidates, &activations), candidates.ids);
    }

    #[test]
    fn from_what_has_nothing_to_do_with_the_tokens_it_learns_nothing() {
        let candidates = Candidates { ids: (0..100).collect(), embeddings: matrix(100, 12, 1) };
        let learnt = matrix(60, 20, 5);
        let probe = Probe::learn(learnt, candidates.embeddings.rows(0, 60).into_owned()).unwrap();
        let guesses = probe.guess(&candidates, &matrix(100, 20, 9));
        let right = guesses.iter().zip(&candidates.ids).filter(|(a, b)| a == b).count();
        assert!(right <= 5, "{right} of 100");
    }
}
