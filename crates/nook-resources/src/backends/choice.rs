//! Which device answers sooner: a function of what was measured, and of nothing else.
//!
//! No name, maker or size of a card is looked at. What was not measured is not chosen.

use std::time::Duration;

use nook_plan::Line;

/// A usual reply: so many tokens in, so many out.
const TOKENS_IN: u64 = 200;
/// See [`TOKENS_IN`].
const TOKENS_OUT: u32 = 200;

/// A GPU is taken where a usual reply ends at least so much sooner, in percent of the CPU's time.
/// What is measured on a machine that people use differs by less from one time to the next.
const SOONER_PERCENT: u32 = 20;

/// How fast a device computes the layers of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// One token; the unit is a layer.
    pub decode: Line,
    /// A prompt; the unit is a layer and token.
    pub prefill: Line,
}

impl Pace {
    /// How long a usual reply takes over `layers`, without embedding and head, which both devices
    /// compute in addition.
    #[must_use]
    pub fn usual_reply(&self, layers: u32) -> Duration {
        let prompt = self.prefill.at(u64::from(layers).saturating_mul(TOKENS_IN));
        let tokens = self.decode.at(u64::from(layers)).saturating_mul(TOKENS_OUT);
        prompt.saturating_add(tokens)
    }

    /// Tokens of a usual reply in a second of it, prompt included.
    #[must_use]
    pub fn tokens_per_second(&self, layers: u32) -> f64 {
        f64::from(TOKENS_OUT) / self.usual_reply(layers).as_secs_f64().max(1e-9)
    }
}

/// A GPU that may compute a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) number: u32,
    pub(crate) pace: Pace,
    /// So many of the layers fit there; the CPU computes the others.
    pub(crate) layers: u32,
}

impl Candidate {
    /// How long a usual reply takes over `layers`: those that are there, and the others beside it.
    pub(crate) fn usual_reply(&self, cpu: &Pace, layers: u32) -> Duration {
        let there = self.layers.min(layers);
        match (there, layers - there) {
            (0, here) => cpu.usual_reply(here),
            (there, 0) => self.pace.usual_reply(there),
            (there, here) => self.pace.usual_reply(there).saturating_add(cpu.usual_reply(here)),
        }
    }
}

/// The device of `gpus` that is to compute a model of `layers`, as far as it fits there; `None`: the
/// CPU alone.
pub(crate) fn sooner(cpu: &Pace, gpus: &[Candidate], layers: u32) -> Option<u32> {
    let best = fastest(cpu, gpus, layers)?;
    let limit = cpu.usual_reply(layers).saturating_mul(100 - SOONER_PERCENT) / 100;
    (best.usual_reply(cpu, layers) <= limit).then_some(best.number)
}

/// The fastest of `gpus`; of equals the first.
pub(crate) fn fastest(cpu: &Pace, gpus: &[Candidate], layers: u32) -> Option<Candidate> {
    gpus.iter().copied().min_by_key(|gpu| (gpu.usual_reply(cpu, layers), gpu.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: u32 = 32;

    /// A card that has room for all layers.
    fn card(number: u32, pace: Pace) -> Candidate {
        Candidate { number, pace, layers: u32::MAX }
    }

    /// Takes so many microseconds for a layer of one token, and of a prompt's token.
    fn pace(decode: u64, prefill: u64) -> Pace {
        let line = |slope| Line { fixed: Duration::ZERO, slope: Duration::from_micros(slope) };
        Pace { decode: line(decode), prefill: line(prefill) }
    }

    #[test]
    fn the_slower_device_is_never_chosen() {
        let speeds = [1, 30, 79, 80, 81, 100, 120, 500];
        for decode in speeds {
            for prefill in speeds {
                for (other_decode, other_prefill) in [(90, 90), (20, 300), (300, 20)] {
                    let (cpu, gpu) = (pace(100, 100), pace(decode, prefill));
                    let other = pace(other_decode, other_prefill);
                    let chosen = sooner(&cpu, &[card(3, gpu), card(4, other)], LAYERS);
                    let time = |pace: &Pace| pace.usual_reply(LAYERS);
                    let best = time(&gpu).min(time(&other));
                    match chosen {
                        None => assert!(best.as_nanos() * 5 > time(&cpu).as_nanos() * 4),
                        Some(3) => assert!(time(&gpu) == best && best < time(&cpu)),
                        Some(_) => assert!(time(&other) == best && best < time(&cpu)),
                    }
                }
            }
        }
    }

    #[test]
    fn a_gpu_is_chosen_from_a_fifth_on() {
        let cpu = pace(100, 100);
        for (gpu, chosen) in [(79, Some(0)), (80, Some(0)), (81, None), (100, None), (200, None)] {
            assert_eq!(sooner(&cpu, &[card(0, pace(gpu, gpu))], LAYERS), chosen, "{gpu}");
        }
        assert_eq!(sooner(&cpu, &[], LAYERS), None, "what was not measured is not chosen");
    }

    #[test]
    fn fast_prompts_do_not_make_up_for_slow_tokens() {
        let cpu = pace(1_000, 200);
        // Ten times as fast at prompts, half as fast at tokens: an integrated GPU.
        assert_eq!(sooner(&cpu, &[card(0, pace(2_000, 20))], LAYERS), None);
        assert_eq!(sooner(&cpu, &[card(0, pace(900, 20))], LAYERS), Some(0));
    }

    #[test]
    fn what_each_step_costs_beside_its_layers_counts_in_small_models() {
        let cpu = pace(10, 10);
        let slow_to_start =
            Line { fixed: Duration::from_millis(1), slope: Duration::from_micros(1) };
        let gpu = Pace { decode: slow_to_start, prefill: slow_to_start };
        assert_eq!(sooner(&cpu, &[card(0, gpu)], 4), None);
        assert_eq!(sooner(&cpu, &[card(0, gpu)], 400), Some(0));
    }

    #[test]
    fn a_card_that_has_room_for_some_layers_is_chosen_for_what_those_gain() {
        let (cpu, fast) = (pace(100, 100), pace(10, 10));
        // A quarter of the layers on a card ten times as fast saves 22 %, a fifth saves 18 %.
        for (layers, chosen) in [(0, None), (6, None), (7, None), (8, Some(1)), (32, Some(1))] {
            let gpu = Candidate { number: 1, pace: fast, layers };
            assert_eq!(sooner(&cpu, &[gpu], LAYERS), chosen, "{layers}");
        }
        // A slower card with room for all of it does more than a faster one with room for a part.
        let part = Candidate { number: 1, pace: fast, layers: 16 };
        assert_eq!(sooner(&cpu, &[part, card(2, pace(40, 40))], LAYERS), Some(2));
        assert_eq!(sooner(&cpu, &[part, card(2, pace(60, 60))], LAYERS), Some(1));
    }
}
