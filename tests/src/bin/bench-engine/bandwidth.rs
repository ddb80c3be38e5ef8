//! How fast plain code reads memory here: a yardstick for decoding, which reads every weight once a token.
//!
//! It is no upper limit: wider loads and large pages, which need `unsafe` code, read faster on one thread
//! (on one Zen 4 machine 26 to 31 GB/s where this finds 19).

use std::hint::black_box;

use nook_base::clock;

/// Passes; the best counts, because interference only slows.
const PASSES: usize = 5;

/// Places where a thread reads in turn.
const PLACES: usize = 8;

/// Numbers that are read at one place before the next one's turn: four lines of the cache.
const BLOCK: usize = 32;

/// The most bytes per second that `threads` threads read together of `bytes`, which should be far more
/// than any cache holds.
pub(crate) fn bytes_per_second(threads: usize, bytes: usize) -> f64 {
    let numbers = vec![1u64; bytes / size_of::<u64>()];
    let share = numbers.len().div_ceil(threads.max(1)).max(1);
    let mut best = 0f64;
    for _ in 0..PASSES {
        let started = clock::now();
        std::thread::scope(|scope| {
            for part in numbers.chunks(share) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        best = best.max(bytes as f64 / started.elapsed().as_secs_f64());
    }
    best
}

/// Reads in several places in turn: a single run over memory stops at the end of each page, which on
/// small pages shows less than what the machine can do.
fn sum(numbers: &[u64]) -> u64 {
    let (blocks, rest) = numbers.as_chunks::<BLOCK>();
    let share = blocks.len().div_ceil(PLACES).max(1);
    let places: Vec<_> = blocks.chunks(share).collect();
    // As many as fit the registers of any processor: the adding must not be what takes the time.
    let mut sums = [0u64; 8];
    for index in 0..share {
        for block in places.iter().filter_map(|place| place.get(index)) {
            for eight in block.as_chunks::<8>().0 {
                for (sum, number) in sums.iter_mut().zip(eight) {
                    *sum = sum.wrapping_add(*number);
                }
            }
        }
    }
    sums.iter().chain(rest).fold(0, |all, number| all.wrapping_add(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read() {
        for length in [0, 1, 31, 33, 257, 4096, 5001] {
            let numbers: Vec<u64> = (0..length).collect();
            assert_eq!(sum(&numbers), (0..length).sum::<u64>(), "{length} numbers");
        }
    }
}
