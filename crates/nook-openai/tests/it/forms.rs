//! Replies that call tools or keep to a schema (rows 26 to 29).

use serde_json::{Value, json};

use crate::kit::{Answer, Port, body};

/// Two tools whose arguments are few.
fn tools() -> Value {
    let tool = |name: &str, property: Value| {
        let parameters = json!({
            "type": "object",
            "properties": {"way": property},
            "required": ["way"],
        });
        json!({"type": "function", "function": {"name": name, "description": "Goes.", "parameters": parameters}})
    };
    json!([tool("go", json!({"enum": ["up", "down"]})), tool("stay", json!({"type": "boolean"}))])
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"mood": {"enum": ["calm", "wild"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["mood", "count"],
        "additionalProperties": false,
    })
}

fn by_schema(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "reply", "strict": true, "schema": schema}})
}

async fn chat(port: &Port, more: Value) -> Answer {
    let answer = port.ask(&port.chat(&body(&more))).await;
    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    answer
}

fn check_call(call: &Value, names: &[&str]) {
    let name = call["function"]["name"].as_str().unwrap();
    assert!(names.contains(&name), "{call}");
    assert_eq!(call["type"], "function");
    assert!(!call["id"].as_str().unwrap().is_empty());
    let arguments: Value =
        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    match name {
        "go" => assert!(["up", "down"].contains(&arguments["way"].as_str().unwrap()), "{call}"),
        _ => assert!(arguments["way"].is_boolean(), "{call}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_26_every_choice_of_a_tool_does_what_it_says() {
    let port = Port::open().await;
    let named = json!({"type": "function", "function": {"name": "stay"}});
    for (choice, names) in [
        (json!("required"), &["go", "stay"][..]),
        (named, &["stay"]),
        (json!({"type": "function", "name": "go"}), &["go"]),
    ] {
        for more in [
            json!({}),
            json!({"temperature": 1.5, "seed": 3}),
            json!({"parallel_tool_calls": false}),
        ] {
            let mut wish = json!({"tools": tools(), "tool_choice": choice, "max_tokens": 700});
            for (key, value) in more.as_object().unwrap() {
                wish[key] = value.clone();
            }
            let answer = chat(&port, wish).await.json();
            let choice = &answer["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
            assert_eq!(choice["message"]["content"], Value::Null, "{answer}");
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            calls.iter().for_each(|call| check_call(call, names));
            assert!(
                calls.len() == 1 || (names.len() > 1 && !more["parallel_tool_calls"].is_boolean())
            );
        }
    }
    // The story model calls nothing by itself.
    for choice in [json!("none"), json!("auto"), Value::Null] {
        let answer = chat(&port, json!({"tools": tools(), "tool_choice": choice})).await;
        assert!(!answer.content().is_empty());
        assert_eq!(answer.json()["choices"][0]["message"].get("tool_calls"), None);
    }
    let plain = chat(&port, json!({})).await.content();
    let none = chat(&port, json!({"tools": tools(), "tool_choice": "none"})).await.content();
    assert_eq!(none, plain, "a model that may not call is told of no tools");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tools_that_are_allowed_are_offered() {
    let port = Port::open().await;
    let allowed = |mode: &str, name: &str| {
        let tools = json!([{"type": "function", "function": {"name": name}}]);
        json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}})
    };
    let wish = |choice: Value| json!({"tools": tools(), "tool_choice": choice, "max_tokens": 700});
    for name in ["go", "stay"] {
        let answer = chat(&port, wish(allowed("required", name))).await.json();
        let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        calls.iter().for_each(|call| assert_eq!(call["function"]["name"], name, "{answer}"));
    }
    let one = json!([tools()[0]]);
    let told = |answer: Answer| answer.json()["usage"]["prompt_tokens"].clone();
    assert_eq!(
        told(chat(&port, wish(allowed("auto", "go"))).await),
        told(chat(&port, json!({"tools": one, "max_tokens": 700})).await),
        "the model is told of the others"
    );
    for choice in [
        allowed("required", "fly"),
        allowed("none", "go"),
        json!({"type": "allowed_tools", "mode": "auto"}),
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}),
    ] {
        let refused = port.ask(&port.chat(&body(&wish(choice.clone())))).await;
        let param = &refused.json()["error"]["param"];
        assert_eq!((refused.status, param), (400, &json!("tool_choice")), "{choice}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_27_streamed_calls_say_who_first_and_then_with_what() {
    let port = Port::open().await;
    let wish = json!({"tools": tools(), "tool_choice": "required", "max_tokens": 700});
    let whole = chat(&port, wish.clone()).await.json();
    let mut streamed = wish;
    streamed["stream"] = true.into();
    let chunks = chat(&port, streamed).await.chunks();
    let mut calls: Vec<Value> = Vec::new();
    for chunk in &chunks {
        let Some(delta) = chunk["choices"][0]["delta"]["tool_calls"].get(0) else { continue };
        let index = usize::try_from(delta["index"].as_u64().unwrap()).unwrap();
        match delta.get("id") {
            Some(id) => {
                assert_eq!(index, calls.len(), "calls begin in order");
                calls.push(json!({"id": id, "type": delta["type"], "function": delta["function"]}));
            }
            None => {
                let so_far = calls[index]["function"]["arguments"].as_str().unwrap();
                let more = delta["function"]["arguments"].as_str().unwrap();
                calls[index]["function"]["arguments"] = format!("{so_far}{more}").into();
            }
        }
    }
    let expected = whole["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    let function = |call: &Value| call["function"].clone();
    assert_eq!(
        calls.iter().map(function).collect::<Vec<_>>(),
        expected.iter().map(function).collect::<Vec<_>>()
    );
    calls.iter().for_each(|call| check_call(call, &["go", "stay"]));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_calls_are_read() {
    let port = Port::open().await;
    let said = |result: &str| {
        json!({"tools": tools(), "messages": [
            {"role": "user", "content": "Where is the fox?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "go", "arguments": "{\"way\": \"up\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": result}]},
        ]})
    };
    let tokens = |answer: Answer| answer.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let short = tokens(chat(&port, said("On the hill.")).await);
    let mut object = said("On the hill.");
    object["messages"][1]["tool_calls"][0]["function"]["arguments"] = json!({"way": "up"});
    chat(&port, object).await;
    let long = tokens(chat(&port, said("On the hill, under the old tree, asleep.")).await);
    assert!(long > short, "the result is part of the prompt");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_29_a_reply_keeps_to_its_schema() {
    let port = Port::open().await;
    let format = by_schema(&schema());
    for more in
        [json!({}), json!({"temperature": 2, "seed": 5, "top_p": 1, "top_k": 0, "min_p": 0})]
    {
        let mut wish = json!({"response_format": format, "max_tokens": 64});
        for (key, value) in more.as_object().unwrap() {
            wish[key] = value.clone();
        }
        let answer = chat(&port, wish.clone()).await;
        assert_eq!(answer.json()["choices"][0]["finish_reason"], "stop", "{}", answer.text());
        let value: Value = serde_json::from_str(&answer.content()).unwrap();
        assert!(["calm", "wild"].contains(&value["mood"].as_str().unwrap()), "{value}");
        assert!(value["count"].as_u64().unwrap() < 100, "{value}");
        wish["stream"] = true.into();
        assert_eq!(chat(&port, wish).await.joined("content"), answer.content());
    }
    // The other words for a schema, which were no use if they were ignored.
    for other in [
        json!({"guided_json": schema()}),
        json!({"guided_json": schema().to_string()}),
        json!({"response_format": {"type": "json_object", "schema": schema()}}),
    ] {
        let mut wish = other.clone();
        wish["max_tokens"] = 64.into();
        let value: Value = serde_json::from_str(&chat(&port, wish).await.content()).unwrap();
        assert!(["calm", "wild"].contains(&value["mood"].as_str().unwrap()), "{other}: {value}");
    }
    let any = json!({"response_format": {"type": "json_object"}, "max_tokens": 200});
    let any = chat(&port, any).await;
    let is_whole = any.json()["choices"][0]["finish_reason"] == "stop";
    assert!(any.content().starts_with('{'), "{}", any.text());
    assert_eq!(serde_json::from_str::<Value>(&any.content()).is_ok(), is_whole, "{}", any.text());
    let long = by_schema(&json!({"type": "string", "minLength": 200}));
    let cut = chat(&port, json!({"response_format": long, "max_tokens": 5})).await;
    assert!(cut.content().starts_with('"'), "{}", cut.text());
    assert_eq!(cut.json()["choices"][0]["finish_reason"], "length");
    let both = json!({"response_format": format, "tools": tools(), "max_tokens": 128});
    let answer = chat(&port, both).await.json();
    let message = &answer["choices"][0]["message"];
    assert!(
        message["tool_calls"].is_array()
            || serde_json::from_str::<Value>(message["content"].as_str().unwrap()).is_ok(),
        "{answer}"
    );
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_the_names_that_are_listed() {
    // As Zod writes `z.record(z.enum([...]), z.boolean())`, and Pydantic `dict[Room, bool]`.
    let port = Port::open().await;
    let rooms = json!({"type": "string", "enum": ["kitchen", "attic"]});
    let record = |names: &Value| {
        json!({
            "type": "object",
            "propertyNames": names,
            "additionalProperties": {"type": "boolean"},
            "required": ["kitchen"],
            "$defs": {"Room": rooms},
        })
    };
    for schema in [record(&rooms), record(&json!({"$ref": "#/$defs/Room"}))] {
        for seed in 0..4 {
            let held = json!({
                "response_format": by_schema(&schema),
                "max_tokens": 64,
                "temperature": 1.5,
                "seed": seed,
            });
            let answer = port.ask(&port.chat(&body(&held))).await;
            let said: Value = serde_json::from_str(&answer.content()).expect("the reply is JSON");
            assert!(said["kitchen"].is_boolean(), "{said}");
            let mut names = said.as_object().unwrap().keys();
            assert!(names.all(|name| name == "kitchen" || name == "attic"), "{said}");
        }
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_no_grammar_keeps_are_left_to_the_client() {
    let port = Port::open().await;
    for schema in [
        json!({"type": "string", "format": "klingon", "maxLength": 3}),
        json!({"type": "string", "pattern": "^(?!x)", "maxLength": 3}),
        json!({"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "maxItems": 2}),
        json!({"oneOf": [{"const": "a"}, {"const": "b"}], "not": {"const": "b"}}),
        json!({"type": "object", "propertyNames": {"maxLength": 9}, "additionalProperties": false}),
    ] {
        let wish = body(&json!({"response_format": by_schema(&schema), "max_tokens": 64}));
        let answer = port.ask(&port.chat(&wish)).await;
        assert_eq!(answer.status, 200, "{schema}: {}", answer.text());
        let content = answer.json()["choices"][0]["message"]["content"].clone();
        let value = serde_json::from_str::<Value>(content.as_str().unwrap());
        assert!(value.is_ok(), "{schema}: {content}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_cannot_be_kept_to_is_refused_by_name() {
    let port = Port::open().await;
    for (schema, part) in [
        (json!({"type": "integer", "minimum": 5, "maximum": 2}), "nsatisfiable"),
        (json!({"$ref": "https://example.com/x"}), "example.com"),
    ] {
        let wish = body(&json!({"response_format": by_schema(&schema)}));
        let answer = port.ask(&port.chat(&wish)).await;
        answer.error_code();
        assert_eq!(answer.status, 400, "{schema}");
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    port.close().await;
}
