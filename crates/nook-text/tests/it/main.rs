//! What happens to text on its way to the model and back: tokenizers, templates, tools, sampling,
//! forms.
//!
//! `fixtures` reads fixture files, which `places` finds; `vocabularies` makes small vocabularies
//! up; `rendering` renders templates.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fixtures;
mod hostile_vocabularies;
mod orders_that_programs_send;
#[path = "../../../nook-testkit/src/fixtures.rs"]
#[allow(dead_code, unreachable_pub, reason = "other crates' tests use the rest")]
mod places;
mod publishers_templates;
mod publishers_vocabularies;
mod rendering;
mod replies_are_told_apart;
mod replies_in_notations;
mod replies_keep_their_form;
mod sampling;
mod templates_are_fenced;
mod text_survives;
mod too_many_tokens;
mod tools_are_told;
mod users_cannot_speak_structure;
mod vocabularies;
