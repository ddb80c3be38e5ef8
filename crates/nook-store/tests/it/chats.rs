//! Conversations: the tree, streaming, search, damage, and restarts.

use std::fs;

use nook_base::{ReplyChoices, ThinkingChoice};
use nook_store::{
    Chats, ChatsError, ConversationId, FOLDER_CHARS_MAX, Finish, Home, HomeChoice,
    IMPORTED_MESSAGES_MAX, INSTRUCTIONS_BYTES_MAX, ImportedMessage, MESSAGE_BYTES_MAX, Message,
    MessageId, Role,
};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

fn chats() -> Chats {
    Chats::in_memory().expect("a database in memory")
}

fn open(folder: &tempfile::TempDir) -> Home {
    Home::open(&HomeChoice::At(folder.path().to_owned())).expect("a home")
}

#[test]
fn regenerating_and_editing_keep_their_siblings() {
    let mut chats = chats();
    let talk = chats.create("Stars", NOW).unwrap();
    let question = chats.add(talk, None, Role::User, "Why do stars shine?", NOW).unwrap();
    let first = chats.begin_reply(talk, question, "ember", NOW + 1).unwrap();
    chats.append(first, "Because ").unwrap();
    chats.append(first, "they burn.").unwrap();
    chats.finish(first, &Finish::Stopped, None, NOW + 2).unwrap();
    let second = chats.begin_reply(talk, question, "ember", NOW + 3).unwrap();
    chats.append(second, "Fusion.").unwrap();
    let route = r#"[{"device":"desk","layers":[2,5]}]"#;
    chats.finish(second, &Finish::Complete, Some(route), NOW + 4).unwrap();
    let edited = chats.add(talk, None, Role::User, "Why do suns shine?", NOW + 5).unwrap();

    let conversation = chats.get(talk).unwrap();
    let parents: Vec<_> = conversation.messages.iter().map(|m| m.parent).collect();
    assert_eq!(parents, [None, Some(question), Some(question), None]);
    assert_eq!(conversation.entry.leaf, Some(edited));
    assert_eq!(conversation.entry.changed, NOW + 5);
    assert_eq!(conversation.messages[1].text.as_str(), "Because they burn.");
    assert_eq!(conversation.messages[1].finish, Finish::Stopped);
    assert_eq!(conversation.messages[2].route.as_deref(), Some(route));
    assert_eq!(conversation.messages[2].model.as_deref(), Some("ember"));
    let branch =
        |leaf| -> Vec<MessageId> { conversation.branch(leaf).iter().map(|m| m.id).collect() };
    assert_eq!(branch(second), [question, second]);
    assert_eq!(branch(edited), [edited]);

    chats.show(talk, first).unwrap();
    assert_eq!(chats.get(talk).unwrap().entry.leaf, Some(first));
}

#[test]
fn a_reply_cut_off_by_the_end_of_the_program_is_kept_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let talk;
    {
        let mut chats = Chats::open(&home).unwrap();
        talk = chats.create("Tale", NOW).unwrap();
        let question = chats.add(talk, None, Role::User, "Tell me", NOW).unwrap();
        let reply = chats.begin_reply(talk, question, "ember", NOW).unwrap();
        chats.append(reply, "Once upon a dragonfly").unwrap();
        assert!(chats.search("dragonfly", 9).unwrap().is_empty(), "not yet whole");
    }
    let mut chats = Chats::open(&home).unwrap();
    let reply = chats.get(talk).unwrap().messages.pop().unwrap();
    assert_eq!(reply.text.as_str(), "Once upon a dragonfly");
    assert_eq!(reply.finish, Finish::Interrupted);
    assert_eq!(chats.append(reply.id, "!"), Err(ChatsError::NotRunning));
    assert_eq!(chats.search("dragonfly", 9).unwrap().len(), 1);
}

#[test]
fn lists_are_by_last_change_and_deletion_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut chats = Chats::open(&home).unwrap();
    let old = chats.create("old", NOW).unwrap();
    let new = chats.create("new", NOW + 1).unwrap();
    let canary = "xylophonequartz";
    let said = chats.add(old, None, Role::User, canary, NOW + 2).unwrap();
    chats.add(new, None, Role::User, "hello", NOW + 1).unwrap();
    let ids = |chats: &Chats| -> Vec<ConversationId> {
        chats.list(10).unwrap().iter().map(|entry| entry.id).collect()
    };
    assert_eq!(ids(&chats), [old, new]);
    assert_eq!(chats.list(1).unwrap().len(), 1);

    chats.rename(old, "a\u{0}b\nc").unwrap();
    assert_eq!(chats.get(old).unwrap().entry.title.as_str(), "abc");
    chats.delete(old).unwrap();
    assert_eq!(ids(&chats), [new]);
    assert_eq!(chats.get(old), Err(ChatsError::NoConversation));
    assert_eq!(chats.delete(old), Err(ChatsError::NoConversation));
    assert_eq!(chats.rename(old, "x"), Err(ChatsError::NoConversation));
    assert_eq!(chats.append(said, "x"), Err(ChatsError::NotRunning));
    assert!(chats.search(canary, 9).unwrap().is_empty());
    let id = chats.create("third", NOW).unwrap();
    assert!(id > new, "an id is never given twice");

    drop(chats);
    for entry in fs::read_dir(home.data()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap_or_default();
        let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!found, "deleted text is still in {}", path.display());
    }
}

#[test]
fn a_cut_reply_goes_on_with_its_text_and_a_whole_one_does_not() {
    let mut chats = chats();
    let talk = chats.create("Tale", NOW).unwrap();
    let question = chats.add(talk, None, Role::User, "Tell me", NOW).unwrap();
    let reply = chats.begin_reply(talk, question, "ember", NOW).unwrap();
    assert_eq!(chats.resume(reply), Err(ChatsError::NotCut), "it is being written");
    chats.append(reply, "Once upon").unwrap();
    chats.note_route(reply, "first").unwrap();
    chats.finish(reply, &Finish::Stopped, None, NOW).unwrap();
    assert_eq!(chats.note_route(reply, "late"), Err(ChatsError::NotRunning));
    assert_eq!(chats.search("upon", 9).unwrap().len(), 1);

    chats.resume(reply).unwrap();
    assert!(chats.search("upon", 9).unwrap().is_empty(), "it grows again");
    chats.append(reply, " a dragonfly").unwrap();
    chats.finish(reply, &Finish::Complete, Some("second"), NOW).unwrap();
    let message = chats.get(talk).unwrap().messages.pop().unwrap();
    assert_eq!(message.text.as_str(), "Once upon a dragonfly");
    assert_eq!(message.route.as_deref(), Some("second"));
    assert_eq!(chats.search("upon dragonfly", 9).unwrap().len(), 1);
    assert_eq!(chats.resume(reply), Err(ChatsError::NotCut));
    assert_eq!(chats.resume(question), Err(ChatsError::NotCut));
}

#[test]
fn the_route_of_a_reply_that_was_cut_off_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let talk = {
        let mut chats = Chats::open(&home).unwrap();
        let talk = chats.create("Tale", NOW).unwrap();
        let question = chats.add(talk, None, Role::User, "Tell me", NOW).unwrap();
        let reply = chats.begin_reply(talk, question, "ember", NOW).unwrap();
        chats.note_route(reply, "who computed what").unwrap();
        talk
    };
    let reply = Chats::open(&home).unwrap().get(talk).unwrap().messages.pop().unwrap();
    assert_eq!(reply.route.as_deref(), Some("who computed what"));
}

#[test]
fn instructions_and_where_to_compute_belong_to_the_conversation() {
    let mut chats = chats();
    let talk = chats.create("Tale", NOW).unwrap();
    let entry = chats.get(talk).unwrap().entry;
    assert!(entry.instructions.is_empty() && !entry.only_here);
    chats.instruct(talk, "Be brief.").unwrap();
    chats.confine(talk, true).unwrap();
    let entry = &chats.list(1).unwrap()[0];
    assert!(entry.instructions.as_str() == "Be brief." && entry.only_here);
    assert_eq!(entry.choices, ReplyChoices::default());
    for thinking in ThinkingChoice::ALL {
        let choices = ReplyChoices { thinking: Some(thinking), temperature: Some(0.25) };
        chats.tune(talk, choices).unwrap();
        assert_eq!(chats.get(talk).unwrap().entry.choices, choices);
    }
    let hot = ReplyChoices { thinking: None, temperature: Some(2.5) };
    assert_eq!(chats.tune(talk, hot), Err(ChatsError::BadTemperature));
    chats.tune(talk, ReplyChoices::default()).unwrap();
    assert_eq!(chats.get(talk).unwrap().entry.choices, ReplyChoices::default());
    let long = "x".repeat(INSTRUCTIONS_BYTES_MAX + 1);
    let refused = chats.instruct(talk, &long).unwrap_err();
    assert_eq!(refused, ChatsError::InstructionsTooLong { bytes: long.len() });
    assert_eq!(refused.to_string(), "the instructions have 65537 bytes, at most 65536 are kept");
    let nowhere = ConversationId(99);
    assert_eq!(chats.instruct(nowhere, "x"), Err(ChatsError::NoConversation));
    assert_eq!(chats.confine(nowhere, true), Err(ChatsError::NoConversation));
}

#[test]
fn ids_tell_what_is_not_kept() {
    let mut passing = Chats::passing().unwrap();
    let talk = passing.create("x", NOW).unwrap();
    let said = passing.add(talk, None, Role::User, "x", NOW).unwrap();
    assert!(talk.is_passing() && said.is_passing());
    let mut kept = chats();
    let talk = kept.create("x", NOW).unwrap();
    let said = kept.add(talk, None, Role::User, "x", NOW).unwrap();
    assert!(!talk.is_passing() && !said.is_passing());
}

fn imported(parent: Option<usize>, text: &str) -> ImportedMessage {
    ImportedMessage {
        parent,
        role: Role::User,
        text: nook_base::Sensitive(text.to_owned()),
        thought: None,
        model: None,
        finish: Finish::Running,
        created: NOW,
    }
}

#[test]
fn an_imported_conversation_is_whole_or_not_there() {
    let mut chats = chats();
    let tree = [imported(None, "zebra"), imported(Some(0), "b"), imported(Some(0), "c")];
    let talk = chats.import("Zoo", "Be kind.", &tree, NOW).unwrap();
    let back = chats.get(talk).unwrap();
    let ids: Vec<_> = back.messages.iter().map(|m| m.id).collect();
    let parents: Vec<_> = back.messages.iter().map(|m| m.parent).collect();
    assert_eq!(parents, [None, Some(ids[0]), Some(ids[0])]);
    assert_eq!(back.messages[0].finish, Finish::Interrupted, "nothing writes it any more");
    assert_eq!(back.entry.leaf, ids.last().copied());
    assert_eq!(back.entry.instructions.as_str(), "Be kind.");
    assert_eq!(chats.search("zebra", 9).unwrap().len(), 1);

    let bad = [imported(None, "a"), imported(Some(1), "b")];
    assert!(matches!(chats.import("x", "", &bad, NOW), Err(ChatsError::BadImport { .. })));
    let many: Vec<_> = (0..=IMPORTED_MESSAGES_MAX).map(|_| imported(None, "")).collect();
    assert!(matches!(chats.import("x", "", &many, NOW), Err(ChatsError::BadImport { .. })));
    assert_eq!(chats.list(9).unwrap().len(), 1);
}

#[test]
fn a_pinned_conversation_stands_before_newer_ones_and_is_found_beyond_the_limit() {
    let mut chats = chats();
    let old = chats.create("Recipes", NOW).unwrap();
    let newer = chats.create("Homework", NOW + 1).unwrap();
    chats.pin(old, true).unwrap();
    let listed = |chats: &Chats, limit| -> Vec<(ConversationId, bool)> {
        chats.list(limit).unwrap().iter().map(|it| (it.id, it.pinned)).collect()
    };
    assert_eq!(listed(&chats, 9), [(old, true), (newer, false)]);
    assert_eq!(listed(&chats, 0), [(old, true)], "whatever the limit");
    chats.pin(old, false).unwrap();
    assert_eq!(listed(&chats, 9), [(newer, false), (old, false)]);
    assert_eq!(chats.pin(ConversationId(99), true), Err(ChatsError::NoConversation));
}

#[test]
fn what_is_archived_stands_behind_all_others_until_somebody_talks_there_again() {
    let mut chats = chats();
    let old = chats.create("Recipes", NOW).unwrap();
    let newer = chats.create("Homework", NOW + 1).unwrap();
    let listed = |chats: &Chats| -> Vec<(ConversationId, bool, bool)> {
        chats.list(9).unwrap().iter().map(|it| (it.id, it.pinned, it.archived)).collect()
    };
    chats.pin(newer, true).unwrap();
    chats.archive(newer, true).unwrap();
    assert_eq!(listed(&chats), [(old, false, false), (newer, false, true)], "nor is it pinned");
    chats.pin(newer, true).unwrap();
    assert_eq!(listed(&chats), [(newer, true, false), (old, false, false)], "nor put away");
    chats.archive(old, true).unwrap();
    chats.archive(old, false).unwrap();
    assert_eq!(listed(&chats)[1], (old, false, false));
    chats.archive(old, true).unwrap();
    chats.add(old, None, Role::User, "And with cream?", NOW + 2).unwrap();
    assert_eq!(listed(&chats)[1], (old, false, false), "somebody talks there");
    assert_eq!(chats.archive(ConversationId(99), true), Err(ChatsError::NoConversation));
}

#[test]
fn a_folder_holds_its_chats_under_one_name_until_none_is_left() {
    let mut chats = chats();
    let [soup, cake, song] =
        ["Soup", "Cake", "Song"].map(|title| chats.create(title, NOW).unwrap());
    let folders = |chats: &Chats| -> Vec<String> {
        [soup, cake, song].map(|id| chats.entry(id).unwrap().folder.0).to_vec()
    };
    chats.put_in_folder(soup, "  Our \n kitchen ").unwrap();
    chats.put_in_folder(cake, "Baking").unwrap();
    assert_eq!(folders(&chats), ["Our kitchen", "Baking", ""]);
    let listed = |limit| -> Vec<ConversationId> {
        chats.list(limit).unwrap().iter().map(|it| it.id).collect()
    };
    assert_eq!(listed(9), [cake, soup, song], "before newer ones that lie in none");
    assert_eq!(listed(0), [cake, soup], "whatever the limit");

    chats.rename_folder("Baking", "Our kitchen").unwrap();
    assert_eq!(folders(&chats), ["Our kitchen", "Our kitchen", ""], "two become one");
    let asked = chats.add(soup, None, Role::User, "Onions?", NOW).unwrap();
    let branch = chats.branch(asked, NOW).unwrap();
    assert_eq!(chats.entry(branch).unwrap().folder.as_str(), "Our kitchen");
    chats.put_in_folder(cake, "").unwrap();
    chats.rename_folder("Our kitchen", " ").unwrap();
    assert_eq!(folders(&chats), ["", "", ""]);

    let long = "é".repeat(FOLDER_CHARS_MAX + 1);
    chats.put_in_folder(song, &long).unwrap();
    assert_eq!(chats.entry(song).unwrap().folder.chars().count(), FOLDER_CHARS_MAX);
    chats.rename_folder(&long, "Songs").unwrap();
    assert_eq!(folders(&chats)[2], "Songs", "it is found by the name that was typed");
    for gone in ["Our kitchen", "", " "] {
        assert_eq!(chats.rename_folder(gone, "x"), Err(ChatsError::NoFolder), "{gone:?}");
    }
    assert_eq!(chats.put_in_folder(ConversationId(99), "x"), Err(ChatsError::NoConversation));
}

#[test]
fn a_branch_is_a_copy_that_ends_where_it_was_taken() {
    let mut chats = chats();
    let talk = chats.create("Soup", NOW).unwrap();
    chats.instruct(talk, "Be kind.").unwrap();
    chats.confine(talk, true).unwrap();
    let asked = chats.add(talk, None, Role::User, "With onions?", NOW).unwrap();
    let first = chats.begin_reply(talk, asked, "m", NOW).unwrap();
    assert_eq!(chats.branch(first, NOW), Err(ChatsError::Running));
    chats.append(first, "Yes.").unwrap();
    chats.think(first, "Hm.", 7).unwrap();
    chats.finish(first, &Finish::Length, Some("{}"), NOW).unwrap();
    let other = chats.begin_reply(talk, asked, "m", NOW).unwrap();
    chats.finish(other, &Finish::Complete, None, NOW).unwrap();
    chats.add(talk, Some(first), Role::User, "How many?", NOW).unwrap();
    let choices = ReplyChoices { thinking: Some(ThinkingChoice::On), temperature: Some(0.0) };
    chats.tune(talk, choices).unwrap();
    let before = chats.get(talk).unwrap();

    let branch = chats.branch(first, NOW + 9).unwrap();
    let made = chats.get(branch).unwrap();
    assert_eq!(chats.get(talk).unwrap(), before, "the first one is as it was");
    let entry = &made.entry;
    assert_eq!((entry.title.as_str(), entry.instructions.as_str()), ("Soup", "Be kind."));
    assert_eq!((entry.created, entry.changed, entry.only_here), (NOW + 9, NOW + 9, true));
    assert_eq!(entry.choices, choices);
    let [question, reply] = made.messages.as_slice() else { panic!("{made:?}") };
    assert_eq!((question.parent, reply.parent), (None, Some(question.id)));
    assert_eq!(entry.leaf, Some(reply.id));
    let kept = &before.messages[1];
    assert_eq!(Message { id: kept.id, parent: kept.parent, ..reply.clone() }, *kept);
    assert_eq!(chats.search("onions", 9).unwrap().len(), 2, "both are found");
    chats.delete(talk).unwrap();
    assert_eq!(chats.get(branch).unwrap(), made, "it needs the first one no more");
    assert_eq!(chats.branch(MessageId(i64::MAX), NOW), Err(ChatsError::NoMessage));
}

#[test]
fn a_reply_that_was_changed_stands_beside_the_one_that_was_made() {
    let mut chats = chats();
    let talk = chats.create("Soup", NOW).unwrap();
    let asked = chats.add(talk, None, Role::User, "With onions?", NOW).unwrap();
    let made = chats.begin_reply(talk, asked, "m", NOW).unwrap();
    assert_eq!(chats.reword(made, "No.", NOW), Err(ChatsError::Running));
    chats.append(made, "Yes.").unwrap();
    chats.finish(made, &Finish::Length, Some("{}"), NOW).unwrap();

    let changed = chats.reword(made, "Yes, leeks.", NOW + 1).unwrap();
    let kept = chats.get(talk).unwrap();
    assert_eq!(kept.entry.leaf, Some(changed), "it is the one that shows");
    let [_, before, after] = kept.messages.as_slice() else { panic!("{kept:?}") };
    assert_eq!((before.text.as_str(), before.model.as_deref()), ("Yes.", Some("m")));
    assert_eq!((after.parent, after.role), (Some(asked), Role::Assistant));
    assert_eq!((after.text.as_str(), &after.finish), ("Yes, leeks.", &Finish::Complete));
    assert_eq!((&after.model, &after.route), (&None, &None), "no model wrote it");
    assert_eq!(chats.search("leeks", 9).unwrap().len(), 1);

    let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
    assert!(matches!(chats.reword(made, &long, NOW), Err(ChatsError::TooLong { .. })));
    assert_eq!(chats.reword(asked, "Leeks?", NOW), Err(ChatsError::NoMessage), "no reply");
    assert_eq!(chats.reword(MessageId(i64::MAX), "", NOW), Err(ChatsError::NoMessage));
}

#[test]
fn a_file_of_a_version_that_knows_no_pins_gets_them_and_keeps_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let talk = Chats::open(&home).unwrap().create("old", NOW).unwrap();
    let format = |of: &rusqlite::Connection| -> i64 {
        of.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    };
    let old = rusqlite::Connection::open(home.data().join("chats.db")).unwrap();
    old.execute_batch(
        "ALTER TABLE conversation DROP COLUMN pinned;
         ALTER TABLE conversation DROP COLUMN archived;
         ALTER TABLE conversation DROP COLUMN folder;",
    )
    .unwrap();
    let before = format(&old);
    drop(old);
    let mut chats = Chats::open(&home).unwrap();
    chats.pin(talk, true).unwrap();
    drop(chats);
    assert!(Chats::open(&home).unwrap().list(1).unwrap()[0].pinned);
    let after = rusqlite::Connection::open(home.data().join("chats.db")).unwrap();
    assert_eq!(format(&after), before, "or the version before could not open it again");
}

#[test]
fn a_file_of_the_first_format_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let talk = {
        let mut chats = Chats::open(&home).unwrap();
        let talk = chats.create("old", NOW).unwrap();
        chats.add(talk, None, Role::User, "zebra", NOW).unwrap();
        talk
    };
    let old = rusqlite::Connection::open(home.data().join("chats.db")).unwrap();
    old.execute_batch(
        "DROP TRIGGER message_resumed;
         ALTER TABLE conversation DROP COLUMN instructions;
         ALTER TABLE conversation DROP COLUMN only_here;
         ALTER TABLE conversation DROP COLUMN pinned;
         ALTER TABLE conversation DROP COLUMN archived;
         ALTER TABLE conversation DROP COLUMN folder;
         ALTER TABLE conversation DROP COLUMN thinking;
         ALTER TABLE conversation DROP COLUMN temperature;
         ALTER TABLE message DROP COLUMN thought;
         ALTER TABLE message DROP COLUMN thought_ms;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let chats = Chats::open(&home).unwrap();
    let kept = &chats.get(talk).unwrap().messages[0];
    assert_eq!((kept.text.as_str(), &kept.thought), ("zebra", &None));
    assert!(chats.list(1).unwrap()[0].instructions.is_empty());
}

#[test]
fn what_was_thought_is_kept_beside_the_reply_and_not_searched() {
    let mut chats = chats();
    let talk = chats.create("1", NOW).unwrap();
    let said = chats.add(talk, None, Role::User, "x", NOW).unwrap();
    let reply = chats.begin_reply(talk, said, "m", NOW).unwrap();
    assert_eq!(chats.get(talk).unwrap().messages[1].thought, None);
    chats.think(reply, "zebra", 900).unwrap();
    chats.think(reply, " horse", 1700).unwrap();
    chats.append(reply, "Lion.").unwrap();
    let long = "x".repeat(MESSAGE_BYTES_MAX);
    assert!(matches!(chats.think(reply, &long, 1), Err(ChatsError::TooLong { .. })));
    chats.finish(reply, &Finish::Complete, None, NOW).unwrap();
    assert_eq!(chats.think(reply, "x", 1), Err(ChatsError::NotRunning));
    let kept = chats.get(talk).unwrap().messages.remove(1);
    let thought = kept.thought.unwrap();
    assert_eq!((kept.text.as_str(), thought.text.as_str()), ("Lion.", "zebra horse"));
    assert_eq!(thought.milliseconds, 1700);
    assert!(!format!("{thought:?}").contains("zebra"));
    assert!(chats.search("zebra", 9).unwrap().is_empty());
    assert_eq!(chats.search("lion", 9).unwrap().len(), 1);
}

#[test]
fn messages_stay_in_their_conversation() {
    let mut chats = chats();
    let (one, two) = (chats.create("1", NOW).unwrap(), chats.create("2", NOW).unwrap());
    let said = chats.add(one, None, Role::User, "x", NOW).unwrap();
    let foreign = chats.add(two, Some(said), Role::User, "y", NOW);
    assert_eq!(foreign, Err(ChatsError::NoMessage));
    assert_eq!(chats.begin_reply(two, said, "m", NOW), Err(ChatsError::NoMessage));
    assert_eq!(chats.show(two, said), Err(ChatsError::NoMessage));
    let nowhere = ConversationId(99);
    assert_eq!(chats.add(nowhere, None, Role::User, "y", NOW), Err(ChatsError::NoConversation));
    assert_eq!(chats.finish(said, &Finish::Complete, None, NOW), Err(ChatsError::NotRunning));
}

#[test]
fn messages_have_a_longest_length() {
    let mut chats = chats();
    let talk = chats.create("1", NOW).unwrap();
    let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
    let bytes = long.len();
    assert_eq!(chats.add(talk, None, Role::User, &long, NOW), Err(ChatsError::TooLong { bytes }));
    let said = chats.add(talk, None, Role::User, "x", NOW).unwrap();
    let reply = chats.begin_reply(talk, said, "m", NOW).unwrap();
    chats.append(reply, &long[..MESSAGE_BYTES_MAX]).unwrap();
    assert!(matches!(chats.append(reply, "y"), Err(ChatsError::TooLong { .. })));
    chats.finish(reply, &Finish::Length, None, NOW).unwrap();
}

#[test]
fn search_finds_words_beginnings_and_accents_and_takes_any_text() {
    let mut chats = chats();
    let talk = chats.create("Zoo", NOW).unwrap();
    chats.add(talk, None, Role::User, "The café has a\nzebra and a \"giraffe\"", NOW).unwrap();
    for (query, hits) in [
        ("zebra", 1),
        ("ZEB", 1),
        ("cafe zebra", 1),
        ("zebra lion", 0),
        ("eb", 0),
        ("\"giraffe", 1),
        ("", 0),
        ("  ", 0),
        ("***", 0),
        ("OR", 0),
        ("zebra OR", 0),
        ("text:zebra", 0),
        ("a AND (", 1),
        ("-- ; DROP", 0),
    ] {
        assert_eq!(chats.search(query, 9).unwrap().len(), hits, "{query:?}");
    }
    let found = &chats.search("zebra", 9).unwrap()[0];
    assert_eq!(found.title.as_str(), "Zoo");
    assert!(found.excerpt.contains("a zebra and"), "one line");
}

#[test]
fn a_damaged_or_newer_file_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let path = home.data().join("chats.db");
    let rubbish = vec![b'x'; 8192];
    fs::write(&path, &rubbish).unwrap();
    let error = Chats::open(&home).unwrap_err();
    assert!(matches!(error, ChatsError::Damaged { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), rubbish);

    fs::remove_file(&path).unwrap();
    drop(Chats::open(&home).unwrap());
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    drop(newer);
    let error = Chats::open(&home).unwrap_err();
    assert_eq!(error, ChatsError::Newer { path, found: 7, known: 3 });
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let home = open(&folder);
    let mut chats = Chats::open(&home).unwrap();
    chats.create("x", NOW).unwrap();
    for entry in fs::read_dir(home.data()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("chats.db") {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?}", entry.file_name());
        }
    }
}

#[test]
fn no_text_is_in_any_debug_output() {
    let mut chats = chats();
    let talk = chats.create("canary title", NOW).unwrap();
    chats.add(talk, None, Role::User, "canary text", NOW).unwrap();
    let shown = format!("{:?}{:?}", chats.get(talk), chats.search("canary", 9));
    assert!(!shown.contains("canary"), "{shown}");
}

proptest! {
    #[test]
    fn any_query_is_answered_and_any_text_comes_back(query in ".{0,40}", text in "(?s).{0,200}") {
        let mut chats = chats();
        let talk = chats.create("t", NOW).unwrap();
        chats.add(talk, None, Role::User, &text, NOW).unwrap();
        prop_assert!(chats.search(&query, 5).is_ok());
        prop_assert!(chats.search(&text, 5).is_ok());
        let back = chats.get(talk).unwrap();
        prop_assert_eq!(back.messages[0].text.as_str(), text);
    }
}
