//! The vocabulary of requests: who may ask for what, how it is written, and what is never shown.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nook_api::views::PortView;
use nook_api::{
    ACTIONS, Calls, Command, FrontEnd, NodeCalls as _, NodeHandle, NodeParts, PairTarget, PauseFor,
    Request, Response, SettingCommand, TurnText, UnexpectedResponse,
};
use nook_base::tasks::Tasks;
use nook_base::{ErrorCode, ReplyChoices, Sensitive, ThinkingChoice};
use serde_json::json;
use tokio::sync::{mpsc, watch};

/// Stands where a secret is.
const CANARY: &str = "canary-483920";

fn names(is_wanted: impl Fn(&[FrontEnd]) -> bool) -> Vec<&'static str> {
    let wanted = ACTIONS.iter().filter(|action| is_wanted(action.front_ends));
    wanted.map(|action| action.name).collect()
}

#[test]
fn what_one_front_end_alone_may_ask_does_not_change_by_accident() {
    let window = names(|of| of == [FrontEnd::Window]);
    assert_eq!(
        window,
        [
            "capabilities",
            "conversations",
            "messages",
            "rename_conversation",
            "entitle_conversation",
            "delete_conversation",
            "instruct_conversation",
            "confine_conversation",
            "tune_conversation",
            "pin_conversation",
            "archive_conversation",
            "file_conversation",
            "rename_folder",
            "branch_conversation",
            "reword_reply",
            "import_conversation",
            "set_name",
            "renew_port_key",
        ]
    );
    let control = names(|of| of == [FrontEnd::Control]);
    assert_eq!(
        control,
        [
            "doctor",
            "keep_privacy",
            "vitals",
            "bring_update",
            "restart_when_quiet",
            "call_off_restart",
            "started_as",
            "has_come_up",
            "view",
            "shut_down",
        ]
    );
    assert_eq!(names(<[FrontEnd]>::is_empty), ["export_conversation"]);
    let both = names(|of| of == [FrontEnd::Window, FrontEnd::Control]);
    assert_eq!(window.len() + control.len() + both.len() + 1, ACTIONS.len());
}

#[test]
fn every_action_is_known_by_its_name_and_no_other_is() {
    for action in ACTIONS {
        let read = serde_json::from_value::<Request>(json!({ "action": action.name }));
        match (read, action.arguments) {
            (Ok(request), _) => assert_eq!(request.action().name, action.name),
            // An argument that may be absent is not missed; the first of the others is named.
            (Err(error), arguments) => {
                let error = error.to_string();
                let is_missed = |argument: &&str| error == format!("missing field `{argument}`");
                assert!(arguments.iter().any(is_missed), "{}: {error}", action.name);
            }
        }
    }
    assert!(serde_json::from_value::<Request>(json!({ "action": "make_tea" })).is_err());
}

#[test]
fn requests_are_written_as_the_page_writes_them() {
    let target = PairTarget::Seen("abc".to_owned());
    let join = Request::Join { target, code: Sensitive("483920".to_owned()) };
    let written = json!({
        "action": "join", "target": { "kind": "seen", "at": "abc" }, "code": "483920",
    });
    assert_eq!(serde_json::to_value(&join).unwrap(), written);
    let pause = Request::PauseSharing { span: PauseFor::UntilTomorrow };
    let written = json!({ "action": "pause_sharing", "span": "until_tomorrow" });
    assert_eq!(serde_json::to_value(&pause).unwrap(), written);
    let response = Response::ImportConversation(7);
    assert_eq!(serde_json::to_value(&response).unwrap(), json!({ "import_conversation": 7 }));
    let said = TurnText::New { text: Sensitive("Hello".to_owned()), parent: None };
    let written = json!({ "kind": "new", "message": { "text": "Hello", "parent": null } });
    assert_eq!(serde_json::to_value(&said).unwrap(), written);
}

#[cfg(unix)]
#[test]
fn a_path_that_is_no_text_comes_through_as_it_was() {
    use std::os::unix::ffi::OsStringExt as _;

    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"/models/caf\xe9".to_vec()));
    for to in [None, Some(odd), Some(PathBuf::from("/models"))] {
        let written = serde_json::to_string(&Request::MoveModels { to: to.clone() }).unwrap();
        let read = serde_json::from_str(&written).unwrap();
        assert!(matches!(read, Request::MoveModels { to: read } if read == to), "{written}");
    }
}

#[test]
fn debug_output_of_requests_and_responses_shows_no_secret() {
    let secret = || Sensitive(CANARY.to_owned());
    let target = PairTarget::Seen("abc".to_owned());
    for request in [
        Request::Join { target, code: secret() },
        Request::InstructConversation { conversation: 1, instructions: secret() },
        Request::ImportConversation { file: secret() },
    ] {
        let written = serde_json::to_string(&request).unwrap();
        assert!(written.contains(CANARY), "the node itself must get it: {written}");
        assert!(!format!("{request:?}").contains(CANARY), "{}", request.action().name);
    }
    for response in [
        Response::PortKey(secret()),
        Response::RenewPortKey(secret()),
        Response::AddPortKey(secret()),
        Response::ExportConversation(CANARY.to_owned()),
    ] {
        assert!(!format!("{response:?}").contains(CANARY), "{}", response.action().name);
    }
}

/// A handle, and the inbox of the loop that would serve it.
fn handle() -> (NodeHandle, mpsc::Receiver<Command>) {
    let (inbox, commands) = mpsc::channel(4);
    let nothing = serde_json::from_value(json!({
        "me": { "id": "A", "short_id": "A", "name": "Desk", "app_version": "0", "listen_port": 0,
            "key_kept_in": "", "memory_bytes": null, "disk_free_bytes": null },
        "sharing": { "on": false, "state": "idle", "streams": 0, "streams_max": 0, "paused": null,
            "status_line": "" },
        "devices": [], "models": [], "catalogue": [], "downloads": [], "pairing": null,
        "models_folder": { "path": "", "usual": true, "there": true, "missing": [],
            "moving": null, "problem": null },
        "port": PortView::closed(String::new()), "problems": [],
        "settings": { "values": {}, "lend_memory_bytes": 0, "expose_to_lan": false },
    }));
    let parts = NodeParts {
        inbox,
        view: watch::channel(Arc::new(nothing.unwrap())).1,
        port_keys: Arc::new(|_: &str| None),
        tasks: Tasks::new(),
        runtime_folder: Path::new("/nowhere").into(),
        restart: Arc::default(),
    };
    (parts.into(), commands)
}

#[tokio::test]
async fn a_front_end_gets_what_is_open_to_it_and_the_loop_never_hears_of_the_rest() {
    let (handle, mut commands) = handle();
    for (from, request) in [
        (FrontEnd::Window, Request::ShutDown {}),
        (FrontEnd::Window, Request::Vitals {}),
        (FrontEnd::Control, Request::SetName { name: "Attic".to_owned() }),
        (FrontEnd::Control, Request::Messages { conversation: 1 }),
    ] {
        let name = request.action().name;
        let refused = handle.call(from, request).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadRequest, "{name}");
        assert!(refused.sentence.contains(name), "{}", refused.sentence);
    }
    assert!(commands.try_recv().is_err());

    let renaming = handle.call(FrontEnd::Window, Request::SetName { name: "Attic".to_owned() });
    let serving = async {
        let Some(Command::Settings(SettingCommand::SetName { name, answer })) =
            commands.recv().await
        else {
            panic!("another command")
        };
        assert_eq!(name, "Attic");
        answer.send(Ok(())).unwrap();
    };
    let (renamed, ()) = tokio::join!(renaming, serving);
    assert!(matches!(renamed, Ok(Response::SetName(()))));
}

#[tokio::test]
async fn a_view_is_answered_without_the_loop_and_a_closed_loop_is_said_to_be_gone() {
    let (handle, commands) = handle();
    let Ok(Response::View(view)) = handle.call(FrontEnd::Control, Request::View {}).await else {
        panic!("no view")
    };
    assert_eq!(view.me.name, "Desk");
    drop(commands);
    assert_eq!(handle.free_memory().await.unwrap_err().code, ErrorCode::Draining);
}

/// A channel whose other end always says the same.
struct Parrot(Response);

impl Calls for Parrot {
    type Error = UnexpectedResponse;

    async fn call(&self, _request: Request) -> Result<Response, UnexpectedResponse> {
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn a_response_to_something_else_is_noticed() {
    let parrot = Parrot(Response::ImportConversation(7));
    assert_eq!(parrot.import_conversation(Sensitive::default()).await, Ok(7));
    let unexpected = parrot.free_memory().await.unwrap_err();
    let wanted = UnexpectedResponse { request: "free_memory", response: "import_conversation" };
    assert_eq!(unexpected, wanted);
}

#[test]
fn a_choice_that_is_left_out_is_as_the_settings_say() {
    let read: ReplyChoices = serde_json::from_str(r#"{"thinking":"on"}"#).unwrap();
    assert_eq!(read, ReplyChoices { thinking: Some(ThinkingChoice::On), temperature: None });
    for choice in ThinkingChoice::ALL {
        assert_eq!(serde_json::to_value(choice).unwrap(), choice.word(), "one word everywhere");
    }
}
