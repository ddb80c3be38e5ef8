//! Any chunks for any shape: no panic, and no tensor but from contiguous chunks.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use nook_base::ActivationDtype;
use nook_wire::{Chunk, TensorAssembly};

fuzz_target!(|input: (u32, u32, u8, Vec<(u64, Vec<u8>, bool)>)| {
    let (tokens, hidden, format, chunks) = input;
    let dtype = ActivationDtype::ALL[usize::from(format) % ActivationDtype::ALL.len()];
    let Ok(mut assembly) = TensorAssembly::new(tokens, hidden, dtype) else {
        return;
    };
    let mut sound = true;
    let mut before = Vec::new();
    for (offset, bytes, last) in chunks {
        sound &= offset == before.len() as u64;
        before.extend_from_slice(&bytes);
        let bytes = Bytes::from(bytes);
        match assembly.take(Chunk { offset, bytes, last }) {
            Ok(Some(whole)) => {
                assert!(sound && last && whole.bytes() == &before);
                return;
            }
            Ok(None) => assert!(sound && !last),
            Err(_) => return,
        }
    }
});
