//! Saves a reply while it grows, so that whatever ends the program leaves the words that were
//! shown, what was thought before them, and who computed them.
//!
//! The door is answered before the reply has begun: it may wait for its turn, or for the model to
//! be opened. A door that leaves meanwhile gives the place back.

use std::time::Duration;

use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, Sensitive, clock};
use nook_store::{Finish, Message, MessageId};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ChatBook;
use super::stretches::{self, Stretches};
use super::telling_apart::{Apart, Thinking};
use nook_api::views::{
    FailoverView, FinishReason, PartView, PathView, ReplyEvent, ReplySummary, RouteView,
};
use nook_api::{KeptReply, NodeError, REPLY_EVENTS_MAX, Reply, ReplyPiece};

/// How often a growing reply is written to the database.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);

/// What a reply that goes on had already: its tokens and hand-overs count in the whole.
#[derive(Debug, Default)]
pub(super) struct Begun {
    tokens: u32,
    failovers: Vec<FailoverView>,
    timeline: Vec<PartView>,
    stretches: Stretches,
    /// How long it has thought, in milliseconds.
    thought_ms: u64,
}

/// A reply that has a place and is not begun yet.
pub(super) type Coming = oneshot::Receiver<Result<Reply, NodeError>>;

impl Begun {
    /// What a cut reply had.
    pub(super) fn of(message: &Message) -> Self {
        let json = message.route.as_deref().unwrap_or_default();
        let timeline = serde_json::from_str::<ReplySummary>(json).map(|summary| summary.timeline);
        let stretches = Stretches::behind(&message.text, stretches::read(json));
        // A summary has all the fields of a path, so this reads both.
        let path = serde_json::from_str::<PathView>(json).ok();
        let (tokens, failovers) = match path {
            Some(path) => (path.completion_tokens, path.failovers),
            None => (0, Vec::new()),
        };
        let thought_ms = message.thought.as_ref().map_or(0, |thought| thought.milliseconds);
        Self { tokens, failovers, timeline: timeline.unwrap_or_default(), stretches, thought_ms }
    }

    fn shifted(&self, mut failover: FailoverView) -> FailoverView {
        failover.after_tokens = failover.after_tokens.saturating_add(self.tokens);
        failover
    }

    /// A summary of the part that came now, as one of the whole reply.
    fn whole(&self, mut summary: ReplySummary) -> ReplySummary {
        summary.completion_tokens = summary.completion_tokens.saturating_add(self.tokens);
        let now = summary.failovers.into_iter().map(|failover| self.shifted(failover));
        summary.failovers = self.failovers.iter().cloned().chain(now).collect();
        for part in &mut summary.timeline {
            part.first_token = part.first_token.saturating_add(self.tokens);
            part.last_token = part.last_token.saturating_add(self.tokens);
        }
        summary.timeline.splice(0..0, self.timeline.iter().cloned());
        summary
    }
}

/// Who computed a reply so far.
struct Path {
    begun: Begun,
    view: Option<PathView>,
    stretches: Stretches,
}

impl Path {
    fn behind(mut begun: Begun) -> Self {
        let stretches = std::mem::take(&mut begun.stretches);
        Self { begun, view: None, stretches }
    }

    /// Takes in an event; says whether there is something new to note.
    fn follow(&mut self, event: &ReplyEvent) -> bool {
        match event {
            ReplyEvent::Started { route, .. } => {
                let tokens = self.view(route).completion_tokens;
                self.stretches.begin(route, tokens);
                true
            }
            ReplyEvent::FallbackToLocal { route } => {
                let tokens = self.view(route).completion_tokens;
                self.stretches.expect(route, tokens);
                true
            }
            ReplyEvent::ShardFailover { failover, route } => {
                let failover = self.begun.shifted(failover.clone());
                let view = self.view(route);
                view.failovers.push(failover);
                let tokens = view.completion_tokens;
                self.stretches.begin(route, tokens);
                true
            }
            ReplyEvent::TokenDelta { text, .. } => {
                self.stretches.grow(text);
                false
            }
            ReplyEvent::ThoughtDelta { .. }
            | ReplyEvent::ShardStatus { .. }
            | ReplyEvent::Done { .. }
            | ReplyEvent::PipelineAborted { .. } => false,
        }
    }

    fn count(&mut self, tokens: u32) {
        if let Some(view) = &mut self.view {
            view.completion_tokens = self.begun.tokens.saturating_add(tokens);
        }
    }

    fn view(&mut self, route: &RouteView) -> &mut PathView {
        let begun = &self.begun;
        let view = self.view.get_or_insert_with(|| PathView {
            route: route.clone(),
            failovers: begun.failovers.clone(),
            completion_tokens: begun.tokens,
        });
        view.route.clone_from(route);
        view
    }

    fn json(&self) -> Option<String> {
        self.view.as_ref().and_then(|view| self.stretches.write(view))
    }
}

/// Passes a reply on while saving it, from when it has come. The door that stops listening stops
/// it.
pub(super) fn keep(
    book: ChatBook,
    message: MessageId,
    begun: Begun,
    coming: Coming,
    tasks: &Tasks,
) -> KeptReply {
    let (out, events) = mpsc::channel(REPLY_EVENTS_MAX);
    let token = tasks.token().clone();
    tasks.spawn("kept-reply", async move {
        let mut path = Path::behind(begun);
        let come = tokio::select! {
            biased;
            () = out.closed() => None,
            come = coming => Some(come.unwrap_or_else(|_| Err(no_word(&token)))),
        };
        let mut end = match come {
            Some(Ok(reply)) => pass_on(&book, message, &mut path, reply, &out, &token).await,
            Some(Err(error)) => Some(aborted(error)),
            None => None,
        };
        // Saved before the door hears of the end, so that what it reads back is whole.
        let (finish, route) = match end.as_mut().map(|piece| &mut piece.event) {
            Some(ReplyEvent::Done { summary }) => {
                *summary = path.begun.whole(summary.clone());
                let finish = match summary.finish_reason {
                    FinishReason::Stop => Finish::Complete,
                    FinishReason::Length => Finish::Length,
                };
                (finish, path.stretches.write(summary))
            }
            // Whatever is said of its end then, and whoever was quicker to leave.
            _ if token.is_cancelled() => (Finish::Interrupted, path.json()),
            Some(ReplyEvent::PipelineAborted { code, .. }) => {
                (Finish::Failed { code: code.clone() }, path.json())
            }
            _ => (Finish::Stopped, path.json()),
        };
        save_end(&book, message, finish, route).await;
        if let Some(end) = end {
            // A door that has left needs no end.
            let _ = out.send(end).await;
        }
    });
    KeptReply { events }
}

/// What is said of a reply that ends without a word: the node leaves, or what made it broke down.
fn no_word(token: &CancellationToken) -> NodeError {
    if token.is_cancelled() { NodeError::gone() } else { ErrorCode::WorkerCrashed.into() }
}

/// The end of a reply that never began, or ended without a word.
fn aborted(error: NodeError) -> ReplyPiece {
    ReplyPiece { event: error.into(), ids: Sensitive(Vec::new()), logprobs: None, stopped: None }
}

/// What has come and is not in the database yet.
#[derive(Default)]
struct Unsaved {
    text: String,
    /// With how long all thinking has taken.
    thought: String,
    thought_ms: u64,
}

impl Unsaved {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thought.is_empty()
    }

    fn take_in(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::TokenDelta { text, .. } => self.text.push_str(text),
            ReplyEvent::ThoughtDelta { text, ms, .. } => {
                self.thought.push_str(text);
                self.thought_ms = *ms;
            }
            _ => {}
        }
    }
}

/// Passes events on until the last one, which is returned, or until nobody listens. A reply that
/// ends without a word gets a last one here.
async fn pass_on(
    book: &ChatBook,
    message: MessageId,
    path: &mut Path,
    mut reply: Reply,
    out: &mpsc::Sender<ReplyPiece>,
    token: &CancellationToken,
) -> Option<ReplyPiece> {
    let mut unsaved = Unsaved::default();
    let mut apart = Apart::new(reply.form.clone(), Thinking::after(path.begun.thought_ms));
    let mut save = tokio::time::interval(SAVE_INTERVAL);
    let end = loop {
        tokio::select! {
            biased;
            () = out.closed() => break None,
            _ = save.tick(), if !unsaved.is_empty() => {
                save_words(book, message, std::mem::take(&mut unsaved)).await;
            }
            piece = reply.events.recv() => {
                let piece = piece.unwrap_or_else(|| aborted(no_word(token)));
                if let ReplyEvent::TokenDelta { tokens, .. } = &piece.event {
                    // Also of one whose text is held back for now.
                    path.count(*tokens);
                }
                let mut end = None;
                for piece in apart.told(piece) {
                    if path.follow(&piece.event) {
                        note_route(book, message, path.json()).await;
                    }
                    unsaved.take_in(&piece.event);
                    let is_end = matches!(
                        piece.event,
                        ReplyEvent::Done { .. } | ReplyEvent::PipelineAborted { .. }
                    );
                    if is_end {
                        end = Some(piece);
                    } else if out.send(piece).await.is_err() {
                        break;
                    }
                }
                // A door that has left is noticed above.
                if end.is_some() {
                    break end;
                }
            }
        }
    };
    save_words(book, message, unsaved).await;
    end
}

async fn save_words(book: &ChatBook, message: MessageId, words: Unsaved) {
    if words.is_empty() {
        return;
    }
    let job = move |books: &mut super::Books| {
        let chats = books.of_message(message);
        if !words.thought.is_empty() {
            chats.think(message, &words.thought, words.thought_ms)?;
        }
        if words.text.is_empty() { Ok(()) } else { chats.append(message, &words.text) }
    };
    if let Err(error) = book.run(job).await {
        tracing::error!(%error, "a part of a reply could not be saved");
    }
}

async fn note_route(book: &ChatBook, message: MessageId, route: Option<String>) {
    let Some(route) = route else { return };
    let job = move |books: &mut super::Books| books.of_message(message).note_route(message, &route);
    if let Err(error) = book.run(job).await {
        tracing::error!(%error, "who computes a reply could not be saved");
    }
}

/// Ends a reply in the database; without a route, what was noted of it stays.
pub(super) async fn save_end(
    book: &ChatBook,
    message: MessageId,
    finish: Finish,
    route: Option<String>,
) {
    let now = clock::unix_seconds();
    let job = move |books: &mut super::Books| {
        books.of_message(message).finish(message, &finish, route.as_deref(), now)
    };
    if let Err(error) = book.run(job).await {
        tracing::error!(%error, "the end of a reply could not be saved");
    }
}

#[cfg(test)]
mod tests {
    use nook_store::{Chats, Role};
    use nook_text::{ReplyForm, Thought};

    use super::*;
    use crate::chats::message_view;
    use crate::chats::stretches::tests::route;
    use nook_api::views::{MessageFinish, StretchView, WorkView};

    fn piece(event: ReplyEvent) -> ReplyPiece {
        ReplyPiece { event, ids: Sensitive(Vec::new()), logprobs: None, stopped: None }
    }

    fn delta(text: &str, tokens: u32) -> ReplyPiece {
        piece(ReplyEvent::TokenDelta { text: text.to_owned(), tokens })
    }

    fn failover() -> FailoverView {
        FailoverView { from: "a".to_owned(), to: "b".to_owned(), pause_ms: 5.0, after_tokens: 1 }
    }

    fn places(stretches: &[StretchView]) -> Vec<(u32, u32, &str)> {
        let mut places = Vec::new();
        for StretchView { at, after_tokens, route } in stretches {
            places.push((*at, *after_tokens, route.legs[0].device.as_str()));
        }
        places
    }

    fn part(first_token: u32, last_token: u32) -> PartView {
        let (compute_ms, queue_ms, network_ms) = (3.0, 0.5, 1.0);
        let work = WorkView { steps: 1, positions: 1, compute_ms, queue_ms, network_ms };
        PartView {
            device_id: "a".to_owned(),
            device: "a".to_owned(),
            local: false,
            layers: Some([0, 5]),
            first_token,
            last_token,
            prompt: work,
            reply: work,
            bytes_out: 7,
            bytes_in: 7,
        }
    }

    fn aborted() -> ReplyPiece {
        piece(NodeError::new(ErrorCode::PipelineStalled, "Nobody answers.").into())
    }

    /// What doors read of a reply after `pieces` came, to a reply that had `begun`.
    async fn kept(begun: Begun, pieces: Vec<ReplyPiece>) -> nook_api::views::MessageView {
        kept_of(ReplyForm::plain(), begun, pieces).await
    }

    /// The same for a reply of this form.
    async fn kept_of(
        form: ReplyForm,
        begun: Begun,
        pieces: Vec<ReplyPiece>,
    ) -> nook_api::views::MessageView {
        let mut chats = Chats::in_memory().unwrap();
        let talk = chats.create("x", 1).unwrap();
        let asked = chats.add(talk, None, Role::User, "x", 1).unwrap();
        let message = chats.begin_reply(talk, asked, "ember", 1).unwrap();
        let book = ChatBook::start(chats, mpsc::channel(1).0, &Tasks::new()).unwrap();
        let (sender, events) = mpsc::channel(pieces.len());
        for piece in pieces {
            sender.send(piece).await.unwrap();
        }
        let (model, prompt_ids) = ("ember".to_owned(), Sensitive(Vec::new()));
        let (answer, coming) = oneshot::channel();
        answer.send(Ok(Reply { model, prompt_ids, form, events })).unwrap();
        let mut passed = keep(book.clone(), message, begun, coming, &Tasks::new());
        while let Some(piece) = passed.events.recv().await {
            if matches!(piece.event, ReplyEvent::PipelineAborted { .. } | ReplyEvent::Done { .. }) {
                break;
            }
        }
        drop(passed);
        let mut messages = book.run(move |books| books.kept.get(talk)).await.unwrap().messages;
        message_view(messages.pop().unwrap())
    }

    #[tokio::test]
    async fn a_reply_that_fails_keeps_its_words_and_who_computed_them() {
        let pieces = vec![
            piece(ReplyEvent::Started { prompt_tokens: 3, route: route("a"), predicted: None }),
            delta("One ", 1),
            piece(ReplyEvent::ShardFailover { failover: failover(), route: route("b") }),
            delta("two", 2),
            aborted(),
        ];
        let view = kept(Begun::default(), pieces).await;
        assert_eq!(view.text, "One two");
        assert_eq!(view.finish, MessageFinish::Failed);
        let path = view.path.unwrap();
        assert_eq!((path.route, path.failovers), (route("b"), vec![failover()]));
        assert_eq!(path.completion_tokens, 2);
        assert_eq!(places(&view.stretches), [(0, 0, "a"), (4, 1, "b")]);
    }

    #[tokio::test]
    async fn a_reply_that_ends_without_a_word_is_told_and_kept_as_cut_and_not_as_stopped() {
        for (begins, leaves) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut chats = Chats::in_memory().unwrap();
            let talk = chats.create("x", 1).unwrap();
            let asked = chats.add(talk, None, Role::User, "x", 1).unwrap();
            let message = chats.begin_reply(talk, asked, "ember", 1).unwrap();
            let book = ChatBook::start(chats, mpsc::channel(1).0, &Tasks::new()).unwrap();
            let (answer, coming) = oneshot::channel();
            if begins {
                // Whatever makes it is gone behind its first word.
                let (sender, events) = mpsc::channel(1);
                sender.send(delta("One", 1)).await.unwrap();
                let (model, prompt_ids) = ("ember".to_owned(), Sensitive(Vec::new()));
                let form = ReplyForm::plain();
                answer.send(Ok(Reply { model, prompt_ids, form, events })).unwrap();
            } else {
                drop(answer);
            }
            let tasks = Tasks::new();
            let mut passed = keep(book.clone(), message, Begun::default(), coming, &tasks);
            if leaves {
                tasks.token().cancel();
            }
            let mut told = Vec::new();
            while let Some(piece) = passed.events.recv().await {
                told.push(piece.event);
            }
            let Some(ReplyEvent::PipelineAborted { code, .. }) = told.last() else {
                panic!("it has no end: {told:?}");
            };
            let kept = book.run(move |books| books.kept.get(talk)).await.unwrap().messages;
            let failed = Finish::Failed { code: "worker_crashed".to_owned() };
            let expected =
                if leaves { ("draining", Finish::Interrupted) } else { ("worker_crashed", failed) };
            assert_eq!((code.as_str(), kept[1].finish.clone()), expected);
            assert_eq!(kept[1].text.as_str(), if begins { "One" } else { "" });
        }
    }

    #[tokio::test]
    async fn what_is_thought_is_kept_beside_the_words_and_counts_as_tokens() {
        let form = ReplyForm { thought: Thought::Perhaps, ..ReplyForm::plain() };
        let pieces = vec![
            piece(ReplyEvent::Started { prompt_tokens: 3, route: route("a"), predicted: None }),
            delta("<thi", 1),
            delta("nk>\nHm", 2),
            delta("m.</think>\n\nYes", 4),
            delta(".", 5),
            aborted(),
        ];
        let begun = Begun { thought_ms: 700, ..Begun::default() };
        let view = kept_of(form, begun, pieces).await;
        assert_eq!(view.text, "Yes.");
        let thought = view.thought.unwrap();
        assert_eq!(thought.text, "Hmm.");
        assert!(thought.ms >= 700, "{}", thought.ms);
        assert_eq!(view.path.unwrap().completion_tokens, 5);
        // One that was cut in its middle is kept too.
        let form = ReplyForm { thought: Thought::Open { end: "</think>" }, ..ReplyForm::plain() };
        let started = ReplyEvent::Started { prompt_tokens: 3, route: route("a"), predicted: None };
        let view =
            kept_of(form, Begun::default(), vec![piece(started), delta("Hm </th", 1), aborted()])
                .await;
        assert_eq!((view.text.as_str(), view.thought.unwrap().text.as_str()), ("", "Hm </th"));
    }

    #[tokio::test]
    async fn a_door_that_leaves_before_the_reply_begins_gives_its_place_back() {
        let mut chats = Chats::in_memory().unwrap();
        let talk = chats.create("x", 1).unwrap();
        let asked = chats.add(talk, None, Role::User, "x", 1).unwrap();
        let message = chats.begin_reply(talk, asked, "ember", 1).unwrap();
        let book = ChatBook::start(chats, mpsc::channel(1).0, &Tasks::new()).unwrap();
        let tasks = Tasks::new();
        for is_refused in [true, false] {
            let (mut answer, coming) = oneshot::channel();
            let mut kept = keep(book.clone(), message, Begun::default(), coming, &tasks);
            if is_refused {
                let _ = answer.send(Err(NodeError::from(ErrorCode::TooLong)));
                let end = kept.events.recv().await.unwrap().event;
                assert!(
                    matches!(end, ReplyEvent::PipelineAborted { code, .. } if code == "too_long")
                );
                book.run(move |books| books.kept.resume(message)).await.unwrap();
                continue;
            }
            drop(kept);
            answer.closed().await;
        }
        assert!(tasks.shut_down(Duration::from_secs(60)).await);
        let all = book.run(move |books| books.kept.get(talk)).await.unwrap().messages;
        assert_eq!(all[1].finish, Finish::Stopped);
    }

    #[tokio::test]
    async fn what_a_reply_had_before_it_went_on_counts_in_the_whole() {
        let summary = ReplySummary {
            model: "ember".to_owned(),
            finish_reason: FinishReason::Stop,
            prompt_tokens: 3,
            completion_tokens: 2,
            route: route("b"),
            tokens_per_second: 9.0,
            first_token_ms: 1.0,
            resumed_tokens: 0,
            computed_tokens: 5,
            failovers: vec![failover()],
            total_ms: 4.0,
            timeline: vec![part(1, 2)],
            predicted: None,
            shared: Vec::new(),
        };
        let pieces = vec![
            piece(ReplyEvent::Started { prompt_tokens: 3, route: route("a"), predicted: None }),
            delta("two", 2),
            piece(ReplyEvent::Done { summary }),
        ];
        let timeline = vec![part(1, 10)];
        let stretches = vec![StretchView { at: 0, after_tokens: 0, route: route("b") }];
        let stretches = Stretches::behind("One ", stretches);
        let failovers = vec![failover()];
        let begun = Begun { tokens: 10, failovers, timeline, stretches, thought_ms: 0 };
        let view = kept(begun, pieces).await;
        assert_eq!(places(&view.stretches), [(0, 0, "b"), (4, 10, "a")]);
        let summary = view.summary.unwrap();
        assert_eq!(summary.completion_tokens, 12);
        let places: Vec<_> = summary.failovers.iter().map(|one| one.after_tokens).collect();
        assert_eq!(places, [1, 11]);
        let spans = summary.timeline.iter().map(|part| [part.first_token, part.last_token]);
        assert_eq!(spans.collect::<Vec<_>>(), [[1, 10], [11, 12]]);
    }
}
