//! Memory for weights.
//!
//! Large buffers come straight from the system, in huge pages where it has them: a forward pass reads
//! all of them once for each token, and with small pages the processor spends part of that time
//! looking up where they are. Such memory begins as zeros, and a page of it only exists once it is
//! written, so threads that fill it share the work of making it.

use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Buffers below this come from the heap.
const MAPPED_MIN: usize = 1 << 20;

/// Bytes, zero at first.
pub(crate) enum Buffer {
    Heap(Vec<u8>),
    Mapped(MmapMut),
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
        let map = MmapMut::map_anon(length)?;
        // A wish: where it is refused, the memory is the same, in small pages.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self::Mapped(map))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}
