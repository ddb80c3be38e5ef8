//! GLM-4 (0414): half of each head turns, in adjacent pairs; norms after attention and after the
//! feed-forward layer, whose gate and up are one matrix.
//!
//! <https://arxiv.org/abs/2406.12793>; `Glm4ForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::gated_in_one;
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let rope = Rope::of(model, model.size("rope.dimension_count"), Pairs::Adjacent);

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let project = |part: &str| model.times_and_bias(&format!("blk.{layer}.{part}"), &h);
        let (mut queries, mut keys) = (project("attn_q"), project("attn_k"));
        let values = project("attn_v");
        rope.turn_rows(&mut queries, attention.key_dim, 0);
        rope.turn_rows(&mut keys, attention.key_dim, 0);
        let mixed = attention.mix(model, &queries, &keys, &values);
        let out = model.times(&name("attn_output"), &mixed);
        add_rows(&mut x, &model.norm(&name("post_attention_norm"), &out), 1.0);

        let out = gated_in_one(model, layer, &model.norm(&name("ffn_norm"), &x));
        add_rows(&mut x, &model.norm(&name("post_ffw_norm"), &out), 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}
