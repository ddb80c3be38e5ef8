//! The line of steps before the compute thread, and the ticks that work it off.
//!
//! ```text
//! a tick:  every short step that waits ──> one pass for each part of the model ──> answered at once
//!          the next piece of one long step ──────────────────────────────────────> to the end of the line
//! ```
//!
//! A *short* step has few rows: decode, where a pass takes as long as reading the weights, so that
//! eight conversations share what one would cost. Longer steps are prefill. They are computed in
//! bounded pieces (`pace`), one a tick and in turn, so that no prompt holds up a decode or another
//! prompt for longer than one piece. Batch and piece change no bit of any result.
//!
//! What queued while a pass ran joins the next one. A pass waits only for conversations that are
//! known to be back in a moment (`company`), never longer than half of its own time, and never when
//! nobody else decodes.
//!
//! **Times.** `compute` of a step is the time of the passes in which its own rows were computed. A
//! pass that it shares with others counts whole for each: they share one read of the weights, which
//! each alone would have paid, so it is what a visit costs (a little less than reported, when
//! nobody shares) and the sum over conversations may exceed the time that went by. Pieces are never
//! computed together with the short steps of others, so no prefill is in the `compute` of a decode
//! step. `queued` is all the rest from the asking to the answer; the sum of both is the time that
//! the step spent here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nook_base::{ErrorCode, ModelPart, Sensitive, clock};
use nook_model::{BatchPiece, Input, LoadedModel, LogitRows, Output, Session, StepError};
use nook_wire::PassCounts;
use tokio::sync::oneshot;

use crate::account::Account;
use crate::batch_window::BatchWindow;
use crate::failure::Failure;
use crate::pace::{DECODE_ROWS_MAX, Pace};

/// Rows that short steps have together in one pass at most; those that came later wait for the
/// next.
const PASS_ROWS_MAX: usize = 64;

/// The numbers of one step.
#[derive(Debug)]
pub(crate) enum StepInput {
    /// Token ids, for a part that has the embedding.
    Tokens(Sensitive<Vec<u32>>),
    /// Rows of hidden state.
    Hidden(Sensitive<Vec<f32>>),
}

/// A step that was computed, or was not; the session comes back either way.
///
/// After a failure the session may have gained some rows of the step: its call is over.
#[derive(Debug)]
pub(crate) struct StepDone {
    pub(crate) session: Session,
    pub(crate) result: Result<Output, Failure>,
    pub(crate) compute: Duration,
    pub(crate) queued: Duration,
}

/// A step on its way to the line.
#[derive(Debug)]
pub(crate) struct StepJob {
    /// Which conversation, as the worker numbers them.
    pub(crate) who: u64,
    pub(crate) session: Session,
    pub(crate) input: StepInput,
    pub(crate) rows: LogitRows,
    pub(crate) asked: Instant,
    /// Set when the caller no longer waits.
    pub(crate) left: Arc<AtomicBool>,
    pub(crate) reply: oneshot::Sender<StepDone>,
}

/// The steps that wait. No longer than there are calls: each has one step at most.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: Vec<Waiting>,
    pace: Pace,
    batch_window: BatchWindow,
    counts: PassCounts,
    steps_done: u64,
}

#[derive(Debug)]
struct Waiting {
    job: StepJob,
    /// Rows of the step, and those of them that were computed.
    total: usize,
    done: usize,
    /// Numbers in a row of hidden state.
    width: usize,
    output: Option<Output>,
    compute: Duration,
}

impl Line {
    /// Puts a step into the line, unless it cannot be computed: then it is answered here.
    pub(crate) fn join(&mut self, model: Option<&LoadedModel>, job: StepJob) {
        self.batch_window.came(job.who, job.asked);
        let checked = match model {
            None => Err(Failure::new(ErrorCode::NotFound, "no model was loaded yet")),
            Some(model) => job
                .session
                .check(model, job.input.rows(0, usize::MAX, 1))
                .map(|total| (total as usize, model.file().shape().row as usize))
                .map_err(Failure::from),
        };
        let (total, width, fault) = match checked {
            Ok((total, width)) => (total, width, None),
            Err(failure) => (0, 1, Some(failure)),
        };
        let compute = Duration::ZERO;
        let waiting = Waiting { job, total, done: 0, width, output: None, compute };
        match fault {
            None => self.waiting.push(waiting),
            Some(failure) => self.answer(waiting, Err(failure)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Steps answered so far, those that failed included.
    pub(crate) fn steps_done(&self) -> u64 {
        self.steps_done
    }

    /// How steps shared passes so far.
    pub(crate) fn counts(&self) -> PassCounts {
        let waiting = u16::try_from(self.waiting.len()).unwrap_or(u16::MAX);
        PassCounts { waiting, ..self.counts }
    }

    /// Until when there is nothing better to do than to wait for others: see [`BatchWindow`].
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        if self.waiting.iter().any(|waiting| !waiting.is_short()) {
            return None;
        }
        let now = clock::now();
        let ends = self.parts_of_short_steps().into_iter().map(|part| self.expected(part, now));
        // A part that waits for nobody is computed now.
        ends.collect::<Option<Vec<Instant>>>()?.into_iter().min()
    }

    /// Works one tick off.
    pub(crate) fn tick(&mut self, model: &LoadedModel, account: &Account) {
        // Whoever left costs nothing more.
        self.waiting.retain(|waiting| !waiting.has_left());
        for part in self.parts_of_short_steps() {
            // While others are on their way, a piece of a prompt goes first, if there is one.
            if self.expected(part, clock::now()).is_none() {
                self.shared_pass(model, account, part);
            }
        }
        if let Some(index) = self.waiting.iter().position(|waiting| !waiting.is_short()) {
            let long = self.waiting.remove(index);
            self.piece(model, account, long);
        }
    }

    fn expected(&self, part: ModelPart, now: Instant) -> Option<Instant> {
        let pass = self.pace.decode_time(part)?;
        self.batch_window.expected(part, pass, now)
    }

    /// Parts over which short steps wait, the one that waits longest first.
    fn parts_of_short_steps(&self) -> Vec<ModelPart> {
        let mut parts = Vec::new();
        for waiting in self.waiting.iter().filter(|waiting| waiting.is_short()) {
            if !parts.contains(&waiting.part()) {
                parts.push(waiting.part());
            }
        }
        parts
    }

    /// One pass for all short steps over `part`, as far as they fit.
    fn shared_pass(&mut self, model: &LoadedModel, account: &Account, part: ModelPart) {
        let mut rows = 0;
        let joins = |waiting: &mut Waiting| {
            if !waiting.is_short() || waiting.part() != part || waiting.has_left() {
                return false;
            }
            rows += waiting.left_rows();
            rows <= PASS_ROWS_MAX
        };
        let mut batch: Vec<Waiting> = self.waiting.extract_if(.., joins).collect();
        if batch.is_empty() {
            return;
        }
        self.counts.shared += 1;
        self.counts.served += batch.len() as u64;
        let size = u16::try_from(batch.len()).unwrap_or(u16::MAX);
        self.counts.most = self.counts.most.max(size);
        let started = clock::now();
        let outcomes = together(model, account, &mut batch);
        let now = clock::now();
        let took = now.duration_since(started);
        self.pace.decoded(part, took, now);
        for (mut waiting, outcome) in batch.into_iter().zip(outcomes) {
            waiting.compute += took;
            self.batch_window.answered(waiting.job.who, part, now);
            let result = outcome.map(|output| waiting.whole(output)).map_err(Failure::from);
            self.answer(waiting, result);
        }
    }

    /// The next piece of a long step; with the last one it is answered, else it waits for its turn.
    fn piece(&mut self, model: &LoadedModel, account: &Account, mut long: Waiting) {
        let started = clock::now();
        let rows = self.pace.piece_rows(long.part(), started).min(long.left_rows());
        self.counts.pieces += 1;
        let outcome = alone(model, account, &mut long, rows);
        let took = clock::now().duration_since(started);
        long.compute += took;
        match outcome {
            Ok(output) => {
                self.pace.prefilled(long.part(), rows, took);
                long.done += rows;
                if long.done == long.total {
                    let whole = long.whole(output);
                    self.answer(long, Ok(whole));
                } else {
                    long.keep(output);
                    self.waiting.push(long);
                }
            }
            Err(error) => self.answer(long, Err(error.into())),
        }
    }

    fn answer(&mut self, waiting: Waiting, result: Result<Output, Failure>) {
        self.steps_done += 1;
        let Waiting { job, compute, .. } = waiting;
        let here = clock::now().saturating_duration_since(job.asked);
        let queued = here.saturating_sub(compute);
        // A reply nobody waits for any more is dropped, and with it the session.
        let _ = job.reply.send(StepDone { session: job.session, result, compute, queued });
    }
}

impl Waiting {
    fn part(&self) -> ModelPart {
        self.job.session.part()
    }

    fn left_rows(&self) -> usize {
        self.total - self.done
    }

    /// Whether it may share a pass. What is left of a long step is no decode, however short.
    fn is_short(&self) -> bool {
        self.total <= DECODE_ROWS_MAX
    }

    fn has_left(&self) -> bool {
        self.job.left.load(Ordering::Relaxed)
    }

    /// The next `rows` rows, as a piece of a batch.
    fn next(&mut self, rows: usize) -> BatchPiece<'_> {
        let is_last = self.done + rows == self.total;
        let wanted = match self.job.rows {
            LogitRows::Last if !is_last => LogitRows::None,
            wanted => wanted,
        };
        let input = self.job.input.rows(self.done, rows, self.width);
        BatchPiece { session: &mut self.job.session, input, rows: wanted }
    }

    /// Keeps the output of a piece that is not the last.
    fn keep(&mut self, output: Output) {
        let whole = self.whole(output);
        self.output = Some(whole);
    }

    /// What was kept, and then `output`.
    fn whole(&mut self, output: Output) -> Output {
        match (self.output.take(), output) {
            (Some(Output::Hidden(mut all)), Output::Hidden(more)) => {
                all.extend(more);
                Output::Hidden(all)
            }
            (
                Some(Output::Logits { rows, mut values }),
                Output::Logits { rows: n, values: more },
            ) => {
                values.extend(more);
                Output::Logits { rows: rows + n, values }
            }
            // One part of a model always gives the same kind of output.
            (_, output) => output,
        }
    }
}

impl StepInput {
    /// `count` rows from number `first` on, as far as there are any.
    fn rows(&self, first: usize, count: usize, width: usize) -> Input<'_> {
        match self {
            Self::Tokens(ids) => Input::Tokens(cut(ids, first, count, 1)),
            Self::Hidden(values) => Input::Hidden(cut(values, first, count, width)),
        }
    }
}

fn cut<T>(all: &[T], first: usize, count: usize, width: usize) -> &[T] {
    let from = first.saturating_mul(width).min(all.len());
    let to = first.saturating_add(count).saturating_mul(width).min(all.len());
    &all[from..to]
}

/// The whole steps of `batch` in one pass. Whatever goes wrong concerns the one at fault only.
fn together(
    model: &LoadedModel,
    account: &Account,
    batch: &mut [Waiting],
) -> Vec<Result<Output, StepError>> {
    if let [one] = batch {
        let rows = one.left_rows();
        return vec![alone(model, account, one, rows)];
    }
    let all_left: Vec<Arc<AtomicBool>> = batch.iter().map(|one| one.job.left.clone()).collect();
    // Neighbours are not disturbed by one who leaves; when all have, there is nobody to compute
    // for.
    let cancelled = || all_left.iter().all(|left| left.load(Ordering::Relaxed));
    let mut pieces: Vec<BatchPiece<'_>> =
        batch.iter_mut().map(|one| one.next(one.left_rows())).collect();
    match model.step_batch(&mut pieces, &cancelled) {
        Ok(outputs) => outputs.into_iter().map(Ok).collect(),
        Err(error) if error.error == StepError::Cancelled => {
            batch.iter().map(|_| Err(StepError::Cancelled)).collect()
        }
        // Nothing was changed, and not every error names the piece at fault; alone it shows itself.
        Err(_) => batch
            .iter_mut()
            .map(|one| {
                let rows = one.left_rows();
                alone(model, account, one, rows)
            })
            .collect(),
    }
}

/// The next `rows` rows of one step by itself. A caller who leaves is noticed at the next layer.
fn alone(
    model: &LoadedModel,
    account: &Account,
    one: &mut Waiting,
    rows: usize,
) -> Result<Output, StepError> {
    let left = one.job.left.clone();
    let cancelled = || left.load(Ordering::Relaxed);
    let mut attempt = || -> Result<Output, StepError> {
        let mut piece = [one.next(rows)];
        let outputs = model.step_batch(&mut piece, &cancelled);
        let mut outputs = outputs.map_err(|error| error.error)?;
        Ok(outputs.pop().expect("a batch gives an output for each piece"))
    };
    match attempt() {
        // What is kept of other conversations is the first to go.
        Err(error) if error.is_out_of_memory() && account.free_parked() => attempt(),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
