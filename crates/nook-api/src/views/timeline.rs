//! Who did what for a reply, in figures: device by device, without a word of what was said.

use serde::{Deserialize, Serialize};

view! {
/// What one device did for a reply with one stretch of the model. A device that was lost, and one that
/// came back, have an entry for each time.
struct PartView {
    /// Full id of the device.
    pub device_id: String,
    /// Its name.
    pub device: String,
    /// Whether it is this device.
    pub local: bool,
    /// First and last layer, inclusive; absent for ends without a layer.
    pub layers: Option<[u32; 2]>,
    /// First token of the reply that it computed for, from 1; 0 where no token came of it.
    pub first_token: u32,
    /// The last such token.
    pub last_token: u32,
    /// Steps of several positions: the prompt, and what was computed again after a loss.
    pub prompt: WorkView,
    /// Steps of one position: the reply.
    pub reply: WorkView,
    /// What was sent to it for that, in bytes; 0 for this device.
    pub bytes_out: u64,
    /// What came back from it.
    pub bytes_in: u64,
}
}

view! {
/// Sums over the steps of a device, as far as they lie between asking it and its answer.
#[derive(Copy)]
struct WorkView {
    /// Steps that were answered.
    pub steps: u32,
    /// Positions in them.
    pub positions: u32,
    /// Computing, in milliseconds, as the device says and no more than passed.
    pub compute_ms: f64,
    /// Waiting for a turn there.
    pub queue_ms: f64,
    /// The rest: the way there and back.
    pub network_ms: f64,
}
}
