//! Keys and values of the positions seen so far, of one layer and one session.
//!
//! Memory grows by blocks of [`POSITIONS_PER_BLOCK`] positions, which lie at absolute positions and
//! are never moved: nothing is copied when a chat grows, and what attention does with a block does
//! not depend on how the prompt was cut. The owner reserves room first (which may fail) and appends
//! then (which cannot).
//!
//! Numbers are f16 or f32 ([`CacheKind`]). Rounding to f16 is IEEE round-to-nearest-even, in plain
//! arithmetic, so every machine keeps the same bits.
//!
//! # Layout
//!
//! For each key-value head, a block holds its keys turned: (`key_dim`, 64 positions), so that a
//! vector of keys belongs to as many scores; and after them its values as they come: (64 positions,
//! `value_dim` filled up with zeros to a multiple of 16). [`crate::attention`] reads one after the
//! other from beginning to end, which is what the processor's own prefetching is made for. What is
//! handed over to another device has a layout of its own ([`handover`]).

pub mod handover;
pub(crate) mod line;

use std::collections::TryReserveError;

use line::{FloatLine, HalfLine, Line, WIDTH};

/// Positions in one block.
pub const POSITIONS_PER_BLOCK: usize = 64;

/// Groups of [`WIDTH`] positions in one block.
pub(crate) const GROUPS_PER_BLOCK: usize = POSITIONS_PER_BLOCK / WIDTH;

/// What a cache keeps its numbers as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheKind {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
}

/// The shape of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheShape {
    /// Key-value heads.
    pub kv_heads: usize,
    /// Numbers in a key of one head.
    pub key_dim: usize,
    /// Numbers in a value of one head.
    pub value_dim: usize,
    /// How they are kept.
    pub kind: CacheKind,
}

/// There is no memory for a cache of that many positions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no memory for the keys and values of {positions} positions ({bytes} bytes in one layer)")]
pub struct CacheFull {
    /// Positions asked for.
    pub positions: usize,
    /// Bytes that they take.
    pub bytes: u64,
    /// What the allocator says; `None` when the size is no number of bytes at all.
    #[source]
    pub source: Option<TryReserveError>,
}

/// Keys and values of one layer and one session.
pub struct LayerCache {
    shape: CacheShape,
    positions: usize,
    blocks: Blocks,
}

/// The blocks, by the kind of their numbers.
pub(crate) enum Blocks {
    Half(Vec<Block<HalfLine>>),
    Float(Vec<Block<FloatLine>>),
}

/// [`POSITIONS_PER_BLOCK`] positions.
pub(crate) struct Block<L> {
    /// For each head, [`CacheShape::head_lines`].
    lines: Vec<L>,
}

/// Runs `$body` with `$blocks` standing for the blocks of either kind.
macro_rules! with_blocks {
    ($from:expr, $blocks:ident => $body:expr) => {
        match $from {
            Blocks::Half($blocks) => $body,
            Blocks::Float($blocks) => $body,
        }
    };
}
pub(crate) use with_blocks;

impl CacheKind {
    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F16 => HalfLine::NUMBER_BYTES,
            Self::F32 => FloatLine::NUMBER_BYTES,
        }
    }
}

impl CacheShape {
    /// Bytes that a cache of `positions` positions holds, in whole blocks: what is to be counted
    /// before a session is promised. Saturates.
    #[must_use]
    pub fn bytes_for(&self, positions: usize) -> u64 {
        let blocks = positions.div_ceil(POSITIONS_PER_BLOCK) as u64;
        let row = (self.key_dim as u64)
            .saturating_add((self.value_lines() as u64).saturating_mul(WIDTH as u64));
        row.saturating_mul(self.kv_heads as u64)
            .saturating_mul((self.kind.bytes() * POSITIONS_PER_BLOCK) as u64)
            .saturating_mul(blocks)
    }

    /// Lines of one value.
    pub(crate) fn value_lines(&self) -> usize {
        self.value_dim.div_ceil(WIDTH)
    }

    /// Numbers in the keys and in the values of one position.
    fn rows(&self) -> Option<[usize; 2]> {
        Some([self.kv_heads.checked_mul(self.key_dim)?, self.kv_heads.checked_mul(self.value_dim)?])
    }

    /// Lines of the keys of one head in one block: (`key_dim`, [`GROUPS_PER_BLOCK`]).
    fn key_lines(&self) -> usize {
        self.key_dim * GROUPS_PER_BLOCK
    }

    /// Lines of one head in one block: those of the keys, then ([`POSITIONS_PER_BLOCK`],
    /// [`Self::value_lines`]) of the values.
    fn head_lines(&self) -> usize {
        self.key_lines() + POSITIONS_PER_BLOCK * self.value_lines()
    }

    /// Lines of one block; `None` when past counting. Once room was reserved, all sizes are.
    fn block_lines(&self) -> Option<usize> {
        let keys = self.key_dim.checked_mul(GROUPS_PER_BLOCK)?;
        let values = self.value_lines().checked_mul(POSITIONS_PER_BLOCK)?;
        keys.checked_add(values)?.checked_mul(self.kv_heads)
    }
}

impl LayerCache {
    /// An empty cache. Nothing is allocated yet.
    #[must_use]
    pub fn new(shape: CacheShape) -> Self {
        let blocks = match shape.kind {
            CacheKind::F16 => Blocks::Half(Vec::new()),
            CacheKind::F32 => Blocks::Float(Vec::new()),
        };
        Self { shape, positions: 0, blocks }
    }

    /// Makes room for `positions` positions in all. On failure the room is what it was.
    pub fn reserve(&mut self, positions: usize) -> Result<(), CacheFull> {
        let wanted = positions.div_ceil(POSITIONS_PER_BLOCK);
        let full = |source| CacheFull { positions, bytes: self.shape.bytes_for(positions), source };
        let lines = self.shape.block_lines().ok_or_else(|| full(None))?;
        let grown = with_blocks!(&mut self.blocks, blocks => grow(blocks, wanted, lines));
        grown.map_err(|error| CacheFull {
            positions,
            bytes: self.shape.bytes_for(positions),
            source: Some(error),
        })
    }

    /// Adds positions: `keys` is (positions, `kv_heads * key_dim`), `values` (positions,
    /// `kv_heads * value_dim`).
    ///
    /// # Panics
    ///
    /// When they are not whole rows of the same number of positions, or room for them was not
    /// reserved: mistakes of the caller, which no input can bring about.
    pub fn append(&mut self, keys: &[f32], values: &[f32]) {
        let [key_row, value_row] =
            self.shape.rows().expect("room is reserved, so the shape is a possible one");
        let count = keys.len().checked_div(key_row).unwrap_or(0);
        assert!(
            keys.len() == count * key_row && values.len() == count * value_row,
            "keys and values of whole positions, as many of one as of the other"
        );
        assert!(count <= self.room() - self.positions, "room is reserved before positions come");
        let (shape, first) = (self.shape, self.positions);
        with_blocks!(&mut self.blocks, blocks => {
            for index in 0..count {
                let position = first + index;
                let block = &mut blocks[position / POSITIONS_PER_BLOCK];
                let keys = &keys[index * key_row..][..key_row];
                block.put(&shape, position, keys, &values[index * value_row..][..value_row]);
            }
        });
        self.positions += count;
    }

    /// Forgets all positions from `positions` on, and gives back blocks that hold none any more. A
    /// number that is not below [`Self::positions`] gives back reserved blocks only.
    pub fn truncate(&mut self, positions: usize) {
        self.positions = self.positions.min(positions);
        let kept = self.positions.div_ceil(POSITIONS_PER_BLOCK);
        with_blocks!(&mut self.blocks, blocks => blocks.truncate(kept));
    }

    /// Positions held.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Positions there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        with_blocks!(&self.blocks, blocks => blocks.len() * POSITIONS_PER_BLOCK)
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.bytes_for(self.room())
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }
}

impl std::fmt::Debug for LayerCache {
    /// Shape and fill; never the numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerCache")
            .field("shape", &self.shape)
            .field("positions", &self.positions)
            .field("room", &self.room())
            .finish()
    }
}

impl<L: Line> Block<L> {
    /// Keys of `head`, (`key_dim`, [`GROUPS_PER_BLOCK`]) lines, and its values,
    /// ([`POSITIONS_PER_BLOCK`], `value_lines`) lines.
    pub(crate) fn head(&self, shape: &CacheShape, head: usize) -> (&[L], &[L]) {
        let lines = shape.head_lines();
        self.lines[head * lines..][..lines].split_at(shape.key_lines())
    }

    /// As [`Self::head`], to be written.
    fn head_mut(&mut self, shape: &CacheShape, head: usize) -> (&mut [L], &mut [L]) {
        let lines = shape.head_lines();
        self.lines[head * lines..][..lines].split_at_mut(shape.key_lines())
    }

    /// Writes keys (`kv_heads`, `key_dim`) and values (`kv_heads`, `value_dim`) of one position.
    fn put(&mut self, shape: &CacheShape, position: usize, keys: &[f32], values: &[f32]) {
        let (group, lane) = group_and_lane(position);
        let (slot, row) = (position % POSITIONS_PER_BLOCK, shape.value_lines());
        for head in 0..shape.kv_heads {
            let (key_lines, value_lines) = self.head_mut(shape, head);
            let keys = keys[head * shape.key_dim..][..shape.key_dim].chunks(WIDTH);
            for (lines, keys) in key_lines.chunks_mut(WIDTH * GROUPS_PER_BLOCK).zip(keys) {
                // Rounded as one line first, which takes a few vector instructions.
                let rounded = line_of::<L>(keys);
                for (from, lines) in lines.chunks_exact_mut(GROUPS_PER_BLOCK).enumerate() {
                    lines[group].copy(lane, &rounded, from);
                }
            }
            let values = values[head * shape.value_dim..][..shape.value_dim].chunks(WIDTH);
            for (line, values) in value_lines[slot * row..][..row].iter_mut().zip(values) {
                *line = line_of(values);
            }
        }
    }
}

/// Adds blocks until there are `wanted`; on failure there are as many as before.
fn grow<L: Line>(
    blocks: &mut Vec<Block<L>>,
    wanted: usize,
    lines: usize,
) -> Result<(), TryReserveError> {
    let before = blocks.len();
    blocks.try_reserve(wanted.saturating_sub(before))?;
    while blocks.len() < wanted {
        let mut zeros = Vec::new();
        if let Err(error) = zeros.try_reserve_exact(lines) {
            blocks.truncate(before);
            return Err(error);
        }
        zeros.resize(lines, L::ZERO);
        blocks.push(Block { lines: zeros });
    }
    Ok(())
}

/// Where the keys of a position lie in its block.
fn group_and_lane(position: usize) -> (usize, usize) {
    (position % POSITIONS_PER_BLOCK / WIDTH, position % WIDTH)
}

/// At most [`WIDTH`] numbers, rounded, and zeros.
#[inline(always)]
fn line_of<L: Line>(numbers: &[f32]) -> L {
    let mut line = L::ZERO;
    if let Some(numbers) = numbers.first_chunk::<WIDTH>() {
        for (lane, x) in numbers.iter().enumerate() {
            line.set(lane, *x);
        }
    } else {
        for (lane, x) in numbers.iter().enumerate() {
            line.set(lane, *x);
        }
    }
    line
}
