//! The house's side of the local port: whether it is open, its keys, and what programs asked lately.
//!
//! The port itself is another crate's; it asks for the settings, looks at keys through the house, and
//! tells here how it stands and how each request went. What is remembered of a request is in memory only.

use nook_base::{ErrorCode, Sensitive, clock};
use nook_store::PortKeysError;

use crate::house::HouseError;
use crate::models::sentence;
use crate::state::State;
use crate::views::{PortKeyView, PortRequestView};

/// Requests that are remembered; of more, the oldest are forgotten.
const REQUESTS_MAX: usize = 20;

impl State {
    /// Makes a new main key.
    pub(crate) fn renew_port_key(&mut self) -> Result<Sensitive<String>, HouseError> {
        let mut keys = self.port_keys.borrow().clone();
        keys.replace_main(&self.home).map_err(|error| refused(&error))?;
        self.port_keys.send_replace(keys);
        Ok(self.port_key())
    }

    /// Makes a key for one program, and tells it.
    pub(crate) fn add_port_key(&mut self, name: &str) -> Result<Sensitive<String>, HouseError> {
        let mut keys = self.port_keys.borrow().clone();
        let now = clock::unix_seconds();
        let fresh = keys.add(&self.home, name, now).map_err(|error| refused(&error))?;
        self.port_keys.send_replace(keys);
        self.list_port_keys();
        Ok(fresh)
    }

    /// Takes the key of one program back.
    pub(crate) fn remove_port_key(&mut self, name: &str) -> Result<(), HouseError> {
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

    /// Remembers how a program's request went.
    pub(crate) fn note_port_request(&mut self, request: PortRequestView) {
        self.port.requests.insert(0, request);
        self.port.requests.truncate(REQUESTS_MAX);
    }

    /// The main key.
    pub(crate) fn port_key(&self) -> Sensitive<String> {
        Sensitive(self.port_keys.borrow().main().reveal().to_owned())
    }
}

fn refused(error: &PortKeysError) -> HouseError {
    let code = match error {
        PortKeysError::NoSuchKey { .. } => ErrorCode::NotFound,
        _ => ErrorCode::BadRequest,
    };
    HouseError::new(code, sentence(&error.to_string()))
}
