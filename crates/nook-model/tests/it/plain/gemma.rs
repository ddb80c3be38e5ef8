//! Gemma 1, 2 and 3.
//!
//! <https://arxiv.org/abs/2403.08295>, <https://arxiv.org/abs/2408.00118>,
//! <https://arxiv.org/abs/2503.19786>; `GemmaForCausalLM`, `Gemma2ForCausalLM` and
//! `Gemma3ForCausalLM` of transformers. The norm weights of GGUF files are already 1 + w.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{gated, gelu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let hidden = model.size("embedding_length");
    let generation = model.architecture();
    let mut attention = Attention::of(model);
    // The largest of each generation, known by its layers, has heads that are not what hidden
    // states are divided by.
    if matches!((generation, model.layers()), ("gemma2", 46) | ("gemma3", 62)) {
        attention.scale = 1.0 / ((hidden / attention.heads) as f64).sqrt();
    }
    attention.cap = model.fraction("attn_logit_softcapping").filter(|_| generation == "gemma2");
    let window = model.number("attention.sliding_window").filter(|window| *window > 0);
    let global = Rope::of(model, attention.key_dim, Pairs::Halves);
    // Gemma 3's local layers have a base of their own, and no scaling.
    let local = match generation {
        "gemma3" => Rope::new(10_000.0, attention.key_dim, Pairs::Halves),
        _ => global.clone(),
    };

    let mut x = model.embed(ids, (hidden as f64).sqrt());
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let is_local = match generation {
            "gemma2" => layer % 2 == 0,
            "gemma3" => window.is_some() && layer % 6 != 5,
            _ => false,
        };
        let (rope, window) = if is_local { (&local, window) } else { (&global, None) };
        let h = model.norm(&name("attn_norm"), &x);
        let mut queries = model.times(&name("attn_q"), &h);
        let mut keys = model.times(&name("attn_k"), &h);
        let values = model.times(&name("attn_v"), &h);
        if generation == "gemma3" {
            queries = model.norm_heads(&name("attn_q_norm"), &queries);
            keys = model.norm_heads(&name("attn_k_norm"), &keys);
        }
        rope.turn_rows(&mut queries, attention.key_dim, 0);
        rope.turn_rows(&mut keys, attention.key_dim, 0);
        let mixed = Attention { window, ..attention }.mix(model, &queries, &keys, &values);
        let mut out = model.times(&name("attn_output"), &mixed);
        if generation != "gemma" {
            out = model.norm(&name("post_attention_norm"), &out);
        }
        add_rows(&mut x, &out, 1.0);

        let mut out = gated(model, layer, "", gelu, &model.norm(&name("ffn_norm"), &x));
        if generation != "gemma" {
            out = model.norm(&name("post_ffw_norm"), &out);
        }
        add_rows(&mut x, &out, 1.0);
    }
    let mut logits = model.head(&model.norm("output_norm.weight", &x));
    if let Some(cap) = model.fraction("final_logit_softcapping") {
        logits.iter_mut().flatten().for_each(|logit| *logit = cap * (*logit / cap).tanh());
    }
    logits
}
