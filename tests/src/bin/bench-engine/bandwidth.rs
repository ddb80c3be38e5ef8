//! How fast plain code reads memory here: the yardstick for decoding, which reads every weight once
//! a token.
//!
//! The memory lies in huge pages where the system has them, as the engine's weights do; with small
//! ones a processor spends part of its time looking up where they are. Which way of reading is
//! fastest depends on the processor's own prefetching, so there are two, and the faster one counts.

use std::hint::black_box;

use memmap2::MmapMut;
use nook_base::clock;

/// Passes of each way; the best counts, because interference only slows.
const PASSES: usize = 6;

/// Places where a thread reads in turn, in the second way.
const PLACES: usize = 4;

/// Bytes that are read at one place before the next one's turn: four lines of the cache.
const BLOCK: usize = 256;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The most bytes per second that `threads` threads read together of `bytes`, which should be far
/// more than any cache holds. None where there is not that much memory.
pub(crate) fn bytes_per_second(threads: usize, bytes: usize) -> Option<f64> {
    let mut memory = MmapMut::map_anon(bytes.checked_add(HUGE)?).ok()?;
    let start = memory.as_ptr().align_offset(HUGE).min(HUGE);
    #[cfg(target_os = "linux")]
    {
        // A wish: where it is refused, the memory is the same, in small pages.
        let _ = memory.advise_range(memmap2::Advice::HugePage, start, bytes);
    }
    // A page exists once it is written.
    memory.fill(1);
    let numbers = &memory[start..start + bytes];
    let share = bytes.div_ceil(threads.max(1)).next_multiple_of(BLOCK).max(BLOCK);
    let mut best = 0f64;
    for pass in 0..2 * PASSES {
        let places = if pass < PASSES { 1 } else { PLACES };
        let started = clock::now();
        std::thread::scope(|scope| {
            for part in numbers.chunks(share) {
                scope.spawn(move || black_box(sum(part, places)));
            }
        });
        best = best.max(bytes as f64 / started.elapsed().as_secs_f64());
    }
    Some(best)
}

/// The sum of all bytes, eight at a time as one number, read at so many `places` in turn.
fn sum(bytes: &[u8], places: usize) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let share = blocks.len().div_ceil(places).max(1);
    let places: Vec<_> = blocks.chunks(share).collect();
    // As many as fit the registers of any processor: the adding must not be what takes the time.
    let mut sums = [0u64; 8];
    for index in 0..share {
        for block in places.iter().filter_map(|place| place.get(index)) {
            for line in block.as_chunks::<64>().0 {
                for (sum, number) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                    *sum = sum.wrapping_add(u64::from_le_bytes(*number));
                }
            }
        }
    }
    let rest = rest.iter().map(|byte| u64::from(*byte));
    sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_whatever_the_places() {
        for length in [0, 1, 255, 256, 257, 4096, 50_001] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let (numbers, rest) = bytes.as_chunks::<8>();
            let whole = bytes.len() / BLOCK * BLOCK / 8;
            let expected = numbers[..whole]
                .iter()
                .map(|number| u64::from_le_bytes(*number))
                .chain(
                    numbers[whole..].as_flattened().iter().chain(rest).map(|byte| u64::from(*byte)),
                )
                .fold(0, u64::wrapping_add);
            for places in [1, PLACES] {
                assert_eq!(sum(&bytes, places), expected, "{length} bytes, {places} places");
            }
        }
    }

    #[test]
    fn reading_takes_time() {
        let speed = bytes_per_second(2, 1 << 20).expect("a mebibyte");
        assert!(speed.is_finite() && speed > 0.0);
    }
}
