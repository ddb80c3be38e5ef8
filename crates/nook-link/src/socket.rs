//! TCP sockets with the options that links need.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Idle time before the system asks whether the other end is there. With [`KEEPALIVE_INTERVAL`] and
/// [`KEEPALIVE_RETRIES`] a pulled cable is noticed within 10 s even while nothing is sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(4);

/// Between those questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Unanswered questions after which the system gives the connection up.
#[cfg(not(windows))]
const KEEPALIVE_RETRIES: u32 = 3;

/// How long sent bytes may stay unacknowledged before the system gives the connection up.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// Connections that may wait for `accept`; further ones are refused by the system.
const BACKLOG: i32 = 64;

/// Ports tried before giving up when several addresses must share a random one.
const SHARED_PORT_TRIES: usize = 8;

/// Listens on `address`. An IPv6 socket takes IPv6 only, so that both wildcards can be listened on
/// under one port on every system.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // On Windows the same option would let another program take the port over.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Listens on all `addresses`. Those with port 0 share one random port.
///
/// A wildcard of a family that this machine does not have is left out as long as another is left.
pub(crate) fn listen_on_all(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let mut last = None;
    for _ in 0..SHARED_PORT_TRIES {
        match try_listen_on_all(addresses) {
            Ok(listeners) => return Ok(listeners),
            Err(error) => last = Some(error),
        }
        if addresses.iter().all(|address| address.port() != 0) {
            break;
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))
}

fn try_listen_on_all(addresses: &[SocketAddr]) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut missing_family = None;
    let mut shared_port = 0;
    for address in addresses {
        let mut address = *address;
        if address.port() == 0 {
            address.set_port(shared_port);
        }
        match listen(address) {
            Ok(listener) => {
                if shared_port == 0 {
                    shared_port = listener.local_addr()?.port();
                }
                listeners.push(listener);
            }
            Err(error) if address.ip().is_unspecified() && is_missing_family(&error) => {
                missing_family = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match missing_family {
        Some(error) if listeners.is_empty() => Err(error),
        _ if listeners.is_empty() => Err(io::ErrorKind::InvalidInput.into()),
        _ => Ok(listeners),
    }
}

fn is_missing_family(error: &io::Error) -> bool {
    // EAFNOSUPPORT has no stable `ErrorKind`: 97 on Linux, 47 on macOS, 10047 on Windows.
    error.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(error.raw_os_error(), Some(97 | 47 | 10047))
}

/// Connects to `address`; `from`: from that address of this machine.
pub(crate) async fn connect(
    address: SocketAddr,
    from: Option<SocketAddr>,
) -> io::Result<TcpStream> {
    let Some(mut from) = from else {
        return TcpStream::connect(address).await;
    };
    from.set_port(0);
    let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(from)?;
    socket.connect(address).await
}

/// From where a connection to `address` would leave this machine now. Nothing is sent.
pub(crate) fn leaves_from(address: SocketAddr) -> Option<SocketAddr> {
    let anywhere: SocketAddr = if address.is_ipv4() {
        (std::net::Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(anywhere).ok()?;
    socket.connect(address).ok()?;
    socket.local_addr().ok()
}

/// The names of this machine's interfaces by their addresses.
pub(crate) fn interfaces() -> Vec<(IpAddr, String)> {
    let known = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::debug!(%error, "the network interfaces cannot be read");
        Vec::new()
    });
    known.into_iter().map(|interface| (interface.ip(), interface.name)).collect()
}

/// Makes a connected socket fit for a link: nothing is held back, and a dead end is noticed.
///
/// Errors are ignored: a system that lacks an option still carries the link, and pings watch it.
pub(crate) fn tune(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    #[cfg(not(windows))]
    let keepalive = keepalive.with_retries(KEEPALIVE_RETRIES);
    let outcome = stream.set_nodelay(true).and_then(|()| socket.set_tcp_keepalive(&keepalive));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let outcome = outcome.and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX)));
    if let Err(error) = outcome {
        tracing::debug!(%error, "a socket option is missing");
    }
}
