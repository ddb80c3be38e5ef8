//! Qwen 3.5 (dense): three layers of a gated delta net to one of gated attention.
//!
//! Yang et al., Gated Delta Networks, <https://arxiv.org/abs/2412.06464>; `Qwen3_5ForCausalLM` of
//! transformers, and llama.cpp for how files lay it out: `-exp(A_log)` is stored, value heads are
//! tiled over key heads, and the gate of a head follows its query in one matrix.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{gated, sigmoid, silu};
use super::model::{Model, add_rows, normed, times_each};
use super::rope::{Pairs, Rope};

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let interval = model.number("full_attention_interval").unwrap_or(4);
    let layers = model.layers() - model.number("nextn_predict_layers").unwrap_or(0);
    let mut x = model.embed(ids, 1.0);
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let out = match (layer + 1) % interval {
            0 => attend(model, layer, &h),
            _ => remember(model, layer, &h),
        };
        add_rows(&mut x, &out, 1.0);
        let h = model.norm(&name("post_attention_norm"), &x);
        add_rows(&mut x, &gated(model, layer, "", silu, &h), 1.0);
    }
    model.head(&model.norm("output_norm.weight", &x))
}

/// Attention whose result is gated; a quarter of each head turns. (Of a text, all three positions
/// of the sections are equal, so sections make no difference.)
fn attend(model: &Model, layer: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let attention = Attention::of(model);
    let dim = attention.key_dim;
    let rope = Rope::of(model, model.size("rope.dimension_count"), Pairs::Halves);
    let both = model.times(&name("attn_q"), x);
    let half = |from: usize| -> Rows {
        let part = |row: &Vec<f64>| {
            let heads = row.chunks_exact(2 * dim);
            heads.flat_map(|head| head[from..from + dim].to_vec()).collect()
        };
        both.iter().map(part).collect()
    };
    let mut queries = model.norm_heads(&name("attn_q_norm"), &half(0));
    let mut keys = model.norm_heads(&name("attn_k_norm"), &model.times(&name("attn_k"), x));
    let values = model.times(&name("attn_v"), x);
    rope.turn_rows(&mut queries, dim, 0);
    rope.turn_rows(&mut keys, dim, 0);
    let mut mixed = attention.mix(model, &queries, &keys, &values);
    for (mixed, gate) in mixed.iter_mut().zip(half(dim)) {
        mixed.iter_mut().zip(gate).for_each(|(mixed, gate)| *mixed *= sigmoid(gate));
    }
    model.times(&name("attn_output"), &mixed)
}

/// The gated delta rule, one position after another.
fn remember(model: &Model, layer: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}.weight");
    let dim = model.size("ssm.state_size");
    let key_heads = model.size("ssm.group_count");
    let value_heads = model.size("ssm.time_step_rank");
    let decay = model.values(&format!("blk.{layer}.ssm_a"));
    let bias = model.values(&format!("blk.{layer}.ssm_dt.bias"));
    let betas = model.times(&name("ssm_beta"), x);
    let alphas = model.times(&name("ssm_alpha"), x);
    let gates = model.times(&name("attn_gate"), x);
    let convolved = convolve(model, layer, &model.times(&name("attn_qkv"), x));

    // One matrix for each value head: `state[k * dim + v]`.
    let mut states = vec![vec![0.0; dim * dim]; value_heads];
    let mut out = Rows::new();
    for (position, all) in convolved.iter().enumerate() {
        let (queries, rest) = all.split_at(dim * key_heads);
        let (keys, values) = rest.split_at(dim * key_heads);
        let mut row = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let from = head % key_heads * dim;
            let query = unit(&queries[from..from + dim], model.epsilon());
            let key = unit(&keys[from..from + dim], model.epsilon());
            let value = &values[head * dim..][..dim];
            let softplus = (alphas[position][head] + bias[head]).exp().ln_1p();
            let kept = (decay[head] * softplus).exp();
            let read = step(state, &query, &key, value, kept, sigmoid(betas[position][head]));
            let weights = model.values(&name("ssm_norm"));
            let read = times_each(&normed(&read, model.epsilon()), weights);
            let gate = &gates[position][head * dim..][..dim];
            row.extend(read.iter().zip(gate).map(|(read, gate)| read * silu(*gate)));
        }
        out.push(row);
    }
    model.times(&name("ssm_out"), &out)
}

/// Lets the state fade, corrects what it holds for `key` towards `value`, and reads it at `query`.
fn step(
    state: &mut [f64],
    query: &[f64],
    key: &[f64],
    value: &[f64],
    kept: f64,
    beta: f64,
) -> Vec<f64> {
    let dim = value.len();
    state.iter_mut().for_each(|x| *x *= kept);
    let at = |state: &[f64], by: &[f64], v: usize| -> f64 {
        by.iter().enumerate().map(|(k, x)| state[k * dim + v] * x).sum()
    };
    let correction: Vec<f64> = (0..dim).map(|v| (value[v] - at(state, key, v)) * beta).collect();
    for (k, key) in key.iter().enumerate() {
        for (v, correction) in correction.iter().enumerate() {
            state[k * dim + v] += key * correction;
        }
    }
    let scale = 1.0 / (dim as f64).sqrt();
    (0..dim).map(|v| at(state, query, v) * scale).collect()
}

/// `x` over the root of the sum of its squares.
fn unit(x: &[f64], epsilon: f64) -> Vec<f64> {
    let length = (x.iter().map(|x| x * x).sum::<f64>() + epsilon).sqrt();
    x.iter().map(|x| x / length).collect()
}

/// A causal convolution of each channel with its own kernel, then SiLU.
fn convolve(model: &Model, layer: usize, x: &Rows) -> Rows {
    let kernels = model.values(&format!("blk.{layer}.ssm_conv1d.weight"));
    let width = model.size("ssm.conv_kernel");
    let number = |position: usize, channel: usize| {
        let kernel = &kernels[channel * width..][..width];
        let tap = |(i, weight): (usize, &f64)| match (position + i + 1).checked_sub(width) {
            Some(from) => weight * x[from][channel],
            None => 0.0,
        };
        silu(kernel.iter().enumerate().map(tap).sum())
    };
    let row = |position| (0..x[0].len()).map(|channel| number(position, channel)).collect();
    (0..x.len()).map(row).collect()
}
