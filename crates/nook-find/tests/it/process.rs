//! What becomes of a process that looks for devices and does not do as it should. A shell plays it;
//! the real one is looked at by the tests of whole households.
//!
//! The clock stands still and jumps to the next deadline whenever nothing else is to be done, so the
//! waits cost nothing. A process needs time of the wall to say something: where it does, the clock
//! goes on by itself.

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_find::{Discovery, DiscoveryCommand, Heard, Interfaces, ProcessDiscovery};

const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(60);

fn small(_pid: u32) -> Option<u64> {
    Some(1 << 20)
}

fn large(_pid: u32) -> Option<u64> {
    Some(1 << 40)
}

fn played_by(script: &str, memory_of: fn(u32) -> Option<u64>, tasks: &Tasks) -> ProcessDiscovery {
    let arguments = ["-c", script, "sh"].map(Into::into).to_vec();
    let command = DiscoveryCommand { program: "sh".into(), arguments, memory_of };
    ProcessDiscovery::new(command, Interfaces::Loopback, tasks)
}

/// Browses until the process has ended, and gives what is said of it during the rest that follows.
async fn told_of(discovery: &mut ProcessDiscovery) -> String {
    loop {
        let mut heard = discovery.browse().expect("it starts");
        match heard.recv().await {
            Some(Heard::Trouble { reason }) => return reason,
            Some(other) => panic!("a shell heard {other:?}"),
            // The process has ended; the next subscription says why.
            None => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn d6_one_that_is_silent_or_takes_too_much_memory_is_ended() {
    let tasks = Tasks::new();
    let mut silent = played_by("exec sleep 1000", small, &tasks);
    assert!(told_of(&mut silent).await.contains("does not answer"));
    let mut greedy = played_by("exec sleep 1000", large, &tasks);
    assert!(told_of(&mut greedy).await.contains("flooded"));
    silent.leave().await;
    greedy.leave().await;
    assert!(tasks.shut_down(SHUT_DOWN_LIMIT).await);
}

#[tokio::test]
async fn d6_one_that_says_nonsense_or_ends_is_told_of_and_rests() {
    for (script, words) in [
        ("printf '\\377\\377\\377\\377'; exec sleep 1000", "said"),
        ("printf '\\001\\000\\000\\000\\377'; exec sleep 1000", "said"),
        ("exit 3", "ended"),
        ("exit 75", "flooded"),
        ("kill -ABRT $$", "flooded"),
    ] {
        let tasks = Tasks::new();
        let mut discovery = played_by(script, small, &tasks);
        let told = told_of(&mut discovery).await;
        assert!(told.contains(words), "{script}: {told}");
        discovery.leave().await;
        assert!(tasks.shut_down(SHUT_DOWN_LIMIT).await);
    }
}

#[tokio::test]
async fn d6_one_that_cannot_be_started_is_refused_with_the_reason() {
    let tasks = Tasks::new();
    let command = DiscoveryCommand {
        program: "/there/is/no/such/program".into(),
        arguments: Vec::new(),
        memory_of: small,
    };
    let mut discovery = ProcessDiscovery::new(command, Interfaces::Loopback, &tasks);
    let refused = discovery.browse().unwrap_err().to_string();
    assert!(refused.contains("cannot start"), "{refused}");
    assert!(tasks.shut_down(SHUT_DOWN_LIMIT).await);
}

#[tokio::test]
async fn d6_what_it_was_refused_is_told_as_the_reason() {
    let tasks = Tasks::new();
    // A frame of five bytes: refused, cannot start, a text of two letters.
    let script = "printf '\\005\\000\\000\\000\\003\\000\\002no'; exit 1";
    let mut discovery = played_by(script, small, &tasks);
    let mut heard = discovery.browse().expect("it starts");
    assert_eq!(heard.recv().await, None);
    let refused = discovery.browse().unwrap_err().to_string();
    assert_eq!(refused, "looking for other devices cannot start on this network: no");
    discovery.leave().await;
    assert!(tasks.shut_down(SHUT_DOWN_LIMIT).await);
}
