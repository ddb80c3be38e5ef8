//! Ranges and manifests from devices that the test plays, into real files.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::sink::GAP_BYTES_MAX;
use super::*;
use crate::folder::{FileKey, Folder};
use crate::limits::{Limits, Pace};
use crate::room::Room;
use crate::seats::Seats;
use crate::source::Hubs;

const TRIES: u32 = 3;

/// Length of the file that the devices have.
const LENGTH: u64 = 3 * GAP_BYTES_MAX;

/// One device, as it is chosen next.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Brings so many bytes, then is gone.
    Bring(usize),
    /// As [`Act::Bring`], but the byte at this place is another one.
    Flip(u64),
    /// Stands still.
    Stall,
    /// Serves others.
    Busy,
    /// Has nothing now.
    Useless,
}

/// Devices, in the order in which they are chosen.
#[derive(Debug, Default)]
struct Devices {
    acts: VecDeque<Act>,
    now: Option<Act>,
    bytes: VecDeque<Vec<u8>>,
    asked: Vec<Ask>,
    chosen: usize,
    blamed: Vec<usize>,
    manifest: Vec<u8>,
    /// Cancelled when so many pieces were handed out.
    stops: Option<(usize, CancellationToken)>,
}

impl Devices {
    fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { acts: acts.into_iter().collect(), ..Self::default() }
    }

    /// The ranges of the file that were asked for.
    fn files(&self) -> Vec<(u64, u64)> {
        let file = |ask: &Ask| match ask {
            Ask::File(range) => Some((range.start, range.end)),
            Ask::Manifest(_) => None,
        };
        self.asked.iter().filter_map(file).collect()
    }
}

/// The byte of the file at `place`.
fn byte(place: u64) -> u8 {
    (place % 251) as u8
}

impl RangeSource for Devices {
    type Bytes = Vec<u8>;

    async fn choose(&mut self) -> Result<(), Halt> {
        // Whoever was asked before is given up.
        self.bytes.clear();
        self.chosen += 1;
        self.now = self.acts.pop_front();
        match self.now {
            None => Err(Halt::Nobody),
            Some(Act::Busy) => Err(Halt::Busy { why: "busy".to_owned() }),
            Some(Act::Useless) => Err(Halt::Later { why: "useless".to_owned() }),
            Some(_) => Ok(()),
        }
    }

    async fn ask(&mut self, ask: Ask) -> Result<(), Halt> {
        assert!(self.bytes.is_empty(), "the range before has not come");
        self.asked.push(ask.clone());
        let mut bytes: Vec<u8> = match ask {
            Ask::File(range) => range
                .map(|place| match self.now {
                    Some(Act::Flip(at)) if at == place => !byte(place),
                    _ => byte(place),
                })
                .collect(),
            Ask::Manifest(range) => {
                let (start, end) = (range.start as usize, range.end as usize);
                let Some(bytes) = self.manifest.get(start..end) else {
                    return Err(Halt::Another { why: "it refused".to_owned() });
                };
                bytes.to_vec()
            }
        };
        if let Some(Act::Bring(left)) = &mut self.now {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        self.bytes = bytes.chunks(1000).map(<[u8]>::to_vec).collect();
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<u8>, Halt> {
        if matches!(self.now, Some(Act::Stall)) {
            std::future::pending::<()>().await;
        }
        if let Some((left, stop)) = &mut self.stops {
            *left -= 1;
            if *left == 0 {
                stop.cancel();
            }
        }
        self.bytes.pop_front().ok_or_else(|| Halt::Another { why: "it is gone".to_owned() })
    }

    fn blame(&mut self) {
        self.bytes.clear();
        self.blamed.push(self.chosen);
    }

    fn device(&self) -> String {
        format!("device {}", self.chosen)
    }
}

/// Ranges that are here, and when each was recorded.
#[derive(Debug, Clone, Default)]
struct Record {
    /// The ranges that exist, by number.
    ranges: Vec<FileRange>,
    here: Arc<Mutex<Vec<u32>>>,
    path: PathBuf,
}

struct Check {
    place: u64,
    holds: bool,
}

impl RangeCheck for Check {
    fn update(&mut self, bytes: &[u8]) {
        for found in bytes {
            self.holds &= *found == byte(self.place);
            self.place += 1;
        }
    }

    fn holds(self) -> bool {
        self.holds
    }
}

impl RangeRecord for Record {
    type Check = Check;

    fn check(&self, number: u32) -> Check {
        Check { place: self.ranges[number as usize].start, holds: true }
    }

    fn record(&mut self, numbers: &[u32]) -> Result<(), FetchError> {
        let written = fs::read(&self.path).unwrap();
        for number in numbers {
            let FileRange { start, bytes, .. } = self.ranges[*number as usize];
            for place in start..start + bytes {
                assert_eq!(written[place as usize], byte(place), "recorded before it was written");
            }
        }
        self.here.lock().unwrap().extend(numbers);
        Ok(())
    }
}

#[derive(Debug)]
struct Free(u64);

impl Room for Free {
    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0)
    }
}

/// A folder, and ranges of a file that is to lie there.
struct Desk {
    _home: tempfile::TempDir,
    folder: Folder,
    record: Record,
    free: u64,
    bytes_max: u64,
    sync_every: u64,
}

impl Desk {
    fn new(ranges: &[(u64, u64)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path().join("partial"));
        let range = |(number, (start, bytes)): (usize, &(u64, u64))| FileRange {
            number: number as u32,
            start: *start,
            bytes: *bytes,
        };
        let ranges: Vec<_> = ranges.iter().enumerate().map(range).collect();
        let path = home.path().join("partial/abc.gguf");
        let record = Record { ranges, path, ..Record::default() };
        let (free, bytes_max, sync_every) = (1 << 40, LENGTH, 1 << 20);
        Self { _home: home, folder, record, free, bytes_max, sync_every }
    }

    fn fetcher(&self) -> Fetcher {
        let limits = Limits {
            pace: Pace { tries_max: TRIES, ..Pace::USUAL },
            sync_every_bytes: self.sync_every,
            ..Limits::USUAL
        };
        Fetcher::new(Hubs::usual(), limits, Arc::new(Free(self.free)))
    }

    async fn take(&self, devices: &mut Devices) -> Result<Progress, FetchError> {
        self.take_until(devices, &CancellationToken::new()).await
    }

    /// Takes what is not recorded yet.
    async fn take_until(
        &self,
        devices: &mut Devices,
        stop: &CancellationToken,
    ) -> Result<Progress, FetchError> {
        let here = self.here();
        let ranges = self.record.ranges.iter().filter(|range| !here.contains(&range.number));
        let order = RangesOrder { ranges: ranges.copied().collect(), bytes_max: self.bytes_max };
        let slot = self.folder.claim(&FileKey::parse("abc").unwrap())?;
        let mut file = SparseFile::open(slot)?;
        file.set_length(LENGTH)?;
        let mut seat = Seats::new(1).take().unwrap();
        let (tell, told) = watch::channel(Progress::default());
        let conditions = Conditions { seat: &mut seat, stop, told: &tell };
        let record = self.record.clone();
        let taken = self.fetcher().take_ranges(file, order, record, devices, conditions).await;
        taken.map(|_| told.borrow().clone())
    }

    fn here(&self) -> Vec<u32> {
        let mut here = self.record.here.lock().unwrap().clone();
        here.sort_unstable();
        here
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_that_lie_near_one_another_are_asked_for_together_and_far_ones_are_not() {
    let far = 2 * GAP_BYTES_MAX + 100;
    let desk = Desk::new(&[(far, 50), (0, 60), (64, 36), (100, 0)]);
    let mut devices = Devices::new([Act::Bring(99_999)]);
    let told = desk.take(&mut devices).await.unwrap();
    assert_eq!(devices.files(), [(0, 100), (far, far + 50)]);
    assert_eq!(desk.here(), [0, 1, 2, 3], "one of no bytes is here by itself");
    assert_eq!((told.have, told.bytes), (146, Some(146)));
    let file = fs::read(&desk.record.path).unwrap();
    assert_eq!(file.len() as u64, LENGTH);
    assert!(file[60..64].iter().all(|byte| *byte == 0), "what lies between is not written");
}

#[tokio::test(start_paused = true)]
async fn another_device_goes_on_with_whole_ranges_where_one_is_gone() {
    let desk = Desk::new(&[(0, 1500), (1500, 1500), (3000, 1000)]);
    let acts = [Act::Bring(2000), Act::Stall, Act::Busy, Act::Bring(1500), Act::Bring(99_999)];
    let mut devices = Devices::new(acts);
    desk.take(&mut devices).await.unwrap();
    // The second one comes from its beginning, from one device alone.
    assert_eq!(devices.files(), [(0, 4000), (1500, 4000), (1500, 4000), (3000, 4000)]);
    assert_eq!(desk.here(), [0, 1, 2]);
    assert_eq!(devices.blamed, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn wrong_bytes_blame_the_device_that_sent_them_and_another_one_brings_the_range() {
    let desk = Desk::new(&[(0, 1500), (1500, 1500), (3000, 1000)]);
    let mut devices = Devices::new([Act::Flip(2999), Act::Bring(99_999)]);
    desk.take(&mut devices).await.unwrap();
    assert_eq!(devices.blamed, [1]);
    assert_eq!(devices.files(), [(0, 4000), (1500, 4000)]);
    assert_eq!(desk.here(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn where_only_a_device_with_wrong_bytes_is_left_it_is_named_and_what_was_right_stays() {
    let desk = Desk::new(&[(0, 1500), (1500, 1500)]);
    let error = desk.take(&mut Devices::new([Act::Flip(1500)])).await.unwrap_err();
    assert_eq!(error, FetchError::WrongBytes { device: "device 1".to_owned() });
    assert_eq!(desk.here(), [0]);
    // Nobody was wrong this time, so nobody is named.
    assert_eq!(desk.take(&mut Devices::default()).await.unwrap_err(), FetchError::Nobody);
    let mut devices = Devices::new([Act::Bring(99_999)]);
    desk.take(&mut devices).await.unwrap();
    assert_eq!(devices.files(), [(1500, 3000)], "the next run takes what is missing");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_it_and_what_was_checked_is_recorded() {
    let desk = Desk::new(&[(0, 1000), (1000, 1000), (2000, 1500)]);
    let stop = CancellationToken::new();
    let mut devices = Devices::new([Act::Bring(99_999)]);
    devices.stops = Some((2, stop.clone()));
    assert_eq!(desk.take_until(&mut devices, &stop).await.unwrap_err(), FetchError::Stopped);
    // The piece that was handed out with the stop may count or not.
    assert!(desk.here().starts_with(&[0]) && !desk.here().contains(&2), "{:?}", desk.here());
}

#[tokio::test(start_paused = true)]
async fn devices_that_bring_nothing_are_given_up_after_some_tries() {
    let desk = Desk::new(&[(0, 10)]);
    let error = desk.take(&mut Devices::new(vec![Act::Useless; 99])).await.unwrap_err();
    assert!(matches!(error, FetchError::GaveUp { tries: TRIES, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_the_cap_or_the_disk_has_no_room_for_is_not_asked_for() {
    let desk = Desk { bytes_max: 9, ..Desk::new(&[(0, 4), (1000, 6)]) };
    let mut devices = Devices::new([Act::Bring(99)]);
    let error = desk.take(&mut devices).await.unwrap_err();
    assert_eq!(error, FetchError::OverCap { needed: 10, most: 9 });
    let free = DISK_RESERVE_BYTES + 9;
    let desk = Desk { free, ..Desk::new(&[(0, 4), (1000, 6)]) };
    let error = desk.take(&mut devices).await.unwrap_err();
    // The holes of the file do not count, only the bytes that are to come.
    assert_eq!(error, FetchError::NoRoom { needed: 10, free });
    assert!(devices.asked.is_empty());
    let desk = Desk { free: DISK_RESERVE_BYTES + 10, ..Desk::new(&[(0, 4), (1000, 6)]) };
    desk.take(&mut Devices::new([Act::Bring(99_999)])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ranges_behind_the_longest_file_are_refused() {
    let desk = Desk::new(&[(u64::MAX, 4)]);
    let error = desk.take(&mut Devices::default()).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_durable_is_recorded_on_the_way() {
    let desk = Desk { sync_every: 1000, ..Desk::new(&[(0, 1000), (1000, 1000), (2000, 1000)]) };
    // Lost in the middle of the third, with nobody to go on: what was recorded is no less.
    let mut devices = Devices::new([Act::Bring(2500)]);
    assert_eq!(desk.take(&mut devices).await.unwrap_err(), FetchError::Nobody);
    assert_eq!(desk.here(), [0, 1]);
}

/// A document that says its length in its first byte, and is right if all others are 7.
async fn manifest(devices: &mut Devices, bytes_max: u64) -> Result<Vec<u8>, FetchError> {
    let desk = Desk::new(&[]);
    let order = DocumentOrder { ask: Ask::Manifest, prefix_bytes: 2, bytes_max };
    let length_of = |prefix: &[u8]| prefix.first().map(|length| u64::from(*length));
    let read = |bytes: Vec<u8>| bytes[1..].iter().all(|byte| *byte == 7).then_some(bytes);
    let mut seat = Seats::new(1).take().unwrap();
    let (tell, _told) = watch::channel(Progress::default());
    let stop = CancellationToken::new();
    let conditions = Conditions { seat: &mut seat, stop: &stop, told: &tell };
    desk.fetcher().take_document(order, length_of, read, devices, conditions).await
}

#[tokio::test(start_paused = true)]
async fn a_manifest_comes_whole_from_one_device_or_that_device_is_blamed() {
    let right = vec![5, 7, 7, 7, 7];
    let mut devices = Devices::new([Act::Stall, Act::Bring(9)]);
    devices.manifest = right.clone();
    assert_eq!(manifest(&mut devices, 99).await, Ok(right.clone()));
    let asked = [Ask::Manifest(0..2), Ask::Manifest(0..2), Ask::Manifest(2..5)];
    assert_eq!(devices.asked, asked, "the next one is asked from the beginning");
    for wrong in [vec![5, 7, 7, 8, 7], vec![1, 7, 7, 7, 7], vec![100; 100]] {
        let mut devices = Devices::new([Act::Bring(200)]);
        devices.manifest = wrong;
        let error = manifest(&mut devices, 99).await.unwrap_err();
        assert_eq!(error, FetchError::WrongBytes { device: "device 1".to_owned() });
        assert_eq!(devices.blamed, [1]);
    }
    // A device that refuses has sent nothing wrong.
    let mut devices = Devices::new([Act::Bring(9)]);
    assert_eq!(manifest(&mut devices, 99).await, Err(FetchError::Nobody));
    assert_eq!(devices.blamed, [0; 0]);
}
