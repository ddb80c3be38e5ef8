//! The privacy meter: what whoever owns a helping computer could read out of the activations that
//! a model sends it.
//!
//! Four known attacks run on this computer, against this model's own activations of a public text
//! that ships with the program, wherever the model can be cut and in every format of the wire:
//!
//! - *nearest embedding*: the token whose embedding points the same way;
//! - *ridge probe*: a linear map from activations to embeddings, learnt on another public text;
//! - *logit lens*: the model's own head, applied early;
//! - *replay matching*: whoever has the model file computes each token that it could have been, and
//!   takes the one whose activation is the one that came.
//!
//! A control that must succeed and one that must fail run with each measurement: without both, a
//! low figure would only say that an attack was badly made. [`measure()`] does it all and gives a
//! [`PrivacyView`]; [`PrivacyView::meaning`] is the sentence for people. With noise asked for, it
//! also measures what noise on the activations does to the attacks and to the replies.
//!
//! Works on a model file alone, needs no node, and blocks until it is done. Activations are in
//! memory only, and neither they nor token ids are in errors, `Debug` output or logs. How much
//! memory it takes beside the weights is known before it begins ([`Prepared::beside_bytes`]), and
//! never more than [`BESIDE_WEIGHTS_MAX`].

mod attacks;
mod budget;
mod candidates;
mod cuts;
mod error;
mod measure;
mod prepared;
mod quality;
mod sent;
mod texts;
mod trials;
mod view;
mod walk;

pub use budget::BESIDE_WEIGHTS_MAX;
pub use error::{OUT_OF_MEMORY, PrivacyError};
pub use measure::{
    CANDIDATES_MAX, CANDIDATES_MIN, MeasureWish, NOISE_LEVELS, Progress, TOKENS_MAX, TOKENS_MIN,
};
pub use prepared::{Loaded, Prepared, measure};
pub use view::{
    Attack, Control, Controls, CutView, FormatView, Highest, MeasuredModel, NoiseLevel, NoiseView,
    PrivacyView, Recovered, VERSION,
};
