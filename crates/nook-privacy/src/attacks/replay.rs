//! Replay matching: whoever has the model file computes the layers before the cut for each token
//! that it could have been, behind the text so far, and takes the one whose activation is nearest
//! to what came.
//!
//! What came is written in a format of the wire, so each computed activation is written in it too
//! before the two are compared.

use nook_base::ActivationDtype;

use crate::sent::written;

/// What is being compared with at one cut, in one way of sending.
pub(crate) struct Match {
    format: ActivationDtype,
    /// What a helper received, `(positions, width)`.
    received: Vec<f32>,
    width: usize,
    /// The nearest so far for each position: its squared distance, and the token.
    nearest: Vec<(f64, Option<u32>)>,
}

impl Match {
    /// For what was `received`, rows of `width` numbers.
    pub(crate) fn new(format: ActivationDtype, received: Vec<f32>, width: usize) -> Self {
        let nearest = vec![(f64::INFINITY, None); received.len() / width.max(1)];
        Self { format, received, width, nearest }
    }

    /// How the numbers were written.
    pub(crate) fn format(&self) -> ActivationDtype {
        self.format
    }

    /// Compares with the activations that `id` would have had at each position, as they come out of
    /// the wire in this format.
    pub(crate) fn compare(&mut self, id: u32, computed: &[f32]) {
        let rows = self.received.chunks_exact(self.width).zip(computed.chunks_exact(self.width));
        for (nearest, (came, would)) in self.nearest.iter_mut().zip(rows) {
            let differences = came.iter().zip(would).map(|(a, b)| f64::from(a - b));
            let distance: f64 = differences.map(|it| it * it).sum();
            if distance < nearest.0 {
                *nearest = (distance, Some(id));
            }
        }
    }

    /// What each position is taken for.
    pub(crate) fn guesses(&self) -> impl Iterator<Item = Option<u32>> {
        self.nearest.iter().map(|(_, id)| *id)
    }
}

/// Compares with `rows`, which are `(positions, width)`, in each of `matches`, writing them once in
/// each format.
pub(crate) fn compare_all(matches: &mut [Match], id: u32, rows: &[f32]) {
    for format in ActivationDtype::ALL {
        let mut of_format = matches.iter_mut().filter(|it| it.format() == format).peekable();
        let Some(first) = of_format.peek() else { continue };
        let computed = written(rows, first.width, format);
        // What does not fit the format cannot have been what came; its own numbers are as far off.
        let computed = computed.as_deref().unwrap_or(rows);
        of_format.for_each(|it| it.compare(id, computed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_all_that_were_tried_is_taken() {
        let mut matches = [Match::new(ActivationDtype::F32, vec![1.0, 0.0, 0.0, 1.0], 2)];
        compare_all(&mut matches, 7, &[0.0, 0.5, 0.1, 0.9]);
        compare_all(&mut matches, 8, &[0.9, 0.1, 0.0, 0.5]);
        assert_eq!(matches[0].guesses().collect::<Vec<_>>(), [Some(8), Some(7)]);
    }

    #[test]
    fn what_was_rounded_is_compared_with_what_is_rounded_alike() {
        let rows: Vec<f32> = (0..32).map(|n| (n as f32).sin()).collect();
        let received = written(&rows, 32, ActivationDtype::Q8).unwrap();
        let mut matches = [Match::new(ActivationDtype::Q8, received, 32)];
        compare_all(&mut matches, 3, &rows);
        assert_eq!(matches[0].nearest, [(0.0, Some(3))]);
    }
}
