//! Which program a worker is: this one, or the one with the code for NVIDIA's cards beside it.
//!
//! A program with CUDA's code is linked against NVIDIA's driver and does not start without it. So
//! that code is in a program of its own, [`CUDA_WORKER`], which is found beside the usual one. It
//! is started as a worker in the same way and speaks the same messages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nook_base::{Backend, ErrorCode};

use crate::process::START_LIMIT;

/// The worker for NVIDIA's cards.
pub const CUDA_WORKER: &str = "nook-worker-cuda";

/// How to start a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program: this same binary.
    pub program: PathBuf,
    /// Arguments before those of the worker, `["worker"]`.
    pub arguments: Vec<OsString>,
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerStartError {
    /// The folder for the socket lies too deep.
    #[error(
        "the folder {folder} has too long a path for a socket ({bytes} bytes); set INGLENOOK_RUNTIME to a shorter one"
    )]
    PathTooLong {
        /// The folder.
        folder: PathBuf,
        /// Bytes that the socket's path would take.
        bytes: usize,
    },
    /// The socket could not be made.
    #[error("cannot listen for the worker at {socket}: {source}")]
    Listen {
        /// Name of the socket.
        socket: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program could not be started.
    #[error("cannot start the worker {program}: {source}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The process ended before it was ready.
    #[error("the worker ended while starting ({status}): {last_line}")]
    Ended {
        /// Exit status in the system's words.
        status: String,
        /// The last line that it wrote.
        last_line: String,
    },
    /// It did not become ready in time.
    #[error("the worker was not ready within {} s", START_LIMIT.as_secs())]
    TooSlow,
    /// Something else connected to its socket.
    #[error("a process that is not the worker connected to its socket")]
    Impostor,
    /// The program for NVIDIA's cards is there and does not run.
    #[error(
        "{program} computes on NVIDIA's cards and does not start: {reason}. Install NVIDIA's \
         driver, or set `distributed_inference.backend` to `auto`, `gpu` or `native`"
    )]
    Cuda {
        /// The program.
        program: PathBuf,
        /// What the system or the program said.
        reason: String,
    },
}

impl WorkerCommand {
    /// The same for a worker that computes with `backend`: for NVIDIA's cards through CUDA the
    /// program beside this one, where it is. Where it is not, the usual program says so.
    pub(crate) fn for_backend(&self, backend: Backend) -> Self {
        let program = match backend {
            Backend::CandleCuda(_) => cuda_worker_beside(&self.program),
            _ => None,
        };
        let program = program.unwrap_or_else(|| self.program.clone());
        Self { program, arguments: self.arguments.clone() }
    }
}

impl WorkerStartError {
    /// What to act on.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Cuda { .. } => ErrorCode::GpuMissing,
            _ => ErrorCode::WorkerCrashed,
        }
    }

    /// The same of the program for NVIDIA's cards: that it does not run is a fault of the driver or
    /// of the program, and nothing that a model did.
    pub(crate) fn of_cuda(self, program: &Path) -> Self {
        let reason = match self {
            Self::Ended { last_line, .. } => last_line,
            Self::Spawn { source, .. } => source.to_string(),
            slow @ Self::TooSlow => slow.to_string(),
            other => return other,
        };
        Self::Cuda { program: program.to_owned(), reason }
    }
}

/// The [`CUDA_WORKER`] in the folder of `program`, if it lies there. A name without a folder is
/// looked for by the system, and has nothing beside it.
#[must_use]
pub fn cuda_worker_beside(program: &Path) -> Option<PathBuf> {
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let beside = folder.join(format!("{CUDA_WORKER}{}", std::env::consts::EXE_SUFFIX));
    beside.is_file().then_some(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_named_without_a_folder_has_nothing_beside_it() {
        let command = WorkerCommand { program: "nook".into(), arguments: vec!["worker".into()] };
        assert_eq!(command.for_backend(Backend::CandleCuda(0)), command);
        assert_eq!(cuda_worker_beside(Path::new("/nowhere/nook")), None);
    }

    #[test]
    fn what_is_no_fault_of_the_program_stays_what_it_was() {
        let error = WorkerStartError::Impostor.of_cuda(Path::new("/there/nook-worker-cuda"));
        assert_eq!(error.code(), ErrorCode::WorkerCrashed);
        let error = WorkerStartError::TooSlow.of_cuda(Path::new("/there/nook-worker-cuda"));
        assert_eq!(error.code(), ErrorCode::GpuMissing);
        assert!(error.to_string().contains("/there/nook-worker-cuda"), "{error}");
    }
}
