//! What others asked of this device: bounded, folded, kept over a restart, private.

use std::fs;

use nook_base::LayerRange;
use nook_store::{
    AUDIT_ENTRIES_MAX, AUDIT_STRANGERS_MAX, AuditAmounts, AuditAsked, AuditFile, AuditList,
    AuditOutcome, AuditSubject, AuditWho, AuditWhy, Home, HomeChoice,
};

const NOON: u64 = 1_700_000_000;
const DAY: u64 = 24 * 60 * 60;

fn device(id: &str) -> AuditWho {
    AuditWho::Device { id: id.to_owned(), name: format!("{id}'s PC") }
}

fn stranger(from: usize) -> AuditWho {
    AuditWho::Stranger { from: Some(format!("10.0.0.{from}")), claims: None }
}

fn layers() -> AuditSubject {
    AuditSubject {
        asked: AuditAsked::Compute,
        model: Some("ember".to_owned()),
        layers: Some(LayerRange::with_len(1, 4)),
    }
}

fn connection() -> AuditSubject {
    AuditSubject { asked: AuditAsked::Connect, model: None, layers: None }
}

fn of<'a>(list: &'a AuditList, id: &'a str) -> impl Iterator<Item = u64> + 'a {
    let is_its = move |who: &AuditWho| matches!(who, AuditWho::Device { id: it, .. } if it == id);
    list.entries().iter().filter(move |entry| is_its(&entry.who)).map(|entry| entry.first)
}

#[test]
fn the_same_refusal_is_one_entry_with_a_count_until_a_day_is_over() {
    let mut list = AuditList::default();
    for second in 0..1_000 {
        list.refuse(NOON + second, device("a"), layers(), (AuditWhy::Busy, 1));
    }
    list.refuse(NOON + 5, device("a"), layers(), (AuditWhy::TooLittleTrust, 1));
    list.refuse(NOON + 5, device("b"), layers(), (AuditWhy::Busy, 1));
    list.refuse(NOON + DAY, device("a"), layers(), (AuditWhy::Busy, 2));
    let seen: Vec<_> =
        list.entries().iter().map(|it| (it.first - NOON, it.last, it.times)).collect();
    let expected =
        [(0, NOON + 999, 1_000), (5, NOON + 5, 1), (5, NOON + 5, 1), (DAY, NOON + DAY, 2)];
    assert_eq!(seen, expected);
    // A clock that was set back begins another one and breaks nothing.
    list.refuse(NOON - 1, device("a"), layers(), (AuditWhy::Busy, 1));
    assert_eq!(list.entries().len(), 5);
}

#[test]
fn who_asks_most_pushes_out_only_its_own_entries_and_a_stranger_those_of_strangers() {
    let mut list = AuditList::default();
    for second in 0..10 {
        let number = list.begin(NOON + second, device("quiet"), layers());
        list.end(number, NOON + second, AuditAmounts::default(), None);
    }
    let running = list.begin(NOON, device("loud"), layers());
    for second in 0..2_000 {
        let number = list.begin(NOON + second, device("loud"), layers());
        list.end(number, NOON + second, AuditAmounts::default(), None);
        list.refuse(NOON, stranger(second as usize), connection(), (AuditWhy::NotPaired, 3));
    }
    assert_eq!(list.entries().len(), AUDIT_ENTRIES_MAX + AUDIT_STRANGERS_MAX);
    assert_eq!(of(&list, "quiet").collect::<Vec<_>>(), (NOON..NOON + 10).collect::<Vec<_>>());
    assert_eq!(of(&list, "loud").max(), Some(NOON + 1_999));
    assert!(list.entries().iter().any(|it| it.number == running), "it is still under way");
    list.clear();
    let left: Vec<_> = list.entries().iter().map(|it| it.number).collect();
    assert_eq!(left, [running]);
}

#[test]
fn what_was_begun_ends_with_its_amounts_or_is_refused_like_any() {
    let mut list = AuditList::default();
    let amounts = AuditAmounts { tokens: 41, bytes: 0, milliseconds: 1_500 };
    let served = list.begin(NOON, device("a"), layers());
    list.update(served, AuditAmounts { tokens: 40, ..amounts });
    list.end(served, NOON + 2, amounts, None);
    let cut = list.begin(NOON, device("a"), layers());
    list.end(cut, NOON + 2, amounts, Some(AuditWhy::Leaving));
    for second in 3..5 {
        let refused = list.begin(NOON + second, device("a"), layers());
        list.refuse_begun(refused, NOON + second, AuditWhy::NotLent);
    }
    let seen: Vec<_> =
        list.entries().iter().map(|it| (it.outcome, it.times, it.amounts.tokens)).collect();
    let expected = [
        (AuditOutcome::Served, 1, 41),
        (AuditOutcome::Cut(AuditWhy::Leaving), 1, 41),
        (AuditOutcome::Refused(AuditWhy::NotLent), 2, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn it_is_there_after_a_restart_and_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home");
    let file = AuditFile::of(&home);
    assert_eq!(file.load().unwrap(), AuditList::default());
    let mut list = AuditList::default();
    let number = list.begin(NOON, device("a"), layers());
    list.end(number, NOON + 1, AuditAmounts { tokens: 7, bytes: 0, milliseconds: 900 }, None);
    list.refuse(NOON, stranger(1), connection(), (AuditWhy::NotPaired, 9));
    file.save(&list).unwrap();
    assert_eq!(file.load().unwrap(), list);
    list.begin(NOON + 2, device("a"), layers());
    file.save(&list).unwrap();
    let last = file.load().unwrap().entries().last().map(|it| it.outcome);
    assert_eq!(last, Some(AuditOutcome::Unknown), "nobody saw how it ended");
    let path = home.data().join("audit.json");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::write(&path, r#"{"version":1,"entries":[{"first":-1}]}"#).unwrap();
    assert!(file.load().unwrap_err().to_string().contains("audit.json"));
}

#[test]
fn the_largest_list_is_a_small_file() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home");
    let mut list = AuditList::default();
    for second in 0..2_000 {
        list.begin(NOON + second, device(&"x".repeat(64)), layers());
        list.refuse(NOON, stranger(second as usize), connection(), (AuditWhy::NotPaired, 3));
    }
    AuditFile::of(&home).save(&list).unwrap();
    let bytes = fs::metadata(home.data().join("audit.json")).unwrap().len();
    assert!(bytes < 512 << 10, "{bytes} bytes");
}
