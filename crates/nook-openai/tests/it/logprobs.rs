//! Settings of the sampler, and how likely its tokens were (rows 24 and 30).

use nook_api::{GenerateRequest, Prompt, Reach, SamplingParameters};
use nook_base::Sensitive;
use serde_json::{Value, json};

use crate::kit::{Answer, Port, body};

async fn chat(port: &Port, more: Value) -> Answer {
    let answer = port.ask(&port.chat(&body(&more))).await;
    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn row_24_penalties_and_biases_change_the_reply_and_are_exact_at_temperature_0() {
    let port = Port::open().await;
    let story = async |more: Value| {
        let mut wish = json!({
            "model": "ember", "prompt": "Once upon a time", "max_tokens": 80, "temperature": 0,
        });
        for (key, value) in more.as_object().unwrap() {
            wish[key] = value.clone();
        }
        let answer = port.post("/v1/completions", &wish).await.json();
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let plain = story(json!({})).await;
    for penalty in ["frequency_penalty", "presence_penalty"] {
        let first = story(json!({penalty: 2})).await;
        assert_ne!(first, plain, "{penalty}");
        assert_eq!(story(json!({penalty: 2})).await, first, "{penalty}");
    }
    // The first token of the plain reply, forbidden: the reply begins with the next likely one.
    let asked = GenerateRequest {
        model: "ember".to_owned(),
        prompt: Prompt::Text(Sensitive("Once upon a".to_owned())),
        tokens_max: Some(1),
        sampling: SamplingParameters::GREEDY.into(),
        stop: Vec::new(),
        thinking: nook_api::Thinking::AsUsual,
        activation_dtype: None,
        reach: Reach::ThisDevice,
    };
    let mut reply = port.house.generate(asked).await.unwrap();
    let mut ids = Vec::new();
    while let Some(piece) = reply.events.recv().await {
        ids.extend(piece.ids.0);
    }
    let text = |more: Value| {
        let mut wish = json!({"model": "ember", "prompt": "Once upon a", "max_tokens": 1, "temperature": 0, "logprobs": 2});
        for (key, value) in more.as_object().unwrap() {
            wish[key] = value.clone();
        }
        wish
    };
    let free = port.post("/v1/completions", &text(json!({}))).await.json();
    let logprobs = &free["choices"][0]["logprobs"];
    let first = logprobs["tokens"][0].as_str().unwrap();
    let likely = logprobs["top_logprobs"][0].as_object().unwrap();
    let second = likely.keys().find(|token| *token != first).unwrap();
    let bias = json!({"logit_bias": {ids[0].to_string(): -100}});
    let biased = port.post("/v1/completions", &text(bias)).await.json();
    assert_eq!(biased["choices"][0]["logprobs"]["tokens"][0], second.as_str(), "{biased}");
    let beyond = text(json!({"logit_bias": {"4000000000": 1}}));
    assert_eq!(port.refused("/v1/completions", &beyond).await.0, 400);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_30_logprobs_are_told_of_every_token() {
    let port = Port::open().await;
    let wish = json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 12});
    let answer = chat(&port, wish.clone()).await;
    let json = answer.json();
    let told = json["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    let ended = u64::from(json["choices"][0]["finish_reason"] == "stop");
    let counted = json["usage"]["completion_tokens"].as_u64().unwrap();
    assert!((counted - ended..=counted).contains(&(told.len() as u64)), "{json}");
    let bytes: Vec<u8> = told
        .iter()
        .flat_map(|token| token["bytes"].as_array().unwrap())
        .map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap())
        .collect();
    assert_eq!(String::from_utf8_lossy(&bytes).trim_start(), answer.content().trim_start());
    for token in &told {
        let top = token["top_logprobs"].as_array().unwrap();
        let logs: Vec<f64> = top.iter().map(|top| top["logprob"].as_f64().unwrap()).collect();
        assert_eq!(top.len(), 3);
        assert!(logs.windows(2).all(|pair| pair[0] >= pair[1]) && logs[0] <= 0.0, "{logs:?}");
        assert_eq!(token["token"], top[0]["token"], "temperature 0 takes the likeliest");
        assert_eq!(token["logprob"], top[0]["logprob"]);
    }
    let mut streamed = wish;
    streamed["stream"] = true.into();
    let chunks = chat(&port, streamed).await.chunks();
    let again: Vec<Value> = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(again, told);
    let bare = chat(&port, json!({"logprobs": true})).await.json();
    assert_eq!(bare["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json!([]));
    port.close().await;
}
