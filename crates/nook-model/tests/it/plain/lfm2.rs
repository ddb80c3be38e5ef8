//! LFM2 with experts: gated short convolutions, and attention in layers that have key-value heads.
//!
//! <https://arxiv.org/abs/2511.23404>; `Lfm2MoeForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, silu};
use super::model::{Model, add_rows, times_each};
use super::rope::{Pairs, Rope};

const ROUTER: Router =
    Router { gate: Gate::Sigmoid, normalise: true, scale: 1.0, weighs: Weighs::Output };

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let kv_heads = model.numbers("attention.head_count_kv");
    let dense = model.size("leading_dense_block_count");
    let mut x = model.embed(ids, 1.0);
    for (layer, kv_heads) in kv_heads.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let out = match kv_heads {
            0 => convolve(model, layer, &h),
            _ => attend(model, layer, kv_heads, &h),
        };
        add_rows(&mut x, &out, 1.0);
        let h = model.norm(&name("ffn_norm"), &x);
        let out = match layer < dense {
            true => gated(model, layer, "", silu, &h),
            false => mixture(model, layer, ROUTER, &h),
        };
        add_rows(&mut x, &out, 1.0);
    }
    model.head(&model.norm("token_embd_norm.weight", &x))
}

fn attend(model: &Model, layer: usize, kv_heads: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let attention = Attention::with_kv_heads(model, kv_heads);
    let dim = attention.key_dim;
    let rope = Rope::of(model, dim, Pairs::Halves);
    let mut queries = model.norm_heads(&name("attn_q_norm"), &model.times(&name("attn_q"), x));
    let mut keys = model.norm_heads(&name("attn_k_norm"), &model.times(&name("attn_k"), x));
    let values = model.times(&name("attn_v"), x);
    rope.turn_rows(&mut queries, dim, 0);
    rope.turn_rows(&mut keys, dim, 0);
    let mixed = attention.mix(model, &queries, &keys, &values);
    model.times(&name("attn_output"), &mixed)
}

/// The input times the first gate is convolved, and the second gate multiplies what comes out.
fn convolve(model: &Model, layer: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.shortconv.{part}.weight");
    let width = model.size("shortconv.l_cache");
    let kernels = model.values(&name("conv"));
    let all = model.times(&name("in_proj"), x);
    let third = |row: &Vec<f64>, index: usize| {
        let part = row.len() / 3;
        row[index * part..(index + 1) * part].to_vec()
    };
    let inputs: Rows = all.iter().map(|row| times_each(&third(row, 0), &third(row, 2))).collect();
    let number = |position: usize, channel: usize| {
        let tap = |(i, weight): (usize, &f64)| match (position + i + 1).checked_sub(width) {
            Some(from) => weight * inputs[from][channel],
            None => 0.0,
        };
        kernels[channel * width..][..width].iter().enumerate().map(tap).sum()
    };
    let row = |(position, all): (usize, &Vec<f64>)| {
        let convolved: Vec<f64> = (0..x[0].len()).map(|c| number(position, c)).collect();
        times_each(&convolved, &third(all, 1))
    };
    model.times(&name("out_proj"), &all.iter().enumerate().map(row).collect())
}
