//! Gemma 4, dense: other heads in layers that see everything, whose values may be the keys before
//! norm and turn; norms of values; a scale of each layer; and in small models an input of each layer
//! by token, and late layers that read the keys and values of the last layer of their kind that has
//! its own.
//!
//! `Gemma4ForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{gated, gelu};
use super::model::{Model, add_rows, normed, times_each};
use super::rope::{Pairs, Rope};

/// Keys and values of one layer.
pub(super) type Remembered = (Rows, Rows);

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let hidden = model.size("embedding_length");
    let kv_heads = model.numbers("attention.head_count_kv");
    let slides = model.truths("attention.sliding_window_pattern");
    let layers = model.layers();
    let own = layers - model.number("attention.shared_kv_layers").unwrap_or(0);
    let mut x = model.embed(ids, (hidden as f64).sqrt());
    let inputs = inputs(model, ids, &x);
    let mut remembered: Vec<Remembered> = Vec::new();
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let source = match layer < own {
            true => layer,
            false => slides[..own].iter().rposition(|other| *other == slides[layer]).unwrap(),
        };
        let heads = heads(model, kv_heads[source], slides[layer]);
        let rope = rope(model, heads.key_dim, slides[layer]);
        if layer < own {
            remembered.push(remember(model, layer, heads.key_dim, &rope, &h));
        }
        let queries = model.times(&name("attn_q"), &h);
        let mut queries = model.norm_heads(&name("attn_q_norm"), &queries);
        rope.turn_rows(&mut queries, heads.key_dim, 0);
        let (keys, values) = &remembered[source];
        let mixed = heads.mix(model, &queries, keys, values);
        let out = model.times(&name("attn_output"), &mixed);
        add_rows(&mut x, &model.norm(&name("post_attention_norm"), &out), 1.0);

        let out = gated(model, layer, "", gelu, &model.norm(&name("ffn_norm"), &x));
        add_rows(&mut x, &model.norm(&name("post_ffw_norm"), &out), 1.0);
        if let Some(inputs) = &inputs {
            let out = input(model, layer, &x, &inputs[layer]);
            add_rows(&mut x, &model.norm(&name("post_norm"), &out), 1.0);
        }
        let scale = model.values(&name("layer_output_scale"))[0];
        x.iter_mut().flatten().for_each(|x| *x *= scale);
    }
    let mut logits = model.head(&model.norm("output_norm.weight", &x));
    if let Some(cap) = model.fraction("final_logit_softcapping") {
        logits.iter_mut().flatten().for_each(|logit| *logit = cap * (*logit / cap).tanh());
    }
    logits
}

fn heads(model: &Model, kv_heads: usize, slides: bool) -> Attention {
    let key = if slides { "attention.key_length_swa" } else { "attention.key_length" };
    let dim = model.size(key);
    let window = model.number("attention.sliding_window").filter(|_| slides);
    let usual = Attention::with_kv_heads(model, kv_heads);
    Attention { key_dim: dim, value_dim: dim, scale: 1.0, window, ..usual }
}

fn rope(model: &Model, dim: usize, slides: bool) -> Rope {
    match slides {
        true => Rope::new(model.fraction("rope.freq_base_swa").unwrap(), dim, Pairs::Halves),
        false => Rope::of(model, dim, Pairs::Halves),
    }
}

pub(super) fn remember(
    model: &Model,
    layer: usize,
    dim: usize,
    rope: &Rope,
    x: &Rows,
) -> Remembered {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let raw = model.times(&name("attn_k"), x);
    let values = match model.has(&name("attn_v")) {
        true => model.times(&name("attn_v"), x),
        false => raw.clone(),
    };
    let norm = |row: &Vec<f64>| -> Vec<f64> {
        row.chunks_exact(dim).flat_map(|head| normed(head, model.epsilon())).collect()
    };
    let values = values.iter().map(norm).collect();
    let mut keys = model.norm_heads(&name("attn_k_norm"), &raw);
    rope.turn_rows(&mut keys, dim, 0);
    (keys, values)
}

/// For each layer its rows, if it has any.
pub(super) fn inputs(model: &Model, ids: &[u32], embedded: &Rows) -> Option<Vec<Rows>> {
    let width = model.number("embedding_length_per_layer_input").filter(|width| *width > 0)?;
    let scale = 1.0 / (embedded[0].len() as f64).sqrt();
    let projected = model.times("per_layer_model_proj.weight", embedded);
    let table = model.values("per_layer_token_embd.weight");
    let weights = model.values("per_layer_proj_norm.weight");
    let of = |layer: usize| -> Rows {
        let row = |(id, projected): (&u32, &Vec<f64>)| {
            let part = projected[layer * width..][..width].iter().map(|x| x * scale);
            let part = normed(&part.collect::<Vec<_>>(), model.epsilon());
            let own = &table[*id as usize * projected.len() + layer * width..][..width];
            let own = own.iter().map(|x| x * (width as f64).sqrt());
            let both = times_each(&part, weights).into_iter().zip(own);
            both.map(|(a, b)| (a + b) / 2f64.sqrt()).collect()
        };
        ids.iter().zip(&projected).map(row).collect()
    };
    Some((0..model.layers()).map(of).collect())
}

pub(super) fn input(model: &Model, layer: usize, x: &Rows, inputs: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let gates = model.times(&name("inp_gate"), x);
    let inner = |(gate, input): (&Vec<f64>, &Vec<f64>)| {
        gate.iter().zip(input).map(|(gate, input)| gelu(*gate) * input).collect()
    };
    model.times(&name("proj"), &gates.iter().zip(inputs).map(inner).collect())
}
