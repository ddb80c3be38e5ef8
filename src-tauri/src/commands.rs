//! What the page may ask for: actions of the node through [`call`], and what is this program's own,
//! as windows, files and replies that stream into a channel.

use nook_api::views::{ExportAsk, Problem, ReplyEvent, SettingAsk, Wording};
use nook_api::{FrontEnd, Request, Response, Turn, TurnView};
use tauri::ipc::Channel;
use tauri::{AppHandle, State};

use crate::asks::{Page, WindowNews};
use crate::leaving::StartAnew;
use crate::news::News;
use crate::opening::Opening;
use crate::page_watch::PageWatch;
use crate::replies::Replies;
use crate::texts::Speech;
use crate::window::Whereabouts;
use crate::{leaving, log_file, page_requests, saving};

/// Longest link that is opened; browsers take no longer ones either.
const LINK_BYTES_MAX: usize = 2048;

pub(crate) type Answer<T> = Result<T, Problem>;

/// Asks the node for one action, as far as a page may.
#[tauri::command]
pub(crate) async fn call(request: Request, opening: State<'_, Opening>) -> Answer<Response> {
    let request = page_requests::checked(request)?;
    Ok(opening.house().await?.call(FrontEnd::Window, request).await?)
}

#[tauri::command]
pub(crate) async fn watch(
    news: Channel<WindowNews>,
    opening: State<'_, Opening>,
    listening: State<'_, News>,
) -> Answer<()> {
    match opening.house().await {
        Ok(house) => listening.listen(&house, news),
        Err(_) if opening.is_broken() => listening.listen_to_fault(news),
        Err(problem) => return Err(problem),
    }
    // A fault between the two lines above has told a page that nobody had listened to yet.
    if opening.is_broken() {
        listening.stopped(log_file::shown_place());
    }
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

/// Whether the page has anything that nothing else keeps: an unsent file, a chat that is not saved.
#[tauri::command]
pub(crate) fn holds(unkept: bool, whereabouts: State<'_, Whereabouts>) {
    whereabouts.page_holds(unkept);
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
pub(crate) async fn say(
    turn: Turn,
    events: Channel<ReplyEvent>,
    opening: State<'_, Opening>,
    replies: State<'_, Replies>,
) -> Answer<TurnView> {
    replies.say(&opening.house().await?, turn, events).await
}

/// Ends the program: where there is no tray, the window is the only place to ask for it.
#[tauri::command]
pub(crate) async fn quit(app: AppHandle) {
    leaving::leave(app).await;
}

/// Starts the program anew after a fault.
#[tauri::command]
pub(crate) async fn restart(app: AppHandle) {
    leaving::start_anew(app, StartAnew::AsItWas).await;
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
