//! The handle that code of the node's own process holds: window, port and control socket.
//!
//! [`NodeHandle`] is cheap to clone and holds no state of its own: each method puts one [`Command`]
//! into the inbox of the node's event loop and waits for its answer; [`NodeHandle::view`] watches
//! what the loop publishes. Dropping a reply's stream ends the reply. The methods for actions are
//! written by the list in `actions`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nook_base::ErrorCode;
use nook_base::tasks::{TaskPanic, Tasks};
use tokio::sync::{mpsc, oneshot, watch};

use crate::action::{Answer, FrontEnd};
use crate::actions::{Command, Request, Response};
use crate::error::NodeError;
use crate::generation::{Asker, Counted, EmbedRequest, Embedded, GenerateRequest, Reply};
use crate::requests::{PortSettings, StartedTurn, Turn};
use crate::restart::Restart;
use crate::views::{HouseholdView, PortRequestView, TroubleView};

/// Commands that may wait for the loop; a caller beyond them waits until there is room.
pub const INBOX_COMMANDS_MAX: usize = 64;

/// Longest wait for all tasks when the node leaves; what is left is named in the log.
const JOIN_LIMIT: Duration = Duration::from_secs(2);

/// Whose key of the port was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortKeyHolder {
    /// The main key.
    Main,
    /// The named key with this name.
    Named(String),
}

/// Tells whose key a text is, without asking the loop.
pub type KeyLookup = dyn Fn(&str) -> Option<PortKeyHolder> + Send + Sync;

/// What a handle is made of: the ends that the node keeps ready for it.
pub struct NodeParts {
    /// The inbox of the event loop.
    pub inbox: mpsc::Sender<Command>,
    /// What the loop publishes.
    pub view: watch::Receiver<Arc<HouseholdView>>,
    /// Tells whose key of the port a text is, in a time that tells nothing about how much of it is
    /// right.
    pub port_keys: Arc<KeyLookup>,
    /// The tasks of the node.
    pub tasks: Tasks,
    /// The folder of its sockets.
    pub runtime_folder: Arc<Path>,
    /// What is known of a restart.
    pub restart: Arc<Restart>,
}

/// A handle to the node of this process: this device and what it knows of the others.
#[derive(Clone)]
pub struct NodeHandle {
    parts: Arc<NodeParts>,
}

impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeHandle")
    }
}

impl fmt::Debug for NodeParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeParts")
    }
}

impl From<NodeParts> for NodeHandle {
    fn from(parts: NodeParts) -> Self {
        Self { parts: Arc::new(parts) }
    }
}

impl NodeHandle {
    /// Answers a request that came through a front end, if that front end may ask for it.
    pub async fn call(&self, from: FrontEnd, request: Request) -> Result<Response, NodeError> {
        let action = request.action();
        if !action.front_ends.contains(&from) {
            let sentence = format!("`{}` cannot be asked for from here.", action.name);
            return Err(NodeError::new(ErrorCode::BadRequest, sentence));
        }
        self.answer(request).await
    }

    /// The node and its household as they are now, and every change.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<Arc<HouseholdView>> {
        self.parts.view.clone()
    }

    /// The node and its household as they are now.
    #[must_use]
    pub fn now(&self) -> Arc<HouseholdView> {
        self.parts.view.borrow().clone()
    }

    /// The same as an answer to a request.
    pub(crate) async fn view_now(&self) -> HouseholdView {
        (*self.now()).clone()
    }

    /// Waits until the node is over: somebody has ended it, or a part of it has panicked without
    /// which it cannot go on. [`NodeHandle::shut_down`] ends what is left, and then
    /// [`NodeHandle::broken`] says which of the two it was.
    pub async fn over(&self) {
        let mut view = self.view();
        let gone = async move { while view.changed().await.is_ok() {} };
        tokio::select! {
            _ = self.parts.tasks.until_broken() => {}
            () = gone => {}
        }
    }

    /// The part that panicked and without which the node cannot go on, if there is one. It is
    /// known at the latest when [`NodeHandle::shut_down`] has returned.
    #[must_use]
    pub fn broken(&self) -> Option<TaskPanic> {
        self.parts.tasks.broken()
    }

    /// The tasks of this node: what a front end starts ends with them.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.parts.tasks
    }

    /// What is known of a restart, for the program that runs this node.
    #[must_use]
    pub fn restart(&self) -> &Restart {
        &self.parts.restart
    }

    /// Whether the node takes no more requests, because it is leaving.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.parts.inbox.is_closed()
    }

    /// The folder that only this user can enter, where this node's sockets lie.
    #[must_use]
    pub fn runtime_folder(&self) -> &Path {
        &self.parts.runtime_folder
    }

    /// Whose key of the port this is now, if it is one, in a time that tells nothing about how much
    /// of it is right. Asks nobody: wrong keys cost the node nothing.
    #[must_use]
    pub fn port_key_holder(&self, presented: &str) -> Option<PortKeyHolder> {
        (self.parts.port_keys)(presented)
    }

    /// How the local port is to be opened.
    pub async fn port_settings(&self) -> Result<PortSettings, NodeError> {
        self.ask(|answer| Command::PortSettings { answer }).await
    }

    /// Starts a reply that the owner asks for.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Reply, NodeError> {
        self.generate_for(Asker::Owner, request).await
    }

    /// Starts a reply that a program at the port asks for: the owner goes before it.
    pub async fn generate_for_program(&self, request: GenerateRequest) -> Result<Reply, NodeError> {
        self.generate_for(Asker::Program, request).await
    }

    async fn generate_for(
        &self,
        asker: Asker,
        request: GenerateRequest,
    ) -> Result<Reply, NodeError> {
        self.ask(|answer| Command::Generate { asker, request: Box::new(request), answer }).await
    }

    /// Counts the tokens of a prompt, also of one that is too long. It waits for no place.
    pub async fn count(&self, request: GenerateRequest) -> Result<Counted, NodeError> {
        self.ask(|answer| Command::Count { request: Box::new(request), answer }).await
    }

    /// Works out vectors for texts, on this device alone.
    pub async fn embed(&self, request: EmbedRequest) -> Result<Embedded, NodeError> {
        self.ask(|answer| Command::Embed { request, answer }).await
    }

    /// Says something in a kept conversation; comes back as soon as it is kept and the reply has a
    /// place, be it in the queue. What goes wrong later ends the reply.
    pub async fn say(&self, turn: Turn) -> Result<StartedTurn, NodeError> {
        self.ask(|answer| Command::Say { turn, answer }).await
    }

    /// Tells the node how a program's request went. One that finds no place is not listed.
    pub fn note_port_request(&self, request: PortRequestView) {
        let _ = self.parts.inbox.try_send(Command::NotePortRequest(request));
    }

    /// Tells the node how its local port stands, so that all front ends show the same.
    pub async fn set_port_state(
        &self,
        on: bool,
        base_url: String,
        problem: Option<TroubleView>,
    ) -> Result<(), NodeError> {
        self.ask(|answer| Command::PortState { on, base_url, problem, answer }).await
    }

    /// Leaves in order: new prompts are refused, running ones end, peers are told, workers end,
    /// tasks are joined. Returns when all of that is done or its limit is over.
    pub async fn shut_down(&self) {
        let (done, wait) = oneshot::channel();
        if self.parts.inbox.send(Command::ShutDown(done)).await.is_ok() {
            // A closed channel means that the node is gone already, which is what was asked for.
            let _ = wait.await;
        }
        self.parts.tasks.shut_down(JOIN_LIMIT).await;
        // The front ends' sockets are gone with their tasks; only an empty folder goes.
        let _ = std::fs::remove_dir(&self.parts.runtime_folder);
    }

    pub(crate) async fn ask<T, C: Into<Command>>(
        &self,
        command: impl FnOnce(Answer<T>) -> C,
    ) -> Result<T, NodeError> {
        let (answer, wait) = oneshot::channel();
        let command = command(answer).into();
        self.parts.inbox.send(command).await.map_err(|_| NodeError::gone())?;
        wait.await.map_err(|_| NodeError::gone())?
    }
}
