//! The families that random models can be of: their metadata keys, and a tiny shape for each.
//!
//! Keys are those that llama.cpp's converter writes for the family. Values that only matter for
//! real sizes are made small, so that a short prompt reaches what they switch: windows of 8
//! positions, original contexts of 128, soft caps that bend.

use super::recipe::Recipe;
use crate::gguf::Value;

/// Numbers of a layer's input by token.
pub(super) const INPUT_WIDTH: u32 = 8;

/// Hidden states of a position side by side, in models that have several.
pub(super) const STREAMS: u32 = 3;

/// Positions that a gated short convolution sees.
pub(super) const SHORT_KERNEL: u32 = 3;

/// A family, or a form of one that is computed in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Llama 1 to 3.
    Llama,
    /// Mistral: heads that are wider than their share of the hidden state.
    Mistral,
    /// Mixtral: Llama with experts.
    Mixtral,
    /// Qwen 2 and 2.5.
    Qwen2,
    /// Qwen 2.5 with YaRN.
    Qwen2Yarn,
    /// Qwen 3.
    Qwen3,
    /// Qwen 3 with experts.
    Qwen3Moe,
    /// Qwen 3.5: gated delta nets and gated attention.
    Qwen35,
    /// Gemma 1.
    Gemma,
    /// Gemma 2: local and global layers, soft caps.
    Gemma2,
    /// Gemma 2 27B: 46 layers, and another attention scale.
    Gemma2Large,
    /// Gemma 3: five local layers to a global one.
    Gemma3,
    /// Gemma 3 27B: 62 layers, and another attention scale.
    Gemma3Large,
    /// Phi-3.
    Phi3,
    /// Phi-3 with LongRoPE.
    Phi3LongRope,
    /// StarCoder2.
    Starcoder2,
    /// GLM-4.
    Glm4,
    /// MiniCPM.
    Minicpm,
    /// MiniCPM 3.
    Minicpm3,
    /// OLMo 2.
    Olmo2,
    /// Granite.
    Granite,
    /// DeepSeek V2, its latent matrices split for absorption.
    Deepseek2,
    /// DeepSeek V2 in older files: one latent matrix for keys and values.
    Deepseek2Whole,
    /// DeepSeek V2 Lite: 27 layers, queries without a latent vector, YaRN.
    Deepseek2Lite,
    /// DeepSeek V3: experts chosen by sigmoid and bias.
    Deepseek3,
    /// Llama 4.
    Llama4,
    /// gpt-oss: attention sinks, windows, clamped experts with biases.
    GptOss,
    /// SmolLM3: every fourth layer without positions.
    Smollm3,
    /// Gemma 3n: several hidden states side by side, inputs of layers by token, and late layers that
    /// read earlier ones.
    Gemma3n,
    /// A small Gemma 4: inputs of layers by token, and late layers that read earlier ones.
    Gemma4,
    /// LFM2 with experts: gated short convolutions.
    Lfm2Moe,
    /// Granite 4: Mamba-2, experts beside a shared one.
    GraniteHybrid,
    /// Nemotron 3 Puzzle: layers of one part; experts in a latent space, whose width and number
    /// used differ from layer to layer.
    NemotronHMoe,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 33] = [
        Self::Llama,
        Self::Mistral,
        Self::Mixtral,
        Self::Qwen2,
        Self::Qwen2Yarn,
        Self::Qwen3,
        Self::Qwen3Moe,
        Self::Qwen35,
        Self::Gemma,
        Self::Gemma2,
        Self::Gemma2Large,
        Self::Gemma3,
        Self::Gemma3Large,
        Self::Phi3,
        Self::Phi3LongRope,
        Self::Starcoder2,
        Self::Glm4,
        Self::Minicpm,
        Self::Minicpm3,
        Self::Olmo2,
        Self::Granite,
        Self::Deepseek2,
        Self::Deepseek2Whole,
        Self::Deepseek2Lite,
        Self::Deepseek3,
        Self::Llama4,
        Self::GptOss,
        Self::Smollm3,
        Self::Gemma3n,
        Self::Gemma4,
        Self::Lfm2Moe,
        Self::GraniteHybrid,
        Self::NemotronHMoe,
    ];

    /// What `general.architecture` says.
    #[must_use]
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Llama | Self::Mistral | Self::Mixtral => "llama",
            Self::Qwen2 | Self::Qwen2Yarn => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3moe",
            Self::Qwen35 => "qwen35",
            Self::Gemma => "gemma",
            Self::Gemma2 | Self::Gemma2Large => "gemma2",
            Self::Gemma3 | Self::Gemma3Large => "gemma3",
            Self::Phi3 | Self::Phi3LongRope => "phi3",
            Self::Starcoder2 => "starcoder2",
            Self::Glm4 => "glm4",
            Self::Minicpm => "minicpm",
            Self::Minicpm3 => "minicpm3",
            Self::Olmo2 => "olmo2",
            Self::Granite => "granite",
            Self::Llama4 => "llama4",
            Self::GptOss => "gpt-oss",
            Self::Smollm3 => "smollm3",
            Self::Gemma3n => "gemma3n",
            Self::Gemma4 => "gemma4",
            Self::Lfm2Moe => "lfm2moe",
            Self::GraniteHybrid => "granitehybrid",
            Self::NemotronHMoe => "nemotron_h_moe",
            Self::Deepseek2 | Self::Deepseek2Whole | Self::Deepseek2Lite | Self::Deepseek3 => {
                "deepseek2"
            }
        }
    }

    /// Whether some layers are mixtures of experts.
    #[must_use]
    pub fn has_experts(self) -> bool {
        let hybrid = matches!(self, Self::Lfm2Moe | Self::GraniteHybrid | Self::NemotronHMoe);
        let newer = hybrid || self == Self::GptOss;
        let older = matches!(self, Self::Mixtral | Self::Qwen3Moe | Self::Llama4);
        self.is_deepseek() || newer || older
    }

    /// Whether it has layers that candle has no code for.
    #[must_use]
    pub fn needs_processor(self) -> bool {
        let hybrid = matches!(self, Self::Lfm2Moe | Self::GraniteHybrid | Self::NemotronHMoe);
        hybrid || matches!(self, Self::GptOss | Self::Gemma3n | Self::Gemma4)
    }

    /// Whether layer `layer` of a Gemma 3n or 4 sees a window alone.
    pub(super) fn slides(layer: u32) -> bool {
        layer % 3 != 2
    }

    /// Whether layer `layer` remembers in one state instead of keys and values.
    pub(super) fn is_recurrent(self, layer: u32) -> bool {
        match self {
            Self::Qwen35 => layer % 4 != 3,
            Self::Lfm2Moe | Self::GraniteHybrid => layer % 3 != 2,
            Self::NemotronHMoe => layer.is_multiple_of(3),
            _ => false,
        }
    }

    /// Whether layer `layer` of a Nemotron-H is a mixture and nothing else.
    pub(super) fn is_mixture_alone(self, layer: u32) -> bool {
        self == Self::NemotronHMoe && layer % 3 == 1
    }

    /// Whether it has multi-head latent attention.
    #[must_use]
    pub fn is_latent(self) -> bool {
        self.is_deepseek() || self == Self::Minicpm3
    }

    pub(super) fn is_deepseek(self) -> bool {
        self.architecture() == "deepseek2"
    }

    pub(super) fn is_gemma(self) -> bool {
        self.architecture().starts_with("gemma")
    }

    /// Whether its output matrix is the embedding, in a family that leaves no choice: `true` for
    /// Gemma and StarCoder2, `false` for OLMo 2.
    pub(super) fn fixed_tie(self) -> Option<bool> {
        match self {
            Self::Starcoder2 => Some(true),
            Self::Olmo2 => Some(false),
            _ => self.is_gemma().then_some(true),
        }
    }

    /// `recipe` with what the family needs to show itself in a tiny model.
    pub(super) fn tiny(self, recipe: Recipe) -> Recipe {
        let untied = Recipe { tied_output: false, ..recipe.clone() };
        match self {
            Self::Llama | Self::Minicpm | Self::Granite | Self::Starcoder2 => recipe,
            Self::Mistral => Recipe { head_dim: 32, ..untied },
            Self::Qwen2 => recipe,
            Self::Qwen3 | Self::Qwen3Moe => Recipe { head_dim: 32, experts_used: 3, ..untied },
            Self::Qwen35 => Recipe { layers: 8, head_dim: 32, ..recipe },
            Self::Smollm3 => Recipe { layers: 5, ..recipe },
            Self::Gemma3n | Self::Gemma4 => Recipe { layers: 7, ..recipe },
            Self::Lfm2Moe => Recipe { layers: 6, experts_used: 3, ..recipe },
            Self::GraniteHybrid | Self::NemotronHMoe => Recipe { layers: 6, ..untied },
            Self::GptOss => Recipe { head_dim: 32, experts_used: 3, ..untied },
            Self::Gemma | Self::Gemma2 => Recipe { head_dim: 32, kv_heads: 1, ..recipe },
            Self::Gemma2Large => Recipe { layers: 46, head_dim: 32, ..recipe },
            Self::Gemma3 => Recipe { layers: 7, head_dim: 32, kv_heads: 1, ..recipe },
            Self::Gemma3Large => Recipe { layers: 62, head_dim: 32, ..recipe },
            Self::Deepseek2Lite => Recipe { layers: 27, kv_heads: 4, ..untied },
            Self::Minicpm3 | Self::Deepseek2 | Self::Deepseek2Whole | Self::Deepseek3 => {
                Recipe { kv_heads: 4, ..untied }
            }
            _ => untied,
        }
    }

    /// The keys after `ARCHITECTURE.`, in file order.
    pub(super) fn keys(self, recipe: &Recipe) -> Vec<(&'static str, Value)> {
        let mut keys = common(self, recipe);
        keys.extend(heads(self, recipe));
        keys.extend(rope(self, recipe));
        keys.extend(own(self, recipe));
        keys.push(("vocab_size", number(recipe.vocabulary)));
        keys
    }
}

fn number(number: u32) -> Value {
    Value::Unsigned(u64::from(number))
}

/// A number for each layer, signed as llama.cpp's converter writes lists.
fn by_layer(recipe: &Recipe, of: impl Fn(u32) -> u32) -> Value {
    Value::Signeds((0..recipe.layers).map(|layer| of(layer) as i32).collect())
}

/// Written in single precision, as all fractions are.
fn fraction(number: f64) -> Value {
    Value::Float(f64::from(number as f32))
}

fn common(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let epsilon = match family {
        Family::Qwen2 | Family::Qwen2Yarn | Family::Qwen3 | Family::Qwen3Moe | Family::Qwen35 => {
            1e-6
        }
        _ if family.is_gemma() || family.is_deepseek() || family == Family::Olmo2 => 1e-6,
        _ => 1e-5,
    };
    let epsilon_key = match family {
        Family::Starcoder2 => "attention.layer_norm_epsilon",
        _ => "attention.layer_norm_rms_epsilon",
    };
    // Absorbed latent attention is attention with one key-value head.
    let absorbed = family.is_deepseek() && family != Family::Deepseek2Whole;
    let kv_heads = match family {
        // None in layers without attention.
        Family::Lfm2Moe | Family::GraniteHybrid | Family::NemotronHMoe => {
            let has_none = |layer| family.is_recurrent(layer) || family.is_mixture_alone(layer);
            by_layer(recipe, |layer| if has_none(layer) { 0 } else { recipe.kv_heads })
        }
        // One in layers that see everything.
        Family::Gemma4 => {
            by_layer(recipe, |layer| if Family::slides(layer) { recipe.kv_heads } else { 1 })
        }
        _ => number(if absorbed { 1 } else { recipe.kv_heads }),
    };
    let width = match family {
        // 0 in layers without a feed-forward part.
        Family::NemotronHMoe => by_layer(recipe, |layer| recipe.own_expert_width(layer)),
        _ => number(recipe.feed_forward),
    };
    vec![
        ("block_count", number(recipe.layers)),
        ("context_length", number(recipe.context_length)),
        ("embedding_length", number(recipe.hidden)),
        ("feed_forward_length", width),
        ("attention.head_count", number(recipe.heads)),
        ("attention.head_count_kv", kv_heads),
        (epsilon_key, fraction(epsilon)),
    ]
}

/// Widths of heads.
fn heads(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let latent = recipe.latent();
    let pair = |key, value| {
        vec![("attention.key_length", number(key)), ("attention.value_length", number(value))]
    };
    match family {
        Family::Gemma4 => {
            let mut keys = pair(2 * recipe.head_dim, 2 * recipe.head_dim);
            keys.push(("attention.key_length_swa", number(recipe.head_dim)));
            keys.push(("attention.value_length_swa", number(recipe.head_dim)));
            keys
        }
        Family::Minicpm3 => vec![("attention.key_length", number(latent.key()))],
        Family::Deepseek2Whole => pair(latent.key(), latent.value),
        _ if family.is_deepseek() => {
            let mut keys = pair(latent.rank + latent.turned, latent.rank);
            keys.push(("attention.key_length_mla", number(latent.key())));
            keys.push(("attention.value_length_mla", number(latent.value)));
            keys
        }
        // Where the converter writes none, the width is the heads' share of the hidden state.
        Family::Qwen2 | Family::Qwen2Yarn | Family::Starcoder2 | Family::Olmo2 => Vec::new(),
        Family::Phi3 | Family::Phi3LongRope | Family::Minicpm | Family::Granite => Vec::new(),
        _ => pair(recipe.head_dim, recipe.head_dim),
    }
}

fn rope(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    if matches!(family, Family::GraniteHybrid | Family::NemotronHMoe) {
        // Nothing turns.
        return vec![("rope.scaling.finetuned", Value::Bool(false))];
    }
    let base = match family {
        Family::Llama if recipe.rope_factors => 500_000.0,
        Family::Mistral
        | Family::Mixtral
        | Family::Gemma3
        | Family::Gemma3Large
        | Family::Gemma3n
        | Family::Gemma4 => 1e6,
        Family::Qwen2 | Family::Qwen2Yarn | Family::Qwen3 | Family::Qwen3Moe => 1e6,
        Family::Qwen35 => 1e7,
        Family::Olmo2 | Family::Llama4 => 500_000.0,
        Family::Starcoder2 => 100_000.0,
        _ => 10_000.0,
    };
    let mut keys = vec![("rope.freq_base", fraction(base))];
    let turned = match family {
        Family::Qwen2 | Family::Qwen2Yarn | Family::Qwen3 | Family::Qwen3Moe => None,
        Family::Starcoder2 | Family::Olmo2 => None,
        Family::Glm4 => Some(recipe.head_dim / 2),
        Family::Qwen35 => Some(recipe.head_dim / 4),
        _ if family.is_gemma() => None,
        _ if family.is_latent() => Some(recipe.latent().turned),
        _ => Some(recipe.head_dim),
    };
    keys.extend(turned.map(|turned| ("rope.dimension_count", number(turned))));
    let (factor, original) = (4.0, recipe.context_length / 4);
    let scaling = |kind: &str| {
        vec![
            ("rope.scaling.type", Value::Text(kind.to_owned())),
            ("rope.scaling.factor", fraction(factor)),
        ]
    };
    let original_key = "rope.scaling.original_context_length";
    match family {
        Family::Qwen2Yarn | Family::GptOss => {
            keys.extend(scaling("yarn"));
            keys.push((original_key, number(original)));
        }
        Family::Deepseek2Lite => {
            keys.extend(scaling("yarn"));
            keys.push((original_key, number(original)));
            keys.push(("rope.scaling.yarn_log_multiplier", fraction(0.0707)));
        }
        Family::Gemma3 | Family::Gemma3Large => keys.extend(scaling("linear")),
        Family::Phi3 => keys.push((original_key, number(recipe.context_length))),
        Family::Phi3LongRope => {
            let stretch = 1.0 + f64::ln(factor) / f64::from(original).ln();
            keys.push((original_key, number(original)));
            keys.push(("rope.scaling.attn_factor", fraction(stretch.sqrt())));
        }
        Family::Qwen35 => {
            // Pairs of time, height, width and nothing; together all that turn.
            let pairs = recipe.head_dim as i32 / 8;
            let sections = vec![pairs - pairs / 2, pairs / 4, pairs / 2 - pairs / 4, 0];
            keys.push(("rope.dimension_sections", Value::Signeds(sections)));
        }
        _ => {}
    }
    keys
}

/// What only one family or few have.
fn own(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    match family {
        Family::Mixtral => experts(recipe).into(),
        Family::Qwen3Moe => {
            let mut keys = Vec::from(experts(recipe));
            keys.push(expert_width(recipe));
            keys
        }
        Family::Llama4 => {
            let mut keys = Vec::from(experts(recipe));
            keys.push(expert_width(recipe));
            keys.push(("interleave_moe_layer_step", number(2)));
            keys
        }
        Family::Gemma2 | Family::Gemma2Large => vec![
            ("attention.sliding_window", number(recipe.window)),
            ("attn_logit_softcapping", fraction(2.0)),
            ("final_logit_softcapping", fraction(5.0)),
        ],
        Family::Gemma3 | Family::Gemma3Large => {
            vec![("attention.sliding_window", number(recipe.window))]
        }
        Family::Minicpm => vec![
            ("embedding_scale", fraction(12.0)),
            ("residual_scale", fraction(1.4 / f64::from(recipe.layers).sqrt())),
            ("logit_scale", fraction(4.0)),
        ],
        Family::Gemma3n => gemma3n(recipe),
        Family::Gemma4 => layers_read_others(recipe),
        Family::GptOss => {
            let mut keys = Vec::from(experts(recipe));
            keys.push(expert_width(recipe));
            keys.push(("attention.sliding_window", number(recipe.window)));
            keys
        }
        Family::Lfm2Moe => {
            let mut keys = Vec::from(experts(recipe));
            keys.push(expert_width(recipe));
            keys.push(("leading_dense_block_count", number(2)));
            keys.push(("expert_gating_func", number(2)));
            keys.push(("shortconv.l_cache", number(SHORT_KERNEL)));
            keys
        }
        Family::GraniteHybrid => {
            let mut keys = own(Family::Granite, recipe);
            keys.extend(experts(recipe));
            let width = recipe.expert_feed_forward;
            keys.push(("expert_shared_feed_forward_length", number(width)));
            keys.extend(mamba(recipe));
            keys
        }
        Family::NemotronHMoe => nemotron_h_moe(recipe),
        Family::Granite => vec![
            ("embedding_scale", fraction(12.0)),
            ("residual_scale", fraction(0.22)),
            ("logit_scale", fraction(4.0)),
            ("attention.scale", fraction(0.125)),
        ],
        Family::Minicpm3 => latent_ranks(family, recipe),
        Family::Qwen35 => delta_net(recipe),
        _ if family.is_deepseek() => deepseek(family, recipe),
        _ => Vec::new(),
    }
}

/// Gemma 4, and the same in Gemma 3n: inputs of layers by token, and late layers that read earlier
/// ones.
fn layers_read_others(recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let slides = (0..recipe.layers).map(Family::slides).collect();
    vec![
        ("rope.freq_base_swa", fraction(10_000.0)),
        ("final_logit_softcapping", fraction(5.0)),
        ("attention.sliding_window", number(recipe.window)),
        ("attention.sliding_window_pattern", Value::Bools(slides)),
        ("attention.shared_kv_layers", number(recipe.layers - recipe.own_kv_layers())),
        ("embedding_length_per_layer_input", number(INPUT_WIDTH)),
    ]
}

fn gemma3n(recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let cutoff = |layer| if layer < 2 { 0.25 * (layer + 1) as f32 } else { f32::NEG_INFINITY };
    let cutoffs = (0..recipe.layers).map(cutoff).collect();
    let mut keys = layers_read_others(recipe);
    keys.push(("altup.num_inputs", number(STREAMS)));
    keys.push(("altup.active_idx", number(1)));
    keys.push(("activation_sparsity_scale", Value::Floats(cutoffs)));
    keys
}

fn experts(recipe: &Recipe) -> [(&'static str, Value); 2] {
    [("expert_count", number(recipe.experts)), ("expert_used_count", number(recipe.experts_used))]
}

fn expert_width(recipe: &Recipe) -> (&'static str, Value) {
    ("expert_feed_forward_length", number(recipe.expert_feed_forward))
}

fn latent_ranks(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let mut keys = vec![("attention.kv_lora_rank", number(recipe.latent().rank))];
    if family != Family::Deepseek2Lite {
        keys.push(("attention.q_lora_rank", number(recipe.latent().query_rank)));
    }
    keys
}

fn deepseek(family: Family, recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let is_third = family == Family::Deepseek3;
    let mut keys = latent_ranks(family, recipe);
    keys.extend(experts(recipe));
    keys.push(expert_width(recipe));
    keys.extend([
        ("leading_dense_block_count", number(1)),
        ("expert_shared_count", number(2)),
        ("expert_weights_scale", fraction(if is_third { 2.5 } else { 1.0 })),
        ("expert_weights_norm", Value::Bool(is_third)),
        ("expert_gating_func", number(if is_third { 2 } else { 1 })),
    ]);
    keys
}

fn nemotron_h_moe(recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let mut keys = vec![
        ("expert_count", number(recipe.experts)),
        ("expert_used_count", by_layer(recipe, |layer| recipe.own_experts_used(layer))),
        ("expert_feed_forward_length", by_layer(recipe, |layer| recipe.own_expert_width(layer))),
        ("expert_shared_count", number(1)),
        ("expert_shared_feed_forward_length", number(recipe.feed_forward)),
        ("expert_weights_norm", Value::Bool(true)),
        ("expert_weights_scale", fraction(2.5)),
        ("expert_group_count", number(1)),
        ("moe_latent_size", number(recipe.latent_width())),
    ];
    keys.extend(mamba(recipe));
    keys
}

fn mamba(recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let mamba = recipe.mamba();
    vec![
        ("ssm.conv_kernel", number(mamba.kernel)),
        ("ssm.state_size", number(mamba.places)),
        ("ssm.group_count", number(mamba.groups)),
        ("ssm.time_step_rank", number(mamba.heads)),
        ("ssm.inner_size", number(mamba.heads * mamba.dim)),
    ]
}

fn delta_net(recipe: &Recipe) -> Vec<(&'static str, Value)> {
    let net = recipe.delta_net();
    vec![
        ("ssm.conv_kernel", number(net.kernel)),
        ("ssm.state_size", number(net.dim)),
        ("ssm.group_count", number(net.key_heads)),
        ("ssm.time_step_rank", number(net.value_heads)),
        ("ssm.inner_size", number(net.dim * net.value_heads)),
        ("full_attention_interval", number(4)),
    ]
}
