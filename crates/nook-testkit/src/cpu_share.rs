//! A part of the machine's processors for one node, so that several on one machine do not slow each
//! other down as they never would in a house.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

use anyhow::Context as _;

/// How often the share is handed out anew: a token of the test models takes several of these, so a
/// reply is slow evenly and not by fits and starts.
const PERIOD_US: u32 = 10_000;

/// The kernel refuses less.
const QUOTA_MIN_US: f64 = 1_000.0;

/// Most weight that a control group can have (cgroup v1 and v2): what else the machine does is to
/// take as little as possible of the share.
const SHARES_MAX: u32 = 262_144;
const WEIGHT_MAX: u32 = 10_000;

/// Where the CPU controller of cgroup v1 is, and where cgroup v2 is.
const FIRST: &str = "/sys/fs/cgroup/cpu";
const SECOND: &str = "/sys/fs/cgroup";

/// Tells the groups of one process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A control group with a share of the processors. Programs started behind [`CpuShare::prefix`], and
/// all that they start, share it. Dropping it lets them go on freely.
#[derive(Debug)]
pub struct CpuShare {
    folder: PathBuf,
}

/// Reads how long the programs of a share had to stand still.
#[derive(Debug, Clone)]
pub struct ShareMeter {
    file: PathBuf,
}

impl ShareMeter {
    /// Time since the share was made that its programs would have computed and had used it up; absent
    /// where the system does not say.
    #[must_use]
    pub fn stood_still(&self) -> Option<Duration> {
        stood_still(&fs::read_to_string(&self.file).ok()?)
    }
}

/// Of the text of `cpu.stat`, in ns (cgroup v1) or us (cgroup v2).
fn stood_still(text: &str) -> Option<Duration> {
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", ns) => ns.parse().ok().map(Duration::from_nanos),
        ("throttled_usec", us) => us.parse().ok().map(Duration::from_micros),
        _ => None,
    })
}

impl CpuShare {
    /// Makes one of `cores` of the machine's cores. Fails where this process may not make control
    /// groups: only root may, and in many containers not even root.
    pub fn of(cores: f64) -> anyhow::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("inglenook-{}-{number}", std::process::id());
        let quota = (f64::from(PERIOD_US) * cores).max(QUOTA_MIN_US).round();
        let (parent, files) = if Path::new(FIRST).join("cpu.cfs_quota_us").exists() {
            let files = [
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
                ("cpu.shares", SHARES_MAX.to_string()),
            ];
            (FIRST, files.to_vec())
        } else {
            let files = [
                ("cpu.max", format!("{quota} {PERIOD_US}")),
                ("cpu.weight", WEIGHT_MAX.to_string()),
            ];
            (SECOND, files.to_vec())
        };
        let share = Self { folder: Path::new(parent).join(name) };
        let why = "cannot give a node a share of the processors";
        fs::create_dir(&share.folder).context(why)?;
        for (file, value) in files {
            fs::write(share.folder.join(file), value).context(why)?;
        }
        Ok(share)
    }

    /// Words before a program that put it into this share: see [`crate::NodePlan::behind`].
    #[must_use]
    pub fn prefix(&self) -> Vec<OsString> {
        let join = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let words = ["sh", "-c", join].map(OsString::from);
        words.into_iter().chain([self.folder.clone().into()]).collect()
    }

    /// Puts a process that runs already into this share.
    pub fn take_in(&self, pid: u32) -> anyhow::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string())
            .context("a process cannot be put into a share of the processors")
    }

    /// What says how long its programs had to stand still.
    #[must_use]
    pub fn meter(&self) -> ShareMeter {
        ShareMeter { file: self.folder.join("cpu.stat") }
    }

    fn dissolve(&self) -> io::Result<()> {
        let parent = self.folder.parent().unwrap_or(Path::new(SECOND));
        for pid in fs::read_to_string(self.folder.join("cgroup.procs"))?.lines() {
            // It may have ended meanwhile.
            let _ = fs::write(parent.join("cgroup.procs"), pid);
        }
        fs::remove_dir(&self.folder)
    }
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        // An empty group that stays takes nothing from anybody.
        let _ = self.dissolve();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_program_in_a_share_starts_is_in_it_too() {
        let share = match CpuShare::of(0.25) {
            Ok(share) => share,
            Err(error) => return eprintln!("not here: {error:#}"),
        };
        let words = share.prefix();
        let (program, before) = words.split_first().unwrap();
        let child = ["sh", "-c", "sh -c 'cat /proc/self/cgroup'"];
        let output = Command::new(program).args(before).args(child).output().unwrap();
        let name = share.folder.file_name().unwrap().to_str().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(name), "{told}");
        let folder = share.folder.clone();
        drop(share);
        assert!(!folder.exists());
    }
    #[test]
    fn both_generations_say_how_long_programs_stood_still() {
        let first = "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000\n";
        let second = "usage_usec 9\nnr_throttled 2\nthrottled_usec 1500\n";
        for text in [first, second] {
            assert_eq!(stood_still(text), Some(Duration::from_micros(1500)), "{text}");
        }
        assert_eq!(stood_still("usage_usec 9\n"), None);
    }
}
