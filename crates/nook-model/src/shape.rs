//! The hyperparameters of a model, after their ranges and their agreement have been checked.

/// Most layers of a model; a file with more is refused.
pub const LAYERS_MAX: u32 = 1024;

/// Most heads of a layer; a file with more is refused.
pub const HEADS_MAX: u32 = 1024;

/// Most numbers in a head; a file with more is refused.
pub const HEAD_DIM_MAX: u32 = 1024;

/// Widest feed-forward layer; a file with a wider one is refused.
pub const FEED_FORWARD_MAX: u32 = 1 << 20;

/// Largest vocabulary; a file with a larger one is refused.
pub const VOCABULARY_MAX: u32 = 1 << 22;

/// Longest context; a file that claims a longer one is refused.
pub const CONTEXT_MAX: u32 = 1 << 24;

/// Most experts of a layer; a file with more is refused.
pub const EXPERTS_MAX: u32 = 4096;

/// Sizes of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelShape {
    /// Transformer layers.
    pub layers: u32,
    /// Numbers in a hidden state.
    pub hidden: u32,
    /// Numbers that go from layer to layer for each position: the hidden state (in models that have
    /// several, all of them, the first one first), and behind it what comes to later layers by
    /// token, in models that have that.
    pub row: u32,
    /// Query heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Numbers in a head.
    pub head_dim: u32,
    /// Width of the feed-forward layer.
    pub feed_forward: u32,
    /// Tokens, and logits of a position.
    pub vocabulary: u32,
    /// Positions that the model was made for.
    pub context_length: u32,
    /// Whether the output matrix is the embedding.
    pub tied_output: bool,
}
