//! Which devices computed which words of a reply, by where in its text the route changed.
//!
//! `keeping` tells what passes: a route when one begins, text as it comes. The list is kept with
//! the message, beside who computed it at last, and stays on this device: other devices are told
//! nothing of texts, their lengths included.
//!
//! A place can be a few characters early: text that was held back until a character or a stop
//! string was certain comes after the change, though a token before it made it. Doors that draw go
//! on to the end of the word.

use serde::{Deserialize, Serialize};

use nook_api::views::{RouteView, StretchView};

/// Most stretches that are kept of a reply. One that changes hands more often is kept without any
/// of them: it is better not to say who computed which words than to say it wrongly.
const STRETCHES_MAX: usize = 64;

/// The stretches of a reply that grows.
#[derive(Debug, Clone, Default)]
pub(super) struct Stretches {
    list: Vec<StretchView>,
    /// Length of the text so far, in UTF-16 code units.
    at: u32,
    /// The last one was only expected to begin there.
    is_expected: bool,
    are_too_many: bool,
}

/// What is written down of a reply: who computed it, as a path or a summary, and its stretches.
#[derive(Serialize)]
struct Written<'a, T> {
    #[serde(flatten)]
    way: &'a T,
    stretches: &'a [StretchView],
}

/// The part of it that is read here; files from before there were stretches have none.
#[derive(Default, Deserialize)]
struct Read {
    #[serde(default)]
    stretches: Vec<StretchView>,
}

impl Stretches {
    /// Those of a reply that goes on behind `text`. The program may have ended before the last
    /// words were saved; what began behind them is forgotten with them.
    pub(super) fn behind(text: &str, mut list: Vec<StretchView>) -> Self {
        let at = units(text);
        list.retain(|stretch| stretch.at < at);
        list.truncate(STRETCHES_MAX);
        Self { list, at, ..Self::default() }
    }

    /// Words over `route` are expected now. A word can still come of what a lost device had
    /// answered: the stretch begins where [`Self::begin`] then says so, or here if nobody does.
    pub(super) fn expect(&mut self, route: &RouteView, tokens: u32) {
        self.begin(route, tokens);
        self.is_expected = self.list.last().is_some_and(|last| last.at == self.at);
    }

    /// The words that come now are computed over `route`; `tokens` of the reply were there before.
    pub(super) fn begin(&mut self, route: &RouteView, tokens: u32) {
        if self.are_too_many {
            return;
        }
        let was_expected = std::mem::take(&mut self.is_expected);
        if was_expected && self.list.last().is_some_and(|last| last.route == *route) {
            self.list.pop();
        }
        // What no word came of is no stretch.
        self.list.retain(|stretch| stretch.at < self.at);
        if self.list.last().is_some_and(|last| last.route == *route) {
            return;
        }
        if self.list.len() >= STRETCHES_MAX {
            self.list.clear();
            self.are_too_many = true;
            return;
        }
        self.list.push(StretchView { at: self.at, after_tokens: tokens, route: route.clone() });
    }

    /// Text came.
    pub(super) fn grow(&mut self, text: &str) {
        self.at = self.at.saturating_add(units(text));
    }

    /// `way`, a path or a summary, and the stretches, as the JSON that is kept with a message.
    pub(super) fn write(&self, way: &impl Serialize) -> Option<String> {
        serde_json::to_string(&Written { way, stretches: &self.list }).ok()
    }
}

/// The stretches in the JSON that is kept with a message; none where it holds none.
pub(super) fn read(json: &str) -> Vec<StretchView> {
    serde_json::from_str::<Read>(json).unwrap_or_default().stretches
}

/// A text's length as the window counts it.
fn units(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nook_api::views::{LegView, PathView};

    pub(in crate::chats) fn route(device: &str) -> RouteView {
        let leg = LegView {
            device_id: device.to_owned(),
            device: device.to_owned(),
            local: false,
            layers: Some([0, 5]),
            embedding: true,
            head: true,
        };
        RouteView { legs: vec![leg] }
    }

    /// What is kept after `events`: `>a` begins a route, `?a` expects it, everything else is text
    /// of one token.
    fn kept(begun: Stretches, events: &[&str]) -> Vec<(u32, u32, String)> {
        let mut stretches = begun;
        let mut tokens = 0;
        for event in events {
            if let Some(device) = event.strip_prefix('>') {
                stretches.begin(&route(device), tokens);
            } else if let Some(device) = event.strip_prefix('?') {
                stretches.expect(&route(device), tokens);
            } else {
                tokens += 1;
                stretches.grow(event);
            }
        }
        let told = |one: &StretchView| (one.at, one.after_tokens, one.route.legs[0].device.clone());
        stretches.list.iter().map(told).collect()
    }

    #[test]
    fn a_stretch_begins_where_the_route_changed_as_the_window_counts() {
        let said = [">a", "One ", "fire 🔥", ">b", " e\u{301}", "tait"];
        // The fire counts as two, the letter and its accent as one each.
        assert_eq!(
            kept(Stretches::default(), &said),
            [(0, 0, "a".to_owned()), (11, 2, "b".to_owned())]
        );
    }

    #[test]
    fn what_no_word_came_of_and_what_changed_nothing_is_no_stretch() {
        for (said, expected) in [
            (&[">a", ">b", "x"][..], &[(0, "b")][..]),
            (&[">a", "x", ">b", ">c", "y"], &[(0, "a"), (1, "c")]),
            (&[">a", "x", ">b", ">a", "y"], &[(0, "a")]),
            (&[">a", "x", ">a", "y"], &[(0, "a")]),
            (&[">a", "", ">b", "", ">c"], &[(0, "c")]),
            // The second word came of what the lost device had answered.
            (&[">a", "x", "?b", "y", ">b", "z"], &[(0, "a"), (2, "b")]),
            (&[">a", "x", "?b", ">b", "y"], &[(0, "a"), (1, "b")]),
            (&[">a", "x", "?b", "y"], &[(0, "a"), (1, "b")]),
            (&[">a", "?b", "y", ">b", "z"], &[(1, "b")]),
            (&[">a", "x", ">b", "y", "?b", "z", ">b"], &[(0, "a"), (1, "b")]),
            (&[">a", "x", "?b", "y", ">c", "z"], &[(0, "a"), (1, "b"), (2, "c")]),
        ] {
            let found = kept(Stretches::default(), said);
            let found: Vec<_> = found.iter().map(|(at, _, who)| (*at, who.as_str())).collect();
            assert_eq!(found, expected, "{said:?}");
        }
    }

    #[test]
    fn a_reply_that_goes_on_keeps_what_its_saved_words_had() {
        let first = |at, device: &str| StretchView { at, after_tokens: 9, route: route(device) };
        let begun =
            Stretches::behind("Once upon", vec![first(0, "a"), first(5, "b"), first(9, "c")]);
        let found = kept(begun, &[">b", " a"]);
        assert_eq!(found, [(0, 9, "a".to_owned()), (5, 9, "b".to_owned())]);
        // What was said before there were stretches stays without.
        let found = kept(Stretches::behind("Once upon", Vec::new()), &[">b", " a"]);
        assert_eq!(found, [(9, 0, "b".to_owned())]);
    }

    #[test]
    fn too_many_are_none_rather_than_wrong() {
        let mut stretches = Stretches::default();
        for number in 0..STRETCHES_MAX {
            stretches.begin(&route(&number.to_string()), 0);
            stretches.grow("x");
        }
        assert_eq!(stretches.list.len(), STRETCHES_MAX);
        stretches.begin(&route("one more"), 0);
        stretches.grow("x");
        stretches.begin(&route("and another"), 0);
        assert!(stretches.list.is_empty());
    }

    #[test]
    fn what_was_written_is_read_back_and_spoils_nothing_beside_it() {
        let mut stretches = Stretches::default();
        stretches.begin(&route("a"), 0);
        stretches.grow("x");
        let path = PathView { route: route("a"), failovers: Vec::new(), completion_tokens: 1 };
        let json = stretches.write(&path).unwrap();
        assert_eq!(read(&json), stretches.list);
        assert_eq!(serde_json::from_str::<PathView>(&json).unwrap(), path);
        let before = serde_json::to_string(&path).unwrap();
        for none in [before.as_str(), "", "[]", r#"{"stretches":[{"at":-1}]}"#] {
            assert!(read(none).is_empty(), "{none}");
        }
    }
}
