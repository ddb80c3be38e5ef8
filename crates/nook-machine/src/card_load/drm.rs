//! Programs that use a graphics card, as Linux tells it of their open files.
//!
//! Each open file of `/dev/dri` has in `fdinfo` how long each engine of the card worked for it, in
//! nanoseconds, or in cycles beside all cycles that went by (the kernel's
//! `Documentation/gpu/drm-usage-stats.rst`: amdgpu, i915, xe and others). One client may have
//! several files with the same numbers. Programs of other users are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often programs are looked through for open files of cards. In between, only those that had
/// some are asked.
const SEARCH_EVERY: Duration = Duration::from_secs(20);

/// Where the files of cards are.
const CARDS: &str = "/dev/dri/";

/// What is kept between two looks.
#[derive(Debug, Default)]
pub(super) struct Clients {
    searched: Option<Instant>,
    /// Programs that had a card open at the last search.
    users: BTreeSet<u32>,
    before: Option<(Instant, BTreeMap<Client, Engines>)>,
}

/// A card, and the number of a client there.
type Client = (String, u64);

/// How long each engine worked for a client.
type Engines = BTreeMap<String, Work>;

/// Nanoseconds, or cycles of all cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    nanos: u64,
    cycles: u64,
    of_cycles: u64,
}

impl Clients {
    /// Share of the time of the busiest engine that programs below `proc` but `own` took since the
    /// look before; `None` at the first one.
    pub(super) fn look(&mut self, proc: &Path, own: &BTreeSet<u32>, now: Instant) -> Option<f32> {
        let is_due = |at: &Instant| now.saturating_duration_since(*at) >= SEARCH_EVERY;
        if self.searched.as_ref().is_none_or(is_due) {
            self.searched = Some(now);
            self.users = programs(proc).filter(|pid| has_card(proc, *pid)).collect();
        }
        let mut clients = BTreeMap::new();
        for pid in self.users.iter().filter(|pid| !own.contains(pid)) {
            clients.extend(clients_of(proc, *pid));
        }
        let (then, before) = self.before.replace((now, clients))?;
        let (_, clients) = self.before.as_ref()?;
        let time = now.saturating_duration_since(then).as_nanos().max(1) as f64;
        let mut shares: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for (client, engines) in clients {
            for (engine, work) in engines {
                // Who is new has worked since some time that nobody knows.
                let Some(earlier) = before.get(client).and_then(|it| it.get(engine)) else {
                    continue;
                };
                let share = shares.entry((client.0.as_str(), engine.as_str())).or_default();
                *share += work.since(*earlier, time);
            }
        }
        Some(shares.values().copied().fold(0.0, f64::max).min(1.0) as f32)
    }
}

impl Work {
    /// The share of `time` nanoseconds since `earlier`.
    fn since(self, earlier: Self, time: f64) -> f64 {
        let nanos = self.nanos.saturating_sub(earlier.nanos) as f64 / time;
        let cycles = self.cycles.saturating_sub(earlier.cycles) as f64;
        let of = self.of_cycles.saturating_sub(earlier.of_cycles).max(1) as f64;
        nanos.max(cycles / of)
    }
}

fn programs(proc: &Path) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_card(proc: &Path, pid: u32) -> bool {
    // Those of other users cannot be read.
    let files = std::fs::read_dir(proc.join(pid.to_string()).join("fd"));
    files.into_iter().flatten().flatten().any(|file| is_card(&file.path()))
}

fn is_card(file: &Path) -> bool {
    std::fs::read_link(file).is_ok_and(|to| to.starts_with(CARDS))
}

fn clients_of(proc: &Path, pid: u32) -> Vec<(Client, Engines)> {
    let folder = proc.join(pid.to_string());
    let files = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    let cards = files.filter(|file| is_card(&file.path()));
    let told = cards.filter_map(|file| {
        std::fs::read_to_string(folder.join("fdinfo").join(file.file_name())).ok()
    });
    told.filter_map(|text| client(&text)).collect()
}

/// What `fdinfo` says of one file of a card.
fn client(text: &str) -> Option<(Client, Engines)> {
    let fields = || text.lines().filter_map(|line| line.split_once(':'));
    let field = |name: &str| fields().find(|(key, _)| *key == name).map(|(_, value)| value.trim());
    let number = |value: &str| value.split_whitespace().next()?.parse::<u64>().ok();
    let id = number(field("drm-client-id")?)?;
    // Some drivers are of no bus.
    let card = field("drm-pdev").or_else(|| field("drm-driver"))?.to_owned();
    let mut engines = Engines::new();
    for (key, value) in fields() {
        let Some(amount) = number(value) else { continue };
        if let Some(engine) = key.strip_prefix("drm-engine-capacity-") {
            // Not a time: how many of them there are.
            engines.entry(engine.to_owned()).or_default();
        } else if let Some(engine) = key.strip_prefix("drm-engine-") {
            engines.entry(engine.to_owned()).or_default().nanos = amount;
        } else if let Some(engine) = key.strip_prefix("drm-total-cycles-") {
            engines.entry(engine.to_owned()).or_default().of_cycles = amount;
        } else if let Some(engine) = key.strip_prefix("drm-cycles-") {
            engines.entry(engine.to_owned()).or_default().cycles = amount;
        }
    }
    Some(((card, id), engines))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// As amdgpu writes it, in part.
    fn amd(client: u64, gfx_ns: u64) -> String {
        format!(
            "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t1089\ndrm-driver:\tamdgpu\n\
             drm-client-id:\t{client}\ndrm-pdev:\t0000:0a:00.0\npasid:\t32770\n\
             drm-memory-vram:\t81920 KiB\ndrm-engine-gfx:\t{gfx_ns} ns\n\
             drm-engine-compute:\t5 ns\n"
        )
    }

    /// As xe writes it, in part.
    fn intel(cycles: u64, of: u64) -> String {
        format!(
            "drm-driver:\txe\ndrm-client-id:\t7\ndrm-pdev:\t0000:00:02.0\n\
             drm-total-resident-vram0:\t0\ndrm-cycles-rcs:\t{cycles}\ndrm-total-cycles-rcs:\t{of}\n\
             drm-engine-capacity-vcs:\t2\n"
        )
    }

    fn opens(proc: &Path, pid: u32, number: u32, file: &str, info: &str) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::fs::create_dir_all(folder.join("fdinfo")).unwrap();
        let link = folder.join("fd").join(number.to_string());
        if !link.is_symlink() {
            symlink(file, link).unwrap();
        }
        std::fs::write(folder.join("fdinfo").join(number.to_string()), info).unwrap();
    }

    fn card(proc: &Path, pid: u32, number: u32, info: &str) {
        opens(proc, pid, number, "/dev/dri/renderD128", info);
    }

    #[test]
    fn what_a_game_takes_of_a_card_is_counted_once_and_what_we_take_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        let (game, worker) = (100, 200);
        let own = BTreeSet::from([worker]);
        let write = |game_ms: u64, worker_ms: u64| {
            // Two files of one client say the same.
            card(proc, game, 5, &amd(1, game_ms * 1_000_000));
            card(proc, game, 6, &amd(1, game_ms * 1_000_000));
            card(proc, worker, 5, &amd(2, worker_ms * 1_000_000));
        };
        write(5_000, 0);
        opens(proc, 300, 4, "/srv/notes.txt", "pos:\t0\n");
        let (mut clients, start) = (Clients::default(), nook_base::clock::now());
        assert_eq!(clients.look(proc, &own, start), None, "nothing to compare with");
        write(5_750, 1_000);
        let share = clients.look(proc, &own, start + SECOND).unwrap();
        assert!((share - 0.75).abs() < 1e-3, "{share}");
        assert_eq!(clients.look(proc, &own, start + 2 * SECOND), Some(0.0));
        // It ends, and its files are gone.
        std::fs::remove_dir_all(proc.join(game.to_string())).unwrap();
        assert_eq!(clients.look(proc, &own, start + 3 * SECOND), Some(0.0));
    }

    #[test]
    fn programs_that_begin_are_found_at_the_next_search() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, own) = (folder.path(), BTreeSet::new());
        let (mut clients, start) = (Clients::default(), nook_base::clock::now());
        clients.look(proc, &own, start);
        card(proc, 9, 3, &intel(0, 0));
        assert_eq!(clients.look(proc, &own, start + SECOND), Some(0.0), "not looked for yet");
        assert_eq!(clients.look(proc, &own, start + SEARCH_EVERY), Some(0.0));
        card(proc, 9, 3, &intel(300, 1_000));
        let share = clients.look(proc, &own, start + SEARCH_EVERY + SECOND).unwrap();
        assert!((share - 0.3).abs() < 1e-3, "{share}");
    }

    #[test]
    fn what_is_no_client_of_a_card_is_none() {
        for text in ["", "pos:\t0\n", "drm-client-id:\tx\n", "drm-client-id:\t4\n"] {
            assert_eq!(client(text), None, "{text:?}");
        }
    }
}
