//! Nemotron 3: layers of one part each, Mamba-2, attention without positions or experts without
//! gates, which compute in a latent space beside a shared one that does not.
//!
//! <https://arxiv.org/abs/2405.21060>; `NemotronHForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, choose};
use super::granitehybrid::remember;
use super::model::{Model, add, add_rows};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let kv_heads = model.numbers("attention.head_count_kv");
    let widths = model.numbers("feed_forward_length");
    let used = model.numbers("expert_used_count");
    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let out = match (kv_heads[layer], widths[layer]) {
            (0, 0) => remember(model, layer, &h),
            (0, _) => h.iter().map(|h| experts(model, layer, used[layer], h)).collect(),
            (kv_heads, _) => {
                let attention = Attention::with_kv_heads(model, kv_heads);
                let project = |part: &str| model.times(&name(part), &h);
                let (queries, keys) = (project("attn_q"), project("attn_k"));
                let mixed = attention.mix(model, &queries, &keys, &project("attn_v"));
                model.times(&name("attn_output"), &mixed)
            }
        };
        add_rows(&mut x, &out, 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}

/// What the experts of a layer make of one row: the `used` best by sigmoid and bias, in the latent
/// space if there is one, and the shared one.
fn experts(model: &Model, layer: usize, used: usize, x: &[f64]) -> Vec<f64> {
    let times = |part: &str, plane: usize, x: &[f64]| {
        model.times_plane(&format!("blk.{layer}.ffn_{part}.weight"), plane, x)
    };
    let squared = |ending: &str, plane: usize, x: &[f64]| {
        let up = times(&format!("up{ending}"), plane, x);
        let inner: Vec<f64> = up.iter().map(|x| if *x > 0.0 { x * x } else { 0.0 }).collect();
        times(&format!("down{ending}"), plane, &inner)
    };
    let router = Router {
        gate: Gate::Sigmoid,
        normalise: model.truth("expert_weights_norm").unwrap(),
        scale: model.fraction("expert_weights_scale").unwrap(),
        weighs: Weighs::Output,
    };
    let has_latent = model.number("moe_latent_size").is_some();
    let within = if has_latent { times("latent_down", 0, x) } else { x.to_vec() };
    let mut sum = vec![0.0; within.len()];
    for (expert, share) in choose(model, layer, router, used, x) {
        let made: Vec<f64> = squared("_exps", expert, &within).iter().map(|x| x * share).collect();
        add(&mut sum, &made);
    }
    let mut out = if has_latent { times("latent_up", 0, &sum) } else { sum };
    add(&mut out, &squared("_shexp", 0, x));
    out
}
