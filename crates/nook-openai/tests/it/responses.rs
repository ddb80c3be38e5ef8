//! The newer shape of answers (row 35).

use serde_json::{Value, json};

use crate::kit::{Port, body};

const PATH: &str = "/v1/responses";

fn wish(more: Value) -> Value {
    let mut wish =
        json!({"model": "ember", "input": "hi", "max_output_tokens": 6, "temperature": 0});
    for (key, value) in more.as_object().unwrap() {
        wish[key] = value.clone();
    }
    wish
}

async fn respond(port: &Port, more: Value) -> Value {
    let answer = port.post(PATH, &wish(more.clone())).await;
    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["object"], "response");
    answer
}

/// The text of the one message of a response.
fn text(response: &Value) -> &str {
    let item = &response["output"][0];
    assert_eq!(
        (&item["type"], &item["role"]),
        (&json!("message"), &json!("assistant")),
        "{response}"
    );
    assert_eq!(item["content"][0]["type"], "output_text");
    item["content"][0]["text"].as_str().unwrap()
}

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"way": {"enum": ["up", "down"]}}, "required": ["way"]});
    json!([{"type": "function", "name": "go", "parameters": parameters, "strict": true}])
}

#[tokio::test(flavor = "multi_thread")]
async fn row_35_a_response_says_what_a_chat_does() {
    let port = Port::open().await;
    let chat = port.ask(&port.chat(&body(&json!({})))).await;
    let response = respond(&port, json!({})).await;
    assert_eq!(text(&response), chat.content());
    let usage = &chat.json()["usage"];
    assert_eq!(response["usage"]["input_tokens"], usage["prompt_tokens"]);
    assert_eq!(response["usage"]["total_tokens"], usage["total_tokens"]);
    let details = &response["usage"]["input_tokens_details"];
    assert_eq!(details["cache_write_tokens"], 0, "{details}");
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
    let parts = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]);
    assert_eq!(text(&respond(&port, json!({"input": parts})).await), chat.content());
    let told = json!({"instructions": "Be brief.", "metadata": {"a": "b"}});
    let response = respond(&port, told).await;
    let system =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]);
    let chat = port.ask(&port.chat(&body(&json!({"messages": system})))).await;
    assert_eq!(text(&response), chat.content());
    assert_eq!(response["metadata"], json!({"a": "b"}));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_response_is_typed_events_and_ends_as_the_whole_one() {
    let port = Port::open().await;
    let whole = respond(&port, json!({})).await;
    let answer = port.post(PATH, &wish(json!({"stream": true}))).await;
    assert!(!answer.text().contains("[DONE]"));
    let events = answer.typed_events();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let deltas = kinds.iter().filter(|kind| **kind == "response.output_text.delta").count();
    assert!(deltas > 1, "it came in one lump");
    let mut expected = vec![
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ];
    expected.extend(vec!["response.output_text.delta"; deltas]);
    expected.extend([
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]);
    assert_eq!(kinds, expected);
    let said: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, text(&whole));
    let last = &events[events.len() - 1]["response"];
    assert_eq!(text(last), said);
    assert_eq!(last["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_too_long_fails_in_the_stream_and_is_refused_without_one() {
    let port = Port::open().await;
    let long = json!({"input": "word ".repeat(20_000)});
    let answer = port.post(PATH, &wish(long.clone())).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (400, &json!("context_length_exceeded"))
    );
    let mut streamed = long;
    streamed["stream"] = true.into();
    let answer = port.post(PATH, &wish(streamed)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = answer.typed_events();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["response.created", "response.failed"]);
    let failed = &events[1]["response"];
    assert_eq!((&failed["status"], &failed["model"]), (&json!("failed"), &json!("ember")));
    assert_eq!(failed["error"]["code"], "context_length_exceeded");
    assert!(failed["error"]["message"].as_str().unwrap().contains("maximum context length"));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_calls_tools_and_reads_their_results() {
    let port = Port::open().await;
    let forced = json!({"tools": tools(), "tool_choice": {"type": "function", "name": "go"}, "max_output_tokens": 200});
    let response = respond(&port, forced.clone()).await;
    let call = &response["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("go")),
        "{response}"
    );
    let arguments = call["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).unwrap()["way"].is_string());
    assert_eq!((&response["status"], &call["status"]), (&json!("completed"), &json!("completed")));
    let mut streamed = forced;
    streamed["stream"] = true.into();
    let events = port.post(PATH, &wish(streamed)).await.typed_events();
    let joined: String = events
        .iter()
        .filter(|event| event["type"] == "response.function_call_arguments.delta")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(joined, arguments);
    let allowed = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "go"}]});
    let wish = json!({"tools": tools(), "tool_choice": allowed, "max_output_tokens": 200});
    assert_eq!(respond(&port, wish).await["output"][0]["name"], "go");
    let result =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Up there."});
    let history = json!([{"role": "user", "content": "hi"}, call, result]);
    respond(&port, json!({"input": history, "tools": tools()})).await;
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    let format =
        json!({"type": "json_schema", "name": "verdict", "schema": schema, "strict": true});
    let held = respond(&port, json!({"text": {"format": format}, "max_output_tokens": 40})).await;
    assert!(serde_json::from_str::<Value>(text(&held)).unwrap()["ok"].is_boolean());
    assert_eq!(held["text"]["format"]["name"], "verdict");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_on_from_an_answer_of_its_own_key() {
    let port = Port::open().await;
    let first = respond(&port, json!({"instructions": "Be brief."})).await;
    assert_eq!(first["store"], true);
    let history = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": text(&first)},
        {"role": "user", "content": "Go on."},
    ]);
    let known = respond(&port, json!({"input": history, "instructions": "Be short."})).await;
    let more = json!({"input": "Go on.", "previous_response_id": first["id"], "instructions": "Be short."});
    let next = respond(&port, more.clone()).await;
    assert_eq!(text(&next), text(&known), "its instructions count for itself alone");
    assert_eq!(next["usage"]["input_tokens"], known["usage"]["input_tokens"]);
    assert_eq!(next["previous_response_id"], first["id"]);
    // Streamed, and from the answer that went on.
    let third = json!({"input": "And then?", "previous_response_id": next["id"], "stream": true});
    let events = port.post(PATH, &wish(third)).await.typed_events();
    let third = &events.last().unwrap()["response"];
    let tokens = |response: &Value| response["usage"]["input_tokens"].as_u64().unwrap();
    assert!(tokens(third) > tokens(&next), "it holds all that was said");
    // An item of it stands for what it is.
    let mut referring = history;
    referring[1] = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let referring = json!({"input": referring, "instructions": "Be short."});
    assert_eq!(text(&respond(&port, referring.clone()).await), text(&known));
    // Another key knows nothing of it, nor is there what was not to be kept.
    let zed = port.house.add_port_key("Zed".to_owned()).await.unwrap();
    let as_zed = port.request("POST", PATH).with("Content-Type", "application/json");
    let as_zed = as_zed.but("Authorization", format!("Bearer {}", zed.0));
    for (more, param) in [(more, "previous_response_id"), (referring, "input")] {
        let refused = port.ask(&as_zed.clone().body(wish(more).to_string().as_bytes())).await;
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(param)));
    }
    let unkept = respond(&port, json!({"store": false})).await;
    assert_eq!(unkept["store"], false);
    let more = json!({"previous_response_id": unkept["id"]});
    let refused = port.post(PATH, &wish(more)).await;
    assert_eq!(refused.error_code(), "previous_response_not_found");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_servers_of_openai_do_is_left_out_and_namespaces_are_opened() {
    let port = Port::open().await;
    let go = tools()[0].clone();
    let offered = json!([
        {"type": "web_search"},
        {"type": "local_shell"},
        {"type": "namespace", "name": "house", "description": "Of the house.", "tools": [go]},
    ]);
    let wish = json!({"tools": offered, "tool_choice": "required", "parallel_tool_calls": false, "max_output_tokens": 200});
    let response = respond(&port, wish).await;
    let call = &response["output"][0];
    assert_eq!(
        (&call["type"], &call["namespace"], &call["name"]),
        (&json!("function_call"), &json!("house"), &json!("go")),
        "{response}"
    );
    assert_eq!(response["tools"].as_array().map(Vec::len), Some(1), "it says what was offered");
    let result =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Up there."});
    let history = json!([{"role": "user", "content": "hi"}, call, result]);
    respond(&port, json!({"input": history, "tools": offered})).await;
    respond(&port, json!({"tools": [{"type": "web_search"}]})).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_or_not_done_is_refused_by_name() {
    let port = Port::open().await;
    for (more, param) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"conversation": "conv_1"}), "conversation"),
        (json!({"background": true}), "background"),
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"input": []}), "input"),
        (json!({"input": [{"type": "item_reference", "id": "x"}]}), "input"),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
            "input",
        ),
        (json!({"tools": [{"type": "function"}]}), "tools"),
        (json!({"text": {"format": {"type": "xml"}}}), "text"),
    ] {
        assert_eq!(port.refused(PATH, &wish(more.clone())).await, (400, json!(param)), "{more}");
    }
    port.close().await;
}
