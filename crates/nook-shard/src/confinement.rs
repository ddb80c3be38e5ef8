//! What a worker may not do, whatever the bytes of a model file make it do.
//!
//! A worker reads files that strangers made and computes for devices of other people. So it gives up
//! what it does not need before it reads a byte of theirs: new privileges, sockets that leave this
//! machine, other processes' memory, and (in [`worker`]) files that it could change or (in
//! [`sandbox`]) all files. A process may do that to itself without any privilege, and all that it
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
    system::sandbox()
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
        confined(files(writing, open, writing))
    }

    pub(super) fn sandbox() -> Vec<String> {
        // It reads there what it takes itself.
        let reading = AccessFs::from_read(LANDLOCK);
        confined(files(AccessFs::from_all(LANDLOCK), vec!["/proc".into()], reading))
    }

    /// All else that is given up: no more privileges, nobody without them reads its memory, and the
    /// calls of [`FILTER`]. What is left open.
    fn confined(files: Result<(), Failed>) -> Vec<String> {
        let privileges = rustix::thread::set_no_new_privs(true).map_err(Failed::from);
        let behaviour = rustix::process::DumpableBehavior::NotDumpable;
        let memory = rustix::process::set_dumpable_behavior(behaviour).map_err(Failed::from);
        let held =
            [("files", files), ("privileges", privileges), ("memory", memory), ("calls", filter())];
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

    fn filter() -> Result<(), Failed> {
        let filters = compile_from_json(FILTER.as_bytes(), ARCH.try_into()?)?;
        for filter in filters.values() {
            apply_filter_all_threads(filter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
