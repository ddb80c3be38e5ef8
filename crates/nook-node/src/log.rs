//! What the log may say, whatever level is asked for.
//!
//! Our own code cannot log activations: their types show no bytes. A library below can: at TRACE
//! the WebSocket library writes out every frame (I-3). It is held at a level at which it does not,
//! also against an explicit wish.

/// Libraries that log what passes through them.
const TALKATIVE: [&str; 2] = ["tungstenite", "tokio_tungstenite"];

/// The filter for a door's log: what `INGLENOOK_LOG` says, else `usual`; talkative libraries never
/// below INFO.
#[must_use]
pub fn log_filter(usual: &str) -> String {
    let wished = nook_base::env::text("INGLENOOK_LOG");
    quietened(wished.as_deref().unwrap_or(usual))
}

fn quietened(filter: &str) -> String {
    let is_talkative =
        |directive: &&str| TALKATIVE.iter().any(|library| directive.trim().starts_with(library));
    let kept = filter.split(',').filter(|directive| !is_talkative(directive));
    let held = TALKATIVE.iter().map(|library| format!("{library}=info"));
    kept.map(str::to_owned).chain(held).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i3_no_wish_makes_a_library_log_what_passes_through_it() {
        let held = "tungstenite=info,tokio_tungstenite=info";
        for (wished, filter) in [
            ("warn", format!("warn,{held}")),
            ("trace,tungstenite=trace", format!("trace,{held}")),
            ("nook_link=debug, tungstenite::protocol=trace", format!("nook_link=debug,{held}")),
        ] {
            assert_eq!(quietened(wished), filter);
        }
    }
}
