//! What a refusal says, for doors that say it in the person's language.
//!
//! A refusal carries its code, an English sentence, and one of these where the window has words of its
//! own for it. The catalogues of the window must have an entry for each kind: their type is generated
//! from this one.

use serde::{Deserialize, Serialize};

view! {
/// A sentence that the window's catalogues know, and what stands in it.
#[derive(Eq)]
#[serde(tag = "kind")]
enum Wording {
    /// What the code alone says; nothing more exact is known.
    Code,
    /// The prompt is longer than the model can hold.
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: u64,
        /// Name of the model.
        model: String,
        /// Tokens that it can hold.
        window: u32,
    },
    /// As many replies as may be are made, and as many wait.
    AllBusy {
        /// Replies that are made.
        running: u64,
        /// Replies that wait.
        waiting: u64,
    },
    /// The program is being closed.
    Leaving,
    /// Nobody answers at the address of a pairing.
    NobodyThere,
    /// The other device shows no code now.
    NoCodeShown,
    /// The code is not the one on the other screen.
    WrongCode,
    /// The connection broke in the middle of a pairing.
    PairingLost,
    /// What was typed is no address.
    NoAddress {
        /// What was typed.
        typed: String,
    },
    /// No paired device is called so.
    NoSuchDevice {
        /// What it was called.
        name: String,
    },
    /// Only https links are opened.
    HttpsOnly,
    /// A path that does not start at the root of the disk.
    WholePath,
}
}
