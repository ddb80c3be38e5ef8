//! How much of the processor other programs take.
//!
//! What this process and its children (the workers) take is not counted: it would switch itself
//! off.

use std::time::Instant;

use nook_base::clock;
use sysinfo::{MINIMUM_CPU_UPDATE_INTERVAL, Pid, ProcessRefreshKind, ProcessesToUpdate, System};

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
        let own = own(&seen.system) / cores;
        Some(((seen.system.global_cpu_usage() - own) / 100.0).clamp(0.0, 1.0))
    }
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

/// What this process and its children take, in hundredths of one core.
fn own(system: &System) -> f32 {
    let Ok(this) = sysinfo::get_current_pid() else { return 0.0 };
    let ours = |pid: &Pid, parent: Option<Pid>| *pid == this || parent == Some(this);
    let processes = system.processes().iter();
    processes
        .filter(|(pid, process)| ours(pid, process.parent()))
        .map(|(_, process)| process.cpu_usage())
        .sum()
}
