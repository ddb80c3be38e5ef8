//! The undisturbed walk: stages take steps from their logs and pass results on.
//!
//! Every stage with an open call takes the next positions of its log, at most one chunk per step
//! and one window of steps at a time. The result of a step goes to the log behind the stage, as far
//! as that does not have the positions already; the last stage's logits go to the sampler.

use std::time::{Duration, Instant};

use nook_base::{Activation, ErrorCode, LogitRows, Sensitive};
use nook_plan::Place;

use crate::arrival::{self, Expected};
use crate::fault::Fault;
use crate::measure::HopVisit;
use crate::message::{Action, AttemptId, LocalAttempt, Priority, Report, ShardState};
use crate::norm_bounds::{Source, StepNormGain};
use crate::pipeline::{Pipeline, State};
use crate::replay_log::ReplayLog;
use crate::replay_logs::Appended;
use crate::settings::QUEUED_CHUNKS_MAX;
use crate::stage::{Asked, Phase, Role, UnderWay};

/// The positions of one step.
#[derive(Clone, Copy)]
struct Stretch {
    position: u32,
    count: u32,
}

impl Pipeline {
    /// Lets every stage that can take a step take it.
    pub(crate) fn pump(&mut self, now: Instant) {
        // Sending changes nothing but the stage itself, so one pass reaches every stage.
        for index in 0..self.stages.len() {
            while self.state == State::Walking
                && let Some(stretch) = self.next_stretch(index)
            {
                self.send(index, stretch, now);
            }
        }
    }

    /// What `index` may be given now.
    fn next_stretch(&self, index: usize) -> Option<Stretch> {
        let stage = &self.stages[index];
        let is_ready = matches!(stage.phase, Phase::Open(_))
            && stage.migration.is_none()
            && self.may_begin_chain(index);
        let waiting = self.may_take(index).saturating_sub(stage.sent);
        let is_over = self.is_stopped_while_reading();
        if is_over || !is_ready || waiting == 0 || self.is_far_ahead(self.end_of_chain(index)) {
            return None;
        }
        Some(Stretch { position: stage.sent, count: waiting.min(self.chunk()) })
    }

    /// Positions that `index` may be given in all.
    fn may_take(&self, index: usize) -> u32 {
        let input = self.input_end(index);
        match self.stages[index].role {
            Role::Main | Role::Hedge => input,
            // It recomputes what is known already, and no more than was asked.
            Role::Verifier(drawn) => input.min(drawn.until),
        }
    }

    /// Whether whoever comes next has enough waiting. Results that the log behind this stage
    /// already has do not queue there, so a replay always goes on.
    fn is_far_ahead(&self, index: usize) -> bool {
        let stage = &self.stages[index];
        let Some(layer) = stage.gives() else {
            return false;
        };
        let end = self.replay_logs.end(layer);
        let readers = self.stages.iter().filter(|reader| reader.takes() == Some(layer));
        readers.map(|reader| reader.done).max().is_some_and(|done| {
            let under_way = stage.sent.saturating_sub(end.max(stage.done));
            let queued = end.saturating_sub(done).saturating_add(under_way);
            stage.sent >= end && queued >= self.chunk().saturating_mul(QUEUED_CHUNKS_MAX)
        })
    }

    fn chunk(&self) -> u32 {
        self.settings.prefill_chunk.max(1)
    }

    /// Positions that were ever put into `index`.
    pub(crate) fn input_end(&self, index: usize) -> u32 {
        let layer = self.stages.get(index).and_then(|stage| stage.takes());
        layer.map_or_else(|| self.positions(), |layer| self.replay_logs.end(layer))
    }

    fn send(&mut self, index: usize, stretch: Stretch, now: Instant) {
        let Stretch { position, count } = stretch;
        let end = position + count;
        let is_awaited = end == self.positions() && self.sampled < end;
        let stage = &self.stages[index];
        let is_new = stage.gives().map_or(is_awaited, |layer| end > self.replay_logs.end(layer));
        let rows =
            if stage.segment.part.head && is_awaited { LogitRows::Last } else { LogitRows::None };
        let priority = if count == 1 && is_new { Priority::Decode } else { Priority::Bulk };
        let Some((action, input)) = self.step_action(index, stretch, rows, priority) else {
            // The log is contiguous and ends are local, so there always is a step to send. Should
            // that ever fail, nothing wrong may leave this device.
            return self.abort(ErrorCode::HistoryMismatch, None);
        };
        self.actions.push(action);
        let bytes = self.replay_logs.dtype().row_bytes(self.settings.hidden);
        let stage = &mut self.stages[index];
        stage.expect_pieces(bytes.saturating_mul(count as usize), &self.settings.deadlines);
        stage.under_way.push_back(UnderWay {
            step: stage.next_step,
            position,
            count,
            input,
            rows,
            since: now,
            overlapped: false,
            at_host: true,
        });
        stage.next_step += 1;
        stage.sent = end;
        if stage.under_way.len() == 1 {
            stage.wind(&self.settings.deadlines, now);
        }
        self.expect_down_the_chain(index, bytes.saturating_mul(count as usize), now);
    }

    /// Position, marks and payload of a step are put together here and nowhere else.
    fn step_action(
        &self,
        index: usize,
        stretch: Stretch,
        rows: LogitRows,
        priority: Priority,
    ) -> Option<(Action, Option<Activation>)> {
        let Stretch { position, count } = stretch;
        let end = position + count;
        let stage = &self.stages[index];
        let attempt = stage.attempt()?;
        let step = stage.next_step;
        let history_before = self.marks.at(position);
        let history_after = self.marks.at(end);
        let Some(layer) = stage.takes() else {
            let ids = self.ids.get(position as usize..end as usize)?.to_vec();
            let action = Action::SendTokens {
                attempt: LocalAttempt::new(attempt, stage.place())?,
                step,
                position,
                ids: Sensitive(ids),
                history_before,
                history_after,
                rows,
                priority,
            };
            return Some((action, None));
        };
        let activation = self.replay_logs.get(layer)?.rows(position, count)?;
        let action = Action::SendActivation {
            attempt,
            step,
            position,
            activation: activation.clone(),
            history_before,
            history_after,
            rows,
            priority,
        };
        Some((action, Some(activation)))
    }

    /// `answer` is step, position and count as the host says; `host_us` its compute and queue time.
    pub(crate) fn on_output(
        &mut self,
        index: usize,
        answer: (u64, u32, u32),
        activation: Activation,
        host_us: (u32, u32),
        now: Instant,
    ) {
        let norm_bounds = match self.check_output(index, answer, &activation) {
            Ok(norm_bounds) => norm_bounds,
            Err(corrupt) => {
                self.measure.corrupt_activations += 1;
                return self.on_fault(index, Fault::corrupt(corrupt), now);
            }
        };
        if let Some(norm_bounds) = norm_bounds {
            let is_ours = self.stages[index].place() == Place::Local;
            let source = if is_ours { Source::Ours } else { Source::Theirs };
            self.norm_bounds.learn(&norm_bounds, source);
        }
        let Some(step) = self.take_answered(index, host_us, now) else {
            return;
        };
        if self.stages[index].place() != Place::Local {
            let bytes = activation.bytes().len() as u64;
            self.stages[index].measure.bytes_in += bytes;
        }
        self.settle_up_the_chain(index, step.step, now);
        if matches!(self.stages[index].role, Role::Verifier(_)) {
            return self.on_verification(index, &step, &activation, now);
        }
        let appended = self.stages[index].gives().map_or(Appended::Gap, |layer| {
            self.replay_logs.append(layer, step.position, &activation)
        });
        match appended {
            Appended::New => {
                if step.count == 1 {
                    self.look_at_pace(index);
                }
                self.on_progress(index, now);
            }
            Appended::Known => self.on_repetition(index, &step, &activation, now),
            // Every attempt starts at 0 of a log that never loses its end, so there is no hole.
            // Should there ever be one, nothing may be computed across it.
            Appended::Gap => return self.abort(ErrorCode::HistoryMismatch, None),
        }
        self.forget_what_is_too_much();
    }

    fn check_output(
        &self,
        index: usize,
        answer: (u64, u32, u32),
        activation: &Activation,
    ) -> Result<Option<StepNormGain>, arrival::Corrupt> {
        let stage = &self.stages[index];
        let asked = stage
            .under_way
            .front()
            .filter(|asked| answer == (asked.step, asked.position, asked.count))
            .filter(|_| !stage.segment.part.head)
            .ok_or(arrival::Corrupt::OtherPositions)?;
        let expected = Expected {
            count: asked.count,
            hidden: self.replay_logs.hidden(),
            dtype: self.replay_logs.dtype(),
            place: stage.place(),
            input: asked.input.as_ref(),
        };
        arrival::check(activation, &expected)?;
        let Some(input) = asked.input.as_ref() else {
            return Ok(None);
        };
        let layers = self.layers_since_sent(index);
        let norm_bounds = StepNormGain::of(layers, asked.position, input, activation);
        if stage.place() != Place::Local {
            // By what other replies have shown, and by this one so far.
            self.settings.norm_bounds.check(&norm_bounds)?;
            self.norm_bounds.check(&norm_bounds)?;
        }
        Ok(Some(norm_bounds))
    }

    /// `answer` is step and position as the worker says.
    pub(crate) fn on_logits(
        &mut self,
        index: usize,
        answer: (u64, u32),
        host_us: (u32, u32),
        now: Instant,
    ) {
        let stage = &self.stages[index];
        let is_asked =
            stage.under_way.front().is_some_and(|asked| answer == (asked.step, asked.position));
        if !is_asked || !stage.segment.part.head {
            return self.on_fault(index, Fault::corrupt(arrival::Corrupt::OtherPositions), now);
        }
        let Some(attempt) = stage.attempt() else {
            return;
        };
        let Some(step) = self.take_answered(index, host_us, now) else {
            return;
        };
        if step.rows == LogitRows::Last {
            let end = step.position + step.count;
            if self.holds_first_words() && self.awaits_checks() {
                self.held = Some((attempt, end));
            } else {
                self.sample(attempt, end, now);
            }
        }
        self.forget_what_is_too_much();
    }

    /// The logits behind the position before `end` go to the sampler.
    pub(crate) fn sample(&mut self, attempt: AttemptId, end: u32, now: Instant) {
        self.sampled = end;
        if self.measure.first_token.is_none() {
            self.measure.first_token = self.began.map(|began| now - began);
        }
        self.settle_takeovers(end, now);
        if self.stop_due.is_some() {
            return self.cancel();
        }
        self.actions.push(Action::Sample { attempt, position: end - 1 });
    }

    /// Books the step in front as answered.
    pub(crate) fn take_answered(
        &mut self,
        index: usize,
        host_us: (u32, u32),
        now: Instant,
    ) -> Option<UnderWay> {
        let forwarded = self.is_chained(index);
        let is_sent_to = self.stages[index].place() != Place::Local && !self.is_fed(index);
        let history = self.positions();
        let stage = &mut self.stages[index];
        let step = stage.under_way.pop_front()?;
        let took = now.checked_duration_since(step.since).unwrap_or(Duration::ZERO);
        stage.pace.learn(step.count, took);
        stage.measure.add(step.count, took, host_us.0, host_us.1);
        stage.measure.reach(history);
        if let (true, Some(sent)) = (is_sent_to, &step.input) {
            stage.measure.bytes_out += sent.bytes().len() as u64;
        }
        let who = (stage.place(), stage.segment.part);
        let visit = HopVisit::new(who, (step.count, step.rows), took, host_us);
        self.visits.push(HopVisit { overlapped: step.overlapped, forwarded, ..visit });
        stage.done = step.position + step.count;
        stage.ends.push(stage.done);
        let was_late = std::mem::take(&mut stage.misses) > 0;
        stage.asked = Asked::No;
        if let Some(next) = stage.under_way.front_mut() {
            next.since = now;
            next.overlapped = true;
        }
        stage.wind(&self.settings.deadlines, now);
        if let (true, Place::Peer(peer), Role::Main) = (was_late, stage.place(), stage.role) {
            let (layers, state) = (stage.layers(), ShardState::Online);
            self.report(Report::ShardStatus { peer, layers, state });
        }
        Some(step)
    }

    /// Keeps the retained bytes within their limit: the fullest log forgets what its stage has
    /// consumed, and does so from then on.
    fn forget_what_is_too_much(&mut self) {
        let consumed = |pipeline: &Self, layer: u32| {
            let readers = pipeline.stages.iter().filter(|stage| stage.takes() == Some(layer));
            readers.map(|reader| reader.done).min().unwrap_or(0)
        };
        let forgetful: Vec<u32> = self
            .replay_logs
            .iter()
            .filter(|(_, log)| !log.is_complete())
            .map(|(layer, _)| layer)
            .collect();
        // What is to be compared with a verifier's answers is kept until then, unless memory is
        // short.
        let has_room = self.replay_logs.bytes() <= self.settings.replay_log_bytes_max;
        for layer in forgetful {
            let kept = self.checked_from(layer).filter(|_| has_room).unwrap_or(u32::MAX);
            self.replay_logs.forget_before(layer, consumed(self, layer).min(kept));
        }
        while self.replay_logs.bytes() > self.settings.replay_log_bytes_max {
            let fullest = self
                .replay_logs
                .iter()
                .filter(|(layer, log)| log.is_complete() && consumed(self, *layer) > 0)
                .max_by_key(|(_, log)| log.bytes())
                .map(|(layer, _)| layer);
            let Some(layer) = fullest else {
                return;
            };
            self.replay_logs.forget_before(layer, consumed(self, layer));
            if self.replay_logs.get(layer).is_none_or(ReplayLog::is_complete) {
                // Nothing of it is consumed as a whole piece yet.
                return;
            }
        }
    }
}
