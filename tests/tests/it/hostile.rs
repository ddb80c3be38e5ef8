//! Rows of "Preparation" in the table of hostile inputs: what a client's schema, or a publisher's
//! template or vocabulary, makes a node do before anything is computed; and what anybody on the
//! network can send to it. The node is a process of its own, so its memory is what the system says
//! it is.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nook_api::views::{HouseholdView, Trust};
use nook_kernels::Format;
use nook_model::gguf::Value as Metadata;
use nook_model::synthetic::{Recipe, header_bytes};
use nook_testkit::{Footprint, Household, Node, NodePlan, Signal, Wish, signal, skip};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const NAME: &str = "Kitchen laptop";
const OTHER: &str = "Study PC";
const LAST: &str = "Garden PC";

/// What the node may grow by, in KiB: 64 MiB, and what the allocator keeps of many connections.
const GROWTH_MAX: u64 = 96 << 10;

/// Requests whose clients leave at once.
const LEAVING: usize = 500;

/// Of those, how many are there at one time.
const AT_ONCE: usize = 25;

/// How long each of them stays.
const STAY: Duration = Duration::from_millis(50);

/// Longest wait for an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A node with a port, and how a program reaches it.
struct Scene {
    house: Household,
    address: String,
    key: String,
}

impl Scene {
    async fn new() -> anyhow::Result<Self> {
        let house = Household::strangers([NodePlan::new(NAME).with_port()]).await?;
        let node = house.asking();
        let view = node.until("its port is open", |view| view.port.on).await?;
        let address = view.port.base_url.trim_start_matches("http://").trim_end_matches("/v1");
        let key = fs::read_to_string(node.home().join("port.key"))?.trim().to_owned();
        let address = address.to_owned();
        Ok(Self { house, address, key })
    }

    fn node(&self) -> &Node {
        self.house.asking()
    }

    /// A connection on which this was sent to the path of chat completions.
    async fn send(&self, body: &Value) -> anyhow::Result<TcpStream> {
        post(&self.address, &self.key, body).await
    }

    /// The status and the body of the answer.
    async fn ask(&self, body: &Value) -> anyhow::Result<(u16, Value)> {
        answer(self.send(body).await?).await
    }

    /// The same, asked again while the node has no place for it.
    async fn answered(&self, body: &Value) -> anyhow::Result<(u16, Value)> {
        let asked = async {
            loop {
                let (status, told) = self.ask(body).await?;
                if !matches!(status, 429 | 503) {
                    return Ok((status, told));
                }
                tokio::time::sleep(STAY).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await?
    }

    fn memory_kib(&self) -> u64 {
        Footprint::of(self.node().pid()).map_or(0, |it| it.anonymous_kib)
    }
}

async fn post(address: &str, key: &str, body: &Value) -> anyhow::Result<TcpStream> {
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    Ok(stream)
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<(u16, Value)> {
    let mut told = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut told)).await??;
    let told = String::from_utf8_lossy(&told);
    let (head, body) = told.split_once("\r\n\r\n").context("an answer has a head")?;
    let status = head.split_whitespace().nth(1).context("it has a status")?.parse()?;
    let begins = body.find('{').context("it has a body")?;
    let ends = body.rfind('}').context("it has a body")?;
    Ok((status, serde_json::from_str(&body[begins..=ends])?))
}

fn plain(model: &str) -> Value {
    json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
}

/// A request for a reply of this form.
fn formed(schema: &Value) -> Value {
    let mut body = plain("ember");
    body["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "form", "schema": schema}});
    body
}

/// One whose calls of a tool take such arguments.
fn calling(parameter: &Value) -> Value {
    let mut body = plain("ember");
    let parameters = json!({"type": "object", "properties": {"n": parameter}, "required": ["n"]});
    body["tools"] = json!([{"type": "function",
        "function": {"name": "count", "parameters": parameters}}]);
    body["tool_choice"] = "required".into();
    body
}

/// A number that takes work in proportion to `divisor`.
fn multiples_of(divisor: usize) -> Value {
    json!({"type": "integer", "multipleOf": divisor})
}

fn object_of(number: &Value) -> Value {
    json!({"type": "object", "properties": {"n": number}, "required": ["n"],
        "additionalProperties": false})
}

#[tokio::test(flavor = "multi_thread")]
async fn r1_schemas_that_take_for_ever_are_refused_and_take_no_memory_of_the_node()
-> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (status, told) = scene.answered(&formed(&object_of(&multiples_of(5)))).await?;
    assert_eq!(status, 200, "{told}");
    let before = scene.memory_kib();
    let mut peak = before;
    let mut leaving = JoinSet::new();
    for number in 0..LEAVING {
        // Each is another schema, so nothing that was found out of one says anything of the next.
        let number_of = multiples_of(999_983 + 2 * number);
        let body =
            if number % 2 == 0 { formed(&object_of(&number_of)) } else { calling(&number_of) };
        let (address, key) = (scene.address.clone(), scene.key.clone());
        leaving.spawn(async move {
            // The port takes only so many connections; one that it closes has left as well.
            if let Ok(stream) = post(&address, &key, &body).await {
                tokio::time::sleep(STAY).await;
                drop(stream);
            }
        });
        if leaving.len() >= AT_ONCE {
            leaving.join_next().await;
        }
        peak = peak.max(scene.memory_kib());
        if number == LEAVING / 2 {
            let (status, told) = scene.answered(&plain("ember")).await?;
            assert_eq!(status, 200, "in the middle of them: {told}");
        }
    }
    while leaving.join_next().await.is_some() {}
    peak = peak.max(scene.memory_kib());
    for body in [formed(&object_of(&multiples_of(999_983))), calling(&multiples_of(999_979))] {
        let (status, told) = scene.answered(&body).await?;
        peak = peak.max(scene.memory_kib());
        let words = told["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && words.contains("takes too much"), "{status} {told}");
    }
    println!("r1: {before} KiB before, at most {peak} KiB, allowed {} KiB", before + GROWTH_MAX);
    assert!(peak <= before + GROWTH_MAX, "{before} KiB before, {peak} KiB at most");
    let (status, told) = scene.answered(&formed(&object_of(&multiples_of(7)))).await?;
    assert_eq!(status, 200, "{told}");
    Ok(())
}

/// The built-in model with another template.
async fn with_template(node: &Node, template: &str) -> anyhow::Result<Vec<u8>> {
    templated(&node.built_in().await?.0, template)
}

/// The model in a file with another template, as long as its own.
pub(crate) fn templated(file: &Path, template: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(file)?;
    let key = b"tokenizer.chat_template";
    let at = bytes.windows(key.len()).position(|it| it == key).context("it has a template")?;
    // Behind the key: the kind of the value, and its length.
    let at = at + key.len() + 4;
    let length = bytes.get(at..at + 8).context("its length")?.try_into()?;
    let length = usize::try_from(u64::from_le_bytes(length))?;
    if template.len() > length {
        bail!("the template has {} bytes, the file has room for {length}", template.len());
    }
    let own = bytes.get_mut(at + 8..at + 8 + length).context("its text")?;
    own.fill(b' ');
    own[..template.len()].copy_from_slice(template.as_bytes());
    Ok(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_a_template_that_takes_for_ever_is_stopped_and_its_model_named() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let templates = [
        // Equal only after 2 to the 60th comparisons.
        "{% set n=namespace(a=['a'],b=['a']) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}\
         {% set n.b=[n.b,n.b] %}{% endfor %}{{ n.a == n.b }}",
        "{% set n=namespace(a=['a'],b=['a']) %}{% for i in range(60) %}{% set n.a=[n.a,n.a] %}\
         {% set n.b=[n.b,n.b] %}{% endfor %}{{ n.a in [n.b] }}",
    ];
    let (status, told) = scene.answered(&plain("ember")).await?;
    assert_eq!(status, 200, "{told}");
    let before = scene.memory_kib();
    for (number, template) in templates.into_iter().enumerate() {
        let name = format!("knot-{number}");
        let file = scene.house.folder().join(format!("{name}.gguf"));
        fs::write(&file, with_template(scene.node(), template).await?)?;
        scene.node().import(&file, Some(&name)).await?;
        // One who leaves at once holds nobody up.
        drop(scene.send(&plain(&name)).await?);
        let (status, told) = scene.answered(&plain(&name)).await?;
        let words = told["error"]["message"].as_str().unwrap_or_default();
        assert!(status >= 400 && words.contains(&name), "{status} {told}");
        let (status, told) = scene.answered(&plain("ember")).await?;
        assert_eq!(status, 200, "{told}");
    }
    let after = scene.memory_kib();
    println!("r2: {before} KiB before, {after} KiB after, allowed {} KiB", before + GROWTH_MAX);
    assert!(after <= before + GROWTH_MAX, "{before} KiB before, {after} KiB after");
    Ok(())
}

/// A model whose vocabulary has 20,000 control tokens of 600 bytes.
fn with_long_specials(path: &Path) -> anyhow::Result<()> {
    let recipe = Recipe { vocabulary: 20_259, ..Recipe::tiny(Format::F16, 1) };
    let mut metadata = recipe.metadata();
    for (key, value) in &mut metadata {
        let is_filler = |at: usize| at >= 259;
        match value {
            Metadata::Texts(tokens) if key == "tokenizer.ggml.tokens" => {
                for (at, token) in tokens.iter_mut().enumerate().filter(|(at, _)| is_filler(*at)) {
                    *token = format!("{at:05}{}", "x".repeat(595));
                }
            }
            Metadata::Signeds(kinds) if key == "tokenizer.ggml.token_type" => {
                kinds
                    .iter_mut()
                    .enumerate()
                    .filter(|(at, _)| is_filler(*at))
                    .for_each(|it| *it.1 = 3);
            }
            _ => {}
        }
    }
    let tensors = recipe.tensors();
    fs::write(path, header_bytes(3, &metadata, &tensors))?;
    let weights = tensors.iter().filter_map(|tensor| {
        let rows = tensor.dimensions.iter().skip(1).product();
        tensor.kind.bytes(*tensor.dimensions.first()?, rows)
    });
    let bytes: u64 = weights.map(|bytes| bytes.next_multiple_of(32)).sum();
    let file = fs::File::options().write(true).open(path)?;
    let header = file.metadata()?.len();
    file.set_len(header + bytes)?;
    Ok(())
}

/// What the node may grow by while it reads headers, in KiB.
const HEADER_GROWTH_MAX: u64 = 64 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn r3_a_vocabulary_that_would_take_much_memory_is_refused_by_name() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (status, told) = scene.answered(&plain("ember")).await?;
    assert_eq!(status, 200, "{told}");
    let before = scene.memory_kib();
    let file = scene.house.folder().join("wordy.gguf");
    with_long_specials(&file)?;
    scene.node().import(&file, Some("wordy")).await?;
    for _ in 0..3 {
        let (status, told) = scene.answered(&plain("wordy")).await?;
        let words = told["error"]["message"].as_str().unwrap_or_default();
        assert!(status >= 400 && words.contains("too many special tokens"), "{status} {told}");
    }
    let after = scene.memory_kib();
    println!(
        "r3: {before} KiB before, {after} KiB after, allowed {} KiB",
        before + HEADER_GROWTH_MAX
    );
    assert!(after <= before + HEADER_GROWTH_MAX, "{before} KiB before, {after} KiB after");
    // A header of 116 MiB is not even imported.
    let mut bytes = fs::read(&file)?;
    let key = b"tokenizer.ggml.tokens";
    let at = bytes.windows(key.len()).position(|it| it == key).context("it has tokens")?;
    // Behind the key: a list of texts, its length, and the length of the first text.
    let at = at + key.len() + 4 + 4 + 8;
    bytes[at..at + 8].copy_from_slice(&(116_u64 << 20).to_le_bytes());
    let file = scene.house.folder().join("long.gguf");
    fs::write(&file, &bytes)?;
    fs::File::options().write(true).open(&file)?.set_len(200 << 20)?;
    let refused = scene.node().import(&file, Some("long")).await.unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("long.gguf") && refused.contains("the most is"), "{refused}");
    Ok(())
}

/// Datagrams of a flood. A daemon that keeps their records takes more than 150 megabytes.
const FLOOD: u32 = 6_000;

/// Of those, how many are sent before it is waited until the node has read them. A socket holds
/// more, so none is lost on its way, however busy the machine is.
const BATCH: u32 = 40;

/// How often it is looked whether the node still works on them.
const LOOK: Duration = Duration::from_millis(150);

/// What the process that looks for devices may take in a flood, in KiB.
const FLOOD_GROWTH_MAX: u64 = 96 << 10;

/// What the node itself may grow by meanwhile, in KiB: it has nothing to do with it.
const NODE_GROWTH_MAX: u64 = 16 << 10;

/// Records of each; as many as a frame of Ethernet takes.
const RECORDS: u32 = 60;

/// A response of multicast DNS with records that no other flood of this test has: addresses of
/// hosts, which belong to nothing that was asked for, with a life of 68 years.
fn unasked_records(number: u32) -> Vec<u8> {
    // Id, flags of an authoritative answer, no questions, so many answers, nothing else.
    let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, RECORDS as u8, 0, 0, 0, 0];
    for record in 0..RECORDS {
        let label = format!("{:08x}", number * RECORDS + record);
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
        if record == 0 {
            packet.extend(b"\x05local\0");
        } else {
            // The end of the first name, where that stands.
            packet.extend([0xC0, 12 + 9]);
        }
        // An address, of the internet, its life, its length.
        packet.extend([0, 1, 0, 1, 0x7F, 0xFF, 0xFF, 0xFF, 0, 4, 10, 77, 0, 200]);
    }
    packet
}

/// Waits until a process computes nothing between two looks but what it always does.
async fn until_idle(pid: u32) {
    // Fields 14 and 15 of proc_pid_stat(5), counted behind the name: hundredths of a second.
    let taken = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    };
    loop {
        let before = taken();
        tokio::time::sleep(LOOK).await;
        if taken() <= before + 1 {
            return;
        }
    }
}

#[tokio::test]
async fn d6_records_that_nobody_asked_for_fill_no_memory() -> anyhow::Result<()> {
    let test = "d6_records_that_nobody_asked_for_fill_no_memory";
    let plans = [NodePlan::new(NAME), NodePlan::new(OTHER).offering("1-4")];
    let house = Household::apart_with_test(plans).await?;
    if house.bridge().is_none() {
        skip(test, "no network namespaces");
        return Ok(());
    }
    house.pair_seen(0, 1, Trust::Trusted).await?;
    house.node(1).share(true).await?;
    house.until_all_lend("ember").await?;
    let node = house.asking();
    let memory_kib = |pid| Footprint::of(pid).map_or(0, |it| it.anonymous_kib);
    let before = memory_kib(node.pid());
    let (mut peak, mut peak_apart) = (before, 0);
    let to = (node.listens_at().await?.ip(), 5353);
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    for number in 0..FLOOD {
        socket.send_to(&unasked_records(number), to)?;
        if number % BATCH == 0 {
            // Where none runs, nobody reads them.
            if let Some(discovery) = node.discovery() {
                until_idle(discovery).await;
                peak_apart = peak_apart.max(memory_kib(discovery));
            }
            peak = peak.max(memory_kib(node.pid()));
        }
    }
    println!(
        "d6: {before} KiB before, at most {peak} KiB, {NODE_GROWTH_MAX} more allowed; the process \
         that looks for devices at most {peak_apart} KiB, {FLOOD_GROWTH_MAX} allowed"
    );
    assert!(peak <= before + NODE_GROWTH_MAX, "{before} KiB before, {peak} KiB at most");
    assert!(peak_apart <= FLOOD_GROWTH_MAX, "{peak_apart} KiB at most");
    // It was noticed, and not only lost on its way. It is said when discovery is wanted next.
    let noticed = async {
        while !node.log().contains("is flooded with records") {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.context("the flood is noticed")?;
    let said = node.log().matches("is flooded with records").count();
    assert_eq!(said, 1, "{}", node.log());
    // Who was there is there, and answers.
    let told = node.answer(&Wish::text("Once upon a time", 8)).await?;
    assert!(told.uses(OTHER), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn d6_a_process_that_looks_for_devices_and_ends_is_replaced() -> anyhow::Result<()> {
    let mut house = Household::strangers([NodePlan::new(NAME), NodePlan::new(OTHER)]).await?;
    let is_seen = |view: &HouseholdView| view.devices.iter().any(|it| it.name == OTHER);
    house.asking().until("the other one is seen", is_seen).await?;
    let ended = house.asking().discovery().context("one looks for devices")?;
    signal(ended, Signal::Kill);
    let found = async {
        loop {
            match house.asking().discovery() {
                Some(next) if next != ended => return next,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    };
    let next = tokio::time::timeout(PATIENCE, found).await.context("another one is started")?;
    let told = house.asking().log();
    assert!(told.contains("looking for devices rests"), "{told}");
    // A goodbye is heard by a process that listens already: whoever comes shows that it does.
    house.add(NodePlan::new(LAST)).await?;
    let last_is_seen = |view: &HouseholdView| view.devices.iter().any(|it| it.name == LAST);
    house.asking().until("whoever comes is seen", last_is_seen).await?;
    // They are strangers: who hears of a goodbye, and of a coming, heard it on the network.
    house.node_mut(1).leave().await?;
    house.asking().until("it is gone", |view| !is_seen(view)).await?;
    house.node_mut(1).start_again().await?;
    house.asking().until("it is seen again", is_seen).await?;
    // It ends with its node, also with one that has no time to tell it.
    house.node_mut(0).signal(Signal::Kill);
    let gone = async {
        while Path::new(&format!("/proc/{next}/fd/0")).exists() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.context("it ends with its node")?;
    Ok(())
}
