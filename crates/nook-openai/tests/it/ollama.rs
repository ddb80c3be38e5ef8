//! The form of Ollama's clients.

use std::path::Path;

use nook_api::views::DownloadAsk;
use nook_testkit::{Fault, FileServer, Served};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kit::{Answer, Port, body};

/// Less than the model that is downloaded has.
const PIECE: usize = 1 << 20;

fn wish(more: &Value) -> Value {
    let mut wish = json!({
        "model": "ember:latest",
        "messages": [{"role": "user", "content": "hi"}],
        "options": {"temperature": 0, "num_predict": 6, "num_ctx": 4096},
        "keep_alive": "5m",
        "stream": false,
    });
    for (key, value) in more.as_object().unwrap() {
        wish[key] = value.clone();
    }
    wish
}

async fn ask(port: &Port, path: &str, wish: &Value) -> Answer {
    let answer = port.post(path, wish).await;
    assert_eq!(answer.status, 200, "{wish}: {}", answer.text());
    answer
}

async fn chat(port: &Port, more: Value) -> Value {
    ask(port, "/api/chat", &wish(&more)).await.json()
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let text = answer.text();
    assert!(text.ends_with("}\n"), "each line is whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_says_the_same_in_every_form() {
    let port = Port::open().await;
    let known = port.ask(&port.chat(&body(&json!({})))).await;
    let whole = chat(&port, json!({})).await;
    assert_eq!(whole["message"], json!({"role": "assistant", "content": known.content()}));
    assert_eq!((&whole["done"], &whole["done_reason"]), (&json!(true), &json!("length")));
    let usage = &known.json()["usage"];
    assert_eq!(whole["prompt_eval_count"], usage["prompt_tokens"]);
    assert_eq!(whole["eval_count"], usage["completion_tokens"]);
    assert!(whole["total_duration"].as_u64().unwrap() > 0, "{whole}");
    assert_eq!(whole["model"], "ember");
    // Streaming is usual here.
    let mut streamed = wish(&json!({}));
    streamed.as_object_mut().unwrap().remove("stream");
    let lines = lines(&ask(&port, "/api/chat", &streamed).await);
    let (last, more) = lines.split_last().unwrap();
    assert!(more.len() > 1 && more.iter().all(|line| line["done"] == false), "{lines:?}");
    let said: String =
        more.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(said, known.content());
    assert_eq!((&last["done_reason"], &last["message"]["content"]), (&json!("length"), &json!("")));
    // A text of its own, and one behind the system's words.
    let generate = json!({"model": "ember", "prompt": "hi", "stream": false, "options": {"temperature": 0, "num_predict": 6}});
    let generated = ask(&port, "/api/generate", &generate).await.json();
    assert_eq!(generated["response"], known.content());
    let mut told = generate.clone();
    told["system"] = "Be brief.".into();
    let system =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]);
    let briefly = port.ask(&port.chat(&body(&json!({"messages": system})))).await;
    assert_eq!(ask(&port, "/api/generate", &told).await.json()["response"], briefly.content());
    let mut raw = generate;
    raw["raw"] = true.into();
    let continued = json!({"model": "ember", "prompt": "hi", "max_tokens": 6, "temperature": 0});
    let continued = ask(&port, "/v1/completions", &continued).await.json();
    let raw = ask(&port, "/api/generate", &raw).await.json();
    assert_eq!(raw["response"], continued["choices"][0]["text"]);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_keeps_to_its_format_and_ends_at_a_stop() {
    let port = Port::open().await;
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    let options = json!({"num_predict": 60, "temperature": 0});
    let held = chat(&port, json!({"format": schema, "options": options})).await;
    let held = held["message"]["content"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(held).unwrap()["ok"].is_boolean(), "{held}");
    let any = chat(&port, json!({"format": "json", "options": options})).await;
    assert!(any["message"]["content"].as_str().unwrap().starts_with('{'), "{any}");
    let plain = chat(&port, json!({})).await;
    assert_eq!(
        chat(&port, json!({"format": "", "think": false})).await["message"],
        plain["message"]
    );
    let text = plain["message"]["content"].as_str().unwrap();
    let stop: String = text.chars().skip(text.chars().count() / 2).take(3).collect();
    let stopped = json!({"options": {"temperature": 0, "num_predict": 6, "stop": [stop]}});
    let stopped = chat(&port, stopped).await;
    assert_eq!(stopped["message"]["content"], text[..text.find(&stop).unwrap()]);
    assert_eq!(stopped["done_reason"], "stop");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_told_of_and_their_results_read() {
    let port = Port::open().await;
    let parameters =
        json!({"type": "object", "properties": {"way": {"type": "string"}}, "required": ["way"]});
    let tool = json!({"type": "function", "function": {"name": "go", "description": "Goes.", "parameters": parameters}});
    let tokens = async |more: Value| chat(&port, more).await["prompt_eval_count"].as_u64().unwrap();
    let plain = tokens(json!({})).await;
    assert!(tokens(json!({"tools": [tool]})).await > plain);
    let said = |result: &str| {
        json!({"tools": [tool], "messages": [
            {"role": "user", "content": "Where is the fox?"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "go", "arguments": {"way": "up"}}},
            ]},
            {"role": "tool", "tool_name": "go", "content": result},
        ]})
    };
    let short = tokens(said("On the hill.")).await;
    assert!(tokens(said("On the hill, under the old tree, asleep.")).await > short);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_shown_and_told_of_while_they_are_open() {
    let port = Port::open().await;
    let get = async |path: &str| {
        let answer = port.ask(&port.request("GET", path)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer
    };
    let version = get("/api/version").await.json()["version"].as_str().unwrap().to_owned();
    assert_eq!(version.split('.').count(), 3, "clients compare it: {version}");
    assert!(get("/").await.text().contains("Ollama is running"));
    let tags = get("/api/tags").await.json();
    let ember = &tags["models"][0];
    assert_eq!((&ember["name"], &ember["model"]), (&json!("ember"), &json!("ember")));
    assert!(ember["modified_at"].as_str().unwrap().ends_with('Z'), "{ember}");
    assert!(ember["size"].as_u64().unwrap() > 0 && ember["digest"].is_string(), "{ember}");
    assert!(ember["details"]["quantization_level"].is_string(), "{ember}");
    for name in [json!({"model": "ember"}), json!({"name": "EMBER:latest"})] {
        let shown = ask(&port, "/api/show", &name).await.json();
        let family = shown["details"]["family"].as_str().unwrap();
        let window = &shown["model_info"][format!("{family}.context_length")];
        assert_eq!(window.as_u64(), Some(port.house.now().models[0].context_length.into()));
        assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
    }
    chat(&port, json!({})).await;
    let open = get("/api/ps").await.json();
    assert_eq!((&open["models"][0]["name"], &open["models"][1]), (&json!("ember"), &Value::Null));
    // Nothing to say only asks whether it is here.
    for (path, empty) in [
        ("/api/chat", json!({"model": "ember"})),
        ("/api/generate", json!({"model": "ember", "keep_alive": 0})),
    ] {
        let here = ask(&port, path, &empty).await.json();
        assert_eq!((&here["done"], &here["done_reason"]), (&json!(true), &json!("load")), "{here}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_those_of_the_other_form() {
    let port = Port::open().await;
    let texts = json!(["The fox ran.", "Bread is in the oven."]);
    let known = json!({"model": "ember", "input": texts, "encoding_format": "float"});
    let known = ask(&port, "/v1/embeddings", &known).await.json();
    let many = ask(&port, "/api/embed", &json!({"model": "ember", "input": texts})).await.json();
    for at in [0, 1] {
        assert_eq!(many["embeddings"][at], known["data"][at]["embedding"]);
    }
    assert_eq!(many["prompt_eval_count"], known["usage"]["prompt_tokens"]);
    let short = json!({"model": "ember", "input": texts[0], "dimensions": 8});
    let short = ask(&port, "/api/embed", &short).await.json();
    assert_eq!(short["embeddings"][0].as_array().unwrap().len(), 8);
    let one = json!({"model": "ember", "prompt": texts[0]});
    let one = ask(&port, "/api/embeddings", &one).await.json();
    assert_eq!(one["embedding"], known["data"][0]["embedding"]);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_one_string() {
    let port = Port::open().await;
    let picture = json!({"messages": [{"role": "user", "content": "hi", "images": ["aGk="]}]});
    for (path, more, status, says) in [
        ("/api/chat", json!({"model": "nobody"}), 404, "nobody"),
        ("/api/chat", picture, 400, "images"),
        ("/api/chat", json!({"format": 5}), 400, "format"),
        ("/api/chat", json!({"options": {"temperature": -1}}), 400, "temperature"),
        ("/api/chat", json!({"messages": [{"role": "narrator", "content": "x"}]}), 400, "narrator"),
        ("/api/generate", json!({"prompt": "a", "suffix": "b"}), 400, "suffix"),
        ("/api/generate", json!({"prompt": "a", "images": ["x"]}), 400, "images"),
        ("/api/generate", json!({"prompt": "a", "context": [1]}), 400, "context"),
        ("/api/show", json!({"model": "nobody"}), 404, "nobody"),
        ("/api/embed", json!({"input": "a", "dimensions": 0}), 400, "dimensions"),
        ("/api/pull", json!({"model": "https://example.org/a.gguf"}), 400, "addresses"),
        ("/api/pull", json!({"model": "nobody-has-this"}), 400, "nobody-has-this"),
        ("/api/create", json!({}), 404, "/api/create"),
    ] {
        let answer = port.post(path, &wish(&more)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let json = answer.json();
        assert!(json["error"].as_str().unwrap().contains(says), "{path} {says}: {json}");
    }
    let keyless = port.ask(&port.request("GET", "/api/tags").without("Authorization")).await;
    assert_eq!(keyless.status, 401);
    assert!(keyless.json()["error"].is_string(), "{}", keyless.text());
    let foreign = port.request("GET", "/api/tags").but("Host", "evil.com:11434");
    assert_eq!(port.ask(&foreign).await.status, 403);
    // What is here need not come.
    let here = port.post("/api/pull", &json!({"model": "ember"})).await;
    assert_eq!(lines(&here), [json!({"status": "success"})]);
    port.close().await;
}

/// The built-in model under another name.
fn renamed_built_in() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nook-store/ember/ember-q8_0.gguf");
    let mut bytes = std::fs::read(file).unwrap();
    let key = b"general.name";
    let at = bytes.windows(key.len()).position(|it| it == key).unwrap();
    // Behind the key: the kind of the value, its length, its first letter.
    bytes[at + key.len() + 4 + 8] = b'A';
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_is_told_of_until_the_model_is_here() {
    let (server, bytes) = (FileServer::start().unwrap(), renamed_built_in());
    let whole = || Served::file(bytes.clone(), "\"1\"");
    server.serve("/amber.gguf", whole().failing(Fault::StallAfter(PIECE)));
    let port = Port::open().await;
    let source = format!("{}/amber.gguf", server.address());
    port.house.pull(source, Some("amber".to_owned())).await.unwrap();
    let asked = port.request("POST", "/api/pull").with("Content-Type", "application/json");
    let asked = asked.body(json!({"model": "amber"}).to_string().as_bytes());
    let mut stream = port.connect().await;
    stream.write_all(&asked.bytes()).await.unwrap();
    let mut seen = String::new();
    while !seen.contains(&format!("\"completed\":{PIECE},")) {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "it ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    port.house.change_download("amber".to_owned(), DownloadAsk::Cancel).await.unwrap();
    stream.read_to_string(&mut seen).await.unwrap();
    assert!(seen.contains("{\"error\":\"The download of amber was cancelled.\"}"), "{seen}");
    // Asked for again it goes on.
    server.serve("/amber.gguf", whole());
    let answer = port.ask(&asked).await;
    assert_eq!(lines(&answer).last(), Some(&json!({"status": "success"})), "{}", answer.text());
    let tags = port.ask(&port.request("GET", "/api/tags")).await.json();
    assert_eq!(tags["models"][1]["name"], "amber");
    port.close().await;
}
