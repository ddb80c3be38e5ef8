//! The caller's end of the control socket.

use futures_util::{SinkExt, StreamExt};
use interprocess::local_socket::tokio::{Stream, prelude::*};
use interprocess::local_socket::{GenericFilePath, ToFsName};
use nook_api::views::{Problem, ReplyEvent};
use nook_api::{Calls, Request, Response, UnexpectedResponse};
use tokio_util::codec::{Framed, LinesCodec};

use crate::protocol::{Ask, Line, ReplyRequest};
use crate::socket::{LINE_BYTES_MAX, codec};

/// Asks a running node. Each request takes a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    socket: String,
}

/// Why a request did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No node listens there.
    #[error("no node is running for this home")]
    NotRunning {
        /// What the system said.
        source: std::io::Error,
    },
    /// The node said why.
    #[error("{}", .0.sentence)]
    Refused(Problem),
    /// The request is longer than a node reads.
    #[error("the request is too long: a node reads {bytes_max} bytes")]
    TooLong {
        /// Most bytes of a request.
        bytes_max: usize,
    },
    /// The node went away, or speaks another version.
    #[error("the node did not answer as expected: {what}")]
    Broken {
        /// What was seen.
        what: String,
    },
}

/// A reply that is being streamed. Dropping it stops the reply.
#[derive(Debug)]
pub struct ReplyLines {
    wire: Framed<Stream, LinesCodec>,
    /// Token ids of the prompt.
    pub prompt_ids: Vec<u32>,
}

impl Client {
    /// A client of the node at `socket`. Nothing is sent yet.
    #[must_use]
    pub fn new(socket: String) -> Self {
        Self { socket }
    }

    /// Whether a node answers there.
    pub async fn is_running(&self) -> bool {
        self.connect().await.is_ok()
    }

    /// Asks for a reply.
    pub async fn generate(&self, wish: ReplyRequest) -> Result<ReplyLines, ClientError> {
        let mut wire = self.send(&Ask::Generate(wish)).await?;
        match read(&mut wire).await? {
            Line::Prompt { ids } => Ok(ReplyLines { wire, prompt_ids: ids.0 }),
            _ => Err(ClientError::Broken { what: "no reply was begun".to_owned() }),
        }
    }

    async fn connect(&self) -> Result<Stream, ClientError> {
        let not_running = |source| ClientError::NotRunning { source };
        let name = self.socket.as_str().to_fs_name::<GenericFilePath>().map_err(not_running)?;
        Stream::connect(name).await.map_err(not_running)
    }

    async fn send(&self, ask: &Ask) -> Result<Framed<Stream, LinesCodec>, ClientError> {
        let mut wire = Framed::new(self.connect().await?, codec());
        let text = serde_json::to_string(ask)
            .map_err(|error| ClientError::Broken { what: error.to_string() })?;
        if text.len() > LINE_BYTES_MAX {
            return Err(ClientError::TooLong { bytes_max: LINE_BYTES_MAX });
        }
        wire.send(text).await.map_err(|error| ClientError::Broken { what: error.to_string() })?;
        Ok(wire)
    }
}

impl Calls for Client {
    type Error = ClientError;

    async fn call(&self, request: Request) -> Result<Response, ClientError> {
        let mut wire = self.send(&Ask::Call(request)).await?;
        match read(&mut wire).await? {
            Line::Response(response) => Ok(*response),
            _ => Err(ClientError::Broken { what: "a reply nobody asked for".to_owned() }),
        }
    }
}

impl From<UnexpectedResponse> for ClientError {
    fn from(unexpected: UnexpectedResponse) -> Self {
        Self::Broken { what: unexpected.to_string() }
    }
}

impl ReplyLines {
    /// The next event with the token ids it added; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<(ReplyEvent, Vec<u32>)>, ClientError> {
        match self.wire.next().await {
            None => Ok(None),
            Some(line) => match parse(line)? {
                Line::Event { event, ids } => Ok(Some((event, ids.0))),
                _ => Err(ClientError::Broken { what: "an answer inside a reply".to_owned() }),
            },
        }
    }
}

async fn read(wire: &mut Framed<Stream, LinesCodec>) -> Result<Line, ClientError> {
    match wire.next().await {
        Some(line) => parse(line),
        None => Err(ClientError::Broken { what: "it closed the connection".to_owned() }),
    }
}

fn parse(line: Result<String, tokio_util::codec::LinesCodecError>) -> Result<Line, ClientError> {
    let line = line.map_err(|error| ClientError::Broken { what: error.to_string() })?;
    match serde_json::from_str(&line) {
        Ok(Line::Problem(problem)) => Err(ClientError::Refused(problem)),
        Ok(line) => Ok(line),
        Err(error) => Err(ClientError::Broken { what: error.to_string() }),
    }
}
