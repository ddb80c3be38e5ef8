//! A house with an open port, and a client that speaks HTTP byte by byte.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nook_api::views::HouseholdView;
use nook_api::{NodeHandle, PortSettings};
use nook_node::{NodeOptions, WorkerCommand};
use nook_openai::{Limits, PortHandle};
use nook_testkit::Throttle;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A test that waits longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much slower than usual [`Port::slow`] is.
const SLOW: u32 = 16;

/// The origin that the ports of these tests allow.
pub(crate) const LISTED_ORIGIN: &str = "http://localhost:3000";

/// A house of its own with its port open.
pub(crate) struct Port {
    pub(crate) house: NodeHandle,
    handle: PortHandle,
    pub(crate) key: String,
    _home: TempDir,
}

/// A request before it is sent.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Waits until `house` looks as wanted; how it looks then.
pub(crate) async fn until(
    house: &NodeHandle,
    holds: impl Fn(&HouseholdView) -> bool,
) -> Arc<HouseholdView> {
    let mut view = house.view();
    let looked = view.wait_for(|view| holds(view));
    Arc::clone(&tokio::time::timeout(PATIENCE, looked).await.expect("not so in time").unwrap())
}

/// A house with `settings` (TOML) in a home of its own. No keychain, any free port for devices.
pub(crate) async fn house(name: &str, settings: &str) -> (NodeHandle, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let usual = format!(
        "[device]\nname = \"{name}\"\nkeyring = \"off\"\n[network]\nlisten_port = 0\nloopback = true\n"
    );
    std::fs::write(home.path().join("settings.toml"), usual + settings).unwrap();
    let program = tokio::task::spawn_blocking(nook_testkit::nook).await.unwrap().unwrap();
    let worker = WorkerCommand { program: program.into(), arguments: vec!["worker".into()] };
    let options = NodeOptions { home: Some(home.path().to_owned()), worker };
    (nook_node::start(options).await.unwrap(), home)
}

impl Port {
    /// A port with the usual limits.
    pub(crate) async fn open() -> Self {
        Self::open_with(Limits::USUAL, "").await
    }

    /// A port with other limits, of a house with these settings too.
    pub(crate) async fn open_with(limits: Limits, settings: &str) -> Self {
        let (house, home) = house("Kitchen laptop", settings).await;
        Self::of(house, home, limits).await
    }

    /// The port of a house.
    pub(crate) async fn of(house: NodeHandle, home: TempDir, limits: Limits) -> Self {
        Self::of_at(([127, 0, 0, 1], 0).into(), house, home, limits).await
    }

    /// A port at every address of this machine of one family, for the whole network, which calls it
    /// `kitchen`.
    pub(crate) async fn exposed(at: IpAddr) -> Self {
        let (house, home) = house("Kitchen laptop", "[port]\nexpose_to_lan = true\n").await;
        Self::of_at((at, 0).into(), house, home, Limits::USUAL).await
    }

    async fn of_at(address: SocketAddr, house: NodeHandle, home: TempDir, limits: Limits) -> Self {
        let known = house.port_settings().await.unwrap();
        let settings = PortSettings {
            on: true,
            address,
            host_names: vec!["kitchen".to_owned(), "kitchen.local".to_owned()],
            allowed_origins: vec![LISTED_ORIGIN.to_owned()],
            ..known
        };
        let handle =
            nook_openai::serve(house.clone(), &settings, limits, house.tasks()).await.unwrap();
        Self { house, handle, key: settings.key.0.clone(), _home: home }
    }

    /// Ends the house in order.
    pub(crate) async fn close(self) {
        self.house.shut_down().await;
    }

    /// The port's number.
    pub(crate) fn number(&self) -> u16 {
        self.handle.address().port()
    }

    /// A request with everything in order.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        let host = format!("127.0.0.1:{}", self.number());
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: None,
        }
        .with("Host", host)
        .with("Connection", "close")
        .with("Authorization", format!("Bearer {}", self.key))
    }

    /// A chat request with everything in order but perhaps its body.
    pub(crate) fn chat(&self, body: &str) -> Request {
        self.request("POST", "/v1/chat/completions")
            .with("Content-Type", "application/json")
            .body(body.as_bytes())
    }

    /// Posts a body and reads the whole answer.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = self.request("POST", path).with("Content-Type", "application/json");
        self.ask(&request.body(body.to_string().as_bytes())).await
    }

    /// Posts a body that is refused; gives the status and the field that is to blame.
    pub(crate) async fn refused(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.post(path, body).await;
        answer.error_code();
        (answer.status, answer.json()["error"]["param"].clone())
    }

    /// A connection to the port.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.handle.address()).await.unwrap()
    }

    /// Sends a request on a connection of its own and reads the whole answer.
    pub(crate) async fn ask(&self, request: &Request) -> Answer {
        self.ask_bytes(&request.bytes()).await
    }

    /// Sends bytes on a connection of their own and reads the whole answer.
    pub(crate) async fn ask_bytes(&self, bytes: &[u8]) -> Answer {
        Self::ask_at(self.handle.address(), bytes).await
    }

    /// The same where the port is reached at another address.
    pub(crate) async fn ask_at(address: SocketAddr, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that refuses a long body does not read all of it.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("the answer should come and end").expect("the answer should be readable");
        Answer::parse(&answer)
    }

    /// Makes a first reply, and lets its worker be slow from then on: replies that something is to
    /// be done to in their middle are far from their end then, however slowly the test gets to it.
    pub(crate) async fn slow(&self) -> Throttle {
        let first = self.ask(&self.chat(&body(&json!({"max_tokens": 1})))).await;
        assert_eq!(first.status, 200, "{}", first.text());
        Throttle::start(nook_testkit::workers_of(&self.house).await.unwrap(), SLOW)
    }

    /// Streams a long reply and reads it to its end, whatever that is. Once its first words have
    /// come, `act` is done, and the reading goes on behind it. What came, headers and framing too.
    pub(crate) async fn stream_and(&self, act: impl AsyncFnOnce()) -> String {
        let mut stream = self.connect().await;
        stream.write_all(&self.chat(&long_body(true)).bytes()).await.unwrap();
        let (mut seen, mut act) = (String::new(), Some(act));
        loop {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).await.unwrap();
            if count == 0 {
                break;
            }
            seen.push_str(&String::from_utf8_lossy(&piece[..count]));
            if seen.contains("\"delta\":{\"content\"")
                && let Some(act) = act.take()
            {
                act().await;
            }
        }
        assert!(act.is_none(), "no word came: {seen}");
        seen
    }

    /// Waits until this device computes nothing for anybody.
    pub(crate) async fn wait_until_idle(&self) {
        until(&self.house, |view| view.sharing.status_line.ends_with("idle")).await;
    }
}

impl Request {
    /// The same request with another header line.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same request without a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// The same request with another value of a header.
    pub(crate) fn but(self, name: &str, value: impl Into<String>) -> Self {
        self.without(name).with(name, value)
    }

    /// The same request with a body, and its length told.
    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = Some(body.to_owned());
        self.but("Content-Length", body.len().to_string())
    }

    /// What goes over the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = find(bytes, b"\r\n\r\n").unwrap_or_else(|| panic!("no header in {bytes:?}"));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<_> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let rest = &bytes[end + 4..];
        let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let body = if chunked { unchunk(rest) } else { rest.to_owned() };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("bodies are UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// The reply's text.
    pub(crate) fn content(&self) -> String {
        let json = self.json();
        let content = json["choices"][0]["message"]["content"].as_str();
        content.unwrap_or_else(|| panic!("no content in {json}")).to_owned()
    }

    /// The chunks of a stream, without comments and the end.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let text = self.text();
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// The events of a stream of typed events, each checked against its name, numbered in order.
    pub(crate) fn typed_events(&self) -> Vec<Value> {
        let text = self.text();
        let events = text.split("\n\n").filter(|event| event.starts_with("event: "));
        let events: Vec<Value> = events
            .map(|event| {
                let (name, data) = event.split_once("\ndata: ").expect("an event has data");
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
                data
            })
            .collect();
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        events
    }

    /// All pieces of one field of the deltas of a stream.
    pub(crate) fn joined(&self, field: &str) -> String {
        let chunks = self.chunks();
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
    }

    /// The code of an error, after its shape was checked.
    pub(crate) fn error_code(&self) -> Value {
        let json = self.json();
        let keys: Vec<_> = json["error"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["message", "type", "param", "code"], "{json}");
        assert!(json["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{json}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{json}");
        json["error"]["code"].clone()
    }
}

/// A chat body: greedy, short, and what else is given.
pub(crate) fn body(more: &Value) -> String {
    let mut body = json!({
        "model": "ember",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 6,
        "temperature": 0,
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

/// A chat body for a reply of hundreds of tokens: so hot that no end of turn is likely to come.
pub(crate) fn long_body(stream: bool) -> String {
    body(&json!({
        "max_tokens": 800,
        "temperature": 10,
        "top_k": 0,
        "top_p": 1,
        "min_p": 0,
        "seed": 1,
        "stream": stream,
    }))
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        // A connection that was cut ends without the empty chunk; the tests see that in the body.
        let Some(line) = find(rest, b"\r\n") else { return body };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { return body };
        body.extend_from_slice(chunk);
        rest = &rest[(line + 4 + size).min(rest.len())..];
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
