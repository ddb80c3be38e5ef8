//! Kept conversations over a real house with a real worker: stopping and going on, editing, chats
//! that are not kept, files, and what the owner chooses in the window.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use nook_api::views::{
    CapabilitiesView, ChatRole, ExportAsk, MessageFinish, MessageView, PoolingView, ReplyEvent,
    SettingAsk,
};
use nook_api::{ChatStart, NodeHandle, Reach, StartedTurn, Turn, TurnText};
use nook_base::{ErrorCode, ReplyChoices, Sensitive, ThinkingChoice};
use nook_node::{NodeOptions, WorkerCommand};
use nook_testkit::Throttle;

/// A test that waits longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Node {
    house: NodeHandle,
    home: tempfile::TempDir,
}

impl Node {
    /// A house that always takes the likeliest token.
    async fn start() -> Self {
        Self::start_with("").await
    }

    /// The same with more settings.
    async fn start_with(more: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings = concat!(
            "[device]\nname = \"Kitchen laptop\"\nkeyring = \"off\"\n",
            "[network]\nlisten_port = 0\nloopback = true\n",
            "[port]\nenabled = false\n",
            "[chat]\ntemperature = 0.0\n",
        );
        let settings = settings.to_owned() + more;
        std::fs::write(home.path().join("settings.toml"), settings).unwrap();
        let program = tokio::task::spawn_blocking(nook_testkit::nook).await.unwrap().unwrap();
        let worker = WorkerCommand { program: program.into(), arguments: vec!["worker".into()] };
        let options = NodeOptions { home: Some(home.path().to_owned()), worker };
        Self { house: nook_node::start(options).await.unwrap(), home }
    }

    async fn say(&self, conversation: Option<i64>, text: TurnText) -> StartedTurn {
        self.begin(conversation, text, ChatStart::default()).await
    }

    async fn begin(
        &self,
        conversation: Option<i64>,
        text: TurnText,
        start: ChatStart,
    ) -> StartedTurn {
        let model = "ember".to_owned();
        let turn = Turn { conversation, start, text, model, reach: Reach::ThisDevice };
        tokio::time::timeout(PATIENCE, self.house.say(turn)).await.unwrap().unwrap()
    }

    async fn messages(&self, conversation: i64) -> Vec<MessageView> {
        self.house.messages(conversation).await.unwrap()
    }

    /// Its worker, slow from now on: whatever is stopped in its middle is far from its end then.
    async fn slow(&self) -> Throttle {
        let mut turn = self.say(None, new("Hello", None)).await;
        listen(&mut turn, 1).await;
        Throttle::start(nook_testkit::workers_of(&self.house).await.unwrap(), 16)
    }

    /// The reply as it is kept once it has ended.
    async fn ended(&self, conversation: i64, reply: i64) -> MessageView {
        let wait = async {
            loop {
                let all = self.messages(conversation).await;
                let found = all.into_iter().find(|message| message.id == reply).unwrap();
                if found.finish != MessageFinish::Running {
                    return found;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the reply should end")
    }
}

fn new(text: &str, parent: Option<i64>) -> TurnText {
    TurnText::New { text: Sensitive(text.to_owned()), parent }
}

/// Listens until `tokens` have come, or to the end.
async fn listen(turn: &mut StartedTurn, tokens: u32) {
    let heard = async {
        while let Some(piece) = turn.reply.events.recv().await {
            match piece.event {
                ReplyEvent::TokenDelta { tokens: so_far, .. } if so_far >= tokens => return,
                ReplyEvent::PipelineAborted { code, sentence, .. } => panic!("{code}: {sentence}"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("words should come");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_reply_keeps_words_and_route_and_goes_on_behind_them() {
    let node = Node::start().await;
    let slow = node.slow().await;
    let mut turn = node.say(None, new("Tell me a story about a fox.", None)).await;
    let (conversation, reply) = (turn.conversation, turn.reply_message);
    listen(&mut turn, 12).await;
    drop((turn, slow));
    let cut = node.ended(conversation, reply).await;
    assert_eq!(cut.finish, MessageFinish::Stopped);
    assert!(!cut.text.is_empty());
    let path = cut.path.expect("who computed it is known");
    assert!(path.route.legs.iter().all(|leg| leg.local) && path.completion_tokens >= 12);
    assert!(matches!(&cut.stretches[..], [all] if all.at == 0 && all.route == path.route));

    let mut turn = node.say(Some(conversation), TurnText::More(reply)).await;
    assert_eq!(turn.reply_message, reply);
    listen(&mut turn, u32::MAX).await;
    let whole = node.ended(conversation, reply).await;
    assert!(whole.text.starts_with(&cut.text) && whole.text.len() > cut.text.len());
    assert_eq!(whole.stretches, cut.stretches, "the same route went on");
    let summary = whole.summary.unwrap();
    assert!(summary.completion_tokens > path.completion_tokens);
    // Who did what is kept with the message, for the tokens that came now.
    let [part] = &summary.timeline[..] else { panic!("{:?}", summary.timeline) };
    assert!(part.local && part.first_token == path.completion_tokens + 1, "{part:?}");
    assert_eq!(part.last_token, summary.completion_tokens);
    assert!(summary.total_ms >= part.prompt.compute_ms + part.reply.compute_ms, "{summary:?}");
    assert_eq!(node.messages(conversation).await.len(), 2, "nothing was added beside it");
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_has_its_handle_at_once_and_can_be_stopped() {
    let one = "[distributed_inference]\nmax_concurrent_pipelines = 1\n";
    let node = Node::start_with(one).await;
    let slow = node.slow().await;
    let mut first = node.say(None, new("Tell me a story about a fox.", None)).await;
    listen(&mut first, 3).await;
    let held = slow.stand_still();
    // Nobody is answered from here on, and whatever is asked for comes back all the same.
    let second = node.say(None, new("And one about a hen.", None)).await;
    let (conversation, reply) = (second.conversation, second.reply_message);
    let kept = node.messages(conversation).await;
    assert_eq!(kept.last().unwrap().finish, MessageFinish::Running);
    drop(second);
    assert_eq!(node.ended(conversation, reply).await.finish, MessageFinish::Stopped);
    let again = node.say(Some(conversation), TurnText::Again(kept[0].id)).await;
    let rest = node.say(Some(conversation), TurnText::More(reply)).await;
    assert_eq!(rest.reply_message, reply);
    let sibling = again.reply_message;
    drop((again, rest));
    for reply in [reply, sibling] {
        let stopped = node.ended(conversation, reply).await;
        assert_eq!((stopped.finish, stopped.text.as_str()), (MessageFinish::Stopped, ""));
    }
    // Those who left have given their places back; beyond the places a turn is refused.
    let mut waiting = Vec::new();
    for _ in 0..nook_api::REPLIES_WAITING_MAX {
        waiting.push(node.say(None, new("Hello", None)).await);
    }
    let (text, model) = (new("Hello", None), "ember".to_owned());
    let start = ChatStart::default();
    let turn = Turn { conversation: None, start, text, model, reach: Reach::ThisDevice };
    assert_eq!(node.house.say(turn).await.unwrap_err().code, ErrorCode::Busy);
    drop((waiting, first, held));
    let mut last = node.say(None, new("Hello", None)).await;
    listen(&mut last, 2).await;
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_first_message_stands_beside_the_old_one_and_files_come_back() {
    let node = Node::start().await;
    let mut turn = node.say(None, new("Hello", None)).await;
    listen(&mut turn, 3).await;
    let conversation = turn.conversation;
    drop(turn);
    let mut turn = node.say(Some(conversation), new("Good evening", None)).await;
    listen(&mut turn, 3).await;
    let reply = turn.reply_message;
    drop(turn);
    node.ended(conversation, reply).await;
    let all = node.messages(conversation).await;
    let beginnings: Vec<_> = all.iter().filter(|message| message.parent.is_none()).collect();
    assert_eq!(beginnings.len(), 2);
    assert!(beginnings.iter().all(|message| message.role == ChatRole::User));

    let file = node.house.export_conversation(conversation, ExportAsk::Json).await.unwrap();
    let copy = node.house.import_conversation(file.clone().into()).await.unwrap();
    assert_eq!(node.house.export_conversation(copy, ExportAsk::Json).await.unwrap(), file);
    let found = node.house.conversations(Some("evening".to_owned())).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|one| one.excerpt.is_some()));
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_is_not_kept_leaves_nothing_in_any_file() {
    let node = Node::start().await;
    let canary = "xylophonequartz";
    let instructions = Sensitive(canary.to_owned());
    let start = ChatStart { temporary: true, instructions, ..ChatStart::default() };
    let mut turn = node.begin(None, new(canary, None), start).await;
    listen(&mut turn, 3).await;
    let (conversation, reply) = (turn.conversation, turn.reply_message);
    drop(turn);
    node.ended(conversation, reply).await;
    assert!(node.house.conversations(None).await.unwrap().is_empty());
    for (path, bytes) in nook_testkit::files_below(node.home.path()).unwrap() {
        let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!found, "{} holds it", path.display());
    }
    node.house.delete_conversation(conversation).await.unwrap();
    let gone = node.house.messages(conversation).await.unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_person_made_of_a_reply_is_what_the_model_reads() {
    let node = Node::start().await;
    let mut turn = node.say(None, new("Tell me a story about a fox.", None)).await;
    let (conversation, reply) = (turn.conversation, turn.reply_message);
    listen(&mut turn, u32::MAX).await;
    let made = node.ended(conversation, reply).await;
    assert!(!made.reworded);
    let refused = node.house.reword_reply(reply, Sensitive(" \n".to_owned())).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::BadRequest);

    let words = Sensitive("The fox slept.".to_owned());
    let reworded = node.house.reword_reply(reply, words).await.unwrap();
    let after_both = async |parent| {
        let mut next = node.say(Some(conversation), new("And then?", Some(parent))).await;
        listen(&mut next, u32::MAX).await;
        let end = node.ended(conversation, next.reply_message).await;
        end.summary.expect("it ended by itself").prompt_tokens
    };
    let (long, short) = (after_both(reply).await, after_both(reworded).await);
    assert!(short < long, "the prompt holds what shows: {short} of {long} tokens");
    let all = node.messages(conversation).await;
    let kept = all.iter().find(|message| message.id == reworded).unwrap();
    assert_eq!((kept.text.as_str(), kept.reworded), ("The fox slept.", true));
    assert_eq!((kept.parent, &kept.summary), (made.parent, &None));
    assert!(all.contains(&made), "what the model wrote stays as it was");
}

/// Beginnings of a story that are looked at for another one.
const OPENINGS_MAX: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn how_freely_words_are_chosen_is_the_owners_choice() {
    let node = Node::start().await;
    let opening = async || {
        let mut turn = node.say(None, new("Tell me a story about a fox.", None)).await;
        let (conversation, reply) = (turn.conversation, turn.reply_message);
        listen(&mut turn, 24).await;
        drop(turn);
        let text = node.ended(conversation, reply).await.text;
        text.chars().take(40).collect::<String>()
    };
    assert_eq!(opening().await, opening().await, "0 always takes the likeliest");
    node.house.change_setting(SettingAsk::new("chat.temperature", 2)).await.unwrap();
    // Ember is so sure of its beginnings that several in a row may be alike.
    let first = opening().await;
    for _ in 0..OPENINGS_MAX {
        if opening().await != first {
            node.house.shut_down().await;
            return;
        }
    }
    panic!("always `{first}`");
}

/// A template that says what it was told; only the length of a prompt is seen from outside.
const TELLING: &str = "{% for m in messages %}{{ m.content }}{% endfor %}\
                       {{ 'a b c d' if enable_thinking }}\
                       {{ 'a b' if enable_thinking is defined and not enable_thinking }}\
                       {# </think> #}";

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_model_thinks_first_is_the_owners_choice() {
    let node = Node::start().await;
    let built_in = node.home.path().join(&node.house.now().models[0].file);
    let file = node.home.path().join("telling.gguf");
    std::fs::write(&file, crate::hostile::templated(&built_in, TELLING).unwrap()).unwrap();
    node.house.import_model(file, Some("telling".to_owned())).await.unwrap();
    for (model, thinks) in [("telling", true), ("ember", false)] {
        let can = node.house.capabilities(model.to_owned()).await.unwrap();
        assert_eq!(can, CapabilitiesView { thinks, fills_gaps: false }, "{model}");
    }
    let unknown = node.house.capabilities("nothing".to_owned()).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::NotFound);
    let prompt_tokens = async |choices| {
        let (start, text) = (ChatStart { choices, ..ChatStart::default() }, new("Hello", None));
        let (model, reach) = ("telling".to_owned(), Reach::ThisDevice);
        let turn = Turn { conversation: None, start, text, model, reach };
        let mut turn = node.house.say(turn).await.unwrap();
        let begun = async {
            loop {
                let piece = turn.reply.events.recv().await.expect("it begins");
                if let ReplyEvent::Started { prompt_tokens, .. } = piece.event {
                    return prompt_tokens;
                }
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.unwrap()
    };
    let unchosen = ReplyChoices::default();
    let usual = prompt_tokens(unchosen).await;
    node.house.change_setting(SettingAsk::new("chat.thinking", "off")).await.unwrap();
    let off = prompt_tokens(unchosen).await;
    node.house.change_setting(SettingAsk::new("chat.thinking", "on")).await.unwrap();
    let on = prompt_tokens(unchosen).await;
    assert!(usual < off && off < on, "{usual} {off} {on}");
    // What was chosen for a conversation goes before the setting.
    for (thinking, expected) in
        [(ThinkingChoice::Usual, usual), (ThinkingChoice::Off, off), (ThinkingChoice::On, on)]
    {
        let chosen = ReplyChoices { thinking: Some(thinking), ..unchosen };
        assert_eq!(prompt_tokens(chosen).await, expected, "{thinking:?}");
    }
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_named_by_its_model_unless_its_owner_has_named_it_or_does_not_want_that() {
    let node = Node::start().await;
    let built_in = node.home.path().join(&node.house.now().models[0].file);
    let file = node.home.path().join("plain.gguf");
    // It goes on with the first message, whatever is asked last; the file's padding is stripped.
    let plain = "{{ messages[-1].content }}\n{{ messages[0].content -}}";
    std::fs::write(&file, crate::hostile::templated(&built_in, plain).unwrap()).unwrap();
    node.house.import_model(file, Some("plain".to_owned())).await.unwrap();
    node.house.change_setting(SettingAsk::new("chat.temperature", 0)).await.unwrap();
    let answered = async |model: &str| {
        let (start, text) = (ChatStart::default(), new("Lily", None));
        let (model, reach) = (model.to_owned(), Reach::ThisDevice);
        let turn = Turn { conversation: None, start, text, model, reach };
        let mut turn = node.house.say(turn).await.unwrap();
        while let Some(piece) = turn.reply.events.recv().await {
            assert!(!matches!(piece.event, ReplyEvent::PipelineAborted { .. }), "{piece:?}");
        }
        turn.conversation
    };
    let title = async |id: i64| {
        let listed = node.house.conversations(None).await.unwrap();
        listed.into_iter().find(|one| one.id == id).unwrap().title
    };
    let entitled = async |id: i64| node.house.entitle_conversation(id).await.unwrap();
    let id = answered("plain").await;
    assert_eq!(title(id).await, "Lily");
    node.house.change_setting(SettingAsk::new("chat.titles", false)).await.unwrap();
    assert_eq!(entitled(id).await, None, "its owner does not want that");
    node.house.change_setting(SettingAsk::new("chat.titles", true)).await.unwrap();
    let made = entitled(id).await.expect("a title");
    assert_eq!(title(id).await, made);
    assert!(made.chars().count() <= 60 && made != "Lily", "{made}");
    assert_eq!(entitled(id).await, None, "it is not called by its first words any more");
    let named = answered("plain").await;
    node.house.rename_conversation(named, "Mine".to_owned()).await.unwrap();
    assert_eq!(entitled(named).await, None);
    assert_eq!(title(named).await, "Mine");
    assert_eq!(entitled(answered("ember").await).await, None, "Ember tells stories");
    node.house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_chooses_is_shown_and_kept_and_nonsense_is_refused() {
    const STREAMS: &str = "distributed_inference.host.max_concurrent_streams";
    let node = Node::start().await;
    let house = &node.house;
    for setting in [
        SettingAsk::new("gate.borrow", "own"),
        SettingAsk::new(STREAMS, 3),
        SettingAsk::new("distributed_inference.pooling", "always"),
    ] {
        house.change_setting(setting).await.unwrap();
    }
    let refused = house.change_setting(SettingAsk::new(STREAMS, 0)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::BadRequest);
    assert!(refused.sentence.contains("from 1 to 64"), "{}", refused.sentence);
    let shown = house.now().settings.clone();
    assert_eq!(shown.values["gate.borrow"], "own".into());
    assert_eq!(shown.values[STREAMS], 3.into());
    assert_eq!(house.pipeline().await.unwrap().pooling, PoolingView::Always);
    let before = house.port_settings().await.unwrap().key;
    let renewed = house.renew_port_key().await.unwrap();
    assert!(renewed != before && renewed == house.port_settings().await.unwrap().key);
    house.shut_down().await;
}
