//! The exact shapes, byte by byte, apart from ids and times.
//!
//! The model's words are not what is tested here: they are asked of the house itself, through its
//! own door, and put into the expected text.

use nook_api::views::{ChatRole, FinishReason, ReplyEvent, ReplySummary};
use nook_api::{ChatMessage, GenerateRequest, NodeHandle, Prompt, Reach, SamplingParameters};
use nook_base::Sensitive;
use serde_json::json;

use crate::kit::{Answer, Port, body};

/// What the house itself says to the usual request: the pieces and the end.
async fn said(house: &NodeHandle) -> (Vec<String>, ReplySummary) {
    let text = Sensitive("hi".to_owned());
    let request = GenerateRequest {
        model: "ember".to_owned(),
        prompt: Prompt::Chat(vec![ChatMessage { role: ChatRole::User, text }]),
        tokens_max: Some(6),
        sampling: SamplingParameters::GREEDY.into(),
        stop: Vec::new(),
        thinking: nook_api::Thinking::AsUsual,
        activation_dtype: None,
        reach: Reach::House,
    };
    let mut reply = house.generate(request).await.unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = reply.events.recv().await {
        match piece.event {
            ReplyEvent::TokenDelta { text, .. } if !text.is_empty() => pieces.push(text),
            ReplyEvent::Done { summary } => return (pieces, summary),
            _ => {}
        }
    }
    panic!("the house did not finish");
}

fn reason(summary: &ReplySummary) -> &'static str {
    match summary.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

fn usage(summary: &ReplySummary) -> String {
    let (prompt, reply) = (summary.prompt_tokens, summary.completion_tokens);
    format!(
        r#"{{"prompt_tokens":{prompt},"completion_tokens":{reply},"total_tokens":{}}}"#,
        prompt + reply
    )
}

/// The text with the reply's id and time in it, which no two replies share.
fn masked(answer: &Answer, sample: &serde_json::Value) -> String {
    let id = sample["id"].as_str().unwrap();
    let hexadecimal = id.strip_prefix("chatcmpl-").unwrap();
    assert!(hexadecimal.len() == 16 && hexadecimal.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
    let created = sample["created"].as_u64().unwrap();
    answer.text().replace(id, "ID").replace(&format!(r#""created":{created}"#), r#""created":0"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_has_this_shape() {
    let port = Port::open().await;
    let (pieces, summary) = said(&port.house).await;
    let answer = port.ask(&port.chat(&body(&json!({})))).await;
    let expected = format!(
        concat!(
            r#"{{"id":"ID","object":"chat.completion","created":0,"model":"ember","choices":["#,
            r#"{{"index":0,"message":{{"role":"assistant","content":{},"refusal":null}},"#,
            r#""logprobs":null,"finish_reason":"{}"}}],"usage":{}}}"#
        ),
        json!(pieces.concat()),
        reason(&summary),
        usage(&summary),
    );
    assert_eq!(masked(&answer, &answer.json()), expected);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_these_bytes() {
    let port = Port::open().await;
    let (pieces, summary) = said(&port.house).await;
    for include_usage in [false, true] {
        let mut more = json!({"stream": true, "model": "EMBER"});
        if include_usage {
            more["stream_options"] = json!({"include_usage": true});
        }
        let answer = port.ask(&port.chat(&body(&more))).await;
        let head = r#"{"id":"ID","object":"chat.completion.chunk","created":0,"model":"ember","#;
        let event = |delta: &str, reason: &str| {
            format!(
                "data: {head}\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
            )
        };
        let mut expected = event(r#"{"role":"assistant","content":""}"#, "null");
        for piece in &pieces {
            expected.push_str(&event(&json!({"content": piece}).to_string(), "null"));
        }
        expected.push_str(&event("{}", &format!("{:?}", reason(&summary))));
        if include_usage {
            let usage = usage(&summary);
            expected.push_str(&format!("data: {head}\"choices\":[],\"usage\":{usage}}}\n\n"));
        }
        expected.push_str("data: [DONE]\n\n");
        assert_eq!(without_comments(&masked(&answer, &answer.chunks()[0])), expected);
        for (name, value) in [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(answer.header(name), Some(value));
        }
        assert_eq!(answer.header("content-encoding"), None);
    }
    port.close().await;
}

/// A slow machine may need a comment to keep the connection awake.
fn without_comments(text: &str) -> String {
    text.split_inclusive("\n\n").filter(|event| !event.starts_with(':')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_has_this_shape() {
    let port = Port::open().await;
    let key = port.request("GET", "/v1/models");
    for (request, status, expected) in [
        (
            key.clone().but("Authorization", "Bearer wrong"),
            401,
            r#"{"error":{"message":"The API key is not the one of this house.","type":"authentication_error","param":null,"code":"invalid_api_key"}}"#,
        ),
        (
            key.clone().without("Authorization"),
            401,
            r#"{"error":{"message":"An API key is needed: `nook key` prints it, the window shows it under Settings, Other programs.","type":"authentication_error","param":null,"code":"invalid_api_key"}}"#,
        ),
        (
            key.clone().but("Host", "evil.com"),
            403,
            r#"{"error":{"message":"This port answers only to 127.0.0.1 or localhost with its port number; list another name under [port] allowed_hosts.","type":"permission_error","param":null,"code":null}}"#,
        ),
        (
            key.clone().with("Origin", "https://evil.com"),
            403,
            r#"{"error":{"message":"Web pages may not use this port; list the origin under [port] allowed_origins.","type":"permission_error","param":null,"code":null}}"#,
        ),
        (
            port.request("GET", "/v1/nothing"),
            404,
            r#"{"error":{"message":"There is no GET /v1/nothing here.","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
        (
            port.request("GET", "/v1/models/x"),
            404,
            r#"{"error":{"message":"There is no model \"x\" here. There are: ember.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        ),
        (
            port.request("DELETE", "/v1/models"),
            405,
            r#"{"error":{"message":"/v1/models does not take DELETE.","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
        (
            port.chat("{"),
            400,
            r#"{"error":{"message":"The body is not JSON: EOF while parsing an object at line 1 column 1.","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
        (
            port.chat("{}"),
            400,
            r#"{"error":{"message":"The body cannot be understood: missing field `messages` at line 1 column 2.","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
        (
            port.chat(r#"{"messages":[],"max_tokens":"a"}"#),
            400,
            r#"{"error":{"message":"max_tokens cannot be understood: invalid type: string \"a\", expected i64 at line 1 column 31.","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
        ),
        (
            port.chat("{}").but("Content-Type", "text/plain"),
            415,
            r#"{"error":{"message":"The body must be application/json.","type":"invalid_request_error","param":null,"code":null}}"#,
        ),
    ] {
        let answer = port.ask(&request).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, expected));
        answer.error_code();
    }
    port.close().await;
}
