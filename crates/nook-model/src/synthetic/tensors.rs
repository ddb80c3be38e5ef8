//! Names and dimensions of the tensors of each family, as llama.cpp's converter writes them.

use super::families::{Family, INPUT_WIDTH, SHORT_KERNEL, STREAMS};
use super::recipe::Recipe;

/// Sizes of latent attention, made from a recipe's usual ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latent {
    /// Numbers of the vector that queries are made from.
    pub(super) query_rank: u32,
    /// Numbers of the vector that keys and values are made from.
    pub(super) rank: u32,
    /// Numbers of a head's key that do not turn.
    pub(super) still: u32,
    /// Numbers of a head's key that turn.
    pub(super) turned: u32,
    /// Numbers of a head's value.
    pub(super) value: u32,
}

/// Sizes of a gated delta net, made from a recipe's usual ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeltaNet {
    /// Positions that its convolution sees.
    pub(super) kernel: u32,
    /// Numbers of a head.
    pub(super) dim: u32,
    pub(super) key_heads: u32,
    pub(super) value_heads: u32,
}

/// Sizes of Mamba-2 layers, made from a recipe's usual ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mamba {
    /// Positions that its convolution sees.
    pub(super) kernel: u32,
    pub(super) heads: u32,
    /// Numbers of a head.
    pub(super) dim: u32,
    pub(super) groups: u32,
    /// Numbers of a place.
    pub(super) places: u32,
}

impl Latent {
    /// Numbers of a head's key.
    pub(super) fn key(self) -> u32 {
        self.still + self.turned
    }
}

impl Recipe {
    pub(super) fn latent(&self) -> Latent {
        Latent {
            query_rank: self.hidden / 2,
            rank: self.hidden / 2,
            still: self.head_dim,
            turned: self.head_dim / 2,
            // MiniCPM 3's files do not say it: it is the heads' share of the hidden state.
            value: self.hidden / self.heads,
        }
    }

    /// Layers of a Gemma 3n or 4 that have keys and values of their own.
    pub(super) fn own_kv_layers(&self) -> u32 {
        self.layers / 2 + 1
    }

    /// Width of one expert in layer `layer` of a Nemotron-H; 0 where there are none.
    pub(super) fn own_expert_width(&self, layer: u32) -> u32 {
        let is_mixture = self.family.is_mixture_alone(layer);
        if is_mixture { (1 + layer / 3) * self.expert_feed_forward } else { 0 }
    }

    /// Experts that a position uses in layer `layer` of a Nemotron-H; 0 where there are none.
    pub(super) fn own_experts_used(&self, layer: u32) -> u32 {
        let is_mixture = self.family.is_mixture_alone(layer);
        if is_mixture { self.experts_used + layer / 3 } else { 0 }
    }

    /// Width that the experts of a Nemotron-H compute in.
    pub(super) fn latent_width(&self) -> u32 {
        self.hidden / 2
    }

    pub(super) fn mamba(&self) -> Mamba {
        let (heads, dim) = (2 * self.heads, self.head_dim);
        Mamba { kernel: 4, heads, dim, groups: 2, places: self.head_dim }
    }

    pub(super) fn delta_net(&self) -> DeltaNet {
        DeltaNet {
            kernel: 4,
            dim: self.head_dim / 2,
            key_heads: self.kv_heads,
            value_heads: self.heads,
        }
    }
}

/// All tensors, in file order.
pub(super) fn all(recipe: &Recipe) -> Vec<(String, Vec<u32>)> {
    let mut listing = Listing { prefix: String::new(), all: Vec::new() };
    globals(recipe, &mut listing);
    for layer in 0..recipe.layers {
        listing.prefix = format!("blk.{layer}.");
        norms(recipe, &mut listing);
        mixer(recipe, layer, &mut listing);
        feed_forward(recipe, layer, &mut listing);
    }
    listing.all
}

struct Listing {
    prefix: String,
    all: Vec<(String, Vec<u32>)>,
}

impl Listing {
    /// A tensor with its whole name and its dimensions, fastest first.
    fn put(&mut self, name: &str, dimensions: &[u32]) {
        self.all.push((format!("{}{name}", self.prefix), dimensions.to_vec()));
    }

    /// `NAME.weight`.
    fn weight(&mut self, name: &str, dimensions: &[u32]) {
        self.put(&format!("{name}.weight"), dimensions);
    }

    /// `NAME.weight` and a bias for each of its rows.
    fn biased(&mut self, name: &str, dimensions: &[u32]) {
        self.weight(name, dimensions);
        if let Some(rows) = dimensions.last() {
            self.put(&format!("{name}.bias"), &[*rows]);
        }
    }
}

fn globals(recipe: &Recipe, listing: &mut Listing) {
    let family = recipe.family;
    if recipe.rope_factors && family == Family::Llama {
        listing.weight("rope_freqs", &[recipe.head_dim / 2]);
    }
    let pairs = match family {
        Family::Phi3LongRope => Some(recipe.head_dim / 2),
        Family::Minicpm3 => Some(recipe.latent().turned / 2),
        _ => None,
    };
    if let Some(pairs) = pairs {
        listing.weight("rope_factors_long", &[pairs]);
        listing.weight("rope_factors_short", &[pairs]);
    }
    if family == Family::Gemma4 {
        listing.weight("rope_freqs", &[recipe.head_dim]);
    }
    if family == Family::Gemma3n {
        listing.weight("altup_proj", &[recipe.hidden, recipe.hidden, STREAMS - 1]);
        listing.weight("altup_unembd_proj", &[recipe.hidden, recipe.hidden, STREAMS - 1]);
    }
    if matches!(family, Family::Gemma3n | Family::Gemma4) {
        let all = recipe.layers * INPUT_WIDTH;
        listing.weight("per_layer_token_embd", &[all, recipe.vocabulary]);
        listing.weight("per_layer_model_proj", &[recipe.hidden, all]);
        listing.weight("per_layer_proj_norm", &[INPUT_WIDTH]);
    }
    let table = [recipe.hidden, recipe.vocabulary];
    listing.weight("token_embd", &table);
    match family {
        Family::Starcoder2 => listing.biased("output_norm", &[recipe.hidden]),
        Family::Lfm2Moe => listing.weight("token_embd_norm", &[recipe.hidden]),
        _ => listing.weight("output_norm", &[recipe.hidden]),
    }
    if !recipe.is_tied() {
        listing.weight("output", &table);
    }
}

/// The norms of whole hidden states.
fn norms(recipe: &Recipe, listing: &mut Listing) {
    let names: &[&str] = match recipe.family {
        Family::Olmo2 => &["post_attention_norm", "post_ffw_norm"],
        Family::Qwen35 | Family::GptOss => &["attn_norm", "post_attention_norm"],
        Family::Gemma => &["attn_norm", "ffn_norm"],
        Family::NemotronHMoe => &["attn_norm"],
        Family::Glm4 => &["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"],
        family if family.is_gemma() => {
            &["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]
        }
        _ => &["attn_norm", "ffn_norm"],
    };
    for name in names {
        match recipe.family {
            Family::Starcoder2 => listing.biased(name, &[recipe.hidden]),
            _ => listing.weight(name, &[recipe.hidden]),
        }
    }
}

fn mixer(recipe: &Recipe, layer: u32, listing: &mut Listing) {
    match recipe.family {
        Family::Qwen35 if recipe.family.is_recurrent(layer) => delta_net(recipe, listing),
        Family::Lfm2Moe if recipe.family.is_recurrent(layer) => short_conv(recipe, listing),
        Family::Gemma3n => gemma3n(recipe, listing),
        Family::Gemma4 => gemma4(recipe, layer, listing),
        Family::GraniteHybrid | Family::NemotronHMoe if recipe.family.is_recurrent(layer) => {
            mamba(recipe, listing);
        }
        family if family.is_mixture_alone(layer) => {}
        family if family.is_latent() => latent(recipe, listing),
        _ => attention(recipe, listing),
    }
}

fn attention(recipe: &Recipe, listing: &mut Listing) {
    let family = recipe.family;
    let hidden = recipe.hidden;
    let (query, key) = (recipe.heads * recipe.head_dim, recipe.kv_heads * recipe.head_dim);
    match family {
        Family::Phi3 | Family::Phi3LongRope => {
            listing.weight("attn_qkv", &[hidden, query + 2 * key])
        }
        Family::Qwen2 | Family::Qwen2Yarn | Family::Glm4 | Family::Starcoder2 | Family::GptOss => {
            listing.biased("attn_q", &[hidden, query]);
            listing.biased("attn_k", &[hidden, key]);
            listing.biased("attn_v", &[hidden, key]);
        }
        _ => {
            // The gate of a head follows its query.
            let gated = if family == Family::Qwen35 { 2 } else { 1 };
            listing.weight("attn_q", &[hidden, query * gated]);
            listing.weight("attn_k", &[hidden, key]);
            listing.weight("attn_v", &[hidden, key]);
        }
    }
    match family {
        Family::Starcoder2 => listing.biased("attn_output", &[query, hidden]),
        Family::GptOss => {
            listing.biased("attn_output", &[query, hidden]);
            listing.weight("attn_sinks", &[recipe.heads]);
        }
        _ => listing.weight("attn_output", &[query, hidden]),
    }
    match family {
        Family::Olmo2 => {
            listing.weight("attn_q_norm", &[query]);
            listing.weight("attn_k_norm", &[key]);
        }
        Family::Qwen3
        | Family::Qwen3Moe
        | Family::Qwen35
        | Family::Lfm2Moe
        | Family::Gemma3
        | Family::Gemma3Large
        | Family::Gemma3n => {
            listing.weight("attn_q_norm", &[recipe.head_dim]);
            listing.weight("attn_k_norm", &[recipe.head_dim]);
        }
        _ => {}
    }
}

fn latent(recipe: &Recipe, listing: &mut Listing) {
    let Latent { query_rank, rank, still, turned, value } = recipe.latent();
    let (hidden, heads) = (recipe.hidden, recipe.heads);
    let query = heads * (still + turned);
    if recipe.family == Family::Deepseek2Lite {
        listing.weight("attn_q", &[hidden, query]);
    } else {
        listing.weight("attn_q_a", &[hidden, query_rank]);
        listing.weight("attn_q_a_norm", &[query_rank]);
        listing.weight("attn_q_b", &[query_rank, query]);
    }
    listing.weight("attn_kv_a_mqa", &[hidden, rank + turned]);
    listing.weight("attn_kv_a_norm", &[rank]);
    match recipe.family {
        Family::Deepseek2Whole | Family::Minicpm3 => {
            listing.weight("attn_kv_b", &[rank, heads * (still + value)]);
        }
        _ => {
            listing.weight("attn_k_b", &[still, rank, heads]);
            listing.weight("attn_v_b", &[rank, value, heads]);
        }
    }
    listing.weight("attn_output", &[heads * value, hidden]);
}

fn delta_net(recipe: &Recipe, listing: &mut Listing) {
    let DeltaNet { kernel, dim, key_heads, value_heads } = recipe.delta_net();
    let (keys, values) = (dim * key_heads, dim * value_heads);
    let hidden = recipe.hidden;
    listing.weight("attn_qkv", &[hidden, 2 * keys + values]);
    listing.weight("attn_gate", &[hidden, values]);
    listing.weight("ssm_conv1d", &[kernel, 2 * keys + values]);
    listing.put("ssm_dt.bias", &[value_heads]);
    listing.put("ssm_a", &[value_heads]);
    listing.weight("ssm_beta", &[hidden, value_heads]);
    listing.weight("ssm_alpha", &[hidden, value_heads]);
    listing.weight("ssm_norm", &[dim]);
    listing.weight("ssm_out", &[values, hidden]);
}

fn gemma4(recipe: &Recipe, layer: u32, listing: &mut Listing) {
    let (hidden, slides) = (recipe.hidden, Family::slides(layer));
    let (dim, kv_heads) =
        if slides { (recipe.head_dim, recipe.kv_heads) } else { (2 * recipe.head_dim, 1) };
    listing.weight("attn_q", &[hidden, recipe.heads * dim]);
    listing.weight("attn_q_norm", &[dim]);
    if layer < recipe.own_kv_layers() {
        listing.weight("attn_k", &[hidden, kv_heads * dim]);
        listing.weight("attn_k_norm", &[dim]);
        if slides {
            listing.weight("attn_v", &[hidden, kv_heads * dim]);
        }
    }
    listing.weight("attn_output", &[recipe.heads * dim, hidden]);
    layer_input(hidden, listing);
    listing.weight("layer_output_scale", &[1]);
}

fn layer_input(hidden: u32, listing: &mut Listing) {
    listing.weight("inp_gate", &[hidden, INPUT_WIDTH]);
    listing.weight("proj", &[INPUT_WIDTH, hidden]);
    listing.weight("post_norm", &[hidden]);
}

/// Keys and values of all layers: files have those of layers that read others', too.
fn gemma3n(recipe: &Recipe, listing: &mut Listing) {
    let (hidden, rank) = (recipe.hidden, recipe.hidden / 4);
    attention(recipe, listing);
    listing.weight("altup_correct_coef", &[STREAMS, STREAMS]);
    listing.weight("altup_correct_scale", &[hidden]);
    listing.weight("altup_predict_coef", &[STREAMS, STREAMS * STREAMS]);
    listing.weight("altup_router", &[hidden, STREAMS]);
    listing.weight("altup_router_norm", &[hidden]);
    listing.weight("laurel_l", &[hidden, rank]);
    listing.weight("laurel_r", &[rank, hidden]);
    listing.weight("laurel_post_norm", &[hidden]);
    layer_input(hidden, listing);
}

fn short_conv(recipe: &Recipe, listing: &mut Listing) {
    let hidden = recipe.hidden;
    listing.weight("shortconv.conv", &[SHORT_KERNEL, hidden]);
    listing.weight("shortconv.in_proj", &[hidden, 3 * hidden]);
    listing.weight("shortconv.out_proj", &[hidden, hidden]);
}

fn mamba(recipe: &Recipe, listing: &mut Listing) {
    let Mamba { kernel, heads, dim, groups, places } = recipe.mamba();
    let (hidden, inner) = (recipe.hidden, heads * dim);
    let channels = inner + 2 * groups * places;
    listing.weight("ssm_in", &[hidden, inner + channels + heads]);
    listing.biased("ssm_conv1d", &[kernel, channels]);
    listing.put("ssm_dt.bias", &[heads]);
    listing.put("ssm_a", &[1, heads]);
    listing.put("ssm_d", &[1, heads]);
    listing.weight("ssm_norm", &[inner / groups, groups]);
    listing.weight("ssm_out", &[inner, hidden]);
}

fn feed_forward(recipe: &Recipe, layer: u32, listing: &mut Listing) {
    let (hidden, width) = (recipe.hidden, recipe.feed_forward);
    match recipe.family {
        Family::Mixtral => experts(recipe, width, listing),
        Family::Qwen3Moe => experts(recipe, recipe.expert_feed_forward, listing),
        Family::GptOss => biased_experts(recipe, listing),
        Family::GraniteHybrid => {
            // Files name the width of an expert as that of a layer.
            experts(recipe, width, listing);
            gated("_shexp", hidden, recipe.expert_feed_forward, listing);
        }
        family if family.is_mixture_alone(layer) => squared_experts(recipe, layer, listing),
        Family::NemotronHMoe => {}
        Family::Lfm2Moe if layer >= 2 => {
            experts(recipe, recipe.expert_feed_forward, listing);
            listing.put("exp_probs_b.bias", &[recipe.experts]);
        }
        Family::Llama4 if layer % 2 == 1 => {
            experts(recipe, recipe.expert_feed_forward, listing);
            gated("_shexp", hidden, recipe.expert_feed_forward, listing);
        }
        family if family.is_deepseek() && layer > 0 => {
            experts(recipe, recipe.expert_feed_forward, listing);
            gated("_shexp", hidden, 2 * recipe.expert_feed_forward, listing);
            if family == Family::Deepseek3 {
                listing.put("exp_probs_b.bias", &[recipe.experts]);
            }
        }
        Family::Starcoder2 => {
            listing.biased("ffn_up", &[hidden, width]);
            listing.biased("ffn_down", &[width, hidden]);
        }
        // Gate and up in one.
        Family::Phi3 | Family::Phi3LongRope | Family::Glm4 => {
            listing.weight("ffn_up", &[hidden, 2 * width]);
            listing.weight("ffn_down", &[width, hidden]);
        }
        _ => gated("", hidden, width, listing),
    }
}

fn gated(ending: &str, hidden: u32, width: u32, listing: &mut Listing) {
    listing.weight(&format!("ffn_gate{ending}"), &[hidden, width]);
    listing.weight(&format!("ffn_up{ending}"), &[hidden, width]);
    listing.weight(&format!("ffn_down{ending}"), &[width, hidden]);
}

fn biased_experts(recipe: &Recipe, listing: &mut Listing) {
    let (hidden, width) = (recipe.hidden, recipe.expert_feed_forward);
    experts(recipe, width, listing);
    listing.put("ffn_gate_inp.bias", &[recipe.experts]);
    for (name, width) in [("gate", width), ("up", width), ("down", hidden)] {
        listing.put(&format!("ffn_{name}_exps.bias"), &[width, recipe.experts]);
    }
}

/// Experts without gates in a latent space, and a shared one in the wide one.
fn squared_experts(recipe: &Recipe, layer: u32, listing: &mut Listing) {
    let (hidden, count, latent) = (recipe.hidden, recipe.experts, recipe.latent_width());
    let (width, shared) = (recipe.own_expert_width(layer), recipe.feed_forward);
    listing.weight("ffn_gate_inp", &[hidden, count]);
    listing.put("exp_probs_b.bias", &[count]);
    listing.weight("ffn_latent_down", &[hidden, latent]);
    listing.weight("ffn_latent_up", &[latent, hidden]);
    listing.weight("ffn_up_exps", &[latent, width, count]);
    listing.weight("ffn_down_exps", &[width, latent, count]);
    listing.weight("ffn_up_shexp", &[hidden, shared]);
    listing.weight("ffn_down_shexp", &[shared, hidden]);
}

fn experts(recipe: &Recipe, width: u32, listing: &mut Listing) {
    let (hidden, count) = (recipe.hidden, recipe.experts);
    listing.weight("ffn_gate_inp", &[hidden, count]);
    listing.weight("ffn_gate_exps", &[hidden, width, count]);
    listing.weight("ffn_up_exps", &[hidden, width, count]);
    listing.weight("ffn_down_exps", &[width, hidden, count]);
}
