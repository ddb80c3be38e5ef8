//! A real worker process, driven through real calls.
//!
//! The process is this very test program: [`host`] starts it anew with the one test below chosen,
//! which then is the worker. What comes back is compared bit by bit with the model computed alone,
//! here.

#![allow(clippy::unwrap_used, reason = "test code outside `#[test]` functions")]

mod batches;
mod copies;
mod devices;
mod handover;
mod host;
mod lent;
mod openers;
#[cfg(unix)]
mod paths;
#[cfg(unix)]
mod programs;
mod resume;

/// Is the worker when [`host`] starts it; among the other tests there is nothing for it to do.
#[test]
fn the_worker_itself() {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--socket") {
        let status = nook_shard::worker_status(&arguments[at..]);
        // The test harness must not go on with whatever else it would do.
        std::process::exit(status.into());
    }
}
