//! The bytes of a GGUF header.

use crate::gguf::{TensorType, Value};

/// Alignment of tensor data.
pub(super) const ALIGNMENT: usize = 32;

/// One tensor to be listed.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Dimensions, fastest first.
    pub dimensions: Vec<u64>,
    /// How it is stored.
    pub kind: TensorType,
}

/// A whole header with its padding, for tensors that follow in order, each padded to 32 bytes.
/// Whole numbers are written as 32-bit ones, fractions in single precision.
#[must_use]
pub fn header_bytes(
    version: u32,
    metadata: &[(String, Value)],
    tensors: &[TensorEntry],
) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(version.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        text(&mut out, key);
        put(&mut out, value);
    }
    let mut offset = 0u64;
    for tensor in tensors {
        text(&mut out, &tensor.name);
        out.extend((tensor.dimensions.len() as u32).to_le_bytes());
        for dimension in &tensor.dimensions {
            out.extend(dimension.to_le_bytes());
        }
        out.extend(tensor.kind.id().to_le_bytes());
        out.extend(offset.to_le_bytes());
        let rows = tensor.dimensions.iter().skip(1).product();
        let columns = tensor.dimensions.first().copied().unwrap_or(0);
        let bytes = tensor.kind.bytes(columns, rows).unwrap_or(0);
        offset += bytes.next_multiple_of(ALIGNMENT as u64);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Unsigned(number) => tagged(out, 4, &(*number as u32).to_le_bytes()),
        Value::Signed(number) => tagged(out, 5, &(*number as i32).to_le_bytes()),
        Value::Float(number) => tagged(out, 6, &(*number as f32).to_le_bytes()),
        Value::Bool(truth) => tagged(out, 7, &[u8::from(*truth)]),
        Value::Text(value) => {
            tagged(out, 8, &[]);
            text(out, value);
        }
        Value::Texts(texts) => {
            list(out, 8, texts.len());
            texts.iter().for_each(|value| text(out, value));
        }
        Value::Floats(numbers) => {
            list(out, 6, numbers.len());
            numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
        Value::Signeds(numbers) => {
            list(out, 5, numbers.len());
            numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
        Value::Unsigneds(numbers) => {
            list(out, 4, numbers.len());
            numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
        Value::Bools(truths) => {
            list(out, 7, truths.len());
            out.extend(truths.iter().map(|truth| u8::from(*truth)));
        }
        // Its elements are not known: an empty list.
        Value::Unused { type_id, .. } => list(out, *type_id, 0),
    }
}

fn tagged(out: &mut Vec<u8>, type_id: u32, bytes: &[u8]) {
    out.extend(type_id.to_le_bytes());
    out.extend(bytes);
}

fn list(out: &mut Vec<u8>, type_id: u32, length: usize) {
    tagged(out, 9, &type_id.to_le_bytes());
    out.extend((length as u64).to_le_bytes());
}

fn text(out: &mut Vec<u8>, value: &str) {
    out.extend((value.len() as u64).to_le_bytes());
    out.extend(value.as_bytes());
}
