//! What a session remembers of one layer: keys and values of every position, or one state that
//! every position changes.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;

use nook_kernels::cache::handover::HandoverError;
use nook_kernels::{CacheKind, CacheShape, LayerCache};

use super::Broken;

/// The sizes of what a layer remembers, without the kind of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateShape {
    /// Keys and values of every position.
    Keys { kv_heads: usize, key_dim: usize, value_dim: usize },
    /// So many numbers, whatever the position.
    Recurrent { numbers: usize },
    /// Each position is computed alone.
    Nothing,
}

/// What a session remembers of one layer.
#[derive(Debug)]
pub(crate) enum LayerState {
    Keys(LayerCache),
    Recurrent(Recurrent),
    Nothing(Nothing),
    /// Keys or a state, on another device than the processor.
    OnDevice(Box<dyn DeviceState>),
}

/// What a session remembers of one layer on another device than the processor.
pub(crate) trait DeviceState: Any + Debug + Send + Sync {
    /// Positions that count.
    fn position(&self) -> u32;
    /// Bytes held.
    fn bytes(&self) -> u64;
    /// Makes room for `positions` positions in all; false when there is no memory.
    fn reserve(&mut self, positions: u32) -> bool;
    /// Whether the first `positions` positions can be kept without the others.
    fn can_truncate(&self, positions: u32) -> bool;
    /// Keeps the first `positions` positions, and drops what a failed step left.
    fn truncate(&mut self, positions: u32);
    /// Makes what a step computed count.
    fn commit(&mut self);
    /// The positions `range`, in the bytes of the processor's own states.
    fn export(&self, range: Range<u32>) -> Result<Vec<u8>, HandoverError>;
    /// Adds exported positions after those that are here.
    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError>;
}

/// A state that every position changes. A step reads one copy and writes the other, so that a step
/// that fails changes nothing, and the last step can be taken back. Nothing else can: between the
/// beginning and the step before there is no state.
pub(crate) struct Recurrent {
    numbers: usize,
    /// The state that counts, and the other one. Empty while there are no positions.
    copies: [Vec<f32>; 2],
    current: usize,
    /// Positions that the current copy has seen.
    position: u32,
    /// Positions that the other copy had seen, while it still holds that.
    earlier: Option<u32>,
    /// Positions that the other copy has seen in the step that is being computed.
    pending: Option<u32>,
}

/// The positions that a layer has seen of which it remembers nothing.
#[derive(Debug, Default)]
pub(crate) struct Nothing {
    position: u32,
    /// Positions after the step that is being computed.
    pending: Option<u32>,
}

impl StateShape {
    /// Bytes that `positions` positions take.
    pub(crate) fn bytes(self, kind: CacheKind, positions: u32) -> u64 {
        match self {
            Self::Keys { kv_heads, key_dim, value_dim } => {
                let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
                shape.bytes_for(positions as usize)
            }
            Self::Nothing => 0,
            Self::Recurrent { .. } if positions == 0 => 0,
            Self::Recurrent { numbers } => Recurrent::bytes_of(numbers),
        }
    }

    /// Numbers of a state that every position changes.
    pub(crate) fn numbers(self) -> usize {
        match self {
            Self::Recurrent { numbers } => numbers,
            Self::Keys { .. } | Self::Nothing => 0,
        }
    }

    /// An empty state.
    pub(crate) fn empty(self, kind: CacheKind) -> LayerState {
        match self {
            Self::Keys { kv_heads, key_dim, value_dim } => {
                let shape = CacheShape { kv_heads, key_dim, value_dim, kind };
                LayerState::Keys(LayerCache::new(shape))
            }
            Self::Recurrent { numbers } => LayerState::Recurrent(Recurrent::new(numbers)),
            Self::Nothing => LayerState::Nothing(Nothing::default()),
        }
    }
}

impl LayerState {
    /// A state on another device.
    pub(crate) fn on_device(state: impl DeviceState) -> Self {
        Self::OnDevice(Box::new(state))
    }

    /// The state, if it is of this kind of device.
    pub(crate) fn of_device<T: DeviceState>(&mut self) -> Option<&mut T> {
        match self {
            Self::OnDevice(state) => {
                let any: &mut dyn Any = &mut **state;
                any.downcast_mut()
            }
            Self::Keys(_) | Self::Recurrent(_) | Self::Nothing(_) => None,
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Keys(cache) => cache.bytes(),
            Self::Nothing(_) => 0,
            Self::Recurrent(state) if state.copies[0].is_empty() => 0,
            Self::Recurrent(state) => Recurrent::bytes_of(state.numbers),
            Self::OnDevice(state) => state.bytes(),
        }
    }

    /// Makes room for `positions` positions in all; false when there is no memory.
    pub(crate) fn reserve(&mut self, positions: u32) -> bool {
        match self {
            Self::Keys(cache) => cache.reserve(positions as usize).is_ok(),
            Self::Recurrent(state) => positions == 0 || state.reserve(),
            Self::Nothing(_) => true,
            Self::OnDevice(state) => state.reserve(positions),
        }
    }

    /// Whether the first `positions` positions can be kept without the others.
    pub(crate) fn can_truncate(&self, positions: u32) -> bool {
        match self {
            Self::Keys(cache) => positions as usize <= cache.positions(),
            Self::Recurrent(state) => {
                positions == 0 || positions == state.position || state.earlier == Some(positions)
            }
            Self::Nothing(state) => positions <= state.position,
            Self::OnDevice(state) => state.can_truncate(positions),
        }
    }

    /// Keeps the first `positions` positions, and drops what a failed step left.
    pub(crate) fn truncate(&mut self, positions: u32) {
        match self {
            Self::Keys(cache) => cache.truncate(positions as usize),
            Self::Recurrent(state) => state.truncate(positions),
            Self::Nothing(state) => state.truncate(positions),
            Self::OnDevice(state) => state.truncate(positions),
        }
    }

    /// Makes what a step computed count.
    pub(crate) fn commit(&mut self) {
        match self {
            Self::Keys(_) => {}
            Self::Recurrent(state) => state.commit(),
            Self::Nothing(state) => state.commit(),
            Self::OnDevice(state) => state.commit(),
        }
    }

    /// The positions `range`, as bytes. A recurrent state goes whole: its range begins at 0 and
    /// ends where it is.
    pub(crate) fn export(&self, range: Range<u32>) -> Result<Vec<u8>, HandoverError> {
        match self {
            Self::Keys(cache) => cache.export(range.start as usize..range.end as usize),
            Self::Recurrent(state) => state.export(range),
            Self::Nothing(state) => state.export(range),
            Self::OnDevice(state) => state.export(range),
        }
    }

    /// Adds exported positions after those that are here.
    pub(crate) fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        match self {
            Self::Keys(cache) => cache.import(bytes),
            Self::Recurrent(state) => state.import(bytes),
            Self::Nothing(state) => state.import(bytes),
            Self::OnDevice(state) => state.import(bytes),
        }
    }
}

const MAGIC: [u8; 4] = *b"NRS1";
const HEADER_BYTES: usize = 8;

impl Recurrent {
    pub(crate) fn new(numbers: usize) -> Self {
        let copies = [Vec::new(), Vec::new()];
        Self { numbers, copies, current: 0, position: 0, earlier: None, pending: None }
    }

    pub(crate) fn bytes_of(numbers: usize) -> u64 {
        2 * size_of::<f32>() as u64 * numbers as u64
    }

    /// The state before position `first` and the one to be written, which are the same within a
    /// step after its first group of rows. Whoever asks must write all of it, for `count`
    /// positions.
    pub(super) fn advance(
        &mut self,
        first: u32,
        count: u32,
    ) -> Result<(Option<&[f32]>, &mut [f32]), Broken> {
        let goes_on = self.pending == Some(first);
        if self.copies[0].is_empty() || !(goes_on || self.position == first) {
            return Err(Broken::new("a state that does not end where the step begins"));
        }
        self.pending = Some(first + count);
        self.earlier = None;
        let [a, b] = &mut self.copies;
        let (current, other) = if self.current == 0 { (a, b) } else { (b, a) };
        Ok((if goes_on { None } else { Some(&current[..]) }, &mut other[..]))
    }

    /// One that was kept elsewhere, after `position` positions.
    pub(crate) fn kept(numbers: Vec<f32>, position: u32) -> Self {
        let count = numbers.len();
        Self { copies: [numbers, Vec::new()], position, ..Self::new(count) }
    }

    /// The state that counts; empty while there are no positions.
    pub(crate) fn numbers(&self) -> &[f32] {
        &self.copies[self.current]
    }

    /// Positions that it has seen.
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    fn reserve(&mut self) -> bool {
        if !self.copies[0].is_empty() {
            return true;
        }
        let mut copies = [Vec::new(), Vec::new()];
        if copies.iter_mut().any(|copy| copy.try_reserve_exact(self.numbers).is_err()) {
            return false;
        }
        copies.iter_mut().for_each(|copy| copy.resize(self.numbers, 0.0));
        self.copies = copies;
        true
    }

    fn commit(&mut self) {
        if let Some(position) = self.pending.take() {
            self.earlier = Some(self.position);
            self.position = position;
            self.current = 1 - self.current;
        }
    }

    fn truncate(&mut self, positions: u32) {
        self.pending = None;
        if positions == 0 {
            *self = Self::new(self.numbers);
        } else if self.earlier == Some(positions) {
            self.current = 1 - self.current;
            self.position = positions;
            self.earlier = None;
        }
    }

    pub(crate) fn export(&self, range: Range<u32>) -> Result<Vec<u8>, HandoverError> {
        if range.start != 0 || range.end != self.position {
            return Err(HandoverError::Range {
                start: range.start as usize,
                end: range.end as usize,
                positions: self.position as usize,
            });
        }
        let numbers = &self.copies[self.current];
        let mut bytes = Vec::with_capacity(HEADER_BYTES + size_of_val(&numbers[..]));
        bytes.extend(MAGIC);
        bytes.extend(self.position.to_le_bytes());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        Ok(bytes)
    }

    pub(crate) fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        let Some((header, numbers)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(HandoverError::Unknown);
        };
        let [m0, m1, m2, m3, position @ ..] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HandoverError::Unknown);
        }
        if self.position != 0 {
            return Err(HandoverError::Position { first: 0, positions: self.position as usize });
        }
        let position = u32::from_le_bytes(position);
        let wanted = if position == 0 { 0 } else { self.numbers * size_of::<f32>() };
        if numbers.len() != wanted {
            let expected = (HEADER_BYTES + wanted) as u64;
            return Err(HandoverError::Length { expected, got: bytes.len() });
        }
        if position == 0 {
            return Ok(());
        }
        if !self.reserve() {
            let bytes = Self::bytes_of(self.numbers);
            let positions = position as usize;
            return Err(nook_kernels::cache::CacheFull { positions, bytes, source: None }.into());
        }
        let (numbers, _) = numbers.as_chunks::<4>();
        for (to, from) in self.copies[self.current].iter_mut().zip(numbers) {
            *to = f32::from_le_bytes(*from);
        }
        self.position = position;
        Ok(())
    }
}

/// How the bytes of a layer begin that remembers nothing: then come the first position and the end.
const MAGIC_OF_NOTHING: [u8; 4] = *b"NNS1";

impl Nothing {
    /// Counts `count` positions from `first` on, in the step that is being computed.
    pub(crate) fn advance(&mut self, first: u32, count: u32) -> Result<(), Broken> {
        if self.pending.unwrap_or(self.position) != first {
            return Err(Broken::new("a state that does not end where the step begins"));
        }
        self.pending = Some(first + count);
        Ok(())
    }

    /// Positions that it has seen.
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    fn commit(&mut self) {
        self.position = self.pending.take().unwrap_or(self.position);
    }

    fn truncate(&mut self, positions: u32) {
        self.pending = None;
        self.position = self.position.min(positions);
    }

    fn export(&self, range: Range<u32>) -> Result<Vec<u8>, HandoverError> {
        if range.start > range.end || range.end > self.position {
            return Err(HandoverError::Range {
                start: range.start as usize,
                end: range.end as usize,
                positions: self.position as usize,
            });
        }
        let ends = [range.start, range.end].map(u32::to_le_bytes);
        Ok([MAGIC_OF_NOTHING, ends[0], ends[1]].concat())
    }

    fn import(&mut self, bytes: &[u8]) -> Result<(), HandoverError> {
        let (parts, rest) = bytes.as_chunks::<4>();
        let [MAGIC_OF_NOTHING, start, end] = parts else {
            return Err(HandoverError::Unknown);
        };
        let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
        if !rest.is_empty() || end < start {
            return Err(HandoverError::Unknown);
        }
        if start != self.position {
            let (first, positions) = (start as usize, self.position as usize);
            return Err(HandoverError::Position { first, positions });
        }
        self.position = end;
        Ok(())
    }
}

impl Debug for Recurrent {
    /// Size and fill; never the numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a state of {} numbers after {} positions", self.numbers, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> LayerState {
        StateShape::Recurrent { numbers: 3 }.empty(CacheKind::F16)
    }

    /// A step of `count` positions that adds `number` to everything.
    fn add(state: &mut LayerState, count: u32, number: f32) -> u32 {
        assert!(state.reserve(1));
        let LayerState::Recurrent(inner) = state else { unreachable!("made so") };
        let first = inner.pending.unwrap_or(inner.position);
        let (before, after) = inner.advance(first, count).unwrap();
        if let Some(before) = before {
            after.copy_from_slice(before);
        }
        after.iter_mut().for_each(|x| *x += number);
        first
    }

    fn numbers(state: &LayerState) -> Vec<f32> {
        let LayerState::Recurrent(inner) = state else { unreachable!("made so") };
        inner.copies[inner.current].clone()
    }

    #[test]
    fn a_step_counts_when_it_is_committed_and_the_last_can_be_taken_back() {
        let mut state = state();
        add(&mut state, 5, 1.0);
        state.commit();
        // Two groups of rows of one step.
        assert_eq!(add(&mut state, 2, 10.0), 5);
        assert_eq!(add(&mut state, 2, 10.0), 7);
        assert_eq!(numbers(&state), [1.0; 3]);
        state.truncate(5);
        assert_eq!(numbers(&state), [1.0; 3]);
        add(&mut state, 4, 20.0);
        state.commit();
        assert_eq!(numbers(&state), [21.0; 3]);
        assert!(state.can_truncate(9) && state.can_truncate(5) && state.can_truncate(0));
        assert!(!state.can_truncate(7) && !state.can_truncate(10));
        state.truncate(5);
        assert_eq!(numbers(&state), [1.0; 3]);
        assert!(!state.can_truncate(9));
        state.truncate(0);
        assert_eq!(state.bytes(), 0);
        let LayerState::Recurrent(inner) = &mut state else { unreachable!("made so") };
        assert!(inner.advance(3, 1).is_err());
    }

    #[test]
    fn a_state_is_handed_over_whole_to_one_that_has_seen_nothing() {
        let mut here = state();
        add(&mut here, 5, 1.5);
        here.commit();
        assert!(here.export(0..4).is_err() && here.export(1..5).is_err());
        let bytes = here.export(0..5).unwrap();
        let mut there = state();
        there.import(&bytes).unwrap();
        assert_eq!(numbers(&there), numbers(&here));
        assert_eq!(there.bytes(), StateShape::Recurrent { numbers: 3 }.bytes(CacheKind::F32, 5));
        assert!(there.import(&bytes).is_err());
        for broken in [&bytes[..7], &bytes[..12], b"NKV1aaaa"] {
            let mut there = state();
            assert!(there.import(broken).is_err());
            assert_eq!(there.bytes(), 0);
        }
    }
}
