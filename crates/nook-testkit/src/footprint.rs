//! What a process takes of the machine, as the system counts it: memory, open files, threads.

use std::fs;

/// What a process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// Its process number.
    pub pid: u32,
    /// Resident memory, in KiB.
    pub resident_kib: u64,
    /// The part of it that belongs to no file: what a leak makes larger. In KiB.
    pub anonymous_kib: u64,
    /// Open file descriptors.
    pub files: usize,
    /// Threads.
    pub threads: usize,
}

impl Footprint {
    /// What the process `pid` takes now; `None` when it has ended, or where the system has no
    /// `/proc`.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let entries = |name: &str| Some(fs::read_dir(format!("/proc/{pid}/{name}")).ok()?.count());
        Some(Self {
            pid,
            resident_kib: kib("VmRSS:")?,
            anonymous_kib: kib("RssAnon:")?,
            files: entries("fd")?,
            threads: entries("task")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_and_touched_memory_are_counted() {
        let own = std::process::id();
        let Some(before) = Footprint::of(own) else {
            assert_ne!(std::env::consts::OS, "linux", "this system has /proc");
            return;
        };
        let _files: Vec<_> = (0..40).map(|_| tempfile::tempfile().unwrap()).collect();
        let memory = vec![1_u8; 64 << 20];
        let after = Footprint::of(own).unwrap();
        // Other tests of this program open and close files meanwhile.
        assert!(after.files >= before.files + 20, "{before:?} {after:?}");
        assert!(after.anonymous_kib >= before.anonymous_kib + (32 << 10), "{before:?} {after:?}");
        assert!(after.threads >= 1 && after.resident_kib >= after.anonymous_kib);
        drop(memory);
        assert_eq!(Footprint::of(u32::MAX), None);
    }
}
