//! Ids as they come in over real calls.

use bytes::Bytes;
use nook_base::tasks::Tasks;
use nook_mux::Call;
use nook_mux::testing::call;
use nook_wire::{Chunk, WholeTokens};

use super::*;

/// What a reader of two ids makes of a host that says this and then ends the call with a code, if any.
async fn read(said: &[Message], code: Option<ErrorCode>) -> Result<Vec<u32>, NoIds> {
    let tasks = Tasks::new();
    let (mut host, mut asker, _link): (Call<Message>, _, _) = call(&tasks).await;
    for message in said {
        host.send(message.clone()).await.expect("the other side is there");
    }
    host.close(code);
    let head = WholeTokens { positions: 1, count: 2, compute_us: 1, queue_us: 1 };
    let read = read_ids(asker.receiver(), IdsAssembly::of_tokens(&head)).await;
    tasks.cancel();
    read.map(|read| read.ids.0)
}

#[tokio::test]
async fn a_host_that_ends_a_request_between_head_and_ids_has_refused_and_not_lied() {
    let bytes = Bytes::from([7_u32, 8].map(u32::to_le_bytes).concat());
    let half = Message::Chunk(Chunk { offset: 0, bytes: bytes.slice(..4), last: false });
    let whole = Message::Chunk(Chunk { offset: 0, bytes, last: true });
    assert_eq!(read(&[whole], None).await, Ok(vec![7, 8]));

    let draining = Message::Draining { sentence: "Good night.".to_owned() };
    let ends = [
        (Message::refusal(ErrorCode::TrustDenied), ErrorCode::TrustDenied),
        (Message::refusal(ErrorCode::WorkerCrashed), ErrorCode::WorkerCrashed),
        (draining, ErrorCode::Draining),
    ];
    for (end, code) in ends {
        let refused = Err(NoIds::Refused(code));
        assert_eq!(
            read(std::slice::from_ref(&end), Some(code)).await,
            refused,
            "before the first id"
        );
        assert_eq!(read(&[half.clone(), end], Some(code)).await, refused, "between two");
    }
    let busy = ErrorCode::Busy;
    assert_eq!(read(&[], Some(busy)).await, Err(NoIds::Refused(busy)), "without a word");
    // A host that does not say why is lost, and one that answers something else is wrong.
    assert_eq!(read(&[half], None).await, Err(NoIds::Gone));
    let strange = read(&[Message::Truncate { position: 1 }], None).await;
    assert!(matches!(strange, Err(NoIds::Wrong(_))), "{strange:?}");
}
