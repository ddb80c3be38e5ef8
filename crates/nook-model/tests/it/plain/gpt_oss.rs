//! gpt-oss: attention with sinks, every other layer with a window; experts whose gate is clamped,
//! with biases.
//!
//! <https://arxiv.org/abs/2508.10925>; `GptOssForCausalLM` of transformers. The ends of YaRN's ramp
//! are rounded, as llama.cpp does.

use super::Rows;
use super::attention::{Attention, softmax};
use super::feed_forward::sigmoid;
use super::model::{Model, add, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let dim = attention.key_dim;
    let rope = Rope::of(model, dim, Pairs::Halves);
    let window = model.number("attention.sliding_window");

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let h = model.norm(&name("attn_norm.weight"), &x);
        let mut queries = model.times_and_bias(&name("attn_q"), &h);
        let mut keys = model.times_and_bias(&name("attn_k"), &h);
        let values = model.times_and_bias(&name("attn_v"), &h);
        rope.turn_rows(&mut queries, dim, 0);
        rope.turn_rows(&mut keys, dim, 0);
        let sinks = Some(model.values(&name("attn_sinks.weight")));
        let window = window.filter(|_| layer % 2 == 0);
        let attention = Attention { window, ..attention };
        let mixed = attention.mix_beside(model, sinks, &queries, &keys, &values);
        add_rows(&mut x, &model.times_and_bias(&name("attn_output"), &mixed), 1.0);

        let h = model.norm(&name("post_attention_norm.weight"), &x);
        let out: Rows = h.iter().map(|row| experts(model, layer, row)).collect();
        add_rows(&mut x, &out, 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}

/// The best few by the router's own numbers, weighed by a softmax of those alone.
fn experts(model: &Model, layer: usize, x: &[f64]) -> Vec<f64> {
    let name = |part: &str| format!("blk.{layer}.ffn_{part}");
    let mut scores = model.times_plane(&name("gate_inp.weight"), 0, x);
    add(&mut scores, model.values(&name("gate_inp.bias")));
    let mut chosen: Vec<usize> = (0..scores.len()).collect();
    chosen.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    chosen.truncate(model.size("expert_used_count"));
    let weights = softmax(&chosen.iter().map(|expert| scores[*expert]).collect::<Vec<_>>());

    let product = |part: &str, expert: usize, x: &[f64]| {
        let mut out = model.times_plane(&name(&format!("{part}_exps.weight")), expert, x);
        let biases = model.values(&name(&format!("{part}_exps.bias")));
        let width = out.len();
        add(&mut out, &biases[expert * width..][..width]);
        out
    };
    let mut out = vec![0.0; x.len()];
    for (expert, weight) in chosen.into_iter().zip(weights) {
        let (gate, up) = (product("gate", expert, x), product("up", expert, x));
        let inner = |(gate, up): (&f64, &f64)| {
            let (gate, up) = (gate.min(7.0), up.clamp(-7.0, 7.0));
            gate * sigmoid(1.702 * gate) * (up + 1.0)
        };
        let inner: Vec<f64> = gate.iter().zip(&up).map(inner).collect();
        let down = product("down", expert, &inner);
        add(&mut out, &down.iter().map(|x| x * weight).collect::<Vec<_>>());
    }
    out
}
