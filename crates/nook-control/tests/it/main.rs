//! The owner's door over a real socket.

mod control;
