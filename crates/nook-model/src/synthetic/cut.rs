//! A model in pieces, as llama.cpp's `gguf-split` cuts it.

use crate::gguf::Header;

use super::TensorEntry;
use super::writer::{ALIGNMENT, header_bytes};

/// Cuts the file `whole`, whose alignment is 32, into files of about as many tensors each. The
/// first holds all metadata and, with `head_alone`, nothing else. Source: llama.cpp,
/// `tools/gguf-split`.
///
/// # Panics
///
/// When `whole` is no GGUF file.
#[must_use]
pub fn cut(whole: &[u8], pieces: u16, head_alone: bool) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let read = Header::read_noting(whole, whole.len() as u64, |_, lies| keys.push(lies));
    let header = read.expect("a GGUF file");
    let holders = usize::from(if head_alone { pieces - 1 } else { pieces }).max(1);
    let each = header.tensors().len().div_ceil(holders);
    let mut groups = header.tensors().chunks(each.max(1));
    let piece = |number: u16| {
        let group = if number == 0 && head_alone { None } else { groups.next() };
        let group = group.unwrap_or_default();
        let entry = |tensor: &crate::gguf::TensorInfo| TensorEntry {
            name: tensor.name.clone(),
            dimensions: tensor.dimensions.clone(),
            kind: tensor.kind,
        };
        // Only the entries are wanted of this header: behind magic number, version and counts.
        let entries = header_bytes(3, &[], &group.iter().map(entry).collect::<Vec<_>>());
        let entries_end: usize = 24 + group.iter().map(entry_bytes).sum::<usize>();
        let own = if number == 0 { keys.as_slice() } else { &[] };
        let mut out = b"GGUF".to_vec();
        out.extend(header.version().to_le_bytes());
        out.extend((group.len() as u64).to_le_bytes());
        out.extend((own.len() as u64 + 3).to_le_bytes());
        for lies in own {
            out.extend(&whole[lies.start as usize..lies.end as usize]);
        }
        key(&mut out, "split.no", 2, &number.to_le_bytes());
        key(&mut out, "split.count", 2, &pieces.to_le_bytes());
        let all = header.tensors().len() as i32;
        key(&mut out, "split.tensors.count", 5, &all.to_le_bytes());
        out.extend(&entries[24..entries_end]);
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        for tensor in group {
            out.extend(&whole[tensor.start as usize..(tensor.start + tensor.bytes) as usize]);
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        }
        out
    };
    (0..pieces).map(piece).collect()
}

/// Bytes of a tensor's entry: name, dimensions, type, offset.
fn entry_bytes(tensor: &crate::gguf::TensorInfo) -> usize {
    8 + tensor.name.len() + 4 + 8 * tensor.dimensions.len() + 4 + 8
}

fn key(out: &mut Vec<u8>, name: &str, kind: u32, value: &[u8]) {
    out.extend((name.len() as u64).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(value);
}
