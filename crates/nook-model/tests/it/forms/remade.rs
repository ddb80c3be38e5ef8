//! Files made anew from others: with other metadata, and with tensors put in, taken out or changed.

use std::path::{Path, PathBuf};

use nook_kernels::Format;
use nook_model::gguf::{Header, TensorInfo, Value};
use nook_model::synthetic::{Random, Recipe, TensorEntry, header_bytes};

/// A file to be written.
#[derive(Clone)]
pub(super) struct Remade {
    metadata: Vec<(String, Value)>,
    /// Each with its bytes.
    tensors: Vec<(TensorEntry, Vec<u8>)>,
}

impl Remade {
    /// The model of `recipe`.
    pub(super) fn of(recipe: &Recipe) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        recipe.write(&path).unwrap();
        Self::read(&path)
    }

    /// The file at `path`.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let header = Header::read(&bytes[..], bytes.len() as u64).unwrap();
        let value = |key: &str| (key.to_owned(), header.value(key).unwrap().clone());
        let mut metadata: Vec<_> = header.keys().map(value).collect();
        metadata.sort_by(|a, b| a.0.cmp(&b.0));
        let tensor = |info: &TensorInfo| {
            let (name, dimensions) = (info.name.clone(), info.dimensions.clone());
            let data = &bytes[info.start as usize..(info.start + info.bytes) as usize];
            (TensorEntry { name, dimensions, kind: info.kind }, data.to_vec())
        };
        Self { metadata, tensors: header.tensors().iter().map(tensor).collect() }
    }

    pub(super) fn write_in(&self, folder: &Path) -> PathBuf {
        let entries: Vec<TensorEntry> =
            self.tensors.iter().map(|(entry, _)| entry.clone()).collect();
        let mut out = header_bytes(3, &self.metadata, &entries);
        for (_, data) in &self.tensors {
            out.extend(data);
            out.resize(out.len().next_multiple_of(32), 0);
        }
        let path = folder.join("remade.gguf");
        std::fs::write(&path, out).unwrap();
        path
    }

    pub(super) fn architecture(&self) -> String {
        let key = |(key, _): &&(String, Value)| key == "general.architecture";
        let (_, value) = self.metadata.iter().find(key).unwrap();
        value.as_text().unwrap().to_owned()
    }

    /// The same under the name of another architecture.
    pub(super) fn called(mut self, architecture: &str) -> Self {
        let old = format!("{}.", self.architecture());
        for (key, value) in &mut self.metadata {
            if key == "general.architecture" {
                *value = Value::Text(architecture.to_owned());
            } else if let Some(name) = key.strip_prefix(&old) {
                *key = format!("{architecture}.{name}");
            }
        }
        self
    }

    /// The value of `ARCHITECTURE.name`.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        let key = format!("{}.{name}", self.architecture());
        self.metadata.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// The whole number `ARCHITECTURE.name`.
    pub(super) fn number(&self, name: &str) -> u32 {
        self.value(name).and_then(Value::as_u32).unwrap()
    }

    /// The same with `value` for `ARCHITECTURE.name`.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self = self.without(name);
        self.metadata.push((format!("{}.{name}", self.architecture()), value));
        self
    }

    /// The same without `ARCHITECTURE.name`.
    pub(super) fn without(mut self, name: &str) -> Self {
        let key = format!("{}.{name}", self.architecture());
        self.metadata.retain(|(known, _)| *known != key);
        self
    }

    /// The names of all tensors.
    pub(super) fn names(&self) -> Vec<String> {
        self.tensors.iter().map(|(entry, _)| entry.name.clone()).collect()
    }

    /// Puts in a tensor of random numbers in single precision.
    pub(super) fn put(&mut self, name: &str, dimensions: &[u32]) {
        let seed = name.bytes().fold(7, |seed: u64, byte| seed * 31 % 1_000_003 + u64::from(byte));
        let mut random = Random::new(seed);
        let count: u32 = dimensions.iter().product();
        let data = (0..count).flat_map(|_| random.between(-0.3, 0.3).to_le_bytes()).collect();
        self.tensors.push((TensorEntry::new(name, dimensions, Format::F32), data));
    }

    /// Puts in a tensor of these rows, in the format of `like`.
    pub(super) fn put_rows(&mut self, like: &TensorEntry, dimensions: &[u64], rows: &[&[u8]]) {
        let entry = TensorEntry { dimensions: dimensions.to_vec(), ..like.clone() };
        self.tensors.push((entry, rows.concat()));
    }

    /// Takes a tensor out.
    pub(super) fn take(&mut self, name: &str) -> (TensorEntry, Vec<u8>) {
        let place = self.tensors.iter().position(|(entry, _)| entry.name == name);
        self.tensors.remove(place.unwrap_or_else(|| panic!("the file has no {name}")))
    }

    /// Takes the tensors of layer `from` a second time, for layer `to`.
    pub(super) fn copy_layer(&mut self, from: u32, to: u32) {
        let prefix = format!("blk.{from}.");
        let copy = |(entry, data): &(TensorEntry, Vec<u8>)| {
            let part = entry.name.strip_prefix(&prefix)?;
            Some((TensorEntry { name: format!("blk.{to}.{part}"), ..entry.clone() }, data.clone()))
        };
        let copies: Vec<_> = self.tensors.iter().filter_map(copy).collect();
        self.tensors.extend(copies);
    }

    /// Puts the rows of the tensor `name` in another order: `old` says for each new place the one
    /// where its row lay.
    pub(super) fn reorder(&mut self, name: &str, old: impl Fn(usize) -> usize) {
        let (entry, data) = self.take(name);
        let all = rows(&entry, &data);
        let reordered: Vec<&[u8]> = (0..all.len()).map(|new| all[old(new)]).collect();
        self.put_rows(&entry, &entry.dimensions, &reordered);
    }
}

/// The rows of a tensor; the numbers of a vector.
pub(super) fn rows<'a>(entry: &TensorEntry, data: &'a [u8]) -> Vec<&'a [u8]> {
    let count: u64 = match &entry.dimensions[..] {
        [count] => *count,
        all => all.iter().skip(1).product(),
    };
    data.chunks_exact(data.len() / count as usize).collect()
}
