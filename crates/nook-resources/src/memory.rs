//! The memory of this machine, as the system counts it.

use std::sync::OnceLock;

/// What a worker takes besides weights and the caches of the reply that is planned, in bytes, where
/// the system limits each process: its threads, and what it keeps of earlier conversations.
const WORKER_OWN_BYTES: u64 = 96 << 20;

/// Bytes that a worker could still take without swapping: what programs could, and no more than the
/// system lets one process have. Where the system does not say, everything: this device's own model
/// is never refused for a figure that nobody has.
pub fn memory_free() -> u64 {
    memory_free_beside(0)
}

/// The same for a worker that has `held` bytes of weights in memory.
pub fn memory_free_beside(held: u64) -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    let taken = held.saturating_add(WORKER_OWN_BYTES);
    let limit = data_limit().map(|bytes| bytes.saturating_sub(taken));
    system.available_memory().min(limit.unwrap_or(u64::MAX))
}

/// Bytes that such a worker could take at the very most, other programs making room for it: three
/// quarters of the machine, and no more than the system lets one process have. Beyond it a machine
/// does nothing but swap.
pub fn memory_ceiling_beside(held: u64) -> u64 {
    let free = memory_free_beside(held);
    let limit =
        data_limit().map(|bytes| bytes.saturating_sub(held.saturating_add(WORKER_OWN_BYTES)));
    let most = memory_total().map_or(free, |total| (total / 4 * 3).saturating_sub(held));
    most.min(limit.unwrap_or(u64::MAX)).max(free)
}

/// What the system lets each process of this node have for data (`ulimit -d`, `LimitDATA` of a
/// service); absent where it sets no limit, or is not Linux.
fn data_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    soft_limit(&limits, "Max data size")
}

/// The soft limit called `name` in what Linux says of a process (proc_pid_limits(5)).
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes that the process `pid` has in memory; `None` where the system does not say.
pub fn memory_of(pid: u32) -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    let pid = sysinfo::Pid::from_u32(pid);
    let with_memory = sysinfo::ProcessRefreshKind::nothing().with_memory();
    let only = sysinfo::ProcessesToUpdate::Some(&[pid]);
    system.refresh_processes_specifics(only, true, with_memory);
    system.process(pid).map(sysinfo::Process::memory)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_process_is_read_as_linux_writes_it() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max cpu time              unlimited            unlimited            seconds   \n\
                      Max data size             134217728            unlimited            bytes     \n";
        assert_eq!(soft_limit(limits, "Max data size"), Some(128 << 20));
        assert_eq!(soft_limit(limits, "Max cpu time"), None, "unlimited");
        assert_eq!(soft_limit(limits, "Max stack size"), None);
    }
}
