//! Files that were made to take much memory, or that are of another kind: refused from a few of
//! their bytes.

use std::io::{self, Read};

use nook_model::gguf::{HEADER_BYTES_MAX, Header, LIST_MAX, LISTED_TEXTS_MAX};
use nook_model::{Fault, ModelFile};

/// The length that each file says it has: all that is claimed below would be in it.
const FILE_BYTES: u64 = 1 << 30;

/// Reads a header of so many keys, which begins like this and then goes on with zeros.
fn refused(keys: u64, begins: &[u8]) -> Fault {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(keys.to_le_bytes());
    bytes.extend(begins);
    Header::read(bytes.chain(io::repeat(0)), FILE_BYTES).expect_err("it is read")
}

fn key(name: &str, kind: u32) -> Vec<u8> {
    let mut bytes = (name.len() as u64).to_le_bytes().to_vec();
    bytes.extend(name.as_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes
}

/// A list of so many entries of this kind, of which none is there yet.
fn list(name: &str, kind: u32, length: u64) -> Vec<u8> {
    let mut bytes = key(name, 9);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes
}

fn limit_of(fault: &Fault) -> u64 {
    match fault {
        Fault::TooMany { limit, .. } => *limit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn r3_headers_that_would_take_much_memory_are_refused_by_number_and_bytes() {
    // One text of 116 MiB.
    let mut long = key("general.name", 8);
    long.extend((116_u64 << 20).to_le_bytes());
    assert_eq!(limit_of(&refused(1, &long)), HEADER_BYTES_MAX);
    // Numbers that are not kept count as well.
    let many = list("general.name", 11, 116 << 17);
    assert_eq!(limit_of(&refused(1, &many)), HEADER_BYTES_MAX);
    for kind in [4, 5, 6, 7, 8] {
        let many = list("tokenizer.ggml.tokens", kind, 4 << 20);
        assert_eq!(limit_of(&refused(1, &many)), LIST_MAX, "kind {kind}");
    }
    // Empty texts take eight bytes in the file each, and more in memory.
    let half = LISTED_TEXTS_MAX / 2;
    let mut twice = list("tokenizer.ggml.tokens", 8, half);
    twice.resize(twice.len() + 8 * usize::try_from(half).unwrap(), 0);
    twice.extend(list("tokenizer.ggml.merges", 8, half + 1));
    assert_eq!(limit_of(&refused(2, &twice)), LISTED_TEXTS_MAX);
}

#[test]
fn the_longest_vocabulary_that_is_known_is_read() {
    // 262,144 tokens and 514,906 merges, in 16 MiB.
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(2_u64.to_le_bytes());
    for (name, count, text) in [
        ("tokenizer.ggml.tokens", 262_144, "a token"),
        ("tokenizer.ggml.merges", 514_906, "fourteen bytes"),
    ] {
        bytes.extend(list(name, 8, count));
        for _ in 0..count {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
    }
    Header::read(&bytes[..], FILE_BYTES).unwrap();
}

/// Safetensors files begin with the length of their header: no such file is read, whatever it says.
#[test]
fn m3_a_safetensors_file_is_refused_by_name_and_nothing_of_it_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let tensors: String = (0..100_000)
        .map(|number| format!(r#""t{number}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"#))
        .collect();
    let many = format!("{{{}}}", tensors.trim_end_matches(','));
    let hole = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}"#;
    let little = |length: u64| length.to_le_bytes().to_vec();
    for (name, length, json) in [
        ("a header of 100 MB", little(100_000_000), "{}"),
        ("100,000 tensors that overlap", little(many.len() as u64), many.as_str()),
        ("a hole", little(hole.len() as u64), hole),
        ("a length of the other endianness", (hole.len() as u64).to_be_bytes().to_vec(), hole),
        ("no length at all", little(u64::MAX), ""),
    ] {
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, [&length[..], json.as_bytes(), &[0; 16]].concat()).unwrap();
        let error = ModelFile::open(&path).expect_err(name);
        assert_eq!(error.fault, Fault::NotGguf, "{name}");
        let told = error.to_string();
        assert!(told.contains("model.safetensors") && told.contains("GGUF"), "{name}: {told}");
        assert_eq!(ModelFile::digest_at(&path).expect_err(name).fault, Fault::NotGguf);
    }
}
