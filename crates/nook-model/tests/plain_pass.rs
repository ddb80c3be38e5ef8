//! The forward pass against a second one, written here in double precision from the papers, over the
//! same decoded weights; and the built-in model, which needs no reference files.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test code outside `#[test]` functions"
)]

#[path = "common/fixtures.rs"]
mod fixtures;

use std::collections::HashMap;
use std::path::Path;

use fixtures::{greedy, load, logits};
use nook_kernels::Format;
use nook_model::gguf::Header;
use nook_model::synthetic::{Mix, Recipe};

/// Ember lies in the tree, so these run everywhere.
fn ember() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nook-store/ember/ember-q8_0.gguf")
}

#[test]
fn ember_says_who_it_is() {
    let model = load(&ember(), 2);
    // "<|bos|><|user|>Hello!<|end|><|assistant|>"
    let got = greedy(&model, &[0, 3, 540, 5, 1, 4], 40, Some(1));
    // "Hello! I am Ember. Ask me about Inglenook, or ask me for a story.<|end|>"
    let expected =
        [540, 5, 304, 385, 588, 18, 530, 341, 372, 422, 16, 424, 433, 341, 336, 262, 386, 18, 1];
    assert_eq!(got, expected);
}

#[test]
fn ember_is_what_its_card_says() {
    let model = load(&ember(), 1);
    let file = model.file();
    let shape = file.shape();
    assert_eq!((file.name(), file.architecture()), ("Ember", "llama"));
    assert_eq!(file.quantisation(), "Q8_0");
    assert_eq!(file.file_bytes(), 4_186_816);
    assert_eq!((shape.layers, shape.hidden, shape.heads, shape.kv_heads), (6, 256, 8, 2));
    assert_eq!((shape.feed_forward, shape.vocabulary, shape.context_length), (512, 2048, 1024));
    assert!(shape.tied_output);
    let vocabulary = file.vocabulary();
    assert_eq!((vocabulary.tokens.len(), vocabulary.bos, vocabulary.eos), (2048, Some(0), Some(1)));
    assert!(vocabulary.chat_template.is_some());
}

#[test]
fn ember_agrees_with_the_plain_pass() {
    agrees(&ember(), &[0, 3, 1053, 341, 262, 386, 372, 262, 5, 1, 4]);
}

#[test]
fn random_models_of_every_format_agree_with_the_plain_pass() {
    let folder = tempfile::tempdir().unwrap();
    for (index, format) in Format::ALL.into_iter().enumerate() {
        let path = folder.path().join(format!("{format:?}.gguf"));
        let recipe = Recipe {
            layers: 2,
            hidden: 256,
            head_dim: 64,
            feed_forward: 512,
            rope_factors: index % 2 == 0,
            tied_output: index % 3 == 0,
            mix: Mix::All(format),
            ..Recipe::tiny(format, 40 + index as u64)
        };
        recipe.write(&path).unwrap();
        let ids: Vec<u32> = (0..70).map(|i| (i * 31 + 7) % 272).collect();
        agrees(&path, &ids);
    }
}

fn agrees(path: &Path, ids: &[u32]) {
    let got = logits(&load(path, 2), ids);
    let expected = Plain::read(path).logits(ids);
    assert_eq!(got.len(), expected.len());
    let pairs = got.iter().zip(&expected);
    let worst = pairs.map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    let size = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    assert!(worst < 2e-5 * size.max(1.0), "{}: {worst:e} of {size}", path.display());
}

/// Llama in double precision, one position after another, with nothing shared with the crate but the
/// header and the decoding of blocks (both have references of their own).
struct Plain {
    numbers: HashMap<&'static str, f64>,
    tensors: HashMap<String, (usize, Vec<f64>)>,
}

impl Plain {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let header = Header::read(&bytes[..], bytes.len() as u64).unwrap();
        let mut tensors = HashMap::new();
        for info in header.tensors() {
            let (start, length) = (info.start as usize, info.bytes as usize);
            let mut numbers = vec![0.0; info.dimensions.iter().product::<u64>() as usize];
            let format = info.kind.format().unwrap();
            format.decode(&bytes[start..start + length], &mut numbers);
            let numbers = numbers.into_iter().map(f64::from).collect();
            tensors.insert(info.name.clone(), (info.dimensions[0] as usize, numbers));
        }
        let integer = |key| f64::from(header.required_number(key).unwrap());
        let fraction = |key| f64::from(header.required_float(key).unwrap());
        let numbers = HashMap::from([
            ("layers", integer("llama.block_count")),
            ("heads", integer("llama.attention.head_count")),
            ("kv_heads", integer("llama.attention.head_count_kv")),
            ("head_dim", integer("llama.rope.dimension_count")),
            ("base", fraction("llama.rope.freq_base")),
            ("epsilon", fraction("llama.attention.layer_norm_rms_epsilon")),
        ]);
        Self { numbers, tensors }
    }

    fn size(&self, name: &str) -> usize {
        self.numbers[name] as usize
    }

    fn times(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (columns, weights) = &self.tensors[name];
        let product = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum();
        weights.chunks_exact(*columns).map(product).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + self.numbers["epsilon"]).sqrt();
        x.iter().zip(&self.tensors[name].1).map(|(x, w)| x * scale * w).collect()
    }

    fn turn(&self, x: &mut [f64], position: usize) {
        let dim = self.size("head_dim");
        for head in x.chunks_exact_mut(dim) {
            for i in 0..dim / 2 {
                let exponent = -((2 * i) as f64) / dim as f64;
                let mut angle = position as f64 * self.numbers["base"].powf(exponent);
                if let Some((_, factors)) = self.tensors.get("rope_freqs.weight") {
                    angle /= factors[i];
                }
                let (a, b) = (head[2 * i], head[2 * i + 1]);
                head[2 * i] = a * angle.cos() - b * angle.sin();
                head[2 * i + 1] = a * angle.sin() + b * angle.cos();
            }
        }
    }

    fn attend(&self, query: &[f64], keys: &[Vec<f64>], values: &[Vec<f64>]) -> Vec<f64> {
        let dim = self.size("head_dim");
        let shared_by = self.size("heads") / self.size("kv_heads");
        let mut out = Vec::new();
        for (head, query) in query.chunks_exact(dim).enumerate() {
            let at = head / shared_by * dim;
            let score = |key: &Vec<f64>| {
                let dot: f64 = key[at..at + dim].iter().zip(query).map(|(k, q)| k * q).sum();
                (dot / (dim as f64).sqrt()).exp()
            };
            let weights: Vec<f64> = keys.iter().map(score).collect();
            let total: f64 = weights.iter().sum();
            out.extend((at..at + dim).map(|i| {
                let mixed = weights.iter().zip(values).map(|(w, value)| w * value[i]);
                mixed.sum::<f64>() / total
            }));
        }
        out
    }

    fn logits(&self, ids: &[u32]) -> Vec<f64> {
        let layers = self.size("layers");
        let mut caches = vec![(Vec::new(), Vec::new()); layers];
        let (width, embedding) = &self.tensors["token_embd.weight"];
        let mut logits = Vec::new();
        for (position, id) in ids.iter().enumerate() {
            let mut x = embedding[*id as usize * width..][..*width].to_vec();
            for (index, (keys, values)) in caches.iter_mut().enumerate() {
                let name = |name: &str| format!("blk.{index}.{name}.weight");
                let h = self.norm(&name("attn_norm"), &x);
                let mut query = self.times(&name("attn_q"), &h);
                let mut key = self.times(&name("attn_k"), &h);
                self.turn(&mut query, position);
                self.turn(&mut key, position);
                keys.push(key);
                values.push(self.times(&name("attn_v"), &h));
                let mixed = self.attend(&query, keys, values);
                add(&mut x, &self.times(&name("attn_output"), &mixed));
                let h = self.norm(&name("ffn_norm"), &x);
                let gate = self.times(&name("ffn_gate"), &h);
                let up = self.times(&name("ffn_up"), &h);
                let silu = |g: f64| g / (1.0 + (-g).exp());
                let gated: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| silu(*g) * u).collect();
                add(&mut x, &self.times(&name("ffn_down"), &gated));
            }
            let tied = !self.tensors.contains_key("output.weight");
            let output = if tied { "token_embd.weight" } else { "output.weight" };
            logits.extend(self.times(output, &self.norm("output_norm.weight", &x)));
        }
        logits
    }
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}
