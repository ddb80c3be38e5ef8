//! The owner's door over a real socket, before a real house with a real worker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;
use std::time::Duration;

use interprocess::local_socket::tokio::{Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ToFsName};
use nook_api::NodeHandle;
use nook_api::views::{ChatRole, HouseholdView, ReplyEvent, Trust};
use nook_api::{Calls as _, NodeCalls as _, PairTarget, Request, SamplingParameters, Sharing};
use nook_control::{Client, ClientError, ReplyRequest, RequestMessage};
use nook_node::{NodeOptions, WorkerCommand};
use nook_testkit::Throttle;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A test that waits longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much slower than usual a reply is made that is to be held.
const SLOW: u32 = 16;

/// As many connections as are served at once.
const CONNECTIONS_MAX: usize = 32;

struct Node {
    house: NodeHandle,
    client: Client,
    socket: String,
    home: TempDir,
}

impl Node {
    /// A house with its door open. No keychain, any free port for devices.
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = concat!(
            "[device]\nname = \"Kitchen laptop\"\nkeyring = \"off\"\n",
            "[network]\nlisten_port = 0\nloopback = true\n",
            "[distributed_inference]\nmax_concurrent_pipelines = 1\n",
        );
        std::fs::write(home.path().join("settings.toml"), settings).unwrap();
        let program = tokio::task::spawn_blocking(nook_testkit::nook).await.unwrap().unwrap();
        let worker = WorkerCommand { program: program.into(), arguments: vec!["worker".into()] };
        let options = NodeOptions { home: Some(home.path().to_owned()), worker };
        let house = nook_node::start(options).await.unwrap();
        let socket = nook_control::socket_name(house.runtime_folder());
        nook_control::serve(house.clone(), &socket, house.tasks()).unwrap();
        Self { client: Client::new(socket.clone()), house, socket, home }
    }

    /// A connection on which anything can be sent.
    async fn connect(&self) -> Stream {
        let name = self.socket.as_str().to_fs_name::<GenericFilePath>().unwrap();
        Stream::connect(name).await.unwrap()
    }

    /// Sends bytes and gives everything that comes back.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // A node that has read enough closes; what is left of a long line cannot be sent then.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        // Some systems report the end of such a connection as a reset.
        let _ = read.expect("an answer and the end should come");
        String::from_utf8(answer).unwrap()
    }

    async fn wait_until_idle(&self) {
        let mut view = self.house.view();
        let idle = view.wait_for(|view| view.sharing.status_line.ends_with("idle"));
        drop(tokio::time::timeout(PATIENCE, idle).await.expect("it should become idle").unwrap());
    }

    /// What the house shows and what the client is answered meanwhile. A node that has just
    /// started goes on finding things out, so both are asked for until nothing changed between.
    async fn undisturbed_view(&self) -> (HouseholdView, HouseholdView) {
        loop {
            let before = self.house.now();
            let answered = self.client.view().await.unwrap();
            let shown = self.house.now();
            if before == shown {
                return ((*shown).clone(), answered);
            }
        }
    }

    async fn close(self) {
        self.house.shut_down().await;
    }
}

fn wish(text: Option<&str>, messages: Option<&str>, tokens_max: u32) -> ReplyRequest {
    let message = |text: &str| vec![RequestMessage { role: ChatRole::User, text: text.to_owned() }];
    ReplyRequest {
        model: "ember".to_owned(),
        text: text.map(str::to_owned),
        messages: messages.map(message),
        tokens_max: Some(tokens_max),
        sampling: SamplingParameters::GREEDY,
        stop: Vec::new(),
        thinking: None,
        activation_dtype: None,
        this_device_only: true,
    }
}

/// A reply of hundreds of tokens: so hot that no end of turn is likely to come.
fn long_wish() -> ReplyRequest {
    ReplyRequest {
        sampling: SamplingParameters {
            temperature: Some(10.0),
            top_k: Some(0),
            top_p: Some(1.0),
            min_p: Some(0.0),
            seed: Some(1),
            ..SamplingParameters::default()
        },
        ..wish(Some("Once upon a time"), None, 800)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_owner_may_ask_is_answered() {
    let node = Node::start().await;
    let client = &node.client;
    let (shown, answered) = node.undisturbed_view().await;
    assert_eq!(answered, shown);
    client.set_sharing(Sharing::On).await.unwrap();
    assert!(node.house.now().sharing.on);
    client.set_sharing(Sharing::Off).await.unwrap();
    let window = client.show_code().await.unwrap();
    assert_eq!(window.code.chars().filter(char::is_ascii_digit).count(), 6);
    client.cancel_pairing().await.unwrap();
    let found = client.doctor().await.unwrap();
    let subjects: Vec<&str> = found.iter().map(|finding| finding.subject.as_str()).collect();
    assert!(subjects.starts_with(&["identity", "links", "discovery", "port"]), "{subjects:?}");
    assert!(found.iter().all(|finding| finding.condition.is_some()), "words for all: {found:?}");
    let key = client.port_key().await.unwrap();
    assert_eq!(key, node.house.port_settings().await.unwrap().key);
    let response = client.call(Request::PortKey {}).await.unwrap();
    assert!(!format!("{response:?}").contains(&*key), "a key must not be shown by accident");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_with_a_code_and_a_sentence() {
    let node = Node::start().await;
    let nowhere = PathBuf::from("/nowhere/model.gguf");
    let truncated = node.home.path().join("truncated.gguf");
    std::fs::write(&truncated, b"GGUF\x03\0\0\0").unwrap();
    let stranger = || "ABCDEFGH".to_owned();
    for (request, code) in [
        (Request::SetTrust { device: stranger(), trust: Trust::Own }, "not_found"),
        (Request::Forget { device: stranger() }, "not_found"),
        (Request::RemoveModel { name: "no-such-model".to_owned() }, "not_found"),
        (Request::ImportModel { file: nowhere, name: None }, "bad_model"),
        (Request::ImportModel { file: truncated, name: None }, "bad_model"),
        (
            Request::Join {
                target: PairTarget::Seen(stranger()),
                code: "123456".to_owned().into(),
            },
            "not_found",
        ),
    ] {
        let asked = format!("{request:?}");
        match node.client.call(request).await {
            Err(ClientError::Refused(problem)) => {
                assert_eq!(problem.code, code, "{asked}: {}", problem.sentence);
                assert!(!problem.sentence.is_empty(), "{asked}");
            }
            other => panic!("{asked}: {other:?}"),
        }
    }
    for (row, unfit) in [
        ("no model", ReplyRequest { model: "none".to_owned(), ..wish(Some("x"), None, 1) }),
        ("nothing to continue", wish(None, None, 1)),
        ("two things to continue", wish(Some("x"), Some("hi"), 1)),
    ] {
        assert!(matches!(node.client.generate(unfit).await, Err(ClientError::Refused(_))), "{row}");
    }
    let long = ReplyRequest { text: Some("x".repeat(9 << 20)), ..wish(None, None, 1) };
    assert!(matches!(node.client.generate(long).await, Err(ClientError::TooLong { .. })));
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_comes_line_by_line_with_its_ids_and_one_end() {
    let node = Node::start().await;
    for wish in [wish(Some("Once upon a time"), None, 5), wish(None, Some("hi"), 5)] {
        let mut reply = node.client.generate(wish).await.unwrap();
        assert!(!reply.prompt_ids.is_empty());
        let (mut ids, mut ends) = (0, 0);
        let mut tokens = 0;
        while let Some((event, more)) = reply.next().await.unwrap() {
            assert_eq!(ends, 0, "nothing comes after the end");
            ids += more.len();
            if let ReplyEvent::Done { summary } = event {
                ends += 1;
                tokens = summary.completion_tokens as usize;
            }
        }
        assert_eq!((ends, ids), (1, tokens));
        assert!(tokens > 0);
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_stops_its_reply_also_while_it_waits() {
    let node = Node::start().await;
    // It has a worker then, which stands still from the first word of the next reply on.
    let mut before = node.client.generate(wish(Some("x"), None, 1)).await.unwrap();
    while before.next().await.unwrap().is_some() {}
    let slow = Throttle::start(nook_testkit::workers_of(&node.house).await.unwrap(), SLOW);
    let mut first = node.client.generate(long_wish()).await.unwrap();
    assert!(first.next().await.unwrap().is_some());
    let held = slow.stand_still();
    // One reply at a time is made: this one waits, and leaves while it does.
    let mut second = Box::pin(node.client.generate(long_wish()));
    let is_waiting = async {
        while node.house.vitals().await.unwrap().replies_waiting == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        _ = &mut second => panic!("it did not wait"),
        waits = tokio::time::timeout(PATIENCE, is_waiting) => waits.expect("it should wait"),
    }
    drop((first, second, held));
    node.wait_until_idle().await;
    let mut third = node.client.generate(wish(Some("x"), None, 1)).await.unwrap();
    assert!(third.next().await.unwrap().is_some());
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_no_request_are_answered_with_a_problem() {
    let node = Node::start().await;
    for (row, line) in [
        ("not JSON", b"hello\n".to_vec()),
        ("not a request", b"\"make_tea\"\n".to_vec()),
        ("half a request", b"{\"call\":{\"action\":\"set_sharing\"}}\n".to_vec()),
        ("a request of the window", b"{\"call\":{\"action\":\"conversations\"}}\n".to_vec()),
        ("not UTF-8", b"\xff\xfe\n".to_vec()),
        ("deep", [vec![b'['; 100_000], b"\n".to_vec()].concat()),
        ("longer than a line may be", vec![b'x'; 9 << 20]),
    ] {
        let answer = node.send(&line).await;
        assert!(answer.starts_with("{\"problem\":{\"code\":\"bad_request\""), "{row}: {answer}");
        assert_eq!(answer.lines().count(), 1, "{row}");
    }
    assert!(node.client.is_running().await);
    node.client.view().await.unwrap();
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_counted_and_the_next_one_waits() {
    let node = Node::start().await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(node.connect().await);
    }
    let mut next = Box::pin(node.client.view());
    let early = tokio::time::timeout(Duration::from_millis(200), &mut next).await;
    assert!(early.is_err(), "it did not wait");
    idle.pop();
    let answer = tokio::time::timeout(PATIENCE, next).await.expect("its turn should come");
    answer.unwrap();
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_is_answered_and_ends_the_node() {
    let node = Node::start().await;
    node.client.shut_down().await.unwrap();
    let mut view = node.house.view();
    // The socket is left by a task of its own, which may end after the last view was told.
    let gone = async {
        while view.changed().await.is_ok() {}
        while node.client.is_running().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the node should end");
    let answer = node.client.view().await;
    assert!(matches!(answer, Err(ClientError::NotRunning { .. })), "{answer:?}");
    node.close().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_a_dead_node_left_is_replaced_and_nobody_else_may_enter() {
    use std::os::unix::fs::PermissionsExt as _;

    let node = Node::start().await;
    let socket = node.house.runtime_folder().join("left-behind.sock");
    // What a killed process leaves: the file, and nobody who listens.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let name = socket.to_str().unwrap();
    nook_control::serve(node.house.clone(), name, node.house.tasks()).unwrap();
    assert!(Client::new(name.to_owned()).is_running().await);
    let folder = std::fs::metadata(node.house.runtime_folder()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o077, 0, "the folder is this user's alone");
    node.close().await;
}
