//! Work for a GPU, recorded and then submitted at once.
//!
//! [`Commands`] collects dispatches and copies in order. Each dispatch sees what those before it
//! wrote. The parameters of all dispatches lie in one buffer, so a submission costs one upload
//! however long it is.

use std::fmt;
use std::sync::Arc;

use wgpu::{BindGroupDescriptor, BindGroupEntry, BufferUsages};

use crate::buffer::{Buffer, create};
use crate::device::Gpu;
use crate::error::GpuError;
use crate::kernel::{Kernel, PARAMS_BYTES, PARAMS_STRIDE};

/// Workgroups along one axis that every device takes.
pub(crate) const GROUPS_MAX: u32 = 65_535;

/// Words of parameters of a dispatch.
const PARAMS_WORDS: usize = PARAMS_BYTES as usize / 4;

/// Recorded work.
pub struct Commands {
    gpu: Gpu,
    steps: Vec<Step>,
    params: Vec<u32>,
}

enum Step {
    Dispatch { kernel: Arc<Kernel>, buffers: wgpu::BindGroup, groups: [u32; 3], params: u32 },
    Copy { from: wgpu::Buffer, from_at: u64, to: wgpu::Buffer, to_at: u64, bytes: u64 },
}

impl Commands {
    /// Nothing yet.
    #[must_use]
    pub fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), steps: Vec::new(), params: Vec::new() }
    }

    /// The device that it is for.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Dispatches and copies so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Records `kernel` over `groups` workgroups. No group, no work.
    pub(crate) fn dispatch(
        &mut self,
        kernel: Arc<Kernel>,
        buffers: &[&Buffer],
        groups: [u32; 3],
        params: &[u32],
    ) {
        if groups.contains(&0) {
            return;
        }
        let entries: Vec<BindGroupEntry<'_>> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| {
                let resource = buffer.raw().as_entire_binding();
                BindGroupEntry { binding, resource }
            })
            .collect();
        let buffers = self.gpu.inner().device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &kernel.layout,
            entries: &entries,
        });
        let at = self.params.len();
        self.params.extend(params.iter().take(PARAMS_WORDS));
        self.params.resize(at + PARAMS_STRIDE as usize / 4, 0);
        let params = (4 * at) as u32;
        self.steps.push(Step::Dispatch { kernel, buffers, groups, params });
    }

    /// Records the copy of `count` words.
    ///
    /// # Errors
    ///
    /// [`GpuError::Size`] where either buffer is too short.
    pub fn copy(
        &mut self,
        from: &Buffer,
        from_at: usize,
        to: &Buffer,
        to_at: usize,
        count: usize,
    ) -> Result<(), GpuError> {
        for (buffer, at) in [(from, from_at), (to, to_at)] {
            let end = at.saturating_add(count);
            if end > buffer.len() {
                return Err(GpuError::Size { what: "a copy", got: end, expected: buffer.len() });
            }
        }
        if count > 0 {
            self.steps.push(Step::Copy {
                from: from.raw().clone(),
                from_at: 4 * from_at as u64,
                to: to.raw().clone(),
                to_at: 4 * to_at as u64,
                bytes: 4 * count as u64,
            });
        }
        Ok(())
    }

    /// Submits what was recorded, without waiting for it. It can be recorded into again.
    ///
    /// # Errors
    ///
    /// What the device has become by then.
    pub fn submit(&mut self) -> Result<(), GpuError> {
        let commands = self.encode(None)?;
        self.gpu.inner().queue.submit(commands);
        self.gpu.check()
    }

    /// Submits what was recorded and waits until all that was submitted is done.
    ///
    /// # Errors
    ///
    /// [`GpuError::Lost`] where the device is gone or does not answer.
    pub fn finish(&mut self) -> Result<(), GpuError> {
        self.submit()?;
        self.gpu.wait()
    }

    /// Submits what was recorded, waits, and brings `count` words of `buffer` from word `at` on.
    ///
    /// # Errors
    ///
    /// As [`Self::finish`], and [`GpuError::Size`] where the buffer is too short.
    pub fn read_words(
        &mut self,
        buffer: &Buffer,
        at: usize,
        count: usize,
    ) -> Result<Vec<u32>, GpuError> {
        let end = at.saturating_add(count);
        if end > buffer.len() {
            return Err(GpuError::Size { what: "a read", got: end, expected: buffer.len() });
        }
        if count == 0 {
            self.finish()?;
            return Ok(Vec::new());
        }
        let bytes = 4 * count as u64;
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let staging = create(&self.gpu, "a result", bytes, usage)?;
        let commands = self.encode(Some((buffer, 4 * at as u64, &staging, bytes)))?;
        self.gpu.inner().queue.submit(commands);
        // The outcome shows below: what could not be mapped has no range.
        staging.map_async(wgpu::MapMode::Read, .., |_| {});
        self.gpu.wait()?;
        let view = staging.get_mapped_range(..);
        let view = view.map_err(|error| self.gpu.refused(error.to_string()))?;
        Ok(bytemuck::pod_collect_to_vec(&view[..]))
    }

    /// As [`Self::read_words`], as numbers.
    ///
    /// # Errors
    ///
    /// As [`Self::read_words`].
    pub fn read_floats(
        &mut self,
        buffer: &Buffer,
        at: usize,
        count: usize,
    ) -> Result<Vec<f32>, GpuError> {
        let words = self.read_words(buffer, at, count)?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }

    /// What was recorded, and perhaps a last copy, as one command buffer.
    fn encode(
        &mut self,
        last: Option<(&Buffer, u64, &wgpu::Buffer, u64)>,
    ) -> Result<Option<wgpu::CommandBuffer>, GpuError> {
        let (steps, params) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.params));
        if steps.is_empty() && last.is_none() {
            return Ok(None);
        }
        let inner = self.gpu.inner();
        let mut encoder = inner.device.create_command_encoder(&Default::default());
        let mut group = None;
        if !params.is_empty() {
            let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
            let buffer = create(&self.gpu, "parameters", 4 * params.len() as u64, usage)?;
            inner.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&params));
            group = Some(inner.device.create_bind_group(&BindGroupDescriptor {
                label: None,
                layout: &inner.params_layout,
                entries: &[BindGroupEntry {
                    binding: 0,
                    resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                        buffer: &buffer,
                        offset: 0,
                        size: std::num::NonZeroU64::new(PARAMS_BYTES),
                    }),
                }],
            }));
        }
        let mut rest = &steps[..];
        while let Some(step) = rest.first() {
            if let Step::Copy { from, from_at, to, to_at, bytes } = step {
                encoder.copy_buffer_to_buffer(from, *from_at, to, *to_at, *bytes);
                rest = &rest[1..];
                continue;
            }
            let mut pass = encoder.begin_compute_pass(&Default::default());
            while let Some(Step::Dispatch { kernel, buffers, groups, params }) = rest.first() {
                pass.set_pipeline(&kernel.pipeline);
                pass.set_bind_group(0, buffers, &[]);
                pass.set_bind_group(1, group.as_ref(), &[*params]);
                pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
                rest = &rest[1..];
            }
        }
        if let Some((from, at, to, bytes)) = last {
            encoder.copy_buffer_to_buffer(from.raw(), at, to, 0, bytes);
        }
        Ok(Some(encoder.finish()))
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commands({} steps on {:?})", self.steps.len(), self.gpu)
    }
}
