//! A busy machine: processes that each keep one core busy for as long as they are wanted.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// Processes that spin until this is dropped.
#[derive(Debug)]
pub(crate) struct Spinning {
    children: Vec<Child>,
}

impl Spinning {
    /// Starts `count` of them.
    pub(crate) fn start(program: &Path, count: usize) -> anyhow::Result<Self> {
        let mut spinning = Self { children: Vec::new() };
        for _ in 0..count {
            let child = Command::new(program)
                .arg("--spin")
                .stdin(Stdio::piped())
                .spawn()
                .context("cannot start a spinning process")?;
            spinning.children.push(child);
        }
        Ok(spinning)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes without end or use; ends when whoever started this process has gone, so that a bench
/// that was killed leaves nothing behind that spins.
pub(crate) fn spin_until_input_ends() {
    std::thread::spawn(|| {
        let mut number = 1u64;
        loop {
            number = std::hint::black_box(
                number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1),
            );
        }
    });
    let mut nothing = Vec::new();
    // An unreadable input is as good as an ended one.
    let _ = std::io::stdin().read_to_end(&mut nothing);
}
