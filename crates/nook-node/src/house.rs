//! The handle that every door holds: window, port and command line.
//!
//! [`House`] is cheap to clone and holds no state of its own: each method puts one [`Command`] into
//! the inbox of the house loop and waits for its answer; [`House::view`] watches what the loop
//! publishes. Dropping a reply's stream ends the reply.

mod asking;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, Sensitive};
use nook_store::{PortKeyHolder, PortKeys};
use tokio::sync::{mpsc, oneshot, watch};

pub use asking::{
    ChatMessage, Dialog, EmbedInput, EmbedRequest, Embedded, GenerateRequest, LikelyToken,
    PieceOdds, Prompt, Reply, ReplyPiece, Sampling,
};

use crate::chats::ChatAsk;
use crate::views::{
    ConversationView, DeviceView, DownloadAsk, DownloadView, ExportAsk, FoundView, HouseView,
    MessageView, ModelView, PairingView, PipelineView, PortRequestView, Problem, SettingAsk,
    TroubleView, Trust, Wording,
};

/// Commands that may wait for the loop; a caller beyond them waits at the door.
pub(crate) const INBOX_COMMANDS_MAX: usize = 64;

/// Longest wait for all tasks when the node leaves; what is left is named in the log.
const JOIN_LIMIT: Duration = Duration::from_secs(2);

/// Reply events that may wait for a slow reader. A reader that is slower still slows the reply; one
/// that takes nothing for [`crate::requester::reply::READER_STALL_LIMIT`] ends it.
pub const REPLY_EVENTS_MAX: usize = 256;

/// Replies that may wait until one under way ends, asked through all doors together: chat windows
/// of other programs ask for titles and tags in bursts. One more is refused as busy.
pub const REPLIES_WAITING_MAX: usize = 16;

/// The house: this device and what it knows of the others.
#[derive(Debug, Clone)]
pub struct House {
    pub(crate) inbox: mpsc::Sender<Command>,
    pub(crate) view: watch::Receiver<Arc<HouseView>>,
    pub(crate) port_keys: watch::Receiver<PortKeys>,
    pub(crate) tasks: Tasks,
    pub(crate) runtime_folder: Arc<Path>,
}

/// How the local port is to be opened.
#[derive(Debug, Clone)]
pub struct PortSettings {
    /// Whether it is to be open at all.
    pub on: bool,
    /// Where; an address of this machine alone unless it is `exposed`.
    pub address: SocketAddr,
    /// Whether the owner lets other machines of the network reach it.
    pub exposed: bool,
    /// What other machines may call this one, besides its addresses.
    pub host_names: Vec<String>,
    /// The main bearer key.
    pub key: Sensitive<String>,
    /// Web origins that may use it.
    pub allowed_origins: Vec<String>,
}

impl PortSettings {
    /// Where a program on this machine reaches a port that listens at `address`.
    #[must_use]
    pub fn from_here(address: SocketAddr) -> SocketAddr {
        let ip: IpAddr = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, address.port())
    }
}

/// Something that was asked of the house and did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct HouseError {
    /// What a program branches on.
    pub code: ErrorCode,
    /// What a person reads, with what to do.
    pub sentence: String,
    /// The same for doors that speak other languages; absent where only the sentence says it.
    pub wording: Option<Wording>,
}

/// Which device to pair with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairTarget {
    /// A device in the list, by the id shown there.
    Seen(String),
    /// A typed address, `host:port` or `host` of a device that shows a code.
    Address(String),
}

/// Whether this device lends layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Offer layers to devices that the gate lets in.
    On,
    /// Offer nothing.
    #[default]
    Off,
}

/// For how long the owner wants nothing to be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseFor {
    /// One hour from now.
    Hour,
    /// Until six o'clock of the next morning.
    UntilTomorrow,
}

/// Where a reply may be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// On this device and those that the gate lets in.
    House,
    /// On this device only.
    ThisDevice,
}

/// Where a message goes in the tree of a conversation, and how it is answered.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The conversation; absent starts one.
    pub conversation: Option<i64>,
    /// What a conversation that starts with this turn is to be like.
    pub start: ChatStart,
    /// What is said, and after what.
    pub text: TurnText,
    /// Name of the model.
    pub model: String,
    /// Where it may be computed. A conversation that is kept to this device stays on it whatever
    /// stands here.
    pub reach: Reach,
}

/// What a new conversation is to be like.
#[derive(Debug, Clone, Default)]
pub struct ChatStart {
    /// It is never written to the disk and gone when the program ends.
    pub temporary: bool,
    /// What the model is told before the first message; may be empty.
    pub instructions: Sensitive<String>,
}

/// What a turn says.
#[derive(Debug, Clone)]
pub enum TurnText {
    /// A new message of the person.
    New {
        /// What they say.
        text: Sensitive<String>,
        /// The message that it follows; absent makes it a beginning, beside others where there are.
        parent: Option<i64>,
    },
    /// Another answer to this message of the person.
    Again(i64),
    /// The rest of this reply, which was cut.
    More(i64),
}

/// A turn that is under way.
#[derive(Debug)]
pub struct StartedTurn {
    /// The conversation.
    pub conversation: i64,
    /// The person's message that is answered.
    pub user_message: i64,
    /// The message that the reply fills; it is saved while it grows.
    pub reply_message: i64,
    /// The reply; it may wait for its turn first.
    pub reply: KeptReply,
}

/// A reply that is kept while it is made. Dropping it stops the reply, also one that waits for its turn or
/// whose model is being opened.
#[derive(Debug)]
pub struct KeptReply {
    /// Events in order, closed after `done` or `pipeline_aborted`.
    pub events: mpsc::Receiver<ReplyPiece>,
}

/// An answer to a command.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, HouseError>>;

/// Everything that a door can ask for.
#[derive(Debug)]
pub(crate) enum Command {
    SetSharing(Sharing, Answer<()>),
    PauseSharing(PauseFor, Answer<()>),
    ResumeSharing(Answer<()>),
    FreeMemory(Answer<()>),
    ShowCode(Answer<PairingView>),
    CancelPairing(Answer<()>),
    Join { target: PairTarget, code: Sensitive<String>, answer: Answer<DeviceView> },
    SetTrust { device: String, trust: Trust, answer: Answer<()> },
    Forget { device: String, answer: Answer<()> },
    SetName { name: String, answer: Answer<()> },
    ImportModel { file: PathBuf, name: Option<String>, answer: Answer<ModelView> },
    RemoveModel { name: String, answer: Answer<()> },
    Pull { source: String, name: Option<String>, answer: Answer<DownloadView> },
    Copy(String, Option<String>, Answer<DownloadView>),
    Download { key: String, ask: DownloadAsk, answer: Answer<()> },
    MoveModels { to: Option<PathBuf>, answer: Answer<()> },
    StopMovingModels(Answer<()>),
    FoundModels(Answer<Vec<FoundView>>),
    Generate { request: Box<GenerateRequest>, answer: Answer<Reply> },
    Embed { request: EmbedRequest, answer: Answer<Embedded> },
    Say { turn: Turn, answer: Answer<StartedTurn> },
    Chats(ChatAsk),
    ChangeSetting { setting: SettingAsk, answer: Answer<()> },
    RenewPortKey(Answer<Sensitive<String>>),
    AddPortKey { name: String, answer: Answer<Sensitive<String>> },
    RemovePortKey { name: String, answer: Answer<()> },
    PortRequest(PortRequestView),
    PortSettings(Answer<PortSettings>),
    PortState { on: bool, base_url: String, problem: Option<TroubleView>, answer: Answer<()> },
    Doctor(Answer<Vec<crate::doctor::Finding>>),
    Pipeline(Answer<PipelineView>),
    Vitals(Answer<crate::vitals::Vitals>),
    ShutDown(oneshot::Sender<()>),
}

impl House {
    /// The house as it is now, and every change.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<Arc<HouseView>> {
        self.view.clone()
    }

    /// The tasks of this node: what a door starts ends with them.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// The folder that only this user can enter, where this node's sockets lie.
    #[must_use]
    pub fn runtime_folder(&self) -> &Path {
        &self.runtime_folder
    }

    /// How the local port is to be opened.
    pub async fn port_settings(&self) -> Result<PortSettings, HouseError> {
        self.ask(Command::PortSettings).await
    }

    /// Whose key of the port this is now, if it is one, in a time that tells nothing about how much of
    /// it is right. Asks nobody: wrong keys cost the house nothing.
    #[must_use]
    pub fn port_key_holder(&self, presented: &str) -> Option<PortKeyHolder> {
        self.port_keys.borrow().holder(presented)
    }

    /// The house as it is now.
    #[must_use]
    pub fn now(&self) -> Arc<HouseView> {
        self.view.borrow().clone()
    }

    /// Switches lending on or off; the choice is kept.
    pub async fn set_sharing(&self, sharing: Sharing) -> Result<(), HouseError> {
        self.ask(|answer| Command::SetSharing(sharing, answer)).await
    }

    /// Lends nothing for a while, though sharing stays switched on; kept over a restart.
    pub async fn pause_sharing(&self, span: PauseFor) -> Result<(), HouseError> {
        self.ask(|answer| Command::PauseSharing(span, answer)).await
    }

    /// Ends [`House::pause_sharing`] before its time.
    pub async fn resume_sharing(&self) -> Result<(), HouseError> {
        self.ask(Command::ResumeSharing).await
    }

    /// Gives back all memory that no reply of this device needs, and lends nothing for a quarter of an
    /// hour. Streams of other devices finish their step and end.
    pub async fn free_memory(&self) -> Result<(), HouseError> {
        self.ask(Command::FreeMemory).await
    }

    /// Opens a pairing window of 120 s; one at a time, five an hour.
    pub async fn show_code(&self) -> Result<PairingView, HouseError> {
        self.ask(Command::ShowCode).await
    }

    /// Closes the pairing window, if one is open.
    pub async fn cancel_pairing(&self) -> Result<(), HouseError> {
        self.ask(Command::CancelPairing).await
    }

    /// Pairs with a device that shows a code. Both end up as guests of each other.
    pub async fn join(&self, target: PairTarget, code: String) -> Result<DeviceView, HouseError> {
        self.ask(|answer| Command::Join { target, code: Sensitive(code), answer }).await
    }

    /// Sets how far a paired device is trusted; takes effect on running streams within a second.
    pub async fn set_trust(&self, device: String, trust: Trust) -> Result<(), HouseError> {
        self.ask(|answer| Command::SetTrust { device, trust, answer }).await
    }

    /// Unpairs a device.
    pub async fn forget(&self, device: String) -> Result<(), HouseError> {
        self.ask(|answer| Command::Forget { device, answer }).await
    }

    /// Renames this device.
    pub async fn set_name(&self, name: String) -> Result<(), HouseError> {
        self.ask(|answer| Command::SetName { name, answer }).await
    }

    /// Adds a GGUF file to the library after checking all of it.
    pub async fn import_model(
        &self,
        file: PathBuf,
        name: Option<String>,
    ) -> Result<ModelView, HouseError> {
        self.ask(|answer| Command::ImportModel { file, name, answer }).await
    }

    /// Removes a model from the library; files outside the library folder are left alone.
    pub async fn remove_model(&self, name: String) -> Result<(), HouseError> {
        self.ask(|answer| Command::RemoveModel { name, answer }).await
    }

    /// Begins a download, or goes on with the one of the same file. `source` is an id of the catalogue,
    /// `hf:owner/repository/file.gguf` or an https address; the model joins the library once it is here
    /// and checked. It goes on without whoever asked, and after a restart.
    pub async fn pull(
        &self,
        source: String,
        name: Option<String>,
    ) -> Result<DownloadView, HouseError> {
        self.ask(|answer| Command::Pull { source, name, answer }).await
    }

    /// Begins to copy a model that another device of the house has, or goes on with that. `model` is its
    /// digest, its name there, or an id of the catalogue, which then must have the publisher's bytes; `from`
    /// is a device that is asked before others. It is a download like any other from then on.
    pub async fn copy_model(
        &self,
        model: String,
        from: Option<String>,
    ) -> Result<DownloadView, HouseError> {
        self.ask(|answer| Command::Copy(model, from, answer)).await
    }

    /// Pauses, resumes, cancels or deletes the download `key` (a key, or the model's name to be).
    pub async fn change_download(&self, key: String, ask: DownloadAsk) -> Result<(), HouseError> {
        self.ask(|answer| Command::Download { key, ask, answer }).await
    }

    /// Moves the models and unfinished downloads to the folder `to`, or back to the usual one. Returns once
    /// it is known whether that can be done; [`House::view`] shows how far it is, and why it ended.
    pub async fn move_models(&self, to: Option<PathBuf>) -> Result<(), HouseError> {
        self.ask(|answer| Command::MoveModels { to, answer }).await
    }

    /// Ends such a move: everything is where it was.
    pub async fn stop_moving_models(&self) -> Result<(), HouseError> {
        self.ask(Command::StopMovingModels).await
    }

    /// Model files of other programs on this device that could be used where they lie.
    pub async fn found_models(&self) -> Result<Vec<FoundView>, HouseError> {
        self.ask(Command::FoundModels).await
    }

    /// Starts a reply.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Reply, HouseError> {
        self.ask(|answer| Command::Generate { request: Box::new(request), answer }).await
    }

    /// Works out vectors for texts, on this device alone: see `crate::requester::embed`.
    pub async fn embed(&self, request: EmbedRequest) -> Result<Embedded, HouseError> {
        self.ask(|answer| Command::Embed { request, answer }).await
    }

    /// Says something in a kept conversation; comes back as soon as it is kept and the reply has a place, be
    /// it in the queue. What goes wrong later ends the reply.
    pub async fn say(&self, turn: Turn) -> Result<StartedTurn, HouseError> {
        self.ask(|answer| Command::Say { turn, answer }).await
    }

    /// Conversations that are kept, newest first; with `search`, those that hold all its words.
    pub async fn conversations(
        &self,
        search: Option<String>,
    ) -> Result<Vec<ConversationView>, HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::List { search, answer })).await
    }

    /// All messages of a conversation, parents before children, siblings oldest first.
    pub async fn messages(&self, conversation: i64) -> Result<Vec<MessageView>, HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::Messages { conversation, answer })).await
    }

    /// Gives a conversation another title.
    pub async fn rename_conversation(
        &self,
        conversation: i64,
        title: String,
    ) -> Result<(), HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::Rename { conversation, title, answer })).await
    }

    /// Deletes a conversation for good.
    pub async fn delete_conversation(&self, conversation: i64) -> Result<(), HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::Delete { conversation, answer })).await
    }

    /// Sets what the model is told before the first message; empty for nothing.
    pub async fn instruct_conversation(
        &self,
        conversation: i64,
        instructions: String,
    ) -> Result<(), HouseError> {
        let instructions = Sensitive(instructions);
        self.ask(|answer| Command::Chats(ChatAsk::Instruct { conversation, instructions, answer }))
            .await
    }

    /// Keeps the replies of a conversation on this device, or lets others help again.
    pub async fn confine_conversation(
        &self,
        conversation: i64,
        reach: Reach,
    ) -> Result<(), HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::Confine { conversation, reach, answer })).await
    }

    /// A conversation as the text of a file.
    pub async fn export_conversation(
        &self,
        conversation: i64,
        form: ExportAsk,
    ) -> Result<String, HouseError> {
        self.ask(|answer| Command::Chats(ChatAsk::Export { conversation, form, answer })).await
    }

    /// Takes in a conversation that was exported as JSON; returns its number.
    pub async fn import_conversation(&self, file: String) -> Result<i64, HouseError> {
        let file = Sensitive(file);
        self.ask(|answer| Command::Chats(ChatAsk::Import { file, answer })).await
    }

    /// Changes one setting; it is kept, and acts at once.
    pub async fn change_setting(&self, setting: SettingAsk) -> Result<(), HouseError> {
        self.ask(|answer| Command::ChangeSetting { setting, answer }).await
    }

    /// Makes a new main key of the port and returns it; from then on the old one opens nothing.
    pub async fn renew_port_key(&self) -> Result<Sensitive<String>, HouseError> {
        self.ask(Command::RenewPortKey).await
    }

    /// Makes a key of the port for one program, and tells it: nothing can tell it again.
    pub async fn add_port_key(&self, name: String) -> Result<Sensitive<String>, HouseError> {
        self.ask(|answer| Command::AddPortKey { name, answer }).await
    }

    /// Takes the key of one program back: from now on it opens nothing.
    pub async fn remove_port_key(&self, name: String) -> Result<(), HouseError> {
        self.ask(|answer| Command::RemovePortKey { name, answer }).await
    }

    /// Tells the house how a program's request went. One that finds no place is not listed.
    pub fn note_port_request(&self, request: PortRequestView) {
        let _ = self.inbox.try_send(Command::PortRequest(request));
    }

    /// Tells the house how its local port stands, so that all doors show the same.
    pub async fn set_port_state(
        &self,
        on: bool,
        base_url: String,
        problem: Option<TroubleView>,
    ) -> Result<(), HouseError> {
        self.ask(|answer| Command::PortState { on, base_url, problem, answer }).await
    }

    /// Looks at everything that usually goes wrong.
    pub async fn doctor(&self) -> Result<Vec<crate::doctor::Finding>, HouseError> {
        self.ask(Command::Doctor).await
    }

    /// How replies of this device are divided: the last decision and what was measured.
    pub async fn pipeline(&self) -> Result<PipelineView, HouseError> {
        self.ask(Command::Pipeline).await
    }

    /// What is under way here, counted.
    pub async fn vitals(&self) -> Result<crate::vitals::Vitals, HouseError> {
        self.ask(Command::Vitals).await
    }

    /// Leaves in order (see `crate::running`): new prompts are refused, running ones end, peers are
    /// told, workers end, tasks are joined. Returns when all of that is done or its limit is over.
    pub async fn shut_down(&self) {
        let (done, wait) = oneshot::channel();
        if self.inbox.send(Command::ShutDown(done)).await.is_ok() {
            // A closed channel means that the house is gone already, which is what was asked for.
            let _ = wait.await;
        }
        self.tasks.shut_down(JOIN_LIMIT).await;
        // The doors' sockets are gone with their tasks; only an empty folder goes.
        let _ = std::fs::remove_dir(&self.runtime_folder);
    }

    async fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, HouseError> {
        let (answer, wait) = oneshot::channel();
        self.inbox.send(command(answer)).await.map_err(|_| HouseError::gone())?;
        wait.await.map_err(|_| HouseError::gone())?
    }
}

impl HouseError {
    /// An error with its own sentence.
    #[must_use]
    pub fn new(code: ErrorCode, sentence: impl Into<String>) -> Self {
        Self { code, sentence: sentence.into(), wording: None }
    }

    /// The same error, with words for doors that speak other languages.
    #[must_use]
    pub fn worded(self, wording: Wording) -> Self {
        Self { wording: Some(wording), ..self }
    }

    /// This program is being closed.
    #[must_use]
    pub fn gone() -> Self {
        Self::new(ErrorCode::Draining, "Inglenook is shutting down.").worded(Wording::Leaving)
    }
}

impl From<ErrorCode> for HouseError {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, code.sentence()).worded(Wording::Code)
    }
}

impl From<HouseError> for Problem {
    fn from(error: HouseError) -> Self {
        let HouseError { code, sentence, wording } = error;
        Self { code: code.name().to_owned(), sentence, wording }
    }
}
