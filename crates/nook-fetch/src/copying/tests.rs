//! Copies from devices that the test plays, into real folders.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nook_base::ModelDigest;
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use super::*;
use crate::files::Address;
use crate::limits::{DISK_RESERVE_BYTES, Limits, Pace};
use crate::room::Room;
use crate::seats::Seats;
use crate::source::Hubs;

const FILE: &[u8] = b"GGUF and what else is in the file of a model";

const TRIES: u32 = SAME_LENGTH_TRIES + 1;

/// One device, as it is asked next.
#[derive(Debug, Clone)]
enum Act {
    /// Brings so many bytes of the file, then is gone.
    Bring(usize),
    /// Brings these bytes.
    Lie(&'static [u8]),
    /// Says that its file is so long, and brings nothing.
    Claim(u64),
    /// Stands still.
    Stall,
    /// Serves others.
    Busy,
    /// Has nothing now.
    Useless,
}

#[derive(Debug, Default)]
struct Devices {
    acts: VecDeque<Act>,
    now: Option<Act>,
    bytes: VecDeque<Vec<u8>>,
    asked: Vec<u64>,
    wishes: Vec<CopyWish>,
}

impl Devices {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { acts: acts.into_iter().collect(), ..Self::default() }
    }
}

impl Bringer for Devices {
    type Bytes = Vec<u8>;

    async fn choose(&mut self, wish: CopyWish) -> Result<u64, Halt> {
        self.wishes.push(wish);
        self.now = self.acts.pop_front();
        match &self.now {
            None => Err(Halt::Nobody),
            Some(Act::Busy) => Err(Halt::Busy { why: "busy".to_owned() }),
            Some(Act::Useless) => Err(Halt::Later { why: "useless".to_owned() }),
            Some(Act::Claim(bytes)) => Ok(*bytes),
            Some(_) => Ok(FILE.len() as u64),
        }
    }

    async fn ask(&mut self, from: u64) -> Result<(), Halt> {
        self.asked.push(from);
        let rest = &FILE[usize::try_from(from).unwrap()..];
        self.bytes = match self.now {
            Some(Act::Bring(count)) => {
                rest[..count.min(rest.len())].chunks(5).map(<[u8]>::to_vec).collect()
            }
            Some(Act::Lie(bytes)) => VecDeque::from([bytes.to_vec()]),
            _ => VecDeque::new(),
        };
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<u8>, Halt> {
        if matches!(self.now, Some(Act::Stall)) {
            std::future::pending::<()>().await;
        }
        self.bytes.pop_front().ok_or_else(|| Halt::Another { why: "it is gone".to_owned() })
    }

    fn device(&self) -> String {
        "Dad's PC".to_owned()
    }
}

#[derive(Debug)]
struct Free(u64);

impl Room for Free {
    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0)
    }
}

fn source() -> HouseSource {
    HouseSource::new(ModelDigest([7; 32]), "amber")
}

struct Desk {
    _home: tempfile::TempDir,
    folder: Folder,
    free: u64,
    pin: Option<String>,
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("downloads"));
        Self { _home: home, folder, free: 1 << 40, pin: None }
    }

    async fn copy(&self, devices: &mut Devices) -> Result<Fetched, FetchError> {
        self.copy_until(devices, &CancellationToken::new()).await
    }

    async fn copy_until(
        &self,
        devices: &mut Devices,
        stop: &CancellationToken,
    ) -> Result<Fetched, FetchError> {
        self.copy_from(Seats::new(1).take().unwrap(), devices, stop).await
    }

    async fn copy_from(
        &self,
        seat: Seat,
        devices: &mut Devices,
        stop: &CancellationToken,
    ) -> Result<Fetched, FetchError> {
        let limits = Limits { pace: Pace { tries_max: TRIES, ..Pace::USUAL }, ..Limits::USUAL };
        let fetcher = Fetcher::new(Hubs::usual(), limits, Arc::new(Free(self.free)));
        let order = CopyOrder { source: source(), pin: Pin { sha256: self.pin.clone() } };
        let told = watch::channel(Progress::default()).0;
        fetcher.copy(&self.folder, &order, devices, seat, stop, &told).await
    }

    fn files(&self) -> usize {
        fs::read_dir(self.folder.path()).map_or(0, Iterator::count)
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_at_the_next_device_where_the_last_one_was_lost() {
    let desk = Desk::new();
    let mut devices =
        Devices::new([Act::Bring(7), Act::Busy, Act::Stall, Act::Bring(4), Act::Bring(99)]);
    let copied = desk.copy(&mut devices).await.unwrap();
    assert_eq!(fs::read(&copied.path).unwrap(), FILE);
    assert_eq!((copied.bytes, copied.verified), (FILE.len() as u64, false));
    assert_eq!(devices.asked, [0, 7, 7, 11]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_nobody_can_go_on_with_keeps_what_came_for_the_next_time() {
    let desk = Desk::new();
    assert_eq!(
        desk.copy(&mut Devices::new([Act::Bring(9)])).await.unwrap_err(),
        FetchError::Nobody
    );
    // Cancelled before it asks anybody.
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = desk.copy_until(&mut Devices::new([Act::Bring(9)]), &stop).await;
    assert_eq!(stopped.unwrap_err(), FetchError::Stopped);
    let mut devices = Devices::new([Act::Bring(99)]);
    assert!(!desk.folder.has_whole(&source()));
    let copied = desk.copy(&mut devices).await.unwrap();
    assert_eq!((fs::read(&copied.path).unwrap(), devices.asked), (FILE.to_vec(), vec![9]));
    drop(copied);
    assert!(desk.folder.has_whole(&source().meant_as("amber")));
    // It is whole, and nobody is asked again.
    desk.copy(&mut Devices::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn devices_that_bring_nothing_are_given_up_after_some_tries() {
    let desk = Desk::new();
    let error = desk.copy(&mut Devices::new(vec![Act::Useless; 99])).await.unwrap_err();
    let FetchError::GaveUp { host, tries: TRIES, last } = error else { panic!("{error}") };
    assert_eq!((host.as_str(), last.as_str()), ("Dad's PC", "useless"));
}

#[tokio::test(start_paused = true)]
async fn a_device_that_is_busy_is_waited_for_however_long_that_lasts() {
    let desk = Desk::new();
    let acts = std::iter::repeat_n(Act::Busy, 500).chain([Act::Bring(99)]);
    let copied = desk.copy(&mut Devices::new(acts)).await.unwrap();
    assert_eq!(fs::read(&copied.path).unwrap(), FILE);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_waits_for_a_busy_device_leaves_its_seat_to_others() {
    let (desk, seats, stop) = (Desk::new(), Seats::new(1), CancellationToken::new());
    let mut devices = Devices::new([Act::Bring(7), Act::Busy, Act::Bring(2), Act::Busy]);
    let mut copying = Box::pin(desk.copy_from(seats.take().unwrap(), &mut devices, &stop));
    assert!(!seats.has_free());
    assert!(timeout(Duration::from_secs(1), &mut copying).await.is_err());
    let other = seats.take().expect("it gave its seat back");
    // Longer than it waits for a busy device.
    let far = Duration::from_secs(3600);
    assert!(timeout(far, &mut copying).await.is_err());
    drop(other);
    // It has the next one, asks, and gives it back again.
    assert!(timeout(Duration::from_secs(1), &mut copying).await.is_err());
    let _other = seats.take().expect("it gave its seat back");
    assert!(timeout(far, &mut copying).await.is_err());
    stop.cancel();
    assert_eq!(copying.await.unwrap_err(), FetchError::Stopped);
    assert_eq!(devices.asked, [0, 7]);
}

#[tokio::test(start_paused = true)]
async fn what_is_here_stays_until_a_device_with_another_length_has_brought_something() {
    let desk = Desk::new();
    let long = FILE.len() as u64;
    // The first of them may not be asked yet; the last one is, and brings nothing.
    let useless = std::iter::repeat_n(Act::Useless, SAME_LENGTH_TRIES as usize);
    let acts = [Act::Bring(9)].into_iter().chain(useless).chain([Act::Claim(long + 1)]);
    let mut devices = Devices::new(acts);
    assert_eq!(desk.copy(&mut devices).await.unwrap_err(), FetchError::Nobody);
    let lengths: Vec<_> =
        devices.wishes.iter().map(|wish| (wish.length, wish.others_too)).collect();
    let mut wished = vec![(Some(long), false); SAME_LENGTH_TRIES as usize];
    wished.insert(0, (None, false));
    wished.extend([(Some(long), true); 2]);
    assert_eq!((lengths, &devices.asked[..]), (wished, &[0, 0][..]));
    let mut devices = Devices::new([Act::Bring(99)]);
    desk.copy(&mut devices).await.unwrap();
    assert_eq!(devices.asked, [9]);
}

#[tokio::test(start_paused = true)]
async fn more_than_was_promised_leaves_nothing() {
    let desk = Desk::new();
    let error = desk.copy(&mut Devices::new([Act::Lie(&[b'x'; 99])])).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLong { .. }), "{error}");
    assert_eq!(desk.files(), 0);
}

#[tokio::test(start_paused = true)]
async fn lengths_that_cannot_be_are_refused_before_the_first_byte() {
    let desk = Desk::new();
    for bytes in [crate::FILE_BYTES_MAX + 1, u64::MAX] {
        let mut devices = Devices::new([Act::Claim(bytes)]);
        let error = desk.copy(&mut devices).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
        assert!(devices.asked.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_without_room_is_said_before_anything_is_asked_for() {
    let desk = Desk { free: DISK_RESERVE_BYTES + 3, ..Desk::new() };
    let mut devices = Devices::new([Act::Bring(99)]);
    let error = desk.copy(&mut devices).await.unwrap_err();
    let needed = FILE.len() as u64;
    assert_eq!(error, FetchError::NoRoom { needed, free: DISK_RESERVE_BYTES + 3 });
    assert!(devices.asked.is_empty());
    assert_eq!(
        devices.wishes,
        [CopyWish { length: None, others_too: false, most: 3 }],
        "a shorter one would do"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_as_one_of_the_catalogue_is_the_publishers_bytes_or_nothing() {
    let desk = Desk { pin: Some("0".repeat(64)), ..Desk::new() };
    let error = desk.copy(&mut Devices::new([Act::Bring(99)])).await.unwrap_err();
    assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    assert_eq!(desk.files(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_package_that_the_house_brings_lies_where_whoever_installs_looks_first() {
    let desk = Desk::new();
    let fetcher = Fetcher::new(Hubs::usual(), Limits::USUAL, Arc::new(Free(desk.free)));
    let told = watch::channel(Progress::default()).0;
    let stop = CancellationToken::new();
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(FILE));
    // Nobody answers there.
    let address: Address = "http://127.0.0.1:9/inglenook.tar.gz".parse().unwrap();
    let order = FileOrder { address, bytes: FILE.len() as u64, sha256 };

    let mut liars = Devices::new([Act::Lie(b"GGUF and what else is in the file of a xodel")]);
    let refused = fetcher.bring_file(&desk.folder, &order, &mut liars, &stop, &told).await;
    assert!(matches!(refused, Err(FetchError::Digest { .. })), "{refused:?}");
    assert_eq!(desk.folder.whole_file(&order), None);

    let mut devices = Devices::new([Act::Bring(9), Act::Bring(99)]);
    drop(fetcher.bring_file(&desk.folder, &order, &mut devices, &stop, &told).await.unwrap());
    assert_eq!(devices.asked, [0, 9]);
    let path = desk.folder.whole_file(&order).unwrap();
    let fetched = fetcher.fetch_file(&desk.folder, &order, &stop, &told).await.unwrap();
    assert_eq!((fs::read(&path).unwrap(), &fetched.path), (FILE.to_vec(), &path));
    drop(fetched);

    let other = FileOrder { sha256: "07".repeat(32), ..order.clone() };
    assert_eq!(desk.folder.whole_file(&other), None);
    desk.folder.keep_only(Some(&order)).unwrap();
    assert!(path.exists());
    desk.folder.keep_only(None).unwrap();
    assert_eq!(desk.files(), 0);
}
