//! Products of every format with a kernel: the exact kernels give the bits of
//! `nook_kernels::multiply`, all others agree within rounding.

use nook_gpu::{Buffer, Commands, Gpu, KernelSet, Matrix, OpenOptions, Quantised};
use nook_kernels::{Arithmetic, Compute, Format, Product, Scratch, multiply};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::weights::{FORMATS, bits, file_bytes, numbers, worst};

/// Greatest difference of a product that is summed in another order, over the root mean square of
/// all.
const APART_MAX: f64 = 2e-6;

/// As [`APART_MAX`] of tiles: each lane sums whole rows, of up to 4,352 numbers.
const TILED_APART_MAX: f64 = 5e-6;

/// Rows of activations: those of every kernel, and both sides of the edges between them.
const COUNTS: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 70];

/// Columns in blocks: a few, and more than one round of all lanes.
const BLOCKS: [usize; 3] = [1, 5, 17];

#[test]
fn exact_kernels_give_the_bits_of_the_cpu() {
    check("exact products", KernelSet::Exact, &[1, 2, 9]);
}

#[test]
fn kernels_without_subgroups_agree_within_rounding() {
    check("portable products", KernelSet::Portable, &COUNTS);
}

#[test]
fn kernels_with_subgroups_agree_within_rounding() {
    check("subgroup products", KernelSet::Subgroup, &COUNTS);
}

fn check(test: &str, kernels: KernelSet, counts: &[usize]) {
    let Some(gpu) = crate::gpu(test, kernels) else { return };
    let mut random = StdRng::seed_from_u64(11);
    let mut failures = Vec::new();
    for format in FORMATS {
        for (blocks, rows) in BLOCKS.into_iter().zip([6, 37, 131]) {
            let columns = match format.elements() {
                // Not a multiple of what lanes read at once, but for the last.
                1 => [30, 77, 512][rows % 3],
                elements => elements * blocks,
            };
            let file = file_bytes(format, rows, columns, &mut random);
            let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
            for n in counts {
                let x = numbers(n * columns, &mut random);
                let expected = on_cpu(format, rows, columns, &file, &x);
                let got = on_gpu(&gpu, &matrix, &x);
                let off = worst(&got, &expected);
                let right = match kernels {
                    KernelSet::Exact => bits(&got) == bits(&expected),
                    _ if *n < 17 => off < APART_MAX,
                    _ => off < TILED_APART_MAX,
                };
                if !right {
                    failures.push(format!("{format:?} {rows}x{columns}, {n} rows: {off:.1e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{gpu:?}\n{}", failures.join("\n"));
}

#[test]
fn a_matrix_that_no_binding_holds_lies_in_pieces() {
    for kernels in [KernelSet::Exact, KernelSet::Portable] {
        let options = OpenOptions {
            choice: nook_gpu::Choice::Index(0),
            kernels: Some(kernels),
            binding_bytes: Some(16 << 10),
            ..OpenOptions::default()
        };
        let Some(gpu) = crate::open("a matrix in pieces", options) else { return };
        let mut random = StdRng::seed_from_u64(12);
        for format in
            [Format::Q4K, Format::Q6K, Format::Q4_0, Format::F16, Format::Mxfp4, Format::Iq2Xs]
        {
            let (rows, columns) = (600, 512);
            let file = file_bytes(format, rows, columns, &mut random);
            let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
            assert!(matrix.pieces() > 4, "{format:?}");
            for n in [1, 3] {
                let x = numbers(n * columns, &mut random);
                let expected = on_cpu(format, rows, columns, &file, &x);
                let off = worst(&on_gpu(&gpu, &matrix, &x), &expected);
                assert!(off < APART_MAX, "{format:?} {kernels:?}: {off:.1e}");
            }
        }
    }
}

/// Rows are staged in parts; a matrix of several has the numbers of one that came whole.
#[test]
fn a_matrix_that_is_read_in_parts_is_the_matrix() {
    let Some(gpu) = crate::gpu("a matrix in parts", KernelSet::Exact) else { return };
    let mut random = StdRng::seed_from_u64(13);
    for format in [Format::F32, Format::Q6K, Format::Q4_1] {
        let columns = 65_536;
        let rows = (17 << 20) / format.row_bytes(columns).unwrap() + 70;
        let file = file_bytes(format, rows, columns, &mut random);
        let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
        let x = numbers(columns, &mut random);
        let expected = on_cpu(format, rows, columns, &file, &x);
        assert_eq!(bits(&on_gpu(&gpu, &matrix, &x)), bits(&expected), "{format:?}");
    }
}

#[test]
fn faults_and_zeros_in_activations_come_out_as_on_the_cpu() {
    let Some(gpu) = crate::gpu("faults in activations", KernelSet::Exact) else { return };
    let mut random = StdRng::seed_from_u64(14);
    for format in [Format::Q4_0, Format::Q4K] {
        let (rows, columns) = (9, 512);
        let file = file_bytes(format, rows, columns, &mut random);
        let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
        let mut x = numbers(6 * columns, &mut random);
        x[..columns].fill(0.0);
        x[columns + 5] = f32::INFINITY;
        x[2 * columns + 300] = f32::NAN;
        x[3 * columns..4 * columns].fill(1e-38);
        x[4 * columns..5 * columns].iter_mut().for_each(|x| *x *= 1e30);
        let expected = on_cpu(format, rows, columns, &file, &x);
        let got = on_gpu(&gpu, &matrix, &x);
        for (got, expected) in got.iter().zip(&expected) {
            let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
            assert!(same, "{format:?}: {got} for {expected}");
        }
    }
}

#[test]
fn rows_are_looked_up_as_the_file_has_them() {
    let options = OpenOptions {
        choice: nook_gpu::Choice::Index(0),
        binding_bytes: Some(16 << 10),
        ..OpenOptions::default()
    };
    let Some(gpu) = crate::open("rows of an embedding", options) else { return };
    let mut random = StdRng::seed_from_u64(15);
    for format in FORMATS {
        let (rows, columns) = (90, if format.elements() == 1 { 77 } else { 256 });
        let file = file_bytes(format, rows, columns, &mut random);
        let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
        let ids = [0u32, 89, 41, 41, 7];
        let wanted = Buffer::of_words(&gpu, "ids", &ids).unwrap();
        let out = Buffer::new(&gpu, "rows", ids.len() * columns).unwrap();
        let mut commands = Commands::new(&gpu);
        commands.lookup(&matrix, &wanted, ids.len(), 2.0, &out).unwrap();
        let got = commands.read_floats(&out, 0, ids.len() * columns).unwrap();
        let row_bytes = format.row_bytes(columns).unwrap();
        for (id, got) in ids.iter().zip(got.chunks_exact(columns)) {
            let mut expected = vec![0.0; columns];
            format.decode(&file[*id as usize * row_bytes..][..row_bytes], &mut expected);
            expected.iter_mut().for_each(|x| *x *= 2.0);
            let off = worst(got, &expected);
            assert!(off < 1e-6, "{format:?} row {id}: {off:.1e}");
        }
    }
}

/// Scales and numbers of these formats have so few bits that their products need no rounding.
#[test]
fn rows_without_minima_are_the_very_numbers_of_the_file() {
    let Some(gpu) = crate::gpu("numbers of the file", KernelSet::Portable) else { return };
    let mut random = StdRng::seed_from_u64(16);
    for format in FORMATS.into_iter().filter(|format| {
        format.codebook().is_some() || matches!(format, Format::Mxfp4 | Format::Tq2_0)
    }) {
        let (rows, columns) = (256, 256);
        let mut file = file_bytes(format, rows, columns, &mut random);
        if format == Format::Mxfp4 {
            // Rows of one exponent, all but the greatest, whose weights may be infinite.
            for (index, block) in file.chunks_exact_mut(format.bytes()).enumerate() {
                block[0] = (index / 8).min(250) as u8;
            }
        }
        let matrix = Matrix::new(&gpu, format, rows, columns, &file).unwrap();
        let ids: Vec<u32> = (0..rows as u32).collect();
        let wanted = Buffer::of_words(&gpu, "ids", &ids).unwrap();
        let out = Buffer::new(&gpu, "rows", rows * columns).unwrap();
        let mut commands = Commands::new(&gpu);
        commands.lookup(&matrix, &wanted, rows, 1.0, &out).unwrap();
        let got = commands.read_floats(&out, 0, rows * columns).unwrap();
        let mut expected = vec![0.0f32; rows * columns];
        format.decode(&file, &mut expected);
        for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
            // A GPU may take numbers without an exponent of their own for zero.
            let same =
                got.to_bits() == expected.to_bits() || (expected.is_subnormal() && *got == 0.0);
            assert!(same, "{format:?} number {at}: {got} for {expected}");
        }
    }
}

#[test]
fn sizes_and_formats_that_do_not_fit_are_named() {
    let Some(gpu) = crate::gpu("sizes that do not fit", KernelSet::Portable) else { return };
    assert!(Matrix::new(&gpu, Format::Q4K, 1, 300, &[]).is_err());
    assert!(Matrix::new(&gpu, Format::Q8_0, 2, 32, &[0; 67]).is_err());
    let matrix = Matrix::new(&gpu, Format::Q8_0, 2, 32, &[0; 68]).unwrap();
    let x = Buffer::of_floats(&gpu, "x", &[1.0; 32]).unwrap();
    let out = Buffer::new(&gpu, "out", 3).unwrap();
    let mut quantised = Quantised::new(&gpu, 64).unwrap();
    let mut commands = Commands::new(&gpu);
    assert!(commands.quantise(&x, 2, 32, 32, &mut quantised).is_err());
    assert!(commands.quantise(&x, 1, 32, 256, &mut quantised).is_err());
    // Not quantised yet, so in spans of no length.
    assert!(commands.product(&matrix, &x, &quantised, 1, &out).is_err());
    commands.quantise(&x, 1, 32, 32, &mut quantised).unwrap();
    assert!(commands.product(&matrix, &x, &quantised, 2, &out).is_err());
    commands.product(&matrix, &x, &quantised, 1, &out).unwrap();
    assert_eq!(commands.read_floats(&out, 0, 2).unwrap(), [0.0, 0.0]);
}

fn on_cpu(format: Format, rows: usize, columns: usize, file: &[u8], x: &[f32]) -> Vec<f32> {
    let matrix = nook_kernels::Matrix::new(Arithmetic::Bytes, format, rows, columns, file).unwrap();
    let mut out = vec![0.0; x.len() / columns * rows];
    let mut products = [Product { matrix: &matrix, out: &mut out }];
    multiply(&Compute::single(), &mut Scratch::default(), x, &mut products).unwrap();
    out
}

fn on_gpu(gpu: &Gpu, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let n = x.len() / matrix.columns();
    let input = Buffer::of_floats(gpu, "x", x).unwrap();
    let out = Buffer::new(gpu, "out", n * matrix.rows()).unwrap();
    let mut quantised = Quantised::new(gpu, x.len()).unwrap();
    let mut commands = Commands::new(gpu);
    if let Some(span) = matrix.span() {
        commands.quantise(&input, n, matrix.columns(), span, &mut quantised).unwrap();
    }
    commands.product(matrix, &input, &quantised, n, &out).unwrap();
    commands.read_floats(&out, 0, n * matrix.rows()).unwrap()
}
