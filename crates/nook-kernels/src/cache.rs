//! Keys and values of the positions seen so far, of one layer.
//!
//! Memory grows by blocks of [`POSITIONS_PER_BLOCK`] positions and is never moved, so nothing is
//! copied when a chat grows and nothing is allocated for positions that are not there. The cache
//! holds no count of positions: its owner says where a row belongs, and how many are valid. Rows past
//! that are remains of a step that failed and are written over.
//!
//! Numbers are f32. Half the memory (f16) would move logits by about 1e-3, and a cut between two
//! devices must not show; see the design of the engine for the plan.

use std::collections::TryReserveError;

/// Positions in one block.
pub const POSITIONS_PER_BLOCK: usize = 64;

/// Keys and values of one layer and one session.
pub struct LayerCache {
    kv_heads: usize,
    head_dim: usize,
    blocks: Vec<Block>,
}

/// (`kv_heads`, [`POSITIONS_PER_BLOCK`], `head_dim`) keys, and as many values.
struct Block {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl LayerCache {
    /// An empty cache of `kv_heads` heads of `head_dim` numbers.
    #[must_use]
    pub fn new(kv_heads: usize, head_dim: usize) -> Self {
        Self { kv_heads, head_dim, blocks: Vec::new() }
    }

    /// Bytes that a cache of `positions` positions takes: whole blocks.
    #[must_use]
    pub fn bytes_for(kv_heads: usize, head_dim: usize, positions: usize) -> u64 {
        let blocks = positions.div_ceil(POSITIONS_PER_BLOCK) as u64;
        (size_of::<f32>() as u64 * 2 * POSITIONS_PER_BLOCK as u64)
            .saturating_mul(kv_heads as u64)
            .saturating_mul(head_dim as u64)
            .saturating_mul(blocks)
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let positions = self.blocks.len() * POSITIONS_PER_BLOCK;
        Self::bytes_for(self.kv_heads, self.head_dim, positions)
    }

    /// Positions there is room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.blocks.len() * POSITIONS_PER_BLOCK
    }

    /// Key-value heads.
    #[must_use]
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Numbers in a head.
    #[must_use]
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Makes room for `positions` positions. On failure the room is what it was.
    pub fn reserve(&mut self, positions: usize) -> Result<(), TryReserveError> {
        let before = self.blocks.len();
        while self.room() < positions {
            if let Err(error) = self.add_block() {
                self.blocks.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back the blocks that hold none of the first `positions` positions.
    pub fn truncate(&mut self, positions: usize) {
        self.blocks.truncate(positions.div_ceil(POSITIONS_PER_BLOCK));
    }

    /// Writes rows (positions, `kv_heads * head_dim`) of keys and values from position `first` on.
    /// Returns whether there was room for all of them; if not, nothing is written.
    #[must_use]
    pub fn write(&mut self, first: usize, keys: &[f32], values: &[f32]) -> bool {
        let row = self.kv_heads * self.head_dim;
        if row == 0 || keys.len() != values.len() || first + keys.len() / row > self.room() {
            return false;
        }
        let rows = keys.chunks_exact(row).zip(values.chunks_exact(row));
        for (index, (key, value)) in rows.enumerate() {
            let position = first + index;
            let block = &mut self.blocks[position / POSITIONS_PER_BLOCK];
            let slot = position % POSITIONS_PER_BLOCK;
            for head in 0..self.kv_heads {
                let to = (head * POSITIONS_PER_BLOCK + slot) * self.head_dim;
                let from = head * self.head_dim;
                block.keys[to..to + self.head_dim]
                    .copy_from_slice(&key[from..from + self.head_dim]);
                block.values[to..to + self.head_dim]
                    .copy_from_slice(&value[from..from + self.head_dim]);
            }
        }
        true
    }

    /// Keys and values of `head` in each block, oldest first: ([`POSITIONS_PER_BLOCK`], `head_dim`).
    #[inline(always)]
    pub(crate) fn head(&self, head: usize) -> impl Iterator<Item = (&[f32], &[f32])> {
        let length = POSITIONS_PER_BLOCK * self.head_dim;
        let range = head * length..(head + 1) * length;
        self.blocks
            .iter()
            .map(move |block| (&block.keys[range.clone()], &block.values[range.clone()]))
    }

    fn add_block(&mut self) -> Result<(), TryReserveError> {
        let length = self.kv_heads * self.head_dim * POSITIONS_PER_BLOCK;
        self.blocks.try_reserve(1)?;
        self.blocks.push(Block { keys: zeros(length)?, values: zeros(length)? });
        Ok(())
    }
}

impl std::fmt::Debug for LayerCache {
    /// The shape; never the numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cache of {} heads x {}, room for {}", self.kv_heads, self.head_dim, self.room())
    }
}

fn zeros(length: usize) -> Result<Vec<f32>, TryReserveError> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(length)?;
    numbers.resize(length, 0.0);
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_by_blocks_and_is_given_back() {
        let mut cache = LayerCache::new(2, 4);
        assert_eq!(cache.bytes(), 0);
        cache.reserve(65).unwrap();
        assert_eq!(cache.room(), 128);
        assert_eq!(cache.bytes(), 2 * 2 * 4 * 4 * 128);
        assert_eq!(cache.bytes(), LayerCache::bytes_for(2, 4, 65));
        cache.truncate(64);
        assert_eq!(cache.room(), 64);
        cache.truncate(0);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn rows_without_room_are_refused_whole() {
        let mut cache = LayerCache::new(1, 2);
        cache.reserve(1).unwrap();
        assert!(cache.write(63, &[1.0, 2.0], &[3.0, 4.0]));
        assert!(!cache.write(63, &[9.0; 4], &[9.0; 4]));
        let (keys, values) = cache.head(0).next().unwrap();
        assert_eq!((&keys[126..], &values[126..]), (&[1.0, 2.0][..], &[3.0, 4.0][..]));
    }
}
