//! The process that has the data folder: whether it is there, and its end by force.

use std::path::Path;
use std::time::Duration;

use nook_base::clock;
use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, Signal, System};

/// How long a process has to end by itself once it was asked to.
const END_LIMIT: Duration = Duration::from_secs(10);

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Running {
    number: u32,
    /// When it began, in seconds since 1970. Becoming another program does not change it.
    began: u64,
}

/// The process that had the data folder last, if it is there. Waits for the system.
pub(super) fn of(home: Option<&Path>) -> Option<Running> {
    let number = nook_node::process_of(home)?;
    look(number, |process| Running { number, began: process.start_time() })
}

impl Running {
    /// Ends it: asked at first, then by force. Waits for that.
    pub(super) fn end(self) {
        for signal in [Signal::Term, Signal::Kill] {
            let asked = look(self.number, |process| {
                let is_it = process.start_time() == self.began;
                is_it && process.kill_with(signal).unwrap_or_default()
            });
            if asked != Some(true) {
                return;
            }
            let began = clock::now();
            while began.elapsed() < END_LIMIT {
                if look(self.number, Process::start_time) != Some(self.began) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Looks at a process, if there is one. One that has ended and that nobody has asked about is none.
fn look<T>(number: u32, at: impl FnOnce(&Process) -> T) -> Option<T> {
    let mut system = System::new().ok()?;
    let number = Pid::from_u32(number);
    let (only, nothing) = (ProcessesToUpdate::Some(&[number]), ProcessRefreshKind::nothing());
    system.refresh_processes_specifics(only, true, nothing);
    let process = system.process(number)?;
    let has_ended = matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead);
    (!has_ended).then(|| at(process))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn started(script: &str) -> (std::process::Child, Running) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        let number = child.id();
        let running = look(number, |it| Running { number, began: it.start_time() }).unwrap();
        (child, running)
    }

    #[test]
    fn the_very_process_is_ended_and_no_later_one_with_its_number() {
        let (mut child, running) = started("exec sleep 600");
        Running { began: running.began - 1, ..running }.end();
        assert!(child.try_wait().unwrap().is_none(), "another process had this number");
        running.end();
        assert!(!child.wait().unwrap().success());
        running.end();
    }
}
