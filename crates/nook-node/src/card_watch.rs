//! Whether the graphics cards of this computer are left alone: on battery, and while another program
//! uses one.

use std::time::{Duration, Instant};

use nook_machine::Conditions;
use nook_resources::backends::Spared;

/// Other programs take more than this share of a card for [`TAKEN_FOR`]: it is theirs.
const TAKEN_SHARE: f32 = 0.4;

/// A page that is drawn is no game.
const TAKEN_FOR: Duration = Duration::from_secs(10);

/// Less than half of that for so long, and it is free again: games rest between two scenes.
const FREE_FOR: Duration = Duration::from_secs(60);

/// Whether cards are left alone, with memory.
#[derive(Debug, Default)]
pub(crate) struct CardWatch {
    is_taken: bool,
    /// Since when the opposite was seen without a break.
    against: Option<Instant>,
}

impl CardWatch {
    /// Why cards are left alone, after what was `seen` now.
    pub(crate) fn spared(&mut self, now: Instant, seen: &Conditions) -> Option<Spared> {
        let limit = if self.is_taken { TAKEN_SHARE / 2.0 } else { TAKEN_SHARE };
        // What nobody tells holds nothing back.
        let takes = seen.others_card_load.is_some_and(|load| load > limit);
        if takes == self.is_taken {
            self.against = None;
        } else {
            let since = *self.against.get_or_insert(now);
            let needed = if self.is_taken { FREE_FOR } else { TAKEN_FOR };
            if now.saturating_duration_since(since) >= needed {
                (self.is_taken, self.against) = (takes, None);
            }
        }
        match seen.on_battery {
            Some(true) => Some(Spared::Battery),
            _ => self.is_taken.then_some(Spared::OtherPrograms),
        }
    }
}

#[cfg(test)]
mod tests {
    use nook_base::clock;

    use super::*;

    #[test]
    fn a_card_is_left_alone_on_battery_and_while_a_game_runs_and_some_time_after() {
        let calm = Conditions {
            on_battery: Some(false),
            others_load: None,
            others_card_load: Some(0.05),
            full_screen: None,
            minute_of_day: 0,
        };
        let game = Conditions { others_card_load: Some(0.9), ..calm };
        let (mut watch, start) = (CardWatch::default(), clock::now());
        let mut at = |second, seen| watch.spared(start + Duration::from_secs(second), &seen);
        assert_eq!(at(0, calm), None);
        assert_eq!(at(1, game), None, "a page that is drawn");
        assert_eq!(at(10, calm), None);
        for second in 20..30 {
            assert_eq!(at(second, game), None, "{second}");
        }
        let taken = Some(Spared::OtherPrograms);
        assert_eq!(at(30, game), taken);
        // Between two scenes.
        assert_eq!(at(40, Conditions { others_card_load: Some(0.3), ..calm }), taken);
        assert_eq!(at(50, calm), taken);
        assert_eq!(at(109, calm), taken);
        assert_eq!(at(110, calm), None);
        let drained = Conditions { on_battery: Some(true), ..calm };
        assert_eq!(at(111, drained), Some(Spared::Battery));
        assert_eq!(at(112, calm), None);
        let silent = Conditions { on_battery: None, others_card_load: None, ..calm };
        assert_eq!(at(113, silent), None);
    }
}
