//! The names by which the modules of this crate know requests and responses: those of `nook-api`, where the
//! handle of the front ends is too.

pub(crate) use nook_api::{
    Answer, ChatMessage, Command, Dialog, EmbedInput, EmbedRequest, Embedded, GenerateRequest,
    INBOX_COMMANDS_MAX, KeptReply, LikelyToken, NodeError as HouseError, NodeHandle, NodeParts,
    PairTarget, PauseFor, PieceOdds, PortKeyHolder, PortSettings, Prompt, REPLIES_WAITING_MAX,
    REPLY_EVENTS_MAX, Reach, Reply, ReplyPiece, Sampling, Sharing, StartedTurn, Turn, TurnText,
};
