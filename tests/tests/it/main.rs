//! Whole households, and the programs that measure them.
//!
//! Every test starts nodes as processes of their own; none touches this process's environment,
//! limits or working folder, so all are in one program. `.config/nextest.toml` says how many run at
//! once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audit;
#[cfg(target_os = "linux")]
mod awake;
mod bench_engine;
mod bench_flood;
mod bench_home;
mod bench_pipeline;
mod bench_walk;
mod calibration;
mod command_line;
mod conversations;
mod copying;
mod downloading;
mod dropping;
#[cfg(target_os = "linux")]
mod ends;
mod facts;
mod faults;
#[cfg(target_os = "linux")]
mod fetch_faults;
mod fidelity;
mod formats;
mod forwarding;
mod gains;
mod garbage;
mod golden;
mod gpu;
mod handover;
mod helping;
mod home;
#[cfg(target_os = "linux")]
mod hostile;
mod keeping;
mod lending_cap;
mod lent;
mod moving;
mod namespaces;
mod network;
mod offload;
mod openers;
mod pace;
mod parity;
mod pausing;
mod placement;
mod pooling;
mod privacy;
mod refusals;
mod renewing;
mod resume;
#[cfg(target_os = "linux")]
mod settings;
mod simulate;
mod sleeping;
mod soak;
mod standing;
mod timeline;
mod touched;
#[cfg(target_os = "linux")]
mod updating;
#[cfg(target_os = "linux")]
mod waking;
mod ways;
