//! What sessions remember, on a GPU: keys and values of every position, or one state that every
//! position changes.
//!
//! Keys and values lie in one buffer each, which grows by [`BLOCK`] positions. What a failed step
//! left is cut off by position, as on the CPU. A step makes a new state out of the one before,
//! which can be taken back. Handing over goes through the CPU's own cache, so that its layout is
//! written in one place.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use nook_gpu::{Buffer, Cache, Commands, Gpu, GpuError};
use nook_kernels::cache::handover::HandoverError;
use nook_kernels::cache::{CacheFull, POSITIONS_PER_BLOCK};
use nook_kernels::{CacheKind, CacheShape, Format, LayerCache};

use crate::loaded::session::StepError;
use crate::parts::{Broken, DeviceState, Recurrent, StateShape};

/// Positions by which a cache grows. Growing copies what is there, once in so many positions: under
/// a hundredth of what attention reads meanwhile.
const BLOCK: usize = 4 * POSITIONS_PER_BLOCK;

/// What a session remembers of one layer.
pub(crate) enum GpuState {
    Keys(KeyCache),
    Recurrent(Fading),
}

/// Keys and values of one layer.
pub(crate) struct KeyCache {
    gpu: Gpu,
    shape: CacheShape,
    positions: usize,
    room: Option<Cache>,
}

/// A state that every position changes.
pub(crate) struct Fading {
    gpu: Gpu,
    numbers: usize,
    /// Positions that the state has seen.
    position: u32,
    /// Absent at the beginning, where it is zeros.
    current: Option<Arc<Buffer>>,
    /// The state before the last step, and its positions, while that can be taken back.
    earlier: Option<(u32, Option<Arc<Buffer>>)>,
    /// What the step that is being computed has made of it, and the positions it has seen by then.
    pending: Option<(u32, Arc<Buffer>)>,
    /// Memory for the next state.
    spare: Option<Arc<Buffer>>,
}

/// `positions`, filled up to what a cache really takes.
pub(crate) fn whole_blocks(positions: u32) -> u32 {
    positions.checked_next_multiple_of(BLOCK as u32).unwrap_or(u32::MAX)
}

impl GpuState {
    pub(super) fn new(gpu: &Gpu, shape: StateShape, kind: CacheKind) -> Self {
        match shape {
            StateShape::Keys { kv_heads, key_dim, value_dim } => {
                let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
                Self::Keys(KeyCache { gpu: gpu.clone(), shape, positions: 0, room: None })
            }
            StateShape::Recurrent { .. } | StateShape::Nothing => Self::Recurrent(Fading {
                gpu: gpu.clone(),
                numbers: shape.numbers(),
                position: 0,
                current: None,
                earlier: None,
                pending: None,
                spare: None,
            }),
        }
    }
}

impl DeviceState for GpuState {
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
            let before = state.current.replace(numbers);
            if let Some((_, oldest)) = state.earlier.replace((state.position, before)) {
                state.spare = oldest;
            }
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
            Self::Keys(cache) => cache.export(range.start as usize..range.end as usize),
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

impl Fading {
    /// The state before position `first`, and where that after `count` more goes: whoever asks must
    /// record how all of it is written.
    pub(super) fn advance(
        &mut self,
        first: u32,
        count: u32,
    ) -> Result<(Arc<Buffer>, Arc<Buffer>), StepError> {
        let fresh =
            || Ok::<_, GpuError>(Arc::new(Buffer::new(&self.gpu, "a state", self.numbers)?));
        let before = match &self.pending {
            Some((position, numbers)) if *position == first => Arc::clone(numbers),
            None if self.position == first => match &self.current {
                Some(numbers) => Arc::clone(numbers),
                None => fresh()?,
            },
            _ => return Err(Broken::new("a state that does not end where the step begins").into()),
        };
        let after = match self.spare.take() {
            Some(spare) => spare,
            None => fresh()?,
        };
        if let Some((_, oldest)) = self.pending.replace((first + count, Arc::clone(&after))) {
            self.spare = Some(oldest);
        }
        Ok((before, after))
    }

    fn truncate(&mut self, positions: u32) {
        self.pending = None;
        if positions == 0 {
            (self.position, self.current, self.earlier, self.spare) = (0, None, None, None);
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
        let numbers = Commands::new(&self.gpu).read_floats(current, 0, self.numbers);
        Ok(Recurrent::kept(numbers.map_err(|_| HandoverError::Unknown)?, self.position))
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
        let numbers = Buffer::of_floats(&self.gpu, "a state", host.numbers());
        let full = CacheFull {
            positions: host.position() as usize,
            bytes: Recurrent::bytes_of(self.numbers),
            source: None,
        };
        self.current = Some(Arc::new(numbers.map_err(|_| full)?));
        self.position = host.position();
        Ok(())
    }
}

impl KeyCache {
    /// Positions held.
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// The room that [`GpuState::reserve`] made.
    pub(super) fn cache(&self) -> Result<&Cache, GpuError> {
        let none = GpuError::Size { what: "room of a cache", got: 0, expected: 1 };
        self.room.as_ref().ok_or(none)
    }

    /// Counts positions that are being computed.
    pub(super) fn advance(&mut self, count: usize) {
        self.positions += count;
    }

    fn room(&self) -> usize {
        self.room.as_ref().map_or(0, Cache::room)
    }

    fn grow(&mut self, positions: usize) -> Result<(), GpuError> {
        if positions <= self.room() {
            return Ok(());
        }
        let CacheShape { kv_heads, key_dim, value_dim, kind } = self.shape;
        let half = kind == CacheKind::F16;
        let shape = nook_gpu::CacheShape { kv_heads, key_dim, value_dim, half };
        let fresh = Cache::new(&self.gpu, shape, positions.next_multiple_of(BLOCK))?;
        if let Some(old) = &self.room {
            let mut commands = Commands::new(&self.gpu);
            fresh.copy_from(&mut commands, old, self.positions)?;
            commands.submit()?;
        }
        self.room = Some(fresh);
        Ok(())
    }

    fn export(&self, range: Range<usize>) -> Result<Vec<u8>, HandoverError> {
        let fault =
            HandoverError::Range { start: range.start, end: range.end, positions: self.positions };
        if range.start > range.end || range.end > self.positions {
            return Err(fault);
        }
        // The CPU's cache writes the bytes; of the positions before, it needs the number alone.
        let mut cache = self.on_host(range.start)?;
        if !range.is_empty() {
            cache.reserve(range.end)?;
            let CacheShape { kv_heads, key_dim, kind, .. } = self.shape;
            let read =
                self.cache().and_then(|cache| cache.read(&self.gpu, range.start, range.len()));
            let bytes = read.map_err(|_| HandoverError::Unknown)?;
            let (keys, values) = bytes.split_at(range.len() * kv_heads * key_dim * kind.bytes());
            cache.append(&numbers(keys, kind), &numbers(values, kind));
        }
        cache.export(range)
    }

    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        // The CPU's cache checks the bytes.
        let mut cache = self.on_host(self.positions)?;
        cache.import(bytes)?;
        let count = cache.positions() - self.positions;
        if count == 0 {
            return Ok(());
        }
        let numbers = self.shape.kv_heads * (self.shape.key_dim + self.shape.value_dim);
        // Keys, then values, are what the bytes end with.
        let begin = bytes.len() - count * numbers * self.shape.kind.bytes();
        let (first, gpu) = (self.positions, self.gpu.clone());
        let grown = self.grow(cache.positions());
        let written = grown.and_then(|()| self.cache()?.write(&gpu, first, count, &bytes[begin..]));
        if written.is_err() {
            let (positions, bytes) = (cache.positions(), self.shape.bytes_for(cache.positions()));
            return Err(CacheFull { positions, bytes, source: None }.into());
        }
        self.positions = cache.positions();
        Ok(())
    }

    /// A cache of the CPU with `positions` positions of zeros.
    fn on_host(&self, positions: usize) -> Result<LayerCache, HandoverError> {
        let CacheShape { kv_heads, key_dim, value_dim, .. } = self.shape;
        let mut cache = LayerCache::new(self.shape);
        cache.reserve(positions)?;
        let zeros = |dim: usize| vec![0.0; positions * kv_heads * dim];
        cache.append(&zeros(key_dim), &zeros(value_dim));
        Ok(cache)
    }
}

impl fmt::Debug for GpuState {
    /// Size and fill; never the numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(cache) => {
                write!(f, "{} positions of {:?} on a GPU", cache.positions, cache.shape)
            }
            Self::Recurrent(state) => {
                write!(f, "a state of {} numbers after {}", state.numbers, state.position)
            }
        }
    }
}

/// Little-endian numbers.
fn numbers(bytes: &[u8], kind: CacheKind) -> Vec<f32> {
    let format = match kind {
        CacheKind::F16 => Format::F16,
        CacheKind::F32 => Format::F32,
    };
    let mut numbers = vec![0.0; bytes.len() / kind.bytes()];
    format.decode(bytes, &mut numbers);
    numbers
}
