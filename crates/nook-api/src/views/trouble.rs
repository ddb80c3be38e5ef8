//! What keeps the house from being well, as facts with their values.
//!
//! The house makes each trouble where it notices it, with its English sentence. The window has words of
//! its own for each kind, in the language in use; the command line and the log take the sentence.

use serde::{Deserialize, Serialize};

use super::Reason;
use crate::sentence;

view! {
/// Something that the owner should know of.
#[derive(Eq)]
struct TroubleView {
    /// What it is and what to do, in English.
    pub sentence: String,
    /// The same for doors that speak other languages; absent where only the sentence says it.
    #[serde(default)]
    pub trouble: Option<Trouble>,
}
}

view! {
/// A trouble that the window's catalogues know, and what stands in it. A `reason` that is a text is
/// in English: the words of a library, or of what a person has written.
#[derive(Eq)]
#[serde(tag = "kind")]
enum Trouble {
    /// The worker of a model ended too often within a minute; it rests for a while.
    ModelSwitchedOff {
        /// The model's name.
        model: String,
        /// How often it ended.
        ends: u32,
        /// How long it rests from then on.
        minutes: u64,
        /// What it said last.
        reason: String,
    },
    /// The file of a model is not where it was.
    ModelFileGone {
        /// The model's name.
        model: String,
        /// Where it was.
        file: String,
    },
    /// The folder of the models is not there: its disk may not be plugged in.
    ModelsFolderAway {
        /// Where they are looked for.
        folder: String,
        /// How many models lie there.
        models: u32,
    },
    /// It has another length than when it was checked.
    ModelFileChanged {
        /// The model's name.
        model: String,
        /// Where it is.
        file: String,
    },
    /// It may have changed, so all of it is read before the model is used again.
    ModelFileBeingRead {
        /// The model's name.
        model: String,
        /// Where it is.
        file: String,
    },
    /// It cannot be read.
    ModelUnreadable {
        /// The model's name.
        model: String,
        /// Why.
        reason: Reason,
    },
    /// The settings were edited by hand and are no TOML now, or a value is of the wrong kind.
    SettingsBroken {
        /// The file.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
        /// What is wrong there.
        reason: String,
    },
    /// A value of the settings is outside its range.
    SettingUnfit {
        /// The dotted key.
        setting: String,
        /// The value.
        value: String,
        /// What the key takes.
        reason: String,
    },
    /// The settings file cannot be read or written.
    SettingsUnusable {
        /// Why.
        reason: Reason,
    },
    /// The list of paired devices could not be saved.
    DevicesNotSaved {
        /// Why.
        reason: Reason,
    },
    /// The server for downloads that the environment names cannot be used.
    DownloadServer {
        /// Why.
        reason: String,
    },
    /// Another program holds the address of the port.
    PortTaken {
        /// The address.
        address: String,
        /// What the system said.
        reason: Reason,
    },
    /// Another program has the address that `localhost` means to some programs.
    PortShared {
        /// The address.
        address: String,
    },
    /// Other machines could reach the address that the settings give the port.
    PortNotLocal {
        /// The address.
        address: String,
    },
    /// What this device sends to be found does not come back.
    DiscoveryUnheard,
    /// The system refuses to look for devices.
    DiscoveryRefused {
        /// Why.
        reason: Reason,
    },
    /// Something in the network presents itself as this device.
    CopySeen,
    /// A part of the program ended because of a mistake in it; the rest goes on.
    PartEnded {
        /// What the program calls it.
        part: String,
    },
    /// Something about one other device.
    Device {
        /// Its name.
        device: String,
        /// What.
        trouble: DeviceTrouble,
    },
}
}

view! {
/// What is wrong with another device.
#[derive(Eq)]
#[serde(tag = "kind")]
enum DeviceTrouble {
    /// Two computers present themselves as it.
    Twice {
        /// The address of the one that is connected.
        kept: String,
        /// The address of the one that was refused.
        refused: String,
    },
    /// It does not know this device any more.
    Forgot,
    /// Its version of Inglenook and this one do not understand each other, and it did not say which is the
    /// older.
    OtherVersion,
    /// The same, and one of the two is to be updated.
    Outdated {
        /// Which.
        update: ToUpdate,
        /// Protocol versions that this computer speaks: one, or a first and a last.
        ours: String,
        /// Those that the other one speaks.
        theirs: String,
    },
    /// It sent back what cannot be right.
    Suspect {
        /// What.
        wrong: WrongResult,
        /// The same in English, without its capital and full stop.
        reason: String,
    },
    /// It computes a model otherwise than this device.
    ComputesOtherwise {
        /// The model's name.
        model: String,
    },
    /// It failed repeatedly and is not used for a while.
    LeftOut {
        /// Minutes that are left of it.
        minutes: u64,
    },
}
}

view! {
/// Which of two computers runs the older Inglenook.
#[derive(Copy, Eq)]
enum ToUpdate {
    /// This one.
    This,
    /// The other one.
    Other,
}
}

view! {
/// Why a result cannot be right.
#[derive(Copy, Eq)]
enum WrongResult {
    /// It answers something that was not asked.
    OtherPositions,
    /// It has another shape or type than agreed.
    OtherShape,
    /// It holds a NaN or an infinity.
    NotFinite,
    /// A row is all zero.
    ZeroRow,
    /// A row is that of the input, unchanged.
    Copy,
    /// A row is much larger than these layers make it.
    MuchLarger,
    /// A row is much smaller than these layers make it.
    MuchSmaller,
    /// This device computed the same and came to other numbers.
    ContradictedHere,
    /// So did another one; one of the two is wrong.
    ContradictedElsewhere,
    /// It chose a token that the model does not have.
    NoSuchToken,
    /// It answered out of turn.
    OutOfTurn,
    /// It cannot be read as what it says it is; the reason says more.
    Unreadable,
}
}

impl TroubleView {
    /// A trouble with its English sentence.
    #[must_use]
    pub fn new(sentence: impl Into<String>, trouble: Trouble) -> Self {
        Self { sentence: sentence.into(), trouble: Some(trouble) }
    }

    /// What an error says, with a capital and a full stop.
    #[must_use]
    pub fn of_error(error: &impl std::fmt::Display, trouble: Trouble) -> Self {
        Self::new(sentence(&error.to_string()), trouble)
    }

    /// A trouble with another device.
    #[must_use]
    pub fn with(device: &str, sentence: String, trouble: DeviceTrouble) -> Self {
        Self::new(sentence, Trouble::Device { device: device.to_owned(), trouble })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trouble_reaches_the_window_as_a_kind_with_its_values_beside_the_sentence() {
        let left_out = DeviceTrouble::LeftOut { minutes: 2 };
        let told = TroubleView::with("attic", "attic is left out.".to_owned(), left_out);
        let written = json!({
            "sentence": "attic is left out.",
            "trouble": {
                "kind": "device", "device": "attic", "trouble": {"kind": "left_out", "minutes": 2},
            },
        });
        assert_eq!(serde_json::to_value(&told).unwrap(), written);
        assert_eq!(serde_json::from_value::<TroubleView>(written).unwrap(), told);
        let bare = json!({"sentence": "Only that."});
        assert_eq!(serde_json::from_value::<TroubleView>(bare).unwrap().trouble, None);
    }

    #[test]
    fn what_an_error_says_becomes_a_sentence() {
        let said = |text: &str| TroubleView::of_error(&text, Trouble::CopySeen).sentence;
        assert_eq!(said("the port is taken"), "The port is taken.");
        assert_eq!(said("Is it on?"), "Is it on?");
    }
}
