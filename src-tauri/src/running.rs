//! Stays beside the node: starts it, shows it, and decides what follows when it ends.
//!
//! A node that was asked to leave takes the program with it. One that a fault has ended does not:
//! the window, the tray and a notice say so, and the program waits for a person who starts it anew
//! or quits. Nothing starts anew by itself, because what failed once may fail again at once, and
//! for ever.

use nook_api::NodeHandle;
use nook_api::views::{Problem, SettingAsk};
use nook_base::tasks::TaskPanic;
use nook_update::RunningProgram;
use tauri::{AppHandle, Manager};

use crate::arguments::Arguments;
use crate::background::Background;
use crate::leaving::{Leaving, StartAnew};
use crate::news::News;
use crate::opening::Opener;
use crate::texts::Speech;
use crate::tray::Tray;
use crate::{ask_keys, coming_up, leaving, log_file, notices, starting};

/// What follows when the node has ended.
#[derive(Debug, PartialEq, Eq)]
enum AfterNode {
    /// The program ends already, and the node with it.
    Nothing,
    /// The node left so that the program becomes a new version.
    StartAnew,
    /// Somebody asked the node to leave; the program leaves with it.
    Leave,
    /// A part of the node panicked without which it cannot go on.
    ShowFault { part: &'static str },
}

/// Starts the house and stays beside it until it is gone.
pub(crate) async fn run(app: AppHandle, tray: Option<Tray>, opener: Opener, arguments: Arguments) {
    let house = match starting::start(&app.state::<RunningProgram>()).await {
        Ok(house) => house,
        Err(error) => {
            tracing::error!(%error, "the house did not start");
            if coming_up::is_to_blame(&app, &error).await {
                return;
            }
            if let Some(tray) = tray {
                tray.show_failure(app.state::<Speech>().now());
            }
            opener.fail(Problem {
                code: nook_base::ErrorCode::ShardUnavailable.name().to_owned(),
                sentence: error.to_string(),
                wording: Some(error.wording()),
            });
            return;
        }
    };
    let open = opener.open(house.clone());
    if arguments.safe_graphics {
        keep_safe_graphics(&house).await;
    }
    app.state::<Background>().run("coming-up", coming_up::follow(app.clone(), house.clone()));
    app.state::<Background>().run("ask-keys", ask_keys::follow(app.clone(), house.clone()));
    app.state::<Background>().run("notices", notices::follow(app.clone(), house.clone()));
    let speech = app.state::<Speech>().changes();
    let shown = async {
        match &tray {
            Some(tray) => tray.follow(house.clone(), speech).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = house.over() => {}
        () = shown => {}
    }
    if app.state::<Leaving>().has_begun() {
        return;
    }
    // Which of the two it was is known when nothing of the node is left.
    leaving::shut_down(&house).await;
    let for_update = house.restart().has_begun();
    match AfterNode::of(house.broken().as_ref(), for_update, &app.state()) {
        AfterNode::Nothing => {}
        AfterNode::StartAnew => leaving::start_anew(app, StartAnew::NewVersion).await,
        AfterNode::Leave => leaving::leave(app).await,
        AfterNode::ShowFault { part } => {
            tracing::error!(part, "the node has ended because of a fault");
            open.broke();
            show_fault(&app, tray.as_ref(), &house);
        }
    }
}

/// Says it wherever somebody may look: in the window, in the tray, and through the desktop.
fn show_fault(app: &AppHandle, tray: Option<&Tray>, house: &NodeHandle) {
    app.state::<News>().stopped(log_file::shown_place());
    if let Some(tray) = tray {
        tray.show_fault(app);
    }
    app.state::<Background>().run("fault-notice", notices::tell_fault(app.clone(), house.now()));
}

impl AfterNode {
    /// `panic`: what ended the node, if that was a fault. `for_update`: it left for a new version.
    fn of(panic: Option<&TaskPanic>, for_update: bool, leaving: &Leaving) -> Self {
        match panic {
            _ if leaving.has_begun() => Self::Nothing,
            None if for_update => Self::StartAnew,
            None => Self::Leave,
            Some(panic) => Self::ShowFault { part: panic.task },
        }
    }
}

/// What helped once is needed at the next start too; Settings take it back.
async fn keep_safe_graphics(house: &NodeHandle) {
    if let Err(error) = house.change_setting(SettingAsk::new("window.safe_graphics", true)).await {
        tracing::warn!(%error, "the next start will not know that safe graphics are needed");
    }
}

#[cfg(test)]
mod tests {
    use nook_base::Sensitive;

    use super::*;

    fn panic() -> TaskPanic {
        TaskPanic { task: "house", message: Sensitive("a test ordered it".to_owned()), times: 1 }
    }

    #[test]
    fn a_node_that_was_asked_to_leave_takes_the_program_with_it_and_a_fault_does_not() {
        let leaving = Leaving::default();
        assert_eq!(AfterNode::of(None, false, &leaving), AfterNode::Leave);
        assert_eq!(AfterNode::of(None, true, &leaving), AfterNode::StartAnew);
        for for_update in [false, true] {
            let after = AfterNode::of(Some(&panic()), for_update, &leaving);
            assert_eq!(after, AfterNode::ShowFault { part: "house" });
        }
    }

    #[test]
    fn a_program_that_leaves_already_shows_no_fault_and_leaves_once() {
        let leaving = Leaving::default();
        assert!(leaving.begin() && !leaving.begin());
        for for_update in [false, true] {
            assert_eq!(AfterNode::of(Some(&panic()), for_update, &leaving), AfterNode::Nothing);
            assert_eq!(AfterNode::of(None, for_update, &leaving), AfterNode::Nothing);
        }
    }
}
