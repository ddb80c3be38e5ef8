//! What the household tests are made of. For tests only; nothing here is part of the product.
//!
//! Real parts throughout: [`Household`] starts real nodes as processes of their own, each with its
//! own home, and speaks with them through the owner's own door (`nook-control`). [`Replying`]
//! follows a reply, so that a test can do something at a chosen token. [`Device`] is a device under
//! the test's control, [`Lender`] one that computes with a real worker and keeps all that it is
//! sent. [`Secrets`] looks for what must not be found. [`Bridge`] is a network of its own, made of
//! namespaces, on which each node of a [`Household::apart`] is a machine of its own, [`Proxy`] a
//! bad cable between two devices, [`FileServer`] a bad server of model files, `SystemBus` what says
//! that a machine is about to sleep (Linux).
//!
//! Everything that is started here ends with its owner, also when a test fails.

mod asking;
mod bridge;
pub mod commands;
mod cpu_share;
mod device;
mod file_server;
mod fixtures;
#[cfg(test)]
mod fixtures_tests;
mod footprint;
mod household;
#[cfg(unix)]
pub mod installed;
mod known;
mod lender;
mod node;
mod plan;
mod process;
mod program;
mod proxy;
mod secrets;
#[cfg(target_os = "linux")]
mod system_bus;

pub use asking::{Leg, Replying, Told, Wish};
pub use bridge::Bridge;
pub use cpu_share::{CpuShare, ShareMeter};
pub use device::{Asked, Device};
pub use file_server::{Fault, FileServer, Request as FileRequest, Served};
pub use fixtures::{fixture, large_fixture, say, skip};
pub use footprint::Footprint;
pub use household::Household;
pub use known::{Case, chat_cases, story_cases};
pub use lender::{Garbage, Lender, Recorded};
pub use node::Node;
pub use plan::NodePlan;
pub use process::{Signal, Standstill, Throttle, descendants, interrupted, signal, workers_of};
pub use program::nook;
pub use proxy::{Cable, Proxy, Weather};
pub use secrets::{Secrets, files_below};
#[cfg(target_os = "linux")]
pub use system_bus::{Counted, Desktop, Locks, SystemBus};
