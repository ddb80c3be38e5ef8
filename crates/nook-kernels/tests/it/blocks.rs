//! Blocks of every format decode to the very numbers of the reference: rows from llama.cpp, and
//! blocks that are packed here, from the description of each format.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

use half::f16;
use nook_kernels::Format;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::places;

/// The formats by the names of GGUF; F32 needs no decoding and is not among the fixtures.
const NAMES: [(&str, Format); 26] = [
    ("F32", Format::F32),
    ("F16", Format::F16),
    ("BF16", Format::Bf16),
    ("Q4_0", Format::Q4_0),
    ("Q4_1", Format::Q4_1),
    ("Q5_0", Format::Q5_0),
    ("Q5_1", Format::Q5_1),
    ("Q8_0", Format::Q8_0),
    ("Q2_K", Format::Q2K),
    ("Q3_K", Format::Q3K),
    ("Q4_K", Format::Q4K),
    ("Q5_K", Format::Q5K),
    ("Q6_K", Format::Q6K),
    ("IQ4_NL", Format::Iq4Nl),
    ("IQ4_XS", Format::Iq4Xs),
    ("MXFP4", Format::Mxfp4),
    ("NVFP4", Format::Nvfp4),
    ("TQ1_0", Format::Tq1_0),
    ("TQ2_0", Format::Tq2_0),
    ("IQ1_S", Format::Iq1S),
    ("IQ1_M", Format::Iq1M),
    ("IQ2_XXS", Format::Iq2Xxs),
    ("IQ2_XS", Format::Iq2Xs),
    ("IQ2_S", Format::Iq2S),
    ("IQ3_XXS", Format::Iq3Xxs),
    ("IQ3_S", Format::Iq3S),
];

#[test]
fn blocks_decode_to_the_numbers_of_the_reference_to_the_bit() {
    let folder = places::fixture("quant");
    let about = std::fs::read_to_string(folder.join("blocks.json")).unwrap();
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    let encoded = std::fs::read(folder.join("blocks.bin")).unwrap();
    let expected = std::fs::read(folder.join("blocks-expected.f32")).unwrap();
    let (expected, _) = expected.as_chunks::<4>();
    let types = about["types"].as_object().unwrap();
    assert_eq!(types.len(), NAMES.len() - 1);
    for (name, facts) in types {
        let (_, format) = NAMES.iter().find(|(known, _)| known == name).unwrap();
        let number = |key: &str| facts[key].as_u64().unwrap() as usize;
        assert_eq!(
            (number("block_elems"), number("block_bytes")),
            (format.elements(), format.bytes())
        );
        let bytes = &encoded[number("bytes_offset")..][..number("bytes_len")];
        let mut got = vec![0.0; number("rows") * number("cols")];
        assert_eq!(format.row_bytes(number("cols")).unwrap() * number("rows"), bytes.len());
        format.decode(bytes, &mut got);
        let expected = &expected[number("expected_offset_f32")..][..got.len()];
        let expected: Vec<f32> = expected.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_same(name, &got, &expected);
    }
}

/// Each block of a row is decoded by itself, whatever lies beside it.
#[test]
fn a_row_is_decoded_block_by_block() {
    let mut random = StdRng::seed_from_u64(2);
    for (name, format) in NAMES {
        let mut bytes = vec![0; 3 * format.bytes()];
        random.fill_bytes(&mut bytes);
        let mut row = vec![0.0; 3 * format.elements()];
        format.decode(&bytes, &mut row);
        let mut single = vec![0.0; format.elements()];
        let blocks = bytes.chunks_exact(format.bytes());
        for (block, expected) in blocks.zip(row.chunks_exact(format.elements())) {
            format.decode(block, &mut single);
            assert_same(name, &single, expected);
        }
    }
}

#[test]
fn every_format_is_named_once() {
    assert_eq!(NAMES.len(), Format::ALL.len());
    for format in Format::ALL {
        assert_eq!(NAMES.iter().filter(|(_, named)| *named == format).count(), 1, "{format:?}");
    }
}

/// Numbers of known small parts, packed into a block as the format says.
struct Packed {
    block: Vec<u8>,
    expected: Vec<f32>,
}

/// Sets `bits` bits of `value` at bit `at` of `bytes`, counted from the lowest bit of the first
/// byte.
fn put(bytes: &mut [u8], at: usize, bits: usize, value: usize) {
    for bit in 0..bits {
        let at = at + bit;
        bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
    }
}

fn put_half(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// `count` random numbers below `below`.
fn choices(count: usize, below: usize, random: &mut StdRng) -> Vec<usize> {
    (0..count).map(|_| random.random_range(0..below)).collect()
}

/// Where bit pair `i` of 256 lies in its 64 bytes: number 128 h + 32 q + l is pair q of byte 32 h +
/// l.
fn pair(i: usize) -> usize {
    8 * (32 * (i / 128) + i % 32) + 2 * (i / 32 % 4)
}

/// Where nibble `i` of a part of `2 * half` numbers lies: low nibbles first, then high ones.
fn nibble(i: usize, half: usize) -> usize {
    8 * (i % half) + 4 * (i / half)
}

fn q2k(random: &mut StdRng) -> Packed {
    let (q, scales, minima) =
        (choices(256, 4, random), choices(16, 16, random), choices(16, 16, random));
    let mut block = vec![0; 84];
    for i in 0..16 {
        put(&mut block, 8 * i, 4, scales[i]);
        put(&mut block, 8 * i + 4, 4, minima[i]);
    }
    (0..256).for_each(|i| put(&mut block[16..80], pair(i), 2, q[i]));
    put_half(&mut block, 80, 0.75);
    put_half(&mut block, 82, 0.625);
    let number =
        |i: usize| 0.75 * scales[i / 16] as f32 * q[i] as f32 - 0.625 * minima[i / 16] as f32;
    Packed { block, expected: (0..256).map(number).collect() }
}

fn q3k(random: &mut StdRng) -> Packed {
    let (q, scales) = (choices(256, 8, random), choices(16, 64, random));
    let mut block = vec![0; 110];
    for (i, q) in q.iter().enumerate() {
        put(&mut block, 8 * (i % 32) + i / 32, 1, q >> 2);
        put(&mut block[32..96], pair(i), 2, q & 3);
    }
    for (j, scale) in scales.iter().enumerate() {
        put(&mut block[96..104], 8 * (j % 8) + 4 * (j / 8), 4, scale & 15);
        put(&mut block[104..108], 8 * (j % 4) + 2 * (j / 4), 2, scale >> 4);
    }
    put_half(&mut block, 108, -0.5);
    let number = |i: usize| -0.5 * (scales[i / 16] as f32 - 32.0) * (q[i] as f32 - 4.0);
    Packed { block, expected: (0..256).map(number).collect() }
}

/// The uneven values, written a second time on purpose.
const BELL: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];
const FOUR_BIT_FLOATS: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

fn iq4_nl(random: &mut StdRng) -> Packed {
    let q = choices(32, 16, random);
    let mut block = vec![0; 18];
    put_half(&mut block, 0, 0.375);
    (0..32).for_each(|i| put(&mut block[2..], nibble(i, 16), 4, q[i]));
    Packed { block, expected: q.iter().map(|q| 0.375 * BELL[*q]).collect() }
}

fn iq4_xs(random: &mut StdRng) -> Packed {
    let (q, scales) = (choices(256, 16, random), choices(8, 64, random));
    let mut block = vec![0; 136];
    put_half(&mut block, 0, 0.25);
    for (j, scale) in scales.iter().enumerate() {
        put(&mut block[2..4], 2 * j, 2, scale >> 4);
        put(&mut block[4..8], 4 * j, 4, scale & 15);
        let part = &mut block[8 + 16 * j..][..16];
        (0..32).for_each(|i| put(part, nibble(i, 16), 4, q[32 * j + i]));
    }
    let number = |i: usize| 0.25 * (scales[i / 32] as f32 - 32.0) * BELL[q[i]];
    Packed { block, expected: (0..256).map(number).collect() }
}

fn mxfp4(random: &mut StdRng) -> Packed {
    let q = choices(32, 16, random);
    let exponent = random.random_range(0..252u8);
    let mut block = vec![exponent; 1];
    block.resize(17, 0);
    (0..32).for_each(|i| put(&mut block[1..], nibble(i, 16), 4, q[i]));
    let scale = 2f64.powi(i32::from(exponent) - 127);
    let number = |q: &usize| (scale * f64::from(FOUR_BIT_FLOATS[*q])) as f32;
    Packed { block, expected: q.iter().map(number).collect() }
}

fn nvfp4(random: &mut StdRng) -> Packed {
    let (q, scales) = (choices(64, 16, random), choices(4, 0x7f, random));
    let mut block: Vec<u8> = scales.iter().map(|scale| *scale as u8).collect();
    block.resize(36, 0);
    for (i, q) in q.iter().enumerate() {
        let part = &mut block[4 + 8 * (i / 16)..][..8];
        put(part, nibble(i % 16, 8), 4, *q);
    }
    let scale = |scale: usize| match (scale / 8, scale % 8) {
        (0, mantissa) => mantissa as f32 / 512.0,
        (exponent, mantissa) => (1.0 + mantissa as f32 / 8.0) * 2f32.powi(exponent as i32 - 7),
    };
    let number = |i: usize| scale(scales[i / 16]) * FOUR_BIT_FLOATS[q[i]];
    Packed { block, expected: (0..64).map(number).collect() }
}

fn tq1_0(random: &mut StdRng) -> Packed {
    let q = choices(256, 3, random);
    let mut block = vec![0; 54];
    // (first number, bytes from, bytes, digits of a byte)
    for (first, from, bytes, digits) in [(0, 0, 32, 5), (160, 32, 16, 5), (240, 48, 4, 4)] {
        for byte in 0..bytes {
            let digit = |n: usize| if n < digits { q[first + bytes * n + byte] } else { 0 };
            let number = (0..5).fold(0, |number, n| 3 * number + digit(n));
            block[from + byte] = (number * 256).div_ceil(243) as u8;
        }
    }
    put_half(&mut block, 52, 1.5);
    Packed { block, expected: q.iter().map(|q| 1.5 * (*q as f32 - 1.0)).collect() }
}

fn tq2_0(random: &mut StdRng) -> Packed {
    let q = choices(256, 3, random);
    let mut block = vec![0; 66];
    (0..256).for_each(|i| put(&mut block, pair(i), 2, q[i]));
    put_half(&mut block, 64, -2.5);
    Packed { block, expected: q.iter().map(|q| -2.5 * (*q as f32 - 1.0)).collect() }
}

#[test]
fn what_was_packed_comes_out() {
    let mut random = StdRng::seed_from_u64(3);
    for round in 0..50 {
        for (name, format, pack) in [
            ("Q2_K", Format::Q2K, q2k as fn(&mut StdRng) -> Packed),
            ("Q3_K", Format::Q3K, q3k),
            ("IQ4_NL", Format::Iq4Nl, iq4_nl),
            ("IQ4_XS", Format::Iq4Xs, iq4_xs),
            ("MXFP4", Format::Mxfp4, mxfp4),
            ("NVFP4", Format::Nvfp4, nvfp4),
            ("TQ1_0", Format::Tq1_0, tq1_0),
            ("TQ2_0", Format::Tq2_0, tq2_0),
        ] {
            let Packed { block, expected } = pack(&mut random);
            let mut got = vec![0.0; format.elements()];
            assert_eq!(block.len(), format.bytes(), "{name}");
            format.decode(&block, &mut got);
            // Zero has a sign that carries nothing.
            let plain = |numbers: &[f32]| numbers.iter().map(|n| n + 0.0).collect::<Vec<_>>();
            assert_same(&format!("{name}, round {round}"), &plain(&got), &plain(&expected));
        }
    }
}

/// Blocks of zeros but for a few bits, whose numbers follow from a row of the codebook by hand.
#[test]
fn rows_are_chosen_scaled_and_signed() {
    // (format, bits: first, how many, value; numbers from, numbers), with a scale `d` of 8.
    type Case = (Format, &'static [(usize, usize, usize)], usize, [f32; 8]);
    const D: usize = 0x4800;
    let cases: [Case; 9] = [
        // Part 3, row 2 of it: row 1 of the book is 43 and seven times 8; scale (0.5 + 2) / 4.
        (
            Format::Iq2Xxs,
            &[(0, 16, D), (8 * 26 + 16, 8, 1), (8 * 30 + 14, 7, 0b11), (8 * 30 + 28, 4, 2)],
            112,
            [-215.0, -40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 40.0],
        ),
        // One sign of seven: the eighth is negative too.
        (
            Format::Iq2Xxs,
            &[(0, 16, D), (8 * 6, 7, 0b100)],
            0,
            [8.0, 8.0, -8.0, 8.0, 8.0, 8.0, 8.0, -8.0],
        ),
        // Rows 30 and 31 have the high scale of the last part: (0.5 + 15) / 4.
        (
            Format::Iq2Xs,
            &[(0, 16, D), (8 * (2 + 62), 9, 0), (8 * (2 + 62) + 9, 7, 0b1), (8 * 73 + 4, 4, 15)],
            248,
            [-248.0, 248.0, 248.0, 248.0, 248.0, 248.0, 248.0, -248.0],
        ),
        (
            Format::Iq2S,
            &[(0, 16, D), (8 * 34, 8, 0b1000_0001), (8 * 74, 4, 1)],
            0,
            [-24.0, 24.0, 24.0, 24.0, 24.0, 24.0, 24.0, -24.0],
        ),
        // Row 1 of this book is 20 and three times 4; scale 0.5 / 2.
        (
            Format::Iq3Xxs,
            &[(0, 16, D), (8 * 3, 8, 1), (8 * 66, 7, 0b11)],
            0,
            [-8.0, -8.0, 8.0, 8.0, 40.0, 8.0, 8.0, 8.0],
        ),
        (
            Format::Iq3S,
            &[(0, 16, D), (8 * 74, 8, 0b10), (8 * 106, 4, 3)],
            0,
            [56.0, -56.0, 56.0, 56.0, 56.0, 56.0, 56.0, 56.0],
        ),
        // Row 0 is eight times -1; the shift is added, or taken where its bit is set.
        (Format::Iq1S, &[(0, 16, D)], 0, [-7.0; 8]),
        (Format::Iq1S, &[(0, 16, D), (8 * 36 + 12, 3, 2), (8 * 36 + 15, 1, 1)], 32, [-45.0; 8]),
        // `d` is spread over the top nibbles of the scales.
        (
            Format::Iq1M,
            &[(8 * 54 + 12, 4, 4), (8 * 52 + 12, 4, 8), (8 * 33 + 3, 1, 1), (8 * 48 + 3, 3, 1)],
            16,
            [-27.0; 8],
        ),
    ];
    for (index, (format, bits, from, expected)) in cases.into_iter().enumerate() {
        let mut block = vec![0; format.bytes()];
        for (at, count, value) in bits {
            put(&mut block, *at, *count, *value);
        }
        let mut got = vec![0.0; 256];
        format.decode(&block, &mut got);
        assert_same(&format!("case {index}"), &got[from..from + 8], &expected);
    }
}

fn assert_same(name: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{name}");
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.to_bits(), expected.to_bits(), "{name} {index}: {got} {expected}");
    }
}
