//! Parts that families are made of.
//!
//! Each part is a description (over [`crate::weights::Named`]: which tensors, which constants) and,
//! once its weights are held, one forward function on rows of activations `(n, width)`. Sessions
//! see each other nowhere: matrices are multiplied with all rows of a [`Step`], attention looks at
//! one session's rows and cache at a time. All buffers come from [`Buffers`] and are used again.

mod attention;
mod beside;
mod block;
mod buffers;
mod convolution;
mod delta;
mod feed_forward;
mod heads;
mod laurel;
mod layer_inputs;
mod linear;
mod mamba2;
mod mixture;
mod mla;
mod norm;
mod rope;
mod rows;
mod shared_attention;
mod short_conv;
mod state;
mod step;
mod streams;

pub(crate) use attention::{Attention, Reach, Temperature, Turn};
pub(crate) use beside::DenseBesideMixture;
pub(crate) use block::{Block, BlockBuffers, FeedForward, Mixer};
pub(crate) use buffers::Choice;
pub(crate) use buffers::{Buffers, sized};
pub(crate) use delta::{GatedDelta, KeyHeads};
pub(crate) use feed_forward::{
    Activation, Cutoff, Dense, Gated, Plain, SWIGLU_LIMIT, SWIGLU_STEEPNESS,
};
pub(crate) use laurel::Laurel;
pub(crate) use layer_inputs::{LayerInput, LayerInputs};
pub(crate) use linear::Linear;
pub(crate) use mamba2::Mamba2;
pub(crate) use mixture::{ExpertBiases, LatentSpace, Mixture, Routing, Scores, SharedExpert};
pub(crate) use mla::{LatentForm, Mla};
pub(crate) use norm::{Norm, NormKind};
pub(crate) use rope::{Factors, RopeSet, RopeSpec};
pub(crate) use rows::{Broken, Span};
pub(crate) use shared_attention::SharedAttention;
pub(crate) use short_conv::ShortConv;
pub(crate) use state::{DeviceState, LayerState, Recurrent, StateShape};
pub(crate) use step::{Lanes, Step};
pub(crate) use streams::{AltUp, MEAN_SQUARE_MIN, OtherStreams};
