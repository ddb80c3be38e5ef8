//! How much memory a process has, as its system counts it.

/// Bytes in memory now, and the most there ever were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Now.
    pub now: u64,
    /// The most there ever was.
    pub peak: u64,
}

impl Resident {
    /// Of this process; `None` where the system is not Linux, or does not say.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Of the process `pid`; `None` where the system is not Linux, or it has ended.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    /// From the lines `VmRSS:` and `VmHWM:` of `/proc/<pid>/status`, see proc_pid_status(5).
    fn parse(status: &str) -> Option<Self> {
        let bytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
            kibibytes.checked_mul(1024)
        };
        let now = bytes("VmRSS:")?;
        // The kernel keeps the two apart and may be late with the peak.
        Some(Self { now, peak: bytes("VmHWM:")?.max(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_writes_is_read() {
        let status = "Name:\tnook\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t1\n";
        let expected = Resident { now: 1 << 20, peak: 2 << 20 };
        assert_eq!(Resident::parse(status), Some(expected));
        for broken in ["", "VmRSS: 1 kB", "VmRSS: x kB\nVmHWM: 1 kB", "VmRSS: 1\nVmHWM: 1"] {
            assert_eq!(Resident::parse(broken), None, "{broken}");
        }
    }
}
