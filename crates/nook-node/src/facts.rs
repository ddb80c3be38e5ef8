//! What this computer is and how it is, shown to its owner and told to the devices that are linked.
//!
//! A trusted device is told all of it. A guest, which takes part in nothing yet, is told the kind of
//! computer and nothing else. Whoever is not paired is told nothing.

use nook_api::views::{DeviceKind, FactsView, GpuView, PowerView};
use nook_base::FormFactor;
use nook_machine::Power;
use nook_trust::{DeviceName, TrustLevel};
use nook_wire::{DeviceFacts, FACTS_SINCE, PowerNow};

use crate::machine_seen::MachineSeen;
use crate::state::State;

impl State {
    /// All that is known of this computer.
    pub(crate) fn own_facts(&self) -> DeviceFacts {
        let MachineSeen { hardware, readings } = self.machine.borrow().clone();
        DeviceFacts {
            form: self.settings.settings().device.kind.or(hardware.form),
            processor: short(&hardware.processor),
            gpu: short(&best_gpu(&self.gpu_views())),
            memory_bytes: nook_resources::memory::memory_total(),
            power: readings.power.map(power_now),
            temperature: readings.temperature,
            weights_per_second: self.own_rate(),
        }
    }

    /// Tells each linked device what it may know of this one, where that has changed.
    pub(crate) fn tell_facts(&mut self) {
        let facts = self.own_facts();
        for peer in self.devices.peers().list() {
            let spoken = self.links.link(peer.id).map(|link| link.protocol());
            if spoken.is_some_and(|version| version >= FACTS_SINCE) {
                self.outbox.post_facts(peer.id, told_to(peer.level, &facts));
            }
        }
    }
}

/// What of `facts` a device of this level is told.
fn told_to(level: TrustLevel, facts: &DeviceFacts) -> DeviceFacts {
    if level >= TrustLevel::Trusted {
        return facts.clone();
    }
    DeviceFacts { form: facts.form, ..DeviceFacts::default() }
}

/// The card that computes most: one with memory of its own before one without.
fn best_gpu(gpus: &[GpuView]) -> String {
    let best = gpus.iter().max_by_key(|gpu| (!gpu.shares_memory, gpu.memory_bytes));
    best.map(|gpu| gpu.name.clone()).unwrap_or_default()
}

fn power_now(power: Power) -> PowerNow {
    match power {
        Power::Mains => PowerNow::Mains,
        Power::Battery { percent, is_drained: true } => PowerNow::Battery(percent),
        Power::Battery { percent, is_drained: false } => PowerNow::Charging(percent),
    }
}

/// A processor's or a card's name without what is the same in every one of them:
/// `Intel(R) Core(TM) i7-10700K CPU @ 3.80GHz` is `Intel Core i7-10700K`.
fn short(name: &str) -> String {
    let name = name.replace("(R)", "").replace("(TM)", "").replace("NVIDIA GeForce ", "");
    let name = name.split(" @ ").next().unwrap_or_default();
    let name = name.split(" with ").next().unwrap_or_default();
    let is_said = |word: &&str| {
        !matches!(*word, "CPU" | "Processor") && !word.ends_with("-Core") && !word.is_empty()
    };
    name.split(' ').filter(is_said).collect::<Vec<_>>().join(" ")
}

/// For front ends. What another device says is text from somebody else, and made safe to show.
pub(crate) fn facts_view(facts: &DeviceFacts) -> FactsView {
    let text = |text: &str| {
        (!text.trim().is_empty()).then(|| DeviceName::sanitised(text).as_str().to_owned())
    };
    let percent = |percent: u8| percent.min(100);
    FactsView {
        kind: facts.form.map(kind),
        processor: text(&facts.processor),
        gpu: text(&facts.gpu),
        memory_bytes: facts.memory_bytes,
        power: facts.power.map(|power| match power {
            PowerNow::Mains => PowerView::Mains,
            PowerNow::Charging(full) => PowerView::Charging { percent: percent(full) },
            PowerNow::Battery(full) => PowerView::Battery { percent: percent(full) },
        }),
        temperature: facts.temperature,
    }
}

fn kind(form: FormFactor) -> DeviceKind {
    match form {
        FormFactor::Laptop => DeviceKind::Laptop,
        FormFactor::Desktop => DeviceKind::Desktop,
        FormFactor::Tower => DeviceKind::Tower,
        FormFactor::Mini => DeviceKind::Mini,
        FormFactor::Server => DeviceKind::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> DeviceFacts {
        DeviceFacts {
            form: Some(FormFactor::Tower),
            processor: "AMD Ryzen 7 5800X".to_owned(),
            gpu: "RTX 4070".to_owned(),
            memory_bytes: Some(32 << 30),
            power: Some(PowerNow::Battery(64)),
            temperature: Some(61),
            weights_per_second: Some(30_000_000_000),
        }
    }

    #[test]
    fn a_guest_is_told_the_kind_of_computer_and_nothing_else() {
        for level in [TrustLevel::Trusted, TrustLevel::Own] {
            assert_eq!(told_to(level, &facts()), facts());
        }
        let kind = DeviceFacts { form: Some(FormFactor::Tower), ..DeviceFacts::default() };
        for level in [TrustLevel::Blocked, TrustLevel::Unknown, TrustLevel::Guest] {
            assert_eq!(told_to(level, &facts()), kind, "{level:?}");
        }
    }

    #[test]
    fn names_of_processors_are_short() {
        for (whole, expected) in [
            ("Intel(R) Core(TM) i7-10700K CPU @ 3.80GHz", "Intel Core i7-10700K"),
            ("AMD Ryzen 7 5800X 8-Core Processor", "AMD Ryzen 7 5800X"),
            (
                "AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
                "AMD Ryzen 7 7840U w/ Radeon 780M Graphics",
            ),
            ("AMD Ryzen 5 5500U with Radeon Graphics", "AMD Ryzen 5 5500U"),
            ("Apple M2", "Apple M2"),
            ("NVIDIA GeForce RTX 4070", "RTX 4070"),
            ("", ""),
        ] {
            assert_eq!(short(whole), expected);
        }
    }

    #[test]
    fn what_another_device_says_is_made_safe_and_what_it_does_not_say_is_absent() {
        let odd = DeviceFacts {
            gpu: "RTX\u{202e}\n4070".to_owned(),
            processor: "  ".to_owned(),
            power: Some(PowerNow::Charging(255)),
            ..DeviceFacts::default()
        };
        let view = facts_view(&odd);
        assert_eq!(view.gpu.as_deref(), Some("RTX 4070"));
        assert_eq!(view.processor, None);
        assert_eq!(view.power, Some(PowerView::Charging { percent: 100 }));
        assert_eq!(facts_view(&DeviceFacts::default()), FactsView::default());
    }
}
