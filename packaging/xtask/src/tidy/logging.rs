//! No log line takes what belongs to the people: activations, tokens, prompts, replies, codes,
//! keys.
//!
//! `nook_base::Sensitive` hides such values wherever they are printed; this rule finds the log
//! lines that would take them out of it, or that hold them bare. It looks at the arguments of every
//! `tracing` macro by their names, so it is a net under the type, not the guarantee itself.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::tidy::Finding;
use crate::tidy::tree::{SourceFile, Tree};

const RULE: &str = "logging";
/// Macros that write log lines or open spans.
const MACROS: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
];
/// Names of values that never go into a log.
const PRIVATE: &[&str] = &[
    "activation",
    "activations",
    "api_key",
    "body",
    "hidden",
    "ids",
    "logits",
    "message_text",
    "messages",
    "pairing_code",
    "password",
    "piece",
    "prompt",
    "prompt_ids",
    "prompt_text",
    "reply",
    "reply_ids",
    "reply_text",
    "secret",
    "secret_key",
    "session_key",
    "text",
    "token_id",
    "token_ids",
    "tokens_text",
];
/// Calls through which the value itself still comes; any other call (`len`) yields something else.
const TRANSPARENT_CALLS: &[&str] = &[
    "as_bytes",
    "as_ref",
    "as_slice",
    "as_str",
    "clone",
    "deref",
    "iter",
    "to_owned",
    "to_string",
    "to_vec",
];

/// Log lines that would show a private value.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if let Some(tokens) = file.tokens() {
            check_tokens(file, tokens.clone(), &mut findings);
        }
    }
    findings
}

fn check_tokens(file: &SourceFile, tokens: TokenStream, findings: &mut Vec<Finding>) {
    let tokens = tokens.into_iter().collect::<Vec<_>>();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else {
            continue;
        };
        if is_log_macro(&tokens[..at]) {
            check_call(file, group, findings);
        } else {
            check_tokens(file, group.stream(), findings);
        }
    }
}

/// Whether the tokens end with `name !`.
fn is_log_macro(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Ident(name), TokenTree::Punct(mark)] => {
            mark.as_char() == '!' && MACROS.iter().any(|known| name == known)
        }
        _ => false,
    }
}

fn check_call(file: &SourceFile, group: &Group, findings: &mut Vec<Finding>) {
    let tokens = group.stream().into_iter().collect::<Vec<_>>();
    for argument in tokens.split(|token| is_punct(token, ',')) {
        let Some(name) = private_name(argument) else {
            continue;
        };
        let line = argument[0].span().start().line;
        let sentence = format!("`{name}` must not reach a log; log its size or nothing");
        findings.push(Finding::new(RULE, &file.path, line, sentence));
    }
}

/// The private name whose value `argument` would log.
fn private_name(argument: &[TokenTree]) -> Option<String> {
    if let [TokenTree::Literal(literal)] = argument {
        return captured_names(&literal.to_string()).find(|name| is_private(name));
    }
    let value = argument
        .iter()
        .position(|token| is_punct(token, '='))
        .map_or(argument, |at| &argument[at + 1..]);
    let name = value_name(value)?;
    is_private(&name).then_some(name)
}

/// The last name of a plain path such as `?step.hidden` or `%prompt.clone()`; `None` when the
/// value is computed some other way.
fn value_name(value: &[TokenTree]) -> Option<String> {
    let mut name = None;
    let mut call = None;
    for token in value {
        match token {
            TokenTree::Ident(word) => call = Some(word.to_string()),
            TokenTree::Punct(mark) if "?%&*.".contains(mark.as_char()) => {
                if let Some(word) = call.take() {
                    name = Some(word);
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                let called = call.take()?;
                if !TRANSPARENT_CALLS.contains(&called.as_str()) {
                    return None;
                }
            }
            _ => return None,
        }
    }
    // A tuple field (`reply.0`) ends in a literal and never comes here; see the arm above.
    call.or(name)
}

/// Names captured in a format string: `{prompt}`, `{prompt:?}`.
fn captured_names(literal: &str) -> impl Iterator<Item = String> {
    literal.split('{').skip(1).map(|rest| {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    })
}

fn is_private(name: &str) -> bool {
    PRIVATE.contains(&name)
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(code: &str, found: usize) {
        let text = format!("fn f() {{ {code}; }}");
        let findings = check(&Tree::of(&[("crates/a/src/lib.rs", &text)]));
        assert_eq!(findings.len(), found, "{code}: {findings:?}");
    }

    #[test]
    fn private_values_in_log_lines_are_found() {
        check_line("tracing::debug!(?activation, \"sent\")", 1);
        check_line("debug!(%prompt)", 1);
        check_line("info!(step = ?step.hidden, \"x\")", 1);
        check_line("info!(said = %reply.clone())", 1);
        check_line("warn!(\"got {token_ids:?}\")", 1);
        check_line("warn!(\"got {}\", pairing_code)", 1);
        check_line("tracing::trace!(target: \"a\", text)", 1);
        check_line("tokio::select! { _ = a => { trace!(?logits) } }", 1);
        check_line("let span = info_span!(\"say\", prompt = prompt.as_str())", 1);
    }

    #[test]
    fn sizes_and_other_facts_may_be_logged() {
        check_line("debug!(bytes = activation.bytes.len(), \"sent\")", 0);
        check_line("debug!(shape = ?activation.shape)", 0);
        check_line("debug!(prompt_tokens = prompt.len())", 0);
        check_line("info!(code = %error.code, \"refused\")", 0);
        check_line("info!(\"the text of the reply is kept\")", 0);
        check_line("println!(\"{prompt}\")", 0);
    }
}
