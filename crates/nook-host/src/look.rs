//! One look at the machine at a time, in a thread of its own.

use std::sync::{Arc, Mutex, PoisonError};

use nook_machine::{Conditions, Machine};

/// The machine, with what it keeps from one look to the next. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedMachine {
    // Held by the thread that looks, and by nobody else.
    machine: Arc<Mutex<Machine>>,
}

impl WatchedMachine {
    /// One look. One that panics has seen nothing, and loses what was kept for the next one, which
    /// begins anew.
    pub(crate) async fn look(
        &self,
        look: impl FnOnce(&mut Machine) -> Conditions + Send + 'static,
    ) -> Option<Conditions> {
        let machine = self.machine.clone();
        let looked = tokio::task::spawn_blocking(move || {
            look(&mut machine.lock().unwrap_or_else(PoisonError::into_inner))
        });
        match looked.await {
            Ok(conditions) => Some(conditions),
            Err(error) => {
                tracing::error!(%error, "a look at the machine failed; it is looked at again");
                *self.machine.lock().unwrap_or_else(PoisonError::into_inner) = Machine::default();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_look_that_panics_there_is_a_machine_to_look_at_again() {
        let machine = WatchedMachine::default();
        assert_eq!(machine.look(|_| panic!("on purpose")).await, None);
        assert!(machine.look(Machine::look).await.is_some());
    }
}
