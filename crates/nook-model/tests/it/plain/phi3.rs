//! Phi-3 and Phi-4, also with LongRoPE (Ding et al., <https://arxiv.org/abs/2402.13753>).
//!
//! <https://arxiv.org/abs/2404.14219>; `Phi3ForCausalLM` of transformers. Q, K and V are one
//! matrix, gate and up another. LongRoPE has two lists of factors: the short ones serve windows up
//! to the original context, the long ones greater windows; `attn_factor` multiplies what turned in
//! both.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::gated_in_one;
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let rope = rope(model, attention.key_dim);
    let query = attention.heads * attention.key_dim;
    let key = attention.kv_heads * attention.key_dim;

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let all = model.times(&name("attn_qkv"), &h);
        let part = |from: usize, to: usize| all.iter().map(|row| row[from..to].to_vec()).collect();
        let (mut queries, mut keys): (Rows, Rows) = (part(0, query), part(query, query + key));
        let values: Rows = part(query + key, all[0].len());
        rope.turn_rows(&mut queries, attention.key_dim, 0);
        rope.turn_rows(&mut keys, attention.key_dim, 0);
        let mixed = attention.mix(model, &queries, &keys, &values);
        add_rows(&mut x, &model.times(&name("attn_output"), &mixed), 1.0);
        let h = model.norm(&name("ffn_norm"), &x);
        add_rows(&mut x, &gated_in_one(model, layer, &h), 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}

fn rope(model: &Model, key_dim: usize) -> Rope {
    let turned = model.number("rope.dimension_count").unwrap_or(key_dim);
    let mut rope = Rope::of(model, turned, Pairs::Halves);
    if model.has("rope_factors_short.weight") {
        let original = model.size("rope.scaling.original_context_length");
        let name = match model.numerics.window > original {
            true => "rope_factors_long.weight",
            false => "rope_factors_short.weight",
        };
        rope.divide(model.values(name));
    }
    rope.with_magnitude(model.fraction("rope.scaling.attn_factor").unwrap_or(1.0))
}
