//! What sessions remember, on the device: keys and values of every position, or one state that
//! every position changes.
//!
//! Keys and values lie in one tensor each, which grows by [`BLOCK`] positions; a step writes its
//! positions into it in place. What a failed step left is cut off by position, as on the CPU.
//! Handing over goes through the CPU's own cache, so that its layout is written in one place.

use std::fmt;
use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use half::f16;
use nook_kernels::cache::handover::HandoverError;
use nook_kernels::cache::{CacheFull, POSITIONS_PER_BLOCK};
use nook_kernels::{CacheKind, CacheShape, LayerCache};

use crate::parts::{Broken, DeviceState, Recurrent, StateShape};

/// Positions by which a cache grows. Growing copies what is there, once in so many positions: under
/// a hundredth of what attention reads meanwhile.
const BLOCK: usize = 4 * POSITIONS_PER_BLOCK;

/// What a session remembers of one layer.
pub(crate) enum CardState {
    Keys(KeyCache),
    Recurrent(Fading),
}

/// Keys and values of one layer.
pub(crate) struct KeyCache {
    device: Device,
    shape: CacheShape,
    positions: usize,
    /// (`kv_heads`, room, `key_dim`) and (`kv_heads`, room, `value_dim`).
    room: Option<(Tensor, Tensor)>,
}

/// A state that every position changes.
pub(crate) struct Fading {
    device: Device,
    numbers: usize,
    /// Positions that the state has seen.
    position: u32,
    /// (numbers); absent at the beginning.
    current: Option<Tensor>,
    /// The state before the last step, and its positions, while that can be taken back.
    earlier: Option<(u32, Option<Tensor>)>,
    /// What the step that is being computed has made of it, and the positions it has seen by then.
    pending: Option<(u32, Tensor)>,
}

/// `positions`, filled up to what a cache really takes.
pub(crate) fn whole_blocks(positions: u32) -> u32 {
    let block = BLOCK as u32;
    positions.checked_next_multiple_of(block).unwrap_or(u32::MAX)
}

impl CardState {
    pub(super) fn new(device: &Device, shape: StateShape, kind: CacheKind) -> Self {
        let device = device.clone();
        match shape {
            StateShape::Keys { kv_heads, key_dim, value_dim } => {
                let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
                Self::Keys(KeyCache { device, shape, positions: 0, room: None })
            }
            StateShape::Recurrent { .. } | StateShape::Nothing => Self::Recurrent(Fading {
                device,
                numbers: shape.numbers(),
                position: 0,
                current: None,
                earlier: None,
                pending: None,
            }),
        }
    }
}

impl DeviceState for CardState {
    /// Bytes held.
    fn bytes(&self) -> u64 {
        match self {
            Self::Keys(cache) => cache.shape.bytes_for(cache.room()),
            Self::Recurrent(state) if state.position == 0 => 0,
            Self::Recurrent(state) => Recurrent::bytes_of(state.numbers),
        }
    }

    /// Makes room for `positions` positions in all; false when there is no memory.
    fn reserve(&mut self, positions: u32) -> bool {
        match self {
            Self::Keys(cache) => cache.grow(positions as usize).is_ok(),
            Self::Recurrent(_) => true,
        }
    }

    /// Whether the first `positions` positions can be kept without the others.
    fn can_truncate(&self, positions: u32) -> bool {
        match self {
            Self::Keys(cache) => positions as usize <= cache.positions,
            Self::Recurrent(state) => {
                let earlier = state.earlier.as_ref().map(|(position, _)| *position);
                positions == 0 || positions == state.position || earlier == Some(positions)
            }
        }
    }

    /// Keeps the first `positions` positions, and drops what a failed step left.
    fn truncate(&mut self, positions: u32) {
        match self {
            Self::Keys(cache) => {
                cache.positions = cache.positions.min(positions as usize);
                if cache.positions == 0 {
                    cache.room = None;
                }
            }
            Self::Recurrent(state) => state.truncate(positions),
        }
    }

    /// Makes what a step computed count.
    fn commit(&mut self) {
        let Self::Recurrent(state) = self else { return };
        if let Some((position, numbers)) = state.pending.take() {
            state.earlier = Some((state.position, state.current.replace(numbers)));
            state.position = position;
        }
    }

    /// Positions that count.
    fn position(&self) -> u32 {
        match self {
            // A session's positions are counted in 32 bits.
            Self::Keys(cache) => u32::try_from(cache.positions).unwrap_or(u32::MAX),
            Self::Recurrent(state) => state.position,
        }
    }

    /// The positions `range`, as bytes: those that the CPU would give.
    fn export(&self, range: Range<u32>) -> Result<Vec<u8>, HandoverError> {
        match self {
            Self::Keys(cache) => {
                let all = cache.on_host().map_err(|_| HandoverError::Unknown)?;
                all.export(range.start as usize..range.end as usize)
            }
            Self::Recurrent(state) => state.on_host()?.export(range),
        }
    }

    /// Adds exported positions after those that are here.
    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        match self {
            Self::Keys(cache) => cache.import(bytes),
            Self::Recurrent(state) => state.import(bytes),
        }
    }
}

impl KeyCache {
    /// Positions held.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// Adds the keys (`kv_heads`, n, `key_dim`) and values (`kv_heads`, n, `value_dim`) of the next
    /// positions, for which there is room.
    pub(super) fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<(), Broken> {
        let count = keys.dim(1)?;
        let Some((all_keys, all_values)) = &self.room else {
            return Err(Broken::new("a cache without room for a step"));
        };
        let kind = dtype(self.shape.kind);
        all_keys.slice_set(&keys.to_dtype(kind)?.contiguous()?, 1, self.positions)?;
        all_values.slice_set(&values.to_dtype(kind)?.contiguous()?, 1, self.positions)?;
        self.positions += count;
        Ok(())
    }

    /// Keys and values of `range`, in single precision.
    pub(super) fn seen(&self, range: Range<usize>) -> Result<(Tensor, Tensor), Broken> {
        let Some((keys, values)) = &self.room else {
            return Err(Broken::new("a cache without room for a step"));
        };
        let part = |all: &Tensor| all.narrow(1, range.start, range.len())?.to_dtype(DType::F32);
        Ok((part(keys)?, part(values)?))
    }

    fn room(&self) -> usize {
        self.room.as_ref().and_then(|(keys, _)| keys.dim(1).ok()).unwrap_or(0)
    }

    fn grow(&mut self, positions: usize) -> candle_core::Result<()> {
        if positions <= self.room() {
            return Ok(());
        }
        let room = positions.next_multiple_of(BLOCK);
        let CacheShape { kv_heads, key_dim, value_dim, kind } = self.shape;
        let fresh = |dim| Tensor::zeros((kv_heads, room, dim), dtype(kind), &self.device);
        let (keys, values) = (fresh(key_dim)?, fresh(value_dim)?);
        if let Some((old_keys, old_values)) = &self.room {
            keys.slice_set(old_keys, 1, 0)?;
            values.slice_set(old_values, 1, 0)?;
        }
        self.room = Some((keys, values));
        Ok(())
    }

    /// All positions in a cache of the CPU.
    fn on_host(&self) -> Result<LayerCache, Broken> {
        let mut cache = LayerCache::new(self.shape);
        let full = cache.reserve(self.positions);
        full.map_err(|full| Broken { reason: full.to_string() })?;
        if self.positions > 0 {
            let (keys, values) = self.seen(0..self.positions)?;
            // Of each position all heads.
            let rows = |part: Tensor| part.transpose(0, 1)?.flatten_all()?.to_vec1::<f32>();
            cache.append(&rows(keys)?, &rows(values)?);
        }
        Ok(cache)
    }

    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        let CacheShape { kv_heads, key_dim, value_dim, kind } = self.shape;
        // The CPU's cache checks the bytes; of the positions before, it needs the number alone.
        let mut cache = LayerCache::new(self.shape);
        cache.reserve(self.positions)?;
        let zeros = |dim: usize| vec![0.0; self.positions * kv_heads * dim];
        cache.append(&zeros(key_dim), &zeros(value_dim));
        cache.import(bytes)?;
        let count = cache.positions() - self.positions;
        if count == 0 {
            return Ok(());
        }
        // Keys, then values, are what the bytes end with.
        let (key_row, value_row) = (kv_heads * key_dim, kv_heads * value_dim);
        let begin = bytes.len() - count * (key_row + value_row) * kind.bytes();
        let numbers = numbers(&bytes[begin..], kind);
        let (keys, values) = numbers.split_at(count * key_row);
        let full = || CacheFull {
            positions: cache.positions(),
            bytes: self.shape.bytes_for(cache.positions()),
            source: None,
        };
        let heads_first = |rows: &[f32], dim: usize| {
            let rows = Tensor::from_slice(rows, (count, kv_heads, dim), &self.device)?;
            rows.transpose(0, 1)?.contiguous()
        };
        let parts = (heads_first(keys, key_dim), heads_first(values, value_dim));
        let (Ok(keys), Ok(values)) = parts else {
            return Err(full().into());
        };
        let full = full();
        let grown = self.grow(cache.positions());
        grown.map_err(Broken::from).and_then(|()| self.append(&keys, &values)).map_err(|_| full)?;
        Ok(())
    }
}

impl Fading {
    /// The state before position `first`; `None` at the beginning, where it is zeros.
    pub(super) fn before(&self, first: u32) -> Result<Option<&Tensor>, Broken> {
        match &self.pending {
            Some((position, numbers)) if *position == first => Ok(Some(numbers)),
            None if self.position == first => Ok(self.current.as_ref()),
            _ => Err(Broken::new("a state that does not end where the step begins")),
        }
    }

    /// Keeps what `count` positions from `first` on made of the state.
    pub(super) fn advance(&mut self, first: u32, count: u32, numbers: Tensor) {
        self.pending = Some((first + count, numbers));
    }

    fn truncate(&mut self, positions: u32) {
        self.pending = None;
        if positions == 0 {
            (self.position, self.current, self.earlier) = (0, None, None);
            return;
        }
        match self.earlier.take() {
            Some((position, numbers)) if position == positions => {
                (self.position, self.current) = (position, numbers);
            }
            // Kept: it is where it was.
            other => self.earlier = other,
        }
    }

    fn on_host(&self) -> Result<Recurrent, HandoverError> {
        let Some(current) = &self.current else {
            return Ok(Recurrent::kept(vec![0.0; self.numbers], self.position));
        };
        let numbers = current.to_vec1::<f32>().map_err(|_| HandoverError::Unknown)?;
        Ok(Recurrent::kept(numbers, self.position))
    }

    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        if self.position != 0 {
            let positions = self.position as usize;
            return Err(HandoverError::Position { first: 0, positions });
        }
        let mut host = Recurrent::new(self.numbers);
        host.import(bytes)?;
        if host.position() == 0 {
            return Ok(());
        }
        let numbers = Tensor::from_slice(host.numbers(), self.numbers, &self.device);
        let full = CacheFull {
            positions: host.position() as usize,
            bytes: Recurrent::bytes_of(self.numbers),
            source: None,
        };
        self.current = Some(numbers.map_err(|_| full)?);
        self.position = host.position();
        Ok(())
    }
}

impl fmt::Debug for CardState {
    /// Size and fill; never the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(cache) => {
                write!(f, "{} positions of {:?} on the card", cache.positions, cache.shape)
            }
            Self::Recurrent(state) => {
                write!(f, "a state of {} numbers after {}", state.numbers, state.position)
            }
        }
    }
}

fn dtype(kind: CacheKind) -> DType {
    match kind {
        CacheKind::F16 => DType::F16,
        CacheKind::F32 => DType::F32,
    }
}

/// Little-endian numbers.
fn numbers(bytes: &[u8], kind: CacheKind) -> Vec<f32> {
    match kind {
        CacheKind::F16 => {
            let halves = bytes.as_chunks::<2>().0.iter();
            halves.map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
        }
        CacheKind::F32 => {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
    }
}
