//! Who is expected back in the line, so that a pass over the weights is not begun just before.
//!
//! Conversations that were answered together come back one after the other, a moment apart. If the
//! first one back began a pass at once, the others would wait for all of it, and from then on the
//! groups would take turns: half the batch, half the speed. So a pass waits for those who decode
//! over the same part of the model, *if* they usually come back within a small part of the time
//! that the pass takes, and no longer than that. Whoever decodes alone waits for nobody, and nobody
//! waits for a conversation whose way is long. Pure: times come as arguments.

use std::time::{Duration, Instant};

use nook_base::ModelPart;

/// Conversations whose return is remembered; the one answered longest ago makes room.
const MEMBERS_MAX: usize = 64;

/// Part of a pass that others may be waited for. A conversation that misses the pass waits for a
/// whole one, and the weights are read once more for it.
const SHARE_OF_PASS: u32 = 2;

/// How many times as long as usual somebody is waited for, and how much longer, since ways vary.
const PATIENCE: u32 = 2;

/// See [`PATIENCE`].
const PATIENCE_MORE: Duration = Duration::from_micros(300);

/// The conversations that decode.
#[derive(Debug, Default)]
pub(crate) struct BatchWindow {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    who: u64,
    part: ModelPart,
    /// When it was answered, if it is not back.
    answered: Option<Instant>,
    /// How long it usually stays away.
    away: Option<Duration>,
}

impl BatchWindow {
    /// A decode step was answered at `now`.
    pub(crate) fn answered(&mut self, who: u64, part: ModelPart, now: Instant) {
        let away = match self.members.iter().position(|member| member.who == who) {
            Some(index) => self.members.remove(index).away,
            None => None,
        };
        if self.members.len() == MEMBERS_MAX {
            self.members.remove(0);
        }
        self.members.push(Member { who, part, answered: Some(now), away });
    }

    /// The next step of a conversation came at `now`.
    pub(crate) fn came(&mut self, who: u64, now: Instant) {
        let Some(member) = self.members.iter_mut().find(|member| member.who == who) else {
            return;
        };
        if let Some(answered) = member.answered.take() {
            let newest = now.saturating_duration_since(answered);
            // A quarter of the newest and three of what was known.
            member.away = Some(member.away.map_or(newest, |away| (away * 3 + newest) / 4));
        }
    }

    /// Until when a pass over `part` that takes about `pass` waits for others; `None`: not at all.
    pub(crate) fn expected(
        &self,
        part: ModelPart,
        pass: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let most = pass / SHARE_OF_PASS;
        let away = self.members.iter().filter(|member| member.part == part);
        let ends = away.filter_map(|member| {
            let usual = member.away.filter(|usual| *usual <= most)?;
            Some(member.answered? + (usual * PATIENCE + PATIENCE_MORE).min(most))
        });
        ends.max().filter(|end| *end > now)
    }
}

#[cfg(test)]
mod tests {
    use nook_base::{LayerRange, clock};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PASS: Duration = Duration::from_millis(40);

    fn part(layers: u32) -> ModelPart {
        ModelPart::inner(LayerRange::with_len(1, layers))
    }

    /// Two conversations, of which the other is usually away for `away`.
    fn pair(away: Duration) -> (BatchWindow, Instant) {
        let (mut batch_window, start) = (BatchWindow::default(), clock::now());
        for who in [1, 2] {
            batch_window.answered(who, part(4), start);
        }
        batch_window.came(1, start + MS);
        batch_window.came(2, start + away);
        let now = start + away + PASS;
        batch_window.answered(1, part(4), now);
        batch_window.answered(2, part(4), now);
        batch_window.came(1, now + MS);
        (batch_window, now)
    }

    #[test]
    fn somebody_who_is_soon_back_is_waited_for_and_not_for_long() {
        let (mut batch_window, now) = pair(2 * MS);
        let end = batch_window.expected(part(4), PASS, now + MS).unwrap();
        assert_eq!(end, now + 4 * MS + PATIENCE_MORE);
        assert_eq!(batch_window.expected(part(4), PASS, end), None, "it did not come in time");
        assert_eq!(batch_window.expected(part(5), PASS, now + MS), None, "another part");
        batch_window.came(2, now + 3 * MS);
        assert_eq!(batch_window.expected(part(4), PASS, now + 3 * MS), None, "all are here");
    }

    #[test]
    fn whoever_is_long_away_is_not_waited_for() {
        let (batch_window, now) = pair(21 * MS);
        assert_eq!(batch_window.expected(part(4), PASS, now + MS), None);
        // A pass of twice the time may wait as long as half of it.
        assert_eq!(batch_window.expected(part(4), 2 * PASS, now + MS), Some(now + PASS));
    }

    #[test]
    fn nobody_waits_alone_or_for_somebody_unknown() {
        let (mut batch_window, start) = (BatchWindow::default(), clock::now());
        for step in 1..10 {
            let now = start + step * PASS;
            batch_window.came(1, now);
            assert_eq!(batch_window.expected(part(4), PASS, now), None);
            batch_window.answered(1, part(4), now + MS);
        }
        batch_window.answered(2, part(4), start);
        batch_window.came(1, start + MS);
        assert_eq!(batch_window.expected(part(4), PASS, start + MS), None);
    }

    #[test]
    fn no_more_are_remembered_than_the_limit() {
        let (mut batch_window, start) = (BatchWindow::default(), clock::now());
        for who in 0..200 {
            batch_window.answered(who, part(4), start);
        }
        assert_eq!(batch_window.members.len(), MEMBERS_MAX);
        batch_window.answered(199, part(4), start);
        assert_eq!(batch_window.members.len(), MEMBERS_MAX);
    }
}
