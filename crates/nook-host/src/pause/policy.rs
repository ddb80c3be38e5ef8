//! When sharing pauses though it is switched on: the rule, without clock or machine.
//!
//! [`PausePolicy::weigh`] is told what the machine is doing and what the owner wishes, and says
//! whether to pause and why. A reason counts at once, only a busy machine must be busy for a while.
//! It must have been over for a while before sharing goes on, or a charger with a loose contact or
//! a loading screen would start and stop the workers of the whole household every few seconds.

use std::time::{Duration, Instant};

use nook_machine::Conditions;
use nook_store::PauseSettings;

use nook_api::views::PauseReason;

/// On mains for so long before lending goes on.
const MAINS_FOR: Duration = Duration::from_secs(30);

/// No full screen for so long before lending goes on: games change windows while they load.
const SCREEN_FREE_FOR: Duration = Duration::from_secs(15);

/// Other programs above the owner's limit for so long before lending stops: a page that opens is no
/// work.
const BUSY_FOR: Duration = Duration::from_secs(10);

/// Other programs below the lower limit for so long before lending goes on.
const CALM_FOR: Duration = Duration::from_secs(30);

/// The lower limit, as a share of the owner's: lending that begins again adds load of its own kind
/// to the machine, and a limit that is met on both sides would flap.
const CALM_SHARE: f32 = 0.7;

/// What was the case for how long.
#[derive(Debug, Default)]
pub(crate) struct PausePolicy {
    battery: Latch,
    screen: Latch,
    busy: Latch,
    /// From the moment when the machine says so until it is awake.
    sleep_is_near: bool,
}

/// Something that holds back, with memory.
#[derive(Debug, Default)]
struct Latch {
    holds: bool,
    /// Since when the opposite has been seen without a break.
    against: Option<Instant>,
}

impl Latch {
    /// `wants`: what is seen now; `None`: nothing that counts, so everything stays. Turns after the
    /// opposite was seen for `on_after` or `off_after`.
    fn turn(&mut self, now: Instant, wants: Option<bool>, on_after: Duration, off_after: Duration) {
        if wants.is_none_or(|wants| wants == self.holds) {
            self.against = None;
            return;
        }
        let since = *self.against.get_or_insert(now);
        let needed = if self.holds { off_after } else { on_after };
        if now.duration_since(since) >= needed {
            self.holds = !self.holds;
            self.against = None;
        }
    }
}

impl PausePolicy {
    /// Why to hold back now, the weightiest reason first; `None`: lend. `unix_seconds` is the wall
    /// clock, for the owner's own pause.
    pub(crate) fn weigh(
        &mut self,
        now: Instant,
        unix_seconds: u64,
        conditions: Option<&Conditions>,
        wish: &PauseSettings,
    ) -> Option<PauseReason> {
        self.see(now, conditions, wish);
        let quiet = conditions.zip(wish.quiet_hours);
        let reasons = [
            (wish.until > unix_seconds, PauseReason::Owner),
            (self.sleep_is_near, PauseReason::Sleep),
            (
                quiet.is_some_and(|(now, hours)| hours.contain(now.minute_of_day)),
                PauseReason::QuietHours,
            ),
            (self.battery.holds, PauseReason::Battery),
            (self.screen.holds, PauseReason::FullScreen),
            (self.busy.holds, PauseReason::Busy),
        ];
        reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// What was seen of the machine counts no longer.
    pub(crate) fn forget_machine(&mut self) {
        *self = Self { sleep_is_near: self.sleep_is_near, ..Self::default() };
    }

    /// The machine is about to sleep: nothing is lent from now on.
    pub(crate) fn sleep_is_near(&mut self) {
        self.sleep_is_near = true;
    }

    /// It is awake, and that counts at once.
    pub(crate) fn sleep_is_over(&mut self) {
        self.sleep_is_near = false;
    }

    fn see(&mut self, now: Instant, conditions: Option<&Conditions>, wish: &PauseSettings) {
        // What the owner does not wish is over at once.
        if !wish.on_battery {
            self.battery = Latch::default();
        }
        if !wish.in_full_screen {
            self.screen = Latch::default();
        }
        if wish.when_busy_percent.is_none() {
            self.busy = Latch::default();
        }
        let Some(conditions) = conditions else { return };
        // A machine that says nothing about its battery or screen does not hold back.
        if wish.on_battery {
            let drained = Some(conditions.on_battery.unwrap_or(false));
            self.battery.turn(now, drained, Duration::ZERO, MAINS_FOR);
        }
        if wish.in_full_screen {
            let filled = Some(conditions.full_screen.unwrap_or(false));
            self.screen.turn(now, filled, Duration::ZERO, SCREEN_FREE_FOR);
        }
        if let Some(percent) = wish.when_busy_percent {
            let limit = percent as f32 / 100.0;
            let limit = if self.busy.holds { limit * CALM_SHARE } else { limit };
            // What plays or draws on the card wants it as much as what computes on the processor.
            let loads = [conditions.others_load, conditions.others_card_load];
            let load = loads.into_iter().flatten().reduce(f32::max);
            let busy = load.map(|load| load > limit);
            self.busy.turn(now, busy, BUSY_FOR, CALM_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Conditions = Conditions {
        on_battery: Some(false),
        others_load: Some(0.05),
        others_card_load: None,
        full_screen: Some(false),
        minute_of_day: 12 * 60,
    };

    const WISH: PauseSettings = PauseSettings {
        on_battery: true,
        in_full_screen: true,
        when_busy_percent: Some(50),
        quiet_hours: None,
        until: 0,
    };

    /// What is said at each second, with one condition per second.
    fn told(
        wish: &PauseSettings,
        seconds: impl IntoIterator<Item = Conditions>,
    ) -> Vec<Option<PauseReason>> {
        let mut policy = PausePolicy::default();
        let start = nook_base::clock::now();
        let at = |second: usize| start + Duration::from_secs(second as u64);
        seconds
            .into_iter()
            .enumerate()
            .map(|(second, seen)| policy.weigh(at(second), 1000, Some(&seen), wish))
            .collect()
    }

    #[test]
    fn a_battery_stops_lending_at_once_and_mains_must_last() {
        let drained = Conditions { on_battery: Some(true), ..CALM };
        // Ten seconds of mains in between are a loose contact.
        let seen = [(CALM, 1), (drained, 1), (CALM, 10), (drained, 1), (CALM, 40)];
        let seen = seen.into_iter().flat_map(|(seen, seconds)| std::iter::repeat_n(seen, seconds));
        let told = told(&WISH, seen);
        let paused: Vec<usize> = (0..told.len()).filter(|second| told[*second].is_some()).collect();
        assert_eq!(paused, (1..13 + 30).collect::<Vec<_>>());
        assert_eq!(told[1], Some(PauseReason::Battery));
    }

    #[test]
    fn a_busy_machine_has_two_limits() {
        let load = |load| Conditions { others_load: Some(load), ..CALM };
        let seen =
            [(load(0.9), 5), (load(0.1), 1), (load(0.6), 12), (load(0.4), 60), (load(0.3), 40)];
        let seen = seen.into_iter().flat_map(|(seen, seconds)| std::iter::repeat_n(seen, seconds));
        let told = told(&WISH, seen);
        let paused: Vec<usize> = (0..told.len()).filter(|second| told[*second].is_some()).collect();
        // Five seconds are too few; 40 % are above the lower limit of 35 %.
        assert_eq!(paused, (16..78 + 30).collect::<Vec<_>>());
    }

    #[test]
    fn a_game_on_the_card_holds_back_as_a_busy_processor_does() {
        let card = |load| Conditions { others_card_load: Some(load), ..CALM };
        let seen = [(card(0.9), 11), (card(0.0), 31)];
        let seen = seen.into_iter().flat_map(|(seen, seconds)| std::iter::repeat_n(seen, seconds));
        let told = told(&WISH, seen);
        assert_eq!((told[9], told[10]), (None, Some(PauseReason::Busy)));
        assert_eq!((told[40], told[41]), (Some(PauseReason::Busy), None));
    }

    #[test]
    fn what_the_machine_does_not_say_does_not_hold_back() {
        let silent = Conditions {
            on_battery: None,
            others_load: None,
            others_card_load: None,
            full_screen: None,
            minute_of_day: 0,
        };
        assert!(told(&WISH, vec![silent; 60]).iter().all(Option::is_none));
    }

    #[test]
    fn the_owner_comes_first_then_the_clock() {
        let all = Conditions { on_battery: Some(true), full_screen: Some(true), ..CALM };
        let hours: nook_store::QuietHours = "11:00-13:00".parse().unwrap();
        for (wish, expected) in [
            (PauseSettings { until: 1001, quiet_hours: Some(hours), ..WISH }, PauseReason::Owner),
            (
                PauseSettings { until: 1000, quiet_hours: Some(hours), ..WISH },
                PauseReason::QuietHours,
            ),
            (WISH, PauseReason::Battery),
            (PauseSettings { on_battery: false, ..WISH }, PauseReason::FullScreen),
        ] {
            assert_eq!(told(&wish, [all]), [Some(expected)]);
        }
    }

    #[test]
    fn a_sleep_holds_back_at_once_whatever_is_wished_and_its_end_lends_at_once() {
        let mut policy = PausePolicy::default();
        let now = nook_base::clock::now();
        let none = PauseSettings {
            on_battery: false,
            in_full_screen: false,
            when_busy_percent: None,
            ..WISH
        };
        assert_eq!(policy.weigh(now, 0, None, &none), None);
        policy.sleep_is_near();
        assert_eq!(policy.weigh(now, 0, None, &none), Some(PauseReason::Sleep));
        // Only the owner's own word stands before it, because that one outlasts the sleep.
        let drained = Conditions { on_battery: Some(true), ..CALM };
        assert_eq!(policy.weigh(now, 0, Some(&drained), &WISH), Some(PauseReason::Sleep));
        let asked = PauseSettings { until: 1, ..none };
        assert_eq!(policy.weigh(now, 0, None, &asked), Some(PauseReason::Owner));
        policy.sleep_is_over();
        assert_eq!(policy.weigh(now, 0, None, &none), None);
    }

    #[test]
    fn each_reason_of_the_machine_can_be_switched_off_by_its_setting() {
        use nook_store::testing::settings_with as with;

        let drained = Conditions { on_battery: Some(true), ..CALM };
        let filled = Conditions { full_screen: Some(true), ..CALM };
        for (leaf, seen, reason) in [
            ("on_battery", drained, PauseReason::Battery),
            ("in_full_screen", filled, PauseReason::FullScreen),
        ] {
            let key = format!("distributed_inference.host.pause.{leaf}");
            assert_eq!(told(&with(&key, true).host.pause, [seen]), [Some(reason)], "{key}");
            assert_eq!(told(&with(&key, false).host.pause, [seen]), [None], "{key}");
        }
    }

    #[test]
    fn a_wish_taken_back_counts_at_once() {
        let mut policy = PausePolicy::default();
        let now = nook_base::clock::now();
        let drained = Conditions { on_battery: Some(true), full_screen: Some(true), ..CALM };
        assert!(policy.weigh(now, 0, Some(&drained), &WISH).is_some());
        let none = PauseSettings { on_battery: false, in_full_screen: false, ..WISH };
        assert_eq!(policy.weigh(now, 0, None, &none), None);
    }
}
