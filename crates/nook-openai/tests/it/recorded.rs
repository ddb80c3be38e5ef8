//! What known programs send, and what they need to read (row 38).
//!
//! The files in `tests/recorded` are written from what each program is known to send, or shortened
//! from what it was seen to send; each step names the fields that the program's own reader wants, by
//! JSON pointer and kind.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;

use crate::kit::{Answer, Port};

/// Kinds of fields, by pointer.
type Wanted = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    #[serde(rename = "about")]
    _about: String,
    headers: BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: String,
    #[serde(default = "post")]
    method: String,
    path: String,
    body: Option<Value>,
    /// So often at once.
    #[serde(default = "once")]
    times: usize,
    /// Of a whole answer.
    #[serde(default)]
    want: Wanted,
    /// Of every chunk of a stream.
    #[serde(default)]
    each: Wanted,
    /// Of the JSON that the reply is.
    #[serde(default)]
    json: Wanted,
    /// The stream ends with a chunk that has usage and no choice.
    #[serde(default)]
    usage_chunk: bool,
    /// The stream is of typed events, of which the last one is this.
    ends: Option<String>,
    /// The stream calls these tools.
    #[serde(default)]
    calls: Vec<String>,
}

fn post() -> String {
    "POST".to_owned()
}

fn once() -> usize {
    1
}

#[track_caller]
fn check_fields(value: &Value, wanted: &Wanted, step: &str) {
    for (pointer, kind) in wanted {
        let found = match value.pointer(pointer) {
            None => "nothing",
            Some(Value::Null) => "null",
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(_)) => "number",
            Some(Value::String(_)) => "string",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
        };
        assert_eq!(found, kind, "{step}: {pointer} of {value}");
    }
}

fn check_stream(answer: &Answer, step: &Step, name: &str) {
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"), "{name}");
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{name}");
    let mut chunks = answer.chunks();
    if step.usage_chunk {
        let last = chunks.pop().expect("there is a last chunk");
        assert_eq!(last["choices"], serde_json::json!([]), "{name}");
        for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert!(last["usage"][field].is_u64(), "{name}: {last}");
        }
    }
    let mut ids: Vec<&str> = Vec::new();
    let mut called = Vec::new();
    for chunk in &chunks {
        check_fields(chunk, &step.each, name);
        assert!(!chunk["choices"].as_array().unwrap().is_empty(), "{name}: {chunk}");
        ids.push(chunk["id"].as_str().unwrap());
        let calls = chunk["choices"][0]["delta"]["tool_calls"].as_array();
        for call in calls.into_iter().flatten() {
            let index = usize::try_from(call["index"].as_u64().expect("a call has an index"));
            if let Some(tool) = call["function"]["name"].as_str() {
                assert!(call["id"].is_string(), "{name}: a first delta without id is dropped");
                assert_eq!(index.unwrap(), called.len(), "{name}");
                called.push(tool.to_owned());
            }
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{name}");
    assert_eq!(called, step.calls, "{name}");
    let reason = &chunks.last().unwrap()["choices"][0]["finish_reason"];
    assert!(reason.is_string() && (called.is_empty() || reason == "tool_calls"), "{name}");
}

/// A stream of responses or of messages.
fn check_typed_stream(answer: &Answer, step: &Step, ends: &str, name: &str) {
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"), "{name}");
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    events.iter().for_each(|event| check_fields(event, &step.each, name));
    assert_eq!(events.last().unwrap()["type"], ends, "{name}: {text}");
    let begun = events.iter().filter_map(|event| match event["type"].as_str()? {
        "response.output_item.added" => event["item"]["name"].as_str(),
        "content_block_start" => event["content_block"]["name"].as_str(),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), step.calls, "{name}");
}

async fn check(program: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{program}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let recording: Recording = serde_json::from_str(&text).unwrap();
    let port = Port::open().await;
    for step in &recording.steps {
        let name = format!("{program}, {}", step.name);
        let mut request = port.request(&step.method, &step.path);
        for (header, value) in &recording.headers {
            request = request.with(header, value);
        }
        if let Some(body) = &step.body {
            request = request.with("Content-Type", "application/json");
            request = request.body(body.to_string().as_bytes());
        }
        for answer in join_all((0..step.times).map(|_| port.ask(&request))).await {
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
            assert_eq!(answer.header("content-encoding"), None, "{name}");
            if let Some(ends) = &step.ends {
                check_typed_stream(&answer, step, ends, &name);
                continue;
            }
            if step.body.as_ref().is_some_and(|body| body["stream"] == true) {
                check_stream(&answer, step, &name);
                continue;
            }
            check_fields(&answer.json(), &step.want, &name);
            if !step.json.is_empty() {
                let reply: Value = serde_json::from_str(&answer.content()).unwrap();
                check_fields(&reply, &step.json, &name);
            }
        }
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_webui_reads_what_it_asked_for() {
    check("open-webui").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn continue_reads_what_it_asked_for() {
    check("continue").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zed_reads_what_it_asked_for() {
    check("zed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain_reads_what_it_asked_for() {
    check("langchain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_reads_what_it_asked_for() {
    check("codex").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_reads_what_it_asked_for() {
    check("opencode").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_reads_what_it_asked_for() {
    check("claude-code").await;
}
