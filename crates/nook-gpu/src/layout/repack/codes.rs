//! Rows of the formats whose blocks have codes (see [`super::super`]): what belongs to 32 columns is
//! put together, whole words first.

use nook_kernels::Format;

use super::super::{Layout, Sections, UNIT};

/// What belongs to 32 columns of a block.
struct Part {
    /// As many as the layout says.
    words: [u32; 3],
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
        let first = unit + index * parts;
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
                out[sections.heads + j / 2] |= u32::from(short(block, 0)) << (16 * (j % 2));
            }
            super::Heads::Mixed => {
                out[sections.heads + 2 * j] = word(block, 48);
                out[sections.heads + 2 * j + 1] = word(block, 52);
            }
            _ => {}
        }
    }
}

/// Columns `32 * k..32 * k + 32` of a block: layouts of llama.cpp's `ggml-common.h`.
fn part(format: Format, block: &[u8], k: usize) -> Part {
    let two = |at: usize| [word(block, at), word(block, at + 4), 0];
    let nibble = |byte: u8| u16::from((byte >> (4 * (k % 2))) & 15);
    match format {
        Format::Iq1S => {
            Part { words: [word(block, 2 + 4 * k), 0, 0], scales: short(block, 34 + 2 * k) }
        }
        Format::Iq1M => {
            Part { words: [word(block, 4 * k), 0, 0], scales: short(block, 32 + 2 * k) }
        }
        Format::Iq2Xs => Part { words: two(2 + 8 * k), scales: u16::from(block[66 + k]) },
        Format::Iq2S => Part {
            words: [word(block, 2 + 4 * k), word(block, 34 + 4 * k), 0],
            scales: u16::from_le_bytes([block[66 + k], block[74 + k]]),
        },
        Format::Iq3Xxs => {
            let [a, b, ..] = two(2 + 8 * k);
            Part { words: [a, b, word(block, 66 + 4 * k)], scales: 0 }
        }
        Format::Iq3S => {
            let [a, b, ..] = two(2 + 8 * k);
            let scales = u16::from(block[66 + k]) | nibble(block[106 + k / 2]) << 8;
            Part { words: [a, b, word(block, 74 + 4 * k)], scales }
        }
        // IQ2_XXS
        _ => Part { words: two(2 + 8 * k), scales: 0 },
    }
}

fn short(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
