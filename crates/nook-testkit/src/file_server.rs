//! A web server of model files that behaves as badly as it is told. For tests only.
//!
//! It speaks HTTP/1.1 over real sockets on this machine, one request a connection, so a test
//! decides about every byte: it breaks off, stalls, lies about lengths and forgets ranges. A
//! [`Served`] says what lies under a path; its faults are used up one a request, then it behaves.
//! Threads of the standard library only, so that tests below the node include this file as a module
//! of their own.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 1 << 16;

/// How often a stalled connection looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// What lies under a path.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its entity tag, with quotes.
    pub etag: Option<String>,
    /// More header fields of every answer.
    pub fields: Vec<(String, String)>,
    /// Whether pieces of it are sent.
    pub ranges: bool,
    /// Whether answers leave out how long they are.
    pub no_length: bool,
    /// Whether answers with a piece leave out how long the whole is.
    pub no_total: bool,
    /// What goes wrong, one a request.
    pub faults: VecDeque<Fault>,
}

/// Something that goes wrong once.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The connection ends after so many bytes of the answer.
    CutAfter(usize),
    /// Nothing more comes after so many bytes.
    StallAfter(usize),
    /// This status, with these fields, and no file.
    Status(u16, Vec<(String, String)>),
    /// The answer claims this length, whatever it has.
    ClaimLength(u64),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whether only the head of the answer was wanted.
    pub only_head: bool,
    /// The path, with its query.
    pub path: String,
    /// The field `Range`.
    pub range: Option<String>,
    /// The field `If-Range`.
    pub if_range: Option<String>,
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    /// Whether the accepting thread can be woken.
    wakes: bool,
}

#[derive(Debug, Default)]
struct Shared {
    /// Guards what is served; held for single look-ups.
    files: Mutex<BTreeMap<String, Served>>,
    /// Guards what was asked.
    asked: Mutex<Vec<Request>>,
    /// Bytes of files that were sent.
    sent: AtomicU64,
    over: AtomicBool,
}

impl Served {
    /// A file that is sent as servers of files do.
    #[must_use]
    pub fn file(bytes: Vec<u8>, etag: &str) -> Self {
        Self { bytes, etag: Some(etag.to_owned()), ranges: true, ..Self::default() }
    }

    /// A redirect.
    #[must_use]
    pub fn redirect(to: &str) -> Self {
        Self { fields: vec![("Location".to_owned(), to.to_owned())], ..Self::default() }
    }

    /// With one more header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one more fault.
    #[must_use]
    pub fn failing(mut self, fault: Fault) -> Self {
        self.faults.push_back(fault);
        self
    }
}

impl FileServer {
    /// Starts a server that has nothing yet.
    pub fn start() -> io::Result<Self> {
        let mut server = Self::start_at(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)?;
        server.wakes = true;
        Ok(server)
    }

    /// The same at a socket of another network. As nobody can knock there, its thread ends with the
    /// test.
    pub fn start_at(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        });
        Ok(Self { address, shared, accepting: Some(accepting), wakes: false })
    }

    /// Its address, `http://127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves something under `path`, in place of what was there.
    pub fn serve(&self, path: &str, served: Served) {
        self.files().insert(path.to_owned(), served);
    }

    /// What was asked so far, oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<Request> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of files that were sent so far, whatever came of them.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Served>> {
        self.shared.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        if let Some(accepting) = self.accepting.take().filter(|_| self.wakes) {
            // Wakes the accepting thread; should it be gone, so is what was to be woken.
            drop(TcpStream::connect(self.address));
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let shared = shared.clone();
        // A client that leaves in the middle is one of the things that are tested.
        thread::spawn(move || drop(answer(stream, &shared)));
    }
}

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let Some(request) = read_request(&mut stream)? else { return Ok(()) };
    let found = {
        let mut files = shared.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.get_mut(&request.path);
        // What goes wrong does so where the file itself is wanted.
        found.map(|served| {
            let fault = if request.only_head { None } else { served.faults.pop_front() };
            (served.clone(), fault)
        })
    };
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    let Some((served, fault)) = found else {
        return stream.write_all(&head(404, &[], Some(0)));
    };
    if let Some(Fault::Status(status, fields)) = &fault {
        return stream.write_all(&head(*status, fields, Some(0)));
    }
    if served.fields.iter().any(|(name, _)| name == "Location") {
        return stream.write_all(&head(302, &served.fields, Some(0)));
    }
    let (status, span, extra) = piece(&served, &request);
    let bytes = served.bytes.get(span).unwrap_or_default();
    let mut fields = served.fields.clone();
    fields.extend(served.etag.iter().map(|etag| ("ETag".to_owned(), etag.clone())));
    fields.extend(extra);
    let length = match &fault {
        Some(Fault::ClaimLength(length)) => Some(*length),
        _ => (!served.no_length).then_some(bytes.len() as u64),
    };
    stream.write_all(&head(status, &fields, length))?;
    if request.only_head {
        return Ok(());
    }
    let bytes = match fault {
        Some(Fault::CutAfter(most) | Fault::StallAfter(most)) => first(bytes, most),
        _ => bytes,
    };
    stream.write_all(bytes)?;
    shared.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
    match fault {
        Some(Fault::StallAfter(_)) => wait_until_left(&mut stream, shared),
        _ => Ok(()),
    }
}

/// Which bytes answer the request, with which status and which fields beside.
fn piece(
    served: &Served,
    request: &Request,
) -> (u16, std::ops::Range<usize>, Option<(String, String)>) {
    let whole = served.bytes.len();
    let asked = request.range.as_deref().and_then(|range| range.strip_prefix("bytes="));
    let from = asked.and_then(|range| range.strip_suffix('-')).and_then(|it| it.parse().ok());
    let is_same = request.if_range.is_none() || request.if_range == served.etag;
    match from.filter(|_| served.ranges && is_same) {
        None => (200, 0..whole, None),
        Some(from) if from < whole => {
            let total = if served.no_total { "*".to_owned() } else { whole.to_string() };
            let text = format!("bytes {from}-{}/{total}", whole.saturating_sub(1));
            (206, from..whole, Some(("Content-Range".to_owned(), text)))
        }
        Some(_) => (416, 0..0, Some(("Content-Range".to_owned(), format!("bytes */{whole}")))),
    }
}

fn head(status: u16, fields: &[(String, String)], length: Option<u64>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} As-Told\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length {
        head.push_str(&format!("Content-Length: {length}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn first(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(..most).unwrap_or(bytes)
}

/// Sends nothing more until the client has had enough.
fn wait_until_left(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    while !shared.over.load(Ordering::SeqCst) {
        match stream.read(&mut [0]) {
            Ok(0) => return Ok(()),
            Err(error) if is_time_over(error.kind()) => {}
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_time_over(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn read_request(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut buffer)?;
        if read == 0 || head.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
    }
    let text = String::from_utf8_lossy(&head);
    let field = |wanted: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    let mut words = text.split_whitespace();
    let only_head = words.next() == Some("HEAD");
    let path = words.next().unwrap_or_default().to_owned();
    Ok(Some(Request { only_head, path, range: field("range"), if_range: field("if-range") }))
}
