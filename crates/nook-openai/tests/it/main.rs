//! The port over real sockets: a real house with a real worker behind it, a client that sends
//! bytes.
//!
//! `kit` opens a port and speaks plain HTTP, so that requests no library would send can be sent and
//! answers are seen to the byte. The tests go by subject: `api` and `golden` are what clients need
//! (the rows of the API design), `forms` replies that call tools or keep to a schema, `logprobs`
//! settings of the sampler and log probabilities, `completions`, `embeddings` and `responses` the
//! other ways to ask, `anthropic` and `ollama` those of other makers' clients, `recorded` what
//! known programs send, `description` the OpenAPI document, `hostile` what they may not do, `crowd` many
//! at once and leaving, `household` a reply that is computed elsewhere, `meters` what `/metrics`
//! shows of one, `settings` the port as a settings file wants it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod anthropic;
mod api;
mod completions;
mod crowd;
mod description;
mod embeddings;
mod exposed;
mod forms;
mod golden;
mod hostile;
mod household;
mod kit;
mod logprobs;
mod meters;
mod ollama;
mod recorded;
mod responses;
mod settings;
