//! [`Packing`] of each format: which planes its numbers go to, and where its scales lie in the
//! head.
//!
//! A head begins with sixteen f16 block scales (sixteen exponents for MXFP4, none for NVFP4), then (where the
//! format has them) sixteen f16 minima or scales of minima, then, for the formats with 256 numbers
//! to a block whose pieces have scales of their own, sixteen bytes for each scale and for each
//! minimum.

#![allow(unsafe_code, reason = "reads heads into vector registers")]

use super::planes::{Bytes, FiveBits, Nibbles, Pairs, SixBits, ThreeBits};
use super::{HALVES, PANEL_ROWS, Packing, Parts, UNIT};
use crate::activations::Grain;
use crate::block::legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::block::super_block::{Q2K, Q3K, Q4K, Q5K, Q6K, q3_scale, scale_and_minimum};
use crate::block::ternary::{Tq1_0, Tq2_0, tq1_digit};
use crate::block::uneven::{BELL, E2M1, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4, iq4_xs_scale};
use crate::simd::Simd;

/// Puts f16 number `number` of row `lane` into a head.
fn put_half(head: &mut [u8], number: usize, lane: usize, half: [u8; 2]) {
    head[number * HALVES + 2 * lane..][..2].copy_from_slice(&half);
}

/// The two bytes at `at`.
fn pair(bytes: &[u8], at: usize) -> [u8; 2] {
    [bytes[at], bytes[at + 1]]
}

/// The 32 nibbles of the 16 bytes at `at`, low ones first.
fn nibbles(bytes: &[u8], at: usize, q: &mut [u8; UNIT]) {
    for (i, byte) in bytes[at..at + UNIT / 2].iter().enumerate() {
        q[i] = byte & 15;
        q[i + UNIT / 2] = byte >> 4;
    }
}

/// As [`nibbles`], with the fifth bits in the four bytes at `high`.
fn five_bits(bytes: &[u8], high: usize, at: usize, q: &mut [u8; UNIT]) {
    nibbles(bytes, at, q);
    for (i, q) in q.iter_mut().enumerate() {
        *q |= ((bytes[high + i / 8] >> (i % 8)) & 1) << 4;
    }
}

/// Takes the 256 numbers of a block out of it: `apart` is given the block, the unit and the column.
#[inline(always)]
fn each_number(parts: &mut Parts, block: &[u8], apart: fn(&[u8], usize, usize) -> u8) {
    for (unit, q) in parts.q.iter_mut().enumerate() {
        for (k, q) in q.iter_mut().enumerate() {
            *q = apart(block, unit, k);
        }
    }
}

/// Implements [`Packing`] for a format of 32 numbers: they are `q - $zero`, with `q` looked up in
/// [`BELL`] if it is `bell`.
macro_rules! legacy {
    ($name:ident, $planes:ident, minimum: $minimum:expr, zero: $zero:expr, $kind:ident,
     apart: $apart:expr) => {
        impl Packing for $name {
            const GRAIN: Grain = Grain::Fine;
            const HEAD: usize = if $minimum { 2 * HALVES } else { HALVES };
            const SCALES: usize = 1;
            const HAS_MINIMUM: bool = $minimum;
            const ZERO: i32 = $zero;
            type Planes = $planes;
            kind!($kind);

            #[inline(always)]
            fn take_apart(block: &[u8]) -> Parts {
                let mut parts = Parts { d: pair(block, 0), ..Parts::ZERO };
                if $minimum {
                    parts.m = pair(block, 2);
                }
                let apart: fn(&[u8], &mut [u8; UNIT]) = $apart;
                apart(block, &mut parts.q[0]);
                parts
            }

            #[inline(always)]
            fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
                put_half(head, 0, lane, parts.d);
                if $minimum {
                    // The file adds its minimum, the kernels subtract theirs.
                    put_half(head, 1, lane, [parts.m[0], parts.m[1] ^ 0x80]);
                }
            }
        }
    };
}

/// What the byte product multiplies: the numbers as they are (`unsigned`, `signed`), or what they
/// stand for in [`BELL`].
macro_rules! kind {
    (unsigned) => {
        const SIGNED: bool = false;
    };
    (signed) => {
        const SIGNED: bool = true;
    };
    (bell) => {
        const SIGNED: bool = true;

        #[inline(always)]
        unsafe fn value<S: Simd>(q: S::I) -> S::I {
            // SAFETY: the caller's promise.
            unsafe { S::look_up(&BELL, q) }
        }
    };
}

legacy!(Q4_0, Nibbles, minimum: false, zero: 8, unsigned, apart: |block, q| nibbles(block, 2, q));
legacy!(Q4_1, Nibbles, minimum: true, zero: 0, unsigned, apart: |block, q| nibbles(block, 4, q));
legacy!(Q5_0, FiveBits, minimum: false, zero: 16, unsigned,
    apart: |block, q| five_bits(block, 2, 6, q));
legacy!(Q5_1, FiveBits, minimum: true, zero: 0, unsigned,
    apart: |block, q| five_bits(block, 4, 8, q));
legacy!(Q8_0, Bytes, minimum: false, zero: 0, signed,
    apart: |block, q| q.copy_from_slice(&block[2..34]));
legacy!(Iq4Nl, Nibbles, minimum: false, zero: 0, bell, apart: |block, q| nibbles(block, 2, q));

/// Implements [`Packing`] for Q4_K and Q5_K.
macro_rules! with_minima {
    ($name:ident, $planes:ident, $apart:expr) => {
        impl Packing for $name {
            const GRAIN: Grain = Grain::Coarse;
            const HEAD: usize = 2 * HALVES + 2 * 8 * PANEL_ROWS;
            const SCALES: usize = 1;
            const HAS_MINIMUM: bool = true;
            const ZERO: i32 = 0;
            type Planes = $planes;
            kind!(unsigned);

            #[inline(always)]
            fn take_apart(block: &[u8]) -> Parts {
                let mut parts = Parts { d: pair(block, 0), m: pair(block, 2), ..Parts::ZERO };
                for unit in 0..8 {
                    (parts.scales[unit], parts.minima[unit]) =
                        scale_and_minimum(&block[4..16], unit);
                }
                each_number(&mut parts, block, $apart);
                parts
            }

            #[inline(always)]
            fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
                put_half(head, 0, lane, parts.d);
                put_half(head, 1, lane, parts.m);
                for unit in 0..8 {
                    head[2 * HALVES + unit * PANEL_ROWS + lane] = parts.scales[unit];
                    head[2 * HALVES + (8 + unit) * PANEL_ROWS + lane] = parts.minima[unit];
                }
            }

            #[inline(always)]
            unsafe fn scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
                // SAFETY: the caller's promise: the head lies at the beginning of the block.
                unsafe {
                    S::extend_u8(block.add(2 * HALVES + piece * PANEL_ROWS + S::LANES * part))
                }
            }

            #[inline(always)]
            unsafe fn minimum<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
                // SAFETY: the caller's promise; the minima follow the scales.
                unsafe { Self::scale::<S>(block, 8 + piece, part) }
            }
        }
    };
}

with_minima!(Q4K, Nibbles, |block, unit, k| {
    (block[16 + 32 * (unit / 2) + k] >> (4 * (unit % 2))) & 15
});
with_minima!(Q5K, FiveBits, |block, unit, k| {
    let nibble = (block[48 + 32 * (unit / 2) + k] >> (4 * (unit % 2))) & 15;
    nibble | ((block[16 + k] >> unit) & 1) << 4
});

/// Implements [`Packing`] for a format with a signed byte for each scale and no minima.
macro_rules! with_signed_scales {
    ($name:ident, $planes:ident, scales: $scales:expr, zero: $zero:expr, $kind:ident, d: $d:expr,
     scale: $scale:expr, apart: $apart:expr) => {
        impl Packing for $name {
            const GRAIN: Grain = Grain::Coarse;
            const HEAD: usize = HALVES + 8 * $scales * PANEL_ROWS;
            const SCALES: usize = $scales;
            const HAS_MINIMUM: bool = false;
            const ZERO: i32 = $zero;
            type Planes = $planes;
            kind!($kind);

            #[inline(always)]
            fn take_apart(block: &[u8]) -> Parts {
                let mut parts = Parts { d: pair(block, $d), ..Parts::ZERO };
                let scale: fn(&[u8], usize) -> i8 = $scale;
                for number in 0..8 * $scales {
                    parts.scales[number] = scale(block, number) as u8;
                }
                each_number(&mut parts, block, $apart);
                parts
            }

            #[inline(always)]
            fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
                put_half(head, 0, lane, parts.d);
                for number in 0..8 * $scales {
                    head[HALVES + number * PANEL_ROWS + lane] = parts.scales[number];
                }
            }

            #[inline(always)]
            unsafe fn scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
                // SAFETY: the caller's promise: the head lies at the beginning of the block.
                unsafe { S::extend_i8(block.add(HALVES + piece * PANEL_ROWS + S::LANES * part)) }
            }
        }
    };
}

with_signed_scales!(Q6K, SixBits, scales: 2, zero: 32, unsigned, d: 208,
scale: |block, number| block[192 + number] as i8,
apart: |block, unit, k| {
    let (half, quarter) = (unit / 4, unit % 4);
    let low = block[64 * half + 32 * (quarter % 2) + k] >> (4 * (quarter / 2));
    let high = block[128 + 32 * half + k] >> (2 * quarter);
    (low & 15) | (high & 3) << 4
});
with_signed_scales!(Q3K, ThreeBits, scales: 2, zero: 4, unsigned, d: 108,
scale: |block, number| q3_scale(&block[96..108], number),
apart: |block, unit, k| {
    let low = block[32 + 32 * (unit / 4) + k] >> (2 * (unit % 4));
    (low & 3) | ((block[k] >> unit) & 1) << 2
});
with_signed_scales!(Iq4Xs, Nibbles, scales: 1, zero: 0, bell, d: 0,
    scale: |block, number| iq4_xs_scale(block, number),
    apart: |block, unit, k| (block[8 + 16 * unit + k % 16] >> (4 * (k / 16))) & 15);

impl Packing for Q2K {
    const GRAIN: Grain = Grain::Coarse;
    const HEAD: usize = 2 * HALVES + 16 * PANEL_ROWS;
    const SCALES: usize = 2;
    const HAS_MINIMUM: bool = true;
    const ZERO: i32 = 0;
    type Planes = Pairs;
    kind!(unsigned);

    #[inline(always)]
    fn take_apart(block: &[u8]) -> Parts {
        let mut parts = Parts { d: pair(block, 80), m: pair(block, 82), ..Parts::ZERO };
        parts.scales.copy_from_slice(&block[..16]);
        each_number(&mut parts, block, |block, unit, k| {
            (block[16 + 32 * (unit / 4) + k] >> (2 * (unit % 4))) & 3
        });
        parts
    }

    #[inline(always)]
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
        put_half(head, 0, lane, parts.d);
        put_half(head, 1, lane, parts.m);
        for (number, scale) in parts.scales.iter().enumerate() {
            head[2 * HALVES + number * PANEL_ROWS + lane] = *scale;
        }
    }

    #[inline(always)]
    unsafe fn scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
        // SAFETY: the caller's promise: the head lies at the beginning of the block.
        unsafe {
            let at = block.add(2 * HALVES + piece * PANEL_ROWS + S::LANES * part);
            S::and(S::extend_u8(at), S::splat_int(15))
        }
    }

    #[inline(always)]
    unsafe fn minimum<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::I {
        // SAFETY: as above.
        unsafe {
            let at = block.add(2 * HALVES + piece * PANEL_ROWS + S::LANES * part);
            S::shift_right::<4>(S::extend_u8(at))
        }
    }
}

impl Packing for Mxfp4 {
    const GRAIN: Grain = Grain::Fine;
    const HEAD: usize = PANEL_ROWS;
    const SCALES: usize = 1;
    const HAS_MINIMUM: bool = false;
    const SIGNED: bool = true;
    const ZERO: i32 = 0;
    type Planes = Nibbles;

    #[inline(always)]
    fn take_apart(block: &[u8]) -> Parts {
        let mut parts = Parts { d: [block[0], 0], ..Parts::ZERO };
        nibbles(block, 1, &mut parts.q[0]);
        parts
    }

    #[inline(always)]
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
        head[lane] = parts.d[0];
    }

    /// `2^(exponent - 128)`, which may be too small for an exponent of its own: the product of two
    /// powers of two that are not, and so exact.
    #[inline(always)]
    unsafe fn d<S: Simd>(block: *const u8, part: usize) -> S::F {
        // SAFETY: the caller's promise: the head lies at the beginning of the block.
        unsafe {
            let exponent = S::extend_u8(block.add(S::LANES * part));
            let half = S::shift_right::<1>(exponent);
            let power = |of| S::from_bits(S::shift_left::<23>(S::add_int(of, S::splat_int(63))));
            S::mul(power(half), power(S::sub_int(exponent, half)))
        }
    }

    #[inline(always)]
    unsafe fn value<S: Simd>(q: S::I) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::look_up(&E2M1, q) }
    }
}

impl Packing for Nvfp4 {
    const GRAIN: Grain = Grain::Fine;
    const HEAD: usize = 4 * PANEL_ROWS;
    const SCALES: usize = 2;
    const HAS_MINIMUM: bool = false;
    const SIGNED: bool = true;
    const ZERO: i32 = 0;
    const FLOAT_SCALES: bool = true;
    type Planes = Nibbles;

    #[inline(always)]
    fn take_apart(block: &[u8]) -> Parts {
        let mut parts = Parts::ZERO;
        for (number, scale) in block[..4].iter().enumerate() {
            parts.scales[number] = five_bits_of_exponent(*scale);
        }
        for (unit, q) in parts.q.iter_mut().take(Self::UNITS).enumerate() {
            for (k, q) in q.iter_mut().enumerate() {
                // The low halves of eight bytes, then their high halves.
                let byte = block[4 + 16 * unit + 8 * (k / 16) + k % 8];
                *q = (byte >> (4 * (k / 8 % 2))) & 15;
            }
        }
        parts
    }

    #[inline(always)]
    fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
        for (number, scale) in parts.scales[..4].iter().enumerate() {
            head[number * PANEL_ROWS + lane] = *scale;
        }
    }

    /// In the places of an f32's, the five bits of exponent and three of mantissa are the scale times
    /// a power of two.
    #[inline(always)]
    unsafe fn piece_scale<S: Simd>(block: *const u8, piece: usize, part: usize) -> S::F {
        // SAFETY: the caller's promise: the head lies at the beginning of the block.
        unsafe {
            let bits = S::extend_u8(block.add(piece * PANEL_ROWS + S::LANES * part));
            let power = S::splat(f32::from_bits((127 + 116) << 23));
            S::mul(S::from_bits(S::shift_left::<20>(bits)), power)
        }
    }

    #[inline(always)]
    unsafe fn value<S: Simd>(q: S::I) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::look_up(&E2M1, q) }
    }
}

/// A scale of NVFP4 with a bit more of exponent, in place of its sign, which means nothing: so the
/// small ones, which have no exponent of their own in the file, have one. Processors take many times
/// as long for a number without. "Not a number" counts as 0.
#[inline(always)]
fn five_bits_of_exponent(scale: u8) -> u8 {
    match (scale & 0x78, scale & 7) {
        _ if scale == 0x7f => 0,
        (0, 0) => 0,
        (0, mantissa) => {
            let exponent = mantissa.ilog2() as u8;
            (exponent + 1) << 3 | (mantissa << (3 - exponent)) & 7
        }
        (exponent, mantissa) => (exponent + 24) | mantissa,
    }
}

/// Implements [`Packing`] for the ternary formats: two bits for each number.
macro_rules! ternary {
    ($name:ident, d: $d:expr, apart: $apart:expr) => {
        impl Packing for $name {
            const GRAIN: Grain = Grain::Coarse;
            const HEAD: usize = HALVES;
            const SCALES: usize = 1;
            const HAS_MINIMUM: bool = false;
            const ZERO: i32 = 1;
            type Planes = Pairs;
            kind!(unsigned);

            #[inline(always)]
            fn take_apart(block: &[u8]) -> Parts {
                let mut parts = Parts { d: pair(block, $d), ..Parts::ZERO };
                each_number(&mut parts, block, $apart);
                parts
            }

            #[inline(always)]
            fn put_head(parts: &Parts, lane: usize, head: &mut [u8]) {
                put_half(head, 0, lane, parts.d);
            }
        }
    };
}

ternary!(Tq1_0, d: 52, apart: |block, unit, k| tq1_digit(block, UNIT * unit + k));
ternary!(Tq2_0, d: 64, apart: |block, unit, k| {
    (block[32 * (unit / 4) + k] >> (2 * (unit % 4))) & 3
});
