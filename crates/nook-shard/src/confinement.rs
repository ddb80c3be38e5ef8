//! What a worker may not do, whatever the bytes of a model file make it do.
//!
//! A worker reads files that strangers made and computes for devices of other people. So it gives up
//! what it does not need before it reads a byte of theirs: new privileges, sockets that leave this
//! machine (but in [`listener`]), other processes' memory, and (in [`worker`]) files that it could
//! change or (in [`sandbox`] and [`listener`]) all files. A process may do that to itself without any privilege, and all that it
//! starts inherits it; code that runs between fork and exec would be unsafe. Reading stays open to a
//! worker: which files it has to load is told later, and they may lie anywhere.
//!
//! What each system has: Linux everything here, as far as its kernel knows it (seccomp since 3.17,
//! Landlock since 5.13); other Unix systems no core dumps; Windows nothing of it.

use std::ffi::OsString;

use nook_base::env;

/// Variables of the environment that a process needs to start, to find drivers and to say more.
/// Others may hold what is nobody's business here: tokens of other programs, addresses, names.
const VARIABLES: &[&str] = &[
    "APPDATA",
    "COMMONPROGRAMFILES",
    "DRIVERDATA",
    "DYLD_LIBRARY_PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "LOCALAPPDATA",
    "PATH",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "RUST_BACKTRACE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USERPROFILE",
    "WINDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Beginnings of such variables: this program's own, and those of graphics drivers.
const FAMILIES: &[&str] = &[
    "AMD_",
    "CUDA_",
    "DRI_",
    "GALLIUM_",
    "HSA_",
    "INGLENOOK_",
    "LIBGL_",
    "LP_",
    "MESA_",
    "NVIDIA_",
    "RADV_",
    "ROCR_",
    "VK_",
    "WGPU_",
    "__NV_",
];

/// What of this process' environment a worker is started with.
pub fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    env::all().filter(|(name, _)| name.to_str().is_some_and(is_passed_on))
}

fn is_passed_on(name: &str) -> bool {
    // Windows does not tell capitals.
    let name = name.to_ascii_uppercase();
    VARIABLES.contains(&name.as_str()) || FAMILIES.iter().any(|begin| name.starts_with(begin))
}

/// No dump of this process' memory is written when it crashes: it holds conversations and keys.
/// For nodes too.
pub fn no_core_dumps() {
    #[cfg(unix)]
    dumps::no_core_dumps();
}

/// What a worker gives up. To be called before the process has a second thread. What this system
/// leaves open, in words, is no reason not to work.
pub fn worker() -> Vec<String> {
    no_core_dumps();
    system::worker()
}

/// The same for a process that works on what strangers wrote and needs no file at all.
pub fn sandbox() -> Vec<String> {
    no_core_dumps();
    give_way();
    system::sandbox()
}

/// The same for a process that listens to a network and needs nothing else: no file, no driver.
/// `memory` is what it may take more than now, in bytes, where the system counts that.
pub fn listener(memory: u64) -> Vec<String> {
    no_core_dumps();
    give_way();
    let open = system::listener();
    memory_limit(memory);
    open
}

/// Workers, and all else that the owner does, go before this process where a processor is short:
/// what strangers sent is no reason for replies to be slow.
fn give_way() {
    // About a tenth of what an ordinary process gets beside it (sched(7)).
    #[cfg(unix)]
    let _ = rustix::process::nice(10);
}

/// So many seconds of a processor from now on, and up to one more: the system counts whole ones. The
/// process ends at the limit. Where that cannot be set, only the node's watch is left.
#[cfg(unix)]
pub fn processor_limit(seconds: u32) {
    use rustix::process::Resource;
    use rustix::time::{ClockId, clock_gettime};

    let taken = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let taken = u64::try_from(taken).unwrap_or_default();
    lower(Resource::Cpu, taken + 1 + u64::from(seconds));
}

/// Nothing here limits itself.
#[cfg(not(unix))]
pub fn processor_limit(_seconds: u32) {}

/// So many bytes more than now. The process ends when it wants more. Where that cannot be set, only
/// the node's watch is left: only Linux counts what is mapped.
pub fn memory_limit(bytes: u64) {
    if let Some(data) = data_bytes() {
        limit_data(data + bytes);
    }
}

/// Sets the limit of what this process has of its own, in bytes.
#[cfg(target_os = "linux")]
fn limit_data(to: u64) {
    lower(rustix::process::Resource::Data, to);
}

/// As above.
#[cfg(not(target_os = "linux"))]
fn limit_data(_to: u64) {}

/// That limit; absent where there is none.
#[cfg(target_os = "linux")]
fn data_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Data).current
}

/// As above.
#[cfg(not(target_os = "linux"))]
fn data_limit() -> Option<u64> {
    None
}

/// What this process has of its own, in bytes, whether or not it was written to.
#[cfg(target_os = "linux")]
fn data_bytes() -> Option<u64> {
    // Read as text, so that no crate is needed for one number (proc_pid_status(5)).
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    let kib = line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(kib << 10)
}

/// As above.
#[cfg(not(target_os = "linux"))]
fn data_bytes() -> Option<u64> {
    None
}

/// Holds a process that learns what it needs while it works to so much memory, and never to more
/// than it could have had at the beginning. Where the system counts no such thing (all but Linux),
/// it holds nothing.
#[derive(Debug)]
pub struct MemoryBound {
    /// What the process had, in bytes.
    began_with: u64,
    /// Its own limit at the beginning; absent where it had none.
    own: Option<u64>,
}

impl MemoryBound {
    /// From now on.
    #[must_use]
    pub fn begin() -> Self {
        Self { began_with: data_bytes().unwrap_or_default(), own: data_limit() }
    }

    /// What the process took since the beginning, in bytes; absent where nobody counts.
    #[must_use]
    pub fn taken(&self) -> Option<u64> {
        data_bytes().map(|now| now.saturating_sub(self.began_with))
    }

    /// Sets the limit: so many bytes beside what it had at the beginning, and no more than its own.
    pub fn hold_to(&self, bytes: u64) {
        #[cfg(all(feature = "test-faults", debug_assertions))]
        let bytes = bytes.min(crate::test_faults::memory().unwrap_or(u64::MAX));
        limit_data(within(self.own, self.began_with.saturating_add(bytes)));
    }
}

/// The lower of a limit that is wanted and one that there is.
fn within(own: Option<u64>, wanted: u64) -> u64 {
    own.map_or(wanted, |own| own.min(wanted))
}

/// Sets the soft limit: that may be raised again for the next question, and what it does at the
/// limit is to end.
#[cfg(unix)]
fn lower(resource: rustix::process::Resource, to: u64) {
    use rustix::process::{Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(resource).maximum;
    let current = Some(maximum.map_or(to, |maximum| maximum.min(to)));
    let _ = setrlimit(resource, Rlimit { current, maximum });
}

/// Nothing more is given up here.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn worker() -> Vec<String> {
        vec![format!("{} has nothing that confines a process", std::env::consts::OS)]
    }

    pub(super) fn sandbox() -> Vec<String> {
        worker()
    }

    pub(super) fn listener() -> Vec<String> {
        worker()
    }
}

#[cfg(unix)]
mod dumps {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// One byte, not none: a limit of none does not keep Linux from handing the dump to a program
    /// (`core_pattern`), and a limit of one does (`do_coredump` in fs/coredump.c).
    const DUMP_BYTES_MAX: u64 = 1;

    pub(super) fn no_core_dumps() {
        let maximum = getrlimit(Resource::Core).maximum;
        let current = Some(maximum.map_or(DUMP_BYTES_MAX, |most| most.min(DUMP_BYTES_MAX)));
        // Fails for a limit above the maximum only.
        let _ = setrlimit(Resource::Core, Rlimit { current, maximum });
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::env::consts::ARCH;
    use std::path::PathBuf;

    use directories::BaseDirs;
    use landlock::{
        ABI, Access as _, AccessFs, BitFlags, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetStatus, path_beneath_rules,
    };
    use seccompiler::{apply_filter_all_threads, compile_from_json};

    /// Calls of the system that fail with EACCES; see seccomp(2). Sockets to other processes of this
    /// machine stay (AF_UNIX, 1), and those by which drivers hear of devices (AF_NETLINK, 16).
    const FILTER: &str = r#"{ "worker": {
        "mismatch_action": "allow",
        "match_action": { "errno": 13 },
        "filter": [
            { "syscall": "socket", "args": [
                { "index": 0, "type": "dword", "op": "ne", "val": 1 },
                { "index": 0, "type": "dword", "op": "ne", "val": 16 }
            ] },
            { "syscall": "io_uring_setup" },
            { "syscall": "process_vm_readv" },
            { "syscall": "process_vm_writev" },
            { "syscall": "ptrace" }
        ]
    } }"#;

    /// The same for a process that listens to a network: it may open sockets, and start nothing.
    const LISTENER_FILTER: &str = r#"{ "listener": {
        "mismatch_action": "allow",
        "match_action": { "errno": 13 },
        "filter": [
            { "syscall": "execve" },
            { "syscall": "execveat" },
            { "syscall": "io_uring_setup" },
            { "syscall": "process_vm_readv" },
            { "syscall": "process_vm_writev" },
            { "syscall": "ptrace" }
        ]
    } }"#;

    /// The version of Landlock whose kinds of access are meant; an older kernel has fewer of them,
    /// and keeps those.
    const LANDLOCK: ABI = ABI::V3;

    type Failed = Box<dyn std::error::Error + Send + Sync>;

    pub(super) fn worker() -> Vec<String> {
        let writing = AccessFs::from_write(LANDLOCK);
        // Drivers write to devices, and keep what they compiled.
        let temporary = std::env::temp_dir();
        let caches = BaseDirs::new().map(|folders| folders.cache_dir().to_owned());
        let open = ["/dev".into(), temporary].into_iter().chain(caches).collect();
        confined(files(writing, open, writing), FILTER)
    }

    pub(super) fn sandbox() -> Vec<String> {
        // It reads there what it takes itself.
        let reading = AccessFs::from_read(LANDLOCK);
        confined(files(AccessFs::from_all(LANDLOCK), vec!["/proc".into()], reading), FILTER)
    }

    pub(super) fn listener() -> Vec<String> {
        let reading = AccessFs::from_read(LANDLOCK);
        let files = files(AccessFs::from_all(LANDLOCK), vec!["/proc".into()], reading);
        confined(files, LISTENER_FILTER)
    }

    /// All else that is given up: no more privileges, nobody without them reads its memory, and the
    /// calls of a `filter`. What is left open.
    fn confined(files: Result<(), Failed>, filter: &str) -> Vec<String> {
        let privileges = rustix::thread::set_no_new_privs(true).map_err(Failed::from);
        let behaviour = rustix::process::DumpableBehavior::NotDumpable;
        let memory = rustix::process::set_dumpable_behavior(behaviour).map_err(Failed::from);
        let held = [
            ("files", files),
            ("privileges", privileges),
            ("memory", memory),
            ("calls", refuse(filter)),
        ];
        let open = |(what, held): (&str, Result<(), Failed>)| {
            held.err().map(|error| format!("{what}: {error}"))
        };
        held.into_iter().filter_map(open).collect()
    }

    /// Of what is `handled`, only what is `allowed` below the folders `open` goes on.
    fn files(
        handled: BitFlags<AccessFs>,
        open: Vec<PathBuf>,
        allowed: BitFlags<AccessFs>,
    ) -> Result<(), Failed> {
        let rules = path_beneath_rules(open, allowed);
        let ruleset = Ruleset::default().handle_access(handled)?.create()?;
        match ruleset.add_rules(rules)?.restrict_self()?.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            RulesetStatus::PartiallyEnforced => Err("this kernel's Landlock holds a part".into()),
            RulesetStatus::NotEnforced => Err("this kernel has no Landlock".into()),
        }
    }

    fn refuse(filter: &str) -> Result<(), Failed> {
        let filters = compile_from_json(filter.as_bytes(), ARCH.try_into()?)?;
        for filter in filters.values() {
            apply_filter_all_threads(filter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_held_to_its_memory_and_never_raises_a_limit_of_its_own() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let (maximum, before) = (getrlimit(Resource::Data).maximum, MemoryBound::begin());
        let limit = || getrlimit(Resource::Data).current.unwrap();
        before.hold_to(1 << 40);
        assert_eq!(limit(), before.began_with + (1 << 40));
        // One that somebody set before.
        setrlimit(Resource::Data, Rlimit { current: Some(1 << 39), maximum }).unwrap();
        let bound = MemoryBound::begin();
        bound.hold_to(1 << 41);
        assert_eq!(limit(), 1 << 39);
        bound.hold_to(1 << 38);
        assert_eq!(limit(), bound.began_with + (1 << 38));
        bound.hold_to(1 << 41);
        assert_eq!(limit(), 1 << 39, "raised again, but to its own");
        let taken = bound.taken().unwrap();
        let more = vec![1_u8; 64 << 20];
        assert!(bound.taken().unwrap() >= taken + (more.len() as u64) / 2, "it counts");
    }

    #[test]
    fn drivers_and_logs_get_their_variables_and_nobody_elses_tokens_are_passed_on() {
        for name in ["PATH", "SystemRoot", "INGLENOOK_LOG", "VK_DRIVER_FILES", "MESA_LOADER"] {
            assert!(is_passed_on(name), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SSH_AUTH_SOCK", "PATHS", "VK"] {
            assert!(!is_passed_on(name), "{name}");
        }
    }
}
