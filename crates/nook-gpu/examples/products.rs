//! Measures products on one GPU: `products [gpu:N | part of a name]`.
//!
//! Prints the adapter and its driver; how far products are from those of the CPU; how fast weights
//! are read with one row of activations (decode steps), and how many operations a second there are
//! with many (prompts). Weights are several copies, more than any cache holds. Times include the
//! submission.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]
#![allow(clippy::disallowed_methods, reason = "measures outside of the product")]

use std::time::Instant;

use nook_gpu::{
    Buffer, Choice, Commands, Gpu, GpuError, KernelSet, Matrix, OpenOptions, Quantised, adapters,
};
use nook_kernels::{Arithmetic, Compute, Format, Product, Scratch, multiply};

/// Bytes of weights that one measurement goes over: more than the largest cache of a GPU today.
const WEIGHT_BYTES: usize = 512 << 20;

/// Least time of a measurement.
const MEASURED_SECONDS: f64 = 0.5;

/// Rows of activations that are measured.
const COUNTS: [usize; 3] = [1, 128, 512];

/// Rows and columns of the matrices.
const SHAPES: [(usize, usize); 2] = [(4096, 4096), (4096, 14336)];

fn main() -> Result<(), GpuError> {
    let asked = std::env::args_os().nth(1).and_then(|word| word.into_string().ok());
    for info in adapters() {
        println!(
            "gpu:{} {} ({}, {}, {:?})",
            info.index, info.name, info.api, info.driver, info.kind
        );
    }
    let choice = match asked.as_deref() {
        None => Choice::Best,
        Some(text) => match text.strip_prefix("gpu:").and_then(|number| number.parse().ok()) {
            Some(index) => Choice::Index(index),
            None => Choice::Name(text.to_owned()),
        },
    };
    for kernels in [KernelSet::Exact, KernelSet::Portable, KernelSet::Subgroup] {
        let options =
            OpenOptions { choice: choice.clone(), kernels: Some(kernels), ..Default::default() };
        let gpu = Gpu::open(&options)?;
        println!("{gpu:?}");
        for format in [Format::Q4K, Format::Q6K, Format::Q8_0, Format::Q4_0, Format::F16] {
            compare(&gpu, format)?;
        }
        if kernels == KernelSet::Exact {
            continue;
        }
        for format in [Format::Q4K, Format::Q8_0, Format::F16] {
            for (rows, columns) in SHAPES {
                measure(&gpu, format, rows, columns)?;
            }
        }
    }
    Ok(())
}

/// Numbers that repeat after a long while: what they are has no influence on the speed.
fn noise(count: usize, seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seed | 1;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
}

/// Blocks with small scales.
fn file_bytes(format: Format, rows: usize, columns: usize) -> Vec<u8> {
    let length = rows * format.row_bytes(columns).unwrap_or(0);
    let mut bytes: Vec<u8> = noise(length, 7).map(|word| (word >> 11) as u8).collect();
    for block in bytes.chunks_exact_mut(format.bytes()) {
        if format == Format::F16 {
            // Of either sign, from 2^-7 to 2^-6.
            block[1] = (block[1] & 0x83) | 0x20;
            continue;
        }
        let halves: &[usize] = match format {
            Format::Q6K => &[208],
            Format::Q4K => &[0, 2],
            _ => &[0],
        };
        for at in halves {
            // A half of about 0.01.
            block[*at..at + 2].copy_from_slice(&0x2122u16.to_le_bytes());
        }
    }
    bytes
}

fn activations(count: usize) -> Vec<f32> {
    noise(count, 99).map(|word| (word >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// How far products are from those of the CPU.
fn compare(gpu: &Gpu, format: Format) -> Result<(), GpuError> {
    let (rows, columns) = (1024, 4096);
    let file = file_bytes(format, rows, columns);
    let matrix = Matrix::new(gpu, format, rows, columns, &file)?;
    let Ok(held) = nook_kernels::Matrix::new(Arithmetic::Bytes, format, rows, columns, &file)
    else {
        return Ok(());
    };
    for n in [1, 5, 64] {
        let x = activations(n * columns);
        let mut expected = vec![0.0; n * rows];
        let mut products = [Product { matrix: &held, out: &mut expected }];
        if multiply(&Compute::single(), &mut Scratch::default(), &x, &mut products).is_err() {
            continue;
        }
        let input = Buffer::of_floats(gpu, "x", &x)?;
        let out = Buffer::new(gpu, "out", n * rows)?;
        let mut quantised = Quantised::new(gpu, x.len())?;
        let mut commands = Commands::new(gpu);
        if let Some(span) = matrix.span() {
            commands.quantise(&input, n, columns, span, &mut quantised)?;
        }
        commands.product(&matrix, &input, &quantised, n, &out)?;
        let got = commands.read_floats(&out, 0, n * rows)?;
        let same = got.iter().zip(&expected).filter(|(a, b)| a.to_bits() == b.to_bits()).count();
        let squares: f64 = expected.iter().map(|x| f64::from(*x).powi(2)).sum();
        let size = (squares / expected.len() as f64).sqrt();
        let apart = got.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs()));
        let worst = apart.fold(0.0, f64::max) / size;
        let count = got.len();
        println!(
            "  {format:?} {rows}x{columns}, {n} rows: {same} of {count} bit-equal, worst {worst:.1e}"
        );
    }
    Ok(())
}

fn measure(gpu: &Gpu, format: Format, rows: usize, columns: usize) -> Result<(), GpuError> {
    let file = file_bytes(format, rows, columns);
    let software = gpu.info().kind == nook_gpu::AdapterKind::Software;
    let copies = if software { 1 } else { WEIGHT_BYTES.div_ceil(file.len()) };
    let mut matrices = Vec::new();
    for _ in 0..copies {
        matrices.push(Matrix::new(gpu, format, rows, columns, &file)?);
    }
    for n in COUNTS.into_iter().take(if software { 1 } else { COUNTS.len() }) {
        let x = Buffer::of_floats(gpu, "x", &activations(n * columns))?;
        let mut quantised = Quantised::new(gpu, n * columns)?;
        let outs = matrices
            .iter()
            .map(|_| Buffer::new(gpu, "out", n * rows))
            .collect::<Result<Vec<_>, _>>()?;
        let mut commands = Commands::new(gpu);
        if let Some(span) = matrices[0].span() {
            commands.quantise(&x, n, columns, span, &mut quantised)?;
        }
        let mut best = f64::MAX;
        let mut total = 0.0;
        while total < MEASURED_SECONDS {
            for (matrix, out) in matrices.iter().zip(&outs) {
                commands.product(matrix, &x, &quantised, n, out)?;
            }
            let begin = Instant::now();
            commands.finish()?;
            let seconds = begin.elapsed().as_secs_f64();
            // The first round builds the kernel.
            best = if total == 0.0 { f64::MAX } else { best.min(seconds) };
            total += seconds;
        }
        let seconds = best.min(total) / copies as f64;
        let name = format!("  {format:?} {rows}x{columns}, {n} rows");
        if n == 1 {
            let speed = file.len() as f64 / seconds / 1e9;
            println!("{name}: {:.1} us, {speed:.1} GB/s", seconds * 1e6);
        } else {
            let speed = 2.0 * (n * rows * columns) as f64 / seconds / 1e9;
            println!("{name}: {:.1} us, {speed:.0} GFLOP/s", seconds * 1e6);
        }
    }
    Ok(())
}
