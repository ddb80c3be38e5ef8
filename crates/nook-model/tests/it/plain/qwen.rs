//! Qwen 2 and 2.5 (biases on Q, K and V, where the file has them), Qwen 3 (norms on the heads of Q
//! and K, before they turn) and the mixtures of experts of both.
//!
//! <https://arxiv.org/abs/2407.10671>, <https://arxiv.org/abs/2505.09388>; `Qwen2ForCausalLM`,
//! `Qwen2MoeForCausalLM`, `Qwen3ForCausalLM` and `Qwen3MoeForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, sigmoid, silu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

/// `norm_topk_prob` is true in every published Qwen 3 mixture, and has no key in the file.
const ROUTER: Router =
    Router { gate: Gate::Softmax, normalise: true, scale: 1.0, weighs: Weighs::Output };

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let attention = Attention::of(model);
    let dim = attention.key_dim;
    let rope = Rope::of(model, dim, Pairs::Halves);
    let is_third = model.architecture().starts_with("qwen3");

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let project = |part: &str| model.times_and_any_bias(&format!("blk.{layer}.{part}"), &h);
        let (mut queries, mut keys) = (project("attn_q"), project("attn_k"));
        let values = project("attn_v");
        if is_third {
            queries = model.norm_heads(&name("attn_q_norm"), &queries);
            keys = model.norm_heads(&name("attn_k_norm"), &keys);
        }
        rope.turn_rows(&mut queries, dim, 0);
        rope.turn_rows(&mut keys, dim, 0);
        let mixed = attention.mix(model, &queries, &keys, &values);
        add_rows(&mut x, &model.times(&name("attn_output"), &mixed), 1.0);

        let h = model.norm(&name("ffn_norm"), &x);
        let out = match model.architecture() {
            "qwen3moe" => mixture(model, layer, ROUTER, &h),
            "qwen2moe" => second_mixture(model, layer, &h),
            _ => gated(model, layer, "", silu, &h),
        };
        add_rows(&mut x, &out, 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}

/// The mixture of Qwen 2, whose weights do not add up to 1, and the shared expert that a sigmoid of
/// the hidden state weighs.
fn second_mixture(model: &Model, layer: usize, x: &Rows) -> Rows {
    let mut out = mixture(model, layer, Router { normalise: false, ..ROUTER }, x);
    let shared = gated(model, layer, "_shexp", silu, x);
    let gate = model.values(&format!("blk.{layer}.ffn_gate_inp_shexp.weight"));
    for ((out, shared), x) in out.iter_mut().zip(&shared).zip(x) {
        let share = sigmoid(x.iter().zip(gate).map(|(x, gate)| x * gate).sum());
        out.iter_mut().zip(shared).for_each(|(out, shared)| *out += share * shared);
    }
    out
}
