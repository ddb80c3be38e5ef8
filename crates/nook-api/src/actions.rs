//! Everything that can be asked of a node: each action once, with its arguments, its answer, and
//! who may ask for it.
//!
//! `for [Window, Control]` names the front ends outside the node's own process; an empty list keeps
//! an action to code that holds the [`NodeHandle`]. A new action is a line here, its handler in
//! `nook-node`, a caller and a test (`cargo xtask tidy` looks for further lists of actions).

use std::future::Future;
use std::path::PathBuf;

use nook_base::{PrivacyFigures, ReplyChoices, Sensitive};
use tokio::sync::oneshot;

use crate::action::{Action, Answer, Calls, FrontEnd, UnexpectedResponse, actions};
use crate::doctor::Finding;
use crate::error::NodeError;
use crate::generation::{Asker, Counted, EmbedRequest, Embedded, GenerateRequest, Reply};
use crate::handle::NodeHandle;
use crate::requests::{PairTarget, PauseFor, PortSettings, Reach, Sharing, StartedTurn, Turn};
use crate::restart::RestartWaits;
use crate::views::{
    AuditEntryView, CapabilitiesView, ConversationView, CopyExtent, DeviceView, DownloadAsk,
    DownloadView, ExportAsk, FoundView, Help, HouseholdView, HubView, KeptPrivacyView, MessageView,
    ModelView, PairingView, PipelineView, PortRequestView, SettingAsk, TroubleView, Trust,
};
use crate::vitals::Vitals;

/// What the node's event loop takes: the actions of the list, and what only code of its own process
/// can ask, because the answer is a stream or holds what stays in the process.
#[derive(Debug)]
#[allow(missing_docs, reason = "the methods of the handle say what each one does")]
pub enum Command {
    Sharing(SharingCommand),
    Devices(DeviceCommand),
    Models(ModelCommand),
    Chats(ChatCommand),
    Settings(SettingCommand),
    Port(PortCommand),
    Generate { asker: Asker, request: Box<GenerateRequest>, answer: Answer<Reply> },
    Count { request: Box<GenerateRequest>, answer: Answer<Counted> },
    Embed { request: EmbedRequest, answer: Answer<Embedded> },
    Say { turn: Turn, answer: Answer<StartedTurn> },
    NotePortRequest(PortRequestView),
    PortSettings { answer: Answer<PortSettings> },
    PortState { on: bool, base_url: String, problem: Option<TroubleView>, answer: Answer<()> },
    ShutDown(oneshot::Sender<()>),
}

actions! {
    group Sharing in SharingCommand: "What the node lends." {
        /// Switches lending on or off; the choice is kept.
        set_sharing as SetSharing(
            /// The choice.
            sharing: Sharing,
        ) -> (), for [Window, Control];
        /// Lends nothing for a while, though sharing stays switched on; kept over a restart.
        pause_sharing as PauseSharing(
            /// For how long.
            span: PauseFor,
        ) -> (), for [Window, Control];
        /// Ends the owner's pause before its time.
        resume_sharing as ResumeSharing() -> (), for [Window, Control];
        /// Gives back all memory that no reply of this device needs, and lends nothing for a
        /// quarter of an hour. Streams of other devices finish their step and end.
        free_memory as FreeMemory() -> (), for [Window, Control];
        /// What other devices asked of this one, what was asked last first: who, when, how much, and
        /// never what.
        audit as Audit() -> Vec<AuditEntryView>, for [Window, Control];
        /// Forgets that list, but for what is under way.
        clear_audit as ClearAudit() -> (), for [Window, Control];
    }
    group Devices in DeviceCommand: "Other devices, and what they see of this one." {
        /// Opens a pairing window of 120 s; one at a time, five an hour.
        show_code as ShowCode() -> PairingView, for [Window, Control];
        /// Closes the pairing window, if one is open.
        cancel_pairing as CancelPairing() -> (), for [Window, Control];
        /// Pairs with a device that shows a code. Both end up as guests of each other.
        join as Join(
            /// Which device.
            target: PairTarget,
            /// The six digits.
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            code: Sensitive<String>,
        ) -> DeviceView, for [Window, Control];
        /// Sets how far a paired device is trusted; takes effect on running streams within a
        /// second.
        set_trust as SetTrust(
            /// Id, short id or unique beginning of the name.
            device: String,
            /// The level.
            trust: Trust,
        ) -> (), for [Window, Control];
        /// Answers *May these two computers help each other?* for this side. `EachOther` and
        /// `OnlyThis` trust the device and switch sharing on.
        answer_help as AnswerHelp(
            /// Id, short id or unique beginning of the name.
            device: String,
            /// The answer.
            help: Help,
        ) -> (), for [Window, Control];
        /// Wakes a paired device that sleeps and lets others wake it; returns once it is linked,
        /// with the seconds that it took, or when it did not come within three minutes.
        wake as Wake(
            /// Id, short id or unique beginning of the name.
            device: String,
        ) -> u32, for [Window, Control];
        /// Unpairs a device.
        forget as Forget(
            /// Id, short id or unique beginning of the name.
            device: String,
        ) -> (), for [Window, Control];
    }
    group Models in ModelCommand: "Model files." {
        /// Adds a GGUF file to the library after checking all of it.
        import_model as ImportModel(
            /// The file.
            #[serde(with = "nook_base::paths::lossless")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            file: PathBuf,
            /// What to call it; absent: after the file.
            name: Option<String>,
        ) -> ModelView, for [Window, Control];
        /// Removes a model from the library; files outside the library folder are left alone.
        remove_model as RemoveModel(
            /// Its name.
            name: String,
        ) -> (), for [Window, Control];
        /// Begins a download, or goes on with the one of the same file. The model joins the library
        /// once it is here and checked. It goes on without whoever asked, and after a restart.
        pull as Pull(
            /// An id of the catalogue, `hf:owner/repository/file.gguf` or an https address.
            source: String,
            /// What to call the model; absent: after its file.
            name: Option<String>,
        ) -> DownloadView, for [Window, Control];
        /// Begins to copy a model that another device of the house has, or goes on with that. It is
        /// a download like any other from then on.
        copy_model as CopyModel(
            /// Its digest, its name there, or an id of the catalogue, which then must have the
            /// publisher's bytes.
            model: String,
            /// A device that is asked before others.
            from: Option<String>,
            /// How much of it.
            extent: CopyExtent,
        ) -> DownloadView, for [Window, Control];
        /// Pauses, resumes, cancels or deletes a download.
        change_download as ChangeDownload(
            /// Its key, or the name of the model to be.
            key: String,
            /// What to do.
            ask: DownloadAsk,
        ) -> (), for [Window, Control];
        /// Moves the models and unfinished downloads to another folder, or back to the usual one.
        /// Returns once it is known whether that can be done; the view shows how far it is, and why
        /// it ended.
        move_models as MoveModels(
            /// The folder; absent: the usual one. A path that is no text is refused, as the
            /// settings could not hold it.
            #[serde(with = "crate::path_or_none")]
            #[cfg_attr(feature = "bindings", ts(type = "string | null"))]
            to: Option<PathBuf>,
        ) -> (), for [Window, Control];
        /// Ends such a move: everything is where it was.
        stop_moving_models as StopMovingModels() -> (), for [Window, Control];
        /// Asks Hugging Face, or the mirror that stands for it, for models that could be downloaded.
        search_models as SearchModels(
            /// A few words, or a repository as `owner/repository`.
            words: String,
        ) -> HubView, for [Window, Control];
        /// Model files of other programs on this device that could be used where they lie.
        found_models as FoundModels() -> Vec<FoundView>, for [Window, Control];
        /// What a model can besides answering. Reads it from the file.
        capabilities as Capabilities(
            /// Its name.
            model: String,
        ) -> CapabilitiesView, for [Window];
    }
    group Chats in ChatCommand: "Kept conversations." {
        /// Conversations that are kept: pinned ones, newest first, archived ones.
        conversations as Conversations(
            /// Only those that hold all of these words; absent: all.
            search: Option<String>,
        ) -> Vec<ConversationView>, for [Window];
        /// All messages of a conversation, parents before children, siblings oldest first.
        messages as Messages(
            /// Which conversation.
            conversation: i64,
        ) -> Vec<MessageView>, for [Window];
        /// Gives a conversation another title.
        rename_conversation as RenameConversation(
            /// Which conversation.
            conversation: i64,
            /// Its title from now on.
            title: String,
        ) -> (), for [Window];
        /// Has the model that answered last make a title, where a conversation is still called by its
        /// first words. Answers with it, or with nothing where the title stays.
        entitle_conversation as EntitleConversation(
            /// Which conversation.
            conversation: i64,
        ) -> Option<String>, for [Window];
        /// Deletes a conversation for good.
        delete_conversation as DeleteConversation(
            /// Which conversation.
            conversation: i64,
        ) -> (), for [Window];
        /// Sets what the model is told before the first message.
        instruct_conversation as InstructConversation(
            /// Which conversation.
            conversation: i64,
            /// What it is told; empty for nothing.
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            instructions: Sensitive<String>,
        ) -> (), for [Window];
        /// Keeps the replies of a conversation on this device, or lets others help again.
        confine_conversation as ConfineConversation(
            /// Which conversation.
            conversation: i64,
            /// Where its replies may be computed.
            reach: Reach,
        ) -> (), for [Window];
        /// Sets how the replies of a conversation are made, where that is not as the settings say.
        tune_conversation as TuneConversation(
            /// Which conversation.
            conversation: i64,
            /// What is chosen for it.
            choices: ReplyChoices,
        ) -> (), for [Window];
        /// Puts a conversation before all others in the list, or back among them.
        pin_conversation as PinConversation(
            /// Which conversation.
            conversation: i64,
            /// Whether it stands there.
            pinned: bool,
        ) -> (), for [Window];
        /// Puts a conversation away, behind all others, or back among them.
        archive_conversation as ArchiveConversation(
            /// Which conversation.
            conversation: i64,
            /// Whether it is put away.
            archived: bool,
        ) -> (), for [Window];
        /// Puts a conversation into a folder, which is made with it, or takes it out of one.
        file_conversation as FileConversation(
            /// Which conversation.
            conversation: i64,
            /// The name of the folder; empty for none.
            folder: String,
        ) -> (), for [Window];
        /// Gives a folder another name; where there is one of that name, the two become one.
        rename_folder as RenameFolder(
            /// Its name so far.
            folder: String,
            /// Its name from now on; empty takes its conversations out.
            name: String,
        ) -> (), for [Window];
        /// Begins a conversation with a copy of what was said up to a message; returns its number.
        branch_conversation as BranchConversation(
            /// The last message of the copy.
            message: i64,
        ) -> i64, for [Window];
        /// Puts a text of the person in the place of a reply, which stays beside it; returns its number.
        reword_reply as RewordReply(
            /// The reply.
            message: i64,
            /// What is to stand there.
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            text: Sensitive<String>,
        ) -> i64, for [Window];
        /// A conversation as the text of a file.
        export_conversation as ExportConversation(
            /// Which conversation.
            conversation: i64,
            /// How it is written.
            form: ExportAsk,
        ) -> String, for [];
        /// Takes in a conversation that was exported as JSON; returns its number.
        import_conversation as ImportConversation(
            /// The text of the file.
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            file: Sensitive<String>,
        ) -> i64, for [Window];
    }
    group Settings in SettingCommand: "What the owner chooses, and how the node is." {
        /// Changes one setting; it is kept, and acts at once.
        change_setting as ChangeSetting(
            /// The setting and its new value.
            setting: SettingAsk,
        ) -> (), for [Window, Control];
        /// Renames this device.
        set_name as SetName(
            /// The new name.
            name: String,
        ) -> (), for [Window];
        /// Looks at everything that usually goes wrong.
        doctor as Doctor() -> Vec<Finding>, for [Control];
        /// How replies of this device are divided: the last decision and what was measured.
        pipeline as Pipeline() -> PipelineView, for [Window, Control];
        /// What was measured last of how much a helper could read: of each model whose file is still
        /// the one that was measured.
        privacy as Privacy() -> KeptPrivacyView, for [Window, Control];
        /// Keeps what the privacy meter found, in place of earlier figures of the same model. Refused
        /// for a model that is not on the list.
        keep_privacy as KeepPrivacy(
            /// Digest of the file that was measured, hexadecimal.
            model: String,
            /// What was found.
            figures: PrivacyFigures,
        ) -> (), for [Control];
        /// What is under way here, counted.
        vitals as Vitals() -> Vitals, for [Control];
        /// Asks for the list of versions; what comes of it stands in the view.
        look_for_update as LookForUpdate() -> (), for [Window, Control];
        /// Installs the newer version that the view shows. It is loaded and checked first; then the
        /// program starts anew, as after `restart_when_quiet`.
        install_update as InstallUpdate() -> (), for [Window, Control];
        /// Takes a package of a release from a device of the house that has it, into the place where
        /// whoever installs it looks first. Returns once all of it is here and is what the signed list
        /// names; refused where no device that is linked now has it.
        bring_update as BringUpdate(
            /// SHA-256 of the package, in hexadecimal.
            sha256: String,
        ) -> (), for [Control];
        /// Starts the program anew once no reply is under way, and no stream of another device or
        /// not for long: after its files were replaced. Returns what that waits for. Counts for ten
        /// seconds, and is given again for as long as whoever asks watches over it. Refused where
        /// the program cannot start itself again.
        restart_when_quiet as RestartWhenQuiet() -> RestartWaits, for [Control];
        /// Takes that order back. Once this has answered, the program does not start anew.
        call_off_restart as CallOffRestart() -> (), for [Control];
        /// How somebody else would start the program once more: its file and its words. Empty where
        /// it runs only as long as one command.
        started_as as StartedAs() -> Vec<String>, for [Control];
        /// Whether all of the program has come up, and not the node alone: the tray app with its
        /// tray and, in a new version, a page that has shown itself.
        has_come_up as HasComeUp() -> bool, for [Control];
    }
    group Port in PortCommand: "The keys of the local port." {
        /// The main key of the port.
        port_key as PortKey() ->
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            Sensitive<String>, for [Window, Control];
        /// Makes a new main key of the port and returns it; from then on the old one opens nothing.
        renew_port_key as RenewPortKey() ->
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            Sensitive<String>, for [Window];
        /// Makes a key of the port for one program, and tells it: nothing can tell it again.
        add_port_key as AddPortKey(
            /// What it is to be called.
            name: String,
        ) ->
            #[serde(with = "crate::plain")]
            #[cfg_attr(feature = "bindings", ts(type = "string"))]
            Sensitive<String>, for [Window, Control];
        /// Takes the key of one program back: from now on it opens nothing.
        remove_port_key as RemovePortKey(
            /// What it is called.
            name: String,
        ) -> (), for [Window, Control];
    }
    of the handle {
        /// The node and its household as they are now.
        view as View by view_now -> HouseholdView, for [Control];
        /// Ends the node in order. A front end answers before it asks: the node takes the channel
        /// with it.
        shut_down as ShutDown by shut_down -> (), for [Control];
    }
}
