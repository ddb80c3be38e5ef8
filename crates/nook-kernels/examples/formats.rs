//! Measures what multiplying in bytes gains: `formats [THREADS]`, one thread without a number.
//!
//! For each packed format, two ways take turns: weights in panels, multiplied in bytes, and rows in
//! the blocks of the file, decoded for each product. A product is a matrix of 4096 x 4096 by one row
//! of activations (a decode step) or by 64 (a prompt). There are several copies of the matrix, more
//! than most caches hold, as the layers of a model follow each other. Printed is the median of the
//! rounds, in products per second, and how many times more there are in bytes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use nook_base::clock;
use nook_kernels::compute::THREADS_MAX;
use nook_kernels::{Arithmetic, Compute, Format, Matrix, Product, Scratch, multiply};

/// Rows and columns of the matrix.
const WIDTH: usize = 4096;

/// Bytes of all copies of the matrix, at least, as the file has them.
const WEIGHT_BYTES: usize = 64 << 20;

/// Rows of activations that are measured.
const COUNTS: [usize; 2] = [1, 64];

/// Turns of each way.
const ROUNDS: usize = 5;

/// Least time of a turn.
const TURN: Duration = Duration::from_millis(200);

/// Copies of a matrix, and which of them is next.
struct Way {
    matrices: Vec<Matrix>,
    next: usize,
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let threads = match words.as_slice() {
        [] => Some(1),
        [word] => word.to_str().and_then(|word| word.parse().ok()),
        _ => None,
    };
    let Some(threads) = threads.filter(|threads| (1..=THREADS_MAX).contains(threads)) else {
        eprintln!("formats takes one number at most: threads, from 1 to {THREADS_MAX}");
        return ExitCode::from(2);
    };
    match measure_all(threads) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("formats: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(threads: usize) -> Result<(), Box<dyn Error>> {
    let compute = Compute::new(threads)?;
    println!("{compute:?}; products per second: in bytes, decoded, ratio");
    for format in Format::ALL.into_iter().filter(|format| format.is_packed()) {
        let file = file_bytes(format);
        let copies = WEIGHT_BYTES.div_ceil(file.len());
        let mut bytes = Way::new(Arithmetic::Bytes, format, &file, copies)?;
        let mut decoded = Way::new(Arithmetic::Floats, format, &file, copies)?;
        for rows in COUNTS {
            let x: Vec<f32> = noise(rows * WIDTH, 99).map(number).collect();
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                fast.push(bytes.turn(&compute, &x)?);
                slow.push(decoded.turn(&compute, &x)?);
            }
            let (fast, slow) = (median(fast), median(slow));
            let (name, ratio) = (format!("{format:?}"), fast / slow);
            println!("{name:<8} {rows:>2} rows: {fast:>8.2} {slow:>8.2} {ratio:>6.1}");
        }
    }
    Ok(())
}

impl Way {
    fn new(
        arithmetic: Arithmetic,
        format: Format,
        file: &[u8],
        copies: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let copy = |_| Matrix::new(arithmetic, format, WIDTH, WIDTH, file);
        Ok(Self { matrices: (0..copies).map(copy).collect::<Result<_, _>>()?, next: 0 })
    }

    /// Products per second with the activations `x`, copy after copy.
    fn turn(&mut self, compute: &Compute, x: &[f32]) -> Result<f64, Box<dyn Error>> {
        let mut out = vec![0.0; x.len()];
        let mut scratch = Scratch::default();
        let (begin, mut count) = (clock::now(), 0.0);
        loop {
            let matrix = &self.matrices[self.next % self.matrices.len()];
            self.next += 1;
            let mut products = [Product { matrix, out: &mut out }];
            multiply(compute, &mut scratch, x, &mut products)?;
            count += 1.0;
            let taken = clock::now().duration_since(begin);
            if taken >= TURN {
                return Ok(count / taken.as_secs_f64());
            }
        }
    }
}

fn median(mut turns: Vec<f64>) -> f64 {
    turns.sort_by(f64::total_cmp);
    turns[turns.len() / 2]
}

/// Numbers that repeat after a long while: what they are has no influence on the speed.
fn noise(count: usize, seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seed;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
}

/// From -1 to 1.
fn number(word: u32) -> f32 {
    (word >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// Random blocks whose scales are small: infinite ones and those too small for an exponent of their
/// own could be slower than others.
fn file_bytes(format: Format) -> Vec<u8> {
    let length = format.row_bytes(WIDTH).unwrap_or(0) * WIDTH;
    let mut bytes: Vec<u8> = noise(length, 7).map(|word| (word >> 11) as u8).collect();
    for block in bytes.chunks_exact_mut(format.bytes()) {
        let halves: &[usize] = match format {
            Format::Mxfp4 => {
                block[0] = 120;
                continue;
            }
            Format::Q6K => &[208],
            Format::Q3K => &[108],
            Format::Q2K => &[80, 82],
            Format::Tq2_0 => &[64],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            _ => &[0],
        };
        for at in halves {
            // A half of about 0.01.
            block[*at..at + 2].copy_from_slice(&0x2122u16.to_le_bytes());
        }
    }
    bytes
}
