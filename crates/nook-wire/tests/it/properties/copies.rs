//! Messages about files: models, and releases of this program.

use nook_wire::{
    Document, Have, HaveModel, Message, Piece, ReleaseDocument, Releases, Want, WantRelease,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::digest;

fn release_document() -> impl Strategy<Value = ReleaseDocument> {
    prop_oneof![
        Just(ReleaseDocument::List),
        Just(ReleaseDocument::Signature),
        any::<[u8; 32]>().prop_map(ReleaseDocument::Package),
    ]
}

pub(super) fn copies() -> impl Strategy<Value = Message> {
    let model = (digest(), any::<(u64, u32)>(), "\\PC{0,40}")
        .prop_map(|(model, n, name)| HaveModel { model, bytes: n.0, layers: n.1, name });
    prop_oneof![
        vec(model, 0..5).prop_map(|models| Message::Have(Have { models })),
        (digest(), any::<(bool, u64, u64)>()).prop_map(|(model, n)| Message::Want(Want {
            model,
            document: if n.0 { Document::File } else { Document::Manifest },
            from: n.1,
            bytes: n.2
        })),
        any::<(u64, u32)>().prop_map(|n| Message::Piece(Piece { from: n.0, bytes: n.1 })),
        (any::<(u64, u32, u32)>(), vec(any::<[u8; 32]>(), 0..5)).prop_map(|(n, packages)| {
            let (serial, list_bytes, signature_bytes) = n;
            Message::Releases(Releases { serial, list_bytes, signature_bytes, packages })
        }),
        (release_document(), any::<(u64, u64)>()).prop_map(|(document, (from, bytes))| {
            Message::WantRelease(WantRelease { document, from, bytes })
        }),
    ]
}
