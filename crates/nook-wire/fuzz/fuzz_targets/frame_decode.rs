//! Any bytes as a frame, in both vocabularies: no panic, and nothing made up.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use nook_wire::{Message, WorkerMessage, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let bytes = Bytes::copy_from_slice(bytes);
    let worker = decode::<WorkerMessage>(bytes.clone());
    if let Ok(frame) = &worker {
        let again = encode(frame.call, frame.seq, &frame.message);
        assert!(again.len() <= bytes.len());
    }
    // What a device accepts, a worker accepts too.
    if decode::<Message>(bytes).is_ok() {
        assert!(worker.is_ok());
    }
});
