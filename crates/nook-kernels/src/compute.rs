//! Where kernels run: a thread pool of its own for each loaded model, and an instruction set.
//!
//! Work is cut into pieces of the output; each piece is computed by one thread, in the one order
//! that [`crate`] describes, so results do not depend on the number of threads or on who takes which
//! piece. Idle threads sleep.

use std::fmt;

use rayon::prelude::*;

use crate::isa::Isa;

/// Most threads of one model; more are cut to this.
pub const THREADS_MAX: usize = 256;

/// Pieces of work for each thread, so that a thread that is held up by another program does not
/// hold up all others.
const PIECES_PER_THREAD: usize = 4;

/// Multiplications below which work stays on one thread: waking another costs as much as they do.
const SHARED_WORK_MIN: usize = 1 << 17;

/// Threads and instruction set that kernels run with.
pub struct Compute {
    /// `None`: everything runs on the caller's thread.
    pool: Option<rayon::ThreadPool>,
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
    pub source: rayon::ThreadPoolBuildError,
}

impl Compute {
    /// `threads` threads (0 counts as 1, more than [`THREADS_MAX`] as that) and the best instruction
    /// set of this machine. With one thread, work stays on the calling thread.
    pub fn new(threads: usize) -> Result<Self, ThreadsError> {
        Self::with_isa(threads, Isa::detect())
    }

    /// As [`Self::new`], with a chosen instruction set: for tests that compare them.
    pub fn with_isa(threads: usize, isa: Isa) -> Result<Self, ThreadsError> {
        let threads = threads.clamp(1, THREADS_MAX);
        let pool = if threads == 1 {
            None
        } else {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|index| format!("compute-{index}"))
                .build()
                .map_err(|source| ThreadsError { threads, source })?;
            Some(pool)
        };
        Ok(Self { pool, threads, isa })
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

    /// Runs a whole step on the pool, so that the kernels inside it need not hand over to it one by
    /// one. Blocks until it is done.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Cuts `out` into rows of `row` numbers, gives groups of whole rows to the threads, and calls
    /// `piece(first_row, rows)` for each group. `out` must hold whole rows; a rest is left alone.
    /// `work` is how many multiplications it all takes, roughly: a little is not worth sharing.
    pub fn rows(
        &self,
        out: &mut [f32],
        row: usize,
        work: usize,
        piece: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        if row == 0 || out.is_empty() {
            return;
        }
        let rows = out.len() / row;
        let out = &mut out[..rows * row];
        match &self.pool {
            Some(pool) if rows > 1 && work >= SHARED_WORK_MIN => {
                let group = rows.div_ceil(self.threads * PIECES_PER_THREAD);
                pool.install(|| {
                    out.par_chunks_mut(group * row)
                        .enumerate()
                        .for_each(|(index, out)| piece(index * group, out));
                });
            }
            _ => piece(0, out),
        }
    }
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compute").field("threads", &self.threads).field("isa", &self.isa).finish()
    }
}
