//! Keys and values as bytes, for another device that goes on where this one stopped.
//!
//! The layout does not depend on how the cache keeps them. Everything is little-endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | `NKV1` |
//! | 4 | kind: 1 for F16, 2 for F32 |
//! | 4, 4, 4 | `kv_heads`, `key_dim`, `value_dim` |
//! | 4, 4 | first position, number of positions |
//! | the rest | keys: (positions, `kv_heads`, `key_dim`), then values: (positions, `kv_heads`, `value_dim`) |
//!
//! Numbers are handed over as they are kept, so the receiver computes with the very bits. A range
//! is taken in where it begins: it must follow what the receiver already has, so that a long chat
//! can come in parts.

use std::ops::Range;

use super::line::{Line, WIDTH};
use super::{Block, CacheFull, CacheKind, CacheShape, LayerCache, POSITIONS_PER_BLOCK};
use super::{Blocks, GROUPS_PER_BLOCK, group_and_lane, with_blocks};

const MAGIC: [u8; 4] = *b"NKV1";

/// Bytes before the numbers.
const HEADER_BYTES: usize = 28;

/// Keys and values that cannot be handed over or taken in. In every case the cache is what it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The bytes do not begin as handed over keys and values do.
    #[error("these bytes are no handed over keys and values")]
    Unknown,
    /// They belong to a cache of another shape.
    #[error("keys and values of another shape: this cache is {expected:?}")]
    Shape {
        /// The shape of this cache.
        expected: CacheShape,
    },
    /// They do not follow the positions that are here.
    #[error("keys and values from position {first} on do not follow {positions} positions")]
    Position {
        /// Where the range begins.
        first: usize,
        /// Positions held here.
        positions: usize,
    },
    /// The bytes are not as many as their header says.
    #[error("{got} bytes of keys and values instead of {expected}")]
    Length {
        /// Bytes that the header announces, itself included; `u64::MAX` when past counting.
        expected: u64,
        /// Bytes given.
        got: usize,
    },
    /// A range of positions that are not all held.
    #[error("positions {start}..{end} of {positions}")]
    Range {
        /// Beginning of the range.
        start: usize,
        /// Its end.
        end: usize,
        /// Positions held.
        positions: usize,
    },
    /// There is no memory for them.
    #[error(transparent)]
    Full(#[from] CacheFull),
}

impl LayerCache {
    /// The keys and values of `range` as bytes. See the module for their layout.
    pub fn export(&self, range: Range<usize>) -> Result<Vec<u8>, HandoverError> {
        let fault =
            HandoverError::Range { start: range.start, end: range.end, positions: self.positions };
        if range.start > range.end || range.end > self.positions {
            return Err(fault);
        }
        let header = Header::of(&self.shape, range.start, range.len()).ok_or(fault.clone())?;
        let length =
            header.length().and_then(|length| usize::try_from(length).ok()).ok_or(fault)?;
        let mut bytes = Vec::with_capacity(length);
        header.write(&mut bytes);
        with_blocks!(&self.blocks, blocks => {
            for position in range.clone() {
                write_keys(&blocks[position / POSITIONS_PER_BLOCK], &self.shape, position, &mut bytes);
            }
            for position in range {
                write_values(
                    &blocks[position / POSITIONS_PER_BLOCK], &self.shape, position, &mut bytes,
                );
            }
        });
        Ok(bytes)
    }

    /// Adds the keys and values that [`Self::export`] of another cache gave, after those that are
    /// here. Room is made for them.
    pub fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        let header = Header::read(bytes).ok_or(HandoverError::Unknown)?;
        if !header.is_of(&self.shape) {
            return Err(HandoverError::Shape { expected: self.shape });
        }
        let (first, count) = (header.first as usize, header.count as usize);
        if first != self.positions {
            return Err(HandoverError::Position { first, positions: self.positions });
        }
        let expected = header.length().unwrap_or(u64::MAX);
        if bytes.len() as u64 != expected {
            return Err(HandoverError::Length { expected, got: bytes.len() });
        }
        self.reserve(first.saturating_add(count))?;
        let numbers = &bytes[HEADER_BYTES..];
        let shape = self.shape;
        let row = |dim: usize| shape.kv_heads * dim * shape.kind.bytes();
        let (keys, values) = numbers.split_at(count * row(shape.key_dim));
        with_blocks!(&mut self.blocks, blocks => for index in 0..count {
            let position = first + index;
            let block = &mut blocks[position / POSITIONS_PER_BLOCK];
            read_keys(block, &shape, position, &keys[index * row(shape.key_dim)..]);
            read_values(block, &shape, position, &values[index * row(shape.value_dim)..]);
        });
        self.positions += count;
        Ok(())
    }
}

/// What stands before the numbers.
struct Header {
    kind: u32,
    kv_heads: u32,
    key_dim: u32,
    value_dim: u32,
    first: u32,
    count: u32,
}

impl Header {
    /// `None` when a number does not fit its field.
    fn of(shape: &CacheShape, first: usize, count: usize) -> Option<Self> {
        Some(Self {
            kind: kind_number(shape.kind),
            kv_heads: u32::try_from(shape.kv_heads).ok()?,
            key_dim: u32::try_from(shape.key_dim).ok()?,
            value_dim: u32::try_from(shape.value_dim).ok()?,
            first: u32::try_from(first).ok()?,
            count: u32::try_from(count).ok()?,
        })
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        if *magic != MAGIC {
            return None;
        }
        let (fields, _) = rest.as_chunks::<4>();
        let field = |at: usize| fields.get(at).copied().map(u32::from_le_bytes);
        Some(Self {
            kind: field(0)?,
            kv_heads: field(1)?,
            key_dim: field(2)?,
            value_dim: field(3)?,
            first: field(4)?,
            count: field(5)?,
        })
    }

    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&MAGIC);
        for field in
            [self.kind, self.kv_heads, self.key_dim, self.value_dim, self.first, self.count]
        {
            to.extend_from_slice(&field.to_le_bytes());
        }
    }

    fn is_of(&self, shape: &CacheShape) -> bool {
        self.kind == kind_number(shape.kind)
            && self.kv_heads as usize == shape.kv_heads
            && self.key_dim as usize == shape.key_dim
            && self.value_dim as usize == shape.value_dim
    }

    /// Bytes of header and numbers.
    fn length(&self) -> Option<u64> {
        let number = if self.kind == kind_number(CacheKind::F16) { 2 } else { 4 };
        (u64::from(self.key_dim) + u64::from(self.value_dim))
            .checked_mul(u64::from(self.kv_heads))?
            .checked_mul(u64::from(self.count))?
            .checked_mul(number)?
            .checked_add(HEADER_BYTES as u64)
    }
}

fn kind_number(kind: CacheKind) -> u32 {
    match kind {
        CacheKind::F16 => 1,
        CacheKind::F32 => 2,
    }
}

fn write_keys<L: Line>(block: &Block<L>, shape: &CacheShape, position: usize, to: &mut Vec<u8>) {
    let (group, lane) = group_and_lane(position);
    for head in 0..shape.kv_heads {
        let (keys, _) = block.head(shape, head);
        for lines in keys.chunks_exact(GROUPS_PER_BLOCK) {
            lines[group].write_bytes(lane, to);
        }
    }
}

fn write_values<L: Line>(block: &Block<L>, shape: &CacheShape, position: usize, to: &mut Vec<u8>) {
    let (slot, row) = (position % POSITIONS_PER_BLOCK, shape.value_lines());
    for head in 0..shape.kv_heads {
        let (_, values) = block.head(shape, head);
        for at in 0..shape.value_dim {
            values[slot * row + at / WIDTH].write_bytes(at % WIDTH, to);
        }
    }
}

fn read_keys<L: Line>(block: &mut Block<L>, shape: &CacheShape, position: usize, from: &[u8]) {
    let (group, lane) = group_and_lane(position);
    let mut numbers = from.chunks_exact(L::NUMBER_BYTES);
    for head in 0..shape.kv_heads {
        let (keys, _) = block.head_mut(shape, head);
        for (lines, number) in keys.chunks_exact_mut(GROUPS_PER_BLOCK).zip(&mut numbers) {
            lines[group].read_bytes(lane, number);
        }
    }
}

fn read_values<L: Line>(block: &mut Block<L>, shape: &CacheShape, position: usize, from: &[u8]) {
    let (slot, row) = (position % POSITIONS_PER_BLOCK, shape.value_lines());
    let mut numbers = from.chunks_exact(L::NUMBER_BYTES);
    for head in 0..shape.kv_heads {
        let (_, values) = block.head_mut(shape, head);
        for (at, number) in (0..shape.value_dim).zip(&mut numbers) {
            values[slot * row + at / WIDTH].read_bytes(at % WIDTH, number);
        }
    }
}
