//! Rows of the formats whose blocks have codes (see [`super::super`]): what belongs to 32 columns is
//! put together, whole words first.

use nook_kernels::Format;

use super::super::{Layout, Sections, UNIT};

/// What belongs to 32 columns of a block.
struct Part {
    /// As many as the layout says.
    words: [u32; 4],
    /// What does not fill words, in the low bits.
    scales: u16,
}

/// One row, whose first unit is number `unit` of the piece.
pub(super) fn put_row(
    layout: &Layout,
    sections: &Sections,
    unit: usize,
    row: &[u8],
    out: &mut [u32],
) {
    let format = layout.format;
    let parts = format.elements() / UNIT;
    for (index, block) in row.chunks_exact(format.bytes()).enumerate() {
        let first = unit * layout.unit / UNIT + index * parts;
        for k in 0..parts {
            let Part { words, scales } = part(format, block, k);
            let (at, quants) = (first + k, layout.quants);
            out[at * quants..(at + 1) * quants].copy_from_slice(&words[..quants]);
            match layout.scales {
                super::Scales::Bytes => {
                    out[sections.scales + at / 4] |= u32::from(scales) << (8 * (at % 4));
                }
                super::Scales::Shorts => {
                    out[sections.scales + at / 2] |= u32::from(scales) << (16 * (at % 2));
                }
                _ => {}
            }
        }
        let j = unit / layout.block_units + index;
        match layout.heads {
            super::Heads::Halves => {
                out[sections.heads + j / 2] |= u32::from(head(format, block)) << (16 * (j % 2));
            }
            super::Heads::Mixed => {
                out[sections.heads + 2 * j] = word(block, 48);
                out[sections.heads + 2 * j + 1] = word(block, 52);
            }
            _ => {}
        }
    }
}

/// `d` of a block.
fn head(format: Format, block: &[u8]) -> u16 {
    short(
        block,
        match format {
            Format::Tq1_0 => 52,
            _ => 0,
        },
    )
}

/// Columns `32 * k..32 * k + 32` of a block: layouts of llama.cpp's `ggml-common.h`.
fn part(format: Format, block: &[u8], k: usize) -> Part {
    let two = |at: usize| [word(block, at), word(block, at + 4), 0, 0];
    let nibble = |byte: u8| u16::from((byte >> (4 * (k % 2))) & 15);
    match format {
        Format::Tq1_0 => digits(|column| tq1_digit(block, 32 * k + column)),
        Format::Nvfp4 => Part { words: nvfp4(block, k), scales: short(block, 2 * k) },
        Format::Iq1S => {
            Part { words: [word(block, 2 + 4 * k), 0, 0, 0], scales: short(block, 34 + 2 * k) }
        }
        Format::Iq1M => {
            Part { words: [word(block, 4 * k), 0, 0, 0], scales: short(block, 32 + 2 * k) }
        }
        Format::Iq2Xs => Part { words: two(2 + 8 * k), scales: u16::from(block[66 + k]) },
        Format::Iq2S => Part {
            words: [word(block, 2 + 4 * k), word(block, 34 + 4 * k), 0, 0],
            scales: u16::from_le_bytes([block[66 + k], block[74 + k]]),
        },
        Format::Iq3Xxs => {
            let [a, b, ..] = two(2 + 8 * k);
            Part { words: [a, b, word(block, 66 + 4 * k), 0], scales: 0 }
        }
        Format::Iq3S => {
            let [a, b, ..] = two(2 + 8 * k);
            let scales = u16::from(block[66 + k]) | nibble(block[106 + k / 2]) << 8;
            Part { words: [a, b, word(block, 74 + 4 * k), 0], scales }
        }
        // IQ2_XXS
        _ => Part { words: two(2 + 8 * k), scales: 0 },
    }
}

/// 32 digits of two bits, in order of the columns.
fn digits(digit: impl Fn(usize) -> u8) -> Part {
    let mut words = [0; 4];
    for column in 0..UNIT {
        words[column / 16] |= u32::from(digit(column)) << (2 * (column % 16));
    }
    Part { words, scales: 0 }
}

/// The ternary digit of a column of a block of TQ1_0. A byte has five digits as a fraction; times 3
/// lifts the next one above it.
fn tq1_digit(block: &[u8], column: usize) -> u8 {
    let (first, count, at) = match column {
        0..160 => (0, 32, column),
        160..240 => (32, 16, column - 160),
        _ => (48, 4, column - 240),
    };
    let byte = block[first + at % count];
    let rest = (0..at / count).fold(byte, |rest, _| rest.wrapping_mul(3));
    ((u16::from(rest) * 3) >> 8) as u8
}

/// Nibbles of a block of NVFP4, in order of the columns: the file has the first eight of 16 columns
/// in the low halves of eight bytes.
fn nvfp4(block: &[u8], k: usize) -> [u32; 4] {
    let mut words = [0; 4];
    for column in 0..UNIT {
        let byte = block[4 + 16 * k + 8 * (column / 16) + column % 8];
        let nibble = (byte >> (4 * (column / 8 % 2))) & 15;
        words[column / 8] |= u32::from(nibble) << (4 * (column % 8));
    }
    words
}

fn short(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
