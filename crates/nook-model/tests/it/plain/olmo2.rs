//! OLMo 2: norms only *after* attention and feed-forward layer, and over all of Q and of K
//! together.
//!
//! <https://arxiv.org/abs/2501.00656>; `Olmo2ForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{gated, silu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let rope = Rope::of(model, attention.key_dim, Pairs::Halves);

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let mut queries = model.norm(&name("attn_q_norm"), &model.times(&name("attn_q"), &x));
        let mut keys = model.norm(&name("attn_k_norm"), &model.times(&name("attn_k"), &x));
        let values = model.times(&name("attn_v"), &x);
        rope.turn_rows(&mut queries, attention.key_dim, 0);
        rope.turn_rows(&mut keys, attention.key_dim, 0);
        let mixed = attention.mix(model, &queries, &keys, &values);
        let out = model.times(&name("attn_output"), &mixed);
        add_rows(&mut x, &model.norm(&name("post_attention_norm"), &out), 1.0);

        let out = gated(model, layer, "", silu, &x);
        add_rows(&mut x, &model.norm(&name("post_ffw_norm"), &out), 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}
