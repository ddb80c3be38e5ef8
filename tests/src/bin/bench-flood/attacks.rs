//! What strangers on the network and programs of this computer do to a node, as much of it as they
//! can.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Connections at one time that say nothing, or nonsense.
pub(crate) const SOCKETS: usize = 1_000;

/// Devices that do not exist and are announced again and again.
pub(crate) const INSTANCES: u32 = 10_000;

/// Programs that ask at one time.
pub(crate) const CLIENTS: usize = 64;

/// Port of multicast DNS (RFC 6762). What is sent to it is read whether it was sent to one or to
/// all, and the network of this thread has no way to all.
const MDNS_PORT: u16 = 5353;

/// Between two announcements: a thousand in a second.
const ANNOUNCE_PAUSE: Duration = Duration::from_millis(1);

/// Before a connection that was closed is made again.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest wait for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Characters of a prompt that is far too long for the model.
const LONG_PROMPT: usize = 1 << 20;

/// What was done, counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    pub(crate) connections: Rc<Cell<u64>>,
    pub(crate) announcements: Rc<Cell<u64>>,
    pub(crate) requests: Rc<Cell<u64>>,
}

/// Kinds of attack, in the order in which they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    Sockets,
    Announcements,
    Requests,
}

/// Who is attacked.
#[derive(Debug, Clone)]
pub(crate) struct Victim {
    /// Where paired devices reach it.
    pub(crate) links: SocketAddr,
    /// Its port for programs.
    pub(crate) port: SocketAddr,
    /// The key of that port.
    pub(crate) key: String,
}

/// Attacks until what it returns is dropped.
pub(crate) fn attack(kinds: &[Attack], victim: &Victim, done: &Done) -> JoinSet<()> {
    let mut going = JoinSet::new();
    for kind in kinds {
        match kind {
            Attack::Sockets => {
                for number in 0..SOCKETS {
                    let (to, made) = (victim.links, Rc::clone(&done.connections));
                    going.spawn_local(async move { occupy(number, to, &made).await });
                }
            }
            Attack::Announcements => {
                let made = Rc::clone(&done.announcements);
                let to = SocketAddr::new(victim.links.ip(), MDNS_PORT);
                going.spawn_local(async move { announce(to, &made).await });
            }
            Attack::Requests => {
                for number in 0..CLIENTS {
                    let (victim, made) = (victim.clone(), Rc::clone(&done.requests));
                    going.spawn_local(async move { ask(number, &victim, &made).await });
                }
            }
        }
    }
    going
}

fn count(counted: &Cell<u64>) {
    counted.set(counted.get() + 1);
}

/// Holds a connection for as long as it is let, again and again.
async fn occupy(number: usize, to: SocketAddr, made: &Cell<u64>) {
    // Nothing; the beginning of a handshake whose end never comes; another protocol; nonsense.
    let said: &[u8] = match number % 4 {
        0 => b"",
        1 => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        2 => b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        _ => &[0xA5; 512],
    };
    loop {
        if let Ok(mut stream) = TcpStream::connect(to).await {
            count(made);
            let _ = stream.write_all(said).await;
            let mut answer = [0; 256];
            // Until the other side closes.
            while matches!(stream.read(&mut answer).await, Ok(read) if read > 0) {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn announce(to: SocketAddr, made: &Cell<u64>) {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await else { return };
    for number in (0..INSTANCES).cycle() {
        // A full queue loses one; the next round says it again.
        if socket.send_to(&instance(number), to).await.is_ok() {
            count(made);
        }
        tokio::time::sleep(ANNOUNCE_PAUSE).await;
    }
}

/// The announcement of a device that does not exist: all records that one has (RFC 6763).
fn instance(number: u32) -> Vec<u8> {
    const SERVICE: &[&str] = &["_inglenook", "_tcp", "local"];
    // Sixteen characters of base32, as a tag has.
    let letters = (0..16).map(|at| match at {
        0..8 => 'a',
        _ => char::from(b'a' + u8::try_from((number >> (4 * (at - 8))) & 15).unwrap_or_default()),
    });
    let label: String = letters.collect();
    let full: Vec<&str> = [label.as_str()].into_iter().chain(SERVICE.iter().copied()).collect();
    let host = [label.as_str(), "local"];
    // Id, flags of an authoritative answer, no questions, four answers, nothing else.
    let mut packet = vec![0, 0, 0x84, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    let texts = ["v=1".to_owned(), format!("id={label}"), "n=1".to_owned()];
    let text = texts.iter().flat_map(|it| [&[it.len() as u8], it.as_bytes()].concat()).collect();
    let target = [&[0, 0, 0, 0, 0x11, 0xEB][..], &name(&host)].concat();
    record(&mut packet, SERVICE, 12, name(&full));
    record(&mut packet, &full, 33, target);
    record(&mut packet, &full, 16, text);
    record(&mut packet, &host, 1, vec![10, 77, (number >> 8) as u8, number as u8]);
    packet
}

fn record(packet: &mut Vec<u8>, of: &[&str], kind: u8, data: Vec<u8>) {
    packet.extend(name(of));
    // Its kind, of the internet, 120 s, the length of its data.
    packet.extend([0, kind, 0, 1, 0, 0, 0, 120, (data.len() >> 8) as u8, data.len() as u8]);
    packet.extend(data);
}

fn name(labels: &[&str]) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        labels.iter().flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}

/// Asks for what takes most, again and again.
async fn ask(client: usize, victim: &Victim, made: &Cell<u64>) {
    for round in 0.. {
        let body = worst(client, round);
        let _ = tokio::time::timeout(ANSWER_LIMIT, request(victim, &body)).await;
        count(made);
        tokio::time::sleep(AGAIN).await;
    }
}

/// A schema whose numbers take work in proportion to their size, arguments of a tool that do, a
/// prompt of a megabyte, and a deep schema. None is one that was asked before.
fn worst(client: usize, round: usize) -> Value {
    let number = json!({"type": "integer", "multipleOf": 999_983 + 2 * (round * CLIENTS + client)});
    let mut body = json!({"model": "ember", "max_tokens": 16,
        "messages": [{"role": "user", "content": "Hello"}]});
    let format = |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "form", "schema": schema}});
    match (client + round) % 4 {
        0 => {
            body["response_format"] =
                format(json!({"type": "object", "properties": {"n": number}, "required": ["n"]}));
        }
        1 => {
            let parameters = json!({"type": "object", "properties": {"n": number}});
            body["tools"] = json!([{"type": "function",
                "function": {"name": "count", "parameters": parameters}}]);
            body["tool_choice"] = "required".into();
        }
        2 => body["messages"][0]["content"] = "a b ".repeat(LONG_PROMPT / 4).into(),
        _ => {
            let mut schema = number;
            for depth in 0..60 {
                let name = format!("p{depth}");
                schema = json!({"type": "object", "properties": {&name: schema.clone(), "q": schema},
                    "required": [name]});
                if schema.to_string().len() > LONG_PROMPT / 4 {
                    break;
                }
            }
            body["response_format"] = format(schema);
        }
    }
    body
}

async fn request(victim: &Victim, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        victim.port,
        victim.key,
        body.len()
    );
    let mut stream = TcpStream::connect(victim.port).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = [0; 4096];
    while stream.read(&mut answer).await? > 0 {}
    Ok(())
}
