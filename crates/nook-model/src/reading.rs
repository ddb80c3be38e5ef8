//! How fast this computer goes through weights: what bounds a reply of any model that is larger than
//! the processor's own memory.
//!
//! Each token of a reply reads all weights that it is computed with once, so their bytes divided by
//! this rate are about the time of a token. It is measured as replies do it: a packed matrix times
//! one row of activations, on all threads.

use std::time::{Duration, Instant};

use nook_base::clock;
use nook_kernels::{
    Arithmetic, Compute, Format, Layout, Matrix, MatrixError, Product, Room, Scratch, multiply,
};

/// Bytes of the matrix: more than the caches of a processor at home hold.
const BYTES: usize = 160 << 20;

/// Numbers in a row, as in a model of the usual size.
const COLUMNS: usize = 4096;

/// How long it is measured.
const SPAN: Duration = Duration::from_millis(300);

/// Fewest products: the first one also brings the memory in.
const PRODUCTS_MIN: u32 = 3;

/// Every byte of the matrix; as a half-precision scale it is small and no infinity.
const FILL: u8 = 0x11;

/// Bytes of weights in a second on `threads` threads; `None` where there is no memory for it, or
/// `stop` said that somebody needs the processor.
#[must_use]
pub fn weights_per_second(threads: usize, stop: &dyn Fn() -> bool) -> Option<u64> {
    let compute = Compute::new(threads).ok()?;
    let row_bytes = Format::Q4K.row_bytes(COLUMNS)?;
    let rows = BYTES / row_bytes;
    let arithmetic = Arithmetic::Bytes;
    let layout = Layout { arithmetic, format: Format::Q4K, rows, columns: COLUMNS };
    let fill = |_: usize, part: &mut [u8]| -> Result<(), MatrixError> {
        part.fill(FILL);
        Ok(())
    };
    let matrix = Matrix::load(&compute, &mut Room::default(), layout, &fill).ok()?;
    let (x, mut out) = (vec![1.0; COLUMNS], vec![0.0; rows]);
    let mut scratch = Scratch::default();
    let (begun, mut best, mut products): (Instant, Option<Duration>, u32) = (clock::now(), None, 0);
    while products < PRODUCTS_MIN || begun.elapsed() < SPAN {
        if stop() {
            return None;
        }
        let before = clock::now();
        multiply(&compute, &mut scratch, &x, &mut [Product { matrix: &matrix, out: &mut out }])
            .ok()?;
        let took = before.elapsed();
        // Whatever else ran meanwhile made it slower, nothing makes it faster.
        best = Some(best.map_or(took, |best| best.min(took)));
        products += 1;
    }
    let seconds = best?.as_secs_f64();
    (seconds > 0.0).then(|| (matrix.bytes() as f64 / seconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computer_goes_through_weights_at_some_rate_and_stops_when_it_is_told() {
        let rate = weights_per_second(2, &|| false).unwrap();
        assert!(rate > 1 << 20, "{rate} bytes in a second");
        assert_eq!(weights_per_second(2, &|| true), None);
    }
}
