//! The node from its start to a fault: the window is there first, its questions wait here for the
//! node.

use nook_api::NodeHandle;
use nook_api::views::Problem;
use tokio::sync::watch;

/// How far the node has come.
#[derive(Debug, Clone)]
enum Stage {
    Starting,
    Open(NodeHandle),
    Failed(Problem),
    /// It was open and ended because of a fault of its own.
    Broken,
}

/// A house that is there, will be, or could not be started. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    stage: watch::Receiver<Stage>,
}

/// The end that says how the start went, once.
#[derive(Debug)]
pub(crate) struct Opener {
    stage: watch::Sender<Stage>,
}

/// The end that says that an open node has ended because of a fault. A node that was asked to leave
/// needs no word: the program ends with it.
#[derive(Debug)]
pub(crate) struct Open {
    stage: watch::Sender<Stage>,
}

/// Both ends of one start.
pub(crate) fn opening() -> (Opener, Opening) {
    let (send, receive) = watch::channel(Stage::Starting);
    (Opener { stage: send }, Opening { stage: receive })
}

impl Opener {
    /// The node is open.
    #[must_use]
    pub(crate) fn open(self, house: NodeHandle) -> Open {
        self.stage.send_replace(Stage::Open(house));
        Open { stage: self.stage }
    }

    /// There will be no house.
    pub(crate) fn fail(self, problem: Problem) {
        self.stage.send_replace(Stage::Failed(problem));
    }
}

impl Open {
    /// The node has ended because of a fault: nobody gets it any more.
    pub(crate) fn broke(self) {
        self.stage.send_replace(Stage::Broken);
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
            Ok(Stage::Starting | Stage::Broken) | Err(_) => Err(nook_api::NodeError::gone().into()),
        }
    }

    /// Whether there will be no house.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.stage.borrow(), Stage::Failed(_))
    }

    /// Whether the node has ended because of a fault.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(&*self.stage.borrow(), Stage::Broken)
    }

    /// The house if it is open now.
    pub(crate) fn now(&self) -> Option<NodeHandle> {
        match &*self.stage.borrow() {
            Stage::Open(house) => Some(house.clone()),
            Stage::Starting | Stage::Failed(_) | Stage::Broken => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use nook_api::NodeParts;
    use nook_base::tasks::Tasks;

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

    /// A handle to a node whose loop has ended.
    fn handle() -> NodeHandle {
        let (inbox, _) = tokio::sync::mpsc::channel(1);
        let (_, view) = watch::channel(Arc::new(crate::household::house(&serde_json::json!({}))));
        let port_keys: Arc<nook_api::KeyLookup> = Arc::new(|_| None);
        let runtime_folder = Path::new("/run").into();
        let (tasks, restart) = (Tasks::new(), Arc::default());
        NodeParts { inbox, view, port_keys, tasks, runtime_folder, restart }.into()
    }

    #[tokio::test]
    async fn a_node_that_broke_is_given_to_nobody_and_is_no_failed_start() {
        let (opener, opening) = opening();
        assert!(opening.now().is_none() && !opening.is_broken());
        let open = opener.open(handle());
        assert!(opening.house().await.is_ok() && opening.now().is_some() && !opening.is_broken());
        open.broke();
        assert_eq!(opening.house().await.unwrap_err().code, "draining");
        assert!(opening.now().is_none() && opening.is_broken() && !opening.has_failed());
    }

    #[tokio::test]
    async fn a_start_that_ends_without_a_word_is_not_waited_for() {
        let (opener, opening) = opening();
        drop(opener);
        assert_eq!(opening.house().await.unwrap_err().code, "draining");
    }
}
