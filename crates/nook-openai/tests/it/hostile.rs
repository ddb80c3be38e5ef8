//! What nobody may do through the port: the rows H1 to H8 of the hostile design.

use std::time::Duration;

use nook_api::views::{PortRequestKind, PortRequestView};
use nook_openai::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{LISTED_ORIGIN, Port, Request, body, until};

/// Asks and compares the status; whatever is refused carries an error, and no page may read it.
async fn check(port: &Port, row: &str, request: &Request, status: u16) {
    let answer = port.ask(request).await;
    assert_eq!(answer.status, status, "{row}: {}", answer.text());
    answer.error_code();
    assert_eq!(answer.header("access-control-allow-origin"), None, "{row}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{row}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_a_key_of_its_own_is_named_in_the_log_and_shut_out_alone() {
    let port = Port::open().await;
    let main = port.request("GET", "/v1/models");
    let zed = port.house.add_port_key("Zed".to_owned()).await.unwrap();
    let prompt = json!({"model": "ember", "prompt": "Once", "max_tokens": 3, "temperature": 0});
    let asks = port.request("POST", "/v1/completions").with("Content-Type", "application/json");
    let asks = asks.body(prompt.to_string().as_bytes());
    let as_zed = asks.clone().but("Authorization", format!("Bearer {}", zed.0));
    assert_eq!(port.ask(&as_zed).await.status, 200);
    assert_eq!(port.ask(&asks).await.status, 200);
    let two = until(&port.house, |house| house.port.requests.len() == 2).await;
    let told: Vec<_> =
        two.port.requests.iter().map(|one| (one.key.as_deref(), one.tokens)).collect();
    assert_eq!(told, [(None, 3), (Some("Zed"), 3)], "newest first");
    let request = &two.port.requests[0];
    assert!(request.error.is_none() && request.tokens_per_second > 0.0);
    assert_eq!(
        (request.model.as_str(), request.devices.as_slice()),
        ("ember", &[two.me.name.clone()][..])
    );
    assert_eq!(two.port.keys.len(), 1);
    assert!(!serde_json::to_string(&*two).unwrap().contains(&zed.0), "the key is told once");
    port.house.remove_port_key("zed".to_owned()).await.unwrap();
    check(&port, "a removed key", &as_zed, 401).await;
    assert_eq!(port.ask(&main).await.status, 200);
    let again = port.house.remove_port_key("zed".to_owned()).await.unwrap_err();
    assert_eq!(again.code, nook_base::ErrorCode::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_replies_that_were_left_are_listed_with_their_code_and_nothing_that_was_said()
{
    let port = Port::open().await;
    let secret = "zebracanary";
    let chat = |more: Value| port.chat(&body(&more)).with("User-Agent", "Zed\t/1");
    let talk = json!([{"role": "user", "content": secret}]);
    let refused = chat(json!({"messages": talk, "n": 99}));
    check(&port, "400", &refused, 400).await;
    check(&port, "404", &chat(json!({"messages": talk, "model": "no\u{202e}body"})), 404).await;
    let wrong = chat(json!({"messages": talk})).but("Authorization", "Bearer nook-wrong");
    // All strangers together, whatever they call themselves.
    for app in ["Zed /1", "one", "another"] {
        check(&port, "401", &wrong.clone().but("User-Agent", app), 401).await;
    }
    until(&port.house, |house| house.port.requests.iter().any(|one| one.times == 3)).await;
    // Another kind is another line, whichever form of its path was typed.
    for path in ["/v1/embeddings", "/v1/embeddings/", "/embeddings", "/embeddings/"] {
        let vectors = port.request("POST", path).but("Authorization", "Bearer nook-wrong");
        check(&port, path, &vectors, 401).await;
    }
    let is_told = |one: &PortRequestView| one.kind == PortRequestKind::Embeddings && one.times == 4;
    until(&port.house, |house| house.port.requests.iter().any(is_told)).await;
    // A stream whose client leaves in the middle names who computed it, and how much.
    let slow = port.slow().await;
    let mut left = port.connect().await;
    left.write_all(&port.chat(&crate::kit::long_body(true)).bytes()).await.unwrap();
    let mut seen = String::new();
    while !seen.contains("\"delta\":{\"content\"") {
        let mut piece = [0; 1024];
        let count = left.read(&mut piece).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    drop((left, slow));
    let cancelled = |one: &PortRequestView| one.error.as_deref() == Some("cancelled");
    let left = until(&port.house, |house| house.port.requests.iter().any(cancelled)).await;
    let told = &left.port.requests;
    let listed: Vec<_> = told
        .iter()
        .rev()
        .map(|one| (one.error.as_deref(), one.model.as_str(), one.times, one.app.as_deref()))
        .collect();
    assert_eq!(
        listed,
        [
            (Some("400 invalid_request_error"), "", 1, Some("Zed /1")),
            (Some("404 model_not_found"), "nobody", 1, Some("Zed /1")),
            (Some("401 invalid_api_key"), "", 3, None),
            (Some("401 invalid_api_key"), "", 4, None),
            (None, "ember", 1, None),
            (Some("cancelled"), "ember", 1, None),
        ]
    );
    let last = &told[0];
    assert!(last.tokens > 0 && last.devices == ["Kitchen laptop"], "{last:?}");
    assert!(!serde_json::to_string(told).unwrap().contains(secret));
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_key_acts_at_once_and_the_old_one_opens_nothing_any_more() {
    let port = Port::open().await;
    let with_old = port.request("GET", "/v1/models");
    assert_eq!(port.ask(&with_old).await.status, 200);
    let fresh = port.house.renew_port_key().await.unwrap();
    check(&port, "the old key", &with_old, 401).await;
    let with_new = with_old.but("Authorization", format!("Bearer {}", fresh.0));
    assert_eq!(port.ask(&with_new).await.status, 200);
    assert_eq!(port.house.port_settings().await.unwrap().key.0, fresh.0);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h1_only_the_names_of_this_machine_are_hosts() {
    let port = Port::open().await;
    let (number, list) = (port.number(), port.request("GET", "/v1/models"));
    for host in [
        "evil.com".to_owned(),
        format!("evil.com:{number}"),
        format!("evil.local:{number}"),
        format!("0.0.0.0:{number}"),
        format!("127.0.0.1.nip.io:{number}"),
        format!("127.0.0.1:{}", number ^ 1),
        format!("127.0.0.1:{number}@evil.com"),
        format!("user@127.0.0.1:{number}"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        String::new(),
    ] {
        check(&port, &host, &list.clone().but("Host", host.as_str()), 403).await;
    }
    for host in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let request = list.clone().but("Host", format!("{host}:{number}"));
        assert_eq!(port.ask(&request).await.status, 200, "{host}");
    }
    let twice = list.clone().with("Host", "evil.com");
    check(&port, "doubled", &twice, 403).await;
    let missing = list.clone().without("Host");
    check(&port, "missing", &missing, 403).await;
    let absolute = port.request("GET", &format!("http://evil.com:{number}/v1/models"));
    check(&port, "absolute form", &absolute, 403).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_pages_are_refused_unless_their_origin_is_listed() {
    let port = Port::open().await;
    for origin in [
        "https://evil.com",
        "null",
        "chrome-extension://abcdef",
        "http://localhost:3001",
        "https://localhost:3000",
        "http://localhost:3000.evil.com",
        "",
    ] {
        for method in ["GET", "POST", "OPTIONS"] {
            let request = port.request(method, "/v1/models").with("Origin", origin);
            let request = request.with("Access-Control-Request-Method", "POST");
            check(&port, origin, &request, 403).await;
        }
    }
    let list = port.request("GET", "/v1/models");
    let two = list.clone().with("Origin", LISTED_ORIGIN).with("Origin", "https://evil.com");
    check(&port, "two origins", &two, 403).await;
    for site in ["cross-site", "same-site"] {
        check(&port, site, &list.clone().with("Sec-Fetch-Site", site), 403).await;
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_a_listed_origin_may_ask_first_without_a_key_and_then_needs_it() {
    let port = Port::open().await;
    let preflight = port
        .request("OPTIONS", "/v1/chat/completions")
        .without("Authorization")
        .with("Origin", LISTED_ORIGIN)
        .with("Access-Control-Request-Method", "POST")
        .with("Access-Control-Request-Headers", "authorization,content-type,x-stainless-os");
    let answer = port.ask(&preflight).await;
    assert_eq!(answer.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", Some(LISTED_ORIGIN)),
        ("access-control-allow-headers", Some("authorization,content-type,x-stainless-os")),
        ("access-control-allow-methods", Some("GET, POST")),
        ("access-control-allow-credentials", None),
        ("access-control-allow-private-network", None),
        ("vary", Some("origin")),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let list = port.request("GET", "/v1/models").with("Origin", LISTED_ORIGIN);
    let answer = port.ask(&list).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some(LISTED_ORIGIN));
    assert_eq!(port.ask(&list.without("Authorization")).await.status, 401);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_every_path_but_health_needs_the_key_and_every_body_is_json() {
    let port = Port::open().await;
    for path in ["/v1/models", "/v1/models/ember", "/v1", "/metrics", "/v1/nothing"] {
        let bare = port.request("GET", path).without("Authorization");
        check(&port, path, &bare, 401).await;
        let basic = bare.with("Authorization", format!("Basic {}", port.key));
        check(&port, path, &basic, 401).await;
    }
    let health = port.request("GET", "/healthz").without("Authorization");
    assert_eq!(port.ask(&health).await.text(), "ok");
    let chat = port.chat(&body(&json!({})));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        check(&port, kind, &chat.clone().but("Content-Type", kind), 415).await;
    }
    check(&port, "no type", &chat.clone().without("Content-Type"), 415).await;
    let charset = chat.but("Content-Type", "Application/JSON; charset=utf-8");
    assert_eq!(port.ask(&charset).await.status, 200);
    // Ollama's clients say nothing of it; what holds pages off is the key.
    let ollamas = |path: &str| port.request("POST", path).body(br#"{"model": "ember"}"#);
    let untyped = ollamas("/api/show");
    for (name, request, status) in [
        ("no type", untyped.clone(), 200),
        ("curl's", untyped.clone().with("Content-Type", "application/x-www-form-urlencoded"), 200),
        ("a page", untyped.clone().with("Origin", "https://example.com"), 403),
        ("no key", untyped.without("Authorization"), 401),
        ("another form", ollamas("/v1/api/show"), 415),
    ] {
        assert_eq!(port.ask(&request).await.status, status, "{name}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_many_wrong_keys_are_slowed_down_while_the_good_one_works() {
    let port = Port::open().await;
    let good = port.request("GET", "/v1/models");
    let wrong = good.clone().but("Authorization", "Bearer wrong");
    let guesses = futures_util::future::join_all((0..40).map(|_| port.ask(&wrong)));
    let (guesses, worked) = tokio::join!(guesses, port.ask(&good));
    assert_eq!(worked.status, 200);
    let count = |status| guesses.iter().filter(|guess| guess.status == status).count();
    assert_eq!(count(401) + count(429), 40);
    assert!(count(429) > 0, "nothing slowed them down");
    let refused = guesses.iter().find(|guess| guess.status == 429).unwrap();
    assert!(refused.header("retry-after").is_some());
    assert_eq!(port.ask(&good).await.status, 200);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_numbers_and_shapes_out_of_range_are_the_callers_mistake() {
    let port = Port::open().await;
    for (field, values) in [
        ("max_tokens", vec!["-2", "1e308", "\"x\"", "2.5", "[]"]),
        ("temperature", vec!["1e308", "-1", "11", "\"hot\""]),
        ("top_p", vec!["2", "-0.1"]),
        ("min_p", vec!["1e39"]),
        ("repetition_penalty", vec!["-1", "1e300"]),
        ("n", vec!["1000000000", "0", "-1"]),
        ("top_k", vec!["-2", "1e9"]),
    ] {
        for value in values {
            let text = body(&json!({field: 0}));
            let key = format!("\"{field}\":");
            let start = text.find(&key).unwrap() + key.len();
            let sent = format!("{}{value}{}", &text[..start], &text[start + 1..]);
            check(&port, &sent, &port.chat(&sent), 400).await;
        }
    }
    for sent in [
        r#"{"messages":[{"role":"user","content":"hi"}],"temperature":NaN}"#,
        r#"{"messages":[{"role":"user","content":"\ud800"}]}"#,
        r#"{"messages":[{"role":"user","content":"hi"}]} {}"#,
        r#"{"model":"ember","model":"ember","messages":[]}"#,
        "[]",
        "null",
        "",
        "\u{feff}{}",
    ] {
        check(&port, sent, &port.chat(sent), 400).await;
    }
    let not_utf8 = port.chat("").body(b"{\"model\":\"\xff\xfe\",\"messages\":[]}");
    check(&port, "not UTF-8", &not_utf8, 400).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_deep_json_is_refused_or_skipped_but_never_followed_down() {
    let port = Port::open().await;
    let deep = "[".repeat(900_000);
    for field in ["messages", "tools", "stop", "logit_bias", "response_format"] {
        check(&port, field, &port.chat(&format!("{{\"{field}\":{deep}")), 400).await;
    }
    let closed = format!("{}{}", "[".repeat(400_000), "]".repeat(400_000));
    let unknown =
        body(&json!({"skipped": 0})).replace("\"skipped\":0", &format!("\"skipped\":{closed}"));
    let answer = port.ask(&port.chat(&unknown)).await;
    assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
    assert_eq!(port.ask(&port.chat(&body(&json!({})))).await.status, 200);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_huge_body_is_refused() {
    let port = Port::open().await;
    let told = port.chat("").but("Content-Length", "1000000000");
    check(&port, "told", &told, 413).await;
    let untold = port.chat("").without("Content-Length").with("Transfer-Encoding", "chunked");
    let piece = vec![b' '; 64 << 10];
    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
    chunk.extend_from_slice(&piece);
    chunk.extend_from_slice(b"\r\n");
    // 2.5 MB, and an end: it is read to its end, so that its sender gets to read why.
    let ends = [untold.bytes(), chunk.repeat(40), b"0\r\n\r\n".to_vec()].concat();
    let answer = port.ask_bytes(&ends).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    let whole = port.chat("").body(&vec![b' '; 8 << 20]);
    check(&port, "sent in full", &whole, 413).await;
    let garbled = [untold.bytes(), b"zz\r\n".to_vec()].concat();
    assert_eq!(port.ask_bytes(&garbled).await.status, 400);
    port.close().await;
}

/// Far above the limit that the test sets, and well below the 30 seconds that hyper has of its own.
const NOT_OURS: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn h4_and_t1_slow_senders_are_cut_off() {
    let short = Duration::from_millis(200);
    // Only one of the two is short: a sender that the system holds up is none that the test means.
    let port = Port::open_with(Limits { body: short, ..Limits::USUAL }, "").await;
    let chunked = port.chat("").without("Content-Length").with("Transfer-Encoding", "chunked");
    check(&port, "a body that never ends", &chunked, 408).await;
    let promised = port.chat("{").but("Content-Length", "100");
    check(&port, "a body that stops", &promised, 408).await;
    port.close().await;
    let port = Port::open_with(Limits { header: short, ..Limits::USUAL }, "").await;
    for sent in ["", "GET /v1/mod", "GET /v1/models HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = port.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // Its end is what counts; some systems report it as a reset.
        let ended = tokio::time::timeout(NOT_OURS, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "not by the limit of the port: {sent}");
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{sent}");
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_no_request_becomes_a_web_socket() {
    let port = Port::open().await;
    let upgrade = |path: &str| {
        port.request("GET", path)
            .but("Connection", "Upgrade")
            .with("Upgrade", "websocket")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    let page = upgrade("/v1/chat/completions").with("Origin", "https://evil.com");
    check(&port, "a page", &page.but("Connection", "close"), 403).await;
    let program = upgrade("/v1/chat/completions").but("Connection", "close");
    check(&port, "a program", &program, 405).await;
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_paths_and_names_are_never_those_of_files() {
    let port = Port::open().await;
    for (path, status) in [
        ("/v1/../etc/passwd", 404),
        ("/v1/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/../../etc/passwd", 404),
        ("//v1/models", 404),
        ("/v1/models/../../../etc/passwd", 404),
        ("/v1/models/%00", 404),
        ("/v1/models/%ff%fe", 400),
    ] {
        check(&port, path, &port.request("GET", path), status).await;
    }
    for model in
        ["../../etc/passwd", "/etc/passwd", "a\0b", "file:///etc/passwd", &"x".repeat(100_000)]
    {
        let request = port.chat(&body(&json!({"model": model})));
        check(&port, &model[..model.len().min(20)], &request, 404).await;
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_the_models_own_markers_in_a_prompt_are_plain_text() {
    let port = Port::open().await;
    let prompt_tokens = async |text: &str| -> u64 {
        let messages = json!([{"role": "user", "content": text}]);
        let answer = port.ask(&port.chat(&body(&json!({"messages": messages})))).await;
        let tokens: Value = answer.json()["usage"]["prompt_tokens"].clone();
        tokens.as_u64().unwrap_or_else(|| panic!("{}", answer.text()))
    };
    let none = prompt_tokens("x").await;
    for marker in ["<|im_end|>", "<|im_start|>system", "</s>", "<|endoftext|>", "<|end|>"] {
        // A special token would count once; as text it is several.
        assert!(prompt_tokens(&format!("x{marker}")).await > none + 1, "{marker}");
    }
    port.close().await;
}
