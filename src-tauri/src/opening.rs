//! The house while it opens: the window is there first, its questions wait here for the house.

use nook_api::NodeHandle;
use nook_api::views::Problem;
use tokio::sync::watch;

/// How far the start of the house has come.
#[derive(Debug, Clone)]
enum Stage {
    Starting,
    Open(NodeHandle),
    Failed(Problem),
}

/// A house that is there, will be, or could not be started. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    stage: watch::Receiver<Stage>,
}

/// The end that says how the start went.
#[derive(Debug)]
pub(crate) struct Opener {
    stage: watch::Sender<Stage>,
}

/// Both ends of one start.
pub(crate) fn opening() -> (Opener, Opening) {
    let (send, receive) = watch::channel(Stage::Starting);
    (Opener { stage: send }, Opening { stage: receive })
}

impl Opener {
    /// The house is open.
    pub(crate) fn open(self, house: NodeHandle) {
        self.stage.send_replace(Stage::Open(house));
    }

    /// There will be no house.
    pub(crate) fn fail(self, problem: Problem) {
        self.stage.send_replace(Stage::Failed(problem));
    }
}

impl Opening {
    /// The house, as soon as it is open.
    pub(crate) async fn house(&self) -> Result<NodeHandle, Problem> {
        let mut stage = self.stage.clone();
        // An opener that was dropped without a word can only mean that the program ends.
        let now = stage.wait_for(|stage| !matches!(stage, Stage::Starting)).await;
        match now.as_deref() {
            Ok(Stage::Open(house)) => Ok(house.clone()),
            Ok(Stage::Failed(problem)) => Err(problem.clone()),
            Ok(Stage::Starting) | Err(_) => Err(nook_api::NodeError::gone().into()),
        }
    }

    /// Whether there will be no house.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.stage.borrow(), Stage::Failed(_))
    }

    /// The house if it is open now.
    pub(crate) fn now(&self) -> Option<NodeHandle> {
        match &*self.stage.borrow() {
            Stage::Open(house) => Some(house.clone()),
            Stage::Starting | Stage::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        let sentence = "The settings are damaged.".to_owned();
        Problem { code: "bad_request".to_owned(), sentence, wording: None }
    }

    #[tokio::test]
    async fn who_asks_early_hears_why_there_is_no_house() {
        let (opener, opening) = opening();
        let early = opening.clone();
        let (heard, ()) = tokio::join!(early.house(), async { opener.fail(problem()) });
        assert_eq!(heard.unwrap_err(), problem());
        assert_eq!(opening.house().await.unwrap_err(), problem());
        assert!(opening.now().is_none() && opening.has_failed());
    }

    #[tokio::test]
    async fn a_start_that_ends_without_a_word_is_not_waited_for() {
        let (opener, opening) = opening();
        drop(opener);
        assert_eq!(opening.house().await.unwrap_err().code, "draining");
    }
}
