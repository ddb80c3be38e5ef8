//! Compute pipelines: WGSL text, what it binds, and how it is built.
//!
//! Every kernel has its buffers in group 0 and its parameters, at most [`PARAMS_BYTES`], in group
//! 1. Buffers are written `r` (read) or `w` (read and written), one letter each.

use std::num::NonZeroU64;

use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType,
    BufferBindingType, ErrorFilter, ShaderStages,
};

use crate::device::Gpu;
use crate::error::GpuError;

/// Bytes of the parameters of one dispatch.
pub(crate) const PARAMS_BYTES: u64 = 64;

/// Distance of two parameter blocks: what every device can bind at.
pub(crate) const PARAMS_STRIDE: u64 = 256;

/// A pipeline and the layout of its buffers.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: BindGroupLayout,
}

impl Kernel {
    /// Builds `source`, whose entry point is `main`, with the buffers `bindings`.
    pub(crate) fn build(
        gpu: &Gpu,
        name: &str,
        source: String,
        bindings: &str,
    ) -> Result<Self, GpuError> {
        let device = &gpu.inner().device;
        // What a driver cannot compile is told as internal; such a pipeline must not be kept.
        let filters = [ErrorFilter::Validation, ErrorFilter::Internal, ErrorFilter::OutOfMemory];
        let scopes = filters.map(|filter| device.push_error_scope(filter));
        let entries: Vec<BindGroupLayoutEntry> =
            (0..).zip(bindings.bytes()).map(|(at, letter)| storage(at, letter == b'r')).collect();
        let layout = device.create_bind_group_layout(&BindGroupLayoutDescriptor {
            label: Some(name),
            entries: &entries,
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(name),
            bind_group_layouts: &[Some(&layout), Some(&gpu.inner().params_layout)],
            immediate_size: 0,
        });
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(name),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(name),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Every kernel writes workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        // The one that was pushed last goes first; all of them, or the others would stay.
        let errors = scopes.into_iter().rev().map(|scope| pollster::block_on(scope.pop()));
        match errors.fold(None, Option::or) {
            None => Ok(Self { pipeline, layout }),
            Some(error) => Err(gpu.refused(format!("kernel {name}: {error}"))),
        }
    }
}

/// The layout of the parameters.
pub(crate) fn params_layout(device: &wgpu::Device) -> BindGroupLayout {
    device.create_bind_group_layout(&BindGroupLayoutDescriptor {
        label: Some("params"),
        entries: &[BindGroupLayoutEntry {
            binding: 0,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty: BufferBindingType::Uniform,
                has_dynamic_offset: true,
                min_binding_size: NonZeroU64::new(PARAMS_BYTES),
            },
            count: None,
        }],
    })
}

fn storage(binding: u32, read_only: bool) -> BindGroupLayoutEntry {
    BindGroupLayoutEntry {
        binding,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer {
            ty: BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}
