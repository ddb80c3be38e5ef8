//! Llama 4 (text): every fourth layer does not turn Q and K and sees everything; the others turn
//! them, norm them afterwards without weights, and see only their own stretch of 8,192 positions.
//! Experts are weighed by a sigmoid, at their input.
//!
//! `Llama4ForCausalLM` of transformers, and llama.cpp for what files do not say.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, silu};
use super::model::{Model, add_rows, normed};
use super::rope::{Pairs, Rope};

const ROUTER: Router =
    Router { gate: Gate::Sigmoid, normalise: false, scale: 1.0, weighs: Weighs::Input };

/// Positions of one stretch, and after how many the scores of layers that do not turn grow.
const STRETCH: usize = 8192;

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    assert!(ids.len() <= STRETCH, "one stretch only");
    let attention = Attention::of(model);
    let dim = attention.key_dim;
    let rope = Rope::of(model, dim, Pairs::Adjacent);
    // Of the two published models, the one with 128 experts has no norm there.
    let has_norm = model.size("expert_count") != 128;
    let step = model.size("interleave_moe_layer_step");

    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let mut queries = model.times(&name("attn_q"), &h);
        let mut keys = model.times(&name("attn_k"), &h);
        let values = model.times(&name("attn_v"), &h);
        if layer % 4 != 3 {
            for rows in [&mut queries, &mut keys] {
                rope.turn_rows(rows, dim, 0);
                if has_norm {
                    for head in rows.iter_mut().flat_map(|row| row.chunks_exact_mut(dim)) {
                        head.copy_from_slice(&normed(head, model.epsilon()));
                    }
                }
            }
        }
        let mixed = attention.mix(model, &queries, &keys, &values);
        add_rows(&mut x, &model.times(&name("attn_output"), &mixed), 1.0);

        let h = model.norm(&name("ffn_norm"), &x);
        if step > 0 && (layer + 1) % step == 0 {
            add_rows(&mut x, &mixture(model, layer, ROUTER, &h), 1.0);
            add_rows(&mut x, &gated(model, layer, "_shexp", silu, &h), 1.0);
        } else {
            add_rows(&mut x, &gated(model, layer, "", silu, &h), 1.0);
        }
    }
    model.head(&model.norm("output_norm.weight", &x))
}
