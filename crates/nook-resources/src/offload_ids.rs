//! Token ids of a full-model offload as they come in: the head, then their bytes in chunks.

use nook_base::ErrorCode;
use nook_mux::{CallError, CallReceiver};
use nook_wire::{IdsAssembly, Message, OffloadIds};

/// Why ids did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoIds {
    /// The other side has left, or is not to be reached any more.
    Gone,
    /// It has ended the request and says why. It may do so whenever it likes, between a head and
    /// its ids too: that says nothing against it.
    Refused(ErrorCode),
    /// It has said something else, or in the wrong number.
    Wrong(String),
}

/// Reads ids whose head was just received.
pub async fn read_ids(
    from: &mut CallReceiver<Message>,
    assembly: Result<IdsAssembly, nook_wire::TensorError>,
) -> Result<OffloadIds, NoIds> {
    let wrong = |error: nook_wire::TensorError| NoIds::Wrong(error.to_string());
    let mut assembly = assembly.map_err(wrong)?;
    loop {
        match from.recv().await {
            Ok(Message::Chunk(chunk)) => {
                if let Some(ids) = assembly.take(chunk).map_err(wrong)? {
                    return Ok(ids);
                }
            }
            Ok(Message::Error(error)) => return Err(NoIds::Refused(error.code)),
            Ok(Message::Draining { .. }) => return Err(NoIds::Refused(ErrorCode::Draining)),
            Ok(_) => return Err(NoIds::Wrong("something else came between ids".to_owned())),
            Err(CallError::Closed { code: Some(code) }) => return Err(NoIds::Refused(code)),
            Err(_) => return Err(NoIds::Gone),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nook_base::tasks::Tasks;
    use nook_mux::Call;
    use nook_wire::{Chunk, OffloadTokens};

    use super::*;
    use nook_mux::testing::call;

    /// What a reader of two ids makes of a host that says this and then ends the call with a code,
    /// if any.
    async fn read(said: &[Message], code: Option<ErrorCode>) -> Result<Vec<u32>, NoIds> {
        let tasks = Tasks::new();
        let (mut host, mut asker, _link): (Call<Message>, _, _) = call(&tasks).await;
        for message in said {
            host.send(message.clone()).await.expect("the other side is there");
        }
        host.close(code);
        let head = OffloadTokens { positions: 1, count: 2, compute_us: 1, queue_us: 1 };
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
}
