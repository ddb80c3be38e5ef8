//! Opening, memory and loss of a device.

use nook_gpu::{
    AdapterKind, Buffer, Choice, Commands, Each, Gpu, GpuError, KernelSet, Matrix, OpenOptions,
    adapters,
};
use nook_kernels::Format;

#[test]
fn a_gpu_that_is_not_there_is_named_and_a_software_one_never_chosen() {
    let error = Gpu::open(&OpenOptions { choice: Choice::Index(63), ..Default::default() });
    let error = error.unwrap_err();
    assert_eq!(error.code(), "gpu_missing");
    assert!(error.to_string().contains("gpu:63"), "{error}");
    let cards = adapters().iter().any(|info| info.kind != AdapterKind::Software);
    match Gpu::open(&OpenOptions::default()) {
        Ok(gpu) => assert!(gpu.info().kind != AdapterKind::Software),
        Err(error) => assert!(!cards && error == GpuError::Missing, "{error}"),
    }
}

#[test]
fn adapters_are_described() {
    for (index, info) in adapters().iter().enumerate() {
        assert_eq!(info.index as usize, index);
        assert!(!info.name.is_empty() && !info.driver.is_empty(), "{info:?}");
        assert!(["vulkan", "dx12", "metal"].contains(&info.api), "{info:?}");
    }
}

#[test]
fn memory_is_refused_before_anything_is_read_or_made() {
    let options =
        OpenOptions { choice: Choice::Index(0), budget: Some(10_000), ..OpenOptions::default() };
    let Some(gpu) = crate::open("a budget of memory", options) else { return };
    let kept = Buffer::new(&gpu, "kept", 1000).unwrap();
    assert_eq!((gpu.used_bytes(), gpu.budget_bytes()), (4000, 10_000));
    let error = Buffer::new(&gpu, "too much", 2000).unwrap_err();
    let (needed, free, budget) = (8000, 6000, 10_000);
    let expected = GpuError::OutOfMemory { what: "too much", needed, free, budget };
    assert_eq!(error, expected);
    let mut reads = 0;
    let refused = Matrix::load(&gpu, Format::Q8_0, 64, 256, |_, _| {
        reads += 1;
        Ok::<(), GpuError>(())
    });
    assert_eq!(refused.unwrap_err().code(), "gpu_out_of_memory");
    assert_eq!((reads, gpu.used_bytes()), (0, 4000));
    drop(kept);
    assert_eq!(gpu.used_bytes(), 0);
    Buffer::new(&gpu, "fits", 2000).unwrap();
}

#[test]
fn what_a_lost_device_was_asked_for_fails_with_its_code() {
    let Some(gpu) = crate::gpu("a lost device", KernelSet::Portable) else { return };
    let x = Buffer::of_floats(&gpu, "x", &[1.0; 100]).unwrap();
    let mut commands = Commands::new(&gpu);
    commands.each(&x, 100, 1, Each::Scale(2.0)).unwrap();
    assert_eq!(commands.read_floats(&x, 0, 2).unwrap(), [2.0, 2.0]);
    gpu.destroy();
    let failed = commands
        .each(&x, 100, 1, Each::Scale(2.0))
        .and_then(|()| commands.read_floats(&x, 0, 2).map(|_| ()));
    assert_eq!(failed.unwrap_err().code(), "gpu_lost");
    assert_eq!(Buffer::new(&gpu, "later", 4).unwrap_err().code(), "gpu_lost");
    assert_eq!(gpu.check().unwrap_err().code(), "gpu_lost");
}

#[test]
fn what_no_binding_holds_is_refused_with_the_limit() {
    let options = OpenOptions {
        choice: Choice::Index(0),
        binding_bytes: Some(4096),
        ..OpenOptions::default()
    };
    let Some(gpu) = crate::open("the limit of bindings", options) else { return };
    let error = Buffer::new(&gpu, "wide", 1025).unwrap_err();
    assert_eq!(error, GpuError::Size { what: "wide", got: 1025, expected: 1024 });
    // Not even one row.
    assert!(Matrix::new(&gpu, Format::F32, 1, 2048, &[0; 8192]).is_err());
}
