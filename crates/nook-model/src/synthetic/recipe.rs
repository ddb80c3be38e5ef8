//! What a random model shall be, known shapes, and the writing of the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use nook_kernels::Format;

use super::blocks::{self, Random, random_row};
use super::families::Family;
use super::mix::{Mix, Place};
use super::tensors;
use super::writer::{ALIGNMENT, TensorEntry, header_bytes};
use crate::gguf::{TensorType, Value};

/// Tokens before the fillers: three control tokens and 256 bytes.
const TOKENS_MIN: u32 = 259;

/// What to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The family.
    pub family: Family,
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
    /// Experts of each mixture, where the family has any.
    pub experts: u32,
    /// Experts that a position uses.
    pub experts_used: u32,
    /// Width of one expert.
    pub expert_feed_forward: u32,
    /// Positions that a local layer sees, where the family has any.
    pub window: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Positions of the context.
    pub context_length: u32,
    /// Whether the output matrix is the embedding, where the family leaves a choice.
    pub tied_output: bool,
    /// Whether there is a `rope_freqs` tensor, as in Llama 3.1 and later. Llama only.
    pub rope_factors: bool,
    /// Formats of the matrices.
    pub mix: Mix,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Recipe {
    /// A llama of a few thousand parameters, with grouped heads and an odd feed-forward width.
    #[must_use]
    pub fn tiny(format: Format, seed: u64) -> Self {
        Self {
            family: Family::Llama,
            layers: 4,
            hidden: 64,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            feed_forward: 96,
            experts: 6,
            experts_used: 2,
            expert_feed_forward: 32,
            window: 8,
            vocabulary: 272,
            context_length: 512,
            tied_output: true,
            rope_factors: false,
            mix: Mix::All(format),
            seed,
        }
    }

    /// A tiny model of any family: see [`Family::tiny`].
    #[must_use]
    pub fn of(family: Family, format: Format, seed: u64) -> Self {
        family.tiny(Self { family, ..Self::tiny(format, seed) })
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
            ..Self::tiny(Format::F32, seed)
        }
    }

    /// The shape of Llama-3.2-3B: 28 layers of width 3072, 128,256 tokens, tied.
    #[must_use]
    pub fn llama_3b(mix: Mix, seed: u64) -> Self {
        Self { layers: 28, hidden: 3072, heads: 24, head_dim: 128, ..Self::llama_1b(mix, seed) }
    }

    /// The shape of Qwen2.5-1.5B: 28 layers of width 1536, two key-value heads, biases on Q, K and
    /// V, 151,936 tokens, tied.
    #[must_use]
    pub fn qwen_1_5b(mix: Mix, seed: u64) -> Self {
        Self {
            family: Family::Qwen2,
            layers: 28,
            hidden: 1536,
            heads: 12,
            kv_heads: 2,
            head_dim: 128,
            feed_forward: 8960,
            vocabulary: 151_936,
            context_length: 8192,
            tied_output: true,
            mix,
            ..Self::tiny(Format::F32, seed)
        }
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let tensors = self.tensors();
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&header_bytes(3, &self.metadata(), &tensors))?;
        let mut random = Random::new(self.seed);
        for tensor in &tensors {
            self.write_tensor(tensor, &mut random, &mut out)?;
        }
        out.flush()
    }

    /// The metadata, in file order.
    #[must_use]
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let number = |number: u32| Value::Unsigned(u64::from(number));
        let architecture = self.family.architecture();
        let mut all = vec![
            ("general.architecture".to_owned(), Value::Text(architecture.to_owned())),
            ("general.name".to_owned(), Value::Text("Synthetic".to_owned())),
        ];
        if let Some(file_type) = self.mix.file_type() {
            all.push(("general.file_type".to_owned(), number(file_type)));
        }
        for (key, value) in self.family.keys(self) {
            all.push((format!("{architecture}.{key}"), value));
        }
        let tokenizer = [
            ("model", Value::Text("llama".to_owned())),
            ("pre", Value::Text("default".to_owned())),
            ("tokens", Value::Texts(self.tokens())),
            ("scores", Value::Floats(vec![0.0; self.vocabulary as usize])),
            ("token_type", Value::Signeds(self.token_kinds())),
            ("unknown_token_id", number(0)),
            ("bos_token_id", number(1)),
            ("eos_token_id", number(2)),
            ("add_bos_token", Value::Bool(true)),
        ];
        all.extend(tokenizer.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)));
        all
    }

    /// The tensors, in file order.
    #[must_use]
    pub fn tensors(&self) -> Vec<TensorEntry> {
        let tied_output = self.is_tied();
        let entry = |(name, dimensions): (String, Vec<u32>)| {
            let format = self.mix.format(Place {
                name: &name,
                columns: dimensions[0],
                is_matrix: dimensions.len() > 1,
                layers: self.layers,
                experts: if self.family.has_experts() { self.experts } else { 0 },
                tied_output,
            });
            TensorEntry::new(&name, &dimensions, format)
        };
        tensors::all(self).into_iter().map(entry).collect()
    }

    /// Whether the file has no output matrix.
    pub(super) fn is_tied(&self) -> bool {
        self.family.fixed_tie().unwrap_or(self.tied_output)
    }

    fn write_tensor(
        &self,
        tensor: &TensorEntry,
        random: &mut Random,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let columns = tensor.dimensions[0] as usize;
        let rows: u64 = tensor.dimensions.iter().skip(1).product();
        let mut written = 0;
        if tensor.dimensions.len() == 1 || blocks::is_vector(&tensor.name) {
            let numbers = columns * usize::try_from(rows).unwrap_or(usize::MAX);
            let row = blocks::vector(&tensor.name, numbers, random);
            out.write_all(&row)?;
            written += row.len();
        } else {
            for _ in 0..rows {
                let row = random_row(tensor.kind, columns, random);
                let row = row.ok_or(io::ErrorKind::InvalidInput)?;
                out.write_all(&row)?;
                written += row.len();
            }
        }
        let padding = written.next_multiple_of(ALIGNMENT) - written;
        out.write_all(&[0; ALIGNMENT][..padding])
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
