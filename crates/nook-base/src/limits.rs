//! Limits that more than one crate must agree on. Limits with one user live beside that user.

use std::time::Duration;

/// Longest body of one frame, in bytes. A longer one closes the connection before anything is
/// allocated for it.
pub const FRAME_BODY_BYTES_MAX: usize = 4 << 20;

/// Longest piece of a tensor in one frame, in bytes.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Usual piece of a tensor in one frame, in bytes: small enough that a ping is never long behind
/// it.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Chunks of one call that may be under way without the receiver having taken them.
pub const CREDIT_WINDOW: u32 = 16;

/// Most positions in one step. Prefill is cut into steps of this or fewer.
pub const STEP_TOKENS_MAX: u32 = 512;

/// Positions in one step of prefill on one device, unless a setting says otherwise.
pub const PREFILL_CHUNK_TOKENS: u32 = 128;

/// The same where several devices compute one after the other: each of them waits once for the
/// first chunk to arrive and once for the last one to pass, so a prompt of `n` chunks over two
/// equal devices is read `2n / (n + 1)` times as fast. 1,024 positions: 1.78 times in chunks of
/// 128, 1.88 in these.
pub const PREFILL_CHUNK_POOLED_TOKENS: u32 = 64;

/// Positions for which a guest's cache is counted when it is worked out how many layers a host has
/// room for.
pub const GUEST_POSITIONS_TYPICAL: u32 = 4096;

/// Widest hidden state accepted from a peer, in numbers.
pub const HIDDEN_MAX: u32 = 32_768;

/// Longest device name, in grapheme clusters; longer ones are cut.
pub const DEVICE_NAME_GRAPHEMES_MAX: usize = 40;

/// Most devices in one route.
pub const HOPS_MAX: usize = 16;

/// How long an advert counts after it was last heard, where the owner has not set how long a device
/// may be silent (`shard_health_timeout_seconds`).
pub const ADVERT_LIFE: Duration = Duration::from_secs(120);

/// So many times as long as a device may be silent its advert counts: one or two that are late, as
/// those of a busy device are, lose nobody.
pub const ADVERT_LIFE_SILENCES: u32 = 4;

/// Least time between two different wishes of one device for the layers of one model: loading costs
/// more than asking. A host refuses one that comes sooner as rate limited.
pub const WISH_EVERY: Duration = Duration::from_secs(2);

/// How often a host repeats its advert when nothing changes.
pub const ADVERT_INTERVAL: Duration = Duration::from_secs(30);

/// The local OpenAI-compatible port.
pub const OPENAI_PORT: u16 = 4587;

/// Digits of the code by which two devices pair.
pub const PAIRING_CODE_DIGITS: usize = 6;
