//! DeepSeek V2 and V3: multi-head latent attention and experts, some of them always at work.
//!
//! <https://arxiv.org/abs/2405.04434>, <https://arxiv.org/abs/2412.19437>; `DeepseekV2ForCausalLM`
//! of transformers. Keys and values are made anew from the latent vector for every head, as the
//! paper says first; files hold the matrix for that either whole (`attn_kv_b`) or in two parts made
//! for absorbing it (`attn_k_b`, transposed, and `attn_v_b`).

use super::Rows;
use super::attention::Attention;
use super::feed_forward::{Gate, Router, Weighs, gated, mixture, silu};
use super::model::{Model, add_rows};
use super::rope::{Pairs, Rope};

/// Sizes of latent attention.
pub(super) struct Latent {
    pub(super) heads: usize,
    /// Numbers of the vector that keys and values are made from.
    pub(super) rank: usize,
    /// Numbers of a head's key: those that do not turn, then those that do.
    pub(super) still: usize,
    pub(super) turned: usize,
    pub(super) value_dim: usize,
    pub(super) scale: f64,
    pub(super) rope: Rope,
}

pub(super) fn logits(model: &Model, ids: &[u32]) -> Rows {
    let latent = latent(model);
    let router = Router {
        gate: if model.number("expert_gating_func") == Some(2) {
            Gate::Sigmoid
        } else {
            Gate::Softmax
        },
        normalise: model.truth("expert_weights_norm").unwrap_or(false),
        scale: model.fraction("expert_weights_scale").unwrap_or(1.0),
        weighs: Weighs::Output,
    };
    let mut x = model.embed(ids, 1.0);
    for layer in 0..model.layers() {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let h = model.norm(&name("attn_norm"), &x);
        add_rows(&mut x, &latent.attend(model, layer, &h), 1.0);

        let h = model.norm(&name("ffn_norm"), &x);
        if layer < model.number("leading_dense_block_count").unwrap_or(0) {
            add_rows(&mut x, &gated(model, layer, "", silu, &h), 1.0);
        } else {
            add_rows(&mut x, &mixture(model, layer, router, &h), 1.0);
            add_rows(&mut x, &gated(model, layer, "_shexp", silu, &h), 1.0);
        }
    }
    model.head(&model.norm("output_norm.weight", &x))
}

fn latent(model: &Model) -> Latent {
    // Files made for absorption say what they would be without it under keys of their own.
    let key = model.number("attention.key_length_mla");
    let key = key.unwrap_or_else(|| model.size("attention.key_length"));
    let value = model.number("attention.value_length_mla");
    let turned = model.size("rope.dimension_count");
    // YaRN here does not stretch what turned, but all scores.
    let mut scale = 1.0 / (key as f64).sqrt();
    if model.text("rope.scaling.type") == Some("yarn") {
        let factor = model.fraction("rope.scaling.factor").unwrap();
        let multiplier = model.fraction("rope.scaling.yarn_log_multiplier").unwrap();
        scale *= (1.0 + multiplier * factor.ln()).powi(2);
    }
    Latent {
        heads: model.size("attention.head_count"),
        rank: model.size("attention.kv_lora_rank"),
        still: key - turned,
        turned,
        value_dim: value.unwrap_or_else(|| model.size("attention.value_length")),
        scale,
        rope: Rope::of(model, turned, Pairs::Adjacent).with_magnitude(1.0),
    }
}

impl Latent {
    pub(super) fn attend(&self, model: &Model, layer: usize, x: &Rows) -> Rows {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let key_dim = self.still + self.turned;
        let mut queries = match model.has(&name("attn_q_a")) {
            true => {
                let low = model.times(&name("attn_q_a"), x);
                model.times(&name("attn_q_b"), &model.norm(&name("attn_q_a_norm"), &low))
            }
            false => model.times(&name("attn_q"), x),
        };
        self.rope.turn_rows(&mut queries, key_dim, self.still);

        let both = model.times(&name("attn_kv_a_mqa"), x);
        let low: Rows = both.iter().map(|row| row[..self.rank].to_vec()).collect();
        let low = model.norm(&name("attn_kv_a_norm"), &low);
        let mut shared: Rows = both.iter().map(|row| row[self.rank..].to_vec()).collect();
        self.rope.turn_rows(&mut shared, self.turned, 0);

        let (mut keys, mut values) = (Rows::new(), Rows::new());
        for (low, shared) in low.iter().zip(&shared) {
            let (key, value) = self.expand(model, layer, low, shared);
            keys.push(key);
            values.push(value);
        }
        let attention = Attention {
            heads: self.heads,
            kv_heads: self.heads,
            key_dim,
            value_dim: self.value_dim,
            scale: self.scale,
            cap: None,
            window: None,
        };
        let mixed = attention.mix(model, &queries, &keys, &values);
        model.times(&name("attn_output"), &mixed)
    }

    /// Keys and values of all heads of one position.
    fn expand(
        &self,
        model: &Model,
        layer: usize,
        low: &[f64],
        shared: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if model.has(&name("attn_kv_b")) {
            let all = model.times_plane(&name("attn_kv_b"), 0, low);
            for head in all.chunks_exact(self.still + self.value_dim) {
                key.extend_from_slice(&head[..self.still]);
                key.extend_from_slice(shared);
                value.extend_from_slice(&head[self.still..]);
            }
            return (key, value);
        }
        for head in 0..self.heads {
            // One plane for each head; its columns are what a key has that does not turn.
            let plane = self.still * self.rank;
            let plane = &model.values(&name("attn_k_b"))[head * plane..][..plane];
            let still =
                |i| low.iter().enumerate().map(|(l, x)| plane[l * self.still + i] * x).sum();
            key.extend((0..self.still).map(still).collect::<Vec<f64>>());
            key.extend_from_slice(shared);
            value.extend(model.times_plane(&name("attn_v_b"), head, low));
        }
        (key, value)
    }
}
