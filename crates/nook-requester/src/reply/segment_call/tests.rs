//! The last word of a call reaches the pipeline, whatever was being sent when it came.

use nook_base::tasks::Tasks;
use nook_mux::testing::call;
use nook_wire::WireError;

use super::*;

fn opening() -> Message {
    Message::Truncate { position: 0 }
}

/// What the pipeline hears of a call whose other side says `words` and has closed it with `code`
/// before anything was sent to it.
async fn heard(words: Vec<Message>, code: Option<ErrorCode>) -> Vec<Event> {
    let tasks = Tasks::new();
    let (near, mut far, _link) = call::<Message>(&tasks).await;
    for word in words {
        far.send(word).await.expect("the call is open");
    }
    far.close(code);
    near.ended().await;
    let (_orders, inbox) = orders();
    let (events, mut told) = mpsc::channel(8);
    hold(AttemptId::FIRST, near, opening(), inbox, events).await;
    let mut all = Vec::new();
    while let Some(event) = told.recv().await {
        let CallEvent::Pipeline(event) = event else { panic!("{event:?}") };
        all.push(event);
    }
    tasks.cancel();
    all
}

#[tokio::test]
async fn a_refusal_is_heard_though_nothing_can_be_sent_any_more() {
    let sentence = "another time".to_owned();
    let error = WireError { code: ErrorCode::OutOfMemory, sentence };
    let draining = Message::Draining { sentence: "soon".to_owned() };
    let all = heard(vec![draining, Message::Error(error)], Some(ErrorCode::OutOfMemory)).await;
    let [Event::Draining { .. }, Event::Failed { code, sentence, .. }] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!((*code, sentence.as_str()), (ErrorCode::OutOfMemory, "another time"));
}

#[tokio::test]
async fn the_code_of_a_close_is_heard_and_a_close_without_one_is_a_loss() {
    let all = heard(Vec::new(), Some(ErrorCode::SwitchedOff)).await;
    let [Event::Failed { code: ErrorCode::SwitchedOff, .. }] = &all[..] else { panic!("{all:?}") };
    let all = heard(Vec::new(), None).await;
    assert!(matches!(all[..], [Event::Lost { .. }]), "{all:?}");
}

#[tokio::test]
async fn an_order_that_comes_after_the_end_says_nothing_of_its_own() {
    let (to, inbox) = orders::<Message>();
    let order = || Order::Send { head: opening(), tensor: None };
    for _ in 0..ORDERS_MAX {
        assert!(put(&to, order()));
    }
    assert!(!put(&to, order()), "there is no room");
    drop(inbox);
    assert!(put(&to, order()), "the task of the call tells how it ended");
}
