//! The form of Anthropic's clients.

use serde_json::{Value, json};

use crate::kit::{Answer, Port, Request, body};

const PATH: &str = "/v1/messages";

fn wish(more: &Value) -> Value {
    let mut wish = json!({
        "model": "ember",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 6,
        "temperature": 0,
    });
    for (key, value) in more.as_object().unwrap() {
        wish[key] = value.clone();
    }
    wish
}

/// A request as the packages send it: their own header for the key.
fn request(port: &Port, path: &str, body: &Value) -> Request {
    port.request("POST", path)
        .without("Authorization")
        .with("x-api-key", port.key.clone())
        .with("anthropic-version", "2023-06-01")
        .with("Content-Type", "application/json")
        .body(body.to_string().as_bytes())
}

async fn ask(port: &Port, more: Value) -> Value {
    let answer = port.ask(&request(port, PATH, &wish(&more))).await;
    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    answer.json()
}

fn text(message: &Value) -> &str {
    assert_eq!(message["content"][0]["type"], "text", "{message}");
    message["content"][0]["text"].as_str().unwrap()
}

/// The events of a stream without pings, each checked against its name.
fn events(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let events = text.split("\n\n").filter(|event| event.starts_with("event: "));
    let events = events.map(|event| {
        let (name, data) = event.split_once("\ndata: ").expect("an event has data");
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    events.filter(|event| event["type"] != "ping").collect()
}

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"way": {"enum": ["up", "down"]}}, "required": ["way"]});
    json!([{"name": "go", "description": "Goes.", "input_schema": schema}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_says_what_a_chat_does() {
    let port = Port::open().await;
    let chat = port.ask(&port.chat(&body(&json!({})))).await;
    let message = ask(&port, json!({})).await;
    assert_eq!(text(&message), chat.content());
    assert_eq!(
        (&message["type"], &message["role"], &message["model"], &message["stop_reason"]),
        (&json!("message"), &json!("assistant"), &json!("ember"), &json!("max_tokens"))
    );
    let count = |usage: &Value, field: &str| usage[field].as_u64().unwrap();
    let (usage, chats) = (&message["usage"], &chat.json()["usage"]);
    let read = count(usage, "input_tokens") + count(usage, "cache_read_input_tokens");
    assert_eq!(read, count(chats, "prompt_tokens"));
    assert_eq!(count(usage, "output_tokens"), count(chats, "completion_tokens"));
    let block =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let parts = json!([{"role": "user", "content": [block("hi")]}]);
    assert_eq!(text(&ask(&port, json!({"messages": parts})).await), chat.content());
    let system =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]);
    let chat = port.ask(&port.chat(&body(&json!({"messages": system})))).await;
    for system in [json!("Be brief."), json!([block("Be brief.")])] {
        assert_eq!(text(&ask(&port, json!({"system": system})).await), chat.content());
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_message_is_typed_events_and_says_what_the_whole_one_does() {
    let port = Port::open().await;
    let whole = ask(&port, json!({})).await;
    let answer = port.ask(&request(&port, PATH, &wish(&json!({"stream": true})))).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = events(&answer);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let deltas = kinds.iter().filter(|kind| **kind == "content_block_delta").count();
    assert!(deltas > 1, "it came in one lump");
    let mut expected = vec!["message_start", "content_block_start"];
    expected.extend(vec!["content_block_delta"; deltas]);
    expected.extend(["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(kinds, expected);
    let start = &events[0]["message"];
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));
    let said: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(said, text(&whole));
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "max_tokens");
    assert_eq!(end["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
    let total = |usage: &Value| {
        usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap()
    };
    assert_eq!(total(&start["usage"]), total(&end["usage"]));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_calls_tools_and_reads_their_results() {
    let port = Port::open().await;
    let forced = json!({
        "tools": tools(),
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "max_tokens": 300,
    });
    let message = ask(&port, forced.clone()).await;
    let call = &message["content"][0];
    assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!("go")), "{message}");
    assert_eq!(message["stop_reason"], "tool_use");
    assert!(["up", "down"].contains(&call["input"]["way"].as_str().unwrap()), "{message}");
    let mut streamed = forced;
    streamed["stream"] = true.into();
    let events = events(&port.ask(&request(&port, PATH, &wish(&streamed))).await);
    let joined: String =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(serde_json::from_str::<Value>(&joined).unwrap(), call["input"]);
    let begun = events.iter().find(|event| event["type"] == "content_block_start").unwrap();
    assert_eq!(begun["content_block"]["input"], json!({}));
    // Results, with thinking of an earlier turn and what the person says beside them.
    let said = |result: Value| {
        json!({"tools": tools(), "messages": [
            {"role": "user", "content": "Where is the fox?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""}, call,
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call["id"], "content": result},
                {"type": "text", "text": "Well?"},
            ]},
        ]})
    };
    let tokens = async |result: Value| {
        let counted = request(&port, "/v1/messages/count_tokens", &wish(&said(result)));
        port.ask(&counted).await.json()["input_tokens"].as_u64().unwrap()
    };
    let short = tokens(json!("On the hill.")).await;
    let long = json!([{"type": "text", "text": "On the hill, under the old tree, asleep."}]);
    assert!(tokens(long).await > short, "the result is part of the prompt");
    ask(&port, said(json!("On the hill."))).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_sequence_ends_the_message_and_is_named() {
    let port = Port::open().await;
    let whole = ask(&port, json!({"max_tokens": 12})).await;
    let whole = text(&whole);
    let middle = whole.char_indices().nth(whole.chars().count() / 2).unwrap().0;
    let stop: String = whole[middle..].chars().take(3).collect();
    let more = json!({"max_tokens": 12, "stop_sequences": ["\u{1}", stop]});
    let message = ask(&port, more.clone()).await;
    assert_eq!(text(&message), &whole[..whole.find(&stop).unwrap()]);
    assert_eq!(
        (&message["stop_reason"], &message["stop_sequence"]),
        (&json!("stop_sequence"), &json!(stop))
    );
    let mut streamed = more;
    streamed["stream"] = true.into();
    let events = events(&port.ask(&request(&port, PATH, &wish(&streamed))).await);
    assert_eq!(events[events.len() - 2]["delta"]["stop_sequence"], json!(stop));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_to_a_schema_and_goes_on_from_its_beginning() {
    let port = Port::open().await;
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    let format = json!({"format": {"type": "json_schema", "schema": schema}});
    let held = ask(&port, json!({"output_config": format, "max_tokens": 40})).await;
    assert!(serde_json::from_str::<Value>(text(&held)).unwrap()["ok"].is_boolean(), "{held}");
    let whole = ask(&port, json!({"max_tokens": 12})).await;
    let whole = text(&whole);
    let begun: String = whole.chars().take(whole.chars().count() / 2).collect();
    let begun = begun.trim_end();
    let messages =
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": begun}]);
    let rest = ask(&port, json!({"messages": messages, "max_tokens": 4})).await;
    assert!(!text(&rest).starts_with(begun), "what has begun is not said again: {rest}");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_counted_as_a_message_counts_them_also_where_they_are_too_many() {
    let port = Port::open().await;
    let path = "/v1/messages/count_tokens";
    let count = async |more: Value| {
        let mut wish = wish(&more);
        wish.as_object_mut().unwrap().remove("max_tokens");
        let answer = port.ask(&request(&port, path, &wish)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["input_tokens"].as_u64().unwrap()
    };
    let usage = &ask(&port, json!({"tools": tools()})).await["usage"];
    let read = usage["input_tokens"].as_u64().unwrap()
        + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(count(json!({"tools": tools()})).await, read);
    let window = u64::from(port.house.now().models[0].context_length);
    let long = "story ".repeat(usize::try_from(window).unwrap() + 1);
    let long = json!({"messages": [{"role": "user", "content": long}]});
    // All are counted where the count is what is asked for.
    let counted = count(long.clone()).await;
    assert!(counted > window + 1, "{counted}");
    // The words by which clients know that they must shorten.
    let refused = port.ask(&request(&port, PATH, &wish(&long))).await;
    assert_eq!(refused.status, 400);
    let message = refused.json()["error"]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.starts_with("prompt is too long: "), "{message}");
    assert!(message.ends_with(&format!("> {window} maximum")), "{message}");
    let tokens = message.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap();
    assert!((window..=counted).contains(&tokens), "{tokens}, {counted}");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_has_anthropics_form_and_an_id() {
    let port = Port::open().await;
    let block = |kind: &str| json!({"messages": [{"role": "user", "content": [{"type": kind, "source": {}}]}]});
    let server_tool = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    for (more, status, kind, says) in [
        (json!({"model": "nobody"}), 404, "not_found_error", "nobody"),
        (json!({"messages": []}), 400, "invalid_request_error", "messages"),
        (block("image"), 400, "invalid_request_error", "image"),
        (block("document"), 400, "invalid_request_error", "document"),
        (server_tool, 400, "invalid_request_error", "web_search_20250305"),
        (json!({"tool_choice": {"type": "any"}}), 400, "invalid_request_error", "tool"),
        (json!({"temperature": "hot"}), 400, "invalid_request_error", "temperature"),
        (json!({"thinking": {"type": "deep"}}), 400, "invalid_request_error", "thinking"),
        (json!({"system": "x".repeat(3 << 20)}), 413, "request_too_large", "2 MiB"),
    ] {
        let answer = port.ask(&request(&port, PATH, &wish(&more))).await;
        assert_eq!(answer.status, status, "{says}");
        check_error(&answer, kind, says);
    }
    let models = port.request("GET", "/v1/models").without("Authorization");
    let wrong = models.clone().with("x-api-key", "nook-wrong").with("anthropic-version", "1");
    check_error(&port.ask(&wrong).await, "authentication_error", "key");
    let list = models.with("x-api-key", port.key.clone());
    assert_eq!(port.ask(&list).await.json()["object"], "list");
    let list = port.ask(&list.with("anthropic-version", "1")).await.json();
    assert_eq!(
        (&list["data"][0]["type"], &list["data"][0]["id"]),
        (&json!("model"), &json!("ember"))
    );
    assert_eq!((&list["has_more"], &list["last_id"]), (&json!(false), &json!("ember")));
    let unknown =
        port.request("POST", "/v1/messages/batches").with("Content-Type", "application/json");
    check_error(&port.ask(&unknown).await, "not_found_error", "/v1/messages/batches");
    port.close().await;
}

#[track_caller]
fn check_error(answer: &Answer, kind: &str, says: &str) {
    let json = answer.json();
    assert_eq!((&json["type"], &json["error"]["type"]), (&json!("error"), &json!(kind)), "{json}");
    assert!(json["error"]["message"].as_str().unwrap().contains(says), "{json}");
    assert_eq!(json["request_id"].as_str(), answer.header("request-id"), "{json}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}
