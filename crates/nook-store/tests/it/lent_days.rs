//! What was computed for others: seven days of numbers, and nothing that says more.

use std::fs;

use nook_store::{Home, HomeChoice, LENT_DAYS_MAX, LentDay, LentDays, LentDaysFile};

const TODAY: u32 = 20_000;

fn open(folder: &tempfile::TempDir) -> Home {
    Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home")
}

fn days(of: &[(u32, u64)]) -> Vec<LentDay> {
    of.iter().map(|&(day, positions)| LentDay { day, positions }).collect()
}

#[test]
fn what_was_lent_is_there_after_a_restart_until_its_week_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let file = LentDaysFile::of(&home);
    assert_eq!(file.load(TODAY).unwrap(), LentDays::default());
    let mut lent = LentDays::default();
    lent.add(TODAY - 1, 40);
    lent.add(TODAY, 2);
    lent.add(TODAY, 3);
    file.save(&lent).unwrap();
    assert_eq!(file.load(TODAY).unwrap().days(), days(&[(TODAY - 1, 40), (TODAY, 5)]));
    let week = u32::try_from(LENT_DAYS_MAX).unwrap();
    assert_eq!(file.load(TODAY - 1 + week).unwrap().days(), days(&[(TODAY, 5)]));
    assert_eq!(file.load(TODAY + week).unwrap().days(), []);
    // A clock that was set back.
    assert_eq!(file.load(TODAY - 1).unwrap().days(), days(&[(TODAY - 1, 40)]));
}

#[test]
fn the_list_never_grows_beyond_its_week() {
    let mut lent = LentDays::default();
    for day in 0..1000 {
        lent.add(day, u64::MAX);
        lent.add(day, 1);
        assert!(lent.days().len() <= LENT_DAYS_MAX);
    }
    assert_eq!(lent.days().first().map(|it| it.day), Some(993));
    assert!(lent.days().iter().all(|it| it.positions == u64::MAX), "it does not run over");
}

#[test]
fn the_file_holds_numbers_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut lent = LentDays::default();
    lent.add(TODAY, 7);
    LentDaysFile::of(&home).save(&lent).unwrap();
    let text = fs::read_to_string(home.data().join("lent.json")).unwrap();
    let compact: String = text.split_whitespace().collect();
    assert_eq!(compact, r#"{"version":1,"days":[{"day":20000,"positions":7}]}"#);
}

#[test]
fn a_file_of_somebody_else_is_bounded_or_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let (file, path) = (LentDaysFile::of(&home), home.data().join("lent.json"));
    let many = (0..30_000_u32).map(|day| format!(r#"{{"day":{day},"positions":1}}"#));
    let twice = format!(r#"{{"day":{TODAY},"positions":4}}"#);
    let all = many.chain([twice]).collect::<Vec<_>>().join(",");
    fs::write(&path, format!(r#"{{"version":1,"days":[{all}]}}"#)).unwrap();
    assert!(file.load(TODAY).unwrap().days().len() <= LENT_DAYS_MAX);
    fs::write(&path, r#"{"version":1,"days":[{"day":-1,"positions":1}]}"#).unwrap();
    assert!(file.load(TODAY).unwrap_err().to_string().contains("lent.json"));
}
