//! Where kernels run: threads of its own for each loaded model, and an instruction set.
//!
//! Work is cut into pieces of the output; each piece is computed by one thread, in the one order
//! that [`crate`] describes, so results do not depend on the number of threads or on who takes
//! which piece. Pieces are claimed one by one, so a thread that is held up by another program
//! delays one piece, and a thread that has not woken yet is not waited for.

use std::fmt;

use crate::isa::Isa;
use crate::pool::Pool;

/// Most threads of one model; more are cut to this.
pub const THREADS_MAX: usize = 256;

/// Multiplications below which work stays on one thread: waking another costs as much as they do.
const SHARED_WORK_MIN: usize = 1 << 17;

/// Threads and instruction set that kernels run with.
pub struct Compute {
    /// `None`: everything runs on the caller's thread.
    pool: Option<Pool>,
    threads: usize,
    isa: Isa,
}

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("could not start {threads} compute threads")]
pub struct ThreadsError {
    /// Threads asked for.
    pub threads: usize,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

impl Compute {
    /// `threads` threads (0 counts as 1, more than [`THREADS_MAX`] as that) and the best
    /// instruction set of this machine. The calling thread is one of them.
    pub fn new(threads: usize) -> Result<Self, ThreadsError> {
        Self::with_isa(threads, Isa::detect())
    }

    /// As [`Self::new`], with a chosen instruction set: for tests that compare them.
    pub fn with_isa(threads: usize, isa: Isa) -> Result<Self, ThreadsError> {
        let threads = threads.clamp(1, THREADS_MAX);
        let pool = match threads {
            1 => None,
            _ => {
                let helpers = threads - 1;
                Some(Pool::start(helpers).map_err(|source| ThreadsError { threads, source })?)
            }
        };
        Ok(Self { pool, threads, isa })
    }

    /// The calling thread alone.
    #[must_use]
    pub fn single() -> Self {
        Self { pool: None, threads: 1, isa: Isa::detect() }
    }

    /// Threads that work.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Calls `piece` with each number below `count`, each once, on the threads of this `Compute`
    /// (the caller's is one of them), and returns when all calls have. `work` is how many
    /// multiplications it all takes, roughly: a little is not worth sharing. A panic of a piece
    /// comes out here. A piece must not share work of its own: there is one job at a time, and it
    /// would wait for itself.
    pub fn share(&self, count: usize, work: usize, piece: &(dyn Fn(usize) + Sync)) {
        match &self.pool {
            Some(pool) if count > 1 && work >= SHARED_WORK_MIN => pool.share(count, piece),
            _ => (0..count).for_each(piece),
        }
    }
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute").field("threads", &self.threads).field("isa", &self.isa).finish()
    }
}
