//! The names by which the modules of this crate know requests and responses: those of `nook-api`, where the
//! handle of the front ends is too.

pub(crate) use nook_api::{
    Answer, ChatMessage, Command, EmbedRequest, Embedded, GenerateRequest, INBOX_COMMANDS_MAX,
    KeptReply, NodeError as HouseError, NodeHandle, NodeParts, PairTarget, PauseFor, PortKeyHolder,
    PortSettings, Prompt, REPLY_EVENTS_MAX, Reach, Reply, ReplyPiece, SamplingParameters, Sharing,
    StartedTurn, Turn, TurnText,
};
