//! What happens to the lending nodes while others talk.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nook_base::clock;
use nook_testkit::Signal;
use nook_tests::report::loud;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};

use crate::house::House;

/// Pause between two faults, in ms.
const PAUSE_MS: std::ops::Range<u64> = 1_000..4_000;

/// How long a fault lasts, in ms; the longest is longer than a link is waited for.
const LASTS_MS: std::ops::Range<u64> = 300..5_000;

/// The same without hangs: a device that sleeps does so for longer than any step is waited for.
const SLEEPS_MS: std::ops::Range<u64> = 5_000..12_000;

/// One fault of so many meets two nodes at once.
const TWO_OF: u32 = 5;

/// Least time between two ends of one node's workers: three within a minute switch its model off,
/// which is as it should be and would end the soak's use of that node.
const WORKER_KILL_EVERY: Duration = Duration::from_secs(31);

/// Told apart from the conversations' chance.
const SEED_OF_TROUBLE: u64 = 0x7472_6f75_626c_6521;

/// What can happen to a node that lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// It loses power, and starts again.
    Killed,
    /// Its worker alone dies.
    WorkerKilled,
    /// Its owner stops sharing for a while: it drains.
    Drained,
    /// It leaves in order, and starts again.
    Left,
    /// Its lid closes for a while.
    Frozen,
    /// Its worker alone hangs for a while.
    WorkerFrozen,
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::Killed,
        Self::Drained,
        Self::Frozen,
        Self::Left,
        Self::WorkerKilled,
        Self::WorkerFrozen,
    ];

    /// What devices do by themselves or by their owners' hands: they come and go, sleep and pause.
    const OF_DEVICES: [Self; 4] = [Self::Killed, Self::Drained, Self::Frozen, Self::Left];

    fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::WorkerKilled => "worker killed",
            Self::Drained => "drained",
            Self::Left => "left in order",
            Self::Frozen => "frozen",
            Self::WorkerFrozen => "worker frozen",
        }
    }
}

/// Which faults are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// All of them.
    All,
    /// None that stops a device for less than a few seconds or hurts its worker alone: nobody can
    /// know before that such a hang will come, nor wait for less than it lasts.
    NoHangs,
}

impl Kinds {
    fn faults(self) -> &'static [Fault] {
        match self {
            Self::All => &Fault::ALL,
            Self::NoHangs => &Fault::OF_DEVICES,
        }
    }

    fn lasts_ms(self) -> std::ops::Range<u64> {
        match self {
            Self::All => LASTS_MS,
            Self::NoHangs => SLEEPS_MS,
        }
    }
}

/// Makes faults for `span`, and mends the last ones; how many of each kind were made.
pub(crate) async fn make(
    house: &mut House,
    kinds: Kinds,
    seed: u64,
    span: Duration,
) -> anyhow::Result<BTreeMap<&'static str, u32>> {
    let mut random = StdRng::seed_from_u64(seed ^ SEED_OF_TROUBLE);
    let mut made = BTreeMap::new();
    let mut worker_kills: BTreeMap<usize, Instant> = BTreeMap::new();
    let end = clock::now() + span;
    loop {
        let pause = Duration::from_millis(random.random_range(PAUSE_MS));
        if clock::now() + pause >= end {
            break;
        }
        tokio::time::sleep(pause).await;
        let mut hosts: Vec<usize> = house.hosts().collect();
        hosts.shuffle(&mut random);
        hosts.truncate(if random.random_ratio(1, TWO_OF) { 2 } else { 1 });
        let mut hurt = Vec::new();
        for host in hosts {
            let mut fault = *kinds.faults().choose(&mut random).unwrap_or(&Fault::Drained);
            if house.is_to_stay(host) && matches!(fault, Fault::Killed | Fault::Left) {
                fault = Fault::Drained;
            }
            if fault == Fault::WorkerKilled {
                let now = clock::now();
                let last = worker_kills.get(&host);
                if last.is_some_and(|at| now.duration_since(*at) < WORKER_KILL_EVERY) {
                    fault = Fault::WorkerFrozen;
                } else {
                    worker_kills.insert(host, now);
                }
            }
            hurt.push((host, fault));
            *made.entry(fault.name()).or_default() += 1;
            begin(house, host, fault).await?;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(kinds.lasts_ms()))).await;
        for (host, fault) in hurt {
            mend(house, host, fault).await?;
        }
    }
    tokio::time::sleep_until(end.into()).await;
    Ok(made)
}

async fn begin(house: &mut House, host: usize, fault: Fault) -> anyhow::Result<()> {
    let node = house.node_mut(host);
    loud(&format!("{}: {}", node.name(), fault.name()));
    match fault {
        Fault::Killed => node.signal(Signal::Kill),
        Fault::WorkerKilled => drop(node.signal_workers(Signal::Kill)),
        Fault::Drained => node.share(false).await?,
        Fault::Left => node.leave().await?,
        Fault::Frozen => {
            node.signal(Signal::Stop);
            node.signal_workers(Signal::Stop);
        }
        Fault::WorkerFrozen => drop(node.signal_workers(Signal::Stop)),
    }
    Ok(())
}

async fn mend(house: &mut House, host: usize, fault: Fault) -> anyhow::Result<()> {
    let node = house.node_mut(host);
    match fault {
        Fault::Killed => {
            node.until_it_ended().await?;
            node.start_again().await
        }
        Fault::Left => node.start_again().await,
        Fault::Drained => node.share(true).await,
        Fault::WorkerKilled => Ok(()),
        Fault::Frozen | Fault::WorkerFrozen => {
            node.signal_workers(Signal::Continue);
            node.signal(Signal::Continue);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_hangs_no_worker_is_hurt_alone_and_nothing_is_short() {
        let faults = Kinds::NoHangs.faults();
        assert!(!faults.contains(&Fault::WorkerKilled) && !faults.contains(&Fault::WorkerFrozen));
        assert!(Kinds::NoHangs.lasts_ms().start >= Kinds::All.lasts_ms().end);
    }

    #[test]
    fn every_kind_of_fault_has_its_own_name() {
        let mut names: Vec<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
    }
}
