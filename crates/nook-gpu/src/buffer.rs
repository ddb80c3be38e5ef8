//! Buffers on a GPU, each booked in its memory budget before it is made.

use std::fmt;

use wgpu::BufferUsages;

use crate::device::Gpu;
use crate::error::GpuError;
use crate::ledger::Lease;

/// Bytes that every buffer is a multiple of: four words, as kernels may read them at once.
const GRAIN: u64 = 16;

/// Memory of a GPU that kernels read and write: numbers of 32 bits.
pub struct Buffer {
    raw: wgpu::Buffer,
    /// Numbers that were asked for.
    length: usize,
    _lease: Lease,
}

impl Buffer {
    /// Room for `length` numbers of 32 bits, for `what`. They are zero.
    ///
    /// # Errors
    ///
    /// [`GpuError::OutOfMemory`] before anything is made where the budget does not hold it, and
    /// [`GpuError::Size`] where the device cannot bind so much at once.
    pub fn new(gpu: &Gpu, what: &'static str, length: usize) -> Result<Self, GpuError> {
        let inner = gpu.inner();
        let bytes = (length as u64).saturating_mul(4).max(1).next_multiple_of(GRAIN);
        if bytes > inner.binding_bytes {
            let (got, expected) = (length, (inner.binding_bytes / 4) as usize);
            return Err(GpuError::Size { what, got, expected });
        }
        let lease = inner.ledger.book(what, bytes)?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let raw = create(gpu, what, bytes, usage)?;
        Ok(Self { raw, length, _lease: lease })
    }

    /// A buffer of these words.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_words(gpu: &Gpu, what: &'static str, words: &[u32]) -> Result<Self, GpuError> {
        let buffer = Self::new(gpu, what, words.len())?;
        buffer.write_words(gpu, 0, words);
        Ok(buffer)
    }

    /// A buffer of these numbers.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_floats(gpu: &Gpu, what: &'static str, numbers: &[f32]) -> Result<Self, GpuError> {
        Self::of_words(gpu, what, bytemuck::cast_slice(numbers))
    }

    /// Numbers of 32 bits that were asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.raw.size()
    }

    /// Writes `words` from word `at` on, before whatever is submitted next. What does not fit is
    /// left out.
    pub fn write_words(&self, gpu: &Gpu, at: usize, words: &[u32]) {
        let room = self.length.saturating_sub(at).min(words.len());
        if room > 0 {
            let bytes = bytemuck::cast_slice(&words[..room]);
            gpu.inner().queue.write_buffer(&self.raw, 4 * at as u64, bytes);
        }
    }

    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.raw
    }
}

/// A buffer that is not counted: staging for one submission.
pub(crate) fn create(
    gpu: &Gpu,
    what: &'static str,
    bytes: u64,
    usage: BufferUsages,
) -> Result<wgpu::Buffer, GpuError> {
    let device = &gpu.inner().device;
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let descriptor =
        wgpu::BufferDescriptor { label: Some(what), size: bytes, usage, mapped_at_creation: false };
    let raw = device.create_buffer(&descriptor);
    let refused = pollster::block_on(validation.pop());
    let full = pollster::block_on(memory.pop());
    gpu.check()?;
    match (full, refused) {
        (None, None) => Ok(raw),
        (Some(_), _) => Err(gpu.full(what, bytes)),
        (None, Some(error)) => Err(gpu.refused(error.to_string())),
    }
}

impl fmt::Debug for Buffer {
    /// Its size only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} words)", self.length)
    }
}
