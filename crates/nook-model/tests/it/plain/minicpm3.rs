//! MiniCPM 3: latent attention as in DeepSeek V2, but turning halves, in a dense model with
//! MiniCPM's multipliers, which no key tells.
//!
//! <https://arxiv.org/abs/2404.06395>; the publisher's `modeling_minicpm.py` and llama.cpp.

use super::Rows;
use super::deepseek2::Latent;
use super::feed_forward::{gated, silu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let hidden = model.size("embedding_length");
    let heads = model.size("attention.head_count");
    let key = model.size("attention.key_length");
    let turned = model.size("rope.dimension_count");
    let mut rope = Rope::of(model, turned, Pairs::Halves);
    if model.has("rope_factors_short.weight") {
        let original = model.number("rope.scaling.original_context_length");
        let original = original.unwrap_or_else(|| model.size("context_length"));
        let name = match model.numerics.window > original {
            true => "rope_factors_long.weight",
            false => "rope_factors_short.weight",
        };
        rope.divide(model.values(name));
    }
    let latent = Latent {
        heads,
        rank: model.size("attention.kv_lora_rank"),
        still: key - turned,
        turned,
        value_dim: model.number("attention.value_length").unwrap_or(hidden / heads),
        scale: 1.0 / (key as f64).sqrt(),
        rope,
    };
    let residual_scale = 1.4 / (model.layers() as f64).sqrt();

    let mut x = model.embed(ids, 12.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        add_rows(&mut x, &latent.attend(model, layer, &h), residual_scale);
        let h = model.norm(&name("ffn_norm"), &x);
        add_rows(&mut x, &gated(model, layer, "", silu, &h), residual_scale);
    }
    let mut x = model.norm("output_norm.weight", &x);
    x.iter_mut().flatten().for_each(|x| *x *= 256.0 / hidden as f64);
    model.head(&x)
}
