//! What clients need, row by row of the API design.

use serde_json::{Value, json};

use crate::kit::{Port, body};

/// Asks for a chat completion with the usual body and `more`; gives the reply's text.
async fn check_answer(port: &Port, row: &str, more: Value) -> String {
    let answer = port.ask(&port.chat(&body(&more))).await;
    assert_eq!(answer.status, 200, "{row}: {}", answer.text());
    answer.content()
}

/// Asks for a chat completion that is refused: status, field and code.
async fn check_refusal(port: &Port, row: &str, more: Value, expected: (u16, Value, Value)) {
    let answer = port.ask(&port.chat(&body(&more))).await;
    let code = answer.error_code();
    let param = answer.json()["error"]["param"].clone();
    assert_eq!((answer.status, param, code), expected, "{row}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_1_every_base_path_works_with_and_without_a_slash() {
    let port = Port::open().await;
    for path in
        ["/v1/chat/completions", "/v1/chat/completions/", "/chat/completions", "/chat/completions/"]
    {
        let request = port.request("POST", path).with("Content-Type", "application/json");
        let answer = port.ask(&request.body(body(&json!({})).as_bytes())).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    for path in [
        "/v1",
        "/v1/",
        "/v1/models",
        "/v1/models/",
        "/models",
        "/models/",
        "/v1/models/ember",
        "/models/ember",
        "/health",
        "/healthz",
    ] {
        assert_eq!(port.ask(&port.request("GET", path)).await.status, 200, "{path}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_unknown_routes_and_methods_are_errors_in_json() {
    let port = Port::open().await;
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/embeddings", 405),
        ("POST", "/v1/images/generations", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("OPTIONS", "/v1/models", 405),
        ("PUT", "/v1/models/ember", 405),
        ("GET", "/v1/models/%ff", 400),
        ("GET", "/v1/models/publisher/model", 404),
    ] {
        let request = port.request(method, path).with("Content-Type", "application/json");
        let answer = port.ask(&request).await;
        answer.error_code();
        assert_eq!(answer.status, status, "{method} {path}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_5_and_6_messages_come_in_every_shape() {
    let port = Port::open().await;
    let plain = check_answer(&port, "5", json!({})).await;
    let same = [
        ("5 parts", json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])),
        (
            "5 two parts",
            json!([{"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]),
        ),
        ("7 unknown fields", json!([{"role": "user", "content": "hi", "name": "x", "cache": 1}])),
    ];
    for (row, messages) in same {
        assert_eq!(check_answer(&port, row, json!({"messages": messages})).await, plain, "{row}");
    }
    let roles = |system: &str| json!({"messages": [{"role": system, "content": "Be brief."}, {"role": "user", "content": "hi"}]});
    let system = check_answer(&port, "6 system", roles("system")).await;
    assert_eq!(check_answer(&port, "6 developer", roles("developer")).await, system);
    let silent = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null},
        {"role": "user", "content": "go on"},
    ]);
    check_answer(&port, "5 null", json!({"messages": silent})).await;
    let picture =
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]);
    for (row, messages) in [
        ("5 picture", picture),
        ("5 number", json!([{"role": "user", "content": 5}])),
        ("6 role", json!([{"role": "narrator", "content": "hi"}])),
        ("no messages", json!([])),
        ("not a list", json!("hi")),
    ] {
        let answer = port.ask(&port.chat(&body(&json!({"messages": messages})))).await;
        answer.error_code();
        let param = answer.json()["error"]["param"].clone();
        assert_eq!(answer.status, 400, "{row}");
        assert!(
            param.as_str().is_some_and(|param| param.starts_with("messages")),
            "{row}: {param}"
        );
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_7_to_9_and_24_settings_that_clients_send_are_taken() {
    let port = Port::open().await;
    let plain = check_answer(&port, "plain", json!({})).await;
    for (row, more) in [
        ("7 unknown", json!({"safety_identifier": "x", "store": true, "metadata": {"a": [1]}})),
        ("8 alias", json!({"max_tokens": null, "max_completion_tokens": 6})),
        ("8 newer name wins", json!({"max_tokens": 1, "max_completion_tokens": 6})),
        ("12 no options", json!({"stream": null, "stream_options": null})),
        ("19 empty name", json!({"model": ""})),
        ("19 null", json!({"model": null})),
        ("19 default", json!({"model": "default"})),
        ("19 case", json!({"model": "EMBER"})),
        ("19 beginning", json!({"model": "emb"})),
        ("25 one", json!({"n": 1})),
        ("26 no tools", json!({"tools": [], "tool_choice": "none", "parallel_tool_calls": true})),
        ("29 text", json!({"response_format": {"type": "text"}, "modalities": ["text"]})),
        ("24 none", json!({"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}})),
        ("24 seed", json!({"seed": -1, "top_p": 1, "top_k": 1, "min_p": 0})),
        ("8 all that fits", json!({"max_tokens": -1, "max_completion_tokens": 6})),
        ("24 all", json!({"top_k": -1, "temperature": 0})),
        ("23 many", json!({"stop": ["\u{1}", "\u{2}", "\u{3}", "\u{4}", "\u{5}", "\u{6}"]})),
        ("23 none", json!({"stop": null})),
        ("23 empty", json!({"stop": []})),
    ] {
        assert_eq!(check_answer(&port, row, more).await, plain, "{row}");
    }
    let wild = json!({"temperature": 1.5, "seed": 7, "max_tokens": 24});
    let first = check_answer(&port, "24 seed", wild.clone()).await;
    assert_eq!(check_answer(&port, "24 same seed", wild).await, first);
    check_answer(&port, "8 more than any window", json!({"max_tokens": 99_999_999_999_u64})).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_several_replies_are_made_one_after_the_other() {
    let port = Port::open().await;
    let hot = |more: Value| {
        let mut wish = json!({"temperature": 1.5, "seed": 7, "max_tokens": 12});
        for (key, value) in more.as_object().unwrap() {
            wish[key] = value.clone();
        }
        port.chat(&body(&wish))
    };
    let one = port.ask(&hot(json!({}))).await;
    let three = port.ask(&hot(json!({"n": 3}))).await.json();
    let texts: Vec<_> = (0..3)
        .map(|at| {
            let choice = &three["choices"][at];
            assert_eq!(choice["index"], at);
            choice["message"]["content"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(texts[0], one.content(), "the seed is that of the first");
    assert!(texts[1] != texts[0] && texts[2] != texts[1], "{texts:?}");
    let usage = |answer: &Value, of: &str| answer["usage"][of].as_u64().unwrap();
    assert_eq!(usage(&three, "prompt_tokens"), usage(&one.json(), "prompt_tokens"));
    let streamed = json!({"n": 3, "stream": true, "stream_options": {"include_usage": true}});
    let chunks = port.ask(&hot(streamed)).await.chunks();
    let (last, chunks) = chunks.split_last().unwrap();
    assert_eq!(last["usage"], three["usage"]);
    for (at, text) in texts.iter().enumerate() {
        let of = chunks.iter().filter(|chunk| chunk["choices"][0]["index"] == at);
        let said: String = of
            .clone()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(said, *text);
        assert_eq!(of.filter(|it| it["choices"][0]["finish_reason"].is_string()).count(), 1);
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_23_a_stop_string_ends_the_reply_and_is_not_in_it() {
    let port = Port::open().await;
    let whole = check_answer(&port, "23", json!({"max_tokens": 12})).await;
    let middle = whole.char_indices().nth(whole.chars().count() / 2).unwrap().0;
    let stop: String = whole[middle..].chars().take(3).collect();
    let until = &whole[..whole.find(&stop).unwrap()];
    for (row, stop) in [("one", json!(stop)), ("several", json!(["\u{1}", stop]))] {
        for stream in [false, true] {
            let more = json!({"max_tokens": 12, "stop": stop, "stream": stream});
            let answer = port.ask(&port.chat(&body(&more))).await;
            let (text, reason) = if stream {
                let chunks = answer.chunks();
                let text: String = chunks
                    .iter()
                    .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
                    .collect();
                (text, chunks.last().unwrap()["choices"][0]["finish_reason"].clone())
            } else {
                (answer.content(), answer.json()["choices"][0]["finish_reason"].clone())
            };
            assert_eq!((text.as_str(), reason), (until, json!("stop")), "{row}, stream {stream}");
        }
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_by_name() {
    let port = Port::open().await;
    let tool = json!({"type": "function", "function": {"name": "f"}});
    for (row, more, param) in [
        ("25", json!({"n": 0}), "n"),
        ("25", json!({"n": 17}), "n"),
        ("24", json!({"frequency_penalty": 2.5}), "frequency_penalty"),
        ("24", json!({"presence_penalty": -3}), "presence_penalty"),
        ("24", json!({"logit_bias": {"1": 500}}), "logit_bias"),
        ("24", json!({"logit_bias": {"one": 5}}), "logit_bias"),
        ("26", json!({"tools": [{"type": "web_search"}]}), "tools"),
        ("26", json!({"tools": [tool, tool]}), "tools"),
        ("26", json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}), "tools"),
        ("26", json!({"tool_choice": "required"}), "tool_choice"),
        ("26", json!({"tools": [tool], "tool_choice": "perhaps"}), "tool_choice"),
        (
            "26",
            json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "g"}}}),
            "tool_choice",
        ),
        ("26", json!({"functions": [{"name": "f"}]}), "functions"),
        ("29", json!({"response_format": {"type": "xml"}}), "response_format"),
        ("29", json!({"response_format": {"type": "json_schema"}}), "response_format"),
        (
            "29",
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}}),
            "response_format",
        ),
        ("30", json!({"top_logprobs": 3}), "top_logprobs"),
        ("30", json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs"),
        ("26", json!({"messages": [{"role": "tool", "content": "x"}]}), "messages"),
        ("5", json!({"modalities": ["text", "audio"]}), "modalities"),
        ("23", json!({"stop": vec!["a"; 65]}), "stop"),
        ("23", json!({"stop": ""}), "stop"),
        ("23", json!({"stop": 3}), "stop"),
        ("8", json!({"max_tokens": 0}), "max_tokens"),
        ("8", json!({"max_tokens": -2}), "max_tokens"),
        ("24", json!({"top_k": -2}), "top_k"),
        ("29", json!({"guided_regex": "a+"}), "guided_regex"),
        ("29", json!({"guided_choice": ["a"]}), "guided_choice"),
        ("29", json!({"guided_json": 5}), "guided_json"),
        (
            "5",
            json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
            "messages",
        ),
        ("8", json!({"stream": "yes"}), "stream"),
    ] {
        check_refusal(&port, row, more, (400, json!(param), Value::Null)).await;
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_17_to_19_models_are_listed_found_and_missed_by_name() {
    let port = Port::open().await;
    let list = port.ask(&port.request("GET", "/v1/models")).await.json();
    let one = port.ask(&port.request("GET", "/v1/models/ember")).await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"], json!([one]));
    assert_eq!((one["id"].as_str(), one["object"].as_str()), (Some("ember"), Some("model")));
    assert!(one["created"].as_u64().is_some() && one["context_length"].as_u64().is_some());
    for path in ["/v1/models/publisher/model", "/v1/models/..%2f..%2fetc%2fpasswd"] {
        let answer = port.ask(&port.request("GET", path)).await;
        assert_eq!((answer.status, answer.error_code()), (404, json!("model_not_found")), "{path}");
        assert!(answer.text().contains("ember"), "{}", answer.text());
    }
    let missing = port.ask(&port.chat(&body(&json!({"model": "no-such-model"})))).await;
    assert_eq!((missing.status, missing.error_code()), (404, json!("model_not_found")));
    let text = missing.text();
    assert_eq!(text.matches("ember").count(), 1, "each model is named once: {text}");
    // By the names that a chat takes.
    for name in ["EMBER", "emb"] {
        let found = port.ask(&port.request("GET", &format!("/v1/models/{name}"))).await;
        assert_eq!(found.json()["id"], "ember", "{name}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_32_a_prompt_beyond_the_window_is_refused_with_the_numbers() {
    let port = Port::open().await;
    let window = port.house.now().models[0].context_length;
    let long = "story ".repeat(usize::try_from(window).unwrap() + 1);
    for stream in [false, true] {
        let more = json!({"messages": [{"role": "user", "content": long}], "stream": stream});
        let answer = port.ask(&port.chat(&body(&more))).await;
        assert_eq!((answer.status, answer.error_code()), (400, json!("context_length_exceeded")));
        // The words by which LiteLLM and others know that they must shorten, and LangChain's.
        for words in [
            format!("This model's maximum context length is {window} tokens. However, "),
            "Input tokens exceed the configured limit".to_owned(),
            // It is not counted to its end; in front of it stands a number for programs.
            "The prompt has at least ".to_owned(),
        ] {
            assert!(answer.text().contains(&words), "{}", answer.text());
        }
        let text = answer.text();
        let tokens = text.split("resulted in ").nth(1).and_then(|it| it.split(' ').next());
        let tokens: u32 = tokens.unwrap().parse().unwrap();
        assert!((window..=2 * window).contains(&tokens), "{tokens}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_an_id_of_its_own() {
    let port = Port::open().await;
    let list = port.request("GET", "/v1/models");
    let mut ids = Vec::new();
    for request in [
        list.clone(),
        list.clone(),
        list.clone().without("Authorization"),
        list.clone().but("Host", "evil.com:1"),
        port.request("GET", "/v1/nothing"),
        port.chat(&body(&json!({"stream": true}))),
    ] {
        let answer = port.ask(&request).await;
        let id = answer.header("x-request-id").expect("it has an id").to_owned();
        assert_eq!(answer.header("request-id"), Some(&*id));
        assert!(!ids.contains(&id), "{id}");
        ids.push(id);
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn localhost_is_here_in_both_families() {
    let Ok(probe) = std::net::TcpListener::bind("[::1]:0") else {
        nook_testkit::skip("localhost_is_here_in_both_families", "no IPv6");
        return;
    };
    drop(probe);
    for port in [Port::open().await, Port::exposed(std::net::Ipv4Addr::UNSPECIFIED.into()).await] {
        let stream = tokio::net::TcpStream::connect(("::1", port.number())).await;
        assert!(stream.is_ok(), "{stream:?}");
        port.close().await;
    }
}
