//! Opens a device, and sees it compute before anything is trusted to it.
//!
//! A device opens although its kernels are not in the program: some of candle's for NVIDIA cards
//! are machine code, which runs on cards of one generation only. So the compute capability is
//! compared, where it is known for what the program was built, and then a product of each kind is
//! computed and compared with what it must be.

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Tensor};
use half::f16;

use crate::device::Device;
use crate::error::Fault;

/// How far a probe may be off: a product in bytes of numbers that bytes hold exactly.
const PROBE_TOLERANCE: f32 = 0.05;

/// Width of the probe: one block of the widest formats.
const PROBE_WIDTH: usize = 256;

/// The device `choice`, open and seen to compute.
pub(super) fn open(choice: Device) -> Result<candle_core::Device, Fault> {
    let missing = |error: candle_core::Error| Fault::DeviceMissing {
        device: choice.to_string(),
        reason: error.to_string(),
    };
    let device = match choice {
        Device::Cpu | Device::CandleCpu => candle_core::Device::Cpu,
        Device::Cuda(number) => cuda(choice, number)?,
        Device::Metal(number) => metal(choice, number)?,
        // Those of `nook-gpu` are opened there.
        Device::Gpu(_) | Device::BestGpu => {
            return Err(Fault::DeviceSupport { device: choice.to_string() });
        }
    };
    match probe(&device).map_err(missing)? {
        true => Ok(device),
        false => Err(Fault::DeviceMissing {
            device: choice.to_string(),
            reason: "a first product came out wrong".to_owned(),
        }),
    }
}

#[cfg(feature = "cuda")]
fn cuda(choice: Device, number: u32) -> Result<candle_core::Device, Fault> {
    let missing = |reason: String| Fault::DeviceMissing { device: choice.to_string(), reason };
    let device =
        candle_core::Device::new_cuda(number as usize).map_err(|e| missing(e.to_string()))?;
    let cuda = device.as_cuda_device().map_err(|e| missing(e.to_string()))?;
    // Where the driver does not tell, the probe has to.
    if let Ok((major, minor)) = cuda.cuda_stream().context().compute_capability()
        && let Some(built) = option_env!("CUDA_COMPUTE_CAP").and_then(capability)
    {
        let has = u32::try_from(major * 10 + minor).unwrap_or(0);
        if !runs(built, has) {
            let spelled = |capability: u32| format!("{}.{}", capability / 10, capability % 10);
            let (has, needs) = (spelled(has), spelled(built));
            return Err(Fault::DeviceCapability { device: choice.to_string(), has, needs });
        }
    }
    Ok(device)
}

/// The compute capability, ten times its number, that the builder set. Where none was set, kernels
/// were built for the builder's own card, which nothing tells.
#[cfg(any(feature = "cuda", test))]
fn capability(set: &str) -> Option<u32> {
    let digits: String = set.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Whether machine code for `built` runs on a card of `has`: the same generation, not an earlier
/// card.
#[cfg(any(feature = "cuda", test))]
fn runs(built: u32, has: u32) -> bool {
    has / 10 == built / 10 && has >= built
}

#[cfg(not(feature = "cuda"))]
fn cuda(choice: Device, _: u32) -> Result<candle_core::Device, Fault> {
    Err(Fault::DeviceSupport { device: choice.to_string() })
}

#[cfg(feature = "metal")]
fn metal(choice: Device, number: u32) -> Result<candle_core::Device, Fault> {
    candle_core::Device::new_metal(number as usize).map_err(|error| Fault::DeviceMissing {
        device: choice.to_string(),
        reason: error.to_string(),
    })
}

#[cfg(not(feature = "metal"))]
fn metal(choice: Device, _: u32) -> Result<candle_core::Device, Fault> {
    Err(Fault::DeviceSupport { device: choice.to_string() })
}

/// Whether products of ones come out right: in single and half precision, and with quantised
/// weights for one row and for many, which are different kernels.
fn probe(device: &candle_core::Device) -> candle_core::Result<bool> {
    let width = PROBE_WIDTH;
    let matrix = Tensor::ones((width, width), DType::F32, device)?;
    let mut right = true;
    for rows in [1, 64] {
        let x = Tensor::ones((rows, width), DType::F32, device)?;
        let half = x.to_dtype(DType::F16)?.matmul(&matrix.to_dtype(DType::F16)?.t()?)?;
        let mut products = vec![x.matmul(&matrix.t()?)?, half.to_dtype(DType::F32)?];
        for (kind, row) in [(GgmlDType::Q8_0, ones_q8_0()), (GgmlDType::Q4K, ones_q4_k())] {
            let storage = QStorage::from_data(row.repeat(width).into(), device, kind)?;
            let quantised = QTensor::new(storage, (width, width))?;
            products.push(x.apply_op1_no_bwd(&quantised)?);
        }
        for product in products {
            let shares = (product / width as f64)?.flatten_all()?.to_vec1::<f32>()?;
            // Also false where something is not a number.
            right &= shares.iter().all(|share| (share - 1.0).abs() < PROBE_TOLERANCE);
        }
    }
    Ok(right)
}

/// A row of [`PROBE_WIDTH`] ones: eight blocks, each the scale in half precision, then 32 bytes.
fn ones_q8_0() -> Vec<u8> {
    let scale = f16::ONE.to_le_bytes();
    [&scale[..], &[1; 32]].concat().repeat(PROBE_WIDTH / 32)
}

/// A row of [`PROBE_WIDTH`] ones: one block of two scales in half precision, eight scales of 1 and
/// as many minima of 0 in six bits each, then 256 times 1 in four bits each.
fn ones_q4_k() -> Vec<u8> {
    let scales = [f16::ONE.to_le_bytes(), f16::ZERO.to_le_bytes()].concat();
    [&scales[..], &[1; 4], &[0; 4], &[1; 4], &[0x11; 128]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_runs_on_its_own_generation_and_not_on_earlier_cards() {
        assert_eq!(
            ["80", "8.6", "90a", "sm_120", ""].map(capability),
            [Some(80), Some(86), Some(90), Some(120), None]
        );
        assert!(runs(80, 80) && runs(80, 89) && runs(120, 121));
        assert!(!runs(86, 80) && !runs(80, 90) && !runs(90, 89) && !runs(80, 120));
    }

    #[test]
    fn the_processor_path_passes_the_probe() {
        assert!(probe(&candle_core::Device::Cpu).unwrap());
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_card_that_the_build_does_not_know_is_refused_by_name() {
        let fault = open(Device::Cuda(0)).err().unwrap();
        assert_eq!(fault, Fault::DeviceSupport { device: "NVIDIA card 0".to_owned() });
        assert!(fault.remedy().contains("`native`"), "{}", fault.remedy());
    }
}
