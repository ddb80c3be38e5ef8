//! Blocks of a file to the sections of a GPU (see [`super`]).

mod codes;

use nook_kernels::Format;

use super::{CHUNK, Heads, Layout, Scales, Sections, UNIT};

/// Most units of a block.
const UNITS_MAX: usize = 8;

/// One block of a file, taken apart.
struct Parts {
    d: u16,
    m: u16,
    /// 16 bits of each unit, as they stand in the section of scales.
    scales: [u16; UNITS_MAX],
    q: [[u8; UNIT]; UNITS_MAX],
}

/// `rows` rows of `columns` numbers, in blocks of the file, as words. `bytes` are whole rows.
pub(crate) fn repack(layout: &Layout, rows: usize, columns: usize, bytes: &[u8]) -> Vec<u32> {
    let sections = layout.sections(rows, columns);
    let mut out = vec![0u32; sections.end];
    if layout.bytes && !layout.codes {
        let blocks = bytes.chunks_exact(layout.format.bytes());
        for (index, block) in blocks.enumerate() {
            put_block(layout, &sections, index, block, &mut out);
        }
        return out;
    }
    let row_bytes = layout.format.row_bytes(columns).unwrap_or(0).max(1);
    for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
        let unit = row * layout.units(columns);
        match layout.format {
            Format::F32 => {
                for (word, number) in out[unit * CHUNK..].iter_mut().zip(bytes.chunks_exact(4)) {
                    *word = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
                }
            }
            _ if layout.codes => codes::put_row(layout, &sections, unit, bytes, &mut out),
            _ => {
                for (at, number) in bytes.chunks_exact(2).enumerate() {
                    let half = u32::from(u16::from_le_bytes([number[0], number[1]]));
                    out[unit * CHUNK / 2 + at / 2] |= half << (16 * (at % 2));
                }
            }
        }
    }
    out
}

fn put_block(layout: &Layout, sections: &Sections, index: usize, block: &[u8], out: &mut [u32]) {
    let parts = take_apart(layout.format, block);
    let units = layout.format.elements() / UNIT;
    for (k, q) in parts.q.iter().take(units).enumerate() {
        let unit = index * units + k;
        match layout.quants {
            4 => {
                let words = &mut out[unit * 4..unit * 4 + 4];
                for (w, word) in words.iter_mut().enumerate() {
                    *word = word_of(|b| (q[4 * w + b] & 15) | (q[16 + 4 * w + b] & 15) << 4);
                }
            }
            8 => {
                let words = &mut out[unit * 8..unit * 8 + 8];
                for (w, word) in words.iter_mut().enumerate() {
                    *word = word_of(|b| q[4 * w + b]);
                }
            }
            _ => {}
        }
        let bits = &mut out[sections.bits + unit * layout.bits..][..layout.bits];
        let (pair_shift, bit_shift) = if layout.quants == 4 { (4, 4) } else { (0, 2) };
        if let [low, high, ..] = bits {
            let pair = |first: usize, b: usize| {
                (0..4)
                    .fold(0, |byte, g| byte | ((q[first + 4 * g + b] >> pair_shift) & 3) << (2 * g))
            };
            *low = word_of(|b| pair(0, b));
            *high = word_of(|b| pair(16, b));
        }
        if let [single] | [_, _, single] = bits {
            *single = word_of(|b| {
                (0..8).fold(0, |byte, g| byte | ((q[4 * g + b] >> bit_shift) & 1) << g)
            });
        }
        if layout.scales != Scales::None {
            let scale = u32::from(parts.scales[k]);
            out[sections.scales + unit / 2] |= scale << (16 * (unit % 2));
        }
    }
    match layout.heads {
        // Formats with codes have those of their own.
        Heads::None | Heads::Mixed => {}
        Heads::Halves => {
            out[sections.heads + index / 2] |= u32::from(parts.d) << (16 * (index % 2));
        }
        Heads::Pairs => {
            out[sections.heads + index] = u32::from(parts.d) | u32::from(parts.m) << 16;
        }
        Heads::Exponents => {
            out[sections.heads + index / 4] |= u32::from(parts.d) << (8 * (index % 4));
        }
    }
}

/// A word of four bytes.
fn word_of(byte: impl Fn(usize) -> u8) -> u32 {
    u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
}

/// Takes a block of the file apart: layouts of llama.cpp's `ggml-common.h`.
fn take_apart(format: Format, block: &[u8]) -> Parts {
    let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
    let mut parts = Parts { d: half(0), m: 0, scales: [0; UNITS_MAX], q: [[0; UNIT]; UNITS_MAX] };
    let q = &mut parts.q;
    match format {
        Format::Q4_0 | Format::Iq4Nl => q[0] = nibbles(&block[2..18]),
        Format::Q4_1 => {
            // The minimum is added in the file, and subtracted by the kernels.
            parts.m = half(2) ^ 0x8000;
            q[0] = nibbles(&block[4..20]);
        }
        Format::Q5_0 => q[0] = fifth(nibbles(&block[6..22]), &block[2..6]),
        Format::Q5_1 => {
            parts.m = half(2) ^ 0x8000;
            q[0] = fifth(nibbles(&block[8..24]), &block[4..8]);
        }
        Format::Q8_0 => q[0].copy_from_slice(&block[2..34]),
        Format::Mxfp4 => {
            parts.d = u16::from(block[0]);
            q[0] = nibbles(&block[1..17]);
        }
        Format::Nvfp4 => take_nvfp4(block, &mut parts),
        Format::Tq1_0 | Format::Tq2_0 => take_ternary(format, block, &mut parts),
        Format::Q4K | Format::Q5K => {
            parts.m = half(2);
            let nibbles_at = if format == Format::Q4K { 16 } else { 48 };
            for (unit, q) in q.iter_mut().enumerate() {
                let (scale, minimum) = six_bits(&block[4..16], unit);
                parts.scales[unit] = u16::from_le_bytes([scale, minimum]);
                let bytes = &block[nibbles_at + 32 * (unit / 2)..][..UNIT];
                for (i, (q, byte)) in q.iter_mut().zip(bytes).enumerate() {
                    *q = (byte >> (4 * (unit % 2))) & 15;
                    if format == Format::Q5K {
                        *q |= ((block[16 + i] >> unit) & 1) << 4;
                    }
                }
            }
        }
        Format::Q6K => {
            parts.d = half(208);
            for (unit, q) in q.iter_mut().enumerate() {
                parts.scales[unit] = half(192 + 2 * unit);
                let (side, quarter) = (unit / 4, unit % 4);
                for (i, q) in q.iter_mut().enumerate() {
                    let low = block[64 * side + 32 * (quarter % 2) + i] >> (4 * (quarter / 2));
                    let high = block[128 + 32 * side + i] >> (2 * quarter);
                    *q = (low & 15) | (high & 3) << 4;
                }
            }
        }
        Format::Q2K => {
            (parts.d, parts.m) = (half(80), half(82));
            for (unit, q) in q.iter_mut().enumerate() {
                parts.scales[unit] = half(2 * unit);
                *q = pairs(&block[16..], unit);
            }
        }
        Format::Q3K => {
            parts.d = half(108);
            for (unit, q) in q.iter_mut().enumerate() {
                let scales = [2 * unit, 2 * unit + 1].map(|piece| q3_scale(&block[96..], piece));
                parts.scales[unit] = u16::from_le_bytes(scales);
                let low = pairs(&block[32..], unit);
                *q = std::array::from_fn(|i| low[i] | ((block[i] >> unit) & 1) << 2);
            }
        }
        _ => take_iq4_xs(block, &mut parts),
    }
    parts
}

fn take_nvfp4(block: &[u8], parts: &mut Parts) {
    for unit in 0..2 {
        parts.scales[unit] = u16::from_le_bytes([block[2 * unit], block[2 * unit + 1]]);
        parts.q[unit] = nibbles_of_eight(&block[4 + 16 * unit..]);
    }
}

fn take_ternary(format: Format, block: &[u8], parts: &mut Parts) {
    let d = if format == Format::Tq1_0 { 52 } else { 64 };
    parts.d = u16::from_le_bytes([block[d], block[d + 1]]);
    for (unit, q) in parts.q.iter_mut().enumerate() {
        *q = match format {
            Format::Tq1_0 => std::array::from_fn(|i| tq1_digit(block, UNIT * unit + i)),
            _ => pairs(block, unit),
        };
    }
}

fn take_iq4_xs(block: &[u8], parts: &mut Parts) {
    let high = u16::from_le_bytes([block[2], block[3]]);
    for unit in 0..UNITS_MAX {
        let low = (block[4 + unit / 2] >> (4 * (unit % 2))) & 15;
        let bits = low | (((high >> (2 * unit)) & 3) as u8) << 4;
        let scale = bits.wrapping_sub(32);
        parts.scales[unit] = u16::from_le_bytes([scale, scale]);
        parts.q[unit] = nibbles(&block[8 + 16 * unit..][..16]);
    }
}

/// The 32 nibbles of 16 bytes: low ones first.
fn nibbles(bytes: &[u8]) -> [u8; UNIT] {
    std::array::from_fn(|i| (bytes[i % 16] >> (4 * (i / 16))) & 15)
}

/// The 32 nibbles of NVFP4: of each eight bytes, low ones first.
fn nibbles_of_eight(bytes: &[u8]) -> [u8; UNIT] {
    std::array::from_fn(|i| (bytes[8 * (i / 16) + i % 8] >> (4 * (i / 8 % 2))) & 15)
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

/// The numbers of two bits of unit `unit` of 256.
fn pairs(bytes: &[u8], unit: usize) -> [u8; UNIT] {
    std::array::from_fn(|i| (bytes[32 * (unit / 4) + i] >> (2 * (unit % 4))) & 3)
}

/// With the fifth bits, of which `bits` has one for each number.
fn fifth(q: [u8; UNIT], bits: &[u8]) -> [u8; UNIT] {
    std::array::from_fn(|i| q[i] | ((bits[i / 8] >> (i % 8)) & 1) << 4)
}

/// The 6-bit scale and minimum number `j` of 8, from the 12 bytes that hold them all.
fn six_bits(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        return (packed[j] & 63, packed[j + 4] & 63);
    }
    let (low, s, m) = (packed[j + 4], packed[j - 4] >> 6, packed[j] >> 6);
    ((low & 15) | s << 4, (low >> 4) | m << 4)
}

/// Scale number `piece` of 16 of a block of Q3_K, from the 12 bytes that hold them all, as a signed
/// byte.
fn q3_scale(packed: &[u8], piece: usize) -> u8 {
    let low = (packed[piece % 8] >> (4 * (piece / 8))) & 15;
    let high = (packed[8 + piece % 4] >> (2 * (piece / 4))) & 3;
    (low | high << 4).wrapping_sub(32)
}
