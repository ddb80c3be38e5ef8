//! What the page may ask for. Every command waits for the house and hands the question on; what is
//! decided is decided there.

use nook_node::views::{
    ConversationView, DeviceView, ExportAsk, MessageView, PairingView, Problem, ReplyEvent,
    SettingAsk, Trust, Wording,
};
use nook_node::{House, Reach, Sharing};
use tauri::ipc::Channel;
use tauri::{AppHandle, State};

use crate::asks::{JoinTarget, Page, ReachAsk, TurnAsk, TurnView, WindowNews};
use crate::news::News;
use crate::opening::Opening;
use crate::page_watch::PageWatch;
use crate::replies::Replies;
use crate::texts::Speech;
use crate::{leaving, saving};

/// Longest link that is opened; browsers take no longer ones either.
const LINK_BYTES_MAX: usize = 2048;

pub(crate) type Answer<T> = Result<T, Problem>;

#[tauri::command]
pub(crate) async fn watch(
    news: Channel<WindowNews>,
    opening: State<'_, Opening>,
    listening: State<'_, News>,
) -> Answer<()> {
    let house = opening.house().await?;
    listening.listen(&house, news);
    Ok(())
}

/// The page is there, and speaks this language: so does the tray from now on, and at the next start
/// before there is a page.
#[tauri::command]
pub(crate) async fn arrived(
    language: String,
    watched: State<'_, PageWatch>,
    speech: State<'_, Speech>,
    opening: State<'_, Opening>,
) -> Answer<()> {
    watched.arrived();
    speech.speak(&language);
    Ok(opening
        .house()
        .await?
        .change_setting(SettingAsk::new("window.language", language.as_str()))
        .await?)
}

/// The page that the window shows now.
#[tauri::command]
pub(crate) fn turned_to(page: Page, watched: State<'_, PageWatch>) {
    watched.turned_to(page);
}

#[tauri::command]
pub(crate) async fn set_sharing(on: bool, opening: State<'_, Opening>) -> Answer<()> {
    let sharing = if on { Sharing::On } else { Sharing::Off };
    Ok(opening.house().await?.set_sharing(sharing).await?)
}

#[tauri::command]
pub(crate) async fn set_name(name: String, opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.set_name(name).await?)
}

#[tauri::command]
pub(crate) async fn show_code(opening: State<'_, Opening>) -> Answer<PairingView> {
    Ok(opening.house().await?.show_code().await?)
}

#[tauri::command]
pub(crate) async fn cancel_pairing(opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.cancel_pairing().await?)
}

#[tauri::command]
pub(crate) async fn join(
    target: JoinTarget,
    code: String,
    opening: State<'_, Opening>,
) -> Answer<DeviceView> {
    Ok(opening.house().await?.join(target.into(), code).await?)
}

#[tauri::command]
pub(crate) async fn set_trust(
    device: String,
    trust: Trust,
    opening: State<'_, Opening>,
) -> Answer<()> {
    Ok(opening.house().await?.set_trust(device, trust).await?)
}

#[tauri::command]
pub(crate) async fn forget(device: String, opening: State<'_, Opening>) -> Answer<()> {
    Ok(opening.house().await?.forget(device).await?)
}

#[tauri::command]
pub(crate) async fn conversations(
    search: Option<String>,
    opening: State<'_, Opening>,
) -> Answer<Vec<ConversationView>> {
    Ok(opening.house().await?.conversations(search).await?)
}

#[tauri::command]
pub(crate) async fn messages(
    conversation: i64,
    opening: State<'_, Opening>,
) -> Answer<Vec<MessageView>> {
    Ok(opening.house().await?.messages(conversation).await?)
}

#[tauri::command]
pub(crate) async fn rename_conversation(
    conversation: i64,
    title: String,
    opening: State<'_, Opening>,
) -> Answer<()> {
    Ok(opening.house().await?.rename_conversation(conversation, title).await?)
}

#[tauri::command]
pub(crate) async fn delete_conversation(
    conversation: i64,
    opening: State<'_, Opening>,
) -> Answer<()> {
    Ok(opening.house().await?.delete_conversation(conversation).await?)
}

#[tauri::command]
pub(crate) async fn instruct_conversation(
    conversation: i64,
    instructions: String,
    opening: State<'_, Opening>,
) -> Answer<()> {
    Ok(opening.house().await?.instruct_conversation(conversation, instructions).await?)
}

#[tauri::command]
pub(crate) async fn confine_conversation(
    conversation: i64,
    reach: ReachAsk,
    opening: State<'_, Opening>,
) -> Answer<()> {
    let reach = Reach::from(reach);
    Ok(opening.house().await?.confine_conversation(conversation, reach).await?)
}

/// Saves a conversation as a file in the folder for downloads; says where.
#[tauri::command]
pub(crate) async fn export_conversation(
    conversation: i64,
    title: String,
    form: ExportAsk,
    app: AppHandle,
    opening: State<'_, Opening>,
) -> Answer<String> {
    let ending = match form {
        ExportAsk::Json => "json",
        ExportAsk::Markdown { .. } => "md",
    };
    let text = opening.house().await?.export_conversation(conversation, form).await?;
    saving::save(&app, &title, ending, text).await
}

#[tauri::command]
pub(crate) async fn import_conversation(file: String, opening: State<'_, Opening>) -> Answer<i64> {
    Ok(opening.house().await?.import_conversation(file).await?)
}

#[tauri::command]
pub(crate) async fn say(
    turn: TurnAsk,
    events: Channel<ReplyEvent>,
    opening: State<'_, Opening>,
    replies: State<'_, Replies>,
) -> Answer<TurnView> {
    let house: House = opening.house().await?;
    replies.say(&house, turn.into(), events).await
}

/// Ends the program: where there is no tray, the window is the only place to ask for it.
#[tauri::command]
pub(crate) async fn quit(app: AppHandle) {
    leaving::leave(app).await;
}

#[tauri::command]
pub(crate) fn stop(reply_message: i64, replies: State<'_, Replies>) {
    replies.stop(reply_message);
}

/// Opens a link of a reply in the person's browser, after they said yes in the window.
#[tauri::command]
pub(crate) fn open_link(url: String) -> Answer<()> {
    let url = openable(&url).ok_or_else(|| Problem {
        code: nook_base::ErrorCode::BadRequest.name().to_owned(),
        sentence: "Only https links are opened.".to_owned(),
        wording: Some(Wording::HttpsOnly),
    })?;
    open::that_detached(url).map_err(|error| Problem {
        code: nook_base::ErrorCode::NotFound.name().to_owned(),
        sentence: format!("No browser could be started: {error}."),
        wording: Some(Wording::NoBrowser { reason: error.to_string().into() }),
    })
}

/// The page asks for https only; what comes from a page is checked here all the same.
fn openable(url: &str) -> Option<String> {
    let url = tauri::Url::parse(url).ok()?;
    let plain = url.scheme() == "https" && url.username().is_empty() && url.password().is_none();
    (plain && url.as_str().len() <= LINK_BYTES_MAX).then(|| url.into())
}

#[cfg(test)]
mod tests {
    use super::openable;

    #[test]
    fn only_plain_https_links_are_opened() {
        assert_eq!(
            openable("https://example.org/a b"),
            Some("https://example.org/a%20b".to_owned())
        );
        for refused in [
            "http://example.org",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://bank.example@evil.example/",
            "--help",
            "",
        ] {
            assert_eq!(openable(refused), None, "{refused}");
        }
        assert_eq!(openable(&format!("https://example.org/{}", "a".repeat(3000))), None);
    }
}
