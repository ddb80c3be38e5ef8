//! Llama 1 to 3, Mistral, Mixtral, the two that only add multipliers to it: MiniCPM and Granite;
//! and SmolLM3, where every fourth layer does not turn.
//!
//! <https://arxiv.org/abs/2302.13971>, <https://arxiv.org/abs/2401.04088>,
//! <https://arxiv.org/abs/2404.06395>; `LlamaForCausalLM`, `MixtralForCausalLM` and
//! `GraniteForCausalLM` of transformers. GGUF files have Q and K rows in the order in which
//! adjacent numbers turn together.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, silu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

/// Mixtral: softmax over all experts, the chosen ones normalised.
const ROUTER: Router =
    Router { gate: Gate::Softmax, normalise: true, scale: 1.0, weighs: Weighs::Output };

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let mut attention = Attention::of(model);
    let turned = model.number("rope.dimension_count").unwrap_or(attention.key_dim);
    let rope = Rope::of(model, turned, Pairs::Adjacent);
    // Granite's and MiniCPM's multipliers; Llama has none.
    attention.scale = model.fraction("attention.scale").unwrap_or(attention.scale);
    let embedding_scale = model.fraction("embedding_scale").unwrap_or(1.0);
    let residual_scale = model.fraction("residual_scale").unwrap_or(1.0);
    let logit_scale = model.fraction("logit_scale").unwrap_or(1.0);
    // What Granite says where attention has no positions.
    let turns = model.truth("rope.scaling.finetuned").unwrap_or(true);

    let mut x = model.embed(ids, embedding_scale);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let project =
            |part: &str, x: &Rows| model.times_and_any_bias(&format!("blk.{layer}.{part}"), x);
        let h = model.norm(&name("attn_norm"), &x);
        let (mut queries, mut keys) = (project("attn_q", &h), project("attn_k", &h));
        let values = project("attn_v", &h);
        if turns && (model.architecture() != "smollm3" || layer % 4 != 3) {
            rope.turn_rows(&mut queries, attention.key_dim, 0);
            rope.turn_rows(&mut keys, attention.key_dim, 0);
        }
        let mixed = attention.mix(model, &queries, &keys, &values);
        add_rows(&mut x, &project("attn_output", &mixed), residual_scale);

        let h = model.norm(&name("ffn_norm"), &x);
        let out = match model.number("expert_count").unwrap_or(0) {
            0 => gated(model, layer, "", silu, &h),
            _ => mixture(model, layer, ROUTER, &h),
        };
        add_rows(&mut x, &out, residual_scale);
        // Granite's shared expert, which every position goes through.
        if model.has(&name("ffn_gate_shexp")) {
            add_rows(&mut x, &gated(model, layer, "_shexp", silu, &h), residual_scale);
        }
    }
    let mut logits = model.head(&model.norm("output_norm.weight", &x));
    logits.iter_mut().flatten().for_each(|logit| *logit /= logit_scale);
    logits
}
