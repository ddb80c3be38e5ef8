//! Every instruction set, thread count, number of rows and neighbour gives the bits of the one
//! definition of a product, written out again here; and packed weights decode to the very numbers
//! of the file.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use nook_kernels::{
    Arithmetic, Compute, Format, Isa, Matrix, MatrixError, Product, Scratch, multiply,
};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

fn numbers(count: usize, random: &mut StdRng) -> Vec<f32> {
    (0..count).map(|_| random.random_range(-2.0f32..2.0)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Random bytes, but no scale that is infinite or NaN: what would be compared is then the payload.
fn file_bytes(format: Format, rows: usize, columns: usize, random: &mut StdRng) -> Vec<u8> {
    let mut bytes = vec![0; rows * format.row_bytes(columns).unwrap()];
    random.fill_bytes(&mut bytes);
    let exponent_ends: &[usize] = match format {
        Format::F32 => &[3],
        Format::F16 | Format::Bf16 | Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => &[1],
        Format::Q6K => &[209],
        Format::Q3K | Format::Iq3S => &[109, 1],
        Format::Q2K => &[81, 83],
        Format::Tq1_0 => &[53],
        Format::Tq2_0 => &[65],
        Format::Iq1M => &[55],
        Format::Mxfp4 => {
            // One exponent after another, but for the greatest, whose sums would be infinite.
            let first = random.random_range(0..192);
            for (index, block) in bytes.chunks_exact_mut(format.bytes()).enumerate() {
                block[0] = ((first + index) % 192) as u8;
            }
            &[]
        }
        Format::Nvfp4 => &[0, 1, 2, 3],
        _ => &[1, 3],
    };
    for block in bytes.chunks_exact_mut(format.bytes()) {
        for at in exponent_ends {
            block[*at] &= 0xbf;
        }
    }
    bytes
}

/// One block of a row: weights are `d * scale * q - m * minimum`; or 32 numbers of NVFP4.
struct Apart {
    d: f32,
    m: f32,
    /// `d * scale` of both halves of NVFP4.
    halves: Option<[f32; 2]>,
    pieces: Vec<Piece>,
}

/// `scale`, `minimum` and `q`.
type Piece = (i32, i32, Vec<i32>);

/// What nibbles stand for in `IQ4_NL` and `IQ4_XS`.
fn bell(nibbles: Vec<i32>) -> Vec<i32> {
    let values = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    nibbles.iter().map(|q| values[*q as usize]).collect()
}

/// Twice what nibbles stand for in `MXFP4`.
fn four_bit_floats(nibbles: Vec<i32>) -> Vec<i32> {
    let values = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    nibbles.iter().map(|q| values[*q as usize]).collect()
}

/// Scale of a unit of `IQ4_XS`.
fn uneven_scale(block: &[u8], unit: usize) -> i32 {
    let low = block[4 + unit / 2] >> (4 * (unit % 2)) & 15;
    let high = u16::from_le_bytes([block[2], block[3]]) >> (2 * unit) & 3;
    i32::from(u16::from(low) | high << 4) - 32
}

/// Numbers of a unit of `TQ1_0` or `TQ2_0`.
fn ternary(format: Format, block: &[u8], unit: usize) -> Vec<i32> {
    if format == Format::Tq1_0 {
        return (0..32).map(|k| digit_of_fraction(block, 32 * unit + k)).collect();
    }
    let bytes = &block[32 * (unit / 4)..][..32];
    bytes.iter().map(|byte| i32::from(byte >> (2 * (unit % 4)) & 3) - 1).collect()
}

/// Both halves of a block of NVFP4, each with its scales.
fn scaled_halves(block: &[u8]) -> Vec<Apart> {
    let scale = |byte: u8| match (byte, i32::from(byte >> 3) & 15, f32::from(byte & 7)) {
        (0x7f, ..) => 0.0,
        (_, 0, mantissa) => mantissa * 2f32.powi(-10),
        (_, exponent, mantissa) => (8.0 + mantissa) * 2f32.powi(exponent - 11),
    };
    let numbers = |piece: usize| {
        let bytes = &block[4 + 8 * piece..][..8];
        let low = bytes.iter().map(|b| i32::from(b & 15));
        four_bit_floats(low.chain(bytes.iter().map(|b| i32::from(b >> 4))).collect())
    };
    let half = |piece: usize| Apart {
        d: 0.0,
        m: 0.0,
        halves: Some([scale(block[piece]), scale(block[piece + 1])]),
        pieces: vec![(1, 0, numbers(piece)), (1, 0, numbers(piece + 1))],
    };
    vec![half(0), half(2)]
}

/// Ternary digit of a column of `TQ1_0`, which is a fraction of 243 in the file.
fn digit_of_fraction(block: &[u8], column: usize) -> i32 {
    let (at, place) = match column {
        0..160 => (column % 32, column / 32),
        160..240 => (32 + column % 16, (column - 160) / 16),
        _ => (48 + column % 4, (column - 240) / 4),
    };
    let shifted = u32::from(block[at]) * 3u32.pow(place as u32);
    ((shifted % 256) * 3 / 256) as i32 - 1
}

/// Takes one row of file blocks apart, from the layouts of llama.cpp's `ggml-common.h`.
fn take_apart(format: Format, row: &[u8]) -> Vec<Apart> {
    if format == Format::Nvfp4 {
        return row.chunks_exact(format.bytes()).flat_map(scaled_halves).collect();
    }
    let half =
        |bytes: &[u8], at: usize| half::f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32();
    let mut blocks = Vec::new();
    for block in row.chunks_exact(format.bytes()) {
        let (mut d, mut m, mut pieces) = (half(block, 0), 0.0, Vec::new());
        let nibbles = |at: usize| -> Vec<i32> {
            let bytes = &block[at..at + 16];
            let low = bytes.iter().map(|b| i32::from(b & 15));
            low.chain(bytes.iter().map(|b| i32::from(b >> 4))).collect()
        };
        let fifth = |at: usize, q: Vec<i32>| -> Vec<i32> {
            let bits = u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
            q.iter().enumerate().map(|(i, q)| q | (((bits >> i) & 1) << 4) as i32).collect()
        };
        let less = |zero: i32, q: Vec<i32>| -> Vec<i32> { q.iter().map(|q| q - zero).collect() };
        match format {
            Format::Q4_0 => pieces.push((1, 0, less(8, nibbles(2)))),
            Format::Q4_1 => {
                m = -half(block, 2);
                pieces.push((1, 1, nibbles(4)));
            }
            Format::Q5_0 => pieces.push((1, 0, less(16, fifth(2, nibbles(6))))),
            Format::Q5_1 => {
                m = -half(block, 2);
                pieces.push((1, 1, fifth(4, nibbles(8))));
            }
            Format::Q8_0 => {
                let q = block[2..34].iter().map(|q| i32::from(*q as i8)).collect();
                pieces.push((1, 0, q));
            }
            Format::Q4K | Format::Q5K => {
                m = half(block, 2);
                pieces = (0..8).map(|unit| nibbles_of_super_block(format, block, unit)).collect();
            }
            Format::Q6K => {
                d = half(block, 208);
                pieces = (0..16).map(|piece| six_bits(block, piece)).collect();
            }
            Format::Q2K => {
                (d, m) = (half(block, 80), half(block, 82));
                pieces = (0..16).map(|piece| two_bits(block, piece)).collect();
            }
            Format::Q3K => {
                d = half(block, 108);
                pieces = (0..16).map(|piece| three_bits(block, piece)).collect();
            }
            Format::Iq4Nl => pieces.push((1, 0, bell(nibbles(2)))),
            Format::Mxfp4 => {
                d = 2f64.powi(i32::from(block[0]) - 128) as f32;
                pieces.push((1, 0, four_bit_floats(nibbles(1))));
            }
            Format::Tq1_0 | Format::Tq2_0 => {
                d = half(block, if format == Format::Tq1_0 { 52 } else { 64 });
                pieces = (0..8).map(|unit| (1, 0, ternary(format, block, unit))).collect();
            }
            Format::Iq4Xs => {
                let scale = |unit| uneven_scale(block, unit);
                pieces = (0..8).map(|u| (scale(u), 0, bell(nibbles(8 + 16 * u)))).collect();
            }
            _ => (d, pieces) = codes(format, block),
        }
        blocks.push(Apart { d, m, halves: None, pieces });
    }
    blocks
}

/// Unit `unit` of a block of `Q4_K` or `Q5_K`.
fn nibbles_of_super_block(format: Format, block: &[u8], unit: usize) -> Piece {
    let packed = &block[4..16];
    let (scale, minimum) = if unit < 4 {
        (packed[unit] & 63, packed[unit + 4] & 63)
    } else {
        let low = packed[unit + 4];
        let (s, m) = (packed[unit - 4] >> 6, packed[unit] >> 6);
        ((low & 15) | s << 4, (low >> 4) | m << 4)
    };
    let at = if format == Format::Q4K { 16 } else { 48 };
    let q = (0..32).map(|i| {
        let nibble = (block[at + 32 * (unit / 2) + i] >> (4 * (unit % 2))) & 15;
        let fifth = (block[16 + i] >> unit) & 1;
        let fifth = if format == Format::Q5K { fifth << 4 } else { 0 };
        i32::from(nibble | fifth)
    });
    (i32::from(scale), i32::from(minimum), q.collect())
}

/// Piece `piece` of a block of `Q6_K`.
fn six_bits(block: &[u8], piece: usize) -> Piece {
    let q = (0..16).map(|i| {
        let k = 16 * piece + i;
        let (side, quarter, i) = (k / 128, k % 128 / 32, k % 32);
        let low = block[64 * side + 32 * (quarter % 2) + i] >> (4 * (quarter / 2));
        let high = block[128 + 32 * side + i] >> (2 * quarter);
        i32::from((low & 15) | (high & 3) << 4) - 32
    });
    (i32::from(block[192 + piece] as i8), 0, q.collect())
}

/// Piece `piece` of a block of `Q2_K`.
fn two_bits(block: &[u8], piece: usize) -> Piece {
    let q = (0..16).map(|i| {
        let k = 16 * piece + i;
        i32::from(block[16 + 32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32))) & 3
    });
    let (scale, minimum) = (block[piece] & 15, block[piece] >> 4);
    (i32::from(scale), i32::from(minimum), q.collect())
}

/// Piece `piece` of a block of `Q3_K`.
fn three_bits(block: &[u8], piece: usize) -> Piece {
    let q = (0..16).map(|i| {
        let k = 16 * piece + i;
        let low = block[32 + 32 * (k / 128) + k % 32] >> (2 * (k % 128 / 32));
        let high = block[k % 32] >> (k / 32);
        i32::from((low & 3) | (high & 1) << 2) - 4
    });
    let low = block[96 + piece % 8] >> (4 * (piece / 8)) & 15;
    let high = block[104 + piece % 4] >> (2 * (piece / 4)) & 3;
    let scale = i16::from(low | high << 4) - 32;
    (i32::from(scale), 0, q.collect())
}

/// A block of `IQ1`, `IQ2` or `IQ3`: `d`, and its 32 pieces of eight numbers.
fn codes(format: Format, block: &[u8]) -> (f32, Vec<Piece>) {
    let bytes = match format {
        Format::Iq1M => [block[49] >> 4 | block[51] & 0xf0, block[53] >> 4 | block[55] & 0xf0],
        _ => [block[0], block[1]],
    };
    let d = half::f16::from_le_bytes(bytes).to_f32();
    let fraction = match format {
        Format::Iq1S | Format::Iq1M | Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S => 0.125,
        Format::Iq3Xxs => 0.25,
        Format::Iq3S => 1.0,
        other => unreachable!("{other:?} is not packed"),
    };
    (d * fraction, (0..32).map(|i| eight_of_codebook(format, block, i)).collect())
}

/// Numbers `8 * i..8 * i + 8` of such a block.
fn eight_of_codebook(format: Format, block: &[u8], i: usize) -> Piece {
    let short = |at: usize| usize::from(u16::from_le_bytes([block[at], block[at + 1]]));
    let word = |at: usize| short(at) | short(at + 2) << 16;
    let byte = |at: usize| usize::from(block[at]);
    let seven = |signs: usize| (signs & 127) | ((signs & 127).count_ones() as usize % 2) << 7;
    let (part, k) = (i / 4, i % 4);
    if matches!(format, Format::Iq1S | Format::Iq1M) {
        let (low, high, scale, down) = if format == Format::Iq1S {
            let packed = short(34 + 2 * part);
            (byte(2 + i), packed >> (3 * k) & 7, packed >> 12 & 7, packed >> 15)
        } else {
            let scales = short(48 + 2 * (part / 2));
            let nibble = byte(32 + i / 2) >> (4 * (i % 2));
            (byte(i), nibble & 7, scales >> (3 * (i / 2 % 4)) & 7, nibble >> 3 & 1)
        };
        let row = i32::from(format.codebook().unwrap()[low | high << 8]);
        let q = (0..8).map(|j| 8 * ((row >> (2 * j) & 3) - 1) + 1 - 2 * down as i32);
        return (2 * scale as i32 + 1, 0, q.collect());
    }
    let (rows, signs, scale) = match format {
        Format::Iq2Xxs => {
            let packed = word(6 + 8 * part);
            (vec![byte(2 + 8 * part + k)], seven(packed >> (7 * k)), packed >> 28)
        }
        Format::Iq2Xs => {
            let packed = short(2 + 2 * i);
            (vec![packed & 511], seven(packed >> 9), byte(66 + part) >> (4 * (k / 2)) & 15)
        }
        Format::Iq2S => {
            let row = byte(2 + i) | (byte(66 + part) >> (2 * k) & 3) << 8;
            (vec![row], byte(34 + i), byte(74 + part) >> (4 * (k / 2)) & 15)
        }
        Format::Iq3Xxs => {
            let packed = word(66 + 4 * part);
            (vec![byte(2 + 2 * i), byte(3 + 2 * i)], seven(packed >> (7 * k)), packed >> 28)
        }
        _ => {
            let row = |j: usize| byte(2 + 2 * i + j) | (byte(66 + part) >> (2 * k + j) & 1) << 8;
            (vec![row(0), row(1)], byte(74 + i), byte(106 + i / 8) >> (4 * (part % 2)) & 15)
        }
    };
    let (bits, values): (_, &[i32]) = match format {
        Format::Iq3Xxs => (3, &[4, 12, 20, 28, 36, 44, 52, 62]),
        Format::Iq3S => (3, &[1, 3, 5, 7, 9, 11, 13, 15]),
        _ => (2, &[8, 25, 43]),
    };
    let book = format.codebook().unwrap();
    let each = 8 / rows.len();
    let value = |j: usize| {
        let choice = usize::from(book[rows[j / each]]) >> (bits * (j % each)) & ((1 << bits) - 1);
        if signs >> j & 1 == 1 { -values[choice] } else { values[choice] }
    };
    (2 * scale as i32 + 1, 0, (0..8).map(value).collect())
}

/// The product of one row with one row of activations, as `nook_kernels` documents it.
fn quantised_product(weights: &[Apart], x: &[f32]) -> f32 {
    let mut sum = 0.0f32;
    let spans = x.chunks_exact(x.len() / weights.len());
    for (Apart { d, m, halves, pieces }, span) in weights.iter().zip(spans) {
        let greatest = span.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let (inverse, dx) = (127.0 / greatest, greatest / 127.0);
        let xs: Vec<i32> = span.iter().map(|x| (x * inverse).round_ties_even() as i32).collect();
        if let Some(scales) = halves {
            let [before, after] = [0, 1].map(|half| {
                let q = pieces[half].2.iter().zip(&xs[16 * half..]);
                q.map(|(q, x)| q * x).sum::<i32>() as f32 * scales[half]
            });
            sum += (before + after) * dx;
            continue;
        }
        let (mut i, mut j) = (0, 0);
        for ((scale, minimum, q), xs) in pieces.iter().zip(xs.chunks(xs.len() / pieces.len())) {
            i += scale * q.iter().zip(xs).map(|(q, x)| q * x).sum::<i32>();
            j += minimum * xs.iter().sum::<i32>();
        }
        // Where a format has no minima, `m` is zero and nothing is taken away.
        let (most, least) = (i as f32, j as f32);
        sum += match (pieces.len(), *m == 0.0) {
            (1, true) => most * (d * dx),
            (1, false) => most * (d * dx) - m * (least * dx),
            (_, true) => most * d * dx,
            (_, false) => (most * d - least * m) * dx,
        };
    }
    sum
}

/// A product with f32 activations: 32 accumulators, added by halves.
fn float_product(weights: &[f32], x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 32];
    for (i, (w, x)) in weights.iter().zip(x).enumerate() {
        let product = w * x;
        lanes[i % 32] += product;
    }
    for width in [16, 8, 4, 2, 1] {
        for l in 0..width {
            lanes[l] += lanes[l + width];
        }
    }
    lanes[0]
}

const PACKED: [Format; 23] = [
    Format::Nvfp4,
    Format::Tq1_0,
    Format::Iq1S,
    Format::Iq1M,
    Format::Iq2Xxs,
    Format::Iq2Xs,
    Format::Iq2S,
    Format::Iq3Xxs,
    Format::Iq3S,
    Format::Mxfp4,
    Format::Tq2_0,
    Format::Q2K,
    Format::Q3K,
    Format::Iq4Nl,
    Format::Iq4Xs,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q8_0,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn products_are_those_of_single_rows_everywhere(
        format in prop::sample::select(&Format::ALL[..]),
        blocks in 1usize..5,
        rows in 1usize..130,
        n in 1usize..27,
        arithmetic in prop::sample::select(&[Arithmetic::Bytes, Arithmetic::Floats][..]),
        seed: u64,
    ) {
        products_are_those_of_single_rows(format, blocks, rows, n, arithmetic, seed);
    }

    #[test]
    fn packed_rows_decode_to_the_numbers_of_the_file(
        format in prop::sample::select(&Format::ALL[..]),
        blocks in 1usize..4,
        rows in 1usize..40,
        seed: u64,
    ) {
        let mut random = StdRng::seed_from_u64(seed);
        let columns = format.elements() * blocks;
        let bytes = file_bytes(format, rows, columns, &mut random);
        let matrix = Matrix::new(Arithmetic::Bytes, format, rows, columns, &bytes).unwrap();
        let row_bytes = format.row_bytes(columns).unwrap();
        for row in 0..rows {
            let (mut got, mut expected) = (vec![0.0; columns], vec![0.0; columns]);
            matrix.decode(row, &mut got).unwrap();
            format.decode(&bytes[row * row_bytes..][..row_bytes], &mut expected);
            prop_assert_eq!(bits(&got), bits(&expected), "{:?} row {}", format, row);
        }
    }
}

/// The shapes are such that rows of one block of MXFP4 have every exponent.
#[test]
fn products_of_every_packed_format_are_those_of_single_rows() {
    assert!(Format::ALL.iter().all(|format| format.is_packed() == PACKED.contains(format)));
    for format in PACKED {
        for (blocks, rows, n) in [(1, 200, 1), (3, 37, 11)] {
            products_are_those_of_single_rows(format, blocks, rows, n, Arithmetic::Bytes, 3);
        }
    }
}

#[track_caller]
fn products_are_those_of_single_rows(
    format: Format,
    blocks: usize,
    rows: usize,
    n: usize,
    arithmetic: Arithmetic,
    seed: u64,
) {
    let mut random = StdRng::seed_from_u64(seed);
    let columns = match format.elements() {
        1 => 57 * blocks,
        elements => elements * blocks,
    };
    let bytes = file_bytes(format, rows, columns, &mut random);
    let input = numbers(n * columns, &mut random);
    let packed = arithmetic == Arithmetic::Bytes && PACKED.contains(&format);
    let mut expected = Vec::new();
    for x in input.chunks_exact(columns) {
        for row in bytes.chunks_exact(format.row_bytes(columns).unwrap()) {
            expected.push(if packed {
                quantised_product(&take_apart(format, row), x)
            } else {
                let mut weights = vec![0.0; columns];
                format.decode(row, &mut weights);
                float_product(&weights, x)
            });
        }
    }
    let matrix = Matrix::new(arithmetic, format, rows, columns, &bytes).unwrap();
    for isa in Isa::available() {
        for threads in [1, 3] {
            let compute = Compute::with_isa(threads, isa).unwrap();
            let mut out = vec![f32::NAN; n * rows];
            let mut products = [Product { matrix: &matrix, out: &mut out }];
            multiply(&compute, &mut Scratch::default(), &input, &mut products).unwrap();
            assert_eq!(bits(&out), bits(&expected), "{format:?} {isa:?} {threads}");
        }
    }
}

#[test]
fn several_products_in_one_go_are_those_of_each() {
    let mut random = StdRng::seed_from_u64(7);
    let (columns, n) = (512, 11);
    let input = numbers(n * columns, &mut random);
    let shapes = [(Format::Q4K, 96), (Format::Q6K, 33), (Format::F32, 20), (Format::Q8_0, 1)];
    let matrices = shapes.map(|(format, rows)| {
        let bytes = file_bytes(format, rows, columns, &mut random);
        Matrix::new(Arithmetic::Bytes, format, rows, columns, &bytes).unwrap()
    });
    let compute = Compute::new(3).unwrap();
    let mut scratch = Scratch::default();
    let mut together: Vec<Vec<f32>> = matrices.iter().map(|m| vec![0.0; n * m.rows()]).collect();
    let mut products: Vec<Product<'_>> =
        matrices.iter().zip(&mut together).map(|(matrix, out)| Product { matrix, out }).collect();
    multiply(&compute, &mut scratch, &input, &mut products).unwrap();
    for (matrix, together) in matrices.iter().zip(&together) {
        let mut alone = vec![0.0; n * matrix.rows()];
        let mut product = [Product { matrix, out: &mut alone }];
        multiply(&compute, &mut scratch, &input, &mut product).unwrap();
        assert_eq!(bits(&alone), bits(together), "{matrix:?}");
    }
}

/// But for the ternary digits of TQ1_0, which take two bits each where the file has 1.6.
#[test]
fn packing_takes_at_most_a_twentieth_more_than_the_file() {
    for format in Format::ALL {
        let (rows, columns) = (64, 512);
        let bytes = vec![0; rows * format.row_bytes(columns).unwrap()];
        let file = bytes.len();
        let held = Matrix::new(Arithmetic::Bytes, format, rows, columns, &bytes).unwrap().bytes();
        let most = if format == Format::Tq1_0 { file * 5 / 4 } else { file * 21 / 20 };
        assert!(held <= most, "{format:?}: {held} for {file}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    assert_eq!(
        Matrix::new(Arithmetic::Bytes, Format::Q4K, 1, 300, &[]).unwrap_err(),
        MatrixError::Columns { columns: 300, block: 256 }
    );
    assert_eq!(
        Matrix::new(Arithmetic::Bytes, Format::Q8_0, 2, 32, &[0; 67]).unwrap_err(),
        MatrixError::Bytes { expected: 68, got: 67 }
    );
    let matrix = Matrix::new(Arithmetic::Bytes, Format::Q8_0, 2, 32, &[0; 68]).unwrap();
    let compute = Compute::new(1).unwrap();
    let try_sizes = |x: usize, out: usize| {
        let mut out = vec![0.0; out];
        let mut products = [Product { matrix: &matrix, out: &mut out }];
        multiply(&compute, &mut Scratch::default(), &vec![0.0; x], &mut products)
    };
    assert_eq!(try_sizes(33, 2), Err(MatrixError::Activations { columns: 32, got: 33 }));
    assert_eq!(try_sizes(64, 3), Err(MatrixError::Output { expected: 4, got: 3 }));
    assert_eq!(try_sizes(0, 0), Ok(()));
    assert_eq!(matrix.decode(2, &mut [0.0; 32]), Err(MatrixError::Row { row: 2, rows: 2 }));
}

#[test]
fn a_fault_in_the_activations_shows_in_every_product_that_meets_it() {
    let mut random = StdRng::seed_from_u64(1);
    let bytes = file_bytes(Format::Q4_0, 20, 64, &mut random);
    let matrix = Matrix::new(Arithmetic::Bytes, Format::Q4_0, 20, 64, &bytes).unwrap();
    for isa in Isa::available() {
        let compute = Compute::with_isa(1, isa).unwrap();
        let mut input = numbers(2 * 64, &mut random);
        input[64 + 5] = f32::INFINITY;
        let mut out = vec![0.0; 40];
        let mut products = [Product { matrix: &matrix, out: &mut out }];
        multiply(&compute, &mut Scratch::default(), &input, &mut products).unwrap();
        assert!(out[..20].iter().all(|x| x.is_finite()) && out[20..].iter().all(|x| x.is_nan()));
    }
}
