//! How weights of each format lie in the memory of a GPU.
//!
//! The bytes of a row of blocks do not begin at words, which GPUs read, and neighbouring lanes
//! would read far apart. So a matrix is laid out anew while it is uploaded, in sections that follow
//! each other, each over all rows:
//!
//! | section | of | holds |
//! | --- | --- | --- |
//! | quants | unit | 32 numbers of 4 bits (columns 0-15 in the low halves of 16 bytes) or 8, or codes |
//! | bits | unit | further bits: pairs in two words, single bits in one; group of four columns `g` at bit `2 g` or `g` of each byte |
//! | scales | unit | 16 bits: scale and minimum, or the scales of both halves (super-blocks and NVFP4) |
//! | heads | block | `d`, or `d` and `m`, in half precision; the exponent of MXFP4; none of NVFP4 |
//!
//! A unit is 32 columns. Formats that are multiplied as numbers have units of 8 columns, the last
//! filled up with zeros. Where blocks have codes (rows of a codebook), `quants` has the words of a
//! unit as the file has them, and `scales` what does not fill words; the codebook is a buffer of
//! its own ([`Layout::table`]). Super-blocks grow by at most 6 %, but for TQ1_0, whose digits take
//! two bits here: 22 %.

mod repack;

use nook_kernels::Format;

use crate::template::Values;

pub(crate) use repack::repack;

/// Columns of a unit of the formats that are multiplied in bytes.
pub(crate) const UNIT: usize = 32;

/// Columns of a unit of the others.
pub(crate) const CHUNK: usize = 8;

/// Words that every section begins at a multiple of.
const SECTION_WORDS: usize = 4;

/// How a format lies in memory and is computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    /// Whether it is multiplied in bytes.
    pub(crate) bytes: bool,
    /// Columns of a unit.
    pub(crate) unit: usize,
    /// Units of a block of the file, and of a span of activations; 1 where it is multiplied as
    /// numbers.
    pub(crate) block_units: usize,
    /// Words of quants, or of codes, of a unit.
    quants: usize,
    /// Whether its blocks have codes.
    codes: bool,
    /// Words of further bits of a unit.
    bits: usize,
    /// How scales lie.
    scales: Scales,
    /// How heads lie.
    heads: Heads,
    /// What is subtracted from a number.
    zero: u32,
    /// Whether there are minima.
    minimum: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scales {
    None,
    /// Scale, then minimum.
    WithMinimum,
    /// Signed scales of both halves.
    Signed,
    /// Bytes of both halves: scale in the low four bits, minimum in the high ones.
    Nibbles,
    /// Floating-point numbers of eight bits of both halves, in place of `d`.
    Floats,
    /// One byte of a unit that has codes.
    Bytes,
    /// 16 bits of a unit that has codes.
    Shorts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heads {
    None,
    /// `d`, two in a word.
    Halves,
    /// `d` and `m` in a word.
    Pairs,
    /// The exponent of `d`, four in a word.
    Exponents,
    /// Two words: four times 12 bits of scales and 4 bits of `d` above them.
    Mixed,
}

/// Where the sections of a piece begin, in words, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) bits: usize,
    pub(crate) scales: usize,
    pub(crate) heads: usize,
    pub(crate) end: usize,
}

impl Layout {
    /// The layout of `format`.
    pub(crate) fn of(format: Format) -> Self {
        let number = |quants| Self {
            format,
            bytes: false,
            unit: CHUNK,
            block_units: 1,
            quants,
            codes: false,
            bits: 0,
            scales: Scales::None,
            heads: Heads::None,
            zero: 0,
            minimum: false,
        };
        let fine = |quants, bits, heads, zero| Self {
            bytes: true,
            unit: UNIT,
            bits,
            heads,
            zero,
            minimum: heads == Heads::Pairs,
            ..number(quants)
        };
        let coarse = |quants, bits, scales, heads, zero| Self {
            block_units: 8,
            scales,
            ..fine(quants, bits, heads, zero)
        };
        let coded = |quants, scales, heads, zero| Self {
            codes: true,
            ..coarse(quants, 0, scales, heads, zero)
        };
        let signed = |quants, scales| coded(quants, scales, Heads::Halves, 0);
        match format {
            Format::F32 => number(8),
            Format::F16 | Format::Bf16 => number(4),
            Format::Iq1S => coded(1, Scales::Shorts, Heads::Halves, 9),
            Format::Iq1M => coded(1, Scales::Shorts, Heads::Mixed, 9),
            Format::Iq2Xxs => signed(2, Scales::None),
            Format::Iq2Xs => signed(2, Scales::Bytes),
            Format::Iq2S => signed(2, Scales::Shorts),
            Format::Iq3Xxs => signed(3, Scales::None),
            Format::Iq3S => signed(3, Scales::Shorts),
            Format::Q4_0 => fine(4, 0, Heads::Halves, 8),
            Format::Q4_1 => fine(4, 0, Heads::Pairs, 0),
            Format::Q5_0 => fine(4, 1, Heads::Halves, 16),
            Format::Q5_1 => fine(4, 1, Heads::Pairs, 0),
            Format::Q8_0 => fine(8, 0, Heads::Halves, 0),
            Format::Iq4Nl => fine(4, 0, Heads::Halves, 0),
            Format::Mxfp4 => fine(4, 0, Heads::Exponents, 0),
            Format::Nvfp4 => Self { scales: Scales::Floats, ..fine(4, 0, Heads::None, 0) },
            Format::Q4K => coarse(4, 0, Scales::WithMinimum, Heads::Pairs, 0),
            Format::Q5K => coarse(4, 1, Scales::WithMinimum, Heads::Pairs, 0),
            Format::Q6K => coarse(4, 2, Scales::Signed, Heads::Halves, 32),
            Format::Q2K => coarse(0, 2, Scales::Nibbles, Heads::Pairs, 0),
            Format::Q3K => coarse(0, 3, Scales::Signed, Heads::Halves, 4),
            Format::Iq4Xs => coarse(4, 0, Scales::Signed, Heads::Halves, 0),
            Format::Tq1_0 | Format::Tq2_0 => coarse(0, 2, Scales::None, Heads::Halves, 1),
        }
    }

    /// The rows that its codes choose from, two in a word.
    pub(crate) fn table(&self) -> Option<Vec<u32>> {
        let rows = self.format.codebook()?;
        let pairs = rows.as_chunks::<2>().0.iter();
        Some(pairs.map(|[low, high]| u32::from(*low) | u32::from(*high) << 16).collect())
    }

    /// Columns of activations that share a scale.
    pub(crate) fn span(&self) -> usize {
        self.block_units * self.unit
    }

    /// Units of a row of `columns` numbers.
    pub(crate) fn units(&self, columns: usize) -> usize {
        columns.div_ceil(self.unit)
    }

    /// The sections of `rows` rows of `columns` numbers.
    pub(crate) fn sections(&self, rows: usize, columns: usize) -> Sections {
        let units = rows * self.units(columns);
        let begin = |words: usize| words.next_multiple_of(SECTION_WORDS);
        let bits = begin(self.quants * units);
        let scales = begin(bits + units * self.bits);
        let heads = begin(
            scales
                + match self.scales {
                    Scales::None => 0,
                    Scales::Bytes => units.div_ceil(4),
                    _ => units.div_ceil(2),
                },
        );
        let blocks = units / self.block_units;
        let end = heads
            + match self.heads {
                Heads::None => 0,
                Heads::Halves => blocks.div_ceil(2),
                Heads::Pairs => blocks,
                Heads::Exponents => blocks.div_ceil(4),
                Heads::Mixed => 2 * blocks,
            };
        Sections { bits, scales, heads, end: begin(end) }
    }

    /// Bytes of `rows` rows of `columns` numbers.
    pub(crate) fn bytes_of(&self, rows: usize, columns: usize) -> u64 {
        4 * self.sections(rows, columns).end as u64
    }

    /// What `d` of the file is multiplied with, where the file has fractions as scales and the
    /// kernels odd numbers.
    fn fraction(&self) -> &'static str {
        match self.format {
            Format::Iq1S | Format::Iq1M | Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S => "0.125",
            Format::Iq3Xxs => "0.25",
            _ => "1.0",
        }
    }

    /// What the templates of kernels are told.
    pub(crate) fn values(&self) -> Values {
        let is = |yes: bool| u32::from(yes);
        let bell = matches!(self.format, Format::Iq4Nl | Format::Iq4Xs);
        let floats = self.scales == Scales::Floats;
        let halves = matches!(self.format, Format::Q6K | Format::Q2K | Format::Q3K)
            || matches!(self.format, Format::Iq1M | Format::Iq2Xs | Format::Iq2S | Format::Nvfp4);
        let bit = matches!(self.bits, 1 | 3);
        Values::new(&[
            ("BYTES", is(self.bytes)),
            ("NIBBLES", is(self.quants == 4)),
            ("WHOLE", is(self.quants == 8)),
            ("PAIRS", is(self.bits >= 2)),
            ("PAIR_SHIFT", if self.quants == 4 { 4 } else { 0 }),
            ("BIT", is(bit)),
            ("BIT_SHIFT", if self.quants == 4 { 4 } else { 2 }),
            ("BITS_WORDS", self.bits as u32),
            ("BELL", is(bell)),
            ("UNEVEN", is(bell || matches!(self.format, Format::Mxfp4 | Format::Nvfp4))),
            ("COARSE", is(self.block_units == 8)),
            ("SCALED", is(self.scales != Scales::None)),
            ("SCALE_AND_MINIMUM", is(self.scales == Scales::WithMinimum)),
            ("SIGNED_SCALES", is(self.scales == Scales::Signed)),
            ("NIBBLE_SCALES", is(self.scales == Scales::Nibbles)),
            ("FLOAT_SCALES", is(floats)),
            ("TWO_SCALES", is(halves)),
            ("HEAD_PAIRS", is(self.heads == Heads::Pairs)),
            ("HEAD_EXPONENTS", is(self.heads == Heads::Exponents)),
            ("HEAD_MIXED", is(self.heads == Heads::Mixed)),
            ("ZERO", self.zero),
            ("MINIMUM", is(self.minimum)),
            ("SUMS", is(self.minimum || self.zero > 0)),
            ("BLOCK_UNITS", self.block_units as u32),
            ("F32", is(self.format == Format::F32)),
            ("F16", is(self.format == Format::F16)),
            ("BF16", is(self.format == Format::Bf16)),
            ("TABLE", is(self.format.codebook().is_some())),
            ("IQ1", is(matches!(self.format, Format::Iq1S | Format::Iq1M))),
            ("IQ1_S", is(self.format == Format::Iq1S)),
            ("IQ2", is(matches!(self.format, Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S))),
            ("IQ2_XXS", is(self.format == Format::Iq2Xxs)),
            ("IQ2_XS", is(self.format == Format::Iq2Xs)),
            ("IQ3", is(matches!(self.format, Format::Iq3Xxs | Format::Iq3S))),
            ("IQ3_S", is(self.format == Format::Iq3S)),
            ("HEAD_HALVES", is(self.heads == Heads::Halves)),
            ("SHORTS", is(self.scales == Scales::Shorts)),
        ])
        .with("FRACTION", self.fraction())
    }
}
