//! Models of any shape with random weights, written as GGUF files: for tests and benchmarks.
//!
//! A file depends on its [`Recipe`] alone, byte for byte. Weights have the variance of a freshly
//! initialised model (`1 / columns`), so that activations stay sane through many layers. The text
//! they write is noise. The vocabulary is that of a byte-level SentencePiece model: `<unk>`, `<s>`,
//! `</s>`, one token for each byte, then fillers, so any text can be encoded.

mod blocks;
mod writer;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use nook_kernels::Format;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::gguf::{TensorType, Value};

pub use blocks::random_row;
pub use writer::{TensorEntry, header_bytes};

/// Tokens before the fillers: three control tokens and 256 bytes.
const TOKENS_MIN: u32 = 259;

/// What to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Transformer layers.
    pub layers: u32,
    /// Numbers in a hidden state.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key-value heads.
    pub kv_heads: u32,
    /// Numbers in a head.
    pub head_dim: u32,
    /// Width of the feed-forward layer.
    pub feed_forward: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Positions of the context.
    pub context_length: u32,
    /// Whether the output matrix is the embedding.
    pub tied_output: bool,
    /// Whether there is a `rope_freqs` tensor, as in Llama 3.1 and later.
    pub rope_factors: bool,
    /// Formats of the matrices.
    pub mix: Mix,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// Which format each matrix has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// The same for all whose rows fill its blocks; F16 for the others.
    All(Format),
    /// As llama.cpp's `Q4_K_M`: Q4_K, with Q6_K for the output and for half of V and `ffn_down`.
    Q4KM,
}

impl Recipe {
    /// A model of a few thousand parameters, with grouped heads and an odd feed-forward width.
    #[must_use]
    pub fn tiny(format: Format, seed: u64) -> Self {
        Self {
            layers: 4,
            hidden: 64,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            feed_forward: 96,
            vocabulary: 272,
            context_length: 512,
            tied_output: true,
            rope_factors: false,
            mix: Mix::All(format),
            seed,
        }
    }

    /// The shape of Llama-3.2-1B: 16 layers of width 2048, 128,256 tokens, tied.
    #[must_use]
    pub fn llama_1b(mix: Mix, seed: u64) -> Self {
        Self {
            layers: 16,
            hidden: 2048,
            heads: 32,
            kv_heads: 8,
            head_dim: 64,
            feed_forward: 8192,
            vocabulary: 128_256,
            context_length: 8192,
            tied_output: true,
            rope_factors: true,
            mix,
            seed,
        }
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let tensors = self.tensors();
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&header_bytes(3, &self.metadata(), &tensors))?;
        let mut random = StdRng::seed_from_u64(self.seed);
        for tensor in &tensors {
            self.write_tensor(tensor, &mut random, &mut out)?;
        }
        out.flush()
    }

    /// The metadata, in file order.
    #[must_use]
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let number = |number: u32| Value::Unsigned(u64::from(number));
        let base = if self.rope_factors { 500_000.0 } else { 10_000.0 };
        let epsilon = f64::from(1e-5f32);
        let all = [
            ("general.architecture", Value::Text("llama".to_owned())),
            ("general.name", Value::Text("Synthetic".to_owned())),
            ("llama.block_count", number(self.layers)),
            ("llama.context_length", number(self.context_length)),
            ("llama.embedding_length", number(self.hidden)),
            ("llama.feed_forward_length", number(self.feed_forward)),
            ("llama.attention.head_count", number(self.heads)),
            ("llama.attention.head_count_kv", number(self.kv_heads)),
            ("llama.attention.key_length", number(self.head_dim)),
            ("llama.attention.value_length", number(self.head_dim)),
            ("llama.attention.layer_norm_rms_epsilon", Value::Float(epsilon)),
            ("llama.rope.dimension_count", number(self.head_dim)),
            ("llama.rope.freq_base", Value::Float(base)),
            ("llama.vocab_size", number(self.vocabulary)),
            ("tokenizer.ggml.model", Value::Text("llama".to_owned())),
            ("tokenizer.ggml.pre", Value::Text("default".to_owned())),
            ("tokenizer.ggml.tokens", Value::Texts(self.tokens())),
            ("tokenizer.ggml.scores", Value::Floats(vec![0.0; self.vocabulary as usize])),
            ("tokenizer.ggml.token_type", Value::Signeds(self.token_kinds())),
            ("tokenizer.ggml.unknown_token_id", number(0)),
            ("tokenizer.ggml.bos_token_id", number(1)),
            ("tokenizer.ggml.eos_token_id", number(2)),
            ("tokenizer.ggml.add_bos_token", Value::Bool(true)),
        ];
        all.map(|(key, value)| (key.to_owned(), value)).into()
    }

    /// The tensors, in file order.
    #[must_use]
    pub fn tensors(&self) -> Vec<TensorEntry> {
        let (query, key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut all = Vec::new();
        if self.rope_factors {
            all.push(TensorEntry::new("rope_freqs.weight", &[self.head_dim / 2], Format::F32));
        }
        let more = matches!(self.mix, Mix::Q4KM);
        let embedding = self.format(self.hidden, more && self.tied_output);
        let dimensions = [self.hidden, self.vocabulary];
        all.push(TensorEntry::new("token_embd.weight", &dimensions, embedding));
        all.push(TensorEntry::new("output_norm.weight", &[self.hidden], Format::F32));
        if !self.tied_output {
            let format = self.format(self.hidden, more);
            all.push(TensorEntry::new("output.weight", &dimensions, format));
        }
        for index in 0..self.layers {
            let finer = more && more_bits(index, self.layers);
            for (name, columns, rows, finer) in [
                ("attn_q", self.hidden, query, false),
                ("attn_k", self.hidden, key, false),
                ("attn_v", self.hidden, key, finer),
                ("attn_output", query, self.hidden, false),
                ("ffn_gate", self.hidden, self.feed_forward, false),
                ("ffn_up", self.hidden, self.feed_forward, false),
                ("ffn_down", self.feed_forward, self.hidden, finer),
            ] {
                let name = format!("blk.{index}.{name}.weight");
                let format = self.format(columns, finer);
                all.push(TensorEntry::new(&name, &[columns, rows], format));
            }
            for name in ["attn_norm", "ffn_norm"] {
                let name = format!("blk.{index}.{name}.weight");
                all.push(TensorEntry::new(&name, &[self.hidden], Format::F32));
            }
        }
        all
    }

    fn format(&self, columns: u32, finer: bool) -> Format {
        let wanted = match self.mix {
            Mix::All(format) => format,
            Mix::Q4KM if finer => Format::Q6K,
            Mix::Q4KM => Format::Q4K,
        };
        match wanted.row_bytes(columns as usize) {
            Some(_) => wanted,
            None => Format::F16,
        }
    }

    fn write_tensor(
        &self,
        tensor: &TensorEntry,
        random: &mut StdRng,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let columns = tensor.dimensions[0] as usize;
        let rows = tensor.dimensions.get(1).copied().unwrap_or(1);
        let norm = tensor.dimensions.len() == 1;
        let format = tensor.kind.format().ok_or(io::ErrorKind::InvalidInput)?;
        let mut written = 0;
        for _ in 0..rows {
            let row = if norm {
                blocks::near_one(columns, random)
            } else {
                random_row(format, columns, random)
            };
            out.write_all(&row)?;
            written += row.len();
        }
        let padding = written.next_multiple_of(writer::ALIGNMENT) - written;
        out.write_all(&[0; writer::ALIGNMENT][..padding])
    }

    fn tokens(&self) -> Vec<String> {
        (0..self.vocabulary)
            .map(|id| match id {
                0 => "<unk>".to_owned(),
                1 => "<s>".to_owned(),
                2 => "</s>".to_owned(),
                3..TOKENS_MIN => format!("<0x{:02X}>", id - 3),
                _ => format!("\u{2581}filler{id}"),
            })
            .collect()
    }

    fn token_kinds(&self) -> Vec<i32> {
        (0..self.vocabulary)
            .map(|id| match id {
                0 => 2,
                1 | 2 => 3,
                3..TOKENS_MIN => 6,
                _ => 1,
            })
            .collect()
    }
}

/// Which layers llama.cpp gives more bits in its medium mixes (`use_more_bits`).
fn more_bits(index: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    index < eighth || index >= 7 * eighth || (index - eighth) % 3 == 2
}

impl TensorEntry {
    /// A tensor in a computable format.
    #[must_use]
    pub fn new(name: &str, dimensions: &[u32], format: Format) -> Self {
        let kind = TensorType::from_format(format);
        Self {
            name: name.to_owned(),
            dimensions: dimensions.iter().copied().map(u64::from).collect(),
            kind: kind.expect("the table of types names every format of the kernels"),
        }
    }
}
