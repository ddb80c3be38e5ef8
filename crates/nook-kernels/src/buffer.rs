//! Memory for weights.
//!
//! Large buffers come straight from the system, in huge pages where it has them (transparent ones of
//! Linux, 2 MiB on the usual machines): a forward pass reads all of them once for each token, and with
//! small pages the processor spends part of that time looking up where they are. So that all of a
//! buffer but its end can lie in such pages, it begins at the beginning of one. Such memory begins as zeros, and a page of it only exists once it is
//! written, so threads that fill it share the work of making it.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Buffers below this come from the heap.
const MAPPED_MIN: usize = 1 << 20;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// A rest of a buffer takes a huge page of its own from so many bytes on: what it does not fill of it
/// is lost.
const HUGE_REST_MIN: usize = HUGE / 4 * 3;

/// Bytes, zero at first.
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    /// `length` bytes from `start` on.
    Mapped {
        map: MmapMut,
        start: usize,
        length: usize,
    },
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
        let room = length.checked_next_multiple_of(HUGE).and_then(|whole| whole.checked_add(HUGE));
        let map = MmapMut::map_anon(room.ok_or(io::ErrorKind::OutOfMemory)?)?;
        let start = map.as_ptr().align_offset(HUGE).min(HUGE);
        #[cfg(target_os = "linux")]
        {
            let rest = if length % HUGE < HUGE_REST_MIN { length % HUGE } else { 0 };
            let huge = (length - rest).next_multiple_of(HUGE);
            // A wish: where it is refused, the memory is the same, in small pages.
            let _ = map.advise_range(memmap2::Advice::HugePage, start, huge);
        }
        Ok(Self::Mapped { map, start, length })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped { map, start, length } => &map[*start..*start + *length],
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped { map, start, length } => &mut map[*start..*start + *length],
        }
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
}
