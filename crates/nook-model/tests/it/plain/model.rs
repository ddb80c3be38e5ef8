//! The weights of a file in double precision, its hyperparameters, and products with its matrices.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

use nook_kernels::Format;
use nook_model::gguf::{Header, Value};

use super::Rows;

/// Where the pass imitates the engine's roundings, and what a family cannot know from the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numerics {
    /// Whether activations are rounded to int8 before they meet a quantised matrix: in blocks as
    /// long as the matrix's, each with the scale `greatest magnitude / 127` in single precision, to
    /// the nearest, ties to the even one.
    pub(crate) quantise_activations: bool,
    /// Whether keys and values are rounded to half precision.
    pub(crate) half_cache: bool,
    /// How far every product is shaken, relative to itself: to see what roundings may do.
    pub(crate) noise: f64,
    /// Positions that the session may have. Long rope chooses its factors by it.
    pub(crate) window: usize,
}

impl Numerics {
    /// Nothing is rounded.
    pub(crate) fn exact(window: usize) -> Self {
        Self { quantise_activations: false, half_cache: false, noise: 0.0, window }
    }

    /// As the engine computes with quantised files.
    pub(crate) fn quantised(window: usize) -> Self {
        Self { quantise_activations: true, half_cache: true, noise: 0.0, window }
    }
}

/// One file.
pub(crate) struct Model {
    header: Header,
    tensors: HashMap<String, Tensor>,
    pub(crate) numerics: Numerics,
    random: Cell<u64>,
}

/// A tensor as a matrix whose rows are all rows of all its planes.
struct Tensor {
    columns: usize,
    /// Rows of one plane: the second dimension.
    rows: usize,
    /// Numbers that share a scale in the file, if it is quantised.
    block: Option<usize>,
    values: Vec<f64>,
}

impl Model {
    pub(crate) fn read(path: &Path, numerics: Numerics) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let header = Header::read(&bytes[..], bytes.len() as u64).unwrap();
        let mut tensors = HashMap::new();
        for info in header.tensors() {
            let data = &bytes[info.start as usize..(info.start + info.bytes) as usize];
            let mut values = vec![0.0; info.dimensions.iter().product::<u64>() as usize];
            let format = info.kind.format().expect("a format that the kernels decode");
            format.decode(data, &mut values);
            let tensor = Tensor {
                columns: info.dimensions[0] as usize,
                rows: info.dimensions.get(1).copied().unwrap_or(1) as usize,
                block: match format {
                    Format::F32 | Format::F16 | Format::Bf16 => None,
                    format => Some(format.elements()),
                },
                values: values.into_iter().map(f64::from).collect(),
            };
            tensors.insert(info.name.clone(), tensor);
        }
        Self { header, tensors, numerics, random: Cell::new(1) }
    }

    pub(crate) fn architecture(&self) -> &str {
        self.header.required_text("general.architecture").unwrap()
    }

    /// The whole number `ARCHITECTURE.key`.
    pub(crate) fn number(&self, key: &str) -> Option<usize> {
        self.header.number(&self.key(key)).unwrap().map(|number| number as usize)
    }

    /// The whole numbers `ARCHITECTURE.key`, one for each layer.
    pub(crate) fn numbers(&self, key: &str) -> Vec<usize> {
        match self.header.value(&self.key(key)) {
            Some(Value::Signeds(numbers)) => numbers.iter().map(|n| *n as usize).collect(),
            // One for all of them.
            _ => vec![self.size(key); self.layers()],
        }
    }

    /// The truth values `ARCHITECTURE.key`, one for each layer.
    pub(crate) fn truths(&self, key: &str) -> Vec<bool> {
        match self.header.value(&self.key(key)) {
            Some(Value::Bools(truths)) => truths.clone(),
            other => panic!("no list of {key}: {other:?}"),
        }
    }

    /// The fractions `ARCHITECTURE.key`, one for each layer.
    pub(crate) fn fractions(&self, key: &str) -> Vec<f64> {
        match self.header.value(&self.key(key)) {
            Some(Value::Floats(numbers)) => numbers.iter().copied().map(f64::from).collect(),
            other => panic!("no list of {key}: {other:?}"),
        }
    }

    pub(crate) fn size(&self, key: &str) -> usize {
        self.number(key).unwrap_or_else(|| panic!("the file has no {key}"))
    }

    /// The fraction `ARCHITECTURE.key`.
    pub(crate) fn fraction(&self, key: &str) -> Option<f64> {
        self.header.float(&self.key(key)).unwrap().map(f64::from)
    }

    pub(crate) fn truth(&self, key: &str) -> Option<bool> {
        self.header.truth(&self.key(key)).unwrap()
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.header.value(&self.key(key)).and_then(Value::as_text)
    }

    pub(crate) fn layers(&self) -> usize {
        self.size("block_count")
    }

    /// Epsilon of the root-mean-square norms.
    pub(crate) fn epsilon(&self) -> f64 {
        self.fraction("attention.layer_norm_rms_epsilon").unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// All numbers of a tensor.
    pub(crate) fn values(&self, name: &str) -> &[f64] {
        &self.tensor(name).values
    }

    /// The rows of the embedding for `ids`, times `scale`.
    pub(crate) fn embed(&self, ids: &[u32], scale: f64) -> Rows {
        let table = self.tensor("token_embd.weight");
        let row = |id: &u32| {
            let row = &table.values[*id as usize * table.columns..][..table.columns];
            row.iter().map(|x| x * scale).collect()
        };
        ids.iter().map(row).collect()
    }

    /// Logits of hidden states that have passed the last norm; a file without an output matrix uses
    /// its embedding.
    pub(crate) fn head(&self, x: &Rows) -> Rows {
        match self.has("output.weight") {
            true => self.times("output.weight", x),
            false => self.times("token_embd.weight", x),
        }
    }

    /// The matrix times each row.
    pub(crate) fn times(&self, name: &str, x: &Rows) -> Rows {
        x.iter().map(|x| self.times_plane(name, 0, x)).collect()
    }

    /// As [`Self::times`] for `NAME.weight`, and `NAME.bias` added.
    pub(crate) fn times_and_bias(&self, name: &str, x: &Rows) -> Rows {
        let mut out = self.times(&format!("{name}.weight"), x);
        let bias = self.values(&format!("{name}.bias"));
        for row in &mut out {
            add(row, bias);
        }
        out
    }

    /// As [`Self::times_and_bias`], where the bias may be missing.
    pub(crate) fn times_and_any_bias(&self, name: &str, x: &Rows) -> Rows {
        match self.has(&format!("{name}.bias")) {
            true => self.times_and_bias(name, x),
            false => self.times(&format!("{name}.weight"), x),
        }
    }

    /// Plane `plane` of a tensor of three dimensions, times one vector.
    pub(crate) fn times_plane(&self, name: &str, plane: usize, x: &[f64]) -> Vec<f64> {
        let tensor = self.tensor(name);
        assert_eq!(tensor.columns, x.len(), "{name}");
        let rounded = match tensor.block {
            Some(block) if self.numerics.quantise_activations => quantised(x, block),
            _ => x.to_vec(),
        };
        let size = tensor.columns * tensor.rows;
        let weights = &tensor.values[plane * size..][..size];
        let product = |row: &[f64]| match self.numerics.noise == 0.0 {
            true => dot(row, &rounded),
            false => dot(row, &rounded) * (1.0 + self.numerics.noise * self.random()),
        };
        weights.chunks_exact(tensor.columns).map(product).collect()
    }

    /// Root-mean-square norm of each row, with weights.
    pub(crate) fn norm(&self, name: &str, x: &Rows) -> Rows {
        let weights = self.values(name);
        let norm = |x: &Vec<f64>| {
            assert_eq!(x.len(), weights.len(), "{name}");
            times_each(&normed(x, self.epsilon()), weights)
        };
        x.iter().map(norm).collect()
    }

    /// Root-mean-square norm of each head of each row, with weights for one head.
    pub(crate) fn norm_heads(&self, name: &str, x: &Rows) -> Rows {
        let weights = self.values(name);
        let norm = |x: &Vec<f64>| {
            let heads = x.chunks_exact(weights.len());
            heads.flat_map(|head| times_each(&normed(head, self.epsilon()), weights)).collect()
        };
        x.iter().map(norm).collect()
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture())
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("the file has no {name}"))
    }

    /// A number in -1..1, another each time (splitmix64).
    fn random(&self) -> f64 {
        let next = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(next);
        let z = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// In eight sums, which the compiler computes side by side; the order is of no account here.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let (eights, rest) = x.as_chunks::<8>();
    let (others, last) = y.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in eights.iter().zip(others) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f64 = rest.iter().zip(last).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// `x` over the root of the mean of its squares.
pub(super) fn normed(x: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + epsilon).sqrt();
    x.iter().map(|x| x * scale).collect()
}

pub(super) fn add(x: &mut [f64], y: &[f64]) {
    assert_eq!(x.len(), y.len());
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Adds `y` times `scale` to `x`.
pub(super) fn add_rows(x: &mut Rows, y: &Rows, scale: f64) {
    for (x, y) in x.iter_mut().zip(y) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y * scale);
    }
}

pub(super) fn times_each(x: &[f64], y: &[f64]) -> Vec<f64> {
    assert_eq!(x.len(), y.len());
    x.iter().zip(y).map(|(x, y)| x * y).collect()
}

/// What is left of `x` after it was quantised to int8 in blocks of `length`.
fn quantised(x: &[f64], length: usize) -> Vec<f64> {
    let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let mut out = Vec::with_capacity(x.len());
    for block in single.chunks(length) {
        let scale = block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
        let round = |x: &f32| match scale == 0.0 {
            true => 0.0,
            false => f64::from((x / scale).round_ties_even()) * f64::from(scale),
        };
        out.extend(block.iter().map(round));
    }
    out
}

/// The nearest number of half precision, ties to the even one.
pub(super) fn half(x: f64) -> f64 {
    // Steps are 2^-10 of the power of two below, and never finer than those of the smallest
    // exponent, -14.
    let exponent = x.abs().log2().floor().max(-14.0);
    let step = (exponent - 10.0).exp2();
    match x == 0.0 {
        true => x,
        false => (x / step).round_ties_even() * step,
    }
}
