//! Granite 4: Mamba-2, attention without positions in layers that have key-value heads, experts
//! beside a shared one, and Granite's multipliers.
//!
//! <https://arxiv.org/abs/2405.21060>; `GraniteMoeHybridForCausalLM` of transformers.

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, silu};
use super::model::{Model, add_rows, normed, times_each};

/// A softmax of the chosen alone is that of all, normalised.
const ROUTER: Router =
    Router { gate: Gate::Softmax, normalise: true, scale: 1.0, weighs: Weighs::Output };

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let fraction = |key: &str| model.fraction(key).unwrap();
    let residual = fraction("residual_scale");
    let kv_heads = model.numbers("attention.head_count_kv");
    let mut x = model.embed(ids, fraction("embedding_scale"));
    for (layer, kv_heads) in kv_heads.into_iter().enumerate() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        let out = match kv_heads {
            0 => remember(model, layer, &h),
            _ => {
                let scale = fraction("attention.scale");
                let attention = Attention { scale, ..Attention::with_kv_heads(model, kv_heads) };
                let project = |part: &str| model.times(&name(part), &h);
                let (queries, keys) = (project("attn_q"), project("attn_k"));
                let mixed = attention.mix(model, &queries, &keys, &project("attn_v"));
                model.times(&name("attn_output"), &mixed)
            }
        };
        add_rows(&mut x, &out, residual);
        let h = model.norm(&name("ffn_norm"), &x);
        add_rows(&mut x, &mixture(model, layer, ROUTER, &h), residual);
        add_rows(&mut x, &gated(model, layer, "_shexp", silu, &h), residual);
    }
    let mut logits = model.head(&model.norm("output_norm.weight", &x));
    let divisor = fraction("logit_scale");
    logits.iter_mut().flatten().for_each(|logit| *logit /= divisor);
    logits
}

/// The state space model, one position after another.
pub(super) fn remember(model: &Model, layer: usize, x: &Rows) -> Rows {
    let name = |part: &str| format!("blk.{layer}.{part}");
    let heads = model.size("ssm.time_step_rank");
    let inner = model.size("ssm.inner_size");
    let (groups, places) = (model.size("ssm.group_count"), model.size("ssm.state_size"));
    let (dim, channels) = (inner / heads, inner + 2 * groups * places);
    let [decay, skip, bias] =
        ["ssm_a", "ssm_d", "ssm_dt.bias"].map(|part| model.values(&name(part)));
    let all = model.times(&name("ssm_in.weight"), x);
    let mixed: Rows = all.iter().map(|row| row[inner..inner + channels].to_vec()).collect();
    let mixed = convolve(model, layer, &mixed);

    // `states[head][d][place]`.
    let mut states = vec![vec![vec![0.0; places]; dim]; heads];
    let mut out = Rows::new();
    for (all, mixed) in all.iter().zip(&mixed) {
        let mut row = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let step = (all[inner + channels + head] + bias[head]).exp().ln_1p();
            let kept = (step * decay[head]).exp();
            let group = head / (heads / groups) * places;
            let puts = &mixed[inner + group..][..places];
            let reads = &mixed[inner + groups * places + group..][..places];
            for (d, line) in state.iter_mut().enumerate() {
                let input = mixed[head * dim + d];
                for (held, put) in line.iter_mut().zip(puts) {
                    *held = *held * kept + step * input * put;
                }
                let read: f64 = line.iter().zip(reads).map(|(held, read)| held * read).sum();
                row.push(read + skip[head] * input);
            }
        }
        let gated: Vec<f64> = row.iter().zip(all).map(|(x, gate)| x * silu(*gate)).collect();
        let parts = gated.chunks_exact(inner / groups);
        let normed: Vec<f64> = parts.flat_map(|part| normed(part, model.epsilon())).collect();
        out.push(times_each(&normed, model.values(&name("ssm_norm.weight"))));
    }
    model.times(&name("ssm_out.weight"), &out)
}

/// A causal convolution of each channel with its own kernel and a bias, then SiLU.
fn convolve(model: &Model, layer: usize, x: &Rows) -> Rows {
    let kernels = model.values(&format!("blk.{layer}.ssm_conv1d.weight"));
    let bias = model.values(&format!("blk.{layer}.ssm_conv1d.bias"));
    let width = model.size("ssm.conv_kernel");
    let number = |position: usize, channel: usize| {
        let tap = |(i, weight): (usize, &f64)| match (position + i + 1).checked_sub(width) {
            Some(from) => weight * x[from][channel],
            None => 0.0,
        };
        let kernel = &kernels[channel * width..][..width];
        silu(kernel.iter().enumerate().map(tap).sum::<f64>() + bias[channel])
    };
    let row = |position| (0..x[0].len()).map(|channel| number(position, channel)).collect();
    (0..x.len()).map(row).collect()
}
