//! A reply on its way to a client, whatever form it leaves in.
//!
//! Owns what all forms of answer share: asking the house, telling text, thinking and calls apart,
//! asking once more when a device was lost before the first token, and the line in the log that
//! names devices and speed and nothing of what was said.
//!
//! A reply may wait for its turn, or for its model to be opened. What is refused at once has a
//! status of its own; a stream that has to wait begins after [`HEADERS_WITHIN`], and what goes
//! wrong later is an error in it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use nook_api::views::{FinishReason, LegView, PortRequestKind, ReplyEvent, ReplySummary, Wording};
use nook_api::{GenerateRequest, NodeError, NodeHandle, PieceLogprobs, Reply};
use nook_base::{ErrorCode, Sensitive};
use nook_text::{Said, SaidParser};

use crate::caller::Caller;
use crate::error::{ApiError, from_words};
use crate::happened::Happened;
use crate::port::Port;
use crate::preparing;
use crate::report::Report;

/// How long a stream's headers wait for the reply to begin, so that what is refused soon is refused
/// with a status of its own. After it, headers and comments keep the client waiting.
const HEADERS_WITHIN: Duration = Duration::from_secs(1);

/// How an answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// In one piece, when it is complete.
    Whole,
    /// As a stream, whose headers do not wait long.
    Streamed,
}

impl Leaves {
    pub(crate) fn of(stream: bool) -> Self {
        if stream { Self::Streamed } else { Self::Whole }
    }
}

/// What is said of a reply that stops without saying why.
const NO_END: &str = "The reply ended without an end.";

/// A reply that the house has been asked for.
enum Stage {
    /// It waits for its turn, or for its model. Dropping it gives its place back.
    Coming(BoxFuture<'static, Result<Reply, NodeError>>),
    Come {
        reply: Box<Reply>,
        parser: Box<SaidParser>,
    },
    /// It never came, or was given up.
    Gone,
}

/// A reply that is being read.
pub(crate) struct Asked {
    port: Option<Port>,
    /// What can be asked once more, until the first token or the second try.
    again: Option<(NodeHandle, GenerateRequest)>,
    stage: Stage,
    model: String,
    /// The stop string that ended it.
    stopped: Option<Sensitive<String>>,
    /// Names the answer in the log.
    id: String,
    /// What the owner will see of it; absent where no request is behind it.
    report: Option<Report>,
}

/// What a reply tells next.
pub(crate) enum Heard {
    /// Something was said, or a token chosen whose text is not whole yet.
    Said { pieces: Vec<Said>, logprobs: Option<PieceLogprobs> },
    /// Something happened between devices.
    Happened(Happened),
    /// The reply is complete, with what was held back, and the stop string that ended it.
    End { pieces: Vec<Said>, summary: ReplySummary, stopped: Option<Sensitive<String>> },
    /// It ended early.
    Broken(ApiError),
}

impl Asked {
    /// Asks for a reply; comes back once its prompt is encoded, for a stream after
    /// [`HEADERS_WITHIN`] at the latest.
    pub(crate) async fn begin(
        port: &Port,
        caller: Caller,
        request: GenerateRequest,
        id: &str,
        leaves: Leaves,
    ) -> Result<Self, ApiError> {
        // What the house calls it is known once the reply has come.
        let mut model = request.model.clone();
        let mut report =
            Report::new(PortRequestKind::Reply, port.house.clone(), caller, model.clone());
        let (house, again) = (port.house.clone(), request.clone());
        let mut coming: BoxFuture<'static, _> =
            Box::pin(async move { house.generate_for_program(again).await });
        let come = match leaves {
            Leaves::Whole => Some(coming.as_mut().await),
            Leaves::Streamed => tokio::time::timeout(HEADERS_WITHIN, coming.as_mut()).await.ok(),
        };
        let stage = match come {
            Some(Ok(reply)) => {
                model.clone_from(&reply.model);
                report.by(&model);
                Stage::come(reply)
            }
            Some(Err(error)) => {
                if error.code == ErrorCode::Busy {
                    preparing::pause().await;
                }
                let error = refused(port, error);
                report.refused(error.listed());
                return Err(error);
            }
            None => Stage::Coming(coming),
        };
        Ok(Self {
            port: Some(port.clone()),
            again: Some((port.house.clone(), request)),
            stage,
            model,
            stopped: None,
            id: id.to_owned(),
            report: Some(report),
        })
    }

    /// A reply that was asked for already, and cannot be again.
    #[cfg(test)]
    pub(crate) fn told(reply: Reply, id: &str) -> Self {
        let model = reply.model.clone();
        let stage = Stage::come(reply);
        let (stopped, id) = (None, id.to_owned());
        Self { port: None, again: None, stage, model, stopped, id, report: None }
    }

    /// The model that answers; as it was asked for where the stream had to begin before the reply
    /// came.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Waits until the reply has come; tells the tokens of its prompt.
    pub(crate) async fn come(&mut self) -> Result<u32, ApiError> {
        if let Stage::Coming(coming) = &mut self.stage {
            match coming.as_mut().await {
                Ok(reply) => {
                    self.report.iter_mut().for_each(|report| report.by(&reply.model));
                    self.model.clone_from(&reply.model);
                    self.stage = Stage::come(reply);
                }
                Err(error) => return Err(self.never_came(error)),
            }
        }
        match &self.stage {
            Stage::Come { reply, .. } => {
                Ok(u32::try_from(reply.prompt_ids.len()).unwrap_or(u32::MAX))
            }
            _ => Err(self.no_end()),
        }
    }

    /// Whether the reply has called a tool.
    pub(crate) fn has_called(&self) -> bool {
        matches!(&self.stage, Stage::Come { parser, .. } if parser.has_called())
    }

    /// Waits for what comes next. Exactly one end comes; nothing is to be asked after it.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            if let Err(error) = self.come().await {
                return Heard::Broken(error);
            }
            let Stage::Come { reply, parser } = &mut self.stage else {
                return Heard::Broken(self.no_end());
            };
            let Some(piece) = reply.events.recv().await else {
                return Heard::Broken(self.no_end());
            };
            self.stopped = piece.stopped.or(self.stopped.take());
            self.report.iter_mut().for_each(|report| report.follow(&piece.event));
            match piece.event {
                ReplyEvent::TokenDelta { text, .. } => {
                    self.again = None;
                    let pieces = parser.push(&text);
                    if !pieces.is_empty() || piece.logprobs.is_some() {
                        return Heard::Said { pieces, logprobs: piece.logprobs };
                    }
                }
                ReplyEvent::ThoughtDelta { text, .. } => {
                    self.again = None;
                    return Heard::Said { pieces: vec![Said::Thought(text)], logprobs: None };
                }
                ReplyEvent::Started { .. } => {}
                ReplyEvent::Done { summary } => {
                    log_end(&self.id, &summary);
                    self.report.iter_mut().for_each(|report| report.answered(&summary));
                    self.port.iter().for_each(|port| port.pace.note(summary.total_ms));
                    let pieces = match summary.finish_reason {
                        FinishReason::Stop => parser.finish(),
                        FinishReason::Length => parser.cut(),
                    };
                    return Heard::End { pieces, summary, stopped: self.stopped.take() };
                }
                ReplyEvent::PipelineAborted { code, sentence, wording } => {
                    if !self.asked_again(&code).await {
                        let error = self.broken(known(&code), sentence, wording.as_ref());
                        return Heard::Broken(error);
                    }
                }
                ReplyEvent::ShardStatus { device, status } => {
                    return Heard::Happened(Happened::status(device, status));
                }
                ReplyEvent::ShardFailover { failover, .. } => {
                    return Heard::Happened(Happened::ShardFailover(failover.into()));
                }
                ReplyEvent::FallbackToLocal { .. } => {
                    return Heard::Happened(Happened::FallbackToLocal);
                }
            }
        }
    }

    /// Asks once more where a device was lost and nothing was said yet.
    async fn asked_again(&mut self, code: &str) -> bool {
        let lost = matches!(
            known(code),
            ErrorCode::ShardUnavailable | ErrorCode::PipelineStalled | ErrorCode::WorkerCrashed
        );
        let Some((house, request)) = self.again.take().filter(|_| lost) else { return false };
        match house.generate_for_program(request).await {
            Ok(reply) => {
                tracing::info!(request = self.id, code, "a program's request is tried once more");
                self.stage = Stage::come(reply);
                true
            }
            Err(_) => false,
        }
    }

    /// The reply was refused after its stream had begun.
    fn never_came(&mut self, error: NodeError) -> ApiError {
        tracing::info!(request = self.id, code = %error.code, "a program's request was refused late");
        self.stage = Stage::Gone;
        self.report.iter_mut().for_each(|report| report.broke(error.code));
        match &self.port {
            Some(port) => refused(port, error),
            None => error.into(),
        }
    }

    fn broken(&mut self, code: ErrorCode, sentence: String, words: Option<&Wording>) -> ApiError {
        if self.port.as_ref().is_some_and(|port| port.house.is_leaving()) {
            // Whatever went wrong then went wrong because of that.
            let NodeError { code, sentence, .. } = NodeError::gone();
            self.report.iter_mut().for_each(|report| report.broke(code));
            return from_words(code, sentence, None);
        }
        tracing::info!(request = self.id, %code, "a program's request ended early");
        self.report.iter_mut().for_each(|report| report.broke(code));
        from_words(code, sentence, words)
    }

    /// It stopped without saying why.
    fn no_end(&mut self) -> ApiError {
        self.broken(ErrorCode::ShardUnavailable, NO_END.to_owned(), None)
    }
}

impl Stage {
    fn come(reply: Reply) -> Self {
        let parser = Box::new(SaidParser::new(reply.form.clone()));
        Self::Come { reply: Box::new(reply), parser }
    }
}

/// What the house refused, with when to try again where it was too busy.
pub(crate) fn refused(port: &Port, error: NodeError) -> ApiError {
    match error.wording {
        Some(Wording::AllBusy { running, .. }) => {
            ApiError::from(error).after(port.pace.seconds(running))
        }
        _ => error.into(),
    }
}

fn known(code: &str) -> ErrorCode {
    let known = ErrorCode::ALL.into_iter().find(|known| known.name() == code);
    known.unwrap_or(ErrorCode::ShardUnavailable)
}

fn log_end(id: &str, summary: &ReplySummary) {
    let leg = |leg: &LegView| match leg.layers {
        Some([first, last]) => format!("{} {first}-{last}", leg.device),
        None => leg.device.clone(),
    };
    let devices: Vec<String> = summary.route.legs.iter().map(leg).collect();
    tracing::info!(
        request = id,
        model = summary.model,
        devices = devices.join(", "),
        prompt_tokens = summary.prompt_tokens,
        completion_tokens = summary.completion_tokens,
        first_token_ms = summary.first_token_ms,
        tokens_per_second = summary.tokens_per_second,
        hand_overs = summary.failovers.len(),
        "answered a program"
    );
}

#[cfg(test)]
mod tests {
    use nook_api::{Prompt, Reach, ReplyPiece, SamplingParameters};
    use nook_base::Sensitive;
    use nook_node::{NodeOptions, WorkerCommand};
    use nook_text::ReplyForm;
    use tokio::sync::mpsc;

    use super::*;

    /// A real house, in a home of its own.
    async fn house() -> (NodeHandle, tempfile::TempDir) {
        let home = tempfile::tempdir().unwrap();
        let settings = "[device]\nname = \"Desk\"\nkeyring = \"off\"\n[network]\nlisten_port = 0\nloopback = true\n";
        std::fs::write(home.path().join("settings.toml"), settings).unwrap();
        let program = tokio::task::spawn_blocking(nook_testkit::nook).await.unwrap().unwrap();
        let worker = WorkerCommand { program: program.into(), arguments: vec!["worker".into()] };
        let options = NodeOptions { home: Some(home.path().to_owned()), worker };
        (nook_node::start(options).await.unwrap(), home)
    }

    /// How a reply goes on whose first try tells these events.
    async fn after(house: &NodeHandle, told: Vec<ReplyEvent>) -> (String, Option<ApiError>) {
        let (events, receiver) = mpsc::channel(8);
        let (model, prompt_ids) = ("ember".to_owned(), Sensitive(Vec::new()));
        let reply = Reply { model, prompt_ids, form: ReplyForm::plain(), events: receiver };
        for event in told {
            let ids = Sensitive(Vec::new());
            let piece = ReplyPiece { event, ids, logprobs: None, stopped: None };
            events.send(piece).await.unwrap();
        }
        let request = GenerateRequest {
            model: "ember".to_owned(),
            prompt: Prompt::Text(Sensitive("Once upon a".to_owned())),
            tokens_max: Some(3),
            sampling: SamplingParameters::GREEDY.into(),
            stop: Vec::new(),
            thinking: nook_api::Thinking::AsUsual,
            activation_dtype: None,
            reach: Reach::ThisDevice,
        };
        let mut asked =
            Asked { again: Some((house.clone(), request)), ..Asked::told(reply, "test") };
        let mut text = String::new();
        let mut take = |pieces: Vec<Said>| {
            for piece in pieces {
                if let Said::Text(more) = piece {
                    text.push_str(&more);
                }
            }
        };
        let error = loop {
            match asked.next().await {
                Heard::Said { pieces, .. } => take(pieces),
                Heard::Happened(_) => {}
                Heard::Broken(error) => break Some(error),
                Heard::End { pieces, .. } => {
                    take(pieces);
                    break None;
                }
            }
        };
        (text, error)
    }

    fn aborted(code: ErrorCode) -> ReplyEvent {
        NodeError::new(code, "It is gone.").into()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_lost_before_the_first_token_is_asked_for_once_more() {
        let (house, _home) = house().await;
        let (said, error) = after(&house, vec![aborted(ErrorCode::ShardUnavailable)]).await;
        assert!(!said.is_empty() && error.is_none(), "{error:?}");
        // Not where something was said already, and not where a second try would end the same.
        let token = ReplyEvent::TokenDelta { text: "So".to_owned(), tokens: 1 };
        let (said, error) = after(&house, vec![token, aborted(ErrorCode::ShardUnavailable)]).await;
        assert_eq!((said.as_str(), error.is_some()), ("So", true));
        let (said, error) = after(&house, vec![aborted(ErrorCode::OutOfMemory)]).await;
        assert_eq!((said.as_str(), error.is_some()), ("", true));
        house.shut_down().await;
    }
}
