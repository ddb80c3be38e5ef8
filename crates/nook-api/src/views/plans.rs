//! What a route was predicted to take, and what that rests on.

use serde::{Deserialize, Serialize};

use super::WhyLeftOut;

view! {
/// What a route was predicted to take.
#[derive(Copy)]
struct PredictionView {
    /// From the request to the first token, in milliseconds; loading included.
    pub first_token_ms: f64,
    /// Of that, loading layers that were not in memory.
    pub load_ms: f64,
    /// Reply tokens per second after the first.
    pub tokens_per_second: f64,
    /// The whole reply, as long as it was expected to be.
    pub total_ms: f64,
    /// Whether everything in it was measured; else something is taken at its worst.
    pub measured: bool,
}
}

view! {
/// What was predicted for a reply before it began.
#[derive(Copy)]
struct PredictedView {
    /// On this device alone; absent where it cannot make the reply alone.
    pub alone: Option<PredictionView>,
    /// With other devices, whether they were used or not; absent where none could help.
    pub together: Option<PredictionView>,
}
}

view! {
/// What a device brings to the usual reply: how fast that is with it and without it.
struct GainView {
    /// Its full id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// The model's name.
    pub model: String,
    /// Reply tokens per second in the best way in which it takes part; for a device that the owner
    /// has not allowed to compute, as if it were allowed.
    pub with_it: f64,
    /// The same without it; absent where the reply cannot be made without it.
    pub without_it: Option<f64>,
    /// Whether both rest on measurements alone; else something is taken at its worst.
    pub measured: bool,
}
}

view! {
/// A device without a part in a route.
struct LeftOutView {
    /// Its full id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// Why, in one English sentence.
    pub why: String,
    /// The same for doors that speak other languages.
    #[serde(default)]
    pub reason: Option<WhyLeftOut>,
}
}

view! {
/// How fast a device computes a model, as its answers have shown.
struct MeasuredView {
    /// Its full id.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// The model's name here, or the short digest when it is not on this device.
    pub model: String,
    /// One layer of one token of the reply, in µs, the fixed part of a visit excluded.
    pub decode_us_per_layer: Option<f64>,
    /// What each step of one token costs beside its layers, in µs.
    pub decode_us_fixed: Option<f64>,
    /// One layer of one token of a long prompt, in µs.
    pub prefill_us_per_layer_token: Option<f64>,
    /// Norm, head and embedding for one token, in µs; this device only.
    pub ends_us: Option<f64>,
    /// Weights into memory, in bytes per second.
    pub load_bytes_per_second: Option<u64>,
    /// Round trip of a small message, in milliseconds; absent for this device.
    pub round_trip_ms: Option<f64>,
    /// What the way carries in one direction, in bytes per second; absent for this device.
    pub bandwidth_bytes_per_second: Option<u64>,
}
}
