//! A TCP proxy between two devices: a cable that is slow, narrow, torn or cut, as a test wants it.
//!
//! One side dials the proxy ([`crate::Device::behind`]), which dials the other. Bytes pass in order
//! and unread (they are encrypted); only when they arrive is changed, or that they do not. What a
//! cut holds back comes late when it is mended, as TCP would send it again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nook_base::clock;
use nook_base::tasks::Tasks;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::bridge::own_address;

/// Most bytes that pass at once: small, so that a narrow cable delivers evenly.
const PIECE_BYTES: usize = 2 << 10;

/// Pieces under way in one direction; when they are this many, the sender is not read from.
const PIECES_MAX: usize = 64;

/// Connections that a proxy has carried at most; further ones are turned away.
const CONNECTIONS_MAX: u64 = 4_096;

/// A proxy in front of one address. Dropping it ends every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    counts: Arc<Counts>,
    tasks: Tasks,
}

/// What happens to the connections through a [`Proxy`]. The default is a perfect cable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// From the side that dialled the proxy.
    pub onward: Cable,
    /// To the side that dialled the proxy.
    pub back: Cable,
    /// Of each thousand reads, in either direction, how many find the connection reset.
    pub resets_per_thousand: u32,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cable {
    /// Time on the way, on average.
    pub delay: Duration,
    /// How far that varies, up and down.
    pub jitter: Duration,
    /// Most bytes in a second; `None`: as many as come.
    pub bytes_per_second: Option<u32>,
    /// Whether nothing arrives, not even the end of the connection.
    pub is_cut: bool,
}

/// What has happened so far.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    bytes: AtomicU64,
    resets: AtomicU64,
}

/// One direction of one connection, at its beginning.
struct Pump {
    weather: watch::Receiver<Weather>,
    pick: fn(&Weather) -> Cable,
    random: StdRng,
    counts: Arc<Counts>,
}

/// And at its end.
struct Arrivals {
    weather: watch::Receiver<Weather>,
    pick: fn(&Weather) -> Cable,
    counts: Arc<Counts>,
}

/// Bytes under way, and when they arrive; none: the end.
struct Piece {
    due: Instant,
    bytes: Bytes,
}

impl Weather {
    /// The same both ways.
    #[must_use]
    pub fn both(cable: Cable) -> Self {
        Self { onward: cable, back: cable, ..Self::default() }
    }
}

impl Proxy {
    /// A proxy that leads to `target`, on this machine or at the bridge that the test visits. What
    /// is random in it follows from `seed`.
    pub async fn start(target: SocketAddr, seed: u64) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((own_address(), 0)).await?;
        let address = listener.local_addr()?;
        let (weather, _) = watch::channel(Weather::default());
        let counts = Arc::<Counts>::default();
        let tasks = Tasks::new();
        let serve = serve(listener, target, seed, weather.clone(), counts.clone(), tasks.clone());
        tasks.spawn_until_cancelled("proxy", serve);
        Ok(Self { address, weather, counts, tasks })
    }

    /// Where to dial it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens from now on, to the connections that stand as well.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Bytes that have arrived, both ways.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Connections that were reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.counts.resets.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    seed: u64,
    weather: watch::Sender<Weather>,
    counts: Arc<Counts>,
    tasks: Tasks,
) {
    while let Ok((near, _)) = listener.accept().await {
        let number: u64 = counts.connections.fetch_add(1, Ordering::Relaxed);
        if number >= CONNECTIONS_MAX {
            continue;
        }
        let pump = |pick: fn(&Weather) -> Cable, side: u64| Pump {
            weather: weather.subscribe(),
            pick,
            random: StdRng::seed_from_u64(seed ^ (number * 2 + side).rotate_left(32)),
            counts: Arc::clone(&counts),
        };
        let pumps = (pump(|weather| weather.onward, 0), pump(|weather| weather.back, 1));
        tasks.spawn_until_cancelled("proxied", async move {
            // Either end may go away at any moment; the other is told by the end of its connection.
            let _ = carry(near, target, pumps).await;
        });
    }
}

async fn carry(mut near: TcpStream, target: SocketAddr, pumps: (Pump, Pump)) -> io::Result<()> {
    let mut far = TcpStream::connect(target).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (onward, back) = pumps;
    let ended = {
        let (from_near, to_near) = near.split();
        let (from_far, to_far) = far.split();
        tokio::try_join!(onward.run(from_near, to_far), back.run(from_far, to_near))
    };
    if ended.is_err() {
        // Both ends hear of a reset, as from a router that has forgotten the connection.
        near.set_zero_linger()?;
        far.set_zero_linger()?;
    }
    ended.map(|_| ())
}

impl Pump {
    async fn run(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let arrivals = Arrivals {
            weather: self.weather.clone(),
            pick: self.pick,
            counts: Arc::clone(&self.counts),
        };
        tokio::try_join!(self.take(from, sender), arrivals.give(receiver, to))?;
        Ok(())
    }

    /// Reads, and says when what was read arrives.
    async fn take(mut self, mut from: ReadHalf<'_>, sender: mpsc::Sender<Piece>) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES];
        let mut last_due = clock::now();
        loop {
            let count = from.read(&mut buffer).await?;
            let weather = *self.weather.borrow();
            if self.random.random_range(0..1_000) < weather.resets_per_thousand {
                self.counts.resets.fetch_add(1, Ordering::Relaxed);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let cable = (self.pick)(&weather);
            let varied = cable.jitter.mul_f64(self.random.random_range(0.0..=2.0));
            let on_the_way = (cable.delay + varied).saturating_sub(cable.jitter);
            // Later bytes never overtake earlier ones.
            last_due = last_due.max(clock::now() + on_the_way);
            let bytes = Bytes::copy_from_slice(&buffer[..count]);
            let sent = sender.send(Piece { due: last_due, bytes }).await;
            if count == 0 || sent.is_err() {
                return Ok(());
            }
        }
    }
}

impl Arrivals {
    /// Writes each piece when it is due, at the pace of the cable, and not while that is cut.
    async fn give(
        mut self,
        mut receiver: mpsc::Receiver<Piece>,
        mut to: WriteHalf<'_>,
    ) -> io::Result<()> {
        let pick = self.pick;
        while let Some(piece) = receiver.recv().await {
            tokio::time::sleep_until(piece.due.into()).await;
            let mended = self.weather.wait_for(|weather| !pick(weather).is_cut).await;
            let cable = mended.map(|weather| pick(&weather)).map_err(io::Error::other)?;
            if piece.bytes.is_empty() {
                return to.shutdown().await;
            }
            to.write_all(&piece.bytes).await?;
            let count = piece.bytes.len() as u64;
            self.counts.bytes.fetch_add(count, Ordering::Relaxed);
            if let Some(rate) = cable.bytes_per_second {
                let micros = count.saturating_mul(1_000_000) / u64::from(rate.max(1));
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Both ends of a connection through a proxy.
    async fn scene() -> (Proxy, TcpStream, TcpStream) {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start(target.local_addr().unwrap(), 1).await.unwrap();
        let near = TcpStream::connect(proxy.address()).await.unwrap();
        let (far, _) = target.accept().await.unwrap();
        (proxy, near, far)
    }

    #[tokio::test]
    async fn a_cut_holds_back_one_way_only_and_what_it_held_comes_in_order() {
        let (proxy, mut near, mut far) = scene().await;
        proxy.set(Weather {
            onward: Cable { is_cut: true, ..Cable::default() },
            ..Weather::default()
        });
        near.write_all(b"first").await.unwrap();
        far.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!((&back, proxy.bytes()), (b"back", 4), "nothing has gone onward");
        near.write_all(b", second").await.unwrap();
        near.shutdown().await.unwrap();
        let jitter = Duration::from_millis(5);
        proxy.set(Weather::both(Cable { delay: jitter, jitter, ..Cable::default() }));
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "first, second");
    }

    #[tokio::test]
    async fn a_reset_is_heard_at_both_ends() {
        let (proxy, mut near, mut far) = scene().await;
        proxy.set(Weather { resets_per_thousand: 1_000, ..Weather::default() });
        near.write_all(b"lost").await.unwrap();
        for end in [&mut near, &mut far] {
            let error = end.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        assert_eq!((proxy.resets(), proxy.bytes()), (1, 0));
    }
}
