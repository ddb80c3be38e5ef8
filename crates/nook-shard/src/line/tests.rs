//! Ticks over a real model: who is computed with whom, and that nothing of it shows. Used by the
//! test run alone.

use nook_base::LayerRange;
use nook_kernels::Format;
use nook_model::synthetic::Recipe;
use nook_model::{LoadOptions, ModelFile, Precision};
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::pace::{PIECE_ROWS_MAX, PIECE_ROWS_MIN};

const WIDTH: usize = 64;

/// A line before a real model, and the same steps computed one by one.
struct Fixture {
    line: Line,
    model: LoadedModel,
    account: Account,
    asked: u64,
}

/// A step in the line.
struct Asked {
    reply: oneshot::Receiver<StepDone>,
    left: Arc<AtomicBool>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny.gguf");
        Recipe { context_length: 1024, ..Recipe::tiny(Format::Q8_0, 3) }.write(&path).unwrap();
        let file = ModelFile::open(&path).unwrap();
        let options = LoadOptions { threads: 1, precision: Precision::Auto };
        let mut model = LoadedModel::new(file, options).unwrap();
        model.hold(&ModelPart::whole(4)).unwrap();
        Self { line: Line::default(), model, account: Account::default(), asked: 0 }
    }

    fn session(&self, part: ModelPart) -> Session {
        self.model.session(part, 600).unwrap()
    }

    fn ask(&mut self, session: Session, input: StepInput, rows: LogitRows) -> Asked {
        self.ask_at(session, input, rows, clock::now())
    }

    fn ask_at(
        &mut self,
        session: Session,
        input: StepInput,
        rows: LogitRows,
        asked: Instant,
    ) -> Asked {
        let (reply, wait) = oneshot::channel();
        let left = Arc::new(AtomicBool::new(false));
        // Each is a conversation of its own, and nobody is expected back.
        self.asked += 1;
        let who = self.asked;
        let job = StepJob { who, session, input, rows, asked, left: left.clone(), reply };
        self.line.join(Some(&self.model), job);
        Asked { reply: wait, left }
    }

    /// `rows` rows of a conversation of its own over `part`.
    fn ask_rows(&mut self, part: ModelPart, seed: usize, rows: usize) -> Asked {
        let session = self.session(part);
        self.ask(session, hidden(seed, rows), LogitRows::Last)
    }

    fn tick(&mut self) {
        self.line.tick(&self.model, &self.account);
    }

    /// What such a step alone gives.
    fn alone(&self, part: ModelPart, seed: usize, rows: usize) -> Output {
        let mut session = self.session(part);
        let StepInput::Hidden(values) = hidden(seed, rows) else { unreachable!("made so") };
        session.step(&self.model, Input::Hidden(&values), LogitRows::Last).unwrap()
    }

    fn check(&self, asked: &mut Asked, part: ModelPart, seed: usize, rows: usize) {
        let done = asked.reply.try_recv().expect("it was answered");
        assert_eq!(done.result, Ok(self.alone(part, seed, rows)), "{seed}");
        assert_eq!(done.session.position() as usize, rows);
    }
}

fn inner(start: u32, len: u32) -> ModelPart {
    ModelPart::inner(LayerRange::with_len(start, len))
}

fn hidden(seed: usize, rows: usize) -> StepInput {
    let number = |index: usize| ((index * 31 + seed * 7) as f32 * 0.37).sin();
    StepInput::Hidden(Sensitive((0..rows * WIDTH).map(number).collect()))
}

fn waits(asked: &mut Asked) -> bool {
    matches!(asked.reply.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn a_tick_is_one_pass_for_each_part_and_one_piece() {
    let mut it = Fixture::new();
    let (one, two) = (inner(1, 2), inner(0, 3));
    let mut short: Vec<(Asked, ModelPart, usize, usize)> = Vec::new();
    for seed in 0..8 {
        let (part, rows) = if seed % 3 == 2 { (two, 1) } else { (one, 1 + seed % 8) };
        short.push((it.ask_rows(part, seed, rows), part, seed, rows));
    }
    let rows = 3 * PIECE_ROWS_MIN;
    let mut long = it.ask_rows(one, 90, rows);
    assert_eq!(it.line.counts().waiting, 9);
    it.tick();
    for (asked, part, seed, rows) in &mut short {
        it.check(asked, *part, *seed, *rows);
    }
    let counts = it.line.counts();
    assert_eq!((counts.shared, counts.served, counts.most, counts.pieces), (2, 8, 6, 1));
    // Somebody decodes, so the prompt is cut.
    assert!(waits(&mut long));
    while !it.line.is_empty() {
        it.tick();
    }
    it.check(&mut long, one, 90, rows);
    assert_eq!((it.line.steps_done(), it.line.counts().shared), (9, 2));
}

#[test]
fn prompts_take_turns_and_decode_goes_between_their_pieces() {
    let mut it = Fixture::new();
    let part = inner(1, 3);
    let rows = 4 * PIECE_ROWS_MAX;
    let mut first = it.ask_rows(part, 1, rows);
    let mut second = it.ask_rows(part, 2, rows);
    let mut late = it.ask_rows(part, 3, PIECE_ROWS_MIN);
    let mut ticks = 0;
    while waits(&mut late) {
        let mut decode = it.ask_rows(part, 4, 1);
        it.tick();
        it.check(&mut decode, part, 4, 1);
        ticks += 1;
    }
    // Answered already, so looked at once only.
    assert!(ticks <= 3, "the short prompt waited for {ticks} pieces of the long ones");
    assert!(waits(&mut first) && waits(&mut second));
    while !it.line.is_empty() {
        it.tick();
    }
    it.check(&mut first, part, 1, rows);
    it.check(&mut second, part, 2, rows);
}

#[test]
fn pieces_do_not_show_in_ids_and_logits() {
    for wanted in [LogitRows::None, LogitRows::Last, LogitRows::All] {
        let mut it = Fixture::new();
        let whole = ModelPart::whole(4);
        let ids: Vec<u32> = (0..300).map(|index| index * 7919 % 272).collect();
        let session = it.session(whole);
        let mut asked = it.ask(session, StepInput::Tokens(Sensitive(ids.clone())), wanted);
        let mut ticks = 0;
        while !it.line.is_empty() {
            it.tick();
            ticks += 1;
        }
        assert_eq!(ticks, 3, "128, 128 and 44 rows");
        let mut session = it.session(whole);
        let expected = session.step(&it.model, Input::Tokens(&ids), wanted).unwrap();
        assert_eq!(asked.reply.try_recv().unwrap().result, Ok(expected));
    }
}

#[test]
fn whoever_left_is_not_computed_and_disturbs_nobody() {
    let mut it = Fixture::new();
    let part = inner(1, 2);
    let gone = [it.ask_rows(part, 1, 1), it.ask_rows(part, 2, 200)];
    let mut stays = it.ask_rows(part, 3, 1);
    gone.iter().for_each(|asked| asked.left.store(true, Ordering::Relaxed));
    it.tick();
    it.check(&mut stays, part, 3, 1);
    let counts = it.line.counts();
    assert_eq!((counts.served, counts.pieces, counts.waiting), (1, 0, 0));
    for mut asked in gone {
        assert!(matches!(asked.reply.try_recv(), Err(TryRecvError::Closed)));
    }
    // In the middle of a long step.
    let mut long = it.ask_rows(part, 4, 200);
    it.tick();
    assert!(waits(&mut long));
    long.left.store(true, Ordering::Relaxed);
    it.tick();
    assert!(it.line.is_empty());
}

#[test]
fn what_cannot_be_computed_is_refused_before_it_waits() {
    let mut it = Fixture::new();
    let part = inner(1, 2);
    let check = |it: &mut Fixture, session: Session, input: StepInput, code: ErrorCode| {
        let mut asked = it.ask(session, input, LogitRows::None);
        let done = asked.reply.try_recv().unwrap();
        assert_eq!(done.result.map_err(|failure| failure.code), Err(code));
        assert_eq!(done.session.position(), 0);
    };
    let session = it.session(part);
    check(&mut it, session, hidden(1, 601), ErrorCode::TooLong);
    let session = it.session(part);
    check(&mut it, session, StepInput::Hidden(Sensitive(vec![0.5; 65])), ErrorCode::BadRequest);
    let session = it.session(part);
    check(&mut it, session, StepInput::Hidden(Sensitive(Vec::new())), ErrorCode::BadRequest);
    let session = it.session(part);
    check(&mut it, session, StepInput::Tokens(Sensitive(vec![1])), ErrorCode::BadRequest);
    let session = it.session(ModelPart::whole(4));
    // At the end of a long step: nothing of it is computed either.
    let ids = [vec![1; 300], vec![9_999]].concat();
    check(&mut it, session, StepInput::Tokens(Sensitive(ids)), ErrorCode::BadRequest);
    assert!(it.line.is_empty());
    let (reply, mut wait) = oneshot::channel();
    let (session, left) = (it.session(part), Arc::new(AtomicBool::new(false)));
    let (input, rows, asked) = (hidden(1, 1), LogitRows::None, clock::now());
    it.line.join(None, StepJob { who: 0, session, input, rows, asked, left, reply });
    let failure = wait.try_recv().unwrap().result.unwrap_err();
    assert_eq!(failure.code, ErrorCode::NotFound);
}

#[test]
fn one_that_fails_in_the_middle_fails_alone() {
    let mut it = Fixture::new();
    let part = inner(1, 2);
    let mut asked: Vec<_> = (0..4).map(|seed| it.ask_rows(part, seed, 1)).collect();
    // One that stood in the line when it was still sound: its session has no room any more.
    let mut unlucky = it.ask_rows(part, 9, 2);
    let waiting = it.line.waiting.last_mut().unwrap();
    waiting.job.session = it.model.session(part, 1).unwrap();
    asked.extend((4..7).map(|seed| it.ask_rows(part, seed, 1)));
    it.tick();
    for (seed, asked) in asked.iter_mut().enumerate() {
        it.check(asked, part, seed, 1);
    }
    let done = unlucky.reply.try_recv().unwrap();
    assert_eq!(done.result.unwrap_err().code, ErrorCode::TooLong);
    assert_eq!((it.line.counts().shared, it.line.counts().served), (1, 8));
}

#[test]
fn layers_that_went_fail_only_those_who_need_them() {
    let mut it = Fixture::new();
    let (held, lost) = (inner(1, 2), inner(2, 2));
    let mut asked = it.ask_rows(held, 1, 1);
    let mut unlucky = it.ask_rows(lost, 9, 1);
    // The last layer is gone when its turn comes.
    it.model.release(LayerRange::with_len(3, 1));
    it.tick();
    it.check(&mut asked, held, 1, 1);
    let failure = unlucky.reply.try_recv().unwrap().result.unwrap_err();
    assert_eq!(failure.code, ErrorCode::WorkerCrashed);
}

#[test]
fn more_rows_than_fit_wait_for_the_next_pass_in_order() {
    let mut it = Fixture::new();
    let part = inner(1, 2);
    let mut asked: Vec<_> = (0..11).map(|seed| it.ask_rows(part, seed, 8)).collect();
    it.tick();
    assert!(waits(&mut asked[8]) && waits(&mut asked[10]));
    assert_eq!(it.line.counts().most, 8);
    it.tick();
    for (seed, asked) in asked.iter_mut().enumerate() {
        it.check(asked, part, seed, 8);
    }
}

#[test]
fn a_pass_waits_for_who_is_soon_back_unless_a_prompt_has_something_to_do() {
    let mut it = Fixture::new();
    let part = inner(1, 2);
    // As if passes took ten seconds and conversation 2 usually came back after two.
    let round = |it: &mut Fixture, who: &[u64], late: Duration| -> Vec<Asked> {
        let ask = |who: &u64| {
            let session = it.session(part);
            it.asked = who - 1;
            it.ask_at(session, hidden(7, 1), LogitRows::Last, clock::now() + late)
        };
        who.iter().map(ask).collect()
    };
    let mut first = round(&mut it, &[1, 2], Duration::ZERO);
    it.tick();
    first.iter_mut().for_each(|asked| it.check(asked, part, 7, 1));
    it.line.pace.decoded(part, Duration::from_secs(40), clock::now());
    let _second = round(&mut it, &[1, 2], Duration::from_secs(2));
    it.tick();
    it.line.pace.decoded(part, Duration::from_secs(40), clock::now());
    let mut one = round(&mut it, &[1], Duration::ZERO);
    assert!(it.line.rests_until().is_some_and(|end| end > clock::now()));
    it.tick();
    assert!(waits(&mut one[0]), "the other one is on its way");
    it.asked = 8;
    let mut prompt = it.ask_rows(part, 9, 16);
    assert_eq!(it.line.rests_until(), None);
    it.tick();
    it.check(&mut prompt, part, 9, 16);
    assert!(waits(&mut one[0]));
    let mut two = round(&mut it, &[2], Duration::ZERO);
    assert_eq!(it.line.rests_until(), None);
    it.tick();
    it.check(&mut one[0], part, 7, 1);
    it.check(&mut two[0], part, 7, 1);
    assert_eq!((it.line.counts().shared, it.line.counts().served), (3, 6));
}

#[test]
fn computing_and_waiting_add_up_to_the_time_here() {
    let mut it = Fixture::new();
    let part = inner(1, 3);
    let before = clock::now();
    let mut asked: Vec<_> = (0..3).map(|seed| it.ask_rows(part, seed, 1 + seed * 100)).collect();
    while !it.line.is_empty() {
        it.tick();
    }
    let all = clock::now().duration_since(before);
    let done: Vec<StepDone> =
        asked.iter_mut().map(|asked| asked.reply.try_recv().unwrap()).collect();
    for done in &done {
        assert!(done.compute > Duration::ZERO && done.compute + done.queued <= all);
    }
    // The long ones were computed apart, so that their times are not counted twice.
    assert!(done[1].compute + done[2].compute <= all);
    assert!(done[2].queued >= done[1].compute / 2, "it waited while the other was computed");
}
