//! `kill -9` at any moment leaves the old list of devices or the new one, never half of one.
//!
//! The test starts this very program again as a writer that changes the list for ever, kills it at
//! some moment, and reads what is there.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use nook_base::{PeerId, env};
use nook_store::{HelpAnswer, Home, HomeChoice, Peer, Peers};
use nook_trust::{DeviceName, TrustLevel};

const FOLDER: &str = "INGLENOOK_TEST_FOLDER";
const ROUNDS: usize = 10;

/// The child. Without a folder it is an empty test.
#[test]
fn writer() {
    let Some(folder) = env::raw(FOLDER) else {
        return;
    };
    let home = Home::open(&HomeChoice::At(folder.into())).unwrap();
    let mut peers = Peers::load(&home).unwrap();
    for number in 0..40 {
        let _ = peers.add(Peer {
            id: PeerId([number; 32]),
            name: DeviceName::sanitised("x"),
            level: TrustLevel::Guest,
            addresses: Vec::new(),
            paired_at: 0,
            last_seen: None,
            help: HelpAnswer::Open,
            wake: Vec::new(),
            woke_seconds: None,
        });
    }
    // All forty have one level at any moment but inside this loop; which one tells the round.
    println!("ready");
    loop {
        for level in [TrustLevel::Trusted, TrustLevel::Own, TrustLevel::Guest] {
            for number in 0..40 {
                peers.set_level(PeerId([number; 32]), level, HelpAnswer::ByTrust).unwrap();
            }
        }
    }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_list_and_a_free_home() {
    let folder = tempfile::tempdir().unwrap();
    let myself = std::env::current_exe().unwrap();
    for round in 0..ROUNDS {
        let mut child = Command::new(&myself)
            .args(["--exact", "kill::writer", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let ready = output.lines().any(|line| line.unwrap().ends_with("ready"));
        assert!(ready, "round {round}: the writer did not get its home");
        // A moment that differs from round to round; which one it is does not matter.
        for _ in 0..round * 500 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let home = Home::open(&HomeChoice::At(folder.path().to_owned())).unwrap();
        let peers = Peers::load(&home).unwrap();
        assert_eq!(peers.list().len(), 40, "round {round}");
        let litter = std::fs::read_dir(home.data())
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().contains(".new-")
            })
            .count();
        assert_eq!(litter, 0, "what the kill left is swept away");
    }
}
