//! Plain text, continued (row 34).

use serde_json::{Value, json};

use crate::kit::{Answer, Port};

const PATH: &str = "/v1/completions";

fn wish(more: Value) -> Value {
    let mut wish =
        json!({"model": "ember", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0});
    for (key, value) in more.as_object().unwrap() {
        wish[key] = value.clone();
    }
    wish
}

async fn complete(port: &Port, more: Value) -> Answer {
    let answer = port.post(PATH, &wish(more.clone())).await;
    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    answer
}

fn text(answer: &Value, index: usize) -> &str {
    assert_eq!(answer["choices"][index]["index"], index);
    answer["choices"][index]["text"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_34_prompts_come_in_every_shape() {
    let port = Port::open().await;
    let one = complete(&port, json!({})).await.json();
    assert_eq!(one["object"], "text_completion");
    assert!(one["id"].as_str().unwrap().starts_with("cmpl-"));
    let said = text(&one, 0).to_owned();
    let usage = &one["usage"];
    assert_eq!(usage["completion_tokens"], 8);
    let several = complete(&port, json!({"prompt": ["Once upon a time", "The fox"]})).await.json();
    assert_eq!(text(&several, 0), said);
    assert_ne!(text(&several, 1), said);
    assert!(several["usage"]["prompt_tokens"].as_u64() > usage["prompt_tokens"].as_u64());
    let ids = json!([[5, 9, 12], [7, 9, 12]]);
    let tokens = complete(&port, json!({"prompt": ids})).await.json();
    let same = complete(&port, json!({"prompt": ids[0]})).await.json();
    assert_eq!(text(&tokens, 0), text(&same, 0));
    assert_eq!(same["usage"]["prompt_tokens"], 3);
    let echoed = complete(&port, json!({"echo": true})).await.json();
    assert_eq!(text(&echoed, 0), format!("Once upon a time{said}"));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_completions_says_the_same() {
    let port = Port::open().await;
    let prompts = json!({"prompt": ["Once upon a time", "The fox"], "logprobs": 2, "echo": false});
    let whole = complete(&port, prompts.clone()).await.json();
    let mut streamed = prompts;
    streamed["stream"] = true.into();
    streamed["stream_options"] = json!({"include_usage": true});
    let answer = complete(&port, streamed).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    let mut chunks = answer.chunks();
    let last = chunks.pop().unwrap();
    assert_eq!(
        (last["choices"].clone(), last["usage"].clone()),
        (json!([]), whole["usage"].clone())
    );
    for index in [0, 1] {
        let its: Vec<&Value> =
            chunks.iter().map(|c| &c["choices"][0]).filter(|c| c["index"] == index).collect();
        let joined: String = its.iter().filter_map(|choice| choice["text"].as_str()).collect();
        assert_eq!(joined, text(&whole, index));
        let reasons: Vec<_> = its.iter().map(|choice| &choice["finish_reason"]).collect();
        assert_eq!(*reasons[reasons.len() - 1], whole["choices"][index]["finish_reason"]);
        assert!(reasons[..reasons.len() - 1].iter().all(|reason| reason.is_null()));
        let all = |key: &str| -> Vec<Value> {
            let told = its.iter().filter_map(|choice| choice["logprobs"][key].as_array());
            told.flatten().cloned().collect()
        };
        let logprobs = &whole["choices"][index]["logprobs"];
        for key in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(json!(all(key)), logprobs[key], "{key}");
        }
        assert_eq!(logprobs["text_offset"][0], 0);
    }
    port.close().await;
}

/// Editors write a template, or the marks of a gap, into the text themselves.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_to_continue_is_the_whole_input_with_the_marks_that_it_spells() {
    let port = Port::open().await;
    let plain = complete(&port, json!({})).await.json();
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let marked = complete(&port, json!({"prompt": "Once upon a time<|end|>"})).await.json();
    assert_eq!(tokens(&marked), tokens(&plain) + 1, "a mark is one token");
    // In a message the same is text.
    let chat = |text: &str| json!({"model": "ember", "max_tokens": 1, "messages": [{"role": "user", "content": text}]});
    let [without, with] = ["time", "time<|end|>"];
    let without = port.ask(&port.chat(&chat(without).to_string())).await.json();
    let with = port.ask(&port.chat(&chat(with).to_string())).await.json();
    assert!(tokens(&with) > tokens(&without) + 1, "{with}");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_refuse_by_name() {
    let port = Port::open().await;
    for (more, param) in [
        // The built-in model has no marks for a gap.
        (json!({"suffix": "the end"}), Value::Null),
        (json!({"suffix": "the end", "prompt": [1, 2]}), json!("suffix")),
        (json!({"n": 2}), json!("n")),
        (json!({"best_of": 2}), json!("best_of")),
        (json!({"logprobs": 6}), json!("logprobs")),
        (json!({"echo": true, "logprobs": 1}), json!("echo")),
        (json!({"echo": true, "prompt": [1, 2]}), json!("echo")),
        (json!({"prompt": []}), Value::Null),
        (json!({"prompt": 5}), json!("prompt")),
        (json!({"prompt": [4_000_000_000_u32]}), Value::Null),
        (json!({"max_tokens": 0}), json!("max_tokens")),
    ] {
        let (status, blamed) = port.refused(PATH, &wish(more.clone())).await;
        assert_eq!(status, 400, "{more}");
        assert!(blamed == param || param.is_null(), "{more}: {blamed}");
    }
    port.close().await;
}
