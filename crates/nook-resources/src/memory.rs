//! The memory of this machine, as the system counts it.

use std::sync::OnceLock;

/// Bytes that programs could still take without swapping. Where the system does not say,
/// everything: this device's own model is never refused for a figure that nobody has.
pub fn memory_free() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    system.available_memory()
}

/// All memory of this device, in bytes, asked of the system once.
pub fn memory_total() -> Option<u64> {
    static TOTAL: OnceLock<Option<u64>> = OnceLock::new();
    *TOTAL.get_or_init(|| {
        let mut system = sysinfo::System::new().ok()?;
        system.refresh_memory();
        Some(system.total_memory()).filter(|bytes| *bytes > 0)
    })
}
