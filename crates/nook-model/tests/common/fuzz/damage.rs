//! Ways to damage a header: in its bytes, or in the parts it is made from.

use nook_model::gguf::{TensorType, Value};
use rand::Rng;
use rand::rngs::StdRng;

use super::sound::Parts;

/// Numbers at which counts, lengths, sizes and offsets go wrong.
const NUMBERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    9,
    31,
    32,
    63,
    64,
    255,
    256,
    4096,
    65_535,
    65_536,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    1 << 63,
    u64::MAX,
];

const FRACTIONS: [f64; 10] =
    [0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 3.4e38, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Keys that families and readers look for, some of which the synthetic models do not have.
const KEYS: [&str; 18] = [
    "general.alignment",
    "general.architecture",
    "general.file_type",
    "general.name",
    "llama.attention.head_count_kv",
    "llama.attention.key_length",
    "llama.attention.scale",
    "llama.attention.sliding_window",
    "llama.expert_count",
    "llama.expert_used_count",
    "llama.logit_scale",
    "llama.rope.freq_base",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.original_context_length",
    "llama.rope.scaling.type",
    "llama.vocab_size",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
];

const TEXTS: [&str; 16] = [
    "",
    "llama",
    "qwen2",
    "qwen3",
    "gemma",
    "gemma2",
    "gemma3",
    "phi3",
    "starcoder2",
    "glm4",
    "olmo2",
    "minicpm",
    "deepseek2",
    "yarn",
    "linear",
    "\u{2581}\0\u{10ffff}",
];

/// Changes one thing about the parts of a header.
pub(super) fn parts(parts: &mut Parts, random: &mut StdRng) {
    match random.random_range(0..12) {
        0 => {
            parts.metadata.swap_remove(random.random_range(0..parts.metadata.len()));
        }
        1 => {
            let key = KEYS[random.random_range(0..KEYS.len())].to_owned();
            if random.random() {
                parts.metadata.retain(|(known, _)| *known != key);
            }
            parts.metadata.push((key, value(random)));
        }
        2 => rename_architecture(parts, random),
        3..=6 => {
            let at = random.random_range(0..parts.metadata.len());
            let changed = &mut parts.metadata[at].1;
            if random.random_range(0..4) == 0 {
                *changed = value(random);
            } else {
                near(changed, random);
            }
        }
        _ if parts.tensors.is_empty() => {}
        7 => {
            parts.tensors.swap_remove(random.random_range(0..parts.tensors.len()));
        }
        8 => {
            let mut copy = parts.tensors[random.random_range(0..parts.tensors.len())].clone();
            if random.random() {
                copy.name.push('2');
            }
            parts.tensors.push(copy);
        }
        9 => {
            let (a, b) = (random.random_range(0..parts.tensors.len()), 0);
            parts.tensors.swap(a, b);
        }
        _ => tensor(parts, random),
    }
    // The writer needs a key and a tensor to change next time.
    if parts.metadata.is_empty() {
        parts.metadata.push(("general.architecture".to_owned(), Value::Text("llama".to_owned())));
    }
}

/// Another family, with all keys of the old one under its name.
fn rename_architecture(parts: &mut Parts, random: &mut StdRng) {
    let name = TEXTS[random.random_range(0..TEXTS.len())];
    for (key, value) in &mut parts.metadata {
        if key == "general.architecture" {
            *value = Value::Text(name.to_owned());
        } else if let Some(rest) = key.strip_prefix("llama.") {
            *key = format!("{name}.{rest}");
        }
    }
}

/// Changes dimensions or type of one tensor. Dimensions stay small, so that the writer can place
/// what follows; damage to the bytes makes large ones.
fn tensor(parts: &mut Parts, random: &mut StdRng) {
    let at = random.random_range(0..parts.tensors.len());
    let tensor = &mut parts.tensors[at];
    match random.random_range(0..4) {
        0 => {
            let kind = TensorType::from_id(random.random_range(0..43));
            tensor.kind = kind.unwrap_or(tensor.kind);
        }
        1 => tensor.dimensions.push(random.random_range(0..3)),
        2 => tensor.dimensions.reverse(),
        _ => {
            let at = random.random_range(0..tensor.dimensions.len());
            let dimension = &mut tensor.dimensions[at];
            *dimension = match random.random_range(0..4) {
                0 => *dimension + 1,
                1 => dimension.saturating_sub(1),
                2 => *dimension * 2 % 4096,
                _ => NUMBERS[random.random_range(0..15)],
            };
        }
    }
}

/// Some value of any type.
fn value(random: &mut StdRng) -> Value {
    let number = NUMBERS[random.random_range(0..NUMBERS.len())];
    let fraction = FRACTIONS[random.random_range(0..FRACTIONS.len())];
    let text = TEXTS[random.random_range(0..TEXTS.len())].to_owned();
    let length = random.random_range(0..9);
    match random.random_range(0..10) {
        0..=2 => Value::Unsigned(number),
        3 => Value::Signed(number as i64),
        4 => Value::Float(fraction),
        5 => Value::Bool(random.random()),
        6 => Value::Text(text),
        7 => Value::Texts(vec![text; length]),
        8 => Value::Floats(vec![fraction as f32; length]),
        _ => Value::Signeds(vec![number as i32; length]),
    }
}

/// A value of the same type that is a little, or very, different.
fn near(value: &mut Value, random: &mut StdRng) {
    let number = NUMBERS[random.random_range(0..NUMBERS.len())];
    match value {
        Value::Unsigned(old) => {
            *old = match random.random_range(0..5) {
                0 => old.wrapping_add(1),
                1 => old.wrapping_sub(1),
                2 => old.wrapping_mul(2),
                3 => *old / 2,
                _ => number,
            }
        }
        Value::Signed(old) => *old = number as i64,
        Value::Float(old) => *old = FRACTIONS[random.random_range(0..FRACTIONS.len())],
        Value::Bool(old) => *old = !*old,
        Value::Text(old) => *old = TEXTS[random.random_range(0..TEXTS.len())].to_owned(),
        Value::Texts(old) if random.random() => old.push(String::new()),
        Value::Texts(old) => drop(old.pop()),
        Value::Floats(old) if random.random() => old.push(f32::NAN),
        Value::Floats(old) => drop(old.pop()),
        Value::Signeds(old) if random.random() => old.push(-1),
        Value::Signeds(old) => drop(old.pop()),
        other => *other = Value::Unsigned(number),
    }
}

/// Changes, cuts out, copies or puts in some bytes.
pub(super) fn bytes(bytes: &mut Vec<u8>, random: &mut StdRng) {
    if bytes.is_empty() {
        bytes.push(random.random());
    }
    // Most damage where most files have their header.
    let reach = if random.random_range(0..8) == 0 { bytes.len() } else { bytes.len().min(4096) };
    let at = random.random_range(0..reach);
    let number = NUMBERS[random.random_range(0..NUMBERS.len())].to_le_bytes();
    match random.random_range(0..10) {
        0 => bytes[at] = random.random(),
        1 => bytes[at] ^= 1 << random.random_range(0..8),
        2 => bytes[at] = bytes[at].wrapping_add(1),
        3 | 4 => write(bytes, at, &number),
        5 => write(bytes, at, &number[..4]),
        6 => {
            let end = (at + random.random_range(1..32)).min(bytes.len());
            bytes.drain(at..end);
        }
        7 => {
            let end = (at + random.random_range(1..64)).min(bytes.len());
            let copied = bytes[at..end].to_vec();
            let to = random.random_range(0..=reach.min(bytes.len()));
            bytes.splice(to..to, copied);
        }
        8 => bytes.insert(at, random.random()),
        _ if random.random_range(0..4) == 0 => bytes.truncate(at),
        _ => {
            let length = bytes.len() as u64;
            write(bytes, at, &length.to_le_bytes());
        }
    }
}

fn write(bytes: &mut [u8], at: usize, new: &[u8]) {
    for (old, new) in bytes[at..].iter_mut().zip(new) {
        *old = *new;
    }
}
