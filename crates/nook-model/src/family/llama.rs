//! Llama (Touvron et al. 2023), with grouped-query attention: Llama 1 to 3, Mistral, Ember and the
//! many that share the GGUF architecture `llama`.
//!
//! Reference: `LlamaForCausalLM` of Hugging Face transformers; tensor names and the order of Q and K
//! rows (adjacent pairs turn) as llama.cpp's converter writes them. Llama 3.1 and later carry
//! `rope_freqs.weight`, divisors of the rotary frequencies that every holder of a layer needs.
//! Mixtures of experts under this name (Mixtral) are not supported yet and are refused.

use candle_core::{Result as TensorResult, Tensor};
use nook_base::limits::HIDDEN_MAX;
use nook_kernels::{LayerCache, Rope};

use super::{Expected, Family, Layer, Place, Shared, Step};
use crate::error::{Fault, ModelError};
use crate::gguf::Header;
use crate::parts::{Attention, GatedFeedForward, RmsNorm};
use crate::shape::{
    CONTEXT_MAX, FEED_FORWARD_MAX, HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX, ModelShape, VOCABULARY_MAX,
};
use crate::weights::Weights;

const ROPE_FREQUENCIES: &str = "rope_freqs.weight";

/// Rotary base where the file names none.
const ROPE_BASE_USUAL: f32 = 10_000.0;

/// A checked model of this family.
#[derive(Debug)]
pub(super) struct Llama {
    shape: ModelShape,
}

#[derive(Debug)]
struct LlamaLayer {
    attention_norm: RmsNorm,
    attention: Attention,
    feed_forward_norm: RmsNorm,
    feed_forward: GatedFeedForward,
}

impl Llama {
    /// Reads and checks the hyperparameters. `tokens` is the length of the file's vocabulary, 0 when
    /// it has none.
    pub(super) fn read(header: &Header, tokens: usize) -> Result<Self, Fault> {
        let hidden = in_range(header, "llama.embedding_length", None, 1..=HIDDEN_MAX)?;
        let heads = in_range(header, "llama.attention.head_count", None, 1..=HEADS_MAX)?;
        let kv_key = "llama.attention.head_count_kv";
        let kv_heads = in_range(header, kv_key, Some(heads), 1..=heads)?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(bad(kv_key, kv_heads, format!("a divisor of {heads} heads")));
        }
        let head_dim = head_dim(header, hidden, heads)?;
        let rope_key = "llama.rope.dimension_count";
        let rope_dimensions = in_range(header, rope_key, Some(head_dim), 2..=head_dim)?;
        if !rope_dimensions.is_multiple_of(2) {
            return Err(bad(rope_key, rope_dimensions, "an even number"));
        }
        let experts = header.number("llama.expert_count")?.unwrap_or(0);
        if experts != 0 {
            return Err(bad("llama.expert_count", experts, "0 (no mixture of experts)"));
        }
        let shape = ModelShape {
            layers: in_range(header, "llama.block_count", None, 1..=LAYERS_MAX)?,
            hidden,
            heads,
            kv_heads,
            head_dim,
            feed_forward: in_range(
                header,
                "llama.feed_forward_length",
                None,
                1..=FEED_FORWARD_MAX,
            )?,
            vocabulary: vocabulary(header, tokens)?,
            context_length: in_range(header, "llama.context_length", None, 1..=CONTEXT_MAX)?,
            rope_base: rope_base(header)?,
            rope_dimensions,
            rope_scale: rope_scale(header)?,
            norm_epsilon: norm_epsilon(header)?,
            tied_output: header.tensor("output.weight").is_none(),
        };
        Ok(Self { shape })
    }
}

impl Family for Llama {
    fn shape(&self) -> &ModelShape {
        &self.shape
    }

    fn tensors(&self) -> Vec<Expected> {
        let s = &self.shape;
        let (query, key) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let embedding = if s.tied_output { Place::BothEnds } else { Place::Embedding };
        let mut all = vec![
            Expected::new("token_embd.weight", &[s.hidden, s.vocabulary], embedding),
            Expected::new(ROPE_FREQUENCIES, &[s.rope_dimensions / 2], Place::AnyLayer).optional(),
            Expected::new("output_norm.weight", &[s.hidden], Place::Head),
        ];
        if !s.tied_output {
            let dimensions = [s.hidden, s.vocabulary];
            all.push(Expected::new("output.weight", &dimensions, Place::Head));
        }
        for index in 0..s.layers {
            let of_layer = [
                ("attn_norm", vec![s.hidden]),
                ("attn_q", vec![s.hidden, query]),
                ("attn_k", vec![s.hidden, key]),
                ("attn_v", vec![s.hidden, key]),
                ("attn_output", vec![query, s.hidden]),
                ("ffn_norm", vec![s.hidden]),
                ("ffn_gate", vec![s.hidden, s.feed_forward]),
                ("ffn_up", vec![s.hidden, s.feed_forward]),
                ("ffn_down", vec![s.feed_forward, s.hidden]),
            ];
            all.extend(of_layer.map(|(name, dimensions)| {
                Expected::new(layer_tensor(index, name), &dimensions, Place::Layer(index))
            }));
        }
        all
    }

    fn shared(&self, weights: &Weights<'_>) -> Result<Shared, ModelError> {
        let factors = weights.optional_vector(ROPE_FREQUENCIES)?;
        let rope = Rope::new(
            self.shape.rope_base,
            self.shape.rope_dimensions as usize,
            self.shape.rope_scale,
            factors.as_deref(),
        );
        Ok(Shared { ropes: vec![rope] })
    }

    fn layer(&self, weights: &Weights<'_>, index: u32) -> Result<Box<dyn Layer>, ModelError> {
        let s = &self.shape;
        let name = |name: &str| layer_tensor(index, name);
        Ok(Box::new(LlamaLayer {
            attention_norm: RmsNorm::load(weights, &name("attn_norm"), s.norm_epsilon)?,
            attention: Attention {
                query: weights.matrix(&name("attn_q"))?, // (heads * head_dim, hidden)
                key: weights.matrix(&name("attn_k"))?,   // (kv_heads * head_dim, hidden)
                value: weights.matrix(&name("attn_v"))?, // (kv_heads * head_dim, hidden)
                output: weights.matrix(&name("attn_output"))?, // (hidden, heads * head_dim)
                heads: s.heads as usize,
                head_dim: s.head_dim as usize,
                scale: 1.0 / (s.head_dim as f32).sqrt(),
                rope: 0,
            },
            feed_forward_norm: RmsNorm::load(weights, &name("ffn_norm"), s.norm_epsilon)?,
            feed_forward: GatedFeedForward {
                gate: weights.matrix(&name("ffn_gate"))?, // (feed_forward, hidden)
                up: weights.matrix(&name("ffn_up"))?,     // (feed_forward, hidden)
                down: weights.matrix(&name("ffn_down"))?, // (hidden, feed_forward)
            },
        }))
    }
}

impl Layer for LlamaLayer {
    fn forward(&self, x: &Tensor, step: &Step<'_>, cache: &mut LayerCache) -> TensorResult<Tensor> {
        let normed = self.attention_norm.forward(x, step.compute)?;
        let x = (x + self.attention.forward(&normed, step, cache)?)?; // (n, hidden)
        let normed = self.feed_forward_norm.forward(&x, step.compute)?;
        &x + self.feed_forward.forward(&normed, step.compute)?
    }
}

fn layer_tensor(index: u32, name: &str) -> String {
    format!("blk.{index}.{name}.weight")
}

/// The number `key` (or `usual` where it is absent), if it lies in `range`.
fn in_range(
    header: &Header,
    key: &str,
    usual: Option<u32>,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, Fault> {
    let number = match header.number(key)?.or(usual) {
        Some(number) => number,
        None => header.required_number(key)?,
    };
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(bad(key, number, format!("{} to {}", range.start(), range.end())))
    }
}

/// Numbers in a head: named by the file, or the width shared by the heads.
fn head_dim(header: &Header, hidden: u32, heads: u32) -> Result<u32, Fault> {
    let key = "llama.attention.key_length";
    let value_key = "llama.attention.value_length";
    let usual = hidden.is_multiple_of(heads).then_some(hidden / heads);
    let Some(head_dim) = header.number(key)?.or(usual) else {
        let expected = format!("a divisor of the width {hidden}");
        return Err(bad("llama.attention.head_count", heads, expected));
    };
    if !(1..=HEAD_DIM_MAX).contains(&head_dim) {
        return Err(bad(key, head_dim, format!("1 to {HEAD_DIM_MAX}")));
    }
    let value_dim = header.number(value_key)?.unwrap_or(head_dim);
    if value_dim != head_dim {
        return Err(bad(value_key, value_dim, format!("the key length {head_dim}")));
    }
    Ok(head_dim)
}

/// Tokens of the model: rows of the embedding, which must be as many as the vocabulary has.
fn vocabulary(header: &Header, tokens: usize) -> Result<u32, Fault> {
    let name = "token_embd.weight";
    let tensor =
        header.tensor(name).ok_or_else(|| Fault::MissingTensor { tensor: name.to_owned() })?;
    let rows = tensor.dimensions.get(1).copied().unwrap_or(0);
    let Some(rows) = u32::try_from(rows).ok().filter(|r| (1..=VOCABULARY_MAX).contains(r)) else {
        return Err(bad(name, rows, format!("1 to {VOCABULARY_MAX} rows")));
    };
    let said = header.number("llama.vocab_size")?.unwrap_or(rows);
    if said != rows {
        return Err(bad("llama.vocab_size", said, format!("{rows}, the rows of {name}")));
    }
    if tokens != 0 && tokens != rows as usize {
        let expected = format!("{rows}, the rows of {name}");
        return Err(bad("tokenizer.ggml.tokens", format!("{tokens} tokens"), expected));
    }
    Ok(rows)
}

fn rope_base(header: &Header) -> Result<f32, Fault> {
    let key = "llama.rope.freq_base";
    let base = header.float(key)?.unwrap_or(ROPE_BASE_USUAL);
    if base.is_finite() && base > 0.0 { Ok(base) } else { Err(bad(key, base, "a positive number")) }
}

/// What positions are divided by. Only linear scaling is known here.
fn rope_scale(header: &Header) -> Result<f32, Fault> {
    let kind_key = "llama.rope.scaling.type";
    match header.text(kind_key)?.unwrap_or("none") {
        "none" => Ok(1.0),
        "linear" => {
            let key = "llama.rope.scaling.factor";
            let factor = header.required_float(key)?;
            if factor.is_finite() && factor > 0.0 {
                Ok(factor)
            } else {
                Err(bad(key, factor, "a positive number"))
            }
        }
        other => Err(bad(kind_key, other, "none or linear")),
    }
}

fn norm_epsilon(header: &Header) -> Result<f32, Fault> {
    let key = "llama.attention.layer_norm_rms_epsilon";
    let epsilon = header.required_float(key)?;
    if epsilon > 0.0 && epsilon < 1.0 {
        Ok(epsilon)
    } else {
        Err(bad(key, epsilon, "a number between 0 and 1"))
    }
}

fn bad(key: &str, got: impl ToString, expected: impl Into<String>) -> Fault {
    Fault::BadValue { key: key.to_owned(), got: got.to_string(), expected: expected.into() }
}
