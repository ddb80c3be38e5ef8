//! Which GPUs this computer has, as their drivers tell, and the choice of one.
//!
//! Drivers are looked for when the list is asked for, not when the program starts; where there is
//! none the list is empty and nothing is said. Software adapters (a CPU that plays GPU) are in the
//! list so that tests can name them, and are never chosen by themselves.

use wgpu::{Backends, DeviceType, Instance, InstanceDescriptor};

use crate::error::GpuError;

/// Percent of what the driver offers above which it refuses new buffers. The rest is for the
/// desktop.
const DRIVER_BUDGET_PERCENT: u8 = 95;

/// Name of the PCI vendor of NVIDIA, AMD, Intel and Apple, in this order.
const VENDORS: [(u32, &str); 6] = [
    (0x10de, "NVIDIA"),
    (0x1002, "AMD"),
    (0x8086, "Intel"),
    (0x106b, "Apple"),
    (0x5143, "Qualcomm"),
    (0x10005, "Mesa"),
];

/// What kind of GPU it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// Part of the processor, with the processor's memory.
    Integrated,
    /// Given by a virtual machine.
    Virtual,
    /// The CPU, by a driver that plays GPU.
    Software,
    /// The driver does not say.
    Unknown,
}

/// One GPU, as its driver tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its place in the list of [`adapters`]: `gpu:N`.
    pub index: u32,
    /// Name of the card.
    pub name: String,
    /// Name of its maker, or its PCI number.
    pub vendor: String,
    /// `vulkan`, `dx12` or `metal`.
    pub api: &'static str,
    /// Name and version of the driver.
    pub driver: String,
    /// What kind it is.
    pub kind: AdapterKind,
    /// Bytes of its own memory, where the system tells without the help of another library.
    pub memory: Option<u64>,
    /// Whether it computes from the memory of the CPU: their speeds do not add up.
    pub shares_memory: bool,
}

/// Which GPU to open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best that is no software adapter: discrete before integrated.
    #[default]
    Best,
    /// The one at this place of the list, whatever its kind.
    Index(u32),
    /// The first whose name contains this text, whatever its kind.
    Name(String),
}

/// All GPUs of this computer. Empty where there is no driver.
#[must_use]
pub fn adapters() -> Vec<AdapterInfo> {
    let instance = instance();
    found(&instance).iter().enumerate().map(|(index, adapter)| told(index, adapter)).collect()
}

/// The GPU of `choice`.
pub(crate) fn choose(choice: &Choice) -> Result<(wgpu::Adapter, AdapterInfo), GpuError> {
    let instance = instance();
    let mut all: Vec<(wgpu::Adapter, AdapterInfo)> = Vec::new();
    for (index, adapter) in found(&instance).into_iter().enumerate() {
        let info = told(index, &adapter);
        all.push((adapter, info));
    }
    let infos: Vec<&AdapterInfo> = all.iter().map(|(_, info)| info).collect();
    let at = chosen(choice, &infos)?;
    Ok(all.swap_remove(at))
}

/// Which of `all` is `choice`.
fn chosen(choice: &Choice, all: &[&AdapterInfo]) -> Result<usize, GpuError> {
    let unknown = |asked: String| {
        let name = |info: &&AdapterInfo| format!("gpu:{} {}", info.index, info.name);
        let known: Vec<String> = all.iter().map(name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        GpuError::UnknownAdapter { asked, known }
    };
    match choice {
        Choice::Index(index) => {
            let place = all.iter().position(|info| info.index == *index);
            place.ok_or_else(|| unknown(format!("gpu:{index}")))
        }
        Choice::Name(name) => {
            let wanted = name.to_lowercase();
            let place = all.iter().position(|info| info.name.to_lowercase().contains(&wanted));
            place.ok_or_else(|| unknown(name.clone()))
        }
        Choice::Best => {
            let rank = |info: &&AdapterInfo| match info.kind {
                AdapterKind::Discrete => Some(0),
                AdapterKind::Integrated => Some(1),
                AdapterKind::Virtual | AdapterKind::Unknown => Some(2),
                AdapterKind::Software => None,
            };
            let ranked = all.iter().enumerate().filter_map(|(at, info)| Some((rank(info)?, at)));
            ranked.min().map(|(_, at)| at).ok_or(GpuError::Missing)
        }
    }
}

fn instance() -> Instance {
    let mut descriptor = InstanceDescriptor::new_without_display_handle();
    descriptor.backends = Backends::VULKAN | Backends::DX12 | Backends::METAL;
    descriptor.flags = wgpu::InstanceFlags::empty();
    descriptor.memory_budget_thresholds.for_resource_creation = Some(DRIVER_BUDGET_PERCENT);
    Instance::new(descriptor)
}

/// Adapters in the order of the drivers. A card that Vulkan reaches is not listed again for DX12.
fn found(instance: &Instance) -> Vec<wgpu::Adapter> {
    let all = pollster::block_on(instance.enumerate_adapters(Backends::all()));
    let mut kept: Vec<wgpu::Adapter> = Vec::with_capacity(all.len());
    for adapter in all {
        let info = adapter.get_info();
        let twice = kept.iter().map(wgpu::Adapter::get_info).any(|other| {
            other.backend != info.backend
                && (other.vendor, other.device) == (info.vendor, info.device)
                && other.name == info.name
        });
        if !twice {
            kept.push(adapter);
        }
    }
    kept
}

fn told(index: usize, adapter: &wgpu::Adapter) -> AdapterInfo {
    let info = adapter.get_info();
    let kind = match info.device_type {
        DeviceType::DiscreteGpu => AdapterKind::Discrete,
        DeviceType::IntegratedGpu => AdapterKind::Integrated,
        DeviceType::VirtualGpu => AdapterKind::Virtual,
        DeviceType::Cpu => AdapterKind::Software,
        DeviceType::Other => AdapterKind::Unknown,
    };
    let vendor = VENDORS.iter().find(|(number, _)| *number == info.vendor);
    let vendor = vendor.map_or_else(|| format!("{:#06x}", info.vendor), |(_, name)| (*name).into());
    AdapterInfo {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        name: info.name,
        vendor,
        api: info.backend.to_str(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind,
        // That of an integrated GPU is what the firmware set aside; the driver gives more.
        memory: (kind == AdapterKind::Discrete)
            .then(|| own_memory(&info.device_pci_bus_id))
            .flatten(),
        shares_memory: matches!(kind, AdapterKind::Integrated | AdapterKind::Software),
    }
}

/// Bytes of video memory that the kernel driver of AMD cards tells; no library is needed for it.
#[cfg(target_os = "linux")]
fn own_memory(pci: &str) -> Option<u64> {
    let plain = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    if pci.is_empty() || !pci.chars().all(plain) {
        return None;
    }
    let path = format!("/sys/bus/pci/devices/{pci}/mem_info_vram_total");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn own_memory(_: &str) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(index: u32, name: &str, kind: AdapterKind) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.to_owned(),
            vendor: "x".to_owned(),
            api: "vulkan",
            driver: String::new(),
            kind,
            memory: None,
            shares_memory: false,
        }
    }

    #[test]
    fn a_software_adapter_is_chosen_only_by_name_or_number() {
        let software = info(0, "llvmpipe", AdapterKind::Software);
        assert_eq!(chosen(&Choice::Best, &[&software]), Err(GpuError::Missing));
        assert_eq!(chosen(&Choice::Index(0), &[&software]), Ok(0));
        assert_eq!(chosen(&Choice::Name("LLVM".to_owned()), &[&software]), Ok(0));
    }

    #[test]
    fn a_card_is_better_than_what_is_built_in_and_unknown_names_list_what_there_is() {
        let all = [
            info(0, "llvmpipe", AdapterKind::Software),
            info(1, "Iris", AdapterKind::Integrated),
            info(2, "GeForce", AdapterKind::Discrete),
        ];
        let all: Vec<&AdapterInfo> = all.iter().collect();
        assert_eq!(chosen(&Choice::Best, &all), Ok(2));
        let error = chosen(&Choice::Index(7), &all).unwrap_err();
        assert_eq!(error.code(), "gpu_missing");
        assert!(error.to_string().contains("gpu:1 Iris"), "{error}");
        assert!(chosen(&Choice::Name("Arc".to_owned()), &[]).is_err());
    }
}
