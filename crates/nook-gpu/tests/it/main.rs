//! The GPU against the kernels of the CPU, on the first adapter of this computer: a software one
//! where there is no card (`apt-get install mesa-vulkan-drivers`). Without a driver these tests say
//! so and end; where a CI system runs them they fail.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may panic and tell")]

mod attention;
mod device;
mod products;
mod recurrent;
mod vector;
mod weights;

use nook_gpu::{Choice, Gpu, KernelSet, OpenOptions, adapters};

/// The first adapter with these kernels, or a line that says why `test` is left out.
fn gpu(test: &str, kernels: KernelSet) -> Option<Gpu> {
    let choice = Choice::Index(0);
    open(test, OpenOptions { choice, kernels: Some(kernels), ..OpenOptions::default() })
}

/// The adapter of `options`, or a line that says why `test` is left out.
fn open(test: &str, options: OpenOptions) -> Option<Gpu> {
    if adapters().is_empty() {
        assert!(nook_base::env::text("CI").is_none(), "CI needs mesa-vulkan-drivers: {test}");
        eprintln!("left out, no GPU driver: {test}");
        return None;
    }
    Some(Gpu::open(&options).unwrap())
}
