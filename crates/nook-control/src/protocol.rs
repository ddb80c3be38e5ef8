//! What crosses the control socket. Both ends are the same user on this machine.

use std::path::PathBuf;

use nook_base::{ActivationDtype, Sensitive};
use nook_node::doctor::Finding;
use nook_node::views::{
    ChatRole, DeviceView, DownloadAsk, DownloadView, FoundView, HouseView, ModelView, PairingView,
    PipelineView, Problem, ReplyEvent, SettingAsk, Trust,
};
use nook_node::{ChatMessage, GenerateRequest, Prompt, Reach, Sampling, Vitals};
use serde::{Deserialize, Serialize};

/// One thing asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The whole house.
    View,
    /// Lending on or off.
    SetSharing {
        /// The choice.
        on: bool,
    },
    /// Lend nothing for a while, though sharing stays on.
    PauseSharing {
        /// Until the next morning, not for an hour.
        until_tomorrow: bool,
    },
    /// Lend again.
    ResumeSharing,
    /// Give back all memory that no reply of this device needs.
    FreeMemory,
    /// Open a pairing window.
    ShowCode,
    /// Close it.
    CancelPairing,
    /// Pair with a device that shows a code.
    Join {
        /// Which device.
        target: DeviceTarget,
        /// The six digits.
        code: String,
    },
    /// Set how far a device is trusted.
    SetTrust {
        /// Id, short id or unique beginning of the name.
        device: String,
        /// The level.
        trust: Trust,
    },
    /// Unpair a device.
    Forget {
        /// Id, short id or unique beginning of the name.
        device: String,
    },
    /// Add a model file to the library.
    ImportModel {
        /// The GGUF file.
        #[serde(with = "nook_base::paths::lossless")]
        file: PathBuf,
        /// What to call it; absent: after the file.
        name: Option<String>,
    },
    /// Remove a model from the library.
    RemoveModel {
        /// Its name.
        name: String,
    },
    /// Begin a download, or go on with it.
    Pull {
        /// An id of the catalogue, `hf:owner/repository/file.gguf`, or an https address.
        source: String,
        /// What to call the model; absent: after its file.
        name: Option<String>,
    },
    /// Begin to copy a model that another device of the house has, or go on with that.
    Copy {
        /// Its digest, its name there, or an id of the catalogue.
        model: String,
        /// A device that is asked before others.
        from: Option<String>,
    },
    /// Pause, resume, cancel or delete a download.
    Download {
        /// Its key, or the name of the model to be.
        key: String,
        /// What to do.
        ask: DownloadAsk,
    },
    /// Move the models to another folder.
    MoveModels {
        /// The folder; absent: the usual one. A path that is no text is refused, as the settings could not
        /// hold it.
        to: Option<FolderName>,
    },
    /// End that.
    StopMovingModels,
    /// Model files of other programs on this device.
    FoundModels,
    /// Look at everything that usually goes wrong.
    Doctor,
    /// How replies are divided, and what that is decided by.
    Pipeline,
    /// What is under way, counted.
    Vitals,
    /// The main bearer key of the OpenAI-compatible port.
    PortKey,
    /// Make a key of the port for one program.
    AddPortKey {
        /// What it is to be called.
        name: String,
    },
    /// Change one setting; it is kept, and acts at once where that is possible.
    ChangeSetting {
        /// Which one, and its new value.
        setting: SettingAsk,
    },
    /// Take the key of one program back.
    RemovePortKey {
        /// What it is called.
        name: String,
    },
    /// Start a reply; events follow.
    Generate(GenerateWish),
    /// End the node in order. The answer says that it begins to leave.
    ShutDown,
}

/// A folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FolderName(#[serde(with = "nook_base::paths::lossless")] pub PathBuf);

/// Which device to pair with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceTarget {
    /// One that was seen, by the id in the list.
    Seen(String),
    /// A typed address.
    Address(String),
}

/// A reply that is wanted.
#[derive(Clone, Serialize, Deserialize)]
pub struct GenerateWish {
    /// Name of the model.
    pub model: String,
    /// Plain text to continue; exactly one of this and `messages` is given.
    pub text: Option<String>,
    /// A conversation to continue.
    pub messages: Option<Vec<WishedMessage>>,
    /// Most tokens.
    pub tokens_max: Option<u32>,
    /// How to choose tokens.
    pub sampling: SamplingWish,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// How activations travel.
    pub activation_dtype: Option<ActivationDtype>,
    /// Compute on this device only.
    pub this_device_only: bool,
}

/// One message of a wished conversation.
#[derive(Clone, Serialize, Deserialize)]
pub struct WishedMessage {
    /// Who said it.
    pub role: ChatRole,
    /// What was said.
    pub text: String,
}

/// How to choose tokens; absent means as the house does by default.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct SamplingWish {
    /// See [`Sampling::temperature`].
    pub temperature: Option<f32>,
    /// See [`Sampling::top_k`].
    pub top_k: Option<u32>,
    /// See [`Sampling::top_p`].
    pub top_p: Option<f32>,
    /// See [`Sampling::min_p`].
    pub min_p: Option<f32>,
    /// See [`Sampling::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
    /// See [`Sampling::seed`].
    pub seed: Option<u64>,
}

/// One line of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The answer to anything but a reply.
    Answer(Answer),
    /// A reply begins; these are its prompt's token ids.
    Prompt {
        /// The ids.
        ids: Ids,
    },
    /// Something happened in a reply.
    Event {
        /// What.
        event: ReplyEvent,
        /// Token ids that it added.
        ids: Ids,
    },
    /// It did not work.
    Problem(Problem),
}

/// Token ids: sensitive in logs, plain on this socket.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Ids(pub Vec<u32>);

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done.
    Done,
    /// The whole house.
    View(Box<HouseView>),
    /// The open pairing window.
    Pairing(PairingView),
    /// The device now paired with.
    Device(DeviceView),
    /// The model now in the library.
    Model(ModelView),
    /// The download that was asked for.
    Download(DownloadView),
    /// Model files of other programs.
    Found(Vec<FoundView>),
    /// What was found.
    Findings(Vec<Finding>),
    /// How replies are divided.
    Pipeline(Box<PipelineView>),
    /// What is under way.
    Vitals(Vitals),
    /// A bearer key of the port.
    PortKey(Key),
}

/// The port's key: sensitive in logs, plain on this socket.
#[derive(Clone, Serialize, Deserialize)]
pub struct Key(pub String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<sensitive>")
    }
}

impl std::fmt::Debug for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ids", self.0.len())
    }
}

impl std::fmt::Debug for GenerateWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GenerateWish({})", self.model)
    }
}

impl std::fmt::Debug for WishedMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WishedMessage({:?})", self.role)
    }
}

impl From<GenerateWish> for GenerateRequest {
    fn from(wish: GenerateWish) -> Self {
        let prompt = match (wish.messages, wish.text) {
            (Some(messages), _) => Prompt::Chat(
                messages
                    .into_iter()
                    .map(|message| ChatMessage {
                        role: message.role,
                        text: Sensitive(message.text),
                    })
                    .collect(),
            ),
            (None, text) => Prompt::Text(Sensitive(text.unwrap_or_default())),
        };
        let SamplingWish { temperature, top_k, top_p, min_p, repetition_penalty, seed } =
            wish.sampling;
        Self {
            model: wish.model,
            prompt,
            tokens_max: wish.tokens_max,
            sampling: Sampling {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty,
                seed,
                ..Sampling::default()
            },
            stop: wish.stop,
            activation_dtype: wish.activation_dtype,
            reach: if wish.this_device_only { Reach::ThisDevice } else { Reach::House },
        }
    }
}
