//! The side that shows the code: a port that lives as long as the window.
//!
//! ```text
//! port task (owns the listeners, ends the window) ──► PairingEvent
//!    ▲ Report                                   
//!    └── one task per connection (TLS, exchange, store)
//! ```
//!
//! A proof is checked under the lock of the window, after the window was found open: connections
//! side by side get three guesses together, not three each. The first right proof *claims* the
//! window in the same breath, so that there is one new device per window.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nook_base::tasks::Tasks;
use nook_base::{PeerId, clock};
use nook_trust::pairing::{
    Exchange, Introduction, PairingChannel, PairingCode, PairingError, PairingWindows, Progress,
    ProvenPeer, RefusalReason, Role, WrongCode, refusal,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::conversation::Conversation;
use super::{
    OfferConfig, OfferError, PairedPeer, Pairing, PairingEvent, PairingOffer, StorePeer, Windows,
};
use crate::admission::{Admission, Caller, Slot};
use crate::{accepting, socket, tls};

/// Connections served at once at the temporary port; for a further one, the oldest of the address
/// that has the most of them is closed.
const CONNECTIONS_MAX: usize = 16;

/// How long a TLS handshake may take.
const TLS_DEADLINE: Duration = Duration::from_secs(5);

/// Events that wait for their reader. A window makes fewer, so none is ever lost.
const EVENTS_MAX: usize = 8;

/// What every connection of one window shares.
struct Window {
    own: PeerId,
    code: PairingCode,
    introduction: Introduction,
    windows: Windows,
    /// Set, under the lock of `windows`, by the connection whose proof was right.
    claimed: AtomicBool,
    store: StorePeer,
}

/// What a connection tells the port task.
#[derive(Debug)]
enum Report {
    /// A right proof: the window has found its device, an event follows.
    Claimed,
    Event(PairingEvent),
}

impl Pairing {
    /// Opens a window: a fresh code, a temporary port, at most 120 s.
    ///
    /// The last event says how it ended; the port is closed by then. Drop the offer to cancel, also
    /// when the machine is about to sleep.
    pub fn offer(
        &self,
        config: OfferConfig,
        store: StorePeer,
        tasks: &Tasks,
    ) -> Result<(PairingOffer, mpsc::Receiver<PairingEvent>), OfferError> {
        let expires = lock(&self.windows)
            .open(clock::now())
            .map_err(|refusal| OfferError::Refused { refusal })?;
        let (port, listeners) = listen(&config).map_err(|source| {
            lock(&self.windows).close();
            OfferError::Port { source }
        })?;
        let code = PairingCode::draw();
        let window = Window {
            own: self.identity.id(),
            code: code.clone(),
            introduction: config.introduction,
            windows: self.windows.clone(),
            claimed: AtomicBool::new(false),
            store,
        };
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let cancel = CancellationToken::new();
        let port_task = PortTask {
            window: Arc::new(window),
            acceptor: tls::pairing_acceptor(&self.identity),
            expires,
            cancelled: cancel.clone(),
            tasks: tasks.child(),
            events,
        };
        tasks.spawn("pairing port", port_task.run(listeners));
        let offer = PairingOffer { code, port, expires, _cancel: cancel.drop_guard() };
        Ok((offer, receiver))
    }
}

fn listen(config: &OfferConfig) -> std::io::Result<(u16, Vec<TcpListener>)> {
    let with_port = |ip: &std::net::IpAddr| SocketAddr::new(*ip, config.port);
    let addresses: Vec<SocketAddr> = config.listen.iter().map(with_port).collect();
    let listeners = socket::listen_on_all(&addresses)?;
    let first = listeners.first().ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok((first.local_addr()?.port(), listeners))
}

fn lock(windows: &Windows) -> MutexGuard<'_, PairingWindows> {
    windows.lock().unwrap_or_else(PoisonError::into_inner)
}

struct PortTask {
    window: Arc<Window>,
    acceptor: TlsAcceptor,
    expires: Instant,
    cancelled: CancellationToken,
    tasks: Tasks,
    events: mpsc::Sender<PairingEvent>,
}

impl PortTask {
    async fn run(self, listeners: Vec<TcpListener>) {
        let (reports, mut inbox) = mpsc::channel(EVENTS_MAX);
        let last = self.accept_until_decided(listeners, reports, &mut inbox).await;
        // The listeners are closed and only connections hold senders of reports now.
        let last = match last {
            Some(last) => last,
            None => self.await_claimed(&mut inbox).await,
        };
        self.emit(last).await;
    }

    /// Serves the port; returns the last event, or `None` when a connection has claimed the window.
    async fn accept_until_decided(
        &self,
        listeners: Vec<TcpListener>,
        reports: mpsc::Sender<Report>,
        inbox: &mut mpsc::Receiver<Report>,
    ) -> Option<PairingEvent> {
        let admission = Admission::of_anybody(CONNECTIONS_MAX);
        let mut accepting = accepting::Accepting::new(listeners);
        loop {
            let ended = tokio::select! {
                biased;
                () = self.tasks.token().cancelled() => PairingEvent::Cancelled,
                () = self.cancelled.cancelled() => PairingEvent::Cancelled,
                () = tokio::time::sleep_until(self.expires.into()) => PairingEvent::Expired,
                Some(report) = inbox.recv() => match report {
                    Report::Claimed => return None,
                    Report::Event(event) if event.is_last() => return Some(event),
                    Report::Event(event) => {
                        self.emit(event).await;
                        continue;
                    }
                },
                (stream, met_at) = accepting.next() => {
                    if let Some(slot) = admission.enter(met_at.ip(), Caller::Stranger) {
                        let connection = Connection {
                            window: self.window.clone(),
                            met_at,
                            reports: reports.clone(),
                            slot,
                        };
                        let acceptor = self.acceptor.clone();
                        self.tasks.spawn_until_cancelled("pairing connection", async move {
                            connection.serve(stream, acceptor).await;
                        });
                    }
                    continue;
                }
            };
            return self.window.end().then_some(ended);
        }
    }

    /// A proof was right: the event of that connection is the last one.
    async fn await_claimed(&self, inbox: &mut mpsc::Receiver<Report>) -> PairingEvent {
        while let Some(report) = inbox.recv().await {
            match report {
                Report::Event(event @ (PairingEvent::Paired { .. } | PairingEvent::NotStored)) => {
                    return event;
                }
                Report::Event(_) | Report::Claimed => {}
            }
        }
        PairingEvent::Cancelled // the tasks were cancelled in the middle of it
    }

    async fn emit(&self, event: PairingEvent) {
        // Nobody listening is no error: the offer goes on without a window to show it.
        let _ = self.events.send(event).await;
    }
}

impl Window {
    /// Closes the window unless a connection has claimed it; returns whether it did.
    fn end(&self) -> bool {
        let mut windows = lock(&self.windows);
        windows.close();
        !self.claimed.load(Ordering::Relaxed)
    }

    /// Feeds one message to an exchange, if the window still takes guesses, and counts it.
    fn receive(&self, exchange: &mut Exchange, message: &[u8]) -> Result<Progress, Failure> {
        let now = clock::now();
        let mut windows = lock(&self.windows);
        windows.check_open(now).map_err(|_| Failure::WindowClosed)?;
        match exchange.receive(message) {
            Ok(Progress::Store(peer)) => {
                self.claimed.store(true, Ordering::Relaxed);
                windows.close();
                Ok(Progress::Store(peer))
            }
            Err(error) if error.is_attempt() => Err(match windows.wrong_code(now) {
                WrongCode::TriesLeft(tries_left) => Failure::WrongCode { tries_left },
                WrongCode::Burnt => Failure::WrongCode { tries_left: 0 },
            }),
            Err(error) => Err(Failure::Ended(error)),
            progress => Ok(progress?),
        }
    }
}

/// Why an exchange ended on this side.
#[derive(Debug)]
enum Failure {
    WindowClosed,
    WrongCode {
        tries_left: u8,
    },
    Ended(PairingError),
    /// It has given way to another connection.
    GaveWay,
    /// The other side has left or says nothing.
    Silent,
}

impl From<PairingError> for Failure {
    fn from(error: PairingError) -> Self {
        Self::Ended(error)
    }
}

impl Failure {
    /// What the other device is told.
    fn refusal(&self) -> Vec<u8> {
        match self {
            Self::WindowClosed => refusal(RefusalReason::NotPairing, 0),
            Self::WrongCode { tries_left } => refusal(RefusalReason::WrongCode, *tries_left),
            Self::Ended(PairingError::VersionMismatch) => refusal(RefusalReason::Version, 0),
            Self::GaveWay => refusal(RefusalReason::Busy, 0),
            Self::Ended(_) | Self::Silent => refusal(RefusalReason::Other, 0),
        }
    }
}

struct Connection {
    window: Arc<Window>,
    met_at: SocketAddr,
    reports: mpsc::Sender<Report>,
    slot: Slot,
}

impl Connection {
    async fn serve(self, stream: TcpStream, acceptor: TlsAcceptor) {
        socket::tune(&stream);
        let session = tokio::select! {
            session = timeout(TLS_DEADLINE, acceptor.accept(stream)) => session,
            () = self.slot.must_leave() => {
                tracing::debug!(from = %self.met_at, "gives way to others at the pairing port");
                return;
            }
        };
        let Ok(Ok(session)) = session else {
            tracing::debug!(from = %self.met_at, "no TLS session at the pairing port");
            return;
        };
        let Some((exchange, first)) = self.start(&session) else {
            return;
        };
        let mut conversation = Conversation::new(session);
        if conversation.send(&first).await.is_ok() {
            self.exchange(exchange, &mut conversation).await;
        }
        conversation.close().await;
    }

    fn start(&self, session: &TlsStream<TcpStream>) -> Option<(Exchange, Vec<u8>)> {
        let window = &self.window;
        let (peer, exporter) = tls::identify_for_pairing(session.get_ref().1).ok()?;
        match PairingChannel::new(window.own, peer, exporter) {
            Ok(channel) => Some(Exchange::start(
                Role::ShowCode,
                &window.code,
                channel,
                window.introduction.clone(),
            )),
            Err(error) => {
                tracing::warn!(%error, from = %self.met_at, "pairing refused");
                None
            }
        }
    }

    async fn exchange(
        &self,
        mut exchange: Exchange,
        conversation: &mut Conversation<TlsStream<TcpStream>>,
    ) {
        let decided = tokio::select! {
            decided = self.decide(&mut exchange, conversation) => decided,
            () = self.slot.must_leave() => Err(Failure::GaveWay),
        };
        match decided {
            Ok(peer) => {
                self.report(Report::Claimed).await;
                let event = self.conclude(exchange, peer, conversation).await;
                self.report(Report::Event(event)).await;
            }
            Err(Failure::Silent) => {}
            Err(failure) => {
                self.report_failure(&failure).await;
                let _ = conversation.send(&failure.refusal()).await;
            }
        }
    }

    /// Takes the two messages that decide: the introduction and the proof. Ends with the second
    /// one, or with the first that is wrong: what was counted or claimed is never lost by a drop.
    async fn decide(
        &self,
        exchange: &mut Exchange,
        conversation: &mut Conversation<TlsStream<TcpStream>>,
    ) -> Result<ProvenPeer, Failure> {
        for _ in 0..2 {
            let message = conversation.receive().await.map_err(|_| Failure::Silent)?;
            if let Progress::Store(peer) = self.window.receive(exchange, &message)? {
                self.slot.proven();
                return Ok(peer);
            }
        }
        Err(Failure::Silent)
    }

    /// The other device has proved that it knows the code: store it, prove the same, hear that it
    /// has stored this one.
    async fn conclude(
        &self,
        mut exchange: Exchange,
        peer: ProvenPeer,
        conversation: &mut Conversation<TlsStream<TcpStream>>,
    ) -> PairingEvent {
        let peer = PairedPeer::new(peer, self.met_at);
        let proof = match (self.window.store)(peer.clone()).await {
            Ok(()) => exchange.stored(),
            Err(_) => {
                let _ = conversation.send(&refusal(RefusalReason::NotStored, 0)).await;
                return PairingEvent::NotStored;
            }
        };
        let confirmed = async {
            conversation.send(&proof.ok()?).await.ok()?;
            let answer = conversation.receive().await.ok()?;
            Some(exchange.receive(&answer) == Ok(Progress::Finished))
        };
        PairingEvent::Paired { confirmed: confirmed.await.unwrap_or(false), peer }
    }

    async fn report_failure(&self, failure: &Failure) {
        let event = match failure {
            Failure::WrongCode { tries_left: 0 } => PairingEvent::Burnt,
            Failure::WrongCode { tries_left } => {
                PairingEvent::WrongCode { tries_left: *tries_left }
            }
            Failure::WindowClosed | Failure::Ended(_) | Failure::GaveWay | Failure::Silent => {
                tracing::debug!(?failure, from = %self.met_at, "pairing ended");
                return;
            }
        };
        self.report(Report::Event(event)).await;
    }

    async fn report(&self, report: Report) {
        // The port task is gone only when everything is being shut down.
        let _ = self.reports.send(report).await;
    }
}
