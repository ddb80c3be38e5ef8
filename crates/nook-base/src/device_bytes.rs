//! Bytes of one device, counted apart in its two memories.

/// Bytes in the memory of a computer, and in that of its GPUs. Sums stay at `u64::MAX` and
/// differences at 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// In the memory of the computer.
    pub memory: u64,
    /// With a GPU: in its own memory, or in the part of the computer's that it computes from.
    pub gpu: u64,
}

impl DeviceBytes {
    /// `bytes` of the computer's memory.
    #[must_use]
    pub const fn in_memory(bytes: u64) -> Self {
        Self { memory: bytes, gpu: 0 }
    }

    /// Bytes in both together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.memory.saturating_add(self.gpu)
    }

    /// Each memory's bytes and those of `other`.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            gpu: self.gpu.saturating_add(other.gpu),
        }
    }

    /// Each memory's bytes without those of `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(other.memory),
            gpu: self.gpu.saturating_sub(other.gpu),
        }
    }

    /// In each memory the fewer bytes of the two.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self { memory: self.memory.min(other.memory), gpu: self.gpu.min(other.gpu) }
    }
}

impl std::iter::Sum for DeviceBytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::plus)
    }
}
