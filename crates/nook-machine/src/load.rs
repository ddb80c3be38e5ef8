//! How much of the processor other programs take.
//!
//! What this process and its children (the workers) take is not counted: it would switch itself
//! off.

use std::collections::BTreeSet;
use std::time::Instant;

use nook_base::clock;
use sysinfo::{
    MINIMUM_CPU_UPDATE_INTERVAL, Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System,
};

#[derive(Debug, Default)]
pub(crate) struct Load {
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    system: System,
    at: Instant,
}

impl Load {
    /// Share of all cores since the look before; `None` at the first one, and where the system does
    /// not say.
    pub(crate) fn of_others(&mut self) -> Option<f32> {
        let now = clock::now();
        let Some(seen) = &mut self.seen else {
            self.seen = first(now);
            return None;
        };
        // Counters of the system are coarse: two looks too close together say nothing.
        if now.duration_since(seen.at) < MINIMUM_CPU_UPDATE_INTERVAL {
            return None;
        }
        seen.at = now;
        refresh(&mut seen.system);
        let cores = seen.system.cpus().len().max(1) as f32;
        let own: f32 = own(&seen.system).map(|(_, process)| process.cpu_usage()).sum();
        let own = own / cores;
        Some(((seen.system.global_cpu_usage() - own) / 100.0).clamp(0.0, 1.0))
    }

    /// The numbers of this process and of its children, as of the last look; `None` before it.
    pub(crate) fn own(&self) -> Option<BTreeSet<u32>> {
        let seen = self.seen.as_ref()?;
        Some(own(&seen.system).map(|(pid, _)| pid.as_u32()).collect())
    }
}

/// This process and its children, as far as `system` has seen them.
fn own(system: &System) -> impl Iterator<Item = (Pid, &Process)> {
    let this = sysinfo::get_current_pid().ok();
    let is_ours = move |pid: Pid, process: &Process| {
        this.is_some() && (Some(pid) == this || process.parent() == this)
    };
    let processes = system.processes().iter().map(|(pid, process)| (*pid, process));
    processes.filter(move |(pid, process)| is_ours(*pid, process))
}

fn first(now: Instant) -> Option<Seen> {
    let unknown = |error: &sysinfo::Error| tracing::debug!(%error, "the load is not known");
    let mut system = System::new().inspect_err(unknown).ok()?;
    refresh(&mut system);
    Some(Seen { system, at: now })
}

fn refresh(system: &mut System) {
    system.refresh_cpu_usage();
    let with_load = ProcessRefreshKind::nothing().with_cpu().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, with_load);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_children_are_told_apart_from_others() {
        // Waits on its standard input, on any system.
        let mut child = std::process::Command::new(if cfg!(windows) { "findstr" } else { "cat" })
            .args(cfg!(windows).then_some("x"))
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut load = Load::default();
        assert_eq!(load.own(), None);
        load.of_others();
        let own = load.own().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own.contains(&std::process::id()) && own.contains(&child.id()), "{own:?}");
        assert!(!own.contains(&1), "{own:?}");
    }
}
