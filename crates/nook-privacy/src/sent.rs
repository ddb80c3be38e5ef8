//! What a helper receives: activations as the wire writes them, with noise, or random numbers in
//! their place.

use nook_base::{Activation, ActivationDtype};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rand_distr::{Distribution as _, StandardNormal};

/// What is sent in place of an activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Content {
    /// The activation.
    Plain,
    /// With Gaussian noise of so many times the root mean square of each row.
    Noise(f32),
    /// Gaussian noise alone, as large as the activation: the control that nothing is read from.
    /// Another number gives other noise.
    Random(u64),
}

/// One way of sending.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    /// How the numbers are written.
    pub(crate) format: ActivationDtype,
    /// What they are.
    pub(crate) content: Content,
}

impl Sent {
    /// The rows of `rows`, each `width` numbers, as whoever receives them reads them. `None` where a
    /// number is too large for the format. The same `seed` gives the same noise.
    pub(crate) fn received(&self, rows: &[f32], width: usize, seed: u64) -> Option<Vec<f32>> {
        let noisy = match self.content {
            Content::Plain => return written(rows, width, self.format),
            Content::Noise(0.0) => return written(rows, width, self.format),
            Content::Noise(part) => add_noise(rows, width, (1.0, part), seed),
            Content::Random(other) => add_noise(rows, width, (0.0, 1.0), seed ^ (other << 32)),
        };
        written(&noisy, width, self.format)
    }
}

/// `rows` as they come out of the wire's `format`.
pub(crate) fn written(rows: &[f32], width: usize, format: ActivationDtype) -> Option<Vec<f32>> {
    let width = u32::try_from(width).ok()?;
    Activation::from_f32(rows, width, format).ok().map(|sent| sent.to_f32())
}

/// `keep` times each number and Gaussian noise of `part` times the root mean square of its row.
fn add_noise(rows: &[f32], width: usize, (keep, part): (f32, f32), seed: u64) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut noisy = Vec::with_capacity(rows.len());
    for row in rows.chunks_exact(width.max(1)) {
        let squares: f32 = row.iter().map(|number| number * number).sum();
        let deviation = part * (squares / row.len() as f32).sqrt();
        noisy.extend(row.iter().map(|number| {
            let noise: f32 = StandardNormal.sample(&mut random);
            keep * number + deviation * noise
        }));
    }
    noisy
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 64;

    fn rows() -> Vec<f32> {
        (0..WIDTH * 32).map(|n| (n as f32 * 0.37).sin() * 3.0).collect()
    }

    fn sent(format: ActivationDtype, content: Content) -> Vec<f32> {
        Sent { format, content }.received(&rows(), WIDTH, 1).unwrap()
    }

    /// Root mean square of the difference, over that of `rows`.
    fn off(got: &[f32]) -> f32 {
        let square = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| x * x).sum::<f32>();
        let differences = square(&mut got.iter().zip(rows()).map(|(a, b)| a - b));
        (differences / square(&mut rows().into_iter())).sqrt()
    }

    #[test]
    fn formats_round_and_f32_does_not() {
        assert_eq!(sent(ActivationDtype::F32, Content::Plain), rows());
        let f16 = off(&sent(ActivationDtype::F16, Content::Plain));
        let q8 = off(&sent(ActivationDtype::Q8, Content::Plain));
        assert!(f16 > 0.0 && f16 < q8 && q8 < 0.01, "{f16} {q8}");
    }

    #[test]
    fn noise_is_as_large_as_it_says_and_the_same_for_the_same_seed() {
        for part in [0.01_f32, 0.3, 1.0] {
            let noisy = sent(ActivationDtype::F32, Content::Noise(part));
            assert!((off(&noisy) / part - 1.0).abs() < 0.05, "{part}: {}", off(&noisy));
            assert_eq!(noisy, sent(ActivationDtype::F32, Content::Noise(part)));
        }
        assert_eq!(sent(ActivationDtype::F32, Content::Noise(0.0)), rows());
    }

    #[test]
    fn random_numbers_are_as_large_and_know_nothing_of_what_they_stand_for() {
        let random = sent(ActivationDtype::F32, Content::Random(0));
        assert_ne!(random, sent(ActivationDtype::F32, Content::Random(1)));
        let along: f32 = random.iter().zip(rows()).map(|(a, b)| a * b).sum();
        let size: f32 = rows().iter().map(|x| x * x).sum();
        assert!((along / size).abs() < 0.1, "{}", along / size);
        assert!((off(&random) / 2.0_f32.sqrt() - 1.0).abs() < 0.05, "{}", off(&random));
    }

    #[test]
    fn numbers_too_large_for_a_format_are_not_sent_in_it() {
        let plain = |format| Sent { format, content: Content::Plain };
        assert!(plain(ActivationDtype::F16).received(&[70_000.0; 32], 32, 0).is_none());
        assert!(plain(ActivationDtype::F32).received(&[70_000.0; 32], 32, 0).is_some());
    }
}
