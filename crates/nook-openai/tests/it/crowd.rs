//! Many clients at once, and clients that leave.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;
use nook_api::REPLIES_WAITING_MAX;
use nook_base::clock;
use nook_openai::Limits;
use nook_testkit::Standstill;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::kit::{Port, body, long_body, until};

/// One reply at a time.
const ONE_AT_A_TIME: &str = "[distributed_inference]\nmax_concurrent_pipelines = 1\n";

/// Starts a stream, reads until its first words, and holds it there.
async fn begin_stream(port: &Port) -> (TcpStream, Standstill) {
    let slow = port.slow().await;
    let mut stream = port.connect().await;
    stream.write_all(&port.chat(&long_body(true)).bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("\"delta\":{\"content\"") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    (stream, slow.stand_still())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_36_a_burst_waits_its_turn() {
    let port = Port::open_with(Limits::USUAL, ONE_AT_A_TIME).await;
    let request = port.chat(&body(&json!({"max_tokens": 2})));
    let answers = join_all((0..12).map(|_| port.ask(&request))).await;
    let contents: Vec<_> = answers.iter().map(|answer| answer.content()).collect();
    assert!(contents.iter().all(|content| *content == contents[0]), "{contents:?}");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_36_beyond_the_queue_the_answer_is_429() {
    let port = Port::open_with(Limits::USUAL, ONE_AT_A_TIME).await;
    // While one long reply is made, as many as may wait do, and the rest is refused: not at once,
    // or it would come again at once.
    let first = begin_stream(&port).await;
    let begun = clock::now();
    let more = 5;
    let short = port.chat(&body(&json!({"max_tokens": 1})));
    let (tell, mut answered) = mpsc::channel(REPLIES_WAITING_MAX + more);
    let asked = (0..REPLIES_WAITING_MAX + more).map(async |_| {
        let answer = port.ask(&short).await;
        tell.send(answer.status).await.unwrap();
        answer
    });
    // While the first one is held, nobody is answered but those who are refused.
    let goes_on = async {
        for _ in 0..more {
            assert_eq!(answered.recv().await, Some(429));
            assert!(begun.elapsed() >= Duration::from_secs(1));
        }
        drop(first);
    };
    let (answers, ()) = tokio::join!(join_all(asked), goes_on);
    let (refused, waited): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 429);
    assert_eq!((refused.len(), waited.len()), (more, REPLIES_WAITING_MAX));
    assert!(waited.iter().all(|answer| answer.status == 200));
    for answer in refused {
        assert_eq!(answer.error_code(), "rate_limit_exceeded");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=120).contains(&seconds), "{seconds}");
    }
    port.wait_until_idle().await;
    port.close().await;
}

/// Reads until `seen` holds all of `wanted`, or to the end.
async fn read_until(stream: &mut TcpStream, wanted: &[&str]) -> String {
    let mut seen = String::new();
    while !wanted.iter().all(|wanted| seen.contains(wanted)) {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        if count == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_14_and_36_a_stream_that_waits_has_headers_and_is_kept_alive() {
    let port = Port::open_with(Limits::USUAL, ONE_AT_A_TIME).await;
    let (first, held) = begin_stream(&port).await;
    let prompt = json!({"model": "ember", "prompt": "Once", "max_tokens": 2, "stream": true, "temperature": 0});
    let input = json!({"model": "ember", "input": "hi", "max_output_tokens": 2, "stream": true, "temperature": 0});
    let mut waiting = Vec::new();
    for (path, body) in [
        ("/v1/chat/completions", body(&json!({"stream": true, "max_tokens": 2}))),
        ("/v1/completions", prompt.to_string()),
        ("/v1/responses", input.to_string()),
    ] {
        let request = port.request("POST", path).with("Content-Type", "application/json");
        let mut stream = port.connect().await;
        stream.write_all(&request.body(body.as_bytes()).bytes()).await.unwrap();
        waiting.push((path, stream));
    }
    // The first reply stands still meanwhile: all that these say comes while they wait.
    let mut heads = Vec::new();
    for (path, stream) in &mut waiting {
        let head = read_until(stream, &["\r\n\r\n", ":\n\n"]).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        assert!(head.contains("content-type: text/event-stream"), "{path}: {head}");
        assert!(!head.contains("finish_reason\":\""), "{path}: {head}");
        heads.push(head);
    }
    // Whoever leaves the queue in this state frees the place too.
    drop((first, held));
    for ((path, stream), head) in waiting.iter_mut().zip(&heads) {
        let whole = head.clone() + &read_until(stream, &["\r\n0\r\n\r\n"]).await;
        let end = if *path == "/v1/responses" { "response.incomplete" } else { "data: [DONE]" };
        assert!(whole.contains(end), "{path}: {whole}");
        assert!(whole.contains("ember"), "{path}: {whole}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_wrong_after_a_wait_is_an_error_in_the_stream_and_never_a_stop() {
    let port = Port::open_with(Limits::USUAL, ONE_AT_A_TIME).await;
    let (first, held) = begin_stream(&port).await;
    let long =
        json!({"stream": true, "messages": [{"role": "user", "content": "word ".repeat(4000)}]});
    let mut stream = port.connect().await;
    stream.write_all(&port.chat(&body(&long)).bytes()).await.unwrap();
    let head = read_until(&mut stream, &[":\n\n"]).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    drop((first, held));
    let rest = head + &read_until(&mut stream, &["\r\n0\r\n\r\n"]).await;
    assert!(
        rest.contains("data: {\"error\":{") && rest.contains("context_length_exceeded"),
        "{rest}"
    );
    assert!(!rest.contains("[DONE]") && !rest.contains("finish_reason\":\""), "{rest}");
    // The same without a wait has a status, and so has a model that is not there while others wait.
    assert_eq!(port.ask(&port.chat(&body(&long))).await.status, 400);
    let unknown = body(&json!({"stream": true, "model": "nobody"}));
    assert_eq!(port.ask(&port.chat(&unknown)).await.status, 404);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_and_row_15_leaving_frees_the_slot() {
    let port = Port::open_with(Limits::USUAL, ONE_AT_A_TIME).await;
    // Those who leave the queue are passed over when the slot is free.
    let first = begin_stream(&port).await;
    let mut queue = Vec::new();
    for _ in 0..REPLIES_WAITING_MAX {
        let mut stream = port.connect().await;
        stream.write_all(&port.chat(&long_body(true)).bytes()).await.unwrap();
        queue.push(stream);
    }
    drop((queue, first));
    port.wait_until_idle().await;
    // A whole reply is waited for without a byte coming back; its client's leaving counts as well.
    let mut stream = port.connect().await;
    stream.write_all(&port.chat(&long_body(false)).bytes()).await.unwrap();
    until(&port.house, |view| view.sharing.status_line.ends_with("answering")).await;
    drop(stream);
    port.wait_until_idle().await;
    assert_eq!(port.ask(&port.chat(&body(&json!({})))).await.status, 200);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t1_connections_are_counted_and_the_next_one_waits() {
    let port = Port::open_with(Limits { connections: 2, ..Limits::USUAL }, "").await;
    // Both are in the middle of something: neither makes room.
    let (first, held) = begin_stream(&port).await;
    let mut second = port.connect().await;
    second.write_all(&port.chat(&long_body(true)).bytes()).await.unwrap();
    let head = read_until(&mut second, &[":\n\n"]).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut third = port.connect().await;
    third.write_all(&port.request("GET", "/v1/models").bytes()).await.unwrap();
    for _ in 0..2 {
        read_until(&mut second, &[":\n\n"]).await;
    }
    let third = third.into_std().unwrap();
    assert_eq!(third.peek(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    drop((first, second, held));
    let answer = read_until(&mut TcpStream::from_std(third).unwrap(), &["}]}"]).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_on_which_nothing_is_asked_make_room_for_the_next_one() {
    // Nothing else would end them.
    let limits = Limits { connections: 2, header: Duration::from_secs(24 * 3600), ..Limits::USUAL };
    let port = Port::open_with(limits, "").await;
    let (fresh, mut used) = (port.connect().await, port.connect().await);
    assert_healthy(&port, &mut used).await;
    let answer = port.ask(&port.request("GET", "/v1/models")).await;
    assert_eq!(answer.status, 200);
    drop((fresh, used));
    port.close().await;
}

/// Connections with half a request each that hang on the port at one time.
const HALF_REQUESTS: usize = 500;

/// How often each of them comes again. A crowd without end would take a busy machine for itself.
const COMES_AGAIN: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn h9_half_requests_without_a_key_hold_up_nobody_who_has_one() {
    // Nothing else would end them, and each that ends is followed by another one.
    let limits = Limits { header: Duration::from_secs(24 * 3600), ..Limits::USUAL };
    let port = Port::open_with(limits, "").await;
    let half = port.request("GET", "/v1/models").without("Authorization").bytes();
    let half = half[..half.len() - 2].to_owned();
    let address = port.connect().await.peer_addr().unwrap();
    let mut crowd = JoinSet::new();
    let (sent, mut came) = mpsc::channel(HALF_REQUESTS);
    for _ in 0..HALF_REQUESTS {
        let (half, sent) = (half.clone(), sent.clone());
        crowd.spawn(async move {
            for _ in 0..=COMES_AGAIN {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    // One that was closed meanwhile is followed by another one as well.
                    let _ = stream.write_all(&half).await;
                    let _ = sent.try_send(());
                    let _ = stream.read(&mut [0]).await;
                }
            }
        });
    }
    for _ in 0..Limits::USUAL.connections {
        came.recv().await.unwrap();
    }
    for _ in 0..6 {
        let begun = clock::now();
        assert_eq!(port.ask(&port.request("GET", "/v1/models")).await.status, 200);
        println!("h9: answered after {} ms", begun.elapsed().as_millis());
    }
    crowd.shutdown().await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_the_node_leaves_ends_with_an_error() {
    let port = Port::open().await;
    let slow = port.slow().await;
    let seen = port.stream_and(async || port.house.shut_down().await).await;
    drop(slow);
    assert!(seen.contains("data: {\"error\":{") && seen.contains("draining"), "{seen}");
    assert!(!seen.contains("[DONE]") && !seen.contains("finish_reason\":\""), "{seen}");
    assert!(seen.ends_with("\r\n0\r\n\r\n"), "it is whole: {seen}");
}

/// Asks on a connection that stays, and is answered.
async fn assert_healthy(port: &Port, stream: &mut TcpStream) {
    let asked = port.request("GET", "/healthz").but("Connection", "keep-alive").bytes();
    stream.write_all(&asked).await.unwrap();
    let mut answer = [0; 2048];
    let count = stream.read(&mut answer).await.unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_serves_many_requests() {
    let port = Port::open().await;
    let mut stream = port.connect().await;
    for _ in 0..5 {
        assert_healthy(&port, &mut stream).await;
    }
    port.close().await;
}
