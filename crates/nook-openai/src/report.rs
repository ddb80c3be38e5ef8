//! What the owner sees of each request: which program asked, who computed, how fast, how it ended.
//!
//! One [`Report`] belongs to each reply that is being read, and to each list of texts whose
//! embeddings are worked out. It is filed once: at the end, at an error, or when it is dropped
//! because the client left. A request that was refused before there was a report is filed by the
//! guard ([`refused`]), and those that came without a fitting key together ([`strangers`]). Nothing
//! of what was said is in it; what a client says of itself and of the model that it wants is cut
//! and cleaned first, because anybody may write anything there.

use nook_api::views::{PortRequestKind, PortRequestView, ReplyEvent, ReplySummary, RouteView};
use nook_api::{Embedded, NodeHandle};
use nook_base::{ErrorCode, clock};

use crate::caller::Caller;

/// What an answer is listed as that its client did not wait for.
const LEFT: &str = "cancelled";

/// Longest name of a program or a model that is listed, in characters; the rest is cut.
const NAME_CHARS_MAX: usize = 60;

/// A request whose end the owner has not been told of.
#[derive(Debug)]
pub(crate) struct Report {
    house: NodeHandle,
    kind: PortRequestKind,
    caller: Caller,
    model: String,
    devices: Vec<String>,
    tokens: u32,
    is_filed: bool,
}

impl Report {
    pub(crate) fn new(
        kind: PortRequestKind,
        house: NodeHandle,
        caller: Caller,
        model: String,
    ) -> Self {
        caller.reported.set();
        let model = cleaned(&model);
        Self { house, kind, caller, model, devices: Vec::new(), tokens: 0, is_filed: false }
    }

    /// Takes in what happens, so that a reply that ends early names who computed it.
    pub(crate) fn follow(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::Started { route, .. }
            | ReplyEvent::ShardFailover { route, .. }
            | ReplyEvent::FallbackToLocal { route } => self.went_over(route),
            ReplyEvent::TokenDelta { tokens, .. } | ReplyEvent::ThoughtDelta { tokens, .. } => {
                self.tokens = *tokens;
            }
            ReplyEvent::ShardStatus { .. }
            | ReplyEvent::Done { .. }
            | ReplyEvent::PipelineAborted { .. } => {}
        }
    }

    /// It is being answered by the model of this name.
    pub(crate) fn by(&mut self, model: &str) {
        model.clone_into(&mut self.model);
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, summary: &ReplySummary) {
        self.devices.clear();
        self.went_over(&summary.route);
        self.tokens = summary.completion_tokens;
        self.file(summary.tokens_per_second, None);
    }

    /// Embeddings were worked out, on this device.
    pub(crate) fn embedded(&mut self, embedded: &Embedded) {
        self.model.clone_from(&embedded.model);
        self.devices = vec![self.house.now().me.name.clone()];
        self.tokens = embedded.tokens;
        self.file(0.0, None);
    }

    /// It ended early.
    pub(crate) fn broke(&mut self, code: ErrorCode) {
        self.file(0.0, Some(code.name().to_owned()));
    }

    /// It was refused with a status; `listed` is that and the code.
    pub(crate) fn refused(&mut self, listed: String) {
        self.file(0.0, Some(listed));
    }

    fn went_over(&mut self, route: &RouteView) {
        for leg in &route.legs {
            // This device has the first and the last leg.
            if !self.devices.contains(&leg.device) {
                self.devices.push(leg.device.clone());
            }
        }
    }

    fn file(&mut self, speed: f64, error: Option<String>) {
        if std::mem::replace(&mut self.is_filed, true) {
            return;
        }
        self.house.note_port_request(PortRequestView {
            kind: self.kind,
            ended: clock::unix_seconds(),
            key: self.caller.key.clone(),
            app: self.caller.app.clone(),
            model: std::mem::take(&mut self.model),
            devices: std::mem::take(&mut self.devices),
            tokens: self.tokens,
            tokens_per_second: speed,
            error,
            times: 1,
        });
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.file(0.0, Some(LEFT.to_owned()));
    }
}

/// Files a request that was refused before there was a report, with what its answer says is wrong.
pub(crate) fn refused(house: &NodeHandle, kind: PortRequestKind, caller: &Caller, error: String) {
    file_refusal(house, kind, (caller.key.clone(), caller.app.clone()), error, 1);
}

/// Files so many requests without a fitting key that ended alike.
pub(crate) fn strangers(house: &NodeHandle, kind: PortRequestKind, error: String, times: u32) {
    file_refusal(house, kind, (None, None), error, times);
}

fn file_refusal(
    house: &NodeHandle,
    kind: PortRequestKind,
    (key, app): (Option<String>, Option<String>),
    error: String,
    times: u32,
) {
    house.note_port_request(PortRequestView {
        kind,
        ended: clock::unix_seconds(),
        key,
        app,
        model: String::new(),
        devices: Vec::new(),
        tokens: 0,
        tokens_per_second: 0.0,
        error: Some(error),
        times,
    });
}

/// Untrusted text as it may stand in a list: one line, no control or direction characters, not
/// long.
pub(crate) fn cleaned(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    let plain: String = plain.filter(|c| !is_invisible(*c)).take(NAME_CHARS_MAX + 1).collect();
    match plain.chars().count() > NAME_CHARS_MAX {
        true => plain.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect(),
        false => plain.trim().to_owned(),
    }
}

/// Control characters, and those that turn the direction of what stands around them or show
/// nothing.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_of_themselves_is_one_short_line() {
        for (said, listed) in [
            ("curl/8.5.0", "curl/8.5.0"),
            (" Zed \r\n 0.2\t", "Zed    0.2"),
            ("evil\u{202e}\u{0}\u{7}name\u{200b}", "evilname"),
            ("", ""),
        ] {
            assert_eq!(cleaned(said), listed);
        }
        let long = cleaned(&"ä".repeat(500));
        assert_eq!(long.chars().count(), NAME_CHARS_MAX);
        assert!(long.ends_with('…'));
    }
}
