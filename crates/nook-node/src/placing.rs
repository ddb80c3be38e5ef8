//! Which device should hold which layers: what this one asks of others, and what it does for them.
//!
//! The asking half (`wishes`) looks from time to time at how the usual reply would be divided best
//! (`choice::outlook`), and says PLACE to the devices whose layers should change, once that is worth
//! it. The hosting half (`host`) decides by the owner's limits, loads, answers PLACED, and lets go
//! of what nobody uses. Neither decides who computes: adverts tell what is held, and replies go by
//! those.

mod wishes;

pub(crate) use wishes::Wishes;
