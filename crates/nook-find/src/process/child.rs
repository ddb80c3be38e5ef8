//! The process itself: the daemon of multicast DNS, and two pipes.
//!
//! It ends by itself when the daemon holds more than any household has, does not answer, or computes
//! without a pause; its node starts another one after a rest. It also ends, with a goodbye to the
//! network, when its node is gone.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::pin::pin;
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::Duration;

use mdns_sd::{Metrics, ServiceDaemon};
use nook_base::tasks::Tasks;
use tokio::sync::mpsc;

use super::frames::{Order, Report, decode, encode, length, length_of};
use super::{ALL, FLOODED, LOOPBACK};
use crate::discovery::{Discovery as _, FindError, Heard};
use crate::mdns::{Interfaces, MdnsDiscovery};

/// Records that the daemon may hold; with more it ends. A device has about six, and a large office
/// a few hundred devices, of which the daemon keeps only the kind that is asked for.
const RECORDS_MAX: i64 = 2_000;

/// Timers that the daemon may hold: each record brings up to four.
const TIMERS_MAX: i64 = 4 * RECORDS_MAX;

/// How often the daemon is asked: what comes in between, as far as it answers, is kept that long.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Longest wait for its answer. It reads its sockets until they are empty before it listens to us:
/// records that come faster than it takes them keep it from answering. A busy machine does not, for
/// so long.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Looks over which its processor time is counted: ten seconds.
const LOOKS_COUNTED: u32 = 40;

/// Most of that time that it may compute. Looking for devices takes thousandths of it.
const COMPUTING_MAX: Duration = Duration::from_secs(5);

/// How often the node is told that this process is there.
const BEAT: Duration = Duration::from_secs(2);

/// Orders that wait while one is followed.
const ORDERS_MAX: usize = 16;

/// Reports that wait for the node to read them.
const REPORTS_MAX: usize = 64;

/// Runs discovery for the node at the other end of standard input and output, to its end.
/// `arguments` are those after [`super::DISCOVERY_FLAG`].
#[must_use]
pub fn discovery_main(arguments: &[OsString]) -> ExitCode {
    let interfaces = match arguments {
        [word] if word == ALL => Interfaces::All,
        [word] if word == LOOPBACK => Interfaces::Loopback,
        _ => return ExitCode::FAILURE,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    match runtime.map(|runtime| runtime.block_on(work(interfaces))) {
        Ok(Ok(code)) => code,
        _ => ExitCode::FAILURE,
    }
}

/// An error when the pipes cannot be used.
async fn work(interfaces: Interfaces) -> io::Result<ExitCode> {
    let (mut orders, (reports, written), tasks) = (orders()?, reports()?, Tasks::new());
    let mut mdns = match MdnsDiscovery::start(interfaces, &tasks) {
        Ok(mdns) => mdns,
        Err(error) => {
            tell(&reports, Report::Refused(error)).await;
            drop(reports);
            // A panic there has lost the reason; that it ended is seen all the same.
            let _ = written.join();
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut flood = pin!(flood(mdns.daemon()));
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut browse: Option<mpsc::Receiver<Heard>> = None;
    loop {
        let report = tokio::select! {
            biased;
            () = &mut flood => return Ok(ExitCode::from(FLOODED)),
            order = orders.recv() => match order {
                Some(order) => follow(order, &mut mdns, &mut browse).err().map(Report::Refused),
                None => break,
            },
            heard = next(&mut browse) => Some(heard.map_or_else(
                || {
                    browse = None;
                    Report::Closed
                },
                Report::Heard,
            )),
            _ = beat.tick() => Some(Report::Alive),
        };
        if let Some(report) = report {
            tell(&reports, report).await;
        }
    }
    mdns.leave().await;
    Ok(ExitCode::SUCCESS)
}

fn follow(
    order: Order,
    mdns: &mut MdnsDiscovery,
    browse: &mut Option<mpsc::Receiver<Heard>>,
) -> Result<(), FindError> {
    match order {
        Order::Advertise(tag, advertisement) => mdns.advertise(tag, &advertisement),
        Order::Withdraw => {
            mdns.withdraw();
            Ok(())
        }
        Order::Browse => {
            *browse = Some(mdns.browse()?);
            Ok(())
        }
    }
}

async fn next(browse: &mut Option<mpsc::Receiver<Heard>>) -> Option<Heard> {
    match browse {
        Some(browse) => browse.recv().await,
        None => std::future::pending().await,
    }
}

async fn tell(reports: &mpsc::Sender<Vec<u8>>, report: Report) {
    // What is too long to be told is no device of ours. Where nobody reads, the orders end too.
    if let Ok(frame) = encode(&report) {
        let _ = reports.send(frame).await;
    }
}

/// What comes on standard input, read by a thread of its own.
fn orders() -> io::Result<mpsc::Receiver<Order>> {
    let (sender, orders) = mpsc::channel(ORDERS_MAX);
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(order) = order(&mut stdin) {
            if sender.blocking_send(order).is_err() {
                return;
            }
        }
    })?;
    Ok(orders)
}

fn order(from: &mut impl io::Read) -> io::Result<Order> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix)?;
    let mut frame = vec![0; length(prefix)?];
    from.read_exact(&mut frame)?;
    decode(&frame)
}

/// What is written to standard output, by a thread of its own: a node that does not read keeps
/// nothing else from going on. The thread ends when the sender is dropped and all is written.
fn reports() -> io::Result<(mpsc::Sender<Vec<u8>>, JoinHandle<()>)> {
    let (sender, mut frames) = mpsc::channel::<Vec<u8>>(REPORTS_MAX);
    let thread = std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
        let mut stdout = io::stdout().lock();
        while let Some(frame) = frames.blocking_recv() {
            let written = stdout
                .write_all(&length_of(&frame))
                .and_then(|()| stdout.write_all(&frame))
                .and_then(|()| stdout.flush());
            if written.is_err() {
                return;
            }
        }
    })?;
    Ok((sender, thread))
}

/// Ends when the network is flooded with records: the daemon holds too many, does not answer any
/// more, or computes all the time.
async fn flood(daemon: ServiceDaemon) {
    let mut looks = 0_u32;
    let mut computed = processor_time();
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let metrics = match daemon.get_metrics() {
            Ok(metrics) => tokio::time::timeout(ANSWER_LIMIT, metrics.recv_async()).await,
            // Its queue of commands is full: it has not read yet what was said before.
            Err(mdns_sd::Error::Again) => continue,
            Err(_) => return,
        };
        let Ok(Ok(metrics)) = metrics else { return };
        if holds_too_much(&metrics) {
            return;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_COUNTED) {
            let now = processor_time();
            if now.saturating_sub(computed) > COMPUTING_MAX {
                return;
            }
            computed = now;
        }
    }
}

fn holds_too_much(metrics: &Metrics) -> bool {
    let cached = metrics.iter().filter(|(name, _)| name.starts_with("cached-"));
    let timers = metrics.get("timer").copied().unwrap_or_default();
    cached.map(|(_, count)| count).sum::<i64>() > RECORDS_MAX || timers > TIMERS_MAX
}

/// What this process has computed.
#[cfg(unix)]
fn processor_time() -> Duration {
    let taken = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(taken.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(taken.tv_nsec).unwrap_or_default())
}

/// Not counted here: what the daemon holds bounds it.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_household_holds_is_no_flood() {
        let metrics = |cached: i64, timer: i64| {
            let pairs = [("cached-ptr", cached), ("cached-nsec", cached), ("timer", timer)];
            pairs.into_iter().map(|(name, count)| (name.to_owned(), count)).collect::<Metrics>()
        };
        assert!(!holds_too_much(&metrics(60, 480)));
        assert!(holds_too_much(&metrics(1_001, 0)));
        assert!(holds_too_much(&metrics(0, TIMERS_MAX + 1)));
        assert!(!holds_too_much(&Metrics::new()));
    }
}
