//! The house's side of the local port: whether it is open, its keys, and what programs asked
//! lately.
//!
//! The port itself is another crate's; it asks for the settings, looks at keys through the house,
//! and tells here how it stands and how each request went. What is remembered of a request is in
//! memory only.

use nook_base::{ErrorCode, Sensitive, clock};
use nook_store::PortKeysError;

use crate::state::State;
use nook_api::NodeError;
use nook_api::sentence;
use nook_api::views::{PortKeyView, PortRequestView};

/// Requests that are remembered; of more, the oldest are forgotten.
const REQUESTS_MAX: usize = 20;

impl State {
    /// Makes a new main key.
    pub(crate) fn renew_port_key(&mut self) -> Result<Sensitive<String>, NodeError> {
        let mut keys = self.port_keys.borrow().clone();
        keys.replace_main(&self.home).map_err(|error| refused(&error))?;
        self.port_keys.send_replace(keys);
        Ok(self.port_key())
    }

    /// Makes a key for one program, and tells it.
    pub(crate) fn add_port_key(&mut self, name: &str) -> Result<Sensitive<String>, NodeError> {
        let mut keys = self.port_keys.borrow().clone();
        let now = clock::unix_seconds();
        let fresh = keys.add(&self.home, name, now).map_err(|error| refused(&error))?;
        self.port_keys.send_replace(keys);
        self.list_port_keys();
        Ok(fresh)
    }

    /// Takes the key of one program back.
    pub(crate) fn remove_port_key(&mut self, name: &str) -> Result<(), NodeError> {
        let mut keys = self.port_keys.borrow().clone();
        keys.remove(&self.home, name).map_err(|error| refused(&error))?;
        self.port_keys.send_replace(keys);
        self.list_port_keys();
        Ok(())
    }

    /// Shows the named keys as they are now.
    pub(crate) fn list_port_keys(&mut self) {
        let keys = self.port_keys.borrow();
        let named = keys.named().iter();
        self.port.keys =
            named.map(|key| PortKeyView { name: key.name.clone(), added: key.added }).collect();
    }

    /// Remembers how a program's request went. The same refusal again only counts, so that a
    /// program that keeps trying hides nothing, nor two that do in turn.
    pub(crate) fn note_port_request(&mut self, request: PortRequestView) {
        remember(&mut self.port.requests, request);
    }

    /// The main key.
    pub(crate) fn port_key(&self) -> Sensitive<String> {
        Sensitive(self.port_keys.borrow().main().reveal().to_owned())
    }
}

fn remember(requests: &mut Vec<PortRequestView>, mut request: PortRequestView) {
    if let Some(at) = requests.iter().position(|known| is_same_refusal(known, &request)) {
        let known = requests.remove(at);
        request.times = known.times.saturating_add(request.times);
    }
    requests.insert(0, request);
    requests.truncate(REQUESTS_MAX);
}

fn is_same_refusal(one: &PortRequestView, other: &PortRequestView) -> bool {
    let subject = |it: &PortRequestView| {
        (it.kind, it.key.clone(), it.app.clone(), it.model.clone(), it.error.clone())
    };
    let computed = |request: &PortRequestView| request.tokens > 0 || !request.devices.is_empty();
    one.error.is_some() && !computed(one) && !computed(other) && subject(one) == subject(other)
}

fn refused(error: &PortKeysError) -> NodeError {
    let code = match error {
        PortKeysError::NoSuchKey { .. } => ErrorCode::NotFound,
        _ => ErrorCode::BadRequest,
    };
    NodeError::new(code, sentence(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nook_api::views::PortRequestKind;

    fn refusal() -> PortRequestView {
        PortRequestView {
            kind: PortRequestKind::Reply,
            ended: 1,
            key: None,
            app: Some("curl".to_owned()),
            model: String::new(),
            devices: Vec::new(),
            tokens: 0,
            tokens_per_second: 0.0,
            error: Some("401 invalid_api_key".to_owned()),
            times: 1,
        }
    }

    #[test]
    fn programs_that_keep_trying_in_turn_hide_nothing() {
        let of =
            |app: &str, ended| PortRequestView { app: Some(app.to_owned()), ended, ..refusal() };
        let mut requests = Vec::new();
        remember(&mut requests, PortRequestView { error: None, ..of("Zed", 0) });
        for round in 1..=100 {
            remember(&mut requests, of("curl", round));
            remember(&mut requests, of("wget", round));
        }
        let listed: Vec<_> =
            requests.iter().map(|it| (it.app.as_deref(), it.ended, it.times)).collect();
        assert_eq!(
            listed,
            [(Some("wget"), 100, 100), (Some("curl"), 100, 100), (Some("Zed"), 0, 1)]
        );
    }

    #[test]
    fn only_refusals_that_cost_nothing_are_counted_together() {
        let refused = refusal();
        let other = |change: fn(&mut PortRequestView)| {
            let mut other = refused.clone();
            change(&mut other);
            is_same_refusal(&refused, &other)
        };
        assert!(other(|request| request.ended = 9));
        assert!(!other(|request| request.app = None));
        assert!(!other(|request| request.kind = PortRequestKind::Embeddings));
        assert!(!other(|request| request.error = None));
        assert!(!other(|request| request.tokens = 3));
        assert!(!other(|request| request.devices.push("Desk".to_owned())));
        let answered = PortRequestView { error: None, ..refused };
        assert!(!is_same_refusal(&answered, &answered));
    }
}
