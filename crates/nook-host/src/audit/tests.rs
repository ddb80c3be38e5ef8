//! What is noted and when it is written down.

use nook_api::views;

use super::*;

const PC: PeerId = PeerId([1; 32]);
const MODEL: ModelDigest = ModelDigest([2; 32]);
const UNIX: u64 = 1_700_000_000;

fn audit() -> Audit {
    let names = BTreeMap::from([(PC, "Study PC".to_owned())]);
    let book = AdvertBook { names, ..AdvertBook::default() };
    Audit::new(AuditList::default(), watch::channel(Arc::new(book)).1)
}

fn layers() -> AuditSubject {
    subject(AuditAsked::Compute, MODEL, Some("ember"), Some(LayerRange::with_len(1, 4)))
}

#[test]
fn what_goes_on_is_shown_with_what_it_is_by_now_and_then_with_how_it_ended() {
    let (audit, now) = (audit(), clock::now());
    let line = audit.begin(Moment { now, unix: UNIX }, PC, layers());
    line.computed(40);
    line.computed(1);
    let later = now + Duration::from_millis(1_500);
    let seen = |view: &AuditEntryView| (view.tokens, view.milliseconds, view.outcome, view.last);
    let view = audit.view(later, UNIX + 2);
    let [one] = view.as_slice() else { panic!("{view:?}") };
    assert_eq!(seen(one), (41, 1_500, views::AuditOutcome::UnderWay, UNIX + 2));
    assert_eq!((one.device.as_deref(), one.layers), (Some("Study PC"), Some([1, 4])));
    line.end(Moment { now: later, unix: UNIX + 2 }, None);
    let view = audit.view(later + SAVE_EVERY, UNIX + 9);
    assert_eq!(seen(&view[0]), (41, 1_500, views::AuditOutcome::Served, UNIX + 2));
}

#[test]
fn what_gave_nothing_is_refused_and_what_is_dropped_was_ended_here() {
    let (audit, now) = (audit(), clock::now());
    let at = Moment { now, unix: UNIX };
    audit.begin(at, PC, layers()).fail(at, AuditWhy::NotLent);
    let line = audit.begin(at, PC, layers());
    line.gave(1);
    line.fail(at, AuditWhy::BadRequest);
    drop(audit.begin(at, PC, layers()));
    let outcomes: Vec<_> = audit.lock().list.entries().iter().map(|it| it.outcome).collect();
    use nook_store::AuditOutcome as Of;
    let expected =
        [Of::Refused(AuditWhy::NotLent), Of::Cut(AuditWhy::BadRequest), Of::Cut(AuditWhy::Leaving)];
    assert_eq!(outcomes, expected);
    assert!(audit.lock().running.is_empty());
}

#[test]
fn it_is_written_down_soon_and_rarely_while_somebody_only_knocks() {
    let (audit, now) = (audit(), clock::now());
    assert!(audit.to_save(now).is_none(), "nothing happened");
    let knock = || {
        let who = AuditWho::Stranger { from: Some("10.0.0.9".to_owned()), claims: None };
        audit.turned_away(UNIX, who, AuditWhy::NotPaired, 3);
    };
    knock();
    assert!(audit.to_save(now).is_some());
    knock();
    assert!(audit.to_save(now + SAVE_EVERY).is_none());
    let line = audit.begin(Moment { now, unix: UNIX }, PC, layers());
    assert!(audit.to_save(now + SAVE_EVERY).is_some());
    // What goes on is written down again and again: a crash loses little of it.
    assert!(audit.to_save(now + SAVE_EVERY * 2).is_some());
    drop(line);
    assert!(audit.to_save_last(now).is_some() && audit.to_save_last(now).is_none());
    knock();
    assert!(audit.to_save(now + SAVE_EVERY * 3).is_none());
    assert!(audit.to_save(now + SAVE_EVERY * 2 + SAVE_REFUSALS_EVERY).is_some());
    assert_eq!(audit.clear().entries().len(), 0);
}
