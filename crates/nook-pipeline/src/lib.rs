//! One prompt's walk over the hops as a state machine: events in, actions out.
//!
//! The node makes one [`Pipeline`] per prompt from a [`nook_plan::Route`] and owns it. It carries
//! out every [`Action`] (opening calls, sending steps, sampling) and tells what came of it as an
//! [`Event`], with the time as an argument; nothing here waits, reads a clock or does I/O (I-4).
//!
//! Each segment of the route is a stage, and before each stage lies a log of everything that was
//! ever put into it: token ids before the first, activations in wire form before the others. A
//! stage takes from the log before it in steps; what it answers is appended to the log behind it.
//! Recovery falls out of that: a new attempt at a stage starts at position 0 of the same log, and
//! answers for positions that the next log already has are dropped. So no position is lost, doubled
//! or changed, even when two devices compute the same stage at once because one of them is late.
//!
//! Hosts that are linked with each other may hand results to each other (`chain`); then the logs
//! between them stay empty, and what breaks there begins again from the log before the first of
//! them.
//!
//! A reply that ended in order leaves a [`PrefixCacheEntry`]; with the [`Resume`] that the next
//! prompt gets from it only the new positions are computed.

mod advance;
mod arrival;
mod chain;
mod circuit_breaker;
mod fault;
mod forecast;
mod hedge;
mod history;
mod kv_migration;
mod measure;
mod message;
mod norm_bounds;
mod pace;
mod pipeline;
mod prefix_cache;
mod recover;
mod replay_log;
mod replay_logs;
mod resume;
mod settings;
mod slow;
mod stage;
mod takeover;
mod verification;

pub use arrival::Corrupt;
pub use circuit_breaker::{
    CircuitBreaker, CircuitBreakerRecord, FAILURE_WINDOW, FAILURES_MAX, LEFT_OUT_FIRST,
    LEFT_OUT_MAX, SUSPICION, usable,
};
pub use forecast::{DeviceForecast, Forecast};
pub use hedge::{HEDGES_MAX, STALL_MISSES_MAX};
pub use history::PrefixHashes;
pub use kv_migration::KV_MIGRATION_LIMIT;
pub use measure::{Failover, HopMeasure, HopVisit, Joint, Measure, StepSums, VISITS_KEPT_MAX};
pub use message::{
    Action, AttemptId, CloseReason, Event, KvMigration, LocalAttempt, Priority, Report, ShardState,
};
/// Parts of actions that the wire knows too.
pub use nook_base::{LogitRows, PrefixHash};
pub use norm_bounds::{NormBounds, NormRange, OutOfBounds, Source, SpanNormRange, StepNormGain};
pub use pipeline::Pipeline;
pub use prefix_cache::{PrefixCacheEntry, Resume};
pub use recover::{LOCAL_RESTARTS_MAX, RECOVERIES_MAX};
pub use settings::{
    Deadlines, FallBack, FirstWords, PREFILL_WINDOW, PipelineSettings, QUEUED_CHUNKS_MAX,
    REPLAY_LOG_BYTES_MAX, STOP_LIMIT, SpotCheck,
};
