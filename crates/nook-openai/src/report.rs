//! What the owner sees of each request: which program asked, who computed, how fast, how it ended.
//!
//! One [`Report`] belongs to each reply that is being read. It is filed once: at the end, at an error, or
//! when it is dropped because the client left. Nothing of what was said is in it.

use nook_base::{ErrorCode, clock};
use nook_node::House;
use nook_node::views::{PortRequestView, ReplySummary};

use crate::guard::Caller;

/// What an answer is listed as that its client did not wait for.
const LEFT: &str = "cancelled";

/// A request whose end the owner has not been told of.
#[derive(Debug)]
pub(crate) struct Report {
    house: House,
    key: Option<String>,
    model: String,
    is_filed: bool,
}

impl Report {
    pub(crate) fn new(house: House, caller: Caller, model: String) -> Self {
        Self { house, key: caller.key, model, is_filed: false }
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, summary: &ReplySummary) {
        let devices = summary.route.legs.iter().map(|leg| leg.device.clone()).collect();
        self.file(devices, summary.completion_tokens, summary.tokens_per_second, None);
    }

    /// It ended early.
    pub(crate) fn broke(&mut self, code: ErrorCode) {
        self.file(Vec::new(), 0, 0.0, Some(code.name().to_owned()));
    }

    fn file(&mut self, devices: Vec<String>, tokens: u32, speed: f64, error: Option<String>) {
        if std::mem::replace(&mut self.is_filed, true) {
            return;
        }
        let mut named = Vec::with_capacity(devices.len());
        for device in devices {
            // This device has the first and the last leg.
            if !named.contains(&device) {
                named.push(device);
            }
        }
        self.house.note_port_request(PortRequestView {
            ended: clock::unix_seconds(),
            key: self.key.clone(),
            model: std::mem::take(&mut self.model),
            devices: named,
            tokens,
            tokens_per_second: speed,
            error,
        });
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.file(Vec::new(), 0, 0.0, Some(LEFT.to_owned()));
    }
}
