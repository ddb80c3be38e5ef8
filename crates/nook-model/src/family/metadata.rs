//! Hyperparameters of a file, read and checked: the keys that most families share.

use std::fmt::Display;
use std::ops::RangeInclusive;

use nook_base::limits::HIDDEN_MAX;
use nook_kernels::RopeScaling;
use nook_kernels::rope::yarn_magnitude;

use crate::error::Fault;
use crate::gguf::{Header, Value};
use crate::shape::{
    CONTEXT_MAX, EXPERTS_MAX, FEED_FORWARD_MAX, HEAD_DIM_MAX, HEADS_MAX, LAYERS_MAX, ModelShape,
    VOCABULARY_MAX,
};

/// Rotary base where the file names none.
const ROPE_BASE_USUAL: f32 = 10_000.0;

/// The metadata of one file, by the keys of its architecture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metadata<'a> {
    pub(super) header: &'a Header,
    architecture: &'a str,
    tokens: usize,
}

/// Hyperparameters that every family has.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    pub(super) layers: u32,
    pub(super) hidden: u32,
    pub(super) heads: u32,
    pub(super) kv_heads: u32,
    pub(super) head_dim: u32,
    pub(super) feed_forward: u32,
    pub(super) vocabulary: u32,
    pub(super) context_length: u32,
    pub(super) epsilon: f32,
    /// Numbers of a head that turn.
    pub(super) rope_dimensions: u32,
    pub(super) rope_base: f32,
    pub(super) tied_output: bool,
}

/// What differs from layer to layer; 0 stands where a layer has no such part.
#[derive(Debug, Clone)]
pub(super) struct Varied {
    pub(super) kv_heads: Vec<u32>,
    pub(super) feed_forward: Vec<u32>,
}

impl<'a> Metadata<'a> {
    pub(super) fn new(header: &'a Header, architecture: &'a str, tokens: usize) -> Self {
        Self { header, architecture, tokens }
    }

    /// The full key of `name`.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// Whether there is a tensor `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.header.tensor(name).is_some()
    }

    /// The number `name` (or `usual` where it is absent), if it lies in `range`.
    pub(super) fn number(
        &self,
        name: &str,
        usual: Option<u32>,
        range: RangeInclusive<u32>,
    ) -> Result<u32, Fault> {
        let key = self.key(name);
        let number = match self.header.number(&key)?.or(usual) {
            Some(number) => number,
            None => self.header.required_number(&key)?,
        };
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(bad(&key, number, format!("{} to {}", range.start(), range.end())))
        }
    }

    /// The number `name` of each of `layers` layers: one for all of them, or a list of as many.
    pub(super) fn numbers(
        &self,
        name: &str,
        usual: Option<u32>,
        layers: u32,
        range: RangeInclusive<u32>,
    ) -> Result<Vec<u32>, Fault> {
        let key = self.key(name);
        let list: Vec<i64> = match self.header.value(&key) {
            Some(Value::Unsigneds(numbers)) => numbers.iter().copied().map(i64::from).collect(),
            Some(Value::Signeds(numbers)) => numbers.iter().copied().map(i64::from).collect(),
            _ => return Ok(vec![self.number(name, usual, range)?; layers as usize]),
        };
        self.check_list(&key, list.len(), layers)?;
        let checked = |(layer, number): (usize, i64)| {
            let inside = u32::try_from(number).ok().filter(|number| range.contains(number));
            inside.ok_or_else(|| {
                let expected = format!("numbers from {} to {}", range.start(), range.end());
                bad(&key, format!("{number} in layer {layer}"), expected)
            })
        };
        list.into_iter().enumerate().map(checked).collect()
    }

    /// The truth value `name` of each of `layers` layers, if there is such a list.
    pub(super) fn truths(&self, name: &str, layers: u32) -> Result<Option<Vec<bool>>, Fault> {
        let key = self.key(name);
        match self.header.value(&key) {
            Some(Value::Bools(truths)) => {
                self.check_list(&key, truths.len(), layers)?;
                Ok(Some(truths.clone()))
            }
            Some(other) => Err(bad(&key, other.summary(), "a list of truth values")),
            None => Ok(None),
        }
    }

    /// The fraction `name` of each of `layers` layers; `None` where it is minus infinity.
    pub(super) fn fractions(&self, name: &str, layers: u32) -> Result<Vec<Option<f32>>, Fault> {
        let key = self.key(name);
        let list = match self.header.value(&key) {
            Some(Value::Floats(list)) => list,
            Some(other) => return Err(bad(&key, other.summary(), "a list of fractions")),
            None => return Err(Fault::MissingKey { key }),
        };
        self.check_list(&key, list.len(), layers)?;
        if let Some(wrong) = list.iter().find(|n| n.is_nan() || **n == f32::INFINITY) {
            return Err(bad(&key, wrong, "numbers, or minus infinity"));
        }
        Ok(list.iter().map(|number| number.is_finite().then_some(*number)).collect())
    }

    /// Whether the file says how pairs are shared among time, height and width: models that see
    /// pictures. As in llama.cpp, four numbers, of which the first two are above 0.
    pub(super) fn has_sections(&self) -> Result<bool, Fault> {
        let key = self.key("rope.dimension_sections");
        match self.header.value(&key) {
            Some(Value::Signeds(list)) if list.len() == 4 => Ok(list[0] > 0 && list[1] > 0),
            Some(Value::Unsigneds(list)) if list.len() == 4 => Ok(list[0] > 0 && list[1] > 0),
            Some(other) => Err(bad(&key, other.summary(), "four whole numbers")),
            None => Ok(false),
        }
    }

    fn check_list(&self, key: &str, length: usize, layers: u32) -> Result<(), Fault> {
        if length == layers as usize {
            return Ok(());
        }
        Err(bad(key, format!("{length} values"), format!("one for each of {layers} layers")))
    }

    /// The fraction `name`, if it is there; it must be finite and above 0.
    pub(super) fn positive(&self, name: &str) -> Result<Option<f32>, Fault> {
        let key = self.key(name);
        match self.header.float(&key)? {
            Some(value) if !(value.is_finite() && value > 0.0) => {
                Err(bad(&key, value, "a positive number"))
            }
            other => Ok(other),
        }
    }

    /// As [`Self::positive`], where 0 stands for a key that is not there, as in llama.cpp.
    pub(super) fn positive_unless_zero(&self, name: &str) -> Result<Option<f32>, Fault> {
        match self.header.float(&self.key(name))? {
            Some(0.0) => Ok(None),
            _ => self.positive(name),
        }
    }

    /// The base of rotary frequencies, if the file names one: at least 1, or they would grow
    /// without bound.
    pub(super) fn rope_base(&self, name: &str) -> Result<Option<f32>, Fault> {
        match self.positive(name)? {
            Some(base) if base < 1.0 => Err(bad(&self.key(name), base, "at least 1")),
            other => Ok(other),
        }
    }

    /// As [`Self::positive`], where the key must be there.
    pub(super) fn required_positive(&self, name: &str) -> Result<f32, Fault> {
        let key = self.key(name);
        self.positive(name)?.ok_or(Fault::MissingKey { key })
    }

    /// The truth value `name`.
    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, Fault> {
        self.header.truth(&self.key(name))
    }

    /// The fault of a value of `name` that makes no sense.
    pub(super) fn bad(&self, name: &str, got: impl Display, expected: impl Into<String>) -> Fault {
        bad(&self.key(name), got, expected)
    }

    /// What every family has; `epsilon` names the key of the norms' epsilon.
    pub(super) fn sizes(&self, epsilon: &str) -> Result<Sizes, Fault> {
        self.sizes_or(epsilon, None)
    }

    /// As [`Self::sizes`], for models of experts that may not name the width of a dense layer.
    pub(super) fn sizes_or(
        &self,
        epsilon: &str,
        feed_forward: Option<u32>,
    ) -> Result<Sizes, Fault> {
        let heads = self.number("attention.head_count", None, 1..=HEADS_MAX)?;
        let kv_heads = self.number("attention.head_count_kv", Some(heads), 1..=heads)?;
        let width = self.number("feed_forward_length", feed_forward, 1..=FEED_FORWARD_MAX)?;
        self.sizes_of(epsilon, heads, kv_heads, width)
    }

    /// As [`Self::sizes`], for families whose layers are not alike. The sizes are those of the
    /// largest layer.
    pub(super) fn varied_sizes(&self, epsilon: &str) -> Result<(Sizes, Varied), Fault> {
        let layers = self.number("block_count", None, 1..=LAYERS_MAX)?;
        let heads = self.number("attention.head_count", None, 1..=HEADS_MAX)?;
        let name = "attention.head_count_kv";
        let kv_heads = self.numbers(name, Some(heads), layers, 0..=heads)?;
        let feed_forward =
            self.numbers("feed_forward_length", Some(0), layers, 0..=FEED_FORWARD_MAX)?;
        let most = |numbers: &[u32]| numbers.iter().copied().max().unwrap_or(0);
        for kv_heads in kv_heads.iter().filter(|kv_heads| **kv_heads > 0) {
            self.check_shared(heads, *kv_heads)?;
        }
        let sizes = self.sizes_of(epsilon, heads, most(&kv_heads).max(1), most(&feed_forward))?;
        Ok((sizes, Varied { kv_heads, feed_forward }))
    }

    /// Key-value heads must be shared evenly.
    fn check_shared(&self, heads: u32, kv_heads: u32) -> Result<(), Fault> {
        if heads.is_multiple_of(kv_heads) {
            return Ok(());
        }
        let expected = format!("a divisor of {heads} heads");
        Err(self.bad("attention.head_count_kv", kv_heads, expected))
    }

    fn sizes_of(
        &self,
        epsilon: &str,
        heads: u32,
        kv_heads: u32,
        feed_forward: u32,
    ) -> Result<Sizes, Fault> {
        let hidden = self.number("embedding_length", None, 1..=HIDDEN_MAX)?;
        self.check_shared(heads, kv_heads)?;
        let head_dim = self.head_dim(hidden, heads)?;
        let rope_dimensions = self.rope_dimensions(head_dim)?;
        Ok(Sizes {
            layers: self.number("block_count", None, 1..=LAYERS_MAX)?,
            hidden,
            heads,
            kv_heads,
            head_dim,
            feed_forward,
            vocabulary: self.vocabulary()?,
            context_length: self.number("context_length", None, 1..=CONTEXT_MAX)?,
            epsilon: self.epsilon(epsilon)?,
            rope_dimensions,
            rope_base: self.rope_base("rope.freq_base")?.unwrap_or(ROPE_BASE_USUAL),
            tied_output: !self.has("output.weight"),
        })
    }

    /// An even number of numbers that turn, of `most`.
    pub(super) fn rope_dimensions(&self, most: u32) -> Result<u32, Fault> {
        let name = "rope.dimension_count";
        let number = self.number(name, Some(most), 2..=most)?;
        if number.is_multiple_of(2) {
            Ok(number)
        } else {
            Err(self.bad(name, number, "an even number"))
        }
    }

    /// Experts, and how many of them each row goes through; `None` where there are none.
    pub(super) fn experts(&self) -> Result<Option<(u32, u32)>, Fault> {
        let count = self.number("expert_count", Some(0), 0..=EXPERTS_MAX)?;
        if count == 0 {
            return Ok(None);
        }
        Ok(Some((count, self.number("expert_used_count", None, 1..=count)?)))
    }

    /// How frequencies are scaled: none, linear or YaRN, and the magnitude that YaRN brings where
    /// the file names none (the factor that its authors found, `0.1 ln(factor) + 1`). Without a
    /// kind it is linear, as in llama.cpp: older files hold a factor alone.
    pub(super) fn rope_scaling(&self, sizes: &Sizes) -> Result<(RopeScaling, f32), Fault> {
        let kind_key = self.key("rope.scaling.type");
        let attention = self.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
        match self.header.text(&kind_key)?.unwrap_or("linear") {
            "none" => Ok((RopeScaling::None, attention)),
            "linear" => Ok((self.linear_scaling()?, attention)),
            "yarn" => {
                let factor = self.required_positive("rope.scaling.factor")?;
                let name = "rope.scaling.original_context_length";
                let original = self.number(name, Some(sizes.context_length), 1..=CONTEXT_MAX)?;
                let fast = self.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
                let slow = self.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
                let scaling = RopeScaling::Yarn {
                    factor,
                    original_context: original,
                    beta_fast: fast,
                    beta_slow: slow,
                    extrapolation: 1.0,
                };
                Ok((scaling, attention * yarn_magnitude(factor, 1.0)))
            }
            other => Err(bad(&kind_key, other, "none, linear or yarn")),
        }
    }

    /// Positions divided by a factor, under its key or under the one of older files; 0 and 1 are
    /// none.
    fn linear_scaling(&self) -> Result<RopeScaling, Fault> {
        let (name, old_name) = ("rope.scaling.factor", "rope.scale_linear");
        let is_new = self.header.value(&self.key(name)).is_some();
        let factor = self.positive_unless_zero(if is_new { name } else { old_name })?;
        let factor = factor.filter(|factor| *factor != 1.0);
        Ok(factor.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor }))
    }

    /// Numbers in a head: named by the file, or the width shared by the heads.
    fn head_dim(&self, hidden: u32, heads: u32) -> Result<u32, Fault> {
        let usual = hidden.is_multiple_of(heads).then_some(hidden / heads);
        let key = "attention.key_length";
        let Some(head_dim) = self.header.number(&self.key(key))?.or(usual) else {
            let expected = format!("a divisor of the width {hidden}");
            return Err(self.bad("attention.head_count", heads, expected));
        };
        if !(1..=HEAD_DIM_MAX).contains(&head_dim) {
            return Err(self.bad(key, head_dim, format!("1 to {HEAD_DIM_MAX}")));
        }
        Ok(head_dim)
    }

    /// Refuses values of another length than keys, which only some families have.
    pub(super) fn check_value_length(&self, sizes: &Sizes) -> Result<(), Fault> {
        let name = "attention.value_length";
        let value = self.header.number(&self.key(name))?.unwrap_or(sizes.head_dim);
        if value == sizes.head_dim {
            return Ok(());
        }
        Err(self.bad(name, value, format!("the key length {}", sizes.head_dim)))
    }

    /// Tokens of the model: rows of the embedding, which must be as many as the vocabulary has.
    fn vocabulary(&self) -> Result<u32, Fault> {
        let name = "token_embd.weight";
        let missing = || Fault::MissingTensor { tensor: name.to_owned() };
        let tensor = self.header.tensor(name).ok_or_else(missing)?;
        let rows = tensor.dimensions.get(1).copied().unwrap_or(0);
        let Some(rows) = u32::try_from(rows).ok().filter(|r| (1..=VOCABULARY_MAX).contains(r))
        else {
            return Err(bad(name, rows, format!("1 to {VOCABULARY_MAX} rows")));
        };
        let said = self.header.number(&self.key("vocab_size"))?.unwrap_or(rows);
        if said != rows {
            return Err(self.bad("vocab_size", said, format!("{rows}, the rows of {name}")));
        }
        if self.tokens != 0 && self.tokens != rows as usize {
            let expected = format!("{rows}, the rows of {name}");
            return Err(bad("tokenizer.ggml.tokens", format!("{} tokens", self.tokens), expected));
        }
        Ok(rows)
    }

    fn epsilon(&self, name: &str) -> Result<f32, Fault> {
        let key = self.key(name);
        let epsilon = self.header.required_float(&key)?;
        if epsilon > 0.0 && epsilon < 1.0 {
            Ok(epsilon)
        } else {
            Err(bad(&key, epsilon, "a number between 0 and 1"))
        }
    }
}

impl Varied {
    /// `sizes` as those of layer `index`.
    pub(super) fn sizes_of(&self, sizes: &Sizes, index: u32) -> Sizes {
        let of = |numbers: &[u32]| numbers.get(index as usize).copied().unwrap_or(0);
        let (kv_heads, feed_forward) = (of(&self.kv_heads), of(&self.feed_forward));
        Sizes { kv_heads, feed_forward, ..sizes.clone() }
    }
}

impl Sizes {
    /// What others may know of the model.
    pub(super) fn shape(&self) -> ModelShape {
        ModelShape {
            layers: self.layers,
            hidden: self.hidden,
            row: self.hidden,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            feed_forward: self.feed_forward,
            vocabulary: self.vocabulary,
            context_length: self.context_length,
            tied_output: self.tied_output,
        }
    }
}

/// The fault of a value that makes no sense.
pub(super) fn bad(key: &str, got: impl Display, expected: impl Into<String>) -> Fault {
    Fault::BadValue { key: key.to_owned(), got: got.to_string(), expected: expected.into() }
}
