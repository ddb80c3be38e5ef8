//! Parts that families are made of. Each is a few weights and one forward function on rows of
//! activations `(n, width)`.

mod attention;
mod feed_forward;
mod norm;

pub(crate) use attention::Attention;
pub(crate) use feed_forward::GatedFeedForward;
pub(crate) use norm::RmsNorm;
