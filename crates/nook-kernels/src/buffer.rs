//! Memory for weights.
//!
//! Large buffers come straight from the system, in huge pages where it has them (transparent ones
//! of Linux, 2 MiB on the usual machines): a forward pass reads all of them once for each token,
//! and with small pages the processor spends part of that time looking up where they are. What does
//! not fill a huge page lies in small ones, so buffers that are used together share one [`Room`]:
//! then only the rest of the whole room does. Such memory begins as zeros, and a page of it only
//! exists once it is written, so threads that fill it share the work of making it.

#![allow(unsafe_code, reason = "buffers of a room are parts of one mapping")]

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapMut;

/// Buffers below this come from the heap, unless a room has space for them.
const MAPPED_MIN: usize = 1 << 20;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// A rest takes a huge page of its own from so many bytes on: what it does not fill of it is lost.
#[cfg(target_os = "linux")]
const HUGE_REST_MIN: usize = HUGE / 4 * 3;

/// Where buffers of a room begin: with a cache line, which is also a vector of the widest
/// registers.
const ALIGNED: usize = 64;

/// Memory for the buffers of matrices that are used together, one behind the other. It goes back to
/// the system with the last of them.
#[derive(Debug, Default)]
pub struct Room {
    mapping: Option<Arc<Mapping>>,
    used: usize,
}

/// Bytes, zero at first.
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    /// These bytes of a mapping, which are nobody else's.
    Mapped {
        mapping: Arc<Mapping>,
        part: Range<usize>,
    },
}

/// Bytes from the system that begin with a huge page.
pub(crate) struct Mapping {
    /// Held for as long as `first` is used.
    _map: MmapMut,
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: it is memory and nothing else; who may read and write which part of it is what the
// buffers over it say.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Room {
    /// Bytes of a room that a buffer of `length` bytes takes.
    pub(crate) fn taken_by(length: usize) -> usize {
        length.saturating_add(ALIGNED - 1) / ALIGNED * ALIGNED
    }

    /// Room for so many bytes. Too little for a mapping of its own, or more than the system has, is
    /// no room: buffers then come one by one.
    #[must_use]
    pub fn with(bytes: usize) -> Self {
        let mapping = (bytes >= MAPPED_MIN).then(|| Mapping::zeroed(bytes).ok()).flatten();
        Self { mapping: mapping.map(Arc::new), used: 0 }
    }

    /// `length` zeros, from elsewhere when there is no space for them here.
    ///
    /// # Errors
    ///
    /// As [`Buffer::zeroed`].
    pub(crate) fn buffer(&mut self, length: usize) -> io::Result<Buffer> {
        let taken = Self::taken_by(length);
        match &self.mapping {
            Some(mapping) if length > 0 && taken <= mapping.length - self.used => {
                let part = self.used..self.used + length;
                self.used += taken;
                Ok(Buffer::Mapped { mapping: Arc::clone(mapping), part })
            }
            _ => Buffer::zeroed(length),
        }
    }
}

impl Buffer {
    /// `length` zeros.
    ///
    /// # Errors
    ///
    /// When the system has no such memory. (Linux may promise memory that it does not have.)
    pub(crate) fn zeroed(length: usize) -> io::Result<Self> {
        if length < MAPPED_MIN {
            return Ok(Self::Heap(vec![0; length]));
        }
        Ok(Self::Mapped { mapping: Arc::new(Mapping::zeroed(length)?), part: 0..length })
    }
}

impl Mapping {
    /// At least `length` zeros: to the end of the last cache line.
    fn zeroed(length: usize) -> io::Result<Self> {
        let room = length.checked_next_multiple_of(HUGE).and_then(|whole| whole.checked_add(HUGE));
        let mut map = MmapMut::map_anon(room.ok_or(io::ErrorKind::OutOfMemory)?)?;
        let start = map.as_ptr().align_offset(HUGE).min(HUGE);
        #[cfg(target_os = "linux")]
        {
            let rest = if length % HUGE < HUGE_REST_MIN { length % HUGE } else { 0 };
            let huge = (length - rest).next_multiple_of(HUGE);
            // A wish: where it is refused, the memory is the same, in small pages.
            let _ = map.advise_range(memmap2::Advice::HugePage, start, huge);
        }
        let first = NonNull::from(&mut map[start..]).cast();
        Ok(Self { _map: map, first, length: length.next_multiple_of(ALIGNED) })
    }

    /// Where byte `at` is; `at` is within the mapping.
    fn at(&self, at: usize) -> NonNull<u8> {
        debug_assert!(at <= self.length, "byte {at} of {}", self.length);
        // SAFETY: the mapping has `length` bytes from `first` on: a huge page more than that was
        // asked for, and `first` is at most that far in.
        unsafe { self.first.add(at) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped { mapping, part } => {
                // SAFETY: the part lies within the mapping, which lives as long as this buffer; its
                // bytes were zeros from the beginning, and no other buffer names them, so nobody
                // writes them while this one is borrowed.
                unsafe { std::slice::from_raw_parts(mapping.at(part.start).as_ptr(), part.len()) }
            }
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped { mapping, part } => {
                // SAFETY: as in `deref`; and this buffer is borrowed alone.
                unsafe {
                    std::slice::from_raw_parts_mut(mapping.at(part.start).as_ptr(), part.len())
                }
            }
        }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_long_as_asked_and_zero_and_begins_with_a_page() {
        for length in [0, 1, MAPPED_MIN - 1, MAPPED_MIN, HUGE, HUGE + 5, 3 * HUGE - 1] {
            let mut buffer = Buffer::zeroed(length).unwrap();
            assert_eq!(buffer.len(), length);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            if length >= MAPPED_MIN {
                assert_eq!(buffer.as_ptr().addr() % HUGE, 0, "{length}");
            }
        }
        assert!(Buffer::zeroed(usize::MAX - 3).is_err());
    }

    #[test]
    fn buffers_of_a_room_lie_side_by_side_and_none_in_another() {
        let lengths = [1, ALIGNED, HUGE + 1, 0, 77];
        let bytes = lengths.iter().map(|length| Room::taken_by(*length)).sum();
        let mut room = Room::with(bytes);
        let mut buffers: Vec<Buffer> =
            lengths.iter().map(|length| room.buffer(*length).unwrap()).collect();
        for (number, buffer) in (1..).zip(&mut buffers) {
            assert!(buffer.iter().all(|byte| *byte == 0), "buffer {number}");
            buffer.fill(number);
        }
        for (number, (buffer, length)) in (1..).zip(buffers.iter().zip(lengths)) {
            assert_eq!(buffer.len(), length);
            assert!(buffer.iter().all(|byte| *byte == number), "buffer {number} is its own");
        }
        let first = buffers[0].as_ptr().addr();
        assert_eq!(first % HUGE, 0, "a room begins with a huge page");
        assert_eq!(buffers[1].as_ptr().addr(), first + ALIGNED);
        assert_eq!(buffers[4].as_ptr().addr(), first + bytes - 2 * ALIGNED);
        // Full: the next one comes from elsewhere.
        assert!(matches!(room.buffer(1).unwrap(), Buffer::Heap(_)));
        drop(room);
        assert_eq!(buffers[4][76], 5, "the room outlives its owner as long as a buffer of it does");
    }

    #[test]
    fn a_small_room_is_none() {
        assert!(matches!(Room::with(MAPPED_MIN - 1).buffer(8).unwrap(), Buffer::Heap(_)));
        assert!(matches!(Room::with(usize::MAX).buffer(8).unwrap(), Buffer::Heap(_)));
    }
}
